/* memtable.c: see memtable.h. Open addressing, linear probing, 16 bytes a slot; a dropped table keeps its memory for
 * the next round unless it grew large for the load it had. */
#include "disk/memtable.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"

#define CAPACITY_MIN 1024
#define CAPACITY_KEEP (1 << 16)
#define PREFIX_MARK UINT64_C(0x9ddfea08eb382d69)

void memtable_open(memtable_t *memtable, const batches_t *batches) {
    *memtable = (memtable_t){.batches = batches};
}

void memtable_close(memtable_t *memtable) {
    free(memtable->current.slots);
    free(memtable->previous.slots);
    *memtable = (memtable_t){0};
}

void memtable_rest(memtable_t *memtable) {
    const batches_t *batches = memtable->batches;
    check(memtable->current.count == 0);
    check(memtable->previous.count == 0);
    memtable_close(memtable);
    memtable_open(memtable, batches);
}

static uint64_t hash_of(store_db_t db, bytes_t key) {
    return hash_bytes(key.at, key.size) ^ ((uint64_t)db << 56);
}

static void memtable_half_put(memtable_half_t *table, const batches_t *batches, bytes_t key, uint64_t hash,
                              uint64_t position) {
    uint64_t mask = table->capacity - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        memtable_slot_t *slot = &table->slots[i];
        if (slot->position == 0) {
            *slot = (memtable_slot_t){.hash = hash, .position = position};
            table->count++;
            return;
        }
        if (slot->hash == hash) {
            batch_op_t op;
            op_read(batches, slot->position, &op);
            if (bytes_equal(op.key, key)) {
                slot->position = position;
                return;
            }
        }
    }
}

static status_t memtable_half_grow(memtable_half_t *table, uint64_t capacity) {
    memtable_slot_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < table->capacity; i++) {
        memtable_slot_t slot = table->slots[i];
        if (slot.position != 0) {
            uint64_t to = slot.hash & (capacity - 1);
            while (slots[to].position != 0) {
                to = (to + 1) & (capacity - 1);
            }
            slots[to] = slot;
        }
    }
    free(table->slots);
    table->slots = slots;
    table->capacity = capacity;
    return STATUS_OK;
}

status_t memtable_reserve(memtable_t *memtable, uint64_t count) {
    memtable_half_t *table = &memtable->current;
    uint64_t capacity = table->capacity > 0 ? table->capacity : CAPACITY_MIN;
    while ((table->count + count) * 3 > capacity * 2) {
        capacity *= 2;
    }
    return capacity > table->capacity ? memtable_half_grow(table, capacity) : STATUS_OK;
}

void memtable_note(memtable_t *memtable, store_db_t db, bytes_t key, uint64_t position) {
    check(memtable->current.count + 1 < memtable->current.capacity);
    memtable_half_put(&memtable->current, memtable->batches, key, hash_of(db, key), position);
}

void memtable_note_prefix(memtable_t *memtable, store_db_t db, bytes_t prefix, uint64_t position) {
    check(prefix.size < 64);
    check(memtable->current.count + 1 < memtable->current.capacity);
    memtable_half_put(&memtable->current, memtable->batches, prefix, hash_of(db, prefix) ^ PREFIX_MARK, position);
    memtable->prefix_sizes[0] |= UINT64_C(1) << prefix.size;
}

static uint64_t memtable_half_find(const memtable_half_t *table, const batches_t *batches, bytes_t key, uint64_t hash,
                                   batch_op_t *op) {
    if (table->count == 0) {
        return 0;
    }
    uint64_t mask = table->capacity - 1;
    for (uint64_t i = hash & mask; table->slots[i].position != 0; i = (i + 1) & mask) {
        const memtable_slot_t *slot = &table->slots[i];
        if (slot->hash == hash) {
            op_read(batches, slot->position, op);
            if (bytes_equal(op->key, key)) {
                return slot->position;
            }
        }
    }
    return 0;
}

static uint64_t find_either(const memtable_t *memtable, bytes_t key, uint64_t hash, batch_op_t *op) {
    uint64_t position = memtable_half_find(&memtable->current, memtable->batches, key, hash, op);
    return position != 0 ? position : memtable_half_find(&memtable->previous, memtable->batches, key, hash, op);
}

bool memtable_find(const memtable_t *memtable, store_db_t db, bytes_t key, batch_op_t *op, uint64_t *position) {
    *position = find_either(memtable, key, hash_of(db, key), op);
    return *position != 0;
}

uint64_t memtable_covers(const memtable_t *memtable, store_db_t db, bytes_t key) {
    uint64_t newest = 0;
    uint64_t sizes = memtable->prefix_sizes[0] | memtable->prefix_sizes[1];
    while (sizes != 0) {
        uint32_t size = (uint32_t)__builtin_ctzll(sizes);
        sizes &= sizes - 1;
        if (size > key.size) {
            break;
        }
        batch_op_t op;
        bytes_t prefix = bytes_of(key.at, size);
        uint64_t position = find_either(memtable, prefix, hash_of(db, prefix) ^ PREFIX_MARK, &op);
        newest = position > newest ? position : newest;
    }
    return newest;
}

void memtable_rotate(memtable_t *memtable) {
    check(memtable->previous.count == 0);
    memtable_half_t empty = memtable->previous;
    memtable->previous = memtable->current;
    memtable->current = empty;
    memtable->prefix_sizes[1] = memtable->prefix_sizes[0];
    memtable->prefix_sizes[0] = 0;
}

void memtable_drop(memtable_t *memtable) {
    memtable_half_t *table = &memtable->previous;
    memtable->prefix_sizes[1] = 0;
    if (table->count == 0) {
        return;
    }
    if (table->capacity > CAPACITY_KEEP && table->count < table->capacity / 8) {
        free(table->slots);
        *table = (memtable_half_t){0};
        return;
    }
    memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = 0;
}
