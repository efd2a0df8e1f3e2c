/* counter.c: see counter.h. Sums and texts are the reference's (tests/wire/jetstream.md, "Counters").
 *
 *     Nats-Incr: 5            payload  {"val":"12"}  ->  {"val":"17"}        what a client adds
 *     Nats-Counter-Sources:   {"<origin stream>":{"<subject there>":"<value there>"}}   what sources have added so far
 *
 * Not here: which streams are counters and what they may not be besides (control).
 */
#include "jetstream/counter.h"

#include "base/abi_types.h"
#include "jetstream/js.h"
#include "text/headers.h"
#include "text/integer.h"
#include "text/json.h"

const refusal_t refused_increment = {400, 10171, "message counter increment is invalid", {NULL, 0}, false};
const refusal_t refused_no_increment = {400, 10169, "message counter increment is missing", {NULL, 0}, false};
const refusal_t refused_broken = {400, 10172, "message counter is broken", {NULL, 0}, false};

#define PREFIX BYTES_LITERAL("{\"val\":\"")
#define SOURCES BYTES_LITERAL("Nats-Counter-Sources")
#define SUFFIX BYTES_LITERAL("\"}")

static bool counter_append(buffer_t *out, bytes_t text) {
    return buffer_append(out, text.at, text.size) == STATUS_OK;
}

/* The text "val" of a counter's JSON, empty when it has none. false: it is not JSON, or val is no text. */
static bool read_value_text(bytes_t payload, bytes_t *value) {
    json_error_t error;
    json_field_t field;
    uint32_t at = 0;
    *value = BYTES_NONE;
    if (!json_valid(payload, &error)) {
        return false;
    }
    bytes_t rest = payload;
    while (rest.size > 0 && (rest.at[0] == ' ' || rest.at[0] == '\n' || rest.at[0] == '\r' || rest.at[0] == '\t')) {
        rest = bytes_of(rest.at + 1, rest.size - 1);
    }
    if (rest.at[0] != '{') {
        return bytes_equal(rest, BYTES_LITERAL("null"));
    }
    while (json_next(rest, &at, &field)) {
        if (json_named(&field, "val")) {
            if (field.kind != JSON_STRING && field.kind != JSON_NULL) {
                return false;
            }
            *value = field.kind == JSON_STRING ? field.value : *value;
        }
    }
    return true;
}

static bool append_sum(buffer_t *out, integer_t a, integer_t b) {
    uint8_t *place;
    uint32_t room = integer_room(a, b);
    if (buffer_reserve(out, room, &place) != STATUS_OK) {
        return false;
    }
    bytes_t sum = integer_add(a, b, place);
    memmove(place, sum.at, sum.size);
    out->size += sum.size;
    return true;
}

static const refusal_t *append_payload(buffer_t *out, const stored_message_t *last, bytes_t increment) {
    integer_t value = {.digits = BYTES_NONE};
    integer_t more;
    bytes_t text;
    if (last != NULL) {
        if (!read_value_text(last->payload, &text)) {
            return &refused_broken;
        }
        (void)integer_parse(text, &value); /* what is no number counts as 0, as in the reference */
    }
    if (!integer_parse(increment, &more) || integer_room(value, more) > COUNTER_DIGITS_MAX) {
        return &refused_increment;
    }
    return counter_append(out, PREFIX) && append_sum(out, value, more) && counter_append(out, SUFFIX) ? NULL
                                                                                                      : &refused_space;
}

bytes_t counter_value(bytes_t payload) {
    bytes_t value;
    return read_value_text(payload, &value) ? value : BYTES_NONE;
}

/* Finds the last value of a counter. *there: NULL, or last. */
static status_t last_counter(stream_t *stream, bytes_t subject, stored_message_t *last,
                             const stored_message_t **there) {
    entry_outcome_t outcome = store_last_by_subject(stream->store, subject, UINT64_MAX, last);
    *there = NULL;
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: return entry_status(outcome);
    case ENTRY_NONE: break;
    case ENTRY_FOUND: *there = last; break;
    }
    return STATUS_OK;
}

/* As the reference says it: the counter stays below what a message may be. Of a stream that several servers keep the
 * server's own limit does not count: each of them comes to the same. */
static bool is_too_large(const js_t *js, const stream_t *stream, uint64_t size) {
    return (stream->replicated == NULL && size > js->limits->max_payload)
           || (stream->config.max_msg_size >= 0 && size > (uint64_t)stream->config.max_msg_size);
}

static bool drop_sources(bytes_t name) {
    return bytes_equal(name, SOURCES);
}

/* The header with what sources have added so far. */
static bool append_sources(buffer_t *out, bytes_t header, bytes_t sources) {
    bool empty = false;
    out->size = 0;
    return headers_copy_without(out, header, drop_sources, false, &empty) == STATUS_OK
           && headers_append(out, 0, SOURCES, sources) == STATUS_OK;
}

