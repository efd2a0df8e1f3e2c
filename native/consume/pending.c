/* pending.c: see pending.h. */
#include "consume/pending.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define FIRST_ROWS 64
#define KEEP_ROWS 4096
#define QUEUE_SLACK 1024 /* stale entries that the queue may hold beyond its live ones before they are removed */

void pending_init(pending_t *pending, share_t *memory) {
    memset(pending, 0, sizeof *pending);
    pending->memory = memory;
    pending->free = pending->head = pending->tail = pending->unsettled = pending->looked = PENDING_NONE;
}

static uint64_t rows_size(uint64_t rows) {
    return rows * (sizeof(pending_row_t) + 2 * sizeof(uint32_t));
}

bool pending_is_full(const pending_t *pending) {
    uint32_t rows = pending->row_capacity;
    if (pending->count + pending->exhausted < rows) return false;
    return rows >= PENDING_MAX
           || (rows >= PENDING_FEW && pending->memory && !share_has(pending->memory, rows_size(rows)));
}

void pending_free(pending_t *pending) {
    if (pending->memory) pending->memory->used -= rows_size(pending->row_capacity);
    free(pending->rows);
    free(pending->slots);
    free(pending->queue);
    pending_init(pending, pending->memory);
}

void pending_clear(pending_t *pending) {
    if (pending->slots) memset(pending->slots, 0xff, pending->slot_capacity * sizeof *pending->slots);
    pending->rows_used = pending->count = pending->exhausted = pending->redelivered = pending->unsettled_count = 0;
    pending->free = pending->head = pending->tail = pending->unsettled = pending->looked = PENDING_NONE;
    pending->queue_head = pending->queue_count = pending->queued = 0;
}

void pending_trim(pending_t *pending) {
    if (pending->count + pending->exhausted == 0 && pending->row_capacity > KEEP_ROWS) pending_free(pending);
}

