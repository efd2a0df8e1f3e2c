/* s2.c: what s2.h draws. Every length is compared with what is left, on either side, before a byte is touched. */
#include "text/s2.h"

#define LENGTH_BYTES_MAX 5u

typedef struct decoding {
    const uint8_t *at; /* of the block; left bytes follow */
    uint32_t left;
    uint8_t *out;
    uint32_t out_size;
    uint32_t written;
    uint32_t offset; /* of the last copy, 0 = none yet */
    bytes_t dictionary;
} decoding_t;

/* count little-endian bytes, at most 4. */
static bool s2_number(decoding_t *decoding, uint32_t count, uint32_t *number) {
    if (decoding->left < count) {
        return false;
    }
    *number = 0;
    for (uint32_t i = 0; i < count; i++) {
        *number |= (uint32_t)decoding->at[i] << (8 * i);
    }
    decoding->at += count;
    decoding->left -= count;
    return true;
}

static bool take_length(decoding_t *decoding, uint32_t *size) {
    uint64_t length = 0;
    for (uint32_t i = 0; i < LENGTH_BYTES_MAX; i++) {
        uint32_t byte;
        if (!s2_number(decoding, 1, &byte)) {
            return false;
        }
        length |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *size = (uint32_t)length;
            return length <= UINT32_MAX;
        }
    }
    return false;
}

static bool s2_literal(decoding_t *decoding, uint32_t tag) {
    uint32_t length = tag >> 2;
    if (length >= 60 && !s2_number(decoding, length - 59, &length)) {
        return false;
    }
    if (length >= decoding->left || length >= decoding->out_size - decoding->written) {
        return false; /* the length is one more than that */
    }
    length++;
    memcpy(decoding->out + decoding->written, decoding->at, length);
    decoding->at += length;
    decoding->left -= length;
    decoding->written += length;
    return true;
}

/* The part of a copy that lies in the dictionary; the copy goes on at the block's beginning. */
static bool s2_copy_behind(decoding_t *decoding, uint32_t offset, uint32_t *length) {
    uint32_t back = offset - decoding->written;
    if (decoding->dictionary.at == NULL || back > decoding->dictionary.size) {
        return false;
    }
    uint32_t part = back < *length ? back : *length;
    memcpy(decoding->out + decoding->written, decoding->dictionary.at + decoding->dictionary.size - back, part);
    decoding->written += part;
    *length -= part;
    return true;
}

static bool s2_copy(decoding_t *decoding, uint32_t offset, uint32_t length) {
    if (offset == 0 || length > decoding->out_size - decoding->written) {
        return false;
    }
    if (offset > decoding->written && !s2_copy_behind(decoding, offset, &length)) {
        return false;
    }
    decoding->offset = offset;
    uint8_t *to = decoding->out + decoding->written;
    /* A copy that is longer than its offset repeats what it has just written: what can be copied at once doubles with
     * each round. One byte at a time, a block of 4 MiB would take its caller 4 ms. */
    uint32_t done = 0;
    while (done < length) {
        uint32_t part = offset + done < length - done ? offset + done : length - done;
        memcpy(to + done, to - offset, part);
        done += part;
    }
    decoding->written += length;
    return true;
}

/* The offset is that of the last copy; the length may be anything up to 16 MiB. */
static bool s2_repeat(decoding_t *decoding, uint32_t length) {
    static const uint32_t base[3] = {4, 1u << 8, 1u << 16};
    if (length >= 5) {
        uint32_t bytes = length - 4;
        if (!s2_number(decoding, bytes, &length)) {
            return false;
        }
        length += base[bytes - 1];
    }
    return s2_copy(decoding, decoding->offset, length + 4);
}

static bool s2_element(decoding_t *decoding) {
    uint32_t tag, offset;
    if (!s2_number(decoding, 1, &tag)) {
        return false;
    }
    switch (tag & 3u) {
    case 0: return s2_literal(decoding, tag);
    case 1: {
        if (!s2_number(decoding, 1, &offset)) {
            return false;
        }
        offset |= (tag & 0xe0u) << 3;
        uint32_t length = (tag >> 2) & 7u;
        return offset == 0 ? s2_repeat(decoding, length) : s2_copy(decoding, offset, length + 4);
    }
    default: return s2_number(decoding, (tag & 3u) == 2 ? 2 : 4, &offset) && s2_copy(decoding, offset, 1 + (tag >> 2));
    }
}

status_t s2_size(bytes_t block, uint32_t *size) {
    decoding_t decoding = {.at = block.at, .left = block.size};
    return take_length(&decoding, size) ? STATUS_OK : STATUS_CORRUPT;
}

status_t s2_decode(bytes_t block, uint8_t *out, uint32_t out_size) {
    return s2_decode_primed(BYTES_NONE, block, out, out_size);
}

status_t s2_decode_primed(bytes_t dictionary, bytes_t block, uint8_t *out, uint32_t out_size) {
    decoding_t decoding = {
        .at = block.at, .left = block.size, .out = out, .out_size = out_size, .dictionary = dictionary};
    uint32_t size;
    if (!take_length(&decoding, &size) || size != out_size) {
        return STATUS_CORRUPT;
    }
    while (decoding.left > 0) {
        if (!s2_element(&decoding)) {
            return STATUS_CORRUPT;
        }
    }
    return decoding.written == out_size ? STATUS_OK : STATUS_CORRUPT;
}
