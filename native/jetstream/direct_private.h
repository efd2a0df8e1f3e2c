/* direct_private.h: a direct get under way, which direct.c begins and answers, and for which direct_last.c finds the
 * last message of each of many subjects. Nobody else includes this.
 */
#ifndef LEAFD_JETSTREAM_DIRECT_PRIVATE_H
#define LEAFD_JETSTREAM_DIRECT_PRIVATE_H

#include "jetstream/direct_request.h"
#include "jetstream/job.h"
#include "jetstream/stream.h"
#include "store/store.h"

#define DIRECT_SEND_BYTES (1u << 20) /* in one step */
#define DIRECT_BUSY "503 Insufficient Resources"

typedef enum direct_stage {
    DIRECT_SINGLE = 0,
    DIRECT_FIRST, /* a batch's first message */
    DIRECT_COUNT,
    DIRECT_SEND,
    DIRECT_WALK,   /* the subjects of multi_last */
    DIRECT_BEFORE, /* those whose last is behind up_to */
    DIRECT_SEND_MULTI,
} direct_stage_t;

typedef struct last_seqs last_seqs_t;

typedef struct direct {
    js_t *js;
    stream_t *stream;
    bytes_t reply;
    direct_stage_t stage;
    search_t search;
    store_tally_t *tally;
    uint64_t upto;
    uint64_t sent;
    uint64_t bytes;
    uint64_t pending;
    uint64_t last_seq;
    bool early; /* of what is sent, not all is on disk yet */
    last_seqs_t *multi;
    direct_request_t asked;
} direct_t;

typedef struct batch_place {
    uint64_t pending;
    uint64_t last_seq;
} batch_place_t;

/* ---- direct.c ---------------------------------------------------------------------------------------------------- */
bool direct_crowded(const direct_t *direct); /* as much waits for the disk as may */
void direct_answer_status(const direct_t *direct, const char *status);
/* The stored headers, then ours. place: the two further fields of a batch, or NULL. */
bool direct_answer_message(const direct_t *direct, const stored_message_t *message, const batch_place_t *place);
bool direct_is_over(const direct_t *direct, const char *status); /* true; status NULL: it is answered */
bool direct_end_batch(const direct_t *direct);                   /* true: the end is told */
uint64_t direct_bytes_bound(const direct_t *direct);
/* The first message at or behind that time, as far as needed: what is below is older, and all of it. */
LEAF_MUST_USE status_t direct_first_at(const direct_t *direct, int64_t ts, uint64_t *seq);

/* ---- direct_last.c ----------------------------------------------------------------------------------------------- */
LEAF_MUST_USE status_t direct_last_begin(direct_t *direct); /* but for STATUS_OK it is to be ended all the same */
void direct_last_end(last_seqs_t *all);                     /* NULL is fine */
bool direct_step_walk(direct_t *direct);
bool direct_step_before(direct_t *direct);
bool direct_step_send_multi(direct_t *direct);

#endif
