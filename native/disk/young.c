/* young.c: see young.h. Open addressing, linear probing, 16 bytes a slot; a dropped table keeps its memory for the next
 * round unless it grew large for the load it had. */
#include "disk/young.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"

#define CAPACITY_MIN 1024
#define CAPACITY_KEEP (1 << 16)
#define PREFIX_MARK UINT64_C(0x9ddfea08eb382d69)

void young_open(young_t *young, const batches_t *batches) {
    *young = (young_t){.batches = batches};
}

void young_close(young_t *young) {
    free(young->current.slots);
    free(young->previous.slots);
    *young = (young_t){0};
}

static uint64_t hash_of(store_db_t db, bytes_t key) {
    return hash_bytes(key.at, key.size) ^ ((uint64_t)db << 56);
}

static void young_table_put(young_table_t *table, const batches_t *batches, bytes_t key, uint64_t hash,
                            uint64_t position) {
    uint64_t mask = table->capacity - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        young_slot_t *slot = &table->slots[i];
        if (slot->position == 0) {
            *slot = (young_slot_t){.hash = hash, .position = position};
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

static status_t young_table_grow(young_table_t *table, uint64_t capacity) {
    young_slot_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < table->capacity; i++) {
        young_slot_t slot = table->slots[i];
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

status_t young_reserve(young_t *young, uint64_t count) {
    young_table_t *table = &young->current;
    uint64_t capacity = table->capacity > 0 ? table->capacity : CAPACITY_MIN;
    while ((table->count + count) * 3 > capacity * 2) {
        capacity *= 2;
    }
    return capacity > table->capacity ? young_table_grow(table, capacity) : STATUS_OK;
}

void young_note(young_t *young, store_db_t db, bytes_t key, uint64_t position) {
    check(young->current.count + 1 < young->current.capacity);
    young_table_put(&young->current, young->batches, key, hash_of(db, key), position);
}

void young_note_prefix(young_t *young, store_db_t db, bytes_t prefix, uint64_t position) {
    check(prefix.size < 64);
    check(young->current.count + 1 < young->current.capacity);
    young_table_put(&young->current, young->batches, prefix, hash_of(db, prefix) ^ PREFIX_MARK, position);
    young->prefix_sizes[0] |= UINT64_C(1) << prefix.size;
}

static uint64_t young_table_find(const young_table_t *table, const batches_t *batches, bytes_t key, uint64_t hash,
                                 batch_op_t *op) {
    if (table->count == 0) {
        return 0;
    }
    uint64_t mask = table->capacity - 1;
    for (uint64_t i = hash & mask; table->slots[i].position != 0; i = (i + 1) & mask) {
        const young_slot_t *slot = &table->slots[i];
        if (slot->hash == hash) {
            op_read(batches, slot->position, op);
            if (bytes_equal(op->key, key)) {
                return slot->position;
            }
        }
    }
    return 0;
}

static uint64_t find_either(const young_t *young, bytes_t key, uint64_t hash, batch_op_t *op) {
    uint64_t position = young_table_find(&young->current, young->batches, key, hash, op);
    return position != 0 ? position : young_table_find(&young->previous, young->batches, key, hash, op);
}

bool young_find(const young_t *young, store_db_t db, bytes_t key, batch_op_t *op, uint64_t *position) {
    *position = find_either(young, key, hash_of(db, key), op);
    return *position != 0;
}

uint64_t young_covers(const young_t *young, store_db_t db, bytes_t key) {
    uint64_t newest = 0;
    uint64_t sizes = young->prefix_sizes[0] | young->prefix_sizes[1];
    while (sizes != 0) {
        uint32_t size = (uint32_t)__builtin_ctzll(sizes);
        sizes &= sizes - 1;
        if (size > key.size) {
            break;
        }
        batch_op_t op;
        bytes_t prefix = bytes_of(key.at, size);
        uint64_t position = find_either(young, prefix, hash_of(db, prefix) ^ PREFIX_MARK, &op);
        newest = position > newest ? position : newest;
    }
    return newest;
}

void young_rotate(young_t *young) {
    check(young->previous.count == 0);
    young_table_t empty = young->previous;
    young->previous = young->current;
    young->current = empty;
    young->prefix_sizes[1] = young->prefix_sizes[0];
    young->prefix_sizes[0] = 0;
}

void young_drop(young_t *young) {
    young_table_t *table = &young->previous;
    young->prefix_sizes[1] = 0;
    if (table->count == 0) {
        return;
    }
    if (table->capacity > CAPACITY_KEEP && table->count < table->capacity / 8) {
        free(table->slots);
        *table = (young_table_t){0};
        return;
    }
    memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = 0;
}
