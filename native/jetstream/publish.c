/* publish.c: a message that a client publishes into a stream: its headers read once, appended, acknowledged when
 * durable.
 *
 *     js_take: headers ("Nats-" fields only) > checks > store_append
 *     js_publish: js_take > PubAck or error        (fast.c: what a fast batch answers)
 *                              |
 *                              +-- held under the open batch's number (held.h)
 *
 * Order of checks and texts: tests/wire/jetstream.md, "Publishing". Features that this daemon does not have
 * are refused with the reference's own "disabled" errors. What does not live here: limits, dedupe, sequences (store/),
 * what mirrors and sources take in (ingest.c).
 */
#include <stdlib.h>

#include "jetstream/publish.h"

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/copies.h"
#include "exchange/held.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/request_info.h"
#include "text/text.h"
#include "text/ttl.h"
#include "wire/emit.h"

#define DETAIL_MAX 1024u /* bytes of a header that a refusal shows */

static const refusal_t refused_sealed = {400, 10109, "invalid operation on sealed stream", {NULL, 0}, false};
static const refusal_t refused_size = {400, 10054, "message size exceeds maximum allowed", {NULL, 0}, false};
static const refusal_t refused_header = {400, 10097, "header size exceeds maximum allowed of 64k", {NULL, 0}, false};
static const refusal_t refused_stream = {400, 10060, "expected stream does not match", {NULL, 0}, false};
const refusal_t refused_ttl_off = {400, 10166, "per-message TTL is disabled", {NULL, 0}, false};
static const refusal_t refused_ttl = {400, 10165, "invalid per-message TTL", {NULL, 0}, false};
static const refusal_t refused_subject_seq = {
    400, 10193, "missing sequence for expected last sequence per subject", {NULL, 0}, false};
static const refusal_t refused_source = {400, 10227, "message stream source header is not allowed", {NULL, 0}, false};
static const refusal_t refused_counter = {400, 10168, "message counters is disabled", {NULL, 0}, false};
static const refusal_t refused_atomic = {400, 10174, "atomic publish is disabled", {NULL, 0}, false};
static const refusal_t refused_rollup = {500, 10111, "rollup not permitted", {NULL, 0}, false};
static const refusal_t refused_rollup_value = {500, 10111, "rollup value invalid: ", {NULL, 0}, true};
static const refusal_t refused_last_seq = {400, 10071, "wrong last sequence: ", {NULL, 0}, false};
static const refusal_t refused_last_msg_id = {400, 10070, "wrong last msg ID: ", {NULL, 0}, false};
static const refusal_t refused_space = {503, 10023, "insufficient resources", {NULL, 0}, false};
static const refusal_t refused_messages = {503, 10077, "maximum messages exceeded", {NULL, 0}, false};
static const refusal_t refused_bytes = {503, 10077, "maximum bytes exceeded", {NULL, 0}, false};
static const refusal_t refused_subject_full = {503, 10077, "maximum messages per subject exceeded", {NULL, 0}, false};

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void js_hold(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    uint64_t batch = store_batch(js->stores[stream->which_store]);
    status_t status = held_message(&js->held[stream->which_store], batch, stream->account->id, js->host->answer_flags,
                                   subject, BYTES_NONE, header, payload);
    /* Without memory for it the publisher gets no ack and sends again: nothing is lost, nothing is claimed. */
    (void)status;
}

static void answer_stored(js_t *js, const stream_t *stream, bytes_t reply, uint64_t seq, bool duplicate) {
    text_t text;
    text.size = 0;
    text_add(&text, stream->ack_prefix);
    text_add_number(&text, seq);
    text_add_literal(&text, duplicate ? ",\"duplicate\": true}" : "}");
    js_hold(js, stream, reply, BYTES_NONE, text_bytes(&text));
}

/* What people read of a header may be cut; the answer around it may not. */
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

/* ---- headers ----------------------------------------------------------------------------------------------------- */

/* The order in which the reference looks for each: of several refusals the publisher gets the first one. */
typedef enum refusal_rank {
    RANK_ATOMIC = 0,
    RANK_COUNTER,
    RANK_STREAM,
    RANK_TTL_OFF,
    RANK_SUBJECT_SEQ,
    RANK_SCHEDULE,
    RANK_SOURCE,
    RANK_TTL,
} refusal_rank_t;

typedef struct intake {
    append_t append;
    bool has_subject_seq_subject;
    uint32_t ttl_size; /* of ttl_text, which replaces the header's value; 0 = the value stays */
    uint8_t ttl_text[20];
    bool scheduling; /* there are headers of schedules */
    schedule_order_t order;
    bytes_t bad_rollup;
    refusal_t refusal; /* the first one in the reference's order, among those that need no store */
    refusal_rank_t refusal_rank;
} intake_t;

