/* test_store_commit.c: what waits, waits for the commit watermark: here a second rule behind it, one that lags behind
 * the disk. */
#include "store/commit.h"
#include "store_rig.h"

static rig_t rig;
static store_stream_t *stream;
static uint64_t agreed; /* what the lagging rule says */

static uint64_t lagging(void *context, const store_stream_t *asked, uint64_t durable) {
    (void)context;
    (void)asked;
    (void)durable;
    return agreed;
}

static void begin(bool lags) {
    static const commit_rule_t rule = {.upto = lagging};
    rig = (rig_t){.in_memory = true};
    agreed = 0;
    rig_open(&rig);
    store_set_commit(rig.store, lags ? &rule : NULL);
    stream = rig_stream(&rig, 1, rig_config());
}

/* Ticks until it is on disk, and takes no news of streams. Returns the batch that it was in. */
static uint64_t put(const char *subject) {
    uint64_t batch = store_batch(rig.store);
    CHECK_EQ_I64(APPEND_STORED, rig_put(&rig, stream, subject, "x").verdict);
    for (int64_t until = 0; store_durable(rig.store) < batch && patient(&until);) {
        store_tick(rig.store, rig.now);
        struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
        poll(&poller, 1, 1);
    }
    CHECK(store_durable(rig.store) >= batch);
    return batch;
}

static void the_disk(void) {
    begin(false);
    uint64_t batch = put("a");
    CHECK_EQ_U64(store_durable(rig.store), commit_watermark(stream));
    CHECK(commit_watermark_all(rig.store) >= batch);
    CHECK_EQ_U64(1, store_stream_visible(stream));
    CHECK(store_advanced_next(rig.store) == stream);
    rig_close(&rig);
}

static void lags_behind(void) {
    begin(true);
    uint64_t batch = put("a");
    agreed = batch - 1;
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(batch - 1, commit_watermark(stream));
    CHECK_EQ_U64(batch - 1, commit_watermark_all(rig.store));
    CHECK_EQ_U64(0, store_stream_visible(stream));
    CHECK(store_advanced_next(rig.store) == NULL);
    agreed = batch;
    store_tick(rig.store, rig.now);
    CHECK(commit_watermark_all(rig.store) >= batch);
    CHECK_EQ_U64(1, store_stream_visible(stream));
    CHECK(store_advanced_next(rig.store) == stream);
    CHECK(store_advanced_next(rig.store) == NULL);
    rig_close(&rig);
}

static void many_batches(void) {
    begin(true);
    uint64_t batches[20];
    for (int i = 0; i < 20; i++) {
        batches[i] = put("a");
    }
    CHECK_EQ_U64(0, store_stream_visible(stream));
    for (uint64_t i = 0; i < 20; i++) {
        agreed = batches[i];
        store_tick(rig.store, rig.now);
        CHECK(store_stream_visible(stream) <= i + 1); /* never what is not agreed upon */
    }
    CHECK_EQ_U64(20, store_stream_visible(stream));
    rig_close(&rig);
}

static void never_ahead(void) {
    begin(true);
    agreed = UINT64_MAX;
    uint64_t batch = store_batch(rig.store);
    CHECK_EQ_I64(APPEND_STORED, rig_put(&rig, stream, "a", "x").verdict);
    CHECK(commit_watermark(stream) < batch);
    CHECK(commit_watermark_all(rig.store) < batch);
    CHECK_EQ_U64(0, store_stream_visible(stream));
    rig_close(&rig);
}

int main(void) {
    RUN("without a rule the watermark is what the disk has", the_disk);
    RUN("while the watermark lags behind the disk no message is visible, and nobody is told of the stream",
        lags_behind);
    RUN("over many batches nothing is visible before the watermark, and all of it in the end", many_batches);
    RUN("a rule cannot run ahead of the disk", never_ahead);
    return TEST_RESULT();
}
