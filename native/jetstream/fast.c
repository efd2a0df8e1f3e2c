/* fast.c: fast batches. A client publishes a stretch of messages at the pace that flow messages allow; one PubAck
 * ends it.
 *
 *   reply of each message:  <inbox>.<id>.<flow>.<gap>.<sequence>.<operation>.$FI        (tests/wire/jetstream.md)
 *
 *      1st message            flow message: seq 0, every M             begins the batch
 *      append                 flow message after every M messages      M moves towards what the client wants and what
 *                                                                      there is
 *      commit, commit-eob     PubAck with the batch's id and count     ends it; eob is not stored
 *      ping                   the last flow message again
 *
 *   gap or error:  gap = ok     the client gets a gap or error message, and the batch goes on
 *                  gap = fail   likewise, and the batch is committed with the messages before it
 *
 * Flow messages and PubAcks say what is stored, so they are held like every other acknowledgement: each is true on disk
 * when it leaves. A batch holds no messages, only positions; it ends after FAST_TIMEOUT_NS without a message.
 *
 * Not here: streams that several servers keep (fast_replicated.c), checks and the append itself (publish.c: js_take),
 * atomic batches (atomic.c).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "jetstream/fast_private.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/text.h"
#include "text/tokens.h"
#include "wire/emit.h"

#define FAST_PER_STREAM_MAX 1000u
#define FAST_TOTAL_MAX 50000u
#define FAST_FLOW_DEFAULT 10u
#define FAST_FLOW_MAX 65535u
#define FAST_FLOW_SHARED 500u /* messages between two flow messages, over all batches of a stream */

static const refusal_t refused_off = {400, 10205, "batch publish is disabled", {NULL, 0}, false};
static const refusal_t refused_pattern = {400, 10206, "batch publish pattern is invalid", {NULL, 0}, false};
static const refusal_t refused_id = {400, 10207, "batch publish ID is invalid", {NULL, 0}, false};
const refusal_t refused_fast_unknown = {400, 10208, "batch publish ID unknown", {NULL, 0}, false};
static const refusal_t refused_many = {429, 10211, "batch publish too many inflight", {NULL, 0}, false};

/* ---- the reply subject ------------------------------------------------------------------------------------------- */

bool js_in_fast_batch(bytes_t reply) {
    const bytes_t end = BYTES_LITERAL(".$FI");
    return reply.size > end.size && memcmp(reply.at + reply.size - end.size, end.at, end.size) == 0;
}

