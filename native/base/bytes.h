/* bytes.h: a slice of borrowed bytes, and big-endian loads and stores.
 *
 * A bytes_t never owns what it points to; the declaration that hands one out says until when it is valid.
 * An empty slice may have any pointer, NULL too.
 */
#ifndef LEAFD_BASE_BYTES_H
#define LEAFD_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct bytes {
    const uint8_t *at;
    uint32_t size;
} bytes_t;

#define BYTES_LITERAL(text) ((bytes_t){(const uint8_t *)(text), (uint32_t)(sizeof(text) - 1)})
#define BYTES_NONE ((bytes_t){NULL, 0})

static inline bytes_t bytes_of(const void *at, uint32_t size) {
    return (bytes_t){(const uint8_t *)at, size};
}

static inline bool bytes_equal(bytes_t a, bytes_t b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static inline bool bytes_starts(bytes_t whole, bytes_t prefix) {
    return whole.size >= prefix.size && (prefix.size == 0 || memcmp(whole.at, prefix.at, prefix.size) == 0);
}

/* As memcmp; of two of which one begins like the other, the shorter one comes first. */
static inline int bytes_compare(bytes_t a, bytes_t b) {
    uint32_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.at, b.at, size) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Without its first `count` bytes, which it has. */
static inline bytes_t bytes_after(bytes_t whole, uint32_t count) {
    return bytes_of(whole.at + count, whole.size - count);
}

/* Takes c off its front. false: it does not begin so, and nothing changed. */
static inline bool bytes_take(bytes_t *text, char c) {
    if (text->size == 0 || text->at[0] != (uint8_t)c) {
        return false;
    }
    *text = bytes_after(*text, 1);
    return true;
}

/* Copies the bytes to `to`, where the caller has seen to the room; returns what is behind them. */
static inline uint8_t *bytes_write(uint8_t *to, bytes_t bytes) {
    if (bytes.size != 0) {
        memcpy(to, bytes.at, bytes.size);
    }
    return to + bytes.size;
}

static inline void store_be16(uint8_t *to, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(to, &v, sizeof v);
}
static inline void store_be32(uint8_t *to, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(to, &v, sizeof v);
}
static inline void store_be64(uint8_t *to, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(to, &v, sizeof v);
}
/* In the machine's own order. */
static inline uint32_t load_u32(const uint8_t *at) {
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint64_t load_u64(const uint8_t *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline uint16_t load_be16(const uint8_t *at) {
    uint16_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap16(v);
}
static inline uint32_t load_be32(const uint8_t *at) {
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap32(v);
}
static inline uint64_t load_be64(const uint8_t *at) {
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return __builtin_bswap64(v);
}

#endif
