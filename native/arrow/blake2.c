/* The function G twelve times over a block, as RFC 7693 has it; words are little-endian, as the machines that leafd is
 * built for are. */
#include "arrow/blake2.h"

#include <stddef.h>

#define ROUNDS 12u

static const uint64_t INITIAL[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t ORDER[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static inline uint64_t turned(uint64_t value, unsigned by) {
    return value >> by | value << (64 - by);
}

static inline void mix(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y) {
    *a += *b + x;
    *d = turned(*d ^ *a, 32);
    *c += *d;
    *b = turned(*b ^ *c, 24);
    *a += *b + y;
    *d = turned(*d ^ *a, 16);
    *c += *d;
    *b = turned(*b ^ *c, 63);
}

static void compress(blake2_t *hash, const uint8_t *block, bool last) {
    uint64_t word[16], v[16];
    for (unsigned i = 0; i < 16; i++) {
        word[i] = load_u64(block + (size_t)8 * i);
    }
    for (unsigned i = 0; i < 8; i++) {
        v[i] = hash->state[i];
        v[i + 8] = INITIAL[i];
    }
    v[12] ^= hash->total;
    v[14] ^= last ? UINT64_MAX : 0;
#pragma GCC unroll 12
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint8_t *at = ORDER[round % 10];
        mix(&v[0], &v[4], &v[8], &v[12], word[at[0]], word[at[1]]);
        mix(&v[1], &v[5], &v[9], &v[13], word[at[2]], word[at[3]]);
        mix(&v[2], &v[6], &v[10], &v[14], word[at[4]], word[at[5]]);
        mix(&v[3], &v[7], &v[11], &v[15], word[at[6]], word[at[7]]);
        mix(&v[0], &v[5], &v[10], &v[15], word[at[8]], word[at[9]]);
        mix(&v[1], &v[6], &v[11], &v[12], word[at[10]], word[at[11]]);
        mix(&v[2], &v[7], &v[8], &v[13], word[at[12]], word[at[13]]);
        mix(&v[3], &v[4], &v[9], &v[14], word[at[14]], word[at[15]]);
    }
    for (unsigned i = 0; i < 8; i++) {
        hash->state[i] ^= v[i] ^ v[i + 8];
    }
}

void blake2_begin(blake2_t *hash) {
    memcpy(hash->state, INITIAL, sizeof hash->state);
    hash->state[0] ^= 0x01010000 ^ BLAKE2_DIGEST; /* no key, no tree */
    hash->total = 0;
    hash->held = 0;
}

void blake2_add(blake2_t *hash, bytes_t bytes) {
    while (bytes.size > 0) {
        if (hash->held == BLAKE2_BLOCK) { /* and more comes: it is not the last */
            hash->total += BLAKE2_BLOCK;
            compress(hash, hash->block, false);
            hash->held = 0;
        }
        uint32_t room = BLAKE2_BLOCK - hash->held, size = bytes.size < room ? bytes.size : room;
        memcpy(hash->block + hash->held, bytes.at, size);
        hash->held += size;
        bytes = bytes_after(bytes, size);
    }
}

void blake2_end(blake2_t *hash, uint8_t digest[BLAKE2_DIGEST]) {
    memset(hash->block + hash->held, 0, BLAKE2_BLOCK - hash->held);
    hash->total += hash->held;
    compress(hash, hash->block, true);
    memcpy(digest, hash->state, BLAKE2_DIGEST);
}
