/* poly1305.c: see poly1305.h. Numbers of 130 bits are three words of 64, the topmost small; needs products of 128 bits,
 * which compilers for 64-bit processors have. */
#include "text/poly1305.h"

#if POLY1305_IS_THERE

#define BLOCK 16
#define INLINE __attribute__((always_inline)) static inline

__extension__ typedef unsigned __int128 product_t;

typedef struct factor {
    uint64_t r0, r1;
    uint64_t folded; /* r1 * 5 / 4: what is above 2 ^ 130 comes back times five, and r1 is a multiple of four */
} factor_t;

typedef struct poly1305 {
    uint64_t h0, h1, h2;
    uint32_t in; /* bytes in block */
    uint8_t block[BLOCK];
} poly1305_t;

static inline uint64_t load_le64(const uint8_t *at) {
    return __builtin_bswap64(load_be64(at));
}

static inline void store_le64(uint8_t *to, uint64_t v) {
    store_be64(to, __builtin_bswap64(v));
}

/* h += a, of three words each. GCC makes many moves of what the processor does in three additions. */
INLINE void add_three(uint64_t *h0, uint64_t *h1, uint64_t *h2, uint64_t a0, uint64_t a1, uint64_t a2) {
#if defined(__x86_64__)
    __asm__("addq %3, %0\n\tadcq %4, %1\n\tadcq %5, %2"
            : "+&r"(*h0), "+&r"(*h1), "+&r"(*h2)
            : "rme"(a0), "rme"(a1), "rme"(a2)
            : "cc");
#else
    uint64_t carry = __builtin_add_overflow(*h0, a0, h0);
    *h2 += a2 + __builtin_add_overflow(*h1, a1, h1);
    *h2 += __builtin_add_overflow(*h1, carry, h1);
#endif
}

/* h = (h + block) * r modulo 2 ^ 130 - 5, not reduced to the end. h2 comes and goes as at most 4, so it is at most 6 in
 * between and no product below is cut off: r0 and r1 are below 2 ^ 60. */
INLINE void multiply(uint64_t *h0, uint64_t *h1, uint64_t *h2, const factor_t *r, const uint8_t *block, uint64_t top) {
    add_three(h0, h1, h2, load_le64(block), load_le64(block + 8), top);
    product_t d0 = (product_t)*h0 * r->r0 + (product_t)*h1 * r->folded;
    product_t d1 = (product_t)*h0 * r->r1 + (product_t)*h1 * r->r0;
    uint64_t low = 0;
    uint64_t fold = *h2 * r->folded;
    *h0 = (uint64_t)d0;
    *h1 = (uint64_t)d1;
    *h2 = *h2 * r->r0 + (uint64_t)(d1 >> 64);
    add_three(&low, h1, h2, 0, fold, 0);
    add_three(&low, h1, h2, 0, (uint64_t)(d0 >> 64), 0);
    uint64_t above = (*h2 >> 2) + (*h2 & ~UINT64_C(3)); /* five times what is above 2 ^ 130 */
    *h2 &= 3;
    add_three(h0, h1, h2, above, 0, 0);
}

static void absorb(poly1305_t *poly, const factor_t *r, const uint8_t *at, uint32_t blocks, uint64_t top) {
    uint64_t h0 = poly->h0;
    uint64_t h1 = poly->h1;
    uint64_t h2 = poly->h2;
    factor_t by = *r;
    for (; blocks > 0; blocks--, at += BLOCK) {
        multiply(&h0, &h1, &h2, &by, at, top);
    }
    poly->h0 = h0;
    poly->h1 = h1;
    poly->h2 = h2;
}

