/* stats.c: the plane thread's counters for other threads: copied once a tick into words that may be read at any time. */
#include "plane/core.h"

void stats_publish(plane_t *plane) {
    plane_stats_t stats = plane->stats;
    stats.events_dropped = plane->exchange.dropped;
    stats.streams = plane->streams.count;
    if (plane->consume != NULL) {
        stats.consumers = consume_count(plane->consume);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (plane->stores[i] != NULL) {
            store_stats(plane->stores[i], &stats);
        }
    }
    uint64_t words[sizeof(stats) / sizeof(uint64_t)];
    memcpy(words, &stats, sizeof(words));
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        atomic_store_explicit(&plane->published[i], words[i], memory_order_relaxed);
    }
}

void plane_stats(plane_t *plane, plane_stats_t *out) {
    uint64_t words[sizeof(*out) / sizeof(uint64_t)];
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        words[i] = atomic_load_explicit(&plane->published[i], memory_order_relaxed);
    }
    memcpy(out, words, sizeof(words));
}
