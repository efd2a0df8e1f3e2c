/* open_batches.h: the batches that publishers have begun and not ended, found by stream and id, oldest word first. What
 * a batch holds is its owner's: fast.c, atomic.c.
 */
#ifndef LEAFD_JETSTREAM_OPEN_BATCHES_H
#define LEAFD_JETSTREAM_OPEN_BATCHES_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/names.h"
#include "jetstream/stream.h"

#define OPEN_BATCH_ID_MAX 64u

/* The first member of a struct of the owner's. */
typedef struct open_batch {
    name_link_t name;         /* id, of the stream with that number */
    struct open_batch *newer; /* by last word */
    struct open_batch *older;
    stream_t *stream;
    int64_t deadline_ns;
    uint8_t id[OPEN_BATCH_ID_MAX];
} open_batch_t;

typedef struct open_batches {
    map_t *by_id;
    open_batch_t *newest;
    open_batch_t *oldest;
} open_batches_t;

open_batches_t *open_batches_make(void);          /* NULL: no memory */
void open_batches_free(open_batches_t **batches); /* none is left in them */
static inline uint32_t open_batches_count(const open_batches_t *batches) {
    return map_count(batches->by_id);
}

/* NULL: there is none. batches may be NULL. id: at most OPEN_BATCH_ID_MAX bytes, here and below. */
open_batch_t *open_batch_find(const open_batches_t *batches, const stream_t *stream, bytes_t id);
void open_batch_add(open_batches_t *batches, open_batch_t *batch, stream_t *stream, bytes_t id, int64_t deadline_ns);
/* Notes that a batch was heard of. All of one list have the same patience. */
void open_batch_heard(open_batches_t *batches, open_batch_t *batch, int64_t deadline_ns);
void open_batch_remove(open_batches_t *batches, open_batch_t *batch);

static inline bytes_t open_batch_id(const open_batch_t *batch) {
    return batch->name.name;
}

#endif
