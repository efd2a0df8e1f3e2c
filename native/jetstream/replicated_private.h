/* replicated_private.h: a stream that several servers keep, for the files that make it: replicated.c, which has what
 * waits for the log and its consumers, and replicated_group.c, which has what is asked of the group and the definition.
 */
#ifndef LEAFD_JETSTREAM_REPLICATED_PRIVATE_H
#define LEAFD_JETSTREAM_REPLICATED_PRIVATE_H

#include "base/buffer.h"
#include "group/replica.h"
#include "jetstream/js.h"
#include "jetstream/queued.h"
#include "jetstream/replicated.h"

typedef enum asked_what {
    ASKED_PUBLISH = 1,
    ASKED_DELETE,
    ASKED_PURGE,
    ASKED_ACK,
    ASKED_DONE,
    ASKED_DEFINE
} asked_what_t;

/* In `asked`: this, then a client's reply or a plane_command_t; of ASKED_DONE also its answer, arg (8) and payload. */
typedef struct asked {
    uint64_t token;
    uint32_t what; /* ASKED_* */
    uint32_t size;
} asked_t;

struct replicated {
    js_t *js;
    stream_t *stream;
    replica_t *replica;
    group_t *group;   /* NULL: STREAM_GROUP has not come */
    bytes_t subjects; /* own copy, packed */
    bool leads;       /* and listens */
    int64_t listen_ns;
    queued_t queued; /* what is published while the log has no room */
    buffer_t asked;  /* what waits for an answer of the log, in the order of the tokens .. */
    uint64_t asked_at;
    uint64_t token;
    replicated_t *next;
    replicated_t **place;
};

/* replicated.c */
/* A command; the token to propose with, 0: it is answered. */
uint64_t replicated_begin(js_t *js, const plane_command_t *command, replicated_t *replicated, asked_what_t what,
                          plane_command_t *kept, bytes_t *bytes);
void replicated_proposed(js_t *js, const plane_command_t *command, replicated_t *replicated, bytes_t bytes,
                         status_t status);
/* EVENT_LED. false: there is no memory. */
bool replicated_tell(const replicated_t *replicated, uint32_t code, uint32_t consumer, bytes_t definition);

/* replicated_group.c */
/* replica_hooks_t's. */
bool replicated_define(void *context, bytes_t definition);

#endif
