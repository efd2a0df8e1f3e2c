/* tokens.h: the one walk over the tokens of a subject or a pattern. Nothing is copied: tokens are slices of what is
 * walked over.
 *
 *     "a.b.c"   a, b, c            "a..b"   a, (empty), b            "a."   a, (empty)            ""   no token at all
 *
 *     for (token_walk_t walk = tokens_of(subject); !walk.done;) {
 *         bytes_t token = tokens_next(&walk);
 *     }
 *
 * Not here: what a subject may look like, and what matches what (text/subject.h).
 */
#ifndef LEAFD_TEXT_TOKENS_H
#define LEAFD_TEXT_TOKENS_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct token_walk {
    const uint8_t *at;
    const uint8_t *end;
    bool done; /* no further token */
} token_walk_t;

static inline token_walk_t tokens_of(bytes_t subject) {
    return (token_walk_t){.at = subject.at, .end = subject.at + subject.size, .done = subject.size == 0};
}

/* Of eight bytes, the first one lowest: the highest bit of each that is a dot. */
static inline uint64_t tokens_dots(uint64_t eight) {
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t differs = eight ^ UINT64_C(0x2e2e2e2e2e2e2e2e);
    return ~(((differs & low) + low) | differs | low);
}

/* The first dot at or behind `at`, or the end. */
static inline const uint8_t *tokens_dot(const uint8_t *at, const uint8_t *end) {
    for (; end - at >= 8; at += 8) {
        uint64_t dots = tokens_dots(load_u64(at));
        if (dots != 0) {
            return at + __builtin_ctzll(dots) / 8;
        }
    }
    while (at != end && *at != '.') {
        at++;
    }
    return at;
}

/* How many dots there are between these. */
static inline uint32_t tokens_count_dots(const uint8_t *at, const uint8_t *end) {
    uint32_t count = 0;
    for (; end - at >= 8; at += 8) {
        count += (uint32_t)((tokens_dots(load_u64(at)) >> 7) * UINT64_C(0x0101010101010101) >> 56);
    }
    for (; at != end; at++) {
        count += *at == '.';
    }
    return count;
}

/* The next token, which is empty when the walk is over. */
static inline bytes_t tokens_next(token_walk_t *walk) {
    const uint8_t *start = walk->at;
    const uint8_t *dot = tokens_dot(start, walk->end);
    walk->done = dot == walk->end;
    walk->at = walk->done ? dot : dot + 1;
    return bytes_of(start, (uint32_t)(dot - start));
}

/* All that is left, separators included. */
static inline bytes_t tokens_rest(const token_walk_t *walk) {
    return bytes_of(walk->at, (uint32_t)(walk->end - walk->at));
}

/* Takes the last token and its separator off *subject. false: there is no separator, and nothing changed. */
static inline bool tokens_take_last(bytes_t *subject, bytes_t *token) {
    for (uint32_t i = subject->size; i > 0; i--) {
        if (subject->at[i - 1] == '.') {
            *token = bytes_of(subject->at + i, subject->size - i);
            subject->size = i - 1;
            return true;
        }
    }
    return false;
}

/* Is the token that one byte, '*' or '>'? */
static inline bool token_is(bytes_t token, uint8_t wildcard) {
    return token.size == 1 && token.at[0] == wildcard;
}

#endif
