/* poly1305.c: see poly1305.h. Numbers of 130 bits are three words of 64, the topmost small; needs products of 128 bits,
 * which compilers for 64-bit processors have. */
#include "disk/poly1305.h"

#if POLY1305_IS_THERE

#define BLOCK 16

__extension__ typedef unsigned __int128 product_t;

typedef struct poly1305 {
    uint64_t h0, h1, h2;
    uint64_t r0, r1;
    uint64_t folded; /* r1 * 5 / 4: what is above 2 ^ 130 comes back times five, and r1 is a multiple of four */
} poly1305_t;

static inline uint64_t load_le64(const uint8_t *at) {
    return __builtin_bswap64(load_be64(at));
}

static inline void store_le64(uint8_t *to, uint64_t v) {
    store_be64(to, __builtin_bswap64(v));
}

/* h = (h + block) * r modulo 2 ^ 130 - 5 for each block, not reduced to the end. h2 comes and goes as at most 4, so it
 * is at most 6 in between and no product below is cut off: r0 and r1 are below 2 ^ 60. */
static void absorb(poly1305_t *poly, const uint8_t *at, uint32_t blocks, uint64_t top) {
    uint64_t r0 = poly->r0;
    uint64_t r1 = poly->r1;
    uint64_t folded = poly->folded;
    uint64_t h0 = poly->h0;
    uint64_t h1 = poly->h1;
    uint64_t h2 = poly->h2;
    for (; blocks > 0; blocks--, at += BLOCK) {
        product_t d0 = (product_t)h0 + load_le64(at);
        product_t d1 = (product_t)h1 + load_le64(at + 8) + (uint64_t)(d0 >> 64);
        h0 = (uint64_t)d0;
        h1 = (uint64_t)d1;
        h2 += top + (uint64_t)(d1 >> 64);
        d0 = (product_t)h0 * r0 + (product_t)h1 * folded;
        d1 = (product_t)h0 * r1 + (product_t)h1 * r0 + h2 * folded + (uint64_t)(d0 >> 64);
        h2 = h2 * r0 + (uint64_t)(d1 >> 64);
        uint64_t above = (h2 >> 2) + (h2 & ~UINT64_C(3)); /* five times what is above 2 ^ 130 */
        d0 = (product_t)(uint64_t)d0 + above;
        d1 = (product_t)(uint64_t)d1 + (uint64_t)(d0 >> 64);
        h0 = (uint64_t)d0;
        h1 = (uint64_t)d1;
        h2 = (h2 & 3) + (uint64_t)(d1 >> 64);
    }
    poly->h0 = h0;
    poly->h1 = h1;
    poly->h2 = h2;
}

/* h modulo 2 ^ 130 - 5, and s added modulo 2 ^ 128. */
static void finish(const poly1305_t *poly, const uint8_t *s, uint8_t hash[POLY1305_SIZE]) {
    product_t g0 = (product_t)poly->h0 + 5;
    product_t g1 = (product_t)poly->h1 + (uint64_t)(g0 >> 64);
    uint64_t g2 = poly->h2 + (uint64_t)(g1 >> 64);
    uint64_t larger = 0 - (g2 >> 2 & 1); /* all ones where h is not below the modulus */
    uint64_t h0 = (poly->h0 & ~larger) | ((uint64_t)g0 & larger);
    uint64_t h1 = (poly->h1 & ~larger) | ((uint64_t)g1 & larger);
    g0 = (product_t)h0 + load_le64(s);
    g1 = (product_t)h1 + load_le64(s + 8) + (uint64_t)(g0 >> 64);
    store_le64(hash, (uint64_t)g0);
    store_le64(hash + 8, (uint64_t)g1);
}

void poly1305_hash(const uint8_t key[POLY1305_KEY_SIZE], bytes_t first, bytes_t second, uint8_t hash[POLY1305_SIZE]) {
    uint64_t r0 = load_le64(key) & UINT64_C(0x0ffffffc0fffffff);
    uint64_t r1 = load_le64(key + 8) & UINT64_C(0x0ffffffc0ffffffc);
    poly1305_t poly = {.r0 = r0, .r1 = r1, .folded = r1 + (r1 >> 2)};
    uint8_t block[BLOCK];
    absorb(&poly, first.at, first.size / BLOCK, 1);
    first = bytes_after(first, first.size / BLOCK * BLOCK);
    uint32_t in = first.size; /* bytes in block */
    (void)bytes_write(block, first);
    if (in > 0 && second.size >= BLOCK - in) {
        memcpy(block + in, second.at, BLOCK - in);
        second = bytes_after(second, BLOCK - in);
        absorb(&poly, block, 1, 1);
        in = 0;
    }
    if (in == 0) {
        absorb(&poly, second.at, second.size / BLOCK, 1);
        second = bytes_after(second, second.size / BLOCK * BLOCK);
    }
    (void)bytes_write(block + in, second);
    in += second.size;
    if (in > 0) { /* the last one is marked by a one behind its bytes */
        block[in] = 1;
        memset(block + in + 1, 0, BLOCK - in - 1);
        absorb(&poly, block, 1, 0);
    }
    finish(&poly, key + BLOCK, hash);
}

#endif
