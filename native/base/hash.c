/* hash.c: multiply-and-fold hashing: 16 bytes a round, one 64x64 to 128 bit product each, both halves xored. */
#include "base/hash.h"

#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"

#define MIX_A UINT64_C(0x9E3779B97F4A7C15)
#define MIX_B UINT64_C(0xD6E8FEB86659FD93)
#define MIX_C UINT64_C(0xCA5A826395121157)

static uint64_t process_seed = MIX_C;

__attribute__((constructor)) static void seed_from_system(void) {
    uint64_t seed;
    /* A box that has gathered no entropy yet must not wait for it at its start. The fixed seed then makes collisions
     * predictable, and nothing else. */
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) {
        process_seed = seed;
    }
}

void hash_seed(uint64_t seed) {
    process_seed = seed;
}

static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 product_t;
    product_t product = (product_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t high_a = a >> 32, low_a = (uint32_t)a, high_b = b >> 32, low_b = (uint32_t)b;
    uint64_t middle = high_a * low_b + ((low_a * low_b) >> 32);
    uint64_t cross = low_a * high_b + (uint32_t)middle;
    return (a * b) ^ (high_a * high_b + (middle >> 32) + (cross >> 32));
#endif
}

uint64_t hash_bytes(const void *at, size_t size) {
    const uint8_t *p = at;
    size_t left = size;
    uint64_t state = process_seed ^ MIX_A;
    while (left > 16) {
        state = hash_fold(load_u64(p) ^ MIX_B, load_u64(p + 8) ^ state);
        p += 16;
        left -= 16;
    }
    uint64_t a = 0, b = 0;
    if (left >= 8) {
        a = load_u64(p);
        b = load_u64(p + left - 8); /* overlaps a when left < 16; the length below tells such inputs apart */
    } else if (left >= 4) {
        a = load_u32(p);
        b = load_u32(p + left - 4);
    } else if (left > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
    }
    state = hash_fold(a ^ MIX_B, b ^ state);
    return hash_fold(state ^ MIX_A, (uint64_t)size ^ MIX_C ^ process_seed);
}
