/* memtable.h: from a key to the newest op on it that is not in LMDB yet. Knows ops and positions; knows no stream.
 *
 * Two tables, so that nothing needs to be taken out one by one:
 *
 *     current    ops since the last checkpoint was begun
 *     previous   ops that the running checkpoint covers
 *
 * A checkpoint begins at the end of a batch: memtable_rotate makes current previous. When it has committed and the
 * plane reads from a newer snapshot, memtable_drop empties previous. A lookup asks current first. Messages are not in
 * here one by one when they are appended (streams keep those by sequence, stream.c); their deletions are. Nor are
 * entries of ledgers (store/positions.h).
 *
 * A table that grows does not move its slots at once: the smaller one stays beside it, is asked second, and each note
 * and reservation moves a few slots of it, which is sooner over than the larger one is full.
 *
 * Removed prefixes (records of a consumer, all of a stream) are noted under the prefix itself with its size in a small
 * bitmap, so memtable_covers costs one lookup for each prefix length in use.
 */
#ifndef LEAFD_DISK_MEMTABLE_H
#define LEAFD_DISK_MEMTABLE_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "disk/batch.h"
#include "disk/keys.h"

typedef struct memtable_slot {
    uint64_t hash;
    uint64_t position; /* 0 = empty: no op is at position 0, a header is */
} memtable_slot_t;

typedef struct memtable_half {
    memtable_slot_t *slots;
    uint64_t capacity; /* a power of two */
    uint64_t count;    /* of both; a key that is in the smaller one and was noted anew counts twice until it is moved */
    memtable_slot_t *smaller; /* NULL: all of it was moved */
    uint64_t smaller_capacity;
    uint64_t moved; /* of its slots */
} memtable_half_t;

typedef struct memtable {
    const batches_t *batches;
    memtable_half_t current;
    memtable_half_t previous;
    uint64_t prefix_sizes[2]; /* bit n: prefixes of n bytes were removed; [0] current, [1] previous */
} memtable_t;

void memtable_open(memtable_t *memtable, const batches_t *batches);
void memtable_close(memtable_t *memtable);
LEAF_MUST_USE status_t memtable_reserve_more(memtable_t *memtable, uint64_t count);
/* Makes sure that the next `count` notes succeed. Asked several times for each message, which mostly finds room. */
LEAF_MUST_USE static inline status_t memtable_reserve(memtable_t *memtable, uint64_t count) {
    const memtable_half_t *table = &memtable->current;
    bool there = table->smaller == NULL && (table->count + count) * 3 <= table->capacity * 2;
    return LEAF_LIKELY(there) ? STATUS_OK : memtable_reserve_more(memtable, count);
}
/* The op at position is the newest of its key. */
void memtable_note(memtable_t *memtable, store_db_t db, bytes_t key, uint64_t position);
/* The same where the newest op so far was at `earlier`: its note is found without a look at that op, which lies far
 * back in the ring. 0, one that was freed, or another key's: changes nothing. */
void memtable_note_again(memtable_t *memtable, store_db_t db, bytes_t key, uint64_t earlier, uint64_t position);
/* Everything that begins with prefix (of at most 63 bytes) was removed by the OP_DELETE_RANGE at position, whose key is
 * prefix. */
void memtable_note_prefix(memtable_t *memtable, store_db_t db, bytes_t prefix, uint64_t position);
/* The newest op on exactly this key; false: none here. */
bool memtable_find(const memtable_t *memtable, store_db_t db, bytes_t key, batch_op_t *op, uint64_t *position);
/* The newest removal of a prefix of key, 0 = none. What is older than that (LMDB too) is gone. */
uint64_t memtable_covers(const memtable_t *memtable, store_db_t db, bytes_t key);
void memtable_rotate(memtable_t *memtable);
void memtable_drop(memtable_t *memtable);
void memtable_rest(memtable_t *memtable); /* while it is empty: its memory goes back */

static inline uint64_t memtable_bytes(const memtable_t *memtable) {
    const memtable_half_t *current = &memtable->current, *previous = &memtable->previous;
    return (current->capacity + current->smaller_capacity + previous->capacity + previous->smaller_capacity)
           * sizeof(memtable_slot_t);
}

#endif
