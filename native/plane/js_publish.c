/* js_publish.c: a message published into a stream: its headers read once, the append, the PubAck or the error.
 *
 *   publish --> headers that the store is to know (append_t) --> store_append --> PubAck JSON, held until the batch is on disk
 *
 * Errors wait like acks: what they tell of (a last sequence, a duplicate) may not be on disk yet. The order of checks is the
 * reference's (jetstream.md 4.2) as far as it can be seen from outside. Features that streams cannot have yet (counters,
 * schedules, batches) are refused with their "disabled" errors. What does not live here: limits and dedupe (store/).
 */
#include <strings.h>

#include "consume/duration.h"
#include "plane/js.h"
#include "wire/headers.h"

typedef struct js_error {
    uint32_t code;
    uint32_t err_code;
    const char *description;
} js_error_t;

/* What a publish asks for with headers. Slices point into the message. */
typedef struct wishes {
    append_t append;
    bytes_t expected_stream;
    bytes_t ttl;
    bytes_t rollup;
    bytes_t increment;
    bool has_expected_stream;
    bool has_subject_header;
    bool has_schedule;
    bool has_source;
    bool has_batch;
    bool has_request_info;
} wishes_t;

void js_hold(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload) {
    status_t status = held_message(&plane->held[stream->which_store], core_last_batch(plane, stream->which_store), stream->account->id, 0,
                                   subject, BYTES_NONE, header, payload);
    if (status != STATUS_OK) {
        plane->exchange.dropped++; /* no memory: the client's request times out, and it asks again */
    }
}

/* ---- answers ---------------------------------------------------------------------------------------------------------------- */

static void answer_error(plane_t *plane, const stream_t *stream, bytes_t reply, const js_error_t *error, bytes_t detail) {
    if (reply.size == 0 || (stream->config.flags & STREAM_NO_ACK) != 0) {
        return;
    }
    text_t text;
    text.size = 0;
    text_add_literal(&text, "{\"error\":{\"code\":");
    text_add_number(&text, error->code);
    text_add_literal(&text, ",\"err_code\":");
    text_add_number(&text, error->err_code);
    text_add_literal(&text, ",\"description\":\"");
    text_add_literal(&text, error->description);
    for (uint32_t i = 0; i < detail.size && i < 512; i++) {
        uint8_t c = detail.at[i];
        if (c == '"' || c == '\\') {
            text_add_literal(&text, "\\");
        }
        text_add(&text, bytes_of(c < ' ' ? (const uint8_t *)"?" : &detail.at[i], 1));
    }
    text_add_literal(&text, "\"}");
    text_add(&text, stream->error_suffix);
    js_hold(plane, stream, reply, BYTES_NONE, text_bytes(&text));
}

static void answer_number(plane_t *plane, const stream_t *stream, bytes_t reply, const js_error_t *error, uint64_t number) {
    uint8_t digits[20];
    answer_error(plane, stream, reply, error, bytes_of(digits, emit_decimal(digits, number)));
}

static void answer_stored(plane_t *plane, const stream_t *stream, bytes_t reply, const appended_t *appended) {
    if (reply.size == 0 || (stream->config.flags & STREAM_NO_ACK) != 0) {
        return;
    }
    text_t text;
    text.size = 0;
    text_add(&text, stream->ack_prefix);
    text_add_number(&text, appended->seq);
    text_add_literal(&text, appended->verdict == APPEND_DUPLICATE ? ",\"duplicate\": true}" : "}");
    js_hold(plane, stream, reply, BYTES_NONE, text_bytes(&text));
}

