/* pending.c: see pending.h. */
#include "consume/pending.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/check.h"
#include "base/visits.h"

#define FIRST_ROWS 64u
#define FIRST_SLABS 4u
#define KEEP_ROWS 4096u

void pending_init(pending_t *pending, share_t *memory) {
    memset(pending, 0, sizeof *pending);
    pending->memory = memory;
    pending->free = pending->head = pending->tail = pending->unsettled = pending->looked = PENDING_NONE;
    pending->first_queued = pending->last_queued = PENDING_NONE;
}

static pending_row_t *pending_at(const pending_t *pending, uint32_t row) {
    return &pending->slabs[row / PENDING_SLAB].rows[row % PENDING_SLAB];
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void take(pending_t *pending, uint64_t bytes) {
    pending->bytes += bytes;
    if (pending->memory) pending->memory->used += bytes;
}

/* The number of rows by which it grows next. */
static uint32_t next_rows(const pending_t *pending) {
    uint32_t rows = pending->row_capacity;
    return rows == 0 ? FIRST_ROWS : rows < PENDING_SLAB ? rows : PENDING_SLAB;
}

static uint64_t rows_size(uint64_t rows) {
    return rows * (sizeof(pending_row_t) + sizeof(uint32_t));
}

bool pending_is_full(const pending_t *pending) {
    uint32_t rows = pending->row_capacity;
    if (pending->count + pending->exhausted < rows) return false;
    return rows >= PENDING_MAX
           || (rows >= PENDING_FEW && pending->memory && !share_has(pending->memory, rows_size(next_rows(pending))));
}

void pending_free(pending_t *pending) {
    if (pending->memory) pending->memory->used -= pending->bytes;
    for (uint32_t i = 0; i * PENDING_SLAB < pending->row_capacity; i++) {
        free(pending->slabs[i].rows);
        free(pending->slabs[i].buckets);
        free(pending->slabs[i].waits);
    }
    free(pending->slabs);
    pending_init(pending, pending->memory);
}

void pending_clear(pending_t *pending) {
    pending->rows_used = pending->mask = 0;
    pending->count = pending->exhausted = pending->redelivered = pending->unsettled_count = 0;
    pending->free = pending->head = pending->tail = pending->unsettled = pending->looked = PENDING_NONE;
    pending->first_queued = pending->last_queued = PENDING_NONE;
    pending->queued = 0;
}

void pending_trim(pending_t *pending) {
    if (pending->count + pending->exhausted == 0 && pending->row_capacity > KEEP_ROWS) pending_free(pending);
}

/* *array has room for `rows` of `size` bytes each; if not, it is as it was. */
static bool resized(void *array, uint32_t rows, size_t size) {
    void *at, *larger;
    memcpy(&at, array, sizeof at);
    larger = realloc(at, rows * size);
    if (larger) memcpy(array, &larger, sizeof larger);
    return larger != NULL;
}

/* The first slab, which is small at first. */
static status_t first_slab_grow(pending_slab_t *slab, uint32_t rows) {
    return resized(&slab->rows, rows, sizeof *slab->rows) && resized(&slab->buckets, rows, sizeof *slab->buckets)
                   && (!slab->waits || resized(&slab->waits, rows, sizeof *slab->waits))
               ? STATUS_OK
               : STATUS_NO_MEMORY;
}

static status_t rows_grow(pending_t *pending) {
    if (pending->row_capacity >= PENDING_MAX) return STATUS_FULL;
    uint32_t rows = next_rows(pending), slab = pending->row_capacity / PENDING_SLAB;
    status_t status =
        array_reserve(&pending->slabs, &pending->slab_capacity, slab + 1u, FIRST_SLABS, sizeof *pending->slabs);
    if (status != STATUS_OK) return status;
    bool fresh = pending->row_capacity % PENDING_SLAB == 0;
    if (fresh) pending->slabs[slab] = (pending_slab_t){0};
    status = first_slab_grow(&pending->slabs[slab], fresh ? rows : 2 * rows);
    if (status != STATUS_OK) {
        if (fresh) { /* it is none of those that pending_free knows */
            free(pending->slabs[slab].rows);
            free(pending->slabs[slab].buckets);
        }
        return status;
    }
    take(pending, rows_size(rows) + (pending->slabs[slab].waits && !fresh ? rows * sizeof(pending_wait_t) : 0));
    pending->row_capacity += rows;
    return STATUS_OK;
}

/* ---- by sequence ------------------------------------------------------------------------------------------------- */

static uint32_t *bucket_at(const pending_t *pending, uint32_t bucket) {
    return &pending->slabs[bucket / PENDING_SLAB].buckets[bucket % PENDING_SLAB];
}

/* Neighbours stay neighbours, which is how they come and go. Whatever is left out between them, the blocks of 1,024
 * that they are in are mixed. */
static uint32_t seq_hash(uint64_t seq) {
    uint64_t block = seq >> 10;
    block = (block ^ block >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    block = (block ^ block >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)seq ^ (uint32_t)(block >> 32);
}

static uint32_t *bucket_of(const pending_t *pending, uint64_t seq) {
    uint32_t bucket = seq_hash(seq) & pending->mask;
    return bucket_at(pending, bucket < pending->rows_used ? bucket : bucket & pending->mask >> 1);
}

uint32_t pending_find(const pending_t *pending, uint64_t seq) {
    if (pending->count + pending->exhausted == 0) return PENDING_NONE;
    uint32_t row = *bucket_of(pending, seq);
    while (row != PENDING_NONE && pending_at(pending, row)->seq != seq) row = pending_at(pending, row)->next;
    return row;
}

static void pending_bucket_put(pending_t *pending, uint32_t row) {
    uint32_t *bucket = bucket_of(pending, pending_at(pending, row)->seq);
    pending_at(pending, row)->next = *bucket;
    *bucket = row;
}

static void pending_bucket_take(pending_t *pending, uint32_t row) {
    uint32_t *at = bucket_of(pending, pending_at(pending, row)->seq);
    while (*at != row) at = &pending_at(pending, *at)->next;
    *at = pending_at(pending, row)->next;
}

/* A further row, and the bucket that comes with it, into which one other is split (base/map.h has the same drawn). */
static uint32_t further_row(pending_t *pending) {
    uint32_t fresh = pending->rows_used++;
    if (fresh > pending->mask) pending->mask = pending->mask * 2 + 1;
    uint32_t *goes = bucket_at(pending, fresh), *stays = bucket_at(pending, fresh & pending->mask >> 1);
    uint32_t row = fresh == 0 ? PENDING_NONE : *stays;
    while (row != PENDING_NONE) {
        visits_add(1);
        pending_row_t *here = pending_at(pending, row);
        uint32_t **to = (seq_hash(here->seq) & pending->mask) == fresh ? &goes : &stays;
        **to = row;
        *to = &here->next;
        row = here->next;
    }
    *stays = *goes = PENDING_NONE;
    return fresh;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

status_t pending_add(pending_t *pending, uint64_t seq, uint64_t consumer_seq, int64_t due_ns, uint32_t deliveries,
                     uint32_t *row) {
    if (pending->tail != PENDING_NONE && pending_at(pending, pending->tail)->seq >= seq) return STATUS_INVALID;
    uint32_t taken = pending->free;
    if (taken != PENDING_NONE) {
        pending->free = pending_at(pending, taken)->after;
    } else {
        if (pending->rows_used == pending->row_capacity) {
            status_t status = rows_grow(pending);
            if (status != STATUS_OK) return status;
        }
        taken = further_row(pending);
    }
    *pending_at(pending, taken) = (pending_row_t){.seq = seq,
                                                  .consumer_seq = consumer_seq,
                                                  .due_ns = due_ns,
                                                  .deliveries = deliveries,
                                                  .before = pending->tail,
                                                  .after = PENDING_NONE};
    if (pending->tail == PENDING_NONE) {
        pending->head = taken;
    } else {
        pending_at(pending, pending->tail)->after = taken;
    }
    pending->tail = taken;
    if (pending->unsettled == PENDING_NONE) pending->unsettled = taken;
    pending->count++;
    pending->unsettled_count++;
    if (deliveries > 1) pending->redelivered++;
    pending_bucket_put(pending, taken);
    *row = taken;
    return STATUS_OK;
}

static void order_unlink(pending_t *pending, uint32_t row) {
    pending_row_t *gone = pending_at(pending, row);
    if (pending->unsettled == row) pending->unsettled = gone->after;
    if (pending->looked == row) pending->looked = gone->after;
    if (!(gone->flags & PENDING_STORED)) pending->unsettled_count--;
    if (gone->before == PENDING_NONE) {
        pending->head = gone->after;
    } else {
        pending_at(pending, gone->before)->after = gone->after;
    }
    if (gone->after == PENDING_NONE) {
        pending->tail = gone->before;
    } else {
        pending_at(pending, gone->after)->before = gone->before;
    }
    pending->count--;
}

/* ---- what is to be delivered again ------------------------------------------------------------------------------- */

static pending_wait_t *wait_of(const pending_t *pending, uint32_t row) {
    return &pending->slabs[row / PENDING_SLAB].waits[row % PENDING_SLAB];
}

static void queue_forget(pending_t *pending, uint32_t row) {
    if (!(pending_at(pending, row)->flags & PENDING_QUEUED)) return;
    const pending_wait_t *gone = wait_of(pending, row);
    *(gone->before == PENDING_NONE ? &pending->first_queued : &wait_of(pending, gone->before)->after) = gone->after;
    *(gone->after == PENDING_NONE ? &pending->last_queued : &wait_of(pending, gone->after)->before) = gone->before;
    pending_at(pending, row)->flags &= ~(uint32_t)PENDING_QUEUED;
    pending->queued--;
}

void pending_unqueue(pending_t *pending, uint32_t row) {
    queue_forget(pending, row);
}

void pending_remove(pending_t *pending, uint32_t row) {
    pending_row_t *gone = pending_at(pending, row);
    queue_forget(pending, row);
    if (gone->flags & PENDING_EXHAUSTED) {
        pending->exhausted--;
    } else {
        order_unlink(pending, row);
    }
    if (gone->deliveries > 1) pending->redelivered--;
    pending_bucket_take(pending, row);
    gone->flags = PENDING_FREE;
    gone->after = pending->free;
    pending->free = row;
}

void pending_exhaust(pending_t *pending, uint32_t row) {
    queue_forget(pending, row);
    order_unlink(pending, row);
    pending->exhausted++;
    pending_at(pending, row)->flags |= PENDING_EXHAUSTED;
}

void pending_count_delivery(pending_t *pending, uint32_t row) {
    if (++pending_at(pending, row)->deliveries == 2) pending->redelivered++;
}

static status_t waits_make(pending_t *pending, uint32_t slab) {
    if (pending->slabs[slab].waits) return STATUS_OK;
    uint32_t rows = pending->row_capacity < PENDING_SLAB ? pending->row_capacity : PENDING_SLAB;
    pending->slabs[slab].waits = malloc(rows * sizeof(pending_wait_t));
    if (!pending->slabs[slab].waits) return STATUS_NO_MEMORY;
    take(pending, rows * sizeof(pending_wait_t));
    return STATUS_OK;
}

status_t pending_queue(pending_t *pending, uint32_t row) {
    pending_row_t *wanted = pending_at(pending, row);
    check(!(wanted->flags & (PENDING_EXHAUSTED | PENDING_FREE)));
    if (wanted->flags & PENDING_QUEUED) return STATUS_OK;
    status_t status = waits_make(pending, row / PENDING_SLAB);
    if (status != STATUS_OK) return status;
    uint32_t last = pending->last_queued;
    *wait_of(pending, row) = (pending_wait_t){.before = last, .after = PENDING_NONE};
    *(last == PENDING_NONE ? &pending->first_queued : &wait_of(pending, last)->after) = row;
    pending->last_queued = row;
    wanted->flags |= PENDING_QUEUED;
    pending->queued++;
    return STATUS_OK;
}

uint32_t pending_first_queued(const pending_t *pending) {
    return pending->first_queued;
}

void pending_pop_queued(pending_t *pending) {
    check(pending->first_queued != PENDING_NONE);
    queue_forget(pending, pending->first_queued);
}

static bool queue_sound(const pending_t *pending) {
    uint32_t count = 0, before = PENDING_NONE;
    for (uint32_t row = pending->first_queued; row != PENDING_NONE; row = wait_of(pending, row)->after) {
        if (!(pending_at(pending, row)->flags & PENDING_QUEUED) || wait_of(pending, row)->before != before)
            return false;
        if (++count > pending->queued) return false;
        before = row;
    }
    return count == pending->queued && before == pending->last_queued;
}

bool pending_sound(const pending_t *pending) {
    uint32_t seen = 0, redelivered = 0, queued = 0, exhausted = 0, unsettled = 0, row;
    uint32_t before = PENDING_NONE;
    for (row = pending->head; row != PENDING_NONE; before = row, row = pending_at(pending, row)->after) {
        const pending_row_t *here = pending_at(pending, row);
        if (here->before != before || (here->flags & (PENDING_EXHAUSTED | PENDING_FREE))) return false;
        if (before != PENDING_NONE && pending_at(pending, before)->seq >= here->seq) return false;
        seen++;
        unsettled += !(here->flags & PENDING_STORED);
    }
    if (pending->tail != before || seen != pending->count || unsettled != pending->unsettled_count) return false;
    for (row = 0; row < pending->rows_used; row++) {
        const pending_row_t *here = pending_at(pending, row);
        if (here->flags & PENDING_FREE) continue;
        if (pending_find(pending, here->seq) != row) return false;
        if (here->deliveries > 1) redelivered++;
        if (here->flags & PENDING_QUEUED) queued++;
        if (here->flags & PENDING_EXHAUSTED) exhausted++;
    }
    return redelivered == pending->redelivered && queued == pending->queued && exhausted == pending->exhausted
           && queue_sound(pending);
}
