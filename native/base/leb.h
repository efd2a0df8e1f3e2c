/* leb.h: LEB128, whole numbers in as few bytes as they need: seven bits a byte, the lowest first, and the top bit in
 * all bytes but the last.
 */
#ifndef LEAFD_BASE_LEB_H
#define LEAFD_BASE_LEB_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/check.h"

#define LEB_MAX 10 /* bytes of a number */

static inline uint32_t leb_size(uint64_t number) {
    uint32_t size = 1;
    for (; number >= 0x80; number >>= 7) {
        size++;
    }
    return size;
}

static inline uint8_t *leb_put(uint8_t *to, uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
        *to++ = (uint8_t)(number | 0x80);
    }
    *to++ = (uint8_t)number;
    return to;
}

/* The seven bits of each byte, side by side. */
static inline uint64_t leb_gather(uint64_t bytes) {
    bytes &= UINT64_C(0x7f7f7f7f7f7f7f7f);
    bytes = (bytes & UINT64_C(0x007f007f007f007f)) | (bytes & UINT64_C(0x7f007f007f007f00)) >> 1;
    bytes = (bytes & UINT64_C(0x00003fff00003fff)) | (bytes & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (bytes & UINT64_C(0x000000000fffffff)) | (bytes & UINT64_C(0x0fffffff00000000)) >> 4;
}

static inline bool leb_take_slowly(bytes_t *from, uint64_t *number) {
    *number = 0;
    for (uint32_t i = 0; i < LEB_MAX && i < from->size; i++) {
        uint64_t bits = from->at[i] & 0x7f;
        if (i == LEB_MAX - 1 && bits > 1) {
            break; /* more than 64 bits hold */
        }
        *number |= bits << (7 * i);
        if (from->at[i] < 0x80) {
            *from = bytes_after(*from, i + 1);
            return true;
        }
    }
    return false;
}

/* Takes it off the front. false: none stands there. Each message that is read has four of them, so what ends within
 * eight bytes, as nearly all do, is found without a loop. */
static inline bool leb_take(bytes_t *from, uint64_t *number) {
    uint64_t bytes = from->size >= sizeof bytes ? __builtin_bswap64(load_be64(from->at)) : UINT64_MAX;
    uint64_t ends = ~bytes & UINT64_C(0x8080808080808080);
    if (LEAF_UNLIKELY(ends == 0)) {
        return leb_take_slowly(from, number);
    }
    uint32_t bits = (uint32_t)__builtin_ctzll(ends) + 1;
    *number = leb_gather(bytes & UINT64_MAX >> (64 - bits));
    *from = bytes_after(*from, bits / 8);
    return true;
}

/* Numbers a little below 0 become small. */
static inline uint64_t zigzag(uint64_t number) {
    return number << 1 ^ (0 - (number >> 63));
}

static inline uint64_t unzigzag(uint64_t number) {
    return number >> 1 ^ (0 - (number & 1));
}

#endif