const refusal_t *counter_add(js_t *js, const stream_t *stream, const stored_message_t *last, bytes_t increment,
                             append_t *append) {
    bytes_t sources;
    js->counted.size = 0;
    const refusal_t *refusal = append_payload(&js->counted, last, increment);
    if (refusal != NULL) {
        return refusal;
    }
    append->payload = bytes_of(js->counted.at, (uint32_t)js->counted.size);
    if (last != NULL && headers_find(last->header, SOURCES, &sources)) {
        if (!append_sources(&js->sourced, append->header, sources)) {
            return &refused_space;
        }
        append->header = bytes_of(js->sourced.at, (uint32_t)js->sourced.size);
    }
    return is_too_large(js, stream, (uint64_t)append->header.size + append->payload.size) ? &refused_size : NULL;
}

const refusal_t *counter_apply(js_t *js, stream_t *stream, bytes_t subject, bytes_t increment, append_t *append) {
    stored_message_t last;
    const stored_message_t *there;
    if (last_counter(stream, subject, &last, &there) != STATUS_OK) {
        return &refused_space;
    }
    return counter_add(js, stream, there, increment, append);
}

/* ---- of a stream that several servers keep ----------------------------------------------------------------------- */

static append_verdict_t counted_verdict(const refusal_t *refusal) {
    return refusal == NULL              ? APPEND_STORED
           : refusal == &refused_broken ? APPEND_NO_COUNTER
           : refusal == &refused_size   ? APPEND_TOO_LARGE
           : refusal == &refused_space  ? APPEND_LATER
                                        : APPEND_NO_INCREMENT;
}

static append_verdict_t sourced_verdict(js_t *js, stream_t *stream, append_t *append) {
    status_t status = counter_source(js, stream, append);
    return status == STATUS_OK ? APPEND_STORED : status == STATUS_INVALID ? APPEND_BAD_SUBJECT : APPEND_LATER;
}

/* The last one that it says, as intake.c reads it. */
static bytes_t increment_of(bytes_t header) {
    uint32_t cursor = 0;
    bytes_t name, value, increment = BYTES_NONE;
    while (headers_next(header, &cursor, &name, &value)) {
        increment = bytes_equal(name, BYTES_LITERAL("Nats-Incr")) ? value : increment;
    }
    return increment;
}

append_verdict_t counter_applied(js_t *js, stream_t *stream, const append_t *before, append_t *append) {
    if (append->skip || (stream->config.flags & STREAM_COUNTER) == 0) {
        return APPEND_STORED;
    }
    if (append->source_key.size > 0) {
        return sourced_verdict(js, stream, append);
    }
    bytes_t increment = increment_of(append->header);
    if (increment.size == 0) {
        return APPEND_NO_INCREMENT;
    }
    if (before == NULL) {
        return counted_verdict(counter_apply(js, stream, append->subject, increment, append));
    }
    const stored_message_t last = {.header = before->header, .payload = before->payload};
    return counted_verdict(counter_add(js, stream, &last, increment, append));
}

/* ---- what sources add -------------------------------------------------------------------------------------------- */