static uint32_t pending_slot(const pending_t *pending, uint64_t seq) {
    return (uint32_t)((seq * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (pending->slot_capacity - 1);
}

uint32_t pending_find(const pending_t *pending, uint64_t seq) {
    if (pending->count + pending->exhausted == 0) return PENDING_NONE;
    uint32_t mask = pending->slot_capacity - 1;
    for (uint32_t slot = pending_slot(pending, seq);; slot = (slot + 1) & mask) {
        uint32_t row = pending->slots[slot];
        if (row == PENDING_NONE || pending->rows[row].seq == seq) return row;
    }
}

static void slots_insert(pending_t *pending, uint32_t row) {
    uint32_t mask = pending->slot_capacity - 1;
    uint32_t slot = pending_slot(pending, pending->rows[row].seq);
    while (pending->slots[slot] != PENDING_NONE) slot = (slot + 1) & mask;
    pending->slots[slot] = row;
}

/* Closes the gap by moving back the entries that had probed past it, so no tombstones are left. */
static void slots_remove(pending_t *pending, uint32_t row) {
    uint32_t mask = pending->slot_capacity - 1;
    uint32_t hole = pending_slot(pending, pending->rows[row].seq);
    while (pending->slots[hole] != row) hole = (hole + 1) & mask;
    for (uint32_t slot = (hole + 1) & mask; pending->slots[slot] != PENDING_NONE; slot = (slot + 1) & mask) {
        uint32_t home = pending_slot(pending, pending->rows[pending->slots[slot]].seq);
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            pending->slots[hole] = pending->slots[slot];
            hole = slot;
        }
    }
    pending->slots[hole] = PENDING_NONE;
}

static status_t rows_grow(pending_t *pending) {
    if (pending->row_capacity >= PENDING_MAX) return STATUS_FULL;
    uint32_t rows = pending->row_capacity ? pending->row_capacity * 2 : FIRST_ROWS;
    uint32_t *slots = malloc((size_t)rows * 2 * sizeof *slots);
    if (!slots) return STATUS_NO_MEMORY;
    pending_row_t *larger = realloc(pending->rows, (size_t)rows * sizeof *larger);
    if (!larger) {
        free(slots);
        return STATUS_NO_MEMORY;
    }
    memset(slots, 0xff, (size_t)rows * 2 * sizeof *slots);
    free(pending->slots);
    pending->slots = slots;
    pending->slot_capacity = rows * 2;
    pending->rows = larger;
    if (pending->memory) pending->memory->used += rows_size(rows - pending->row_capacity);
    pending->row_capacity = rows;
    for (uint32_t row = 0; row < pending->rows_used; row++) {
        if (!(larger[row].flags & PENDING_FREE)) slots_insert(pending, row);
    }
    return STATUS_OK;
}

status_t pending_add(pending_t *pending, uint64_t seq, uint64_t consumer_seq, int64_t due_ns, uint32_t deliveries,
                     uint32_t *row) {
    if (pending->tail != PENDING_NONE && pending->rows[pending->tail].seq >= seq) return STATUS_INVALID;
    uint32_t taken = pending->free;
    if (taken != PENDING_NONE) {
        pending->free = pending->rows[taken].after;
    } else {
        if (pending->rows_used == pending->row_capacity) {
            status_t status = rows_grow(pending);
            if (status != STATUS_OK) return status;
        }
        taken = pending->rows_used++;
    }
    pending->rows[taken] = (pending_row_t){.seq = seq,
                                           .consumer_seq = consumer_seq,
                                           .due_ns = due_ns,
                                           .deliveries = deliveries,
                                           .before = pending->tail,
                                           .after = PENDING_NONE};
    if (pending->tail == PENDING_NONE) {
        pending->head = taken;
    } else {
        pending->rows[pending->tail].after = taken;
    }
    pending->tail = taken;
    if (pending->unsettled == PENDING_NONE) pending->unsettled = taken;
    pending->count++;
    pending->unsettled_count++;
    if (deliveries > 1) pending->redelivered++;
    slots_insert(pending, taken);
    *row = taken;
    return STATUS_OK;
}

static void order_unlink(pending_t *pending, uint32_t row) {
    pending_row_t *gone = &pending->rows[row];
    if (pending->unsettled == row) pending->unsettled = gone->after;
    if (pending->looked == row) pending->looked = gone->after;
    if (!(gone->flags & PENDING_STORED)) pending->unsettled_count--;
    if (gone->before == PENDING_NONE) {
        pending->head = gone->after;
    } else {
        pending->rows[gone->before].after = gone->after;
    }
    if (gone->after == PENDING_NONE) {
        pending->tail = gone->before;
    } else {
        pending->rows[gone->after].before = gone->before;
    }
    pending->count--;
}

/* Its entry stays in the ring and is skipped later; for rows that will not be queued again, or were just popped. */
static void queue_forget(pending_t *pending, uint32_t row) {
    if (!(pending->rows[row].flags & PENDING_QUEUED)) return;
    pending->rows[row].flags &= ~(uint32_t)PENDING_QUEUED;
    pending->queued--;
}

void pending_unqueue(pending_t *pending, uint32_t row) {
    queue_forget(pending, row);
}

void pending_remove(pending_t *pending, uint32_t row) {
    pending_row_t *gone = &pending->rows[row];
    queue_forget(pending, row);
    if (gone->flags & PENDING_EXHAUSTED) {
        pending->exhausted--;
    } else {
        order_unlink(pending, row);
    }
    if (gone->deliveries > 1) pending->redelivered--;
    slots_remove(pending, row);
    gone->flags = PENDING_FREE;
    gone->after = pending->free;
    pending->free = row;
}

void pending_exhaust(pending_t *pending, uint32_t row) {
    queue_forget(pending, row);
    order_unlink(pending, row);
    pending->exhausted++;
    pending->rows[row].flags |= PENDING_EXHAUSTED;
}

void pending_count_delivery(pending_t *pending, uint32_t row) {
    if (++pending->rows[row].deliveries == 2) pending->redelivered++;
}

/* An entry is stale when its row is not queued any more, or was queued again since: it has another ticket then. After
 * 2^24 of them a ticket comes again, and a row might be delivered earlier than its turn. */
static bool queue_live(const pending_t *pending, uint64_t entry, uint32_t *row) {
    *row = (uint32_t)entry;
    uint32_t flags = pending->rows[*row].flags;
    return (flags & PENDING_QUEUED) && flags >> PENDING_TICKET == (uint32_t)(entry >> 32);
}

/* Removes what was acknowledged while it was queued. */
static void queue_compact(pending_t *pending) {
    uint32_t mask = pending->queue_capacity - 1;
    uint32_t kept = 0, row;
    for (uint32_t i = 0; i < pending->queue_count; i++) {
        uint64_t entry = pending->queue[(pending->queue_head + i) & mask];
        if (queue_live(pending, entry, &row)) pending->queue[(pending->queue_head + kept++) & mask] = entry;
    }
    pending->queue_count = kept;
}

static status_t queue_grow(pending_t *pending) {
    uint32_t capacity = pending->queue_capacity ? pending->queue_capacity * 2 : FIRST_ROWS;
    uint64_t *larger = malloc((size_t)capacity * sizeof *larger);
    if (!larger) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < pending->queue_count; i++) {
        larger[i] = pending->queue[(pending->queue_head + i) & (pending->queue_capacity - 1)];
    }
    free(pending->queue);
    pending->queue = larger;
    pending->queue_capacity = capacity;
    pending->queue_head = 0;
    return STATUS_OK;
}

