/* fast_replicated.c: fast batches (fast.c) into streams that several servers keep.
 *
 *     who leads        each message is an entry of the log, and its batch hears what became of it, in their order, when
 *                      it is applied
 *     other members    follow the batch by the words that the entry has
 *     who leads next   goes on with it behind what was applied, and tells the publisher so
 *
 * Until an entry is applied `ahead_seq` is where the batch is going to be. Where a message may be refused, and that
 * ends the batch, none comes behind it before that is known: it would be stored. What ends a batch and is no message
 * (a gap, a commit that stores nothing) is in no entry, so others forget it when it was silent for long.
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "jetstream/fast_private.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"

/* ---- what is asked of the log ------------------------------------------------------------------------------------ */

/* What was asked for, before the batch's id and the reply. */
typedef struct fast_asked {
    uint64_t token;
    uint64_t seq;
    uint8_t operation;
    uint8_t id_size;
    bool stores;
    bool blocks;
} fast_asked_t;

/* words, where they are wanted: what the other members are told, the word and where its reply is another one a blank
 * and that. */
static bytes_t asked_bytes(js_t *js, const fast_batch_t *batch, const fast_asked_t *asked, bytes_t reply, bytes_t said,
                           bytes_t *words) {
    bytes_t id = open_batch_id(&batch->open);
    uint64_t size = sizeof *asked + (uint64_t)id.size + reply.size;
    uint8_t *at;
    js->counted.size = 0;
    if (buffer_reserve(&js->counted, size + said.size + 1 + reply.size, &at) != STATUS_OK) {
        return BYTES_NONE;
    }
    memcpy(at, asked, sizeof *asked);
    uint8_t *behind = bytes_write(bytes_write(at + sizeof *asked, id), reply);
    uint8_t *end = bytes_write(behind, said);
    if (!bytes_equal(said, reply)) {
        *end = ' ';
        end = bytes_write(end + 1, reply);
    }
    *words = bytes_of(behind, (uint32_t)(end - behind));
    return bytes_of(at, (uint32_t)size);
}

/* A message that the batch's publisher is told to be refused, or that stores nothing. Nothing of the batch is on its
 * way. */
static void fast_say(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply, const refusal_t *refusal) {
    publish_result_t result = {.outcome = OUTCOME_REFUSED};
    if (refusal != NULL) {
        if (word->seq != batch->last_seq + 1) {
            fast_answer_gap(js, batch, reply, word->seq);
        }
        result.refusal = *refusal;
        fast_settle(js, batch, word, reply, &result);
    } else if (word->operation == FAST_PING) {
        fast_ping(js, batch, word, reply);
    } else {
        fast_close(js, batch, word, reply);
    }
}

/* Where the batch is going to be behind that. */
static void fast_go_on(fast_batch_t *batch, const fast_word_t *word, bool stores) {
    bool pings = word->operation == FAST_PING;
    bool gap = word->seq > batch->ahead_seq + (pings ? 0 : 1);
    batch->closing = (stores ? word->operation == FAST_COMMIT : !pings) || (gap && !batch->gap_ok);
    batch->ahead_seq = word->seq > batch->ahead_seq ? word->seq : batch->ahead_seq;
}

static void fast_go_back(fast_batch_t *batch, const fast_batch_t *before) {
    batch->ahead_seq = before->ahead_seq;
    batch->flying = before->flying;
    batch->blocked = before->blocked;
    batch->closing = before->closing;
}

/* May something but a duplicate come of it when it is applied? */
static bool may_be_refused(const stream_t *stream, const append_t *append) {
    return append->has_expected_last_seq || append->has_expected_subject_seq || append->has_expected_msg_id
           || append->rollup != 0 || stream->config.discard == 1 || (stream->config.flags & STREAM_COUNTER) != 0;
}

