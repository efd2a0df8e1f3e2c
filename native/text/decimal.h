/* decimal.h: whole numbers in decimal digits, read and written without the C library's formats, which take longer than
 * delivering the message. Not here: numbers of JSON with their fractions (text/json.h), durations
 * (text/duration.h).
 */
#ifndef LEAFD_TEXT_DECIMAL_H
#define LEAFD_TEXT_DECIMAL_H

#include <stdbool.h>

#include "base/bytes.h"

#define DECIMAL_MAX 20u      /* digits of UINT64_MAX */
#define DECIMAL_SHORT_MAX 9u /* digits that always fit 32 bits */

/* Reads digits alone, at least one. false: there is something else, or more than 64 bits hold. */
bool decimal_parse(bytes_t text, uint64_t *out);
/* Likewise; a number above `most` is `most`, however many digits it has. */
bool decimal_parse_upto(bytes_t text, uint64_t most, uint64_t *out);
/* Digits with or without a '-' before them. */
bool decimal_parse_signed(bytes_t text, int64_t *out);
/* Cuts the digits off the front of *text, at most `max` of them, at most DECIMAL_SHORT_MAX. Returns how many there
 * were. */
uint32_t decimal_take(bytes_t *text, uint32_t max, uint32_t *out);

/* One to DECIMAL_SHORT_MAX digits: nothing can overflow, which is for the sizes on every message's line. */
static inline bool decimal_parse_short(bytes_t text, uint32_t *out) {
    if (text.size == 0 || text.size > DECIMAL_SHORT_MAX) {
        return false;
    }
    uint32_t value = 0;
    for (uint32_t i = 0; i < text.size; i++) {
        uint32_t digit = (uint32_t)text.at[i] - '0';
        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

/* Writes up to DECIMAL_MAX digits to `to`, where the caller has seen to the room; returns what is behind them. Two
 * digits a division. */
static inline uint8_t *decimal_write(uint8_t *to, uint64_t value) {
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
        "55565758596061626364656667686970717273747576777879808182838485868788899091929394959697989900";
    uint8_t digits[DECIMAL_MAX];
    uint8_t *at = digits + DECIMAL_MAX;
    while (value >= 100) {
        uint64_t rest = value % 100;
        value /= 100;
        at -= 2;
        memcpy(at, pairs + 2 * rest, 2);
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, pairs + 2 * value, 2);
    } else {
        *--at = (uint8_t)('0' + value);
    }
    size_t size = (size_t)(digits + DECIMAL_MAX - at);
    memcpy(to, at, size);
    return to + size;
}

/* The number's digits, in the caller's room. */
static inline bytes_t decimal_text(uint8_t room[DECIMAL_MAX], uint64_t value) {
    return bytes_of(room, (uint32_t)(decimal_write(room, value) - room));
}

#endif
