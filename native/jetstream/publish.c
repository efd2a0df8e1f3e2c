/* publish.c: a message that a client publishes into a stream: its headers read once, appended, acknowledged when
 * durable.
 *
 *     js_take: headers ("Nats-" fields only) > checks > store_append
 *     js_publish: js_take > PubAck or error        (fast.c: what a fast batch answers)
 *                              |
 *                              +-- held under the open batch's number (held.h)
 *
 * Order of checks and texts: tests/wire/jetstream.md, "Publishing". Not here: what headers mean
 * (intake.c), limits, dedupe, sequences (store/), batches (fast.c, atomic.c), what mirrors and sources take in
 * (ingest.c).
 */
#include <string.h>

#include "jetstream/publish.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "exchange/held.h"
#include "jetstream/counter.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/lazy.h"
#include "store/retention.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/text.h"
#include "wire/emit.h"

#define DETAIL_MAX 1024u /* bytes of a header that a refusal shows */

static const refusal_t refused_sealed = {400, 10109, "invalid operation on sealed stream", {NULL, 0}, false};
const refusal_t refused_size = {400, 10054, "message size exceeds maximum allowed", {NULL, 0}, false};
static const refusal_t refused_subject = {400, 10003, "bad request: message subject is not valid", {NULL, 0}, false};
const refusal_t refused_header = {400, 10097, "header size exceeds maximum allowed of 64k", {NULL, 0}, false};
const refusal_t refused_no_rollup = {500, 10111, "rollup not permitted", {NULL, 0}, false};
static const refusal_t refused_last_seq = {400, 10071, "wrong last sequence: ", {NULL, 0}, false};
static const refusal_t refused_last_msg_id = {400, 10070, "wrong last msg ID: ", {NULL, 0}, false};
const refusal_t refused_space = {503, 10023, "insufficient resources", {NULL, 0}, false};
const refusal_t refused_crowded = {429, 10167, "too many requests", {NULL, 0}, false};
const refusal_t refused_account = {400, 10002, "resource limits exceeded for account", {NULL, 0}, false};
static const refusal_t refused_messages = {503, 10077, "maximum messages exceeded", {NULL, 0}, false};
static const refusal_t refused_bytes = {503, 10077, "maximum bytes exceeded", {NULL, 0}, false};
static const refusal_t refused_stopped = {503, 10077, "the stream is damaged and takes no writes", {NULL, 0}, false};
static const refusal_t refused_subject_full = {503, 10077, "maximum messages per subject exceeded", {NULL, 0}, false};

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static status_t hold(js_t *js, const stream_t *stream, uint32_t flags, bytes_t subject, bytes_t header,
                     bytes_t payload) {
    uint64_t batch = store_batch(js->stores[stream->which_store]);
    store_hurry(js->stores[stream->which_store]);
    return held_message(&js->held[stream->which_store], batch, stream->account->id, flags, subject, BYTES_NONE, header,
                        payload);
}

status_t js_try_hold(js_t *js, const stream_t *stream, bytes_t subject, bytes_t payload) {
    return hold(js, stream, js->host->answer_flags, subject, BYTES_NONE, payload);
}

/* Without memory for it the publisher gets no ack and sends again: nothing is lost, nothing is claimed. */
void js_hold(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    (void)hold(js, stream, js->host->answer_flags, subject, header, payload);
}

void js_hold_republished(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    (void)hold(js, stream, js->host->republish_flags, subject, header, payload);
}

static inline __attribute__((always_inline)) void stored_text(const stream_t *stream, uint64_t seq, bool duplicate,
                                                              text_t *text) {
    text->size = 0;
    text_add(text, stream->ack_prefix);
    text_add_number(text, seq);
    text_add_literal(text, duplicate ? ",\"duplicate\": true}" : "}");
}

void ack_text(const stream_t *stream, uint64_t seq, bool duplicate, text_t *text) {
    stored_text(stream, seq, duplicate, text);
}

static void answer_stored(js_t *js, const stream_t *stream, bytes_t reply, uint64_t seq, bool duplicate) {
    text_t text;
    stored_text(stream, seq, duplicate, &text);
    js_hold(js, stream, reply, BYTES_NONE, text_bytes(&text));
}

