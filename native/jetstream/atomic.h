/* atomic.h: an atomic batch, between the file that collects it (atomic.c) and the one that stores it
 * (atomic_commit.c).
 */
#ifndef LEAFD_JETSTREAM_ATOMIC_H
#define LEAFD_JETSTREAM_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "jetstream/open_batches.h"
#include "jetstream/publish.h"
#include "text/decimal.h"

/* A message in atomic_batch_t.staged: this, then the bytes of each. */
typedef struct staged {
    uint32_t subject;
    uint32_t header;
    uint32_t payload;
} staged_t;

typedef struct atomic_batch {
    open_batch_t open;
    uint64_t last_seq; /* of the batch: its last sequence so far */
    uint64_t need;     /* of the store's batch, about */
    uint32_t count;    /* messages in staged */
    buffer_t staged;
} atomic_batch_t;

/* A refusal with a detail that is made for it. */
typedef struct atomic_refusal {
    bool waits; /* of a commit: what is refused may be possible soon, if it is tried again */
    refusal_t refusal;
    uint8_t text[DECIMAL_MAX + 8];
    publish_result_t result;
} atomic_refusal_t;

/* Stores all of the batch's messages and answers, or says why not. before: the last one gets the mark of a commit. The
 * refusal may be in room; room->waits: there is no room, but there will be, or the store is looking; so call again. */
const refusal_t *atomic_commit(js_t *js, const atomic_batch_t *batch, bool before, bytes_t reply,
                               atomic_refusal_t *room);

/* ---- of a stream that several servers keep ----------------------------------------------------------------------- */

/* What is asked of its log: the batch as an entry, in packed, if nothing but the stream's state can refuse it. */
const refusal_t *atomic_pack(js_t *js, const atomic_batch_t *batch, bool before, buffer_t *packed,
                             atomic_refusal_t *room);
/* The batch has been applied, or refused then. */
void atomic_answer_applied(js_t *js, const stream_t *stream, bytes_t reply, bytes_t id, uint32_t count,
                           const appended_t *appended);
/* The batch that was packed goes into the log, and its publisher is answered when it has been applied. STATUS_AGAIN:
 * there is no room. STATUS_CLOSED: this server does not lead. */
LEAF_MUST_USE status_t replicated_batch(js_t *js, const stream_t *stream, bytes_t packed, bytes_t id, uint32_t count,
                                        bytes_t reply);
const refusal_t *atomic_too_large(atomic_refusal_t *room, uint64_t most, bool bytes);

#endif
