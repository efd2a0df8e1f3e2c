/* text.h: putting numbers and bytes into a buffer by hand. An ack subject is made for every delivery; printf would cost more
 * than the rest of the delivery together. The caller sees to the room: TEXT_U64_MAX bytes a number. */
#ifndef LEAFD_CONSUME_TEXT_H
#define LEAFD_CONSUME_TEXT_H

#include "base/bytes.h"

#define TEXT_U64_MAX 20

static inline uint8_t *text_u64(uint8_t *to, uint64_t value) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354"
                                "55565758596061626364656667686970717273747576777879808182838485868788899091929394959697989900";
    uint8_t digits[TEXT_U64_MAX];
    uint8_t *at = digits + TEXT_U64_MAX;
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
    size_t size = (size_t)(digits + TEXT_U64_MAX - at);
    memcpy(to, at, size);
    return to + size;
}

static inline uint8_t *text_bytes(uint8_t *to, bytes_t bytes) {
    if (bytes.size > 0) memcpy(to, bytes.at, bytes.size);
    return to + bytes.size;
}

#endif