bool fast_word_read(bytes_t reply, fast_word_t *word) {
    bytes_t token;
    uint64_t number;
    if (!tokens_take_last(&reply, &token) || !tokens_take_last(&reply, &token) || !decimal_parse(token, &number)
        || number > FAST_PING) {
        return false;
    }
    word->operation = (fast_operation_t)number;
    if (!tokens_take_last(&reply, &token) || !decimal_parse(token, &word->seq) || word->seq == 0
        || word->seq == UINT64_MAX) {
        return false;
    }
    bool first = word->seq == 1;
    if ((word->operation == FAST_START && !first)
        || (first && (word->operation == FAST_APPEND || word->operation == FAST_COMMIT_EOB))) {
        return false;
    }
    if (!tokens_take_last(&reply, &token)) {
        return false;
    }
    word->gap_ok = bytes_equal(token, BYTES_LITERAL("ok"));
    if ((!word->gap_ok && !bytes_equal(token, BYTES_LITERAL("fail"))) || !tokens_take_last(&reply, &token)) {
        return false;
    }
    bool wanted = decimal_parse(token, &number) && number != 0;
    word->flow = !wanted ? FAST_FLOW_DEFAULT : number > FAST_FLOW_MAX ? FAST_FLOW_MAX : (uint32_t)number;
    return tokens_take_last(&reply, &word->id);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static text_t text_begin(void) {
    text_t text;
    text.size = 0;
    return text;
}

static void answer_now(js_t *js, const fast_batch_t *batch, bytes_t reply, const text_t *text) {
    (void)js_say(js, batch->open.stream->account, reply, BYTES_NONE, text_bytes(text));
}

static text_t flow_text(const fast_batch_t *batch, uint64_t seq) {
    text_t text = text_begin();
    text_add_literal(&text, "{\"type\":\"ack\",\"seq\":");
    text_add_number(&text, seq);
    text_add_literal(&text, ",\"msgs\":");
    text_add_number(&text, batch->every);
    text_add_literal(&text, "}");
    return text;
}

/* True on disk when it leaves: of several servers a majority has it by now. */
static void answer_then(js_t *js, const fast_batch_t *batch, bytes_t reply, const text_t *text) {
    if (batch->open.stream->replicated != NULL) {
        answer_now(js, batch, reply, text);
    } else {
        js_hold(js, batch->open.stream, reply, BYTES_NONE, text_bytes(text));
    }
}

void fast_answer_flow(js_t *js, const fast_batch_t *batch, bytes_t reply) {
    text_t text = flow_text(batch, batch->flow_seq);
    answer_then(js, batch, reply, &text);
}

void fast_answer_gap(js_t *js, const fast_batch_t *batch, bytes_t reply, uint64_t seq) {
    text_t text = text_begin();
    text_add_literal(&text, "{\"type\":\"gap\",\"last_seq\":");
    text_add_number(&text, batch->last_seq + 1);
    text_add_literal(&text, ",\"seq\":");
    text_add_number(&text, seq);
    text_add_literal(&text, "}");
    answer_now(js, batch, reply, &text);
}

static void answer_error(js_t *js, const fast_batch_t *batch, bytes_t reply, uint64_t seq, const refusal_t *refusal) {
    text_t text = text_begin();
    text_add_literal(&text, "{\"type\":\"err\",\"seq\":");
    text_add_number(&text, seq);
    text_add_literal(&text, ",");
    js_add_refusal(&text, refusal);
    text_add_literal(&text, "}");
    answer_now(js, batch, reply, &text);
}

static void fast_answer_end(js_t *js, const fast_batch_t *batch, bytes_t reply, uint64_t stream_seq, bool duplicate) {
    text_t text = text_begin();
    text_add(&text, batch->open.stream->ack_prefix);
    text_add_number(&text, stream_seq);
    text_add_literal(&text, duplicate ? ",\"duplicate\": true,\"batch\":\"" : ",\"batch\":\"");
    text_add_escaped(&text, open_batch_id(&batch->open));
    text_add_literal(&text, "\",\"count\":");
    text_add_number(&text, batch->last_seq);
    text_add_literal(&text, "}");
    answer_then(js, batch, reply, &text);
}

/* ---- the batches that are open ----------------------------------------------------------------------------------- */

void fast_drop(open_batches_t *batches, fast_batch_t *batch) {
    batch->open.stream->fast_count--;
    open_batch_remove(batches, &batch->open);
    buffer_free(&batch->reply);
    free(batch);
}

uint32_t fast_first_pace(const fast_batch_t *batch, uint32_t others) {
    uint32_t alone = batch->every_max < FAST_FLOW_SHARED ? batch->every_max : FAST_FLOW_SHARED;
    return others != 0 ? 1 : alone;
}

const refusal_t *fast_begin(js_t *js, stream_t *stream, const fast_word_t *word, fast_batch_t **out) {
    if (js->fast == NULL) {
        js->fast = open_batches_make();
    }
    open_batches_t *batches = js->fast;
    if (batches == NULL || stream->fast_count >= FAST_PER_STREAM_MAX || open_batches_count(batches) >= FAST_TOTAL_MAX) {
        return &refused_many;
    }
    fast_batch_t *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return &refused_many;
    }
    batch->token = random_next(&js->random);
    batch->gap_ok = word->gap_ok;
    batch->every_max = word->flow;
    batch->every = fast_first_pace(batch, stream->fast_count);
    buffer_init(&batch->reply, UINT16_MAX);
    open_batch_add(batches, &batch->open, stream, word->id, js->now->mono_ns + FAST_TIMEOUT_NS);
    stream->fast_count++;
    *out = batch;
    return NULL;
}

