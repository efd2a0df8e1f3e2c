/* stats.c: the plane thread's counters for other threads: copied once a tick into words that may be read at any time.
 */
#include "driver/stats.h"

#include "base/abi_types.h"
#include "base/clock.h"
#include "jetstream/js.h"
#include "plane/plane.h"

#define TICK_WINDOW_NS (60 * NS_PER_SECOND)

void stats_tick(plane_t *plane, uint64_t took_ns) {
    plane->stats.ticks++;
    if (plane->now.mono_ns - plane->tick_window_ns >= TICK_WINDOW_NS) {
        plane->tick_window_ns = plane->now.mono_ns;
        plane->tick_before_max_ns = plane->tick_window_max_ns;
        plane->tick_window_max_ns = 0;
    }
    if (took_ns > plane->tick_window_max_ns) {
        plane->tick_window_max_ns = took_ns;
    }
    if (took_ns > plane->stats.tick_max_ns) {
        plane->stats.tick_max_ns = took_ns;
    }
    plane->stats.tick_recent_ns =
        plane->tick_window_max_ns > plane->tick_before_max_ns ? plane->tick_window_max_ns : plane->tick_before_max_ns;
}

void stats_publish(plane_t *plane) {
    plane_stats_t stats = plane->stats;
    stats.in_msgs += stats.link_in_msgs;
    stats.in_bytes += stats.link_in_bytes;
    stats.events_dropped = plane->exchange.dropped;
    js_stats(&plane->js, &stats);
    stats.memory_exchange = atomic_load_explicit(&plane->exchange.command_bytes, memory_order_relaxed)
                            + atomic_load_explicit(&plane->exchange.event_bytes, memory_order_relaxed);
    stats.memory_consumers = plane->js.consumers.used;
    stats.memory_batches = plane->js.staged.used;
    stats.memory_control = plane->exchange.owed.bytes;
    uint64_t words[sizeof(stats) / sizeof(uint64_t)];
    memcpy(words, &stats, sizeof(words));
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        atomic_store_explicit(&plane->published[i], words[i], memory_order_relaxed);
    }
}

void plane_histogram(plane_t *plane, uint32_t which, histogram_counts_t *out) {
    *out = (histogram_counts_t){0};
    if (which < HISTOGRAMS) {
        histogram_read(&plane->disk_took[which], out);
    }
}

uint32_t plane_advised(plane_t *plane) {
    return atomic_load_explicit(&plane->advised.count, memory_order_relaxed);
}

void plane_stats(plane_t *plane, plane_stats_t *out) {
    uint64_t words[sizeof(*out) / sizeof(uint64_t)];
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        words[i] = atomic_load_explicit(&plane->published[i], memory_order_relaxed);
    }
    memcpy(out, words, sizeof(words));
}
