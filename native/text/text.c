/* text.c: see the header. */
#include "text/text.h"

#include "text/decimal.h"

void text_add(text_t *text, bytes_t part) {
    if (text_is_over(text)) {
        return;
    }
    uint32_t room = (uint32_t)sizeof(text->at) - text->size;
    uint32_t size = part.size < room ? part.size : room;
    if (size != 0) {
        memcpy(text->at + text->size, part.at, size);
    }
    text->size = part.size > room ? TEXT_OVER : text->size + size;
}

void text_add_literal(text_t *text, const char *part) {
    text_add(text, bytes_of(part, (uint32_t)strlen(part)));
}

void text_add_number(text_t *text, uint64_t number) {
    uint8_t digits[DECIMAL_MAX];
    text_add(text, decimal_text(digits, number));
}

/* How many bytes the character at the front has, and which it is; 0: it is no UTF-8. */
static uint32_t utf8_character(bytes_t raw, uint32_t *code) {
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = raw.at[0];
    uint32_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (size == 0 || size > raw.size) {
        return 0;
    }
    *code = size == 1 ? first : first & (0x7fu >> size);
    for (uint32_t i = 1; i < size; i++) {
        if (raw.at[i] >> 6 != 2) {
            return 0;
        }
        *code = *code << 6 | (raw.at[i] & 0x3fu);
    }
    return *code < lowest[size] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : size;
}

/* Controls, spaces of other widths, marks of direction. */
static bool is_printed(uint32_t code) {
    return code >= ' ' && code != 0x7f && (code < 0x80 || code > 0xa0) && code != 0xad
           && (code < 0x2000 || code > 0x200f) && (code < 0x2028 || code > 0x202f) && (code < 0x205f || code > 0x206f)
           && code != 0xfeff;
}

static void add_code(text_t *text, const char *before, uint32_t code, uint32_t digits) {
    text_add_literal(text, before);
    while (digits-- != 0) {
        text_add(text, bytes_of(&"0123456789abcdef"[code >> 4 * digits & 15], 1));
    }
}

void text_add_shown(text_t *text, bytes_t raw) {
    static const char letters[] = "abtnvfr"; /* 7 to 13 */
    for (uint32_t at = 0; at < raw.size;) {
        uint32_t code = 0;
        bytes_t left = bytes_of(raw.at + at, raw.size - at);
        uint32_t size = utf8_character(left, &code);
        if (size == 0) {
            add_code(text, "\\x", left.at[0], 2);
            size = 1;
        } else if (code == '"' || code == '\\') {
            text_add_literal(text, code == '"' ? "\\\"" : "\\\\");
        } else if (code >= 7 && code <= 13) {
            text_add_literal(text, "\\");
            text_add(text, bytes_of(&letters[code - 7], 1));
        } else if (is_printed(code)) {
            text_add(text, bytes_of(left.at, size));
        } else {
            add_code(text, code < 0x80 ? "\\x" : "\\u", code, code < 0x80 ? 2 : 4);
        }
        at += size;
    }
}

void text_add_escaped(text_t *text, bytes_t raw) {
    for (uint32_t i = 0; i < raw.size; i++) {
        uint8_t c = raw.at[i];
        if (c == '"' || c == '\\') {
            text_add_literal(text, "\\");
        }
        text_add(text, c < ' ' ? BYTES_LITERAL("?") : bytes_of(&raw.at[i], 1));
    }
}