static bool fast_propose(js_t *js, fast_batch_t *batch, const fast_word_t *word, const message_t *message,
                         bytes_t said) {
    stream_t *stream = batch->open.stream;
    intake_t intake;
    const refusal_t *refusal = js_refused_outright(stream, message);
    refusal = intake_begin(js, stream, message, PUBLISHER_FAST, refusal, &intake);
    fast_asked_t asked = {.token = batch->token,
                          .seq = word->seq,
                          .operation = (uint8_t)word->operation,
                          .id_size = (uint8_t)batch->open.name.name.size,
                          .stores = true,
                          .blocks = may_be_refused(stream, &intake.append) && !batch->gap_ok};
    if (batch->blocked || (refusal != NULL && batch->flying > 0)) {
        return false;
    }
    const fast_batch_t before = *batch;
    fast_go_on(batch, word, true);
    if (refusal == NULL) {
        bytes_t words = BYTES_NONE;
        bytes_t bytes = asked_bytes(js, batch, &asked, message->reply, said, &words);
        batch->flying++; /* it may be applied at once, and end the batch */
        batch->blocked = asked.blocks;
        status_t status = bytes.size > 0 ? replicated_fast(js, stream, &intake.append, bytes, words) : STATUS_AGAIN;
        if (status == STATUS_OK) {
            return true;
        }
        fast_go_back(batch, &before);
        if ((status != STATUS_INVALID && status != STATUS_NO_SPACE) || batch->flying > 0) {
            return false;
        }
        fast_go_on(batch, word, true);
        refusal = status == STATUS_INVALID ? &refused_size : &refused_space;
    }
    fast_say(js, batch, word, message->reply, refusal);
    return true;
}

/* What stores nothing is said behind all that was asked for before. */
static bool fast_ride(js_t *js, fast_batch_t *batch, const fast_word_t *word, bytes_t reply) {
    const fast_asked_t asked = {.token = batch->token,
                                .seq = word->seq,
                                .operation = (uint8_t)word->operation,
                                .id_size = (uint8_t)batch->open.name.name.size};
    if (batch->flying > 0) {
        bytes_t words;
        bytes_t bytes = asked_bytes(js, batch, &asked, reply, BYTES_NONE, &words);
        if (bytes.size == 0 || replicated_ride_fast(batch->open.stream, bytes) != STATUS_OK) {
            return false;
        }
        batch->flying++; /* it may ride on another one's, behind the last of this batch */
        fast_go_on(batch, word, false);
        return true;
    }
    fast_go_on(batch, word, false);
    fast_say(js, batch, word, reply, NULL);
    return true;
}

bool fast_ask(js_t *js, fast_batch_t *batch, const fast_word_t *word, const message_t *message, bytes_t said) {
    if (batch->closing) {
        if (word->seq == 1) {
            return false; /* of the next one with that name */
        }
        js_answer_refused(js, batch->open.stream, message->reply, &refused_fast_unknown);
        return true;
    }
    bool stores = word->operation < FAST_COMMIT_EOB && !fast_ends(batch, word, batch->ahead_seq + 1);
    if (!stores) {
        return fast_ride(js, batch, word, message->reply);
    }
    return fast_propose(js, batch, word, message, said);
}

/* ---- what became of it ------------------------------------------------------------------------------------------- */

/* Its refusal may have words in the result itself. */
static void result_take(publish_result_t *result, const appended_t *appended) {
    *result = (publish_result_t){.outcome = OUTCOME_TAKEN, .appended = *appended};
    append_verdict_t verdict = appended->verdict;
    if (verdict != APPEND_STORED && verdict != APPEND_DUPLICATE && verdict != APPEND_SKIPPED) {
        js_name_verdict(result);
    }
}

/* Where who leads next speaks to its publisher. Without memory it does not. */
static void note_reply(fast_batch_t *batch, bytes_t reply) {
    batch->reply.size = 0;
    if (buffer_append(&batch->reply, reply.at, reply.size) != STATUS_OK) {
        batch->reply.size = 0;
    }
}

/* The batch that it was asked for, if that is still open. */
static fast_batch_t *asked_read(const js_t *js, const stream_t *stream, bytes_t bytes, fast_asked_t *asked,
                                fast_word_t *word, bytes_t *reply) {
    memcpy(asked, bytes.at, sizeof *asked);
    *reply = bytes_after(bytes, (uint32_t)sizeof *asked + asked->id_size);
    *word = (fast_word_t){.id = bytes_of(bytes.at + sizeof *asked, asked->id_size),
                          .seq = asked->seq,
                          .operation = (fast_operation_t)asked->operation};
    fast_batch_t *batch = (fast_batch_t *)open_batch_find(js->fast, stream, word->id);
    return batch != NULL && batch->token == asked->token ? batch : NULL;
}

