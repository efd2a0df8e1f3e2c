/* commit.c: see commit.h. How the visible end of a stream follows the watermark.
 *
 * A stream keeps two of the batches that are on disk and wait for the watermark: the oldest and the newest. When the
 * watermark reaches the oldest one, its messages are visible and the newest one takes its place. So a stream that falls
 * behind moves in larger steps, and takes no memory for it.
 */
#include "store/commit.h"

#include "base/check.h"
#include "store/core.h"

void store_set_commit(store_t *store, const commit_rule_t *rule) {
    store->commit = rule;
}

static uint64_t commit_asked(const store_t *store, const store_stream_t *stream) {
    if (LEAF_LIKELY(store->commit == NULL)) {
        return store->durable;
    }
    uint64_t upto = store->commit->upto(store->commit->context, stream, store->durable);
    return upto < store->durable ? upto : store->durable;
}

uint64_t commit_watermark(const store_stream_t *stream) {
    return commit_asked(stream->store, stream);
}

uint64_t commit_watermark_all(const store_t *store) {
    uint64_t upto = commit_asked(store, NULL);
    uint64_t open = store_batch(store);
    return store_batch_empty(store) && upto + 1 >= open ? open : upto;
}

static void commit_show(store_stream_t *stream, uint64_t last) {
    store_t *store = stream->store;
    if (last > stream->visible) {
        stream->visible = last;
        if (!stream->advanced && list_add(&store->advanced, stream) == STATUS_OK) {
            stream->advanced = true;
        }
    }
}

void commit_durable(store_stream_t *stream, uint64_t batch, uint64_t last) {
    if (LEAF_LIKELY(stream->store->commit == NULL)) {
        commit_show(stream, last);
        return;
    }
    stream->commit_newest = (commit_mark_t){.batch = batch, .last = last};
    if (stream->commit_oldest.batch == 0) {
        stream->commit_oldest = stream->commit_newest;
    }
}

void commit_follow(store_t *store) {
    for (uint32_t i = 0; store->commit != NULL && i < store->streams.count; i++) {
        store_stream_t *stream = store->streams.at[i];
        uint64_t upto = stream->commit_oldest.batch != 0 ? commit_watermark(stream) : 0;
        if (stream->commit_oldest.batch == 0 || upto < stream->commit_oldest.batch) {
            continue;
        }
        bool all = upto >= stream->commit_newest.batch;
        commit_show(stream, all ? stream->commit_newest.last : stream->commit_oldest.last);
        stream->commit_oldest = all ? (commit_mark_t){0} : stream->commit_newest;
    }
}
