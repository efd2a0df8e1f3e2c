/* intake.c: see intake.h. The "Nats-" fields of a header block, read once; nothing else of it is looked at, but for the
 * expiry that a device gives its message (Nmqtt-Expiry). Where the stream allows Nats-TTL it is stored as that, too: so
 * readers, mirrors and copies of the stream have it in the form that NATS knows.
 *
 * Features that this daemon does not have are refused with the reference's own "disabled" errors. Not here: what only
 * the store knows (store/append.c), schedules (schedule.c).
 */
#include "jetstream/intake.h"

#include <string.h>
#include <strings.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "jetstream/counter.h"
#include "jetstream/js.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/integer.h"
#include "text/ttl.h"

static const refusal_t refused_stream = {400, 10060, "expected stream does not match", {NULL, 0}, false};
const refusal_t refused_ttl_off = {400, 10166, "per-message TTL is disabled", {NULL, 0}, false};
const refusal_t refused_bad_ttl = {400, 10165, "invalid per-message TTL", {NULL, 0}, false};
static const refusal_t refused_subject_seq = {
    400, 10193, "missing sequence for expected last sequence per subject", {NULL, 0}, false};
static const refusal_t refused_source = {400, 10227, "message stream source header is not allowed", {NULL, 0}, false};
static const refusal_t refused_counter = {400, 10168, "message counters is disabled", {NULL, 0}, false};
static const refusal_t refused_payload = {400, 10170, "message counter has payload", {NULL, 0}, false};
static const refusal_t refused_rollup_value = {500, 10111, "rollup value invalid: ", {NULL, 0}, true};

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

static void put_ttl(intake_t *intake, int64_t seconds) {
    intake->ttl_size = decimal_text(intake->ttl_text, (uint64_t)seconds).size;
}

/* In a stream that allows it. */
static void set_ttl(intake_t *intake, const stream_t *stream, int64_t ns, moment_t now) {
    bool never = ns == TTL_NEVER;
    /* A marker has to outlive the messages that it stands for, unless there is only ever one. */
    if (!never && ns / NS_PER_SECOND < stream->config.marker_ttl_ns / NS_PER_SECOND
        && stream->config.max_msgs_per_subject != 1) {
        int64_t shortest = stream->config.marker_ttl_ns / NS_PER_SECOND;
        put_ttl(intake, shortest);
        ns = shortest * NS_PER_SECOND;
    }
    intake->append.expires_ts = never || now.wall_ns > INT64_MAX - ns ? TTL_NEVER : now.wall_ns + ns;
}

static void read_ttl(intake_t *intake, const stream_t *stream, bytes_t value, moment_t now) {
    int64_t ns = 0;
    if (value.size == 0) {
        return;
    }
    if (!ttl_parse(value, &ns)) {
        intake_refuse(intake, RANK_TTL, &refused_bad_ttl);
    } else if ((stream->config.flags & STREAM_ALLOW_TTL) == 0) {
        intake_refuse(intake, RANK_TTL_OFF, &refused_ttl_off);
    } else {
        set_ttl(intake, stream, ns, now);
    }
}

/* No TTL is shorter than a second, and MQTT's may be 0. */
static void read_expiry(intake_t *intake, const stream_t *stream, moment_t now) {
    uint64_t seconds = 0;
    if (intake->append.expires_ts == 0 && decimal_parse(intake->expiry, &seconds) && seconds <= UINT32_MAX) {
        int64_t least = seconds == 0 ? 1 : (int64_t)seconds;
        put_ttl(intake, least);
        set_ttl(intake, stream, least * NS_PER_SECOND, now);
    }
}

uint8_t rollup_read(bytes_t value) {
    return same_word(value, "sub") ? 1 : same_word(value, "all") ? 2 : 0;
}

static void read_rollup(intake_t *intake, bytes_t value) {
    intake->conditional = true;
    intake->append.rollup = rollup_read(value);
    if (intake->append.rollup == 0) {
        intake->bad_rollup = value;
    }
}

static void read_expected(intake_t *intake, const stream_t *stream, bytes_t what, bytes_t value) {
    append_t *append = &intake->append;
    if (value.size == 0) {
        return; /* an empty expectation counts as no expectation */
    }
    intake->conditional = true;
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
        intake->increment = value;
    } else if (bytes_equal(rest, BYTES_LITERAL("Batch-Id"))) {
        intake->batch_id = value;
    } else if (bytes_starts(rest, BYTES_LITERAL("Schedule"))) {
        intake->scheduling = true;
    } else if (bytes_equal(rest, BYTES_LITERAL("Stream-Source"))) {
        intake_refuse(intake, RANK_SOURCE, &refused_source);
    }
}

static const refusal_t *increment_refused(const intake_t *intake, const stream_t *stream) {
    integer_t number;
    if (!integer_parse(intake->increment, &number)) {
        return &refused_increment;
    }
    if ((stream->config.flags & STREAM_COUNTER) == 0) {
        return &refused_counter;
    }
    if (intake->append.payload.size != 0) {
        return &refused_payload;
    }
    return intake->conditional ? &refused_increment : NULL;
}

static void intake_headers(intake_t *intake, const stream_t *stream, bytes_t header, moment_t now) {
    bool expires = (stream->config.flags & STREAM_ALLOW_TTL) != 0;
    uint32_t cursor = 0;
    bytes_t name, value;
    while (headers_next(header, &cursor, &name, &value)) {
        if (bytes_starts(name, BYTES_LITERAL("Nats-"))) {
            intake_field(intake, stream, name, value, now);
        } else if (expires && bytes_equal(name, BYTES_LITERAL("Nmqtt-Expiry"))) {
            intake->expiry = value;
        }
    }
    if (LEAF_UNLIKELY(intake->expiry.size != 0)) {
        read_expiry(intake, stream, now);
    }
    const refusal_t *refusal = intake->increment.size != 0 ? increment_refused(intake, stream) : NULL;
    if (refusal != NULL) {
        intake_refuse(intake, RANK_COUNTER, refusal);
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

/* Without memory the message keeps its own. */
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

bytes_t intake_header(js_t *js, const intake_t *intake, bytes_t header) {
    bool changed = intake->ttl_size != 0 || intake->order.add_rollup;
    return changed ? changed_header(js, intake, header) : stored_header(js, header);
}

/* ---- reading a publish ------------------------------------------------------------------------------------------- */

const refusal_t *intake_read(js_t *js, const stream_t *stream, const message_t *message, intake_t *intake) {
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
        bool may = (stream->config.flags & (STREAM_ALLOW_ROLLUP | STREAM_DENY_PURGE)) == STREAM_ALLOW_ROLLUP;
        intake->refusal = may ? refused_rollup_value : refused_no_rollup;
        intake->refusal.detail = may ? intake->bad_rollup : BYTES_NONE;
    }
    if (intake->increment.size == 0 && (stream->config.flags & STREAM_COUNTER) != 0 && intake->refusal.code == 0) {
        intake->refusal = refused_no_increment;
    }
    return intake->refusal.code != 0 ? &intake->refusal : NULL;
}
