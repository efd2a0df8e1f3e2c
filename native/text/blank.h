/* blank.h: what stands between words: blanks within a line, and the white space of texts like JSON, which may have
 * many lines.
 */
#ifndef LEAFD_TEXT_BLANK_H
#define LEAFD_TEXT_BLANK_H

#include <stdbool.h>

#include "base/bytes.h"

static inline bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

/* As Go's strings.TrimSpace has it, of ASCII. */
static inline bool is_white(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline bytes_t trim_white(bytes_t text) {
    while (text.size > 0 && is_white(text.at[0])) {
        text = bytes_after(text, 1);
    }
    while (text.size > 0 && is_white(text.at[text.size - 1])) {
        text.size--;
    }
    return text;
}

#endif