/* Two at a time: while the products of the one are on their way, the processor works on the other. */
static void absorb_both(poly1305_t *poly, const factor_t *r, const uint8_t *a, const uint8_t *b, uint32_t blocks) {
    uint64_t h0 = poly[0].h0;
    uint64_t h1 = poly[0].h1;
    uint64_t h2 = poly[0].h2;
    uint64_t g0 = poly[1].h0;
    uint64_t g1 = poly[1].h1;
    uint64_t g2 = poly[1].h2;
    factor_t by = *r;
    for (; blocks > 0; blocks--, a += BLOCK, b += BLOCK) {
        multiply(&h0, &h1, &h2, &by, a, 1);
        multiply(&g0, &g1, &g2, &by, b, 1);
    }
    poly[0].h0 = h0;
    poly[0].h1 = h1;
    poly[0].h2 = h2;
    poly[1].h0 = g0;
    poly[1].h1 = g1;
    poly[1].h2 = g2;
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

static factor_t factor_of(const uint8_t *key) {
    uint64_t r0 = load_le64(key) & UINT64_C(0x0ffffffc0fffffff);
    uint64_t r1 = load_le64(key + 8) & UINT64_C(0x0ffffffc0ffffffc);
    return (factor_t){r0, r1, r1 + (r1 >> 2)};
}

/* The first text, and of the second what fills the block that the first has begun; returns the rest of it. */
static bytes_t poly_begin(poly1305_t *poly, const factor_t *r, bytes_t first, bytes_t second) {
    uint32_t whole = first.size / BLOCK;
    poly->h0 = poly->h1 = poly->h2 = 0;
    absorb(poly, r, first.at, whole, 1);
    first = bytes_after(first, whole * BLOCK);
    poly->in = first.size;
    (void)bytes_write(poly->block, first);
    if (poly->in == 0 || second.size < BLOCK - poly->in) {
        return second;
    }
    uint32_t more = BLOCK - poly->in;
    (void)bytes_write(poly->block + poly->in, bytes_of(second.at, more));
    absorb(poly, r, poly->block, 1, 1);
    poly->in = 0;
    return bytes_after(second, more);
}

/* The last block is marked by a one behind its bytes. */
static void poly_end(poly1305_t *poly, const factor_t *r, bytes_t rest, const uint8_t *s, uint8_t *hash) {
    if (poly->in == 0) {
        absorb(poly, r, rest.at, rest.size / BLOCK, 1);
        rest = bytes_after(rest, rest.size / BLOCK * BLOCK);
    }
    (void)bytes_write(poly->block + poly->in, rest);
    poly->in += rest.size;
    if (poly->in > 0) {
        poly->block[poly->in] = 1;
        memset(poly->block + poly->in + 1, 0, BLOCK - poly->in - 1);
        absorb(poly, r, poly->block, 1, 0);
    }
    finish(poly, s, hash);
}

void poly1305_hash(const uint8_t key[POLY1305_KEY_SIZE], bytes_t first, bytes_t second, uint8_t hash[POLY1305_SIZE]) {
    poly1305_t poly;
    factor_t r = factor_of(key);
    bytes_t rest = poly_begin(&poly, &r, first, second);
    poly_end(&poly, &r, rest, key + BLOCK, hash);
}

void poly1305_two(const uint8_t key[POLY1305_KEY_SIZE], const bytes_t firsts[2], const bytes_t seconds[2],
                  uint8_t hashes[2 * POLY1305_SIZE]) {
    poly1305_t poly[2];
    bytes_t rest[2];
    factor_t r = factor_of(key);
    for (unsigned i = 0; i < 2; i++) {
        rest[i] = poly_begin(&poly[i], &r, firsts[i], seconds[i]);
    }
    uint32_t both = (rest[0].size < rest[1].size ? rest[0].size : rest[1].size) / BLOCK;
    both = poly[0].in == 0 && poly[1].in == 0 ? both : 0;
    absorb_both(poly, &r, rest[0].at, rest[1].at, both);
    for (unsigned i = 0; i < 2; i++) {
        poly_end(&poly[i], &r, bytes_after(rest[i], both * BLOCK), key + BLOCK, hashes + (size_t)i * POLY1305_SIZE);
    }
}

#endif