status_t pending_queue(pending_t *pending, uint32_t row) {
    pending_row_t *wanted = &pending->rows[row];
    check(!(wanted->flags & (PENDING_EXHAUSTED | PENDING_FREE)));
    if (wanted->flags & PENDING_QUEUED) return STATUS_OK;
    if (pending->queue_count == pending->queue_capacity) {
        if (pending->queue_count > 2 * pending->queued + QUEUE_SLACK) queue_compact(pending);
        if (pending->queue_count == pending->queue_capacity) {
            status_t status = queue_grow(pending);
            if (status != STATUS_OK) return status;
        }
    }
    uint32_t ticket = ++pending->ticket & (UINT32_MAX >> PENDING_TICKET);
    pending->queue[(pending->queue_head + pending->queue_count++) & (pending->queue_capacity - 1)] =
        (uint64_t)ticket << 32 | row;
    wanted->flags = (wanted->flags & ((1u << PENDING_TICKET) - 1)) | PENDING_QUEUED | ticket << PENDING_TICKET;
    pending->queued++;
    return STATUS_OK;
}

uint32_t pending_first_queued(pending_t *pending) {
    while (pending->queue_count > 0) {
        uint32_t row;
        if (queue_live(pending, pending->queue[pending->queue_head], &row)) return row;
        pending->queue_head = (pending->queue_head + 1) & (pending->queue_capacity - 1);
        pending->queue_count--;
    }
    return PENDING_NONE;
}

void pending_pop_queued(pending_t *pending) {
    uint32_t row = pending_first_queued(pending);
    check(row != PENDING_NONE);
    queue_forget(pending, row);
    pending->queue_head = (pending->queue_head + 1) & (pending->queue_capacity - 1);
    pending->queue_count--;
}

bool pending_sound(const pending_t *pending) {
    uint32_t seen = 0, redelivered = 0, queued = 0, exhausted = 0, unsettled = 0, row;
    uint32_t before = PENDING_NONE;
    for (row = pending->head; row != PENDING_NONE; before = row, row = pending->rows[row].after) {
        const pending_row_t *here = &pending->rows[row];
        if (here->before != before || (here->flags & (PENDING_EXHAUSTED | PENDING_FREE))) return false;
        if (before != PENDING_NONE && pending->rows[before].seq >= here->seq) return false;
        seen++;
        unsettled += !(here->flags & PENDING_STORED);
    }
    if (pending->tail != before || seen != pending->count || unsettled != pending->unsettled_count) return false;
    uint32_t live = 0;
    for (uint32_t i = 0; i < pending->queue_count; i++) {
        live += queue_live(pending, pending->queue[(pending->queue_head + i) & (pending->queue_capacity - 1)], &row);
    }
    for (row = 0; row < pending->rows_used; row++) {
        const pending_row_t *here = &pending->rows[row];
        if (here->flags & PENDING_FREE) continue;
        if (pending_find(pending, here->seq) != row) return false;
        if (here->deliveries > 1) redelivered++;
        if (here->flags & PENDING_QUEUED) queued++;
        if (here->flags & PENDING_EXHAUSTED) exhausted++;
    }
    return redelivered == pending->redelivered && queued == pending->queued && exhausted == pending->exhausted
           && queued == live;
}
