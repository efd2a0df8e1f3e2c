/* leb.h: LEB128, whole numbers in as few bytes as they need: seven bits a byte, the lowest first, and the top bit in
 * all bytes but the last.
 */
#ifndef LEAFD_BASE_LEB_H
#define LEAFD_BASE_LEB_H

#include <stdbool.h>

#include "base/bytes.h"

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

/* Takes it off the front. false: none stands there. */
static inline bool leb_take(bytes_t *from, uint64_t *number) {
    *number = 0;
    for (uint32_t i = 0; i < LEB_MAX && i < from->size; i++) {
        *number |= (uint64_t)(from->at[i] & 0x7f) << (7 * i);
        if (from->at[i] < 0x80) {
            *from = bytes_after(*from, i + 1);
            return true;
        }
    }
    return false;
}

/* Numbers a little below 0 become small. */
static inline uint64_t zigzag(uint64_t number) {
    return number << 1 ^ (0 - (number >> 63));
}

static inline uint64_t unzigzag(uint64_t number) {
    return number >> 1 ^ (0 - (number & 1));
}

#endif