static const refusal_t *batch_for(js_t *js, stream_t *stream, const fast_word_t *word, fast_batch_t **out) {
    if (word->id.size > OPEN_BATCH_ID_MAX) {
        return &refused_id;
    }
    open_batch_t *open = open_batch_find(js->fast, stream, word->id);
    if (open == NULL) {
        return word->seq == 1 ? fast_begin(js, stream, word, out) : &refused_fast_unknown;
    }
    open_batch_heard(js->fast, open, js->now->mono_ns + FAST_TIMEOUT_NS);
    *out = (fast_batch_t *)open;
    return NULL;
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

/* Moves the pace by a factor of two at most towards the batch's share. */
static void fast_pace(fast_batch_t *batch) {
    uint32_t share = FAST_FLOW_SHARED / batch->open.stream->fast_count;
    share = share < 1 ? 1 : share > batch->every_max ? batch->every_max : share;
    if (batch->every < share) {
        batch->every = batch->every * 2 < share ? batch->every * 2 : share;
    } else if (batch->every > share) {
        batch->every = batch->every / 2 > share ? batch->every / 2 : share;
    }
}

/* Tells of the highest multiple that was reached, if one was. */
static bool fast_flow(js_t *js, fast_batch_t *batch, bytes_t reply) {
    uint64_t ahead = batch->last_seq - batch->flow_seq;
    if (ahead < batch->every) {
        return false;
    }
    batch->flow_seq += ahead - ahead % batch->every;
    fast_pace(batch);
    fast_answer_flow(js, batch, reply);
    return true;
}

static void fast_end(js_t *js, fast_batch_t *batch, bytes_t reply) {
    fast_answer_end(js, batch, reply, batch->stream_seq, false);
    fast_drop(js->fast, batch);
}

void fast_ping(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply) {
    if (word->seq > batch->last_seq) {
        fast_answer_gap(js, batch, reply, word->seq + 1);
        if (!batch->gap_ok) {
            fast_end(js, batch, reply);
            return;
        }
        batch->last_seq = word->seq;
        if (fast_flow(js, batch, reply)) {
            return;
        }
    }
    fast_answer_flow(js, batch, reply);
}

static void fast_refused(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply,
                         const refusal_t *refusal) {
    if (!batch->gap_ok && word->seq == 1) {
        js_answer_refused(js, batch->open.stream, reply, refusal);
        fast_drop(js->fast, batch);
        return;
    }
    answer_error(js, batch, reply, word->seq, refusal);
    if (batch->gap_ok && word->operation != FAST_COMMIT) {
        return;
    }
    batch->last_seq--;
    fast_end(js, batch, reply);
}

bool fast_ends(const fast_batch_t *batch, const fast_word_t *word, uint64_t next) {
    return word->seq < next || (word->seq > next && !batch->gap_ok);
}

void fast_settle(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply,
                 const publish_result_t *result) {
    batch->last_seq = word->seq;
    if (word->seq == 1 && word->operation != FAST_COMMIT && (batch->open.stream->config.flags & STREAM_NO_ACK) == 0) {
        text_t text = flow_text(batch, 0); /* says nothing of the disk, and the client waits for it */
        answer_now(js, batch, reply, &text);
    }
    if (result->outcome != OUTCOME_TAKEN) {
        fast_refused(js, batch, word, reply, &result->refusal);
        return;
    }
    if (js_rolls_on(result)) {
        js_roll(js, batch->open.stream, &result->appended, result->ends, BYTES_NONE);
    }
    bool duplicate = result->appended.verdict == APPEND_DUPLICATE;
    if (duplicate && word->operation == FAST_COMMIT && word->seq == 1 && !batch->gap_ok) {
        fast_answer_end(js, batch, reply, result->appended.seq, true);
        fast_drop(js->fast, batch);
    } else {
        batch->stream_seq = duplicate ? batch->stream_seq : result->appended.seq;
        if (word->operation == FAST_COMMIT) {
            fast_end(js, batch, reply);
        } else {
            (void)fast_flow(js, batch, reply);
        }
    }
}

void fast_close(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply) {
    uint64_t next = batch->last_seq + 1;
    if (word->seq != next) {
        fast_answer_gap(js, batch, reply, word->seq);
    }
    bool ends = fast_ends(batch, word, next);
    batch->last_seq = ends ? batch->last_seq : word->seq - 1;
    fast_end(js, batch, reply);
}

/* Nothing is said and no position moves before it is known what becomes of the message: until then it comes again. */
static void fast_append(js_t *js, fast_batch_t *batch, const fast_word_t *word, const message_t *message) {
    uint64_t next = batch->last_seq + 1;
    publish_result_t result;
    if (fast_ends(batch, word, next) || word->operation == FAST_COMMIT_EOB) {
        fast_close(js, batch, word, message->reply);
        return;
    }
    js_take(js, batch->open.stream, message, PUBLISHER_FAST, &result);
    if (LEAF_UNLIKELY(result.outcome == OUTCOME_LATER)) {
        js_later(js, batch->open.stream, message);
        return;
    }
    if (word->seq != next) {
        fast_answer_gap(js, batch, message->reply, word->seq);
    }
    fast_settle(js, batch, word, message->reply, &result);
}

/* ---- a message and its batch ------------------------------------------------------------------------------------- */

bool js_fast(js_t *js, stream_t *stream, const message_t *message, bytes_t said) {
    fast_word_t word;
    fast_batch_t *batch = NULL;
    const refusal_t *refusal = js_refused_outright(stream, message);
    if (refusal == NULL && (stream->config.flags & STREAM_ALLOW_BATCHED) == 0) {
        refusal = &refused_off;
    }
    if (refusal == NULL && !fast_word_read(said, &word)) {
        refusal = &refused_pattern;
    }
    /* Before its batch hears of it, which is where it was. */
    if (refusal == NULL && word.operation < FAST_COMMIT_EOB
        && store_stream_lacks(stream->store, message->subject, message->header, message->payload)) {
        refusal = &refused_account;
    }
    if (refusal == NULL) {
        refusal = batch_for(js, stream, &word, &batch);
    }
    if (refusal != NULL) {
        js_answer_refused(js, stream, message->reply, refusal);
    } else if (stream->replicated != NULL) {
        return fast_ask(js, batch, &word, message, said);
    } else if (word.operation == FAST_PING) {
        fast_ping(js, batch, &word, message->reply);
    } else {
        fast_append(js, batch, &word, message);
    }
    return true;
}

/* ---- time and the end -------------------------------------------------------------------------------------------- */

void js_fast_chores(js_t *js) {
    if (js->fast == NULL) {
        return;
    }
    while (js->fast->oldest != NULL && js->fast->oldest->deadline_ns <= js->now->mono_ns) {
        fast_drop(js->fast, (fast_batch_t *)js->fast->oldest);
    }
}

void js_fast_forget(js_t *js, const stream_t *stream) {
    open_batch_t *next = stream->fast_count != 0 ? js->fast->oldest : NULL;
    for (open_batch_t *batch; (batch = next) != NULL;) {
        next = batch->newer;
        if (batch->stream == stream) {
            fast_drop(js->fast, (fast_batch_t *)batch);
        }
    }
}
