/* histogram.c: see histogram.h. */
#include "base/histogram.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

/* A good disk syncs within a millisecond, an SD card within some ten; from a second on programs notice. */
static const uint64_t bounds_ns[HISTOGRAM_SPANS - 1] = {100 * US,
                                                        250 * US,
                                                        500 * US,
                                                        MS,
                                                        5 * MS / 2,
                                                        5 * MS,
                                                        10 * MS,
                                                        25 * MS,
                                                        50 * MS,
                                                        100 * MS,
                                                        250 * MS,
                                                        500 * MS,
                                                        1000 * MS,
                                                        2500 * MS,
                                                        UINT64_C(5000) * MS,
                                                        UINT64_C(10000) * MS};

uint64_t histogram_bound_ns(uint32_t span) {
    return span < HISTOGRAM_SPANS - 1 ? bounds_ns[span] : UINT64_MAX;
}

static void grow(_Atomic uint64_t *counter, uint64_t by) {
    /* Only one thread writes, so this need not be one step. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

void histogram_add(histogram_t *histogram, int64_t took_ns) {
    uint64_t took = took_ns > 0 ? (uint64_t)took_ns : 0;
    uint32_t span = 0;
    while (took > histogram_bound_ns(span)) {
        span++;
    }
    grow(&histogram->counts[span], 1);
    grow(&histogram->sum_ns, took);
}

void histogram_read(const histogram_t *histogram, histogram_counts_t *out) {
    for (uint32_t i = 0; i < HISTOGRAM_SPANS; i++) {
        out->counts[i] = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    }
    out->sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
}