void counted_text(const stream_t *stream, uint64_t seq, bytes_t value, text_t *text) {
    text->size = 0;
    text_add(text, stream->ack_prefix);
    text_add_number(text, seq);
    text_add_literal(text, ",\"val\":\"");
    text_add(text, value);
    text_add_literal(text, "\"}");
}

static void answer_counted(js_t *js, const stream_t *stream, bytes_t reply, uint64_t seq, bytes_t value) {
    if (reply.size == 0 || (stream->config.flags & STREAM_NO_ACK) != 0) {
        return;
    }
    text_t text;
    counted_text(stream, seq, value, &text);
    js_hold(js, stream, reply, BYTES_NONE, text_bytes(&text));
}

/* The part of a header that people read may be cut; the answer around it may not. */
static void add_detail(text_t *text, bytes_t detail) {
    bool cut = detail.size > DETAIL_MAX;
    text_add_escaped(text, cut ? bytes_of(detail.at, DETAIL_MAX) : detail);
    text_add_literal(text, cut ? "..." : "");
}

void js_add_refusal(text_t *text, const refusal_t *refusal) {
    text_add_literal(text, "\"error\":{\"code\":");
    text_add_number(text, refusal->code);
    text_add_literal(text, ",\"err_code\":");
    text_add_number(text, refusal->err_code);
    text_add_literal(text, ",\"description\":\"");
    text_add_literal(text, refusal->text);
    if (refusal->quoted) {
        text_add_literal(text, "\\\"");
    }
    add_detail(text, refusal->detail);
    text_add_literal(text, refusal->quoted ? "\\\"\"}" : "\"}");
}

void js_answer_refused(js_t *js, const stream_t *stream, bytes_t reply, const refusal_t *refusal) {
    if (reply.size == 0 || (stream->config.flags & STREAM_NO_ACK) != 0) {
        return;
    }
    text_t text;
    text.size = 0;
    text_add_literal(&text, "{");
    js_add_refusal(&text, refusal);
    text_add(&text, stream->error_suffix);
    (void)js_say(js, stream->account, reply, BYTES_NONE, text_bytes(&text));
}

/* ---- the publish ------------------------------------------------------------------------------------------------- */

const refusal_t *js_refused_outright(const stream_t *stream, const message_t *message) {
    uint64_t size = (uint64_t)message->header.size + message->payload.size;
    if (LEAF_UNLIKELY((stream->config.flags & (STREAM_SEALED | STREAM_COUNTER)) != 0)) {
        if ((stream->config.flags & STREAM_SEALED) != 0) {
            return &refused_sealed;
        }
        if (message->header.size == 0) {
            return &refused_no_increment;
        }
    }
    return stream->config.max_msg_size >= 0 && size > (uint64_t)stream->config.max_msg_size ? &refused_size : NULL;
}

__attribute__((noinline)) void js_name_verdict(publish_result_t *result) {
    const refusal_t *refusal = NULL;
    result->outcome = result->appended.verdict == APPEND_LATER ? OUTCOME_LATER : OUTCOME_REFUSED;
    switch (result->appended.verdict) {
    case APPEND_WRONG_LAST_SEQ:
        result->refusal = refused_last_seq;
        result->refusal.detail = decimal_text(result->digits, result->appended.seq);
        return;
    case APPEND_WRONG_LAST_MSG_ID:
        result->refusal = refused_last_msg_id;
        result->refusal.detail = result->appended.last_msg_id;
        return;
    case APPEND_BAD_SUBJECT: refusal = &refused_subject; break;
    case APPEND_TOO_LARGE: refusal = &refused_size; break;
    case APPEND_HEADER_TOO_LARGE: refusal = &refused_header; break;
    case APPEND_MAX_MSGS: refusal = &refused_messages; break;
    case APPEND_MAX_BYTES: refusal = &refused_bytes; break;
    case APPEND_MAX_PER_SUBJECT: refusal = &refused_subject_full; break;
    case APPEND_SEALED: refusal = &refused_sealed; break;
    case APPEND_STOPPED: refusal = &refused_stopped; break;
    case APPEND_NO_ALLOWANCE: refusal = &refused_account; break;
    case APPEND_NO_ROLLUP: refusal = &refused_no_rollup; break;
    case APPEND_NO_COUNTER: refusal = &refused_broken; break;
    case APPEND_NO_INCREMENT: refusal = &refused_increment; break;
    case APPEND_LATER: /* or when it cannot come again */
    case APPEND_NO_SPACE:
    case APPEND_OUT_OF_ORDER:
    default: refusal = &refused_space;
    }
    result->refusal = *refusal;
}