static void intake_refuse(intake_t *intake, refusal_rank_t rank, const refusal_t *refusal) {
    if (intake->refusal.code == 0 || rank < intake->refusal_rank) {
        intake->refusal = *refusal;
        intake->refusal_rank = rank;
    }
}

/* An expected sequence that is no number never matches. */
static uint64_t expected_sequence(bytes_t value) {
    uint64_t number;
    return decimal_parse(value, &number) ? number : UINT64_MAX;
}

static bool same_word(bytes_t text, const char *word) {
    return text.size == strlen(word) && strncasecmp((const char *)text.at, word, text.size) == 0;
}

static void read_ttl(intake_t *intake, const stream_t *stream, bytes_t value, moment_t now) {
    if (value.size == 0) {
        return;
    }
    int64_t ns = 0;
    bool good = ttl_parse(value, &ns);
    bool never = ns == TTL_NEVER;
    if (!good) {
        intake_refuse(intake, RANK_TTL, &refused_ttl);
        return;
    }
    if ((stream->config.flags & STREAM_ALLOW_TTL) == 0) {
        intake_refuse(intake, RANK_TTL_OFF, &refused_ttl_off);
        return;
    }
    /* A marker has to outlive the messages that it stands for, unless there is only ever one. */
    if (!never && ns / NS_PER_SECOND < stream->config.marker_ttl_ns / NS_PER_SECOND
        && stream->config.max_msgs_per_subject != 1) {
        int64_t shortest = stream->config.marker_ttl_ns / NS_PER_SECOND;
        intake->ttl_size = decimal_text(intake->ttl_text, (uint64_t)shortest).size;
        ns = shortest * NS_PER_SECOND;
    }
    intake->append.expires_ts = never || now.wall_ns > INT64_MAX - ns ? TTL_NEVER : now.wall_ns + ns;
}

static void read_rollup(intake_t *intake, bytes_t value) {
    intake->append.rollup = same_word(value, "sub") ? 1 : same_word(value, "all") ? 2 : 0;
    if (intake->append.rollup == 0) {
        intake->bad_rollup = value;
    }
}

static void read_expected(intake_t *intake, const stream_t *stream, bytes_t what, bytes_t value) {
    append_t *append = &intake->append;
    if (value.size == 0) {
        return; /* an expectation of nothing is none */
    }
    if (bytes_equal(what, BYTES_LITERAL("Stream"))) {
        if (!bytes_equal(value, stream->name)) {
            intake_refuse(intake, RANK_STREAM, &refused_stream);
        }
    } else if (bytes_equal(what, BYTES_LITERAL("Last-Sequence"))) {
        append->has_expected_last_seq = true;
        append->expected_last_seq = expected_sequence(value);
    } else if (bytes_equal(what, BYTES_LITERAL("Last-Subject-Sequence"))) {
        append->has_expected_subject_seq = true;
        append->expected_subject_seq = expected_sequence(value);
    } else if (bytes_equal(what, BYTES_LITERAL("Last-Subject-Sequence-Subject"))) {
        append->expected_subject = value;
        intake->has_subject_seq_subject = true;
    } else if (bytes_equal(what, BYTES_LITERAL("Last-Msg-Id"))) {
        append->has_expected_msg_id = true;
        append->expected_msg_id = value;
    }
}

static void intake_field(intake_t *intake, const stream_t *stream, bytes_t name, bytes_t value, moment_t now) {
    bytes_t rest = bytes_of(name.at + 5, name.size - 5);
    if (bytes_equal(rest, BYTES_LITERAL("Msg-Id"))) {
        if (intake->append.msg_id.size == 0) {
            intake->append.msg_id = value;
        }
    } else if (bytes_starts(rest, BYTES_LITERAL("Expected-"))) {
        read_expected(intake, stream, bytes_of(rest.at + 9, rest.size - 9), value);
    } else if (bytes_equal(rest, BYTES_LITERAL("TTL"))) {
        read_ttl(intake, stream, value, now);
    } else if (bytes_equal(rest, BYTES_LITERAL("Rollup"))) {
        read_rollup(intake, value);
    } else if (bytes_equal(rest, BYTES_LITERAL("Incr"))) {
        intake_refuse(intake, RANK_COUNTER, &refused_counter);
    } else if (bytes_equal(rest, BYTES_LITERAL("Batch-Id"))) {
        if (value.size != 0) {
            intake_refuse(intake, RANK_ATOMIC, &refused_atomic);
        }
    } else if (bytes_starts(rest, BYTES_LITERAL("Schedule"))) {
        intake->scheduling = true;
    } else if (bytes_equal(rest, BYTES_LITERAL("Stream-Source"))) {
        intake_refuse(intake, RANK_SOURCE, &refused_source);
    }
}

