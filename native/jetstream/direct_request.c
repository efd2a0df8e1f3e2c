/* direct_request.c: see direct_request.h. */
#include "jetstream/direct_request.h"

#include "base/bytes.h"
#include "base/hex.h"
#include "text/decimal.h"
#include "text/json.h"
#include "text/time_text.h"

static uint32_t json_hex4(const uint8_t *at) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) {
        value = value * 16 + ((uint32_t)hex_digit(at[i]) & 15);
    }
    return value;
}

/* A JSON string between its quotes, escapes resolved into request->text (subjects are in the basic plane: Go writes >
 * as \u003e). */
static bool json_unescape(direct_request_t *request, bytes_t raw, bytes_t *out) {
    if (raw.size > REQUEST_TEXT_MAX - request->text_size) {
        return false;
    }
    uint8_t *start = request->text + request->text_size;
    uint8_t *to = start;
    for (uint32_t i = 0; i < raw.size; i++) {
        uint8_t c = raw.at[i];
        if (c != '\\' || i + 1 >= raw.size) {
            *to++ = c;
            continue;
        }
        c = raw.at[++i];
        if (c != 'u' || i + 4 >= raw.size) {
            *to++ = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
            continue;
        }
        uint32_t point = json_hex4(raw.at + i + 1);
        i += 4;
        if (point < 0x80) {
            *to++ = (uint8_t)point;
        } else if (point < 0x800) {
            *to++ = (uint8_t)(0xc0 | (point >> 6));
            *to++ = (uint8_t)(0x80 | (point & 0x3f));
        } else {
            *to++ = (uint8_t)(0xe0 | (point >> 12));
            *to++ = (uint8_t)(0x80 | ((point >> 6) & 0x3f));
            *to++ = (uint8_t)(0x80 | (point & 0x3f));
        }
    }
    *out = bytes_of(start, (uint32_t)(to - start));
    request->text_size += out->size;
    return true;
}

/* The next item of ["a","b",null], already known to be valid JSON: between the quotes, none of null. false: no more, or
 * (*bad) an item of another kind. */
static bool next_item(bytes_t array, uint32_t *at, bytes_t *item, bool *bad) {
    while (*at < array.size && (array.at[*at] == '[' || array.at[*at] == ',' || array.at[*at] <= ' ')) {
        ++*at;
    }
    *bad = false;
    if (*at >= array.size || array.at[*at] == ']') {
        return false;
    }
    *item = BYTES_NONE;
    if (array.at[*at] == 'n') {
        *at += 4;
        return true;
    }
    *bad = array.at[*at] != '"';
    uint32_t start = ++*at;
    while (*at < array.size && array.at[*at] != '"') {
        *at += array.at[*at] == '\\' ? 2 : 1;
    }
    *bad = *bad || *at >= array.size;
    if (!*bad) {
        *item = bytes_of(array.at + start, *at - start);
        ++*at;
    }
    return !*bad;
}

static bool request_filters(direct_request_t *request, bytes_t array) {
    uint32_t at = 1;
    bytes_t item;
    bool bad;
    while (next_item(array, &at, &item, &bad)) {
        request->multi = array;
    }
    return !bad;
}

bool direct_request_filter(direct_request_t *request, bytes_t multi, uint32_t *at, bytes_t *filter) {
    bytes_t item;
    bool bad;
    *at = *at == 0 ? 1 : *at;
    while (next_item(multi, at, &item, &bad)) {
        request->text_size = 0;
        if (item.size != 0 && json_unescape(request, item, filter)) {
            return true;
        }
    }
    return false;
}

/* Digits alone: to the reference even -0 is none of these. */
static bool read_unsigned(const json_field_t *field, uint64_t *out) {
    return field->kind == JSON_NULL || (field->kind == JSON_NUMBER && decimal_parse(field->value, out));
}

static bool read_signed(const json_field_t *field, int64_t *out) {
    return field->kind == JSON_NULL || (field->kind == JSON_NUMBER && json_integer(field->value, out));
}

static bool read_time(const json_field_t *field, int64_t *out, bool *has) {
    if (field->kind == JSON_NULL) {
        return true;
    }
    *has = field->kind == JSON_STRING && time_parse_nearest(field->value, out);
    return *has;
}

static bool request_string(direct_request_t *request, const json_field_t *field, bytes_t *out) {
    return field->kind == JSON_NULL || (field->kind == JSON_STRING && json_unescape(request, field->value, out));
}

static bool request_field(direct_request_t *request, const json_field_t *field) {
    if (json_named(field, "seq")) {
        return read_unsigned(field, &request->seq);
    }
    if (json_named(field, "batch")) {
        return read_signed(field, &request->batch);
    }
    if (json_named(field, "max_bytes")) {
        int64_t most = (int64_t)request->max_bytes;
        bool read = read_signed(field, &most);
        request->max_bytes = most < 0 ? 1 : (uint64_t)most; /* below 0: no more than the first message has */
        return read;
    }
    if (json_named(field, "up_to_seq")) {
        return read_unsigned(field, &request->up_to_seq);
    }
    if (json_named(field, "last_by_subj")) {
        return request_string(request, field, &request->last_by);
    }
    if (json_named(field, "next_by_subj")) {
        return request_string(request, field, &request->next_by);
    }
    if (json_named(field, "start_time")) {
        return read_time(field, &request->start_ts, &request->has_time);
    }
    if (json_named(field, "up_to_time")) {
        return read_time(field, &request->up_to_ts, &request->has_up_to_time);
    }
    if (json_named(field, "no_hdr")) {
        request->no_header = field->value.size == 4 && field->kind == JSON_BOOL; /* true */
        return field->kind == JSON_BOOL || field->kind == JSON_NULL;
    }
    if (json_named(field, "uncounted")) {
        request->uncounted = field->value.size == 4 && field->kind == JSON_BOOL; /* true */
        return true;
    }
    if (json_named(field, "multi_last")) {
        request->multi = BYTES_NONE;
        return field->kind == JSON_NULL || (field->kind == JSON_ARRAY && request_filters(request, field->value));
    }
    return true;
}

bool direct_request_read(direct_request_t *request, bytes_t body) {
    json_error_t error;
    if (!json_valid(body, &error)) {
        return false;
    }
    uint32_t start = 0;
    while (start < body.size && body.at[start] <= ' ') {
        start++;
    }
    if (start == body.size || body.at[start] != '{') {
        return start < body.size && body.at[start] == 'n'; /* null */
    }
    uint32_t at = 0;
    json_field_t field;
    while (json_next(body, &at, &field)) {
        if (!request_field(request, &field)) {
            return false;
        }
    }
    return true;
}

bool direct_request_conflicts(const direct_request_t *request) {
    bool last = request->last_by.size != 0;
    return (request->seq != 0 && last) || (request->seq != 0 && request->has_time) || (request->has_time && last)
           || (last && request->next_by.size != 0) || (last && request->batch > 0) || (last && request->multi.size != 0)
           || (request->next_by.size != 0 && request->multi.size != 0)
           || (request->up_to_seq != 0 && request->has_up_to_time);
}

static void slice_moved(bytes_t *slice, const direct_request_t *to, const direct_request_t *from) {
    if (slice->size != 0) {
        slice->at = to->text + (slice->at - from->text);
    }
}

void direct_request_moved(direct_request_t *to, const direct_request_t *from) {
    slice_moved(&to->last_by, to, from);
    slice_moved(&to->next_by, to, from);
}