static inline void intake_append(js_t *js, stream_t *stream, append_t *append, publish_result_t *result) {
    result->appended = js_append(js, stream, append);
    append_verdict_t verdict = result->appended.verdict;
    if (LEAF_UNLIKELY(verdict != APPEND_STORED && verdict != APPEND_DUPLICATE && verdict != APPEND_SKIPPED)) {
        js_name_verdict(result);
    }
}

/* The increment becomes the sum. */
static const refusal_t *count(js_t *js, stream_t *stream, append_t *append, bytes_t increment) {
    text_t name;
    bytes_t subject = js_stored_subject(js, stream, append->subject, &name);
    return subject.size == 0 ? &refused_size : counter_apply(js, stream, subject, increment, append);
}

const refusal_t *intake_begin(js_t *js, const stream_t *stream, const message_t *message, publisher_t publisher,
                              const refusal_t *refusal, intake_t *intake) {
    memset(intake, 0, sizeof(*intake));
    intake->append.subject = message->subject;
    intake->append.payload = message->payload;
    intake->append.waits = publisher != PUBLISHER_SERVER;
    if (message->header.size != 0 && refusal == NULL) {
        if (message->header.size > HEADER_BYTES_MAX) {
            refusal = &refused_header;
        } else if (headers_has_prefix(message->header, BYTES_LITERAL("Nats-"))
                   || LEAF_UNLIKELY((stream->config.flags & (STREAM_COUNTER | STREAM_ALLOW_TTL)) != 0)) {
            refusal = intake_read(js, stream, message, intake);
            refusal = publisher == PUBLISHER_SERVER ? NULL : refusal;
        }
        intake->append.header = intake_header(js, intake, message->header);
    }
    return refusal;
}