static void intake_headers(intake_t *intake, const stream_t *stream, bytes_t header, moment_t now) {
    uint32_t cursor = 0;
    bytes_t name, value;
    while (headers_next(header, &cursor, &name, &value)) {
        if (bytes_starts(name, BYTES_LITERAL("Nats-"))) {
            intake_field(intake, stream, name, value, now);
        }
    }
    if (intake->has_subject_seq_subject && !intake->append.has_expected_subject_seq) {
        intake_refuse(intake, RANK_SUBJECT_SEQ, &refused_subject_seq);
    }
}

static bool drop_nothing(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Request-Info"));
}

static bool drop_ttl(bytes_t name) {
    return drop_nothing(name) || bytes_equal(name, BYTES_LITERAL("Nats-TTL"));
}

/* With what the checks have added. Without memory the message keeps its own. */
static bytes_t changed_header(js_t *js, const intake_t *intake, bytes_t header) {
    bool empty = false;
    buffer_t *out = &js->scratch;
    out->size = 0;
    status_t status = headers_copy_without(out, header, intake->ttl_size != 0 ? drop_ttl : drop_nothing, true, &empty);
    if (status == STATUS_OK && intake->order.add_rollup) {
        status = headers_append(out, 0, BYTES_LITERAL("Nats-Rollup"), BYTES_LITERAL("sub"));
    }
    if (status == STATUS_OK && intake->ttl_size != 0) {
        status = headers_append(out, 0, BYTES_LITERAL("Nats-TTL"), bytes_of(intake->ttl_text, intake->ttl_size));
    }
    return status == STATUS_OK ? bytes_of(out->at, (uint32_t)out->size) : header;
}

/* A status in the block's first line is not stored, nor is what a service import adds. */
static bytes_t stored_header(js_t *js, bytes_t header) {
    bytes_t plain = BYTES_LITERAL("NATS/1.0\r\n");
    bytes_t info;
    if (bytes_starts(header, plain) && !headers_find(header, BYTES_LITERAL("Nats-Request-Info"), &info)) {
        return header;
    }
    bool empty = false;
    js->scratch.size = 0;
    if (!bytes_starts(header, BYTES_LITERAL("NATS/1.0"))
        || headers_copy_without(&js->scratch, header, drop_nothing, true, &empty) != STATUS_OK) {
        return header;
    }
    return empty ? BYTES_NONE : bytes_of(js->scratch.at, (uint32_t)js->scratch.size);
}

/* ---- the publish ------------------------------------------------------------------------------------------------- */

/* What the store would refuse first, so that it wins over what the headers say. */
const refusal_t *js_refused_outright(const stream_t *stream, const message_t *message) {
    uint64_t size = (uint64_t)message->header.size + message->payload.size;
    if ((stream->config.flags & STREAM_SEALED) != 0) {
        return &refused_sealed;
    }
    return stream->config.max_msg_size >= 0 && size > (uint64_t)stream->config.max_msg_size ? &refused_size : NULL;
}

/* A refusal of the store in the protocol's words; its detail lives in *taken. */
static __attribute__((noinline)) void name_verdict(taken_t *taken) {
    const refusal_t *refusal = NULL;
    switch (taken->appended.verdict) {
    case APPEND_WRONG_LAST_SEQ:
        taken->refusal = refused_last_seq;
        taken->refusal.detail = decimal_text(taken->digits, taken->appended.seq);
        return;
    case APPEND_WRONG_LAST_MSG_ID:
        taken->refusal = refused_last_msg_id;
        taken->refusal.detail = taken->appended.last_msg_id;
        return;
    case APPEND_TOO_LARGE: refusal = &refused_size; break;
    case APPEND_HEADER_TOO_LARGE: refusal = &refused_header; break;
    case APPEND_MAX_MSGS: refusal = &refused_messages; break;
    case APPEND_MAX_BYTES: refusal = &refused_bytes; break;
    case APPEND_MAX_PER_SUBJECT: refusal = &refused_subject_full; break;
    case APPEND_SEALED: refusal = &refused_sealed; break;
    case APPEND_NO_ROLLUP: refusal = &refused_rollup; break;
    case APPEND_NO_SPACE:
    case APPEND_OUT_OF_ORDER:
    default: refusal = &refused_space;
    }
    taken->refusal = *refusal;
}

