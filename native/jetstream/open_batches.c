/* open_batches.c: see open_batches.h. */
#include "jetstream/open_batches.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/status.h"

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
    name_link_t *found = batches == NULL ? NULL : names_find(batches->by_id, stream->id, id);
    return found == NULL ? NULL : MAP_ENTRY(found, open_batch_t, name);
}

void open_batch_add(open_batches_t *batches, open_batch_t *batch, stream_t *stream, bytes_t id, int64_t deadline_ns) {
    batch->stream = stream;
    memcpy(batch->id, id.at, id.size);
    batch->name = (name_link_t){.owner = stream->id, .name = bytes_of(batch->id, id.size)};
    status_t status = names_put(&batches->by_id, &batch->name);
    check(status == STATUS_OK); /* it is open */
    age_link(batches, batch, deadline_ns);
}

void open_batch_heard(open_batches_t *batches, open_batch_t *batch, int64_t deadline_ns) {
    age_unlink(batches, batch);
    age_link(batches, batch, deadline_ns);
}

void open_batch_remove(open_batches_t *batches, open_batch_t *batch) {
    map_take(batches->by_id, &batch->name.link);
    age_unlink(batches, batch);
}
