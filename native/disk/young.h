/* young.h: from a key to the newest op on it that is not in home yet. Knows ops and positions; knows no stream.
 *
 * Two tables, so that nothing needs to be taken out one by one:
 *
 *     current    ops since the last checkpoint was begun
 *     previous   ops that the running checkpoint covers
 *
 * A checkpoint begins at the end of a batch: young_rotate makes current previous. When it has committed and the plane
 * reads from a newer snapshot, young_drop empties previous. A lookup asks current first. Messages are not in here one
 * by one when they are appended (streams keep those by sequence, stream.c); their deletions are.
 *
 * Removed prefixes (records of a consumer, all of a stream) are noted under the prefix itself with its size in a small
 * bitmap, so young_covers costs one lookup for each prefix length in use.
 */
#ifndef LEAFD_DISK_YOUNG_H
#define LEAFD_DISK_YOUNG_H

#include "base/bytes.h"
#include "base/status.h"
#include "disk/batch.h"
#include "disk/keys.h"

typedef struct young_slot {
    uint64_t hash;
    uint64_t position; /* 0 = empty: no op is at position 0, a header is */
} young_slot_t;

typedef struct young_table {
    young_slot_t *slots;
    uint64_t capacity; /* a power of two */
    uint64_t count;
} young_table_t;

typedef struct young {
    const batches_t *batches;
    young_table_t current;
    young_table_t previous;
    uint64_t prefix_sizes[2]; /* bit n: prefixes of n bytes were removed; [0] current, [1] previous */
} young_t;

void young_open(young_t *young, const batches_t *batches);
void young_close(young_t *young);
/* Makes sure that the next `count` notes succeed. */
LEAF_MUST_USE status_t young_reserve(young_t *young, uint64_t count);
/* The op at position is the newest of its key. */
void young_note(young_t *young, store_db_t db, bytes_t key, uint64_t position);
/* Everything that begins with prefix (of at most 63 bytes) was removed by the OP_DELETE_RANGE at position, whose key is
 * prefix. */
void young_note_prefix(young_t *young, store_db_t db, bytes_t prefix, uint64_t position);
/* The newest op on exactly this key; false: none here. */
bool young_find(const young_t *young, store_db_t db, bytes_t key, batch_op_t *op, uint64_t *position);
/* The newest removal of a prefix of key, 0 = none. What is older than that (home too) is gone. */
uint64_t young_covers(const young_t *young, store_db_t db, bytes_t key);
void young_rotate(young_t *young);
void young_drop(young_t *young);

#endif