static inline void intake_append(js_t *js, stream_t *stream, append_t *append, taken_t *taken) {
    taken->appended = js_append(js, stream, append);
    append_verdict_t verdict = taken->appended.verdict;
    if (LEAF_UNLIKELY(verdict != APPEND_STORED && verdict != APPEND_DUPLICATE && verdict != APPEND_SKIPPED)) {
        name_verdict(taken);
    }
}

static const refusal_t *read_intake(js_t *js, stream_t *stream, const message_t *message, intake_t *intake) {
    intake_headers(intake, stream, message->header, *js->now);
    if (LEAF_UNLIKELY(intake->scheduling)) {
        const refusal_t *refusal = js_schedule_read(js, stream, message, &intake->order);
        if (refusal != NULL) {
            intake_refuse(intake, RANK_SCHEDULE, refusal);
        }
        intake->append.due_ts = intake->order.due_ts;
        intake->append.rollup = intake->order.add_rollup ? 1 : intake->append.rollup;
    }
    if (intake->bad_rollup.size != 0 && intake->refusal.code == 0) {
        intake->refusal = refused_rollup_value;
        intake->refusal.detail = intake->bad_rollup;
    }
    return intake->refusal.code != 0 ? &intake->refusal : NULL;
}

static void intake_run(js_t *js, stream_t *stream, const message_t *message, bool inside, taken_t *taken) {
    taken->refusal.code = 0;
    const refusal_t *refusal = js_refused_outright(stream, message);
    if (message->header.size == 0 && refusal == NULL) { /* as most are */
        append_t append = {.subject = message->subject, .payload = message->payload};
        intake_append(js, stream, &append, taken);
        return;
    }
    intake_t intake;
    memset(&intake, 0, sizeof(intake));
    intake.append.subject = message->subject;
    intake.append.header = message->header;
    intake.append.payload = message->payload;
    if (message->header.size != 0 && refusal == NULL) {
        if (message->header.size > HEADER_BYTES_MAX) {
            refusal = &refused_header;
        } else if (headers_has_prefix(message->header, BYTES_LITERAL("Nats-"))) {
            refusal = read_intake(js, stream, message, &intake);
            refusal = inside ? NULL : refusal;
        }
        bool changed = intake.ttl_size != 0 || intake.order.add_rollup;
        intake.append.header =
            changed ? changed_header(js, &intake, message->header) : stored_header(js, message->header);
    }
    if (LEAF_UNLIKELY(refusal != NULL)) {
        taken->refusal = *refusal;
        return;
    }
    intake_append(js, stream, &intake.append, taken);
    bool stored = taken->appended.verdict == APPEND_STORED || taken->appended.verdict == APPEND_SKIPPED;
    if (LEAF_UNLIKELY(intake.order.ends.size != 0) && stored) {
        js_schedule_end(stream, intake.order.ends);
    }
}

void js_take(js_t *js, stream_t *stream, const message_t *message, taken_t *taken) {
    intake_run(js, stream, message, false, taken);
}

void js_take_inside(js_t *js, stream_t *stream, const message_t *message, taken_t *taken) {
    intake_run(js, stream, message, true, taken);
}

/* ---- a long rollup ----------------------------------------------------------------------------------------------- */

typedef struct roll_job {
    job_t job;
    store_purge_t purge;
    bytes_t subject; /* own copies */
    bytes_t reply;
} roll_job_t;

static bool roll_step(js_t *js, job_t *job) {
    roll_job_t *roll = (roll_job_t *)job;
    uint64_t purged;
    bool more = false;
    status_t status = store_purge(job->stream->store, &roll->purge, &purged, &more);
    if (status == STATUS_OK && more) {
        return false;
    }
    if (roll->reply.size != 0 && status == STATUS_OK) {
        answer_stored(js, job->stream, roll->reply, roll->purge.below_seq, false);
    } else if (roll->reply.size != 0) {
        js_answer_refused(js, job->stream, roll->reply, &refused_space);
    }
    return true;
}

static void roll_end(js_t *js, job_t *job, status_t status) {
    roll_job_t *roll = (roll_job_t *)job;
    if (status == STATUS_FULL && roll->reply.size != 0) {
        js_answer_refused(js, job->stream, roll->reply, &refused_space);
    }
    store_purge_end(&roll->purge);
    bytes_release(&roll->subject);
    bytes_release(&roll->reply);
    free(roll);
}

