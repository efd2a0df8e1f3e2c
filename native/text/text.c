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

void text_add_escaped(text_t *text, bytes_t raw) {
    for (uint32_t i = 0; i < raw.size; i++) {
        uint8_t c = raw.at[i];
        if (c == '"' || c == '\\') {
            text_add_literal(text, "\\");
        }
        text_add(text, c < ' ' ? BYTES_LITERAL("?") : bytes_of(&raw.at[i], 1));
    }
}