static void answer_verdict(plane_t *plane, const stream_t *stream, bytes_t reply, const appended_t *appended) {
    static const js_error_t wrong_seq = {400, 10071, "wrong last sequence: "};
    static const js_error_t wrong_id = {400, 10070, "wrong last msg ID: "};
    static const js_error_t errors[] = {
        [APPEND_TOO_LARGE] = {400, 10054, "message size exceeds maximum allowed"},
        [APPEND_HEADER_TOO_LARGE] = {400, 10097, "header size exceeds maximum allowed of 64k"},
        [APPEND_MAX_MSGS] = {503, 10077, "maximum messages exceeded"},
        [APPEND_MAX_BYTES] = {503, 10077, "maximum bytes exceeded"},
        [APPEND_MAX_PER_SUBJECT] = {503, 10077, "maximum messages per subject exceeded"},
        [APPEND_SEALED] = {400, 10109, "invalid operation on sealed stream"},
        [APPEND_NO_SPACE] = {503, 10023, "insufficient resources"},
        [APPEND_NO_ROLLUP] = {500, 10111, "rollup not permitted"},
        [APPEND_OUT_OF_ORDER] = {503, 10063, "expected stream sequence does not match"},
    };
    switch (appended->verdict) {
    case APPEND_STORED:
    case APPEND_DUPLICATE:
    case APPEND_SKIPPED:
        answer_stored(plane, stream, reply, appended);
        return;
    case APPEND_WRONG_LAST_SEQ:
        answer_number(plane, stream, reply, &wrong_seq, appended->seq);
        return;
    case APPEND_WRONG_LAST_MSG_ID:
        answer_error(plane, stream, reply, &wrong_id, appended->last_msg_id);
        return;
    default:
        check(appended->verdict <= APPEND_OUT_OF_ORDER);
        answer_error(plane, stream, reply, &errors[appended->verdict], BYTES_NONE);
    }
}

/* ---- headers ------------------------------------------------------------------------------------------------------------------ */

/* What is no number can never be a sequence: no expectation of it holds. */
static uint64_t sequence_of(bytes_t text) {
    uint64_t value = 0;
    if (text.size == 0 || text.size > 19) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t digit = (uint8_t)(text.at[i] - '0');
        if (digit > 9) {
            return UINT64_MAX;
        }
        value = value * 10 + digit;
    }
    return value;
}

static void read_expectation(wishes_t *wishes, bytes_t name, bytes_t value) {
    append_t *append = &wishes->append;
    if (bytes_equal(name, BYTES_LITERAL("Nats-Expected-Stream"))) {
        wishes->has_expected_stream = true;
        wishes->expected_stream = value;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Expected-Last-Sequence"))) {
        append->has_expected_last_seq = true;
        append->expected_last_seq = sequence_of(value);
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Expected-Last-Subject-Sequence"))) {
        append->has_expected_subject_seq = true;
        append->expected_subject_seq = sequence_of(value);
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Expected-Last-Subject-Sequence-Subject"))) {
        wishes->has_subject_header = true;
        append->expected_subject = value;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Expected-Last-Msg-Id"))) {
        append->has_expected_msg_id = true;
        append->expected_msg_id = value;
    }
}

static void read_header(wishes_t *wishes, bytes_t name, bytes_t value) {
    if (bytes_equal(name, BYTES_LITERAL("Nats-Msg-Id"))) {
        wishes->append.msg_id = value;
    } else if (bytes_starts(name, BYTES_LITERAL("Nats-Expected-"))) {
        read_expectation(wishes, name, value);
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Rollup"))) {
        wishes->rollup = value;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-TTL"))) {
        wishes->ttl = value;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Incr"))) {
        wishes->increment = value;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Stream-Source"))) {
        wishes->has_source = true;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Batch-Id"))) {
        wishes->has_batch = true;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Schedule"))) {
        wishes->has_schedule = true;
    } else if (bytes_equal(name, BYTES_LITERAL("Nats-Request-Info"))) {
        wishes->has_request_info = true;
    }
}

static bool number_with_sign(bytes_t text) {
    uint32_t start = text.size != 0 && (text.at[0] == '+' || text.at[0] == '-') ? 1 : 0;
    for (uint32_t i = start; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
    }
    return text.size > start;
}

/* "never", seconds, or a duration of at least one second. */
static bool ttl_of(bytes_t text, int64_t *ttl_ns) {
    if (bytes_equal(text, BYTES_LITERAL("never"))) {
        *ttl_ns = -1;
        return true;
    }
    uint64_t seconds = sequence_of(text);
    if (seconds != UINT64_MAX) {
        *ttl_ns = seconds > (uint64_t)(INT64_MAX / NS_PER_SECOND / 2) ? INT64_MAX / 2 : (int64_t)seconds * NS_PER_SECOND;
    } else if (duration_parse(text, ttl_ns) != STATUS_OK) {
        return false;
    }
    return *ttl_ns >= NS_PER_SECOND;
}

static bool is_word(bytes_t text, const char *word) {
    return text.size == strlen(word) && strncasecmp((const char *)text.at, word, text.size) == 0;
}