void js_roll(js_t *js, stream_t *stream, const taken_t *taken, bytes_t reply) {
    roll_job_t *roll = calloc(1, sizeof(*roll));
    stored_message_t message; /* its subject may have been transformed */
    if (roll == NULL || store_read(stream->store, taken->appended.seq, &message) != STATUS_OK) {
        free(roll);
        js_answer_refused(js, stream, reply, &refused_space);
        return;
    }
    roll->job = (job_t){.stream = stream, .refusable = true, .step = roll_step, .end = roll_end};
    roll->subject = taken->appended.rolling == 1 ? bytes_copy(message.subject) : BYTES_NONE;
    roll->reply = bytes_copy(reply);
    roll->purge = (store_purge_t){.filter = roll->subject, .below_seq = taken->appended.seq};
    if (taken->appended.rolling == 1 && roll->subject.size == 0) {
        roll_end(js, &roll->job, STATUS_FULL); /* no memory: without its subject it would take out all */
        return;
    }
    job_start(js, &roll->job);
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void answer_taken(js_t *js, stream_t *stream, const message_t *message,
                                                               const taken_t *taken) {
    if (LEAF_UNLIKELY(taken->refusal.code != 0)) {
        js_answer_refused(js, stream, message->reply, &taken->refusal);
    } else if (LEAF_UNLIKELY(taken->appended.rolling != 0)) {
        js_roll(js, stream, taken, (stream->config.flags & STREAM_NO_ACK) == 0 ? message->reply : BYTES_NONE);
    } else if (message->reply.size != 0 && (stream->config.flags & STREAM_NO_ACK) == 0) {
        answer_stored(js, stream, message->reply, taken->appended.seq, taken->appended.verdict == APPEND_DUPLICATE);
    }
}

/* What says where in a fast batch a message is: its reply, or, where that leads back over an import, the publisher's
 * own. Empty: it is in none. */
static inline __attribute__((always_inline)) bytes_t fast_word_of(const message_t *message) {
    if (LEAF_UNLIKELY(js_in_fast_batch(message->reply))) {
        return message->reply;
    }
    if (LEAF_LIKELY(message->header.size == 0 || !bytes_starts(message->reply, BYTES_LITERAL("_R_.")))) {
        return BYTES_NONE;
    }
    bytes_t reply = request_info_reply(message->header);
    return js_in_fast_batch(reply) ? reply : BYTES_NONE;
}

void js_publish(js_t *js, stream_t *stream, const message_t *message, bytes_t shown) {
    message_t delivered;
    /* What a consumer delivers to this stream's subject keeps the one that it was stored under. */
    if (LEAF_UNLIKELY(shown.size != 0)) {
        delivered = *message;
        delivered.subject = shown;
        message = &delivered;
    }
    bytes_t word = fast_word_of(message);
    if (LEAF_UNLIKELY(word.size != 0)) {
        js_fast(js, stream, message, word);
        return;
    }
    taken_t taken;
    js_take(js, stream, message, &taken);
    answer_taken(js, stream, message, &taken);
}

static void note_refusal(text_t *out, const refusal_t *refusal) {
    if (refusal != NULL && refusal->code != 0) {
        text_add_literal(out, refusal->text);
        text_add(out, refusal->detail);
    }
}

/* What can be said without the store. */
static void look_only(js_t *js, stream_t *stream, const message_t *message, js_traced_t *out) {
    const refusal_t *refusal = js_refused_outright(stream, message);
    intake_t intake;
    memset(&intake, 0, sizeof(intake));
    if (refusal == NULL && message->header.size > HEADER_BYTES_MAX) {
        refusal = &refused_header;
    } else if (refusal == NULL) {
        refusal = read_intake(js, stream, message, &intake);
    }
    note_refusal(&out->refusal, refusal);
}

void js_publish_traced(js_t *js, stream_t *stream, const message_t *message, bytes_t shown, bool only,
                       js_traced_t *out) {
    out->subject.size = 0;
    out->refusal.size = 0;
    bytes_t subject = shown.size != 0 ? shown : message->subject;
    subject = js_stored_subject(js, stream, subject, &out->subject);
    if (out->subject.size == 0) {
        text_add(&out->subject, subject);
    }
    out->no_interest =
        stream->config.retention == 1 && !consume_wanted(js->consume, stream->id, text_bytes(&out->subject));
    if (only) {
        look_only(js, stream, message, out);
        return;
    }
    if (fast_word_of(message).size != 0) {
        js_publish(js, stream, message, shown);
        return;
    }
    message_t delivered = *message;
    delivered.subject = shown.size != 0 ? shown : message->subject;
    taken_t taken;
    js_take(js, stream, &delivered, &taken);
    note_refusal(&out->refusal, &taken.refusal);
    answer_taken(js, stream, &delivered, &taken);
}
