/* lines.h: input of the protocols whose operations are lines of text, and what they say alike. */
#ifndef LEAFD_VERBS_LINES_H
#define LEAFD_VERBS_LINES_H

#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

typedef struct peer peer_t;

uint32_t lines_input(plane_t *plane, peer_t *peer, bytes_t input);
LEAF_MUST_USE status_t lines_ping(buffer_t *out);

#endif
