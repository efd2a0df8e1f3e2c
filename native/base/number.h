/* number.h: the smaller and the larger of two numbers, and a difference that ends at zero. */
#ifndef LEAFD_BASE_NUMBER_H
#define LEAFD_BASE_NUMBER_H

#include <stdint.h>

static inline uint64_t number_least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t number_most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* At most UINT64_MAX. */
static inline uint64_t number_sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t number_less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

#endif
