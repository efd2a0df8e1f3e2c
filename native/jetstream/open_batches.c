/* open_batches.c: see open_batches.h. */
#include "jetstream/open_batches.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/status.h"

static uint64_t batch_hash(const stream_t *stream, bytes_t id) {
    return hash_bytes(id.at, id.size) ^ stream->id;
}

static void age_unlink(open_batches_t *batches, open_batch_t *batch) {
    *(batch->newer != NULL ? &batch->newer->older : &batches->newest) = batch->older;
    *(batch->older != NULL ? &batch->older->newer : &batches->oldest) = batch->newer;
}

static void age_link(open_batches_t *batches, open_batch_t *batch, int64_t deadline_ns) {
    batch->deadline_ns = deadline_ns;
    batch->newer = NULL;
    batch->older = batches->newest;
    *(batches->newest != NULL ? &batches->newest->newer : &batches->oldest) = batch;
    batches->newest = batch;
}

open_batches_t *open_batches_make(void) {
    open_batches_t *batches = calloc(1, sizeof(*batches));
    if (batches != NULL && map_open(&batches->by_id) != STATUS_OK) {
        open_batches_free(&batches);
    }
    return batches;
}

void open_batches_free(open_batches_t **batches) {
    if (*batches != NULL) {
        map_free(&(*batches)->by_id);
        free(*batches);
        *batches = NULL;
    }
}

open_batch_t *open_batch_find(const open_batches_t *batches, const stream_t *stream, bytes_t id) {
    map_link_t *link = batches == NULL ? NULL : map_first(batches->by_id, batch_hash(stream, id));
    for (; link != NULL; link = link->next) {
        open_batch_t *batch = MAP_ENTRY(link, open_batch_t, link);
        if (batch->stream == stream && bytes_equal(open_batch_id(batch), id)) {
            return batch;
        }
    }
    return NULL;
}

void open_batch_add(open_batches_t *batches, open_batch_t *batch, stream_t *stream, bytes_t id, int64_t deadline_ns) {
    batch->stream = stream;
    batch->id_size = id.size;
    memcpy(batch->id, id.at, id.size);
    status_t status = map_put(&batches->by_id, &batch->link, batch_hash(stream, id));
    check(status == STATUS_OK); /* it is open */
    age_link(batches, batch, deadline_ns);
}

void open_batch_heard(open_batches_t *batches, open_batch_t *batch, int64_t deadline_ns) {
    age_unlink(batches, batch);
    age_link(batches, batch, deadline_ns);
}

void open_batch_remove(open_batches_t *batches, open_batch_t *batch) {
    map_take(batches->by_id, &batch->link);
    age_unlink(batches, batch);
}
