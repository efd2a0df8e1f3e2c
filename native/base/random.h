/* random.h: a small fast generator (xorshift64) for choices that nobody gains by guessing: a member of a queue group, a
 * partition, an inbox's name. Its state is the caller's, so a test that seeds it sees the same choices again. Never for
 * secrets.
 */
#ifndef LEAFD_BASE_RANDOM_H
#define LEAFD_BASE_RANDOM_H

#include <stdint.h>

/* *state: not 0. */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

/* 0 .. limit-1. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit) {
    return (uint32_t)(((random_next(state) >> 32) * limit) >> 32);
}

#endif
