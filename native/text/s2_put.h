/* s2_put.h: what the encoders of S2 (s2_encode.c, s2_primed.c) share: writing the elements of a block, and how long a
 * match is. Nobody else includes this. */
#ifndef LEAFD_TEXT_S2_PUT_H
#define LEAFD_TEXT_S2_PUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define ELEMENT_MAX 16u /* bytes of a literal's head, or of a copy with the repeat behind it */
#define MATCH_MIN 4u

/* ---- what is written --------------------------------------------------------------------------------------------- */

typedef struct encoding {
    const uint8_t *in;
    uint32_t size;
    uint32_t said; /* bytes of in that are in the block, or in front of it */
    uint8_t *to;
    uint8_t *end;
    uint32_t offset; /* of the last copy; 0 = none yet */
} encoding_t;

static inline void put_block_size(encoding_t *encoding, uint32_t size) {
    for (; size >= 0x80; size >>= 7) {
        *encoding->to++ = (uint8_t)(size | 0x80);
    }
    *encoding->to++ = (uint8_t)size;
}

static inline void put_element_number(encoding_t *encoding, uint32_t number, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        *encoding->to++ = (uint8_t)(number >> (8 * i));
    }
}

/* Puts the bytes up to `until`, for which no copy was found. false: no room. */
static inline bool put_literals(encoding_t *encoding, uint32_t until) {
    uint32_t size = until - encoding->said;
    if ((size_t)(encoding->end - encoding->to) < (size_t)size + ELEMENT_MAX) {
        return false;
    }
    if (size == 0) {
        return true;
    }
    uint32_t less = size - 1;
    uint32_t bytes = less < 60 ? 0 : less < 1u << 8 ? 1 : less < 1u << 16 ? 2 : 3;
    *encoding->to++ = (uint8_t)((bytes == 0 ? less : 59 + bytes) << 2);
    put_element_number(encoding, less, bytes);
    memcpy(encoding->to, encoding->in + encoding->said, size);
    encoding->to += size;
    encoding->said = until;
    return true;
}

/* length: at least 4. */
static inline void put_repeat(encoding_t *encoding, uint32_t length) {
    uint32_t more = length - 4;
    uint32_t bytes = more <= 4 ? 0 : more < 4 + (1u << 8) ? 1 : more < (1u << 8) + (1u << 16) ? 2 : 3;
    uint32_t base = bytes == 1 ? 4 : bytes == 2 ? 1u << 8 : 1u << 16;
    *encoding->to++ = (uint8_t)((bytes == 0 ? more : 4 + bytes) << 2 | 1);
    *encoding->to++ = 0;
    put_element_number(encoding, more - base, bytes);
}

/* A copy's first part has at most `most` bytes; the repeat behind it needs 4, if there is one. */
static inline uint32_t first_part(uint32_t length, uint32_t most) {
    return length <= most ? length : length - most < 4 ? length - 4 : most;
}

/* Puts copies of 4 or more bytes at `said`, from that far back. */
static inline void put_copies(encoding_t *encoding, uint32_t offset, uint32_t length) {
    encoding->said += length;
    if (offset == encoding->offset) {
        put_repeat(encoding, length);
        return;
    }
    encoding->offset = offset;
    bool near = offset < 1u << 11 && (length <= 11 || length > 64);
    uint32_t part = first_part(length, near ? 11 : 64);
    if (near) {
        *encoding->to++ = (uint8_t)((offset >> 8) << 5 | (part - 4) << 2 | 1);
        *encoding->to++ = (uint8_t)offset;
    } else {
        bool far = offset > UINT16_MAX;
        *encoding->to++ = (uint8_t)((part - 1) << 2 | (far ? 3 : 2));
        put_element_number(encoding, offset, far ? 4 : 2);
    }
    if (part < length) {
        put_repeat(encoding, length - part);
    }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* How many bytes are the same at both places, at most up to in's end. */
static inline uint32_t same_bytes(const encoding_t *encoding, uint32_t earlier, uint32_t at) {
    const uint8_t *one = encoding->in + earlier, *other = encoding->in + at, *end = encoding->in + encoding->size;
    const uint8_t *from = other;
    while (end - other >= 8) {
        uint64_t differ = load_u64(one) ^ load_u64(other);
        if (differ != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return (uint32_t)(other - from) + (uint32_t)__builtin_ctzll(differ) / 8;
#else
            return (uint32_t)(other - from) + (uint32_t)__builtin_clzll(differ) / 8;
#endif
        }
        one += 8;
        other += 8;
    }
    while (other < end && *one == *other) {
        one++;
        other++;
    }
    return (uint32_t)(other - from);
}

/* The bytes that a copy of that length from that far back saves, about. */
static inline int32_t saved_by(const encoding_t *encoding, uint32_t offset, uint32_t length) {
    int32_t cost = offset == encoding->offset          ? (length <= 8 ? 2 : 3)
                   : offset < 1u << 11 && length <= 11 ? 2
                   : offset <= UINT16_MAX              ? (length <= 64 ? 3 : 6)
                                                       : (length <= 64 ? 5 : 8);
    return (int32_t)length - cost;
}

/* Bytes that are the same at both places, from as far back as they are, with the literals before them. The earlier
 * place does not go below `first`. false: there is no room. */
static inline bool put_match(encoding_t *encoding, uint32_t at, uint32_t earlier, uint32_t length, uint32_t first) {
    while (at > encoding->said && earlier > first && encoding->in[at - 1] == encoding->in[earlier - 1]) {
        at--;
        earlier--;
        length++;
    }
    if (!put_literals(encoding, at)) {
        return false;
    }
    put_copies(encoding, at - earlier, length);
    return true;
}

#endif