void js_take(js_t *js, stream_t *stream, const message_t *message, publisher_t publisher, publish_result_t *result) {
    result->outcome = OUTCOME_TAKEN;
    result->counted.size = 0;
    result->ends = BYTES_NONE;
    const refusal_t *refusal = js_refused_outright(stream, message);
    if (message->header.size == 0 && refusal == NULL) { /* as most are */
        append_t append = {
            .subject = message->subject, .payload = message->payload, .waits = publisher != PUBLISHER_SERVER};
        intake_append(js, stream, &append, result);
        return;
    }
    intake_t intake;
    refusal = intake_begin(js, stream, message, publisher, refusal, &intake);
    if (LEAF_UNLIKELY(intake.batch_id.size != 0) && publisher == PUBLISHER_CLIENT) {
        result->outcome = OUTCOME_BATCHED;
        return;
    }
    if (LEAF_UNLIKELY(intake.increment.size != 0) && refusal == NULL) {
        refusal = count(js, stream, &intake.append, intake.increment);
    }
    if (LEAF_UNLIKELY(refusal != NULL)) {
        result->outcome = OUTCOME_REFUSED;
        result->refusal = *refusal;
        return;
    }
    intake_append(js, stream, &intake.append, result);
    bool stored = result->appended.verdict == APPEND_STORED || result->appended.verdict == APPEND_SKIPPED;
    if (LEAF_UNLIKELY(intake.order.ends.size != 0) && stored
        && !js_schedule_end(stream, intake.order.ends, result->appended.seq)) {
        result->ends = intake.order.ends;
    }
    if (LEAF_UNLIKELY(intake.increment.size != 0) && result->appended.verdict == APPEND_STORED
        && publisher == PUBLISHER_CLIENT) {
        result->counted = counter_value(intake.append.payload);
    }
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void answer_not_taken(js_t *js, stream_t *stream, const message_t *message,
                                                       const publish_result_t *result) {
    if (result->outcome == OUTCOME_BATCHED) {
        js_atomic(js, stream, message);
    } else if (result->outcome == OUTCOME_LATER) {
        js_later(js, stream, message);
    } else {
        js_answer_refused(js, stream, message->reply, &result->refusal);
    }
}

static inline __attribute__((always_inline)) void answer_taken(js_t *js, stream_t *stream, const message_t *message,
                                                               const publish_result_t *result) {
    if (LEAF_UNLIKELY(result->outcome != OUTCOME_TAKEN)) {
        answer_not_taken(js, stream, message, result);
    } else if (LEAF_UNLIKELY(result->counted.size != 0)) {
        answer_counted(js, stream, message->reply, result->appended.seq, result->counted);
    } else if (LEAF_UNLIKELY(js_rolls_on(result))) {
        js_roll(js, stream, &result->appended, result->ends,
                (stream->config.flags & STREAM_NO_ACK) == 0 ? message->reply : BYTES_NONE);
    } else if (message->reply.size != 0 && (stream->config.flags & STREAM_NO_ACK) == 0) {
        answer_stored(js, stream, message->reply, result->appended.seq, result->appended.verdict == APPEND_DUPLICATE);
    }
}

static inline __attribute__((always_inline)) void publish(js_t *js, stream_t *stream, const message_t *message) {
    bytes_t word = js_fast_word(message);
    if (LEAF_UNLIKELY(word.size != 0)) {
        (void)js_fast(js, stream, message, word);
        return;
    }
    publish_result_t result;
    js_take(js, stream, message, PUBLISHER_CLIENT, &result);
    answer_taken(js, stream, message, &result);
}

void js_publish_held(js_t *js, stream_t *stream, const message_t *message) {
    publish(js, stream, message);
}

void js_publish(js_t *js, stream_t *stream, const message_t *message) {
    if (LEAF_UNLIKELY(stream->later != NULL)) {
        js_later(js, stream, message);
        return;
    }
    publish(js, stream, message);
}

static void note_refusal(text_t *out, const refusal_t *refusal) {
    if (refusal != NULL) {
        text_add_literal(out, refusal->text);
        text_add(out, refusal->detail);
    }
}

/* Judges a message as far as that is possible without the store. */
static void look_only(js_t *js, stream_t *stream, const message_t *message, js_traced_t *out) {
    const refusal_t *refusal = js_refused_outright(stream, message);
    intake_t intake;
    memset(&intake, 0, sizeof(intake));
    if (refusal == NULL && message->header.size > HEADER_BYTES_MAX) {
        refusal = &refused_header;
    } else if (refusal == NULL) {
        refusal = intake_read(js, stream, message, &intake);
    }
    note_refusal(&out->refusal, refusal);
}

void js_publish_traced(js_t *js, stream_t *stream, const message_t *message, bool only, js_traced_t *out) {
    out->subject.size = 0;
    out->refusal.size = 0;
    bytes_t subject = js_stored_subject(js, stream, message->subject, &out->subject);
    if (out->subject.size == 0) {
        text_add(&out->subject, subject);
    }
    out->no_interest = retention_traits(&stream->config)->only_wanted
                       && !consume_wanted(js->consume, stream->id, text_bytes(&out->subject));
    if (only) {
        look_only(js, stream, message, out);
        return;
    }
    if (js_fast_word(message).size != 0) {
        js_publish(js, stream, message);
        return;
    }
    if (stream->replicated != NULL) {
        js_propose(js, stream, message);
        return;
    }
    if (stream->later != NULL) {
        js_later(js, stream, message);
        return;
    }
    publish_result_t result;
    js_take(js, stream, message, PUBLISHER_CLIENT, &result);
    note_refusal(&out->refusal, result.outcome == OUTCOME_REFUSED ? &result.refusal : NULL);
    answer_taken(js, stream, message, &result);
}

bool js_level_too_high(bytes_t header) {
    bytes_t value;
    if (header.size == 0 || !headers_find(header, BYTES_LITERAL("Nats-Required-Api-Level"), &value)) {
        return false;
    }
    return value.size != 1 || value.at[0] < '0' || value.at[0] > '0' + API_LEVEL;
}
