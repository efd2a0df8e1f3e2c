/* open_batches.c: see open_batches.h. */
#include "jetstream/open_batches.h"

#include <string.h>

#include "base/hash.h"

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

open_batch_t *open_batch_find(const open_batches_t *batches, const stream_t *stream, bytes_t id) {
    open_batch_t *batch = batches == NULL ? NULL : batches->buckets[batch_hash(stream, id) % OPEN_BATCH_BUCKETS];
    while (batch != NULL && (batch->stream != stream || !bytes_equal(open_batch_id(batch), id))) {
        batch = batch->next;
    }
    return batch;
}

void open_batch_add(open_batches_t *batches, open_batch_t *batch, stream_t *stream, bytes_t id, int64_t deadline_ns) {
    batch->stream = stream;
    batch->hash = batch_hash(stream, id);
    batch->id_size = id.size;
    memcpy(batch->id, id.at, id.size);
    open_batch_t **bucket = &batches->buckets[batch->hash % OPEN_BATCH_BUCKETS];
    batch->next = *bucket;
    *bucket = batch;
    age_link(batches, batch, deadline_ns);
    batches->count++;
}

void open_batch_heard(open_batches_t *batches, open_batch_t *batch, int64_t deadline_ns) {
    age_unlink(batches, batch);
    age_link(batches, batch, deadline_ns);
}

void open_batch_remove(open_batches_t *batches, open_batch_t *batch) {
    open_batch_t **at = &batches->buckets[batch->hash % OPEN_BATCH_BUCKETS];
    while (*at != batch) {
        at = &(*at)->next;
    }
    *at = batch->next;
    age_unlink(batches, batch);
    batches->count--;
}
