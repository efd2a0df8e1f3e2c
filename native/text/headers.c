/* headers.c: walks a header block line by line; a line ends at CRLF and nowhere else.
 *
 *   NATS/1.0[ status[ description]] CRLF
 *   name: value CRLF            any number
 *   CRLF
 */
#include "text/headers.h"

#include <string.h>

#include "base/check.h"
#include "text/blank.h"

static const bytes_t version = {(const uint8_t *)"NATS/1.0", 8};
static const bytes_t crlf = {(const uint8_t *)"\r\n", 2};

/* The line that starts at `from`, without its CRLF; *next is behind it. false: no further whole line. */
static bool next_line(bytes_t block, uint32_t from, bytes_t *line, uint32_t *next) {
    uint32_t at = from;
    while (at < block.size) {
        const uint8_t *cr = memchr(block.at + at, '\r', block.size - at);
        if (cr == NULL) {
            return false;
        }
        at = (uint32_t)(cr - block.at) + 1;
        if (at < block.size && block.at[at] == '\n') {
            *line = bytes_of(block.at + from, at - 1 - from);
            *next = at + 1;
            return true;
        }
    }
    return false;
}

static bytes_t trim_blanks(bytes_t text) {
    while (text.size > 0 && is_blank(text.at[0])) {
        text = bytes_of(text.at + 1, text.size - 1);
    }
    while (text.size > 0 && is_blank(text.at[text.size - 1])) {
        text.size--;
    }
    return text;
}

/* Offset of the first field's line; false when the block does not begin like one. */
static bool first_field(bytes_t block, uint32_t *at, bytes_t *status_line) {
    return bytes_starts(block, version) && next_line(block, 0, status_line, at);
}

bool headers_next(bytes_t block, uint32_t *cursor, bytes_t *name, bytes_t *value) {
    bytes_t line;
    if (*cursor == 0 && !first_field(block, cursor, &line)) {
        return false;
    }
    while (next_line(block, *cursor, &line, cursor)) {
        if (line.size == 0) {
            return false;
        }
        const uint8_t *colon = memchr(line.at, ':', line.size);
        if (colon != NULL && colon != line.at) {
            uint32_t name_size = (uint32_t)(colon - line.at);
            *name = bytes_of(line.at, name_size);
            *value = trim_blanks(bytes_of(colon + 1, line.size - name_size - 1));
            return true;
        }
    }
    return false;
}

bool headers_find(bytes_t block, bytes_t name, bytes_t *value) {
    uint32_t cursor = 0;
    bytes_t field;
    while (headers_next(block, &cursor, &field, value)) {
        if (bytes_equal(field, name)) {
            return true;
        }
    }
    *value = BYTES_NONE;
    return false;
}

bool headers_has_prefix(bytes_t block, bytes_t prefix) {
    uint32_t cursor = 0;
    bytes_t field, value;
    while (headers_next(block, &cursor, &field, &value)) {
        if (bytes_starts(field, prefix)) {
            return true;
        }
    }
    return false;
}

static status_t copy_kept(buffer_t *out, bytes_t block, bool (*drop)(bytes_t name), bool strip_status, bool *empty) {
    uint32_t at;
    bytes_t line;
    if (!first_field(block, &at, &line)) {
        return STATUS_OK;
    }
    if (strip_status) {
        line = version;
    }
    *empty = trim_blanks(line).size == version.size;
    status_t status = buffer_append(out, line.at, line.size);
    if (status == STATUS_OK) {
        status = buffer_append(out, crlf.at, crlf.size);
    }
    while (status == STATUS_OK && next_line(block, at, &line, &at) && line.size > 0) {
        const uint8_t *colon = memchr(line.at, ':', line.size);
        if (colon == NULL || drop(bytes_of(line.at, (uint32_t)(colon - line.at)))) {
            continue;
        }
        *empty = false;
        status = buffer_append(out, line.at, (uint64_t)line.size + crlf.size);
    }
    return status == STATUS_OK ? buffer_append(out, crlf.at, crlf.size) : status;
}

status_t headers_copy_without(buffer_t *out, bytes_t block, bool (*drop)(bytes_t name), bool strip_status,
                              bool *empty) {
    uint64_t before = out->size;
    *empty = true;
    status_t status = copy_kept(out, block, drop, strip_status, empty);
    if (status != STATUS_OK || *empty) {
        out->size = before;
    }
    return status;
}

static bool holds_line_end(const uint8_t *at, uint64_t size) {
    return size > 0 && (memchr(at, '\r', (size_t)size) != NULL || memchr(at, '\n', (size_t)size) != NULL);
}

status_t headers_append_joined(buffer_t *out, uint64_t block_start, bytes_t name, const bytes_t *parts,
                               uint32_t count) {
    check(block_start <= out->size);
    if (name.size == 0 || holds_line_end(name.at, name.size)) {
        return STATUS_INVALID;
    }
    uint64_t size = 0; /* of the value: a part is shorter than 4 GB, and there are a few */
    for (uint32_t i = 0; i < count; i++) {
        size += parts[i].size;
    }
    uint8_t *to;
    status_t status = buffer_reserve(out, (uint64_t)version.size + name.size + size + 16, &to);
    if (status != STATUS_OK) {
        return status;
    }
    const uint8_t *start = out->at + block_start;
    bool closed = to - start >= 4 && memcmp(to - 4, "\r\n\r\n", 4) == 0;
    if (to == start) {
        memcpy(to, version.at, version.size);
        memcpy(to + version.size, crlf.at, crlf.size);
        to += version.size + crlf.size;
    } else if (closed) {
        to -= crlf.size;
    } else if (to - start < 2 || memcmp(to - 2, "\r\n", 2) != 0) {
        memcpy(to, crlf.at, crlf.size); /* a malformed block: at least the field gets a line of its own */
        to += crlf.size;
    }
    memcpy(to, name.at, name.size);
    to += name.size;
    memcpy(to, ": ", 2);
    to += 2;
    const uint8_t *value = to;
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].size > 0) {
            memcpy(to, parts[i].at, parts[i].size);
            to += parts[i].size;
        }
    }
    if (holds_line_end(value, size)) {
        if (closed) {
            memcpy(out->at + out->size - crlf.size, crlf.at, crlf.size); /* the rest lies behind the buffer's size */
        }
        return STATUS_INVALID;
    }
    memcpy(to, "\r\n\r\n", 4);
    out->size = (uint64_t)(to + 4 - out->at);
    check(out->size <= out->capacity);
    return STATUS_OK;
}

status_t headers_append(buffer_t *out, uint64_t block_start, bytes_t name, bytes_t value) {
    return headers_append_joined(out, block_start, name, &value, 1);
}
