/* test_histogram.c: what took how long falls into its span, also at the bounds; and what the store adds to its own. */
#include "base/histogram.h"

#include "store_rig.h"

static void spans_meet_at_their_bounds(void) {
    histogram_t histogram = {0};
    histogram_counts_t found;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HISTOGRAM_SPANS - 1; i++) {
        uint64_t bound = histogram_bound_ns(i);
        CHECK(i == 0 || bound > histogram_bound_ns(i - 1));
        histogram_add(&histogram, (int64_t)bound);
        histogram_add(&histogram, (int64_t)bound + 1);
        sum += 2 * bound + 1;
    }
    histogram_add(&histogram, 0);
    histogram_add(&histogram, -5); /* a clock that went back is no time at all */
    histogram_read(&histogram, &found);
    CHECK_EQ_U64(3, found.counts[0]);
    for (uint32_t i = 1; i < HISTOGRAM_SPANS - 1; i++) {
        CHECK_EQ_U64(2, found.counts[i]);
    }
    CHECK_EQ_U64(1, found.counts[HISTOGRAM_SPANS - 1]);
    CHECK_EQ_U64(sum, found.sum_ns);
    CHECK_EQ_U64(UINT64_MAX, histogram_bound_ns(HISTOGRAM_SPANS - 1));
}

static uint64_t counted(const histogram_t *histogram) {
    histogram_counts_t found;
    uint64_t count = 0;
    histogram_read(histogram, &found);
    for (uint32_t i = 0; i < HISTOGRAM_SPANS; i++) {
        count += found.counts[i];
    }
    return count;
}

static void a_store_adds_each_sync_and_each_commit(void) {
    histogram_t took[HISTOGRAMS] = {0};
    rig_t rig = {.in_memory = true, .options = {.took = took}};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    uint64_t commits = counted(&took[HISTOGRAM_COMMIT]);
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "x").verdict);
        rig_sync(&rig);
    }
    rig_checkpoint(&rig);
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    CHECK(stats.journal_syncs >= 5);
    CHECK_EQ_U64(stats.journal_syncs, counted(&took[HISTOGRAM_SYNC]));
    CHECK(counted(&took[HISTOGRAM_COMMIT]) > commits);
    rig_close(&rig);
}

int main(void) {
    RUN("a time that is a bound belongs below it, and the next one above", spans_meet_at_their_bounds);
    RUN("a store adds each sync of its journal and each commit", a_store_adds_each_sync_and_each_commit);
    return TEST_RESULT();
}
