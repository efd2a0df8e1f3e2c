/* fast_private.h: a fast batch, for the files that make it: fast.c, which has its protocol and those of a lone server,
 * and fast_replicated.c, which has those of streams that several servers keep.
 */
#ifndef LEAFD_JETSTREAM_FAST_PRIVATE_H
#define LEAFD_JETSTREAM_FAST_PRIVATE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "jetstream/open_batches.h"
#include "jetstream/publish.h"

#define FAST_TIMEOUT_NS (10 * NS_PER_SECOND)

typedef enum fast_operation { FAST_START = 0, FAST_APPEND, FAST_COMMIT, FAST_COMMIT_EOB, FAST_PING } fast_operation_t;

/* The words of a reply subject. */
typedef struct fast_word {
    bytes_t id;
    uint64_t seq;
    uint32_t flow;
    fast_operation_t operation;
    bool gap_ok;
} fast_word_t;

typedef struct fast_batch {
    open_batch_t open;
    uint64_t last_seq;   /* of the batch: its last sequence so far */
    uint64_t stream_seq; /* of the last one stored */
    uint64_t flow_seq;   /* of the batch: the sequence in the last flow message */
    uint32_t every;      /* a flow message after so many */
    uint32_t every_max;  /* as many as the client wants */
    bool gap_ok;
    /* of a stream that several servers keep */
    uint64_t token;     /* another one for each batch */
    uint64_t ahead_seq; /* of the batch: of what was asked for last */
    uint32_t flying;    /* what was asked for, and has not become anything yet */
    bool blocked;       /* .. of which something may end it */
    bool closing;       /* .. of which the last one ends it */
    buffer_t reply;     /* of the last message that was applied */
} fast_batch_t;

extern const refusal_t refused_fast_unknown; /* 10208 */

/* fast.c */
/* false: not of that form. */
bool fast_word_read(bytes_t reply, fast_word_t *word);
void fast_drop(open_batches_t *batches, fast_batch_t *batch);
const refusal_t *fast_begin(js_t *js, stream_t *stream, const fast_word_t *word, fast_batch_t **out);
void fast_answer_flow(js_t *js, const fast_batch_t *batch, bytes_t reply);
void fast_answer_gap(js_t *js, const fast_batch_t *batch, bytes_t reply, uint64_t seq);
void fast_ping(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply);
/* next: of the batch, the sequence that comes next. */
bool fast_ends(const fast_batch_t *batch, const fast_word_t *word, uint64_t next);
/* A message that nothing but the stream can refuse: it moves the batch on, whatever comes of it. */
void fast_settle(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply, const publish_result_t *result);
/* A message that is not to be stored: it ends the batch, which has those before it. */
void fast_close(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply);
/* The pace that a batch begins with, where so many others are open. */
uint32_t fast_first_pace(const fast_batch_t *batch, uint32_t others);

/* fast_replicated.c */
/* js_fast of a batch that is open. said: the message's word as it came. */
bool fast_ask(js_t *js, fast_batch_t *batch, const fast_word_t *word, const message_t *message, bytes_t said);

#endif