/* Compares names as they stand in JSON. */
static int name_order(bytes_t a, bytes_t b) {
    uint32_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.at, b.at, size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static bool json_find(bytes_t object, bytes_t name, json_field_t *field) {
    uint32_t at = 0;
    while (json_next(object, &at, field)) {
        if (bytes_equal(field->name, name)) {
            return true;
        }
    }
    return false;
}

static bool append_member(buffer_t *out, bool first, bytes_t name, bytes_t value, bool quoted) {
    bytes_t quote = quoted ? BYTES_LITERAL("\"") : BYTES_NONE;
    return counter_append(out, first ? BYTES_LITERAL("\"") : BYTES_LITERAL(",\"")) && counter_append(out, name)
           && counter_append(out, BYTES_LITERAL("\":")) && counter_append(out, quote) && counter_append(out, value)
           && counter_append(out, quote);
}

/* The object with that member, new or in place of the one it has; members are in the order of their names. */
static bool append_object_with(buffer_t *out, bytes_t object, bytes_t name, bytes_t value, bool quoted) {
    json_field_t field;
    uint32_t at = 0;
    bool first = true;
    bool put = false;
    bool good = counter_append(out, BYTES_LITERAL("{"));
    while (good && object.size != 0 && json_next(object, &at, &field)) {
        int order = name_order(field.name, name);
        if (!put && order >= 0) {
            good = append_member(out, first, name, value, quoted);
            put = true;
            first = false;
        }
        if (good && order != 0) {
            good = append_member(out, first, field.name, field.value, field.kind == JSON_STRING);
            first = false;
        }
    }
    return good && (put || append_member(out, first, name, value, quoted)) && counter_append(out, BYTES_LITERAL("}"));
}

/* Reads a message's origin in its Nats-Stream-Source: the first field, and the fifth. */
static bool read_origin(bytes_t rest, bytes_t *origin, text_t *subject) {
    *origin = BYTES_NONE;
    subject->size = 0;
    for (uint32_t number = 0; rest.size != 0; number++) {
        const uint8_t *blank = memchr(rest.at, ' ', rest.size);
        uint32_t size = blank == NULL ? rest.size : (uint32_t)(blank - rest.at);
        if (number == 0) {
            *origin = bytes_of(rest.at, size);
        } else if (number == 4) {
            text_add_escaped(subject, bytes_of(rest.at, size));
        }
        size += blank != NULL;
        rest = bytes_of(rest.at + size, rest.size - size);
    }
    return origin->size != 0 && subject->size != 0 && !text_is_over(subject);
}

/* The parts of js->counted, one behind the other. */
typedef struct counted {
    bytes_t subjects; /* of the origin, with their values */
    bytes_t sources;
    bytes_t difference;
    bytes_t payload;
} counted_t;

static bytes_t part_since(const buffer_t *out, uint64_t begin) {
    return bytes_of(out->at + begin, (uint32_t)(out->size - begin));
}

static bool count_source(buffer_t *out, const stored_message_t *last, bytes_t origin, bytes_t subject, bytes_t value,
                         counted_t *parts) {
    bytes_t sources = BYTES_NONE;
    json_error_t error;
    json_field_t of_origin = {.value = BYTES_NONE};
    json_field_t before = {.value = BYTES_NONE};
    integer_t there;
    integer_t previous;
    uint8_t *room;
    if (last != NULL && headers_find(last->header, SOURCES, &sources) && !json_valid(sources, &error)) {
        return false;
    }
    bool known = sources.size != 0 && json_find(sources, origin, &of_origin) && of_origin.kind == JSON_OBJECT;
    (void)integer_parse(value, &there);
    (void)integer_parse(known && json_find(of_origin.value, subject, &before) ? before.value : BYTES_NONE, &previous);
    /* All at once, so that the parts stay where they are. */
    uint64_t most = 2 * ((uint64_t)sources.size + origin.size + subject.size + value.size)
                    + 4 * (uint64_t)(COUNTER_DIGITS_MAX + 64);
    out->size = 0;
    if (integer_room(there, previous) > COUNTER_DIGITS_MAX || buffer_reserve(out, most, &room) != STATUS_OK) {
        return false;
    }
    bool good = append_object_with(out, known ? of_origin.value : BYTES_NONE, subject, value, true);
    parts->subjects = part_since(out, 0);
    uint64_t begin = out->size;
    good = good && append_object_with(out, sources, origin, parts->subjects, false);
    parts->sources = part_since(out, begin);
    begin = out->size;
    good = good && append_sum(out, there, integer_negated(previous));
    parts->difference = part_since(out, begin);
    begin = out->size;
    good = good && append_payload(out, last, parts->difference) == NULL;
    parts->payload = part_since(out, begin);
    return good;
}

static bool drop_counted(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Incr")) || bytes_equal(name, SOURCES)
           || bytes_equal(name, BYTES_LITERAL("Nats-Stream-Source"));
}

status_t counter_source(js_t *js, stream_t *stream, append_t *append) {
    bytes_t increment;
    bytes_t value;
    bytes_t source;
    bytes_t origin;
    text_t subject;
    integer_t number;
    stored_message_t last;
    counted_t parts;
    bool empty = false;
    if (!headers_find(append->header, BYTES_LITERAL("Nats-Incr"), &increment) || !integer_parse(increment, &number)
        || !read_value_text(append->payload, &value)
        || !headers_find(append->header, BYTES_LITERAL("Nats-Stream-Source"), &source)
        || !read_origin(source, &origin, &subject)) {
        return STATUS_INVALID;
    }
    value = integer_parse(value, &number) ? value : BYTES_LITERAL("0");
    const stored_message_t *there;
    status_t status = last_counter(stream, append->subject, &last, &there);
    if (status != STATUS_OK) {
        return status;
    }
    if (!count_source(&js->counted, there, origin, text_bytes(&subject), value, &parts)) {
        return STATUS_INVALID;
    }
    buffer_t *header = &js->sourced;
    header->size = 0;
    if (headers_copy_without(header, append->header, drop_counted, false, &empty) != STATUS_OK
        || headers_append(header, 0, BYTES_LITERAL("Nats-Incr"), parts.difference) != STATUS_OK
        || headers_append(header, 0, BYTES_LITERAL("Nats-Stream-Source"), source) != STATUS_OK
        || headers_append(header, 0, SOURCES, parts.sources) != STATUS_OK) {
        return STATUS_INVALID;
    }
    append->header = bytes_of(header->at, (uint32_t)header->size);
    append->payload = parts.payload;
    bool fits = !is_too_large(js, stream, (uint64_t)append->header.size + append->payload.size);
    return fits ? STATUS_OK : STATUS_INVALID;
}
