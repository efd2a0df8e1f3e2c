/* memtable.c: see memtable.h. Open addressing, linear probing, 16 bytes a slot; a dropped table keeps its memory for
 * the next round unless it grew large for the load it had, or clearing it would take longer than giving it back. */
#include "disk/memtable.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"

#define CAPACITY_MIN 1024
#define CAPACITY_KEEP (1 << 16)
#define CAPACITY_CLEARED (1 << 18)
#define MOVED_AT_ONCE 4 /* with each note: two would do */
#define PREFIX_MARK UINT64_C(0x9ddfea08eb382d69)

void memtable_open(memtable_t *memtable, const batches_t *batches) {
    *memtable = (memtable_t){.batches = batches};
}

static void half_free(memtable_half_t *table) {
    free(table->slots);
    free(table->smaller);
    *table = (memtable_half_t){0};
}

void memtable_close(memtable_t *memtable) {
    half_free(&memtable->current);
    half_free(&memtable->previous);
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

/* The slot of the key, whose op is read, or the empty one where it belongs. */
static memtable_slot_t *memtable_slot_of(memtable_slot_t *slots, uint64_t capacity, const batches_t *batches,
                                         bytes_t key, uint64_t hash, batch_op_t *op) {
    uint64_t mask = capacity - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        memtable_slot_t *slot = &slots[i];
        if (slot->position == 0) {
            return slot;
        }
        if (slot->hash == hash) {
            op_read(batches, slot->position, op);
            if (bytes_equal(op->key, key)) {
                return slot;
            }
        }
    }
}

/* A table that has just grown is memory that nobody has written to: its pages come with their first use. Where that is
 * a read, the write that follows takes the page from the other threads' processors again. That costs several times as
 * much, and a large table has thousands of pages. So the first use is a write, which changes nothing. */
static void memtable_touch(const memtable_half_t *table, uint64_t hash) {
    uint64_t empty = 0;
    if (table->smaller != NULL)
        (void)__atomic_compare_exchange_n(&table->slots[hash & (table->capacity - 1)].position, &empty, 0, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void memtable_half_put(memtable_half_t *table, const batches_t *batches, bytes_t key, uint64_t hash,
                              uint64_t position) {
    batch_op_t op;
    memtable_touch(table, hash);
    memtable_slot_t *slot = memtable_slot_of(table->slots, table->capacity, batches, key, hash, &op);
    table->count += slot->position == 0;
    *slot = (memtable_slot_t){.hash = hash, .position = position};
}

static bool same_key(const batches_t *batches, uint64_t position, uint64_t other) {
    batch_op_t op, other_op;
    op_read(batches, position, &op);
    op_read(batches, other, &other_op);
    return bytes_equal(op.key, other_op.key);
}

/* An entry that was noted anew meanwhile is newer than the one that is moved. */
static void move_one(memtable_half_t *table, const batches_t *batches, memtable_slot_t moved) {
    uint64_t mask = table->capacity - 1;
    memtable_touch(table, moved.hash);
    for (uint64_t i = moved.hash & mask;; i = (i + 1) & mask) {
        memtable_slot_t *slot = &table->slots[i];
        if (slot->position == 0) {
            *slot = moved;
            return;
        }
        if (slot->hash == moved.hash && same_key(batches, slot->position, moved.position)) {
            table->count--;
            return;
        }
    }
}

static void move_some(memtable_half_t *table, const batches_t *batches, uint64_t count) {
    uint64_t left = table->smaller_capacity - table->moved;
    for (uint64_t end = table->moved + (count < left ? count : left); table->moved < end; table->moved++) {
        if (table->smaller[table->moved].position != 0) {
            move_one(table, batches, table->smaller[table->moved]);
        }
    }
    if (table->smaller != NULL && table->moved == table->smaller_capacity) {
        free(table->smaller);
        table->smaller = NULL;
        table->smaller_capacity = table->moved = 0;
    }
}

static status_t memtable_half_grow(memtable_half_t *table, const batches_t *batches, uint64_t capacity) {
    move_some(table, batches, table->smaller_capacity); /* few, or none: see memtable.h */
    memtable_slot_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return STATUS_NO_MEMORY;
    }
    table->smaller = table->slots;
    table->smaller_capacity = table->capacity;
    table->moved = 0;
    table->slots = slots;
    table->capacity = capacity;
    move_some(table, batches, MOVED_AT_ONCE);
    return STATUS_OK;
}

status_t memtable_reserve_more(memtable_t *memtable, uint64_t count) {
    memtable_half_t *table = &memtable->current;
    uint64_t capacity = table->capacity > 0 ? table->capacity : CAPACITY_MIN;
    while ((table->count + count) * 3 > capacity * 2) {
        capacity *= 2;
    }
    if (capacity > table->capacity) {
        return memtable_half_grow(table, memtable->batches, capacity);
    }
    move_some(table, memtable->batches, MOVED_AT_ONCE);
    return STATUS_OK;
}

void memtable_note(memtable_t *memtable, store_db_t db, bytes_t key, uint64_t position) {
    check(memtable->current.count + 1 < memtable->current.capacity);
    move_some(&memtable->current, memtable->batches, MOVED_AT_ONCE);
    memtable_half_put(&memtable->current, memtable->batches, key, hash_of(db, key), position);
}

/* No two ops are at one position: the note with that one is the key's. */
static memtable_slot_t *noted_at(const memtable_half_t *table, uint64_t hash, uint64_t earlier) {
    uint64_t mask = table->capacity - 1;
    for (uint64_t i = hash & mask; table->slots[i].position != 0; i = (i + 1) & mask) {
        if (table->slots[i].position == earlier && table->slots[i].hash == hash) {
            return &table->slots[i];
        }
    }
    return NULL;
}

void memtable_note_again(memtable_t *memtable, store_db_t db, bytes_t key, uint64_t earlier, uint64_t position) {
    memtable_slot_t *slot =
        earlier != 0 && memtable->current.count > 0 ? noted_at(&memtable->current, hash_of(db, key), earlier) : NULL;
    if (slot == NULL) {
        memtable_note(memtable, db, key, position);
    } else {
        slot->position = position;
    }
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
    uint64_t position = memtable_slot_of(table->slots, table->capacity, batches, key, hash, op)->position;
    return position == 0 && table->smaller != NULL
               ? memtable_slot_of(table->smaller, table->smaller_capacity, batches, key, hash, op)->position
               : position;
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
    if (table->capacity > CAPACITY_KEEP && (table->capacity > CAPACITY_CLEARED || table->count < table->capacity / 8)) {
        half_free(table);
        return;
    }
    free(table->smaller);
    table->smaller = NULL;
    table->smaller_capacity = table->moved = 0;
    memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = 0;
}
