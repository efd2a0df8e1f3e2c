/* histogram.h: how often something took how long: a counter for each span between fixed bounds, and the sum. One thread
 * adds, any other may read meanwhile; nobody waits. */
#ifndef LEAFD_BASE_HISTOGRAM_H
#define LEAFD_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/abi_types.h"

typedef struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_SPANS];
    _Atomic uint64_t sum_ns;
} histogram_t;

/* The upper bound of a span, which is part of it; the last one has none: UINT64_MAX. */
uint64_t histogram_bound_ns(uint32_t span);
void histogram_add(histogram_t *histogram, int64_t took_ns);
void histogram_read(const histogram_t *histogram, histogram_counts_t *out);

#endif
