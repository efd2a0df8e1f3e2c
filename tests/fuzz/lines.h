/* lines.h: a fuzz target's input that is several texts, with a line feed between them. */
#ifndef TESTS_FUZZ_LINES_H
#define TESTS_FUZZ_LINES_H

#include <string.h>

#include "base/bytes.h"

/* Takes the next text off the rest; the last one leaves nothing. */
static inline bytes_t cut_line(bytes_t *rest) {
    const uint8_t *end = rest->size > 0 ? memchr(rest->at, '\n', rest->size) : NULL;
    bytes_t piece = *rest;
    if (end == NULL) {
        *rest = BYTES_NONE;
        return piece;
    }
    piece.size = (uint32_t)(end - rest->at);
    *rest = bytes_of(end + 1, rest->size - piece.size - 1);
    return piece;
}

#endif
