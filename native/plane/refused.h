/* refused.h: what a client was refused goes to control, for the log; refused.c bounds how often. */
#ifndef LEAFD_PLANE_REFUSED_H
#define LEAFD_PLANE_REFUSED_H

#include "base/abi_types.h"
#include "base/bytes.h"

#define SHOWN_BYTES 32u /* of input that is no protocol, in the log */

/* Fields that do not apply are empty. */
typedef struct violation {
    uint32_t code; /* REFUSED_* */
    bytes_t subject;
    bytes_t queue;
    bytes_t sid;
    uint64_t size;
} violation_t;

/* A connection's: what was told since the window began, and what was not since one was told. */
typedef struct refusals {
    int64_t since_ns;
    uint32_t told;
    uint64_t left_out;
} refusals_t;

struct plane;
struct peer;

void peer_refused(struct plane *plane, struct peer *peer, const violation_t *what);

#endif
