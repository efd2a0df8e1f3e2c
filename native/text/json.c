/* json.c: see json.h. */
#include "text/json.h"
#include "base/hex.h"
#include "text/decimal.h"

#include <stdio.h>
#include <strings.h>

typedef struct reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t depth;
    json_error_t *error;
} reader_t;

static bool fail_at_end(reader_t *reader) {
    (void)snprintf(reader->error->text, sizeof reader->error->text, "unexpected end of JSON input");
    return false;
}

/* The size of the character here, when it is a whole one of more than one byte; else 0. The error text goes into a
 * header: whatever could end a line there must not get through. */
static int utf8_size(const reader_t *reader) {
    uint8_t c = *reader->at;
    int size = c < 0xc2 || c >= 0xf5 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (reader->end - reader->at < size) return 0;
    for (int i = 1; i < size; i++) {
        if ((reader->at[i] & 0xc0) != 0x80) return 0;
    }
    return size;
}

/* One character in single quotes, as Go shows it: UTF-8 as it is, control characters escaped. */
static void reader_quote(const reader_t *reader, char to[12]) {
    uint8_t c = *reader->at;
    if (c == '\'' || c == '\\') {
        (void)snprintf(to, 12, "'\\%c'", c);
    } else if (c >= 0x20 && c < 0x7f) {
        (void)snprintf(to, 12, "'%c'", c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
        (void)snprintf(to, 12, "'\\%c'", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (utf8_size(reader) > 0) {
        (void)snprintf(to, 12, "'%.*s'", utf8_size(reader), (const char *)reader->at);
    } else {
        (void)snprintf(to, 12, "'\\x%02x'", c);
    }
}

static bool reader_fail(reader_t *reader, const char *where) {
    if (reader->at >= reader->end) return fail_at_end(reader);
    char shown[12];
    reader_quote(reader, shown);
    (void)snprintf(reader->error->text, sizeof reader->error->text, "invalid character %s %s", shown, where);
    return false;
}

static void reader_skip_white(reader_t *reader) {
    while (reader->at < reader->end
           && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r' || *reader->at == '\n')) {
        reader->at++;
    }
}

static bool read_escape(reader_t *reader) {
    const uint8_t *start = reader->at++;
    if (reader->at >= reader->end) return fail_at_end(reader);
    int size = 2;
    if (*reader->at == 'u') {
        for (reader->at++; size < 6; size++, reader->at++) {
            if (reader->at >= reader->end) return fail_at_end(reader);
            if (hex_digit(*reader->at) < 0) break;
        }
        if (size == 6) return true;
        size = reader->end - start < 6 ? (int)(reader->end - start) : 6;
    } else if (memchr("\"\\/bfnrt", *reader->at, 8)) {
        reader->at++;
        return true;
    }
    char shown[8] = "";
    for (int i = 0; i < size; i++) shown[i] = start[i] >= 0x20 && start[i] < 0x7f ? (char)start[i] : '?';
    (void)snprintf(reader->error->text, sizeof reader->error->text, "invalid escape sequence `%s` in string", shown);
    return false;
}

static bool reader_string(reader_t *reader) {
    reader->at++;
    while (reader->at < reader->end) {
        if (*reader->at == '"') {
            reader->at++;
            return true;
        }
        if (*reader->at < 0x20) return reader_fail(reader, "in string");
        if (*reader->at == '\\') {
            if (!read_escape(reader)) return false;
        } else {
            reader->at++;
        }
    }
    return fail_at_end(reader);
}

static bool read_digits(reader_t *reader) {
    if (reader->at >= reader->end || *reader->at < '0' || *reader->at > '9')
        return reader_fail(reader, "in numeric literal");
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') reader->at++;
    return true;
}

static bool read_number(reader_t *reader) {
    if (*reader->at == '-') reader->at++;
    if (reader->at < reader->end && *reader->at == '0') {
        reader->at++; /* a digit behind a leading zero belongs to what comes next */
    } else if (!read_digits(reader)) {
        return false;
    }
    if (reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        if (!read_digits(reader)) return false;
    }
    if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-')) reader->at++;
        if (!read_digits(reader)) return false;
    }
    return true;
}

static bool reader_word(reader_t *reader, const char *word) {
    for (const char *wanted = word; *wanted; wanted++, reader->at++) {
        if (reader->at >= reader->end) return fail_at_end(reader);
        if (*reader->at != (uint8_t)*wanted) {
            char where[48];
            (void)snprintf(where, sizeof where, "in literal %s (expecting '%c')", word, *wanted);
            return reader_fail(reader, where);
        }
    }
    return true;
}

static bool read_value(reader_t *reader);

static bool read_members(reader_t *reader, bool object) {
    uint8_t close = object ? '}' : ']';
    reader->at++;
    reader_skip_white(reader);
    if (reader->at < reader->end && *reader->at == close) {
        reader->at++;
        return true;
    }
    for (;;) {
        reader_skip_white(reader);
        if (object) {
            if (reader->at >= reader->end || *reader->at != '"')
                return reader_fail(reader, "looking for beginning of object key string");
            if (!reader_string(reader)) return false;
            reader_skip_white(reader);
            if (reader->at >= reader->end || *reader->at != ':') return reader_fail(reader, "after object key");
            reader->at++;
        }
        if (!read_value(reader)) return false;
        reader_skip_white(reader);
        if (reader->at < reader->end && *reader->at == close) {
            reader->at++;
            return true;
        }
        if (reader->at >= reader->end || *reader->at != ',') {
            return reader_fail(reader, object ? "after object key:value pair" : "after array element");
        }
        reader->at++;
    }
}

static bool read_value(reader_t *reader) {
    reader_skip_white(reader);
    if (reader->at >= reader->end) return fail_at_end(reader);
    switch (*reader->at) {
    case '"': return reader_string(reader);
    case 't': return reader_word(reader, "true");
    case 'f': return reader_word(reader, "false");
    case 'n': return reader_word(reader, "null");
    case '-': return read_number(reader);
    case '{':
    case '[':
        if (++reader->depth > JSON_DEPTH_MAX) {
            (void)snprintf(reader->error->text, sizeof reader->error->text, "exceeded max depth");
            return false;
        }
        if (!read_members(reader, *reader->at == '{')) return false;
        reader->depth--;
        return true;
    default:
        if (*reader->at >= '0' && *reader->at <= '9') return read_number(reader);
        return reader_fail(reader, "looking for beginning of value");
    }
}

bool json_valid(bytes_t text, json_error_t *error) {
    if (text.size == 0) {
        (void)snprintf(error->text, sizeof error->text, "unexpected end of JSON input");
        return false;
    }
    reader_t reader = {.at = text.at, .end = text.at + text.size, .error = error};
    error->text[0] = 0;
    if (!read_value(&reader)) return false;
    reader_skip_white(&reader);
    return reader.at == reader.end || reader_fail(&reader, "after top-level value");
}

static json_kind_t json_kind_of(uint8_t first) {
    switch (first) {
    case '{': return JSON_OBJECT;
    case '[': return JSON_ARRAY;
    case '"': return JSON_STRING;
    case 't':
    case 'f': return JSON_BOOL;
    case 'n': return JSON_NULL;
    default: return JSON_NUMBER;
    }
}

bool json_next(bytes_t object, uint32_t *at, json_field_t *field) {
    json_error_t unused;
    reader_t reader = {.at = object.at + *at, .end = object.at + object.size, .error = &unused};
    reader_skip_white(&reader);
    if (reader.at < reader.end && *reader.at == (*at == 0 ? '{' : ',')) reader.at++;
    reader_skip_white(&reader);
    if (reader.at >= reader.end || *reader.at != '"') return false;
    const uint8_t *start = reader.at + 1;
    if (!reader_string(&reader)) return false;
    field->name = bytes_of(start, (uint32_t)(reader.at - 1 - start));
    reader_skip_white(&reader);
    if (reader.at >= reader.end) return false;
    reader.at++; /* the colon */
    reader_skip_white(&reader);
    if (reader.at >= reader.end) return false;
    start = reader.at;
    field->kind = json_kind_of(*start);
    if (!read_value(&reader)) return false;
    field->value = bytes_of(start, (uint32_t)(reader.at - start));
    if (field->kind == JSON_STRING) field->value = bytes_of(start + 1, field->value.size - 2);
    *at = (uint32_t)(reader.at - object.at);
    return true;
}

bool json_named(const json_field_t *field, const char *name) {
    return field->name.size == strlen(name) && strncasecmp((const char *)field->name.at, name, field->name.size) == 0;
}

const char *json_kind_name(json_kind_t kind) {
    static const char *const names[] = {"null", "bool", "number", "string", "object", "array"};
    return names[kind];
}

bool json_integer(bytes_t value, int64_t *out) {
    return decimal_parse_signed(value, out);
}
