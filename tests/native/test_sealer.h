/* test_sealer.h: a sealer for tests, which changes every byte. Tests of the store that meson.build names run a second
 * time with it: LEAFD_TEST_SEALED in the environment chooses it.
 *
 * It hides nothing from anybody: bytes are XORed with a stream that begins with a checksum over place, name and plain
 * text, which stands behind them twice, once changed by a checksum over the sealed bytes. It is a function, as sealer.h
 * wants it, it grows what it seals by an odd number of bytes, and no flipped bit opens.
 */
#ifndef LEAFD_TESTS_TEST_SEALER_H
#define LEAFD_TESTS_TEST_SEALER_H

#include <stdlib.h>

#include "base/crc.h"
#include "disk/sealing.h"

#define TEST_SEALER_OVERHEAD 13 /* of which the last 5 are constant */

static inline uint8_t test_sealer_stream(uint32_t *state) {
    *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
    uint8_t next = (uint8_t)(*state >> 24);
    return next != 0 ? next : 0x5a; /* every byte changes */
}

static inline uint32_t test_sealer_sum(uint8_t place, bytes_t name, bytes_t plain) {
    uint32_t sum = crc32c(place, name.at, name.size);
    return crc32c(sum, plain.at, plain.size);
}

static inline void test_sealer_seal_one(uint8_t place, bytes_t name, bytes_t plain, uint8_t *to) {
    uint32_t sum = test_sealer_sum(place, name, plain);
    uint32_t state = sum;
    for (uint32_t i = 0; i < plain.size; i++) {
        to[i] = plain.at[i] ^ test_sealer_stream(&state);
    }
    uint32_t outer = crc32c(sum, to, plain.size);
    store_be32(to + plain.size, sum);
    store_be32(to + plain.size + 4, outer);
    memcpy(to + plain.size + 8, "TEST!", 5);
}

static inline void test_sealer_seal(const void *context, sealer_side_t side, const sealer_item_t *items,
                                    uint32_t count) {
    (void)context;
    (void)side;
    for (uint32_t i = 0; i < count; i++) {
        test_sealer_seal_one(items[i].place, items[i].name, items[i].plain, items[i].to);
    }
}

static inline bool test_sealer_open(const void *context, sealer_side_t side, uint8_t place, bytes_t name,
                                    bytes_t sealed, uint8_t *to) {
    (void)context;
    (void)side;
    if (sealed.size < TEST_SEALER_OVERHEAD) {
        return false;
    }
    uint32_t size = sealed.size - TEST_SEALER_OVERHEAD;
    uint32_t sum = load_be32(sealed.at + size);
    if (memcmp(sealed.at + size + 8, "TEST!", 5) != 0
        || crc32c(sum, sealed.at, size) != load_be32(sealed.at + size + 4)) {
        return false;
    }
    uint32_t state = sum;
    for (uint32_t i = 0; i < size; i++) {
        to[i] = sealed.at[i] ^ test_sealer_stream(&state);
    }
    return test_sealer_sum(place, name, bytes_of(to, size)) == sum;
}

static inline void test_sealer_hide(const void *context, sealer_side_t side, uint8_t place, bytes_t name, bytes_t text,
                                    uint8_t hidden[SEALER_HIDDEN_SIZE]) {
    (void)context;
    (void)side;
    for (uint32_t i = 0; i < SEALER_HIDDEN_SIZE; i += 4) {
        store_be32(hidden + i, crc32c(test_sealer_sum((uint8_t)(place + i), name, text), hidden, i));
    }
}

/* The sealer that this run is to have; NULL: none, or a cipher. */
static inline const sealer_t *test_sealer(void) {
    static const sealer_t sealer = {
        .overhead = TEST_SEALER_OVERHEAD, .seal = test_sealer_seal, .open = test_sealer_open, .hide = test_sealer_hide};
    const char *how = getenv("LEAFD_TEST_SEALED");
    return how != NULL && strcmp(how, "1") == 0 ? &sealer : NULL;
}

/* What a test gives in place of that. */
static const plane_keys_t *test_keys_given;

/* The keys that this run is to have: LEAFD_TEST_SEALED is "aes" or "chacha". NULL: none. */
static inline const plane_keys_t *test_keys(void) {
    static plane_keys_t keys = {.key = (const uint8_t *)"a key of tests", .key_size = 14};
    const char *how = getenv("LEAFD_TEST_SEALED");
    if (test_keys_given != NULL) {
        return test_keys_given;
    }
    keys.cipher = how == NULL                  ? 0
                  : strcmp(how, "aes") == 0    ? CIPHER_AES
                  : strcmp(how, "chacha") == 0 ? CIPHER_CHACHA
                                               : 0;
    return keys.cipher != 0 ? &keys : NULL;
}

#endif