void js_fast_applied(js_t *js, stream_t *stream, bytes_t bytes, const appended_t *appended) {
    fast_asked_t asked;
    fast_word_t word;
    bytes_t reply;
    fast_batch_t *batch = asked_read(js, stream, bytes, &asked, &word, &reply);
    if (batch == NULL) {
        if (!asked.stores) {
            js_answer_refused(js, stream, reply, &refused_fast_unknown); /* it has ended since */
        }
        return;
    }
    batch->flying--;
    if (!asked.stores) {
        fast_say(js, batch, &word, reply, NULL);
        return;
    }
    publish_result_t result;
    result_take(&result, appended);
    note_reply(batch, reply);
    batch->blocked = batch->blocked && !asked.blocks;
    if (word.seq != batch->last_seq + 1) {
        fast_answer_gap(js, batch, reply, word.seq);
    }
    fast_settle(js, batch, &word, reply, &result);
}

/* ---- other members, and the next leader -------------------------------------------------------------------------- */

/* Nothing of it is on its way. */
static void fast_rest(fast_batch_t *batch) {
    batch->flying = 0;
    batch->blocked = batch->closing = false;
    batch->ahead_seq = batch->last_seq;
}

void js_fast_lost(js_t *js, const stream_t *stream, bytes_t bytes) {
    fast_asked_t asked;
    fast_word_t word;
    bytes_t reply;
    fast_batch_t *batch = asked_read(js, stream, bytes, &asked, &word, &reply);
    if (batch != NULL) {
        fast_rest(batch); /* all that it had on its way is lost with the lead */
    }
}

void js_fast_followed(js_t *js, stream_t *stream, bytes_t words, const appended_t *appended) {
    const uint8_t *blank = words.size > 0 ? memchr(words.at, ' ', words.size) : NULL;
    bytes_t said = blank != NULL ? bytes_of(words.at, (uint32_t)(blank - words.at)) : words;
    bytes_t reply = blank != NULL ? bytes_after(words, said.size + 1) : words;
    fast_word_t word;
    if (!fast_word_read(said, &word) || word.id.size > OPEN_BATCH_ID_MAX) {
        return; /* of a leader that lies */
    }
    fast_batch_t *batch = (fast_batch_t *)open_batch_find(js->fast, stream, word.id);
    if (batch != NULL && word.seq == 1) {
        fast_drop(js->fast, batch);
        batch = NULL;
    }
    if (batch == NULL && fast_begin(js, stream, &word, &batch) != NULL) {
        return; /* one too many, which who leads next does not know */
    }
    publish_result_t result;
    result_take(&result, appended);
    bool refused = result.outcome != OUTCOME_TAKEN;
    if (word.operation == FAST_COMMIT || (refused && !batch->gap_ok)) {
        fast_drop(js->fast, batch);
        return;
    }
    open_batch_heard(js->fast, &batch->open, js->now->mono_ns + FAST_TIMEOUT_NS);
    batch->last_seq = word.seq;
    batch->stream_seq = refused || appended->verdict == APPEND_DUPLICATE ? batch->stream_seq : appended->seq;
    fast_rest(batch);
    note_reply(batch, reply);
}

static void fast_take_over(js_t *js, fast_batch_t *batch) {
    fast_rest(batch);
    batch->every = fast_first_pace(batch, batch->open.stream->fast_count - 1);
    batch->flow_seq = batch->last_seq;
    open_batch_heard(js->fast, &batch->open, js->now->mono_ns + FAST_TIMEOUT_NS);
    if (batch->reply.size > 0) {
        fast_answer_flow(js, batch, bytes_of(batch->reply.at, (uint32_t)batch->reply.size));
    }
}

void js_fast_lead(js_t *js, const stream_t *stream) {
    open_batch_t *last = stream->fast_count != 0 ? js->fast->newest : NULL; /* those that are heard go behind it */
    open_batch_t *next = last != NULL ? js->fast->oldest : NULL;
    for (open_batch_t *batch; (batch = next) != NULL;) {
        next = batch != last ? batch->newer : NULL;
        if (batch->stream == stream) {
            fast_take_over(js, (fast_batch_t *)batch);
        }
    }
}
