/* commit.c: see commit.h and carried.h. How the visible end of a stream follows the watermark.
 *
 * A stream keeps two of the batches that are on disk and wait for the watermark: the oldest and the newest. When the
 * watermark reaches the oldest one, its messages are visible and the newest one takes its place. So a stream that falls
 * behind moves in larger steps, and takes no memory for it.
 */
#include "store/commit.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "store/overlay.h"

/* ---- which streams a batch carries ------------------------------------------------------------------------------- */

static status_t list_reserve(stream_list_t *list, uint32_t count) {
    return array_reserve(&list->at, &list->capacity, count, STREAMS_MIN, sizeof(store_stream_t *));
}

status_t list_add(stream_list_t *list, store_stream_t *stream) {
    status_t status = list_reserve(list, list->count + 1);
    if (status == STATUS_OK) {
        list->at[list->count++] = stream;
    }
    return status;
}

void list_remove(stream_list_t *list, const store_stream_t *stream) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->at[i] == stream) {
            list->at[i] = list->at[--list->count];
            return;
        }
    }
}

status_t carried_open(store_stream_t *stream, uint32_t count) {
    carried_streams_t *carried = &stream->store->carried;
    stream->promise.visible = stream->log.last_seq;
    status_t status = list_reserve(&carried->touched, count);
    status = status == STATUS_OK ? list_reserve(&carried->flying, count) : status;
    return status == STATUS_OK ? list_reserve(&carried->advanced, count) : status;
}

void carried_join(store_stream_t *stream) {
    stream->promise.touched = true;
    overlay_promise(stream->store, STREAM_PROMISE);
    check(list_add(&stream->store->carried.touched, stream) == STATUS_OK); /* reserved when the stream was opened */
}

void carried_close(store_stream_t *stream) {
    carried_streams_t *carried = &stream->store->carried;
    if (stream->promise.touched) {
        overlay_give_back(stream->store, STREAM_PROMISE);
    }
    list_remove(&carried->touched, stream);
    list_remove(&carried->flying, stream);
    list_remove(&carried->advanced, stream);
}

void carried_seal(store_t *store) {
    carried_streams_t *carried = &store->carried;
    for (uint32_t i = 0; i < carried->touched.count; i++) {
        store_stream_t *stream = carried->touched.at[i];
        stream->promise.touched = false;
        overlay_give_back(store, STREAM_PROMISE);
        log_settle(stream);
        stream->promise.sealed_last = stream->log.last_seq;
    }
    check(carried->flying.count == 0);
    stream_list_t empty = carried->flying;
    carried->flying = carried->touched;
    carried->touched = empty;
}

void carried_forget(store_t *store) {
    store->carried.flying.count = 0;
}

void carried_free(store_t *store) {
    free(store->carried.touched.at);
    free(store->carried.flying.at);
    free(store->carried.advanced.at);
}

/* ---- the watermark ----------------------------------------------------------------------------------------------- */

void store_set_commit(store_t *store, const commit_rule_t *rule) {
    store->commit = rule;
}

static uint64_t commit_asked(const store_t *store, const store_stream_t *stream) {
    if (LEAF_LIKELY(store->commit == NULL)) {
        return store->pipeline.durable;
    }
    uint64_t upto = store->commit->upto(store->commit->context, stream, store->pipeline.durable);
    return upto < store->pipeline.durable ? upto : store->pipeline.durable;
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
    if (last > stream->promise.visible) {
        stream->promise.visible = last;
        if (!stream->promise.advanced && list_add(&store->carried.advanced, stream) == STATUS_OK) {
            stream->promise.advanced = true;
        }
    }
}

static void commit_durable(store_stream_t *stream, uint64_t batch) {
    uint64_t last = stream->promise.sealed_last;
    if (LEAF_LIKELY(stream->store->commit == NULL)) {
        commit_show(stream, last);
        return;
    }
    stream->promise.newest = (commit_mark_t){.batch = batch, .last = last};
    if (stream->promise.oldest.batch == 0) {
        stream->promise.oldest = stream->promise.newest;
    }
}

void carried_show_applied(store_t *store) {
    for (uint32_t i = 0; i < store->carried.touched.count; i++) {
        store_stream_t *stream = store->carried.touched.at[i];
        if (stream->timeline.own) {
            commit_show(stream, stream->log.last_seq);
        }
    }
}

void carried_durable(store_t *store, uint64_t batch) {
    for (uint32_t i = 0; i < store->carried.flying.count; i++) {
        commit_durable(store->carried.flying.at[i], batch);
    }
    store->carried.flying.count = 0;
}

void carried_follow(store_t *store) {
    for (uint32_t i = 0; store->commit != NULL && i < store->streams.count; i++) {
        store_stream_t *stream = store->streams.at[i];
        uint64_t upto = stream->promise.oldest.batch != 0 ? commit_watermark(stream) : 0;
        if (stream->promise.oldest.batch == 0 || upto < stream->promise.oldest.batch) {
            continue;
        }
        bool all = upto >= stream->promise.newest.batch;
        commit_show(stream, all ? stream->promise.newest.last : stream->promise.oldest.last);
        stream->promise.oldest = all ? (commit_mark_t){0} : stream->promise.newest;
    }
}

store_stream_t *store_advanced_next(store_t *store) {
    if (store->carried.advanced.count == 0) {
        return NULL;
    }
    store_stream_t *stream = store->carried.advanced.at[--store->carried.advanced.count];
    stream->promise.advanced = false;
    return stream;
}