/* NULL: everything asked for can be done, and append says what it is. */
static const js_error_t *judge(const plane_t *plane, const stream_t *stream, wishes_t *wishes, bytes_t *detail) {
    static const js_error_t bad_increment = {400, 10171, "message counter increment is invalid"};
    static const js_error_t no_counter = {400, 10168, "message counters is disabled"};
    static const js_error_t wrong_stream = {400, 10060, "expected stream does not match"};
    static const js_error_t no_ttl = {400, 10166, "per-message TTL is disabled"};
    static const js_error_t bad_ttl = {400, 10165, "invalid per-message TTL"};
    static const js_error_t no_sequence = {400, 10193, "missing sequence for expected last sequence per subject"};
    static const js_error_t no_schedule = {400, 10188, "message schedules is disabled"};
    static const js_error_t no_source = {400, 10227, "message stream source header is not allowed"};
    static const js_error_t no_batch = {400, 10174, "atomic publish is disabled"};
    static const js_error_t bad_rollup = {500, 10111, "rollup value invalid: "};
    if (wishes->has_batch) {
        return &no_batch;
    }
    if (wishes->increment.size != 0) {
        return number_with_sign(wishes->increment) ? &no_counter : &bad_increment;
    }
    if (wishes->has_expected_stream && !bytes_equal(wishes->expected_stream, stream->name)) {
        return &wrong_stream;
    }
    if (wishes->ttl.size != 0) {
        int64_t ttl_ns = 0;
        if (!ttl_of(wishes->ttl, &ttl_ns)) {
            return &bad_ttl;
        }
        if ((stream->config.flags & STREAM_ALLOW_TTL) == 0) {
            return &no_ttl;
        }
        wishes->append.expires_ts = ttl_ns < 0 ? -1 : plane->now.wall_ns + ttl_ns;
    }
    if (wishes->has_subject_header && !wishes->append.has_expected_subject_seq) {
        return &no_sequence;
    }
    if (wishes->has_schedule) {
        return &no_schedule;
    }
    if (wishes->has_source) {
        return &no_source;
    }
    if (wishes->rollup.size != 0) {
        wishes->append.rollup = is_word(wishes->rollup, "sub") ? 1 : is_word(wishes->rollup, "all") ? 2 : 0;
        if (wishes->append.rollup == 0) {
            *detail = wishes->rollup;
            return &bad_rollup;
        }
    }
    return NULL;
}

static bool is_request_info(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Request-Info"));
}

/* Stored as sent, but for an inline status and what a service import added. */
static bytes_t header_to_store(plane_t *plane, bytes_t header, bool has_request_info) {
    bytes_t line = BYTES_LITERAL("NATS/1.0\r\n");
    if (!has_request_info && (bytes_starts(header, line) || !bytes_starts(header, bytes_of(line.at, 8)))) {
        return header;
    }
    bool empty = false;
    plane->scratch.size = 0;
    if (headers_copy_without(&plane->scratch, header, is_request_info, true, &empty) != STATUS_OK || empty) {
        return BYTES_NONE;
    }
    return bytes_of(plane->scratch.at, (uint32_t)plane->scratch.size);
}

/* ---- the target ---------------------------------------------------------------------------------------------------------------- */

void js_publish(plane_t *plane, stream_t *stream, const publication_t *publication) {
    const message_t *message = &publication->message;
    wishes_t wishes = {.append = {.subject = message->subject, .header = message->header, .payload = message->payload}};
    if (publication->origin != NULL) {
        publication->origin->producer = true;
    }
    if (message->header.size != 0) {
        uint32_t cursor = 0;
        bytes_t name;
        bytes_t value;
        while (headers_next(message->header, &cursor, &name, &value)) {
            if (bytes_starts(name, BYTES_LITERAL("Nats-"))) {
                read_header(&wishes, name, value);
            }
        }
        bytes_t detail = BYTES_NONE;
        const js_error_t *error = judge(plane, stream, &wishes, &detail);
        if (error != NULL) {
            answer_error(plane, stream, message->reply, error, detail);
            return;
        }
        wishes.append.header = header_to_store(plane, message->header, wishes.has_request_info);
    }
    wishes.append.skip = stream->config.retention == 1 && !consume_wanted(plane->consume, stream->id, message->subject);
    appended_t appended = store_append(stream->store, &wishes.append, plane->now);
    answer_verdict(plane, stream, message->reply, &appended);
}
