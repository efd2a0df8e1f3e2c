/* ranges.h: ranges of keys that batches remove, and whether a put is gone by one of them: one that comes behind it.
 * Knows keys and positions; knows no LMDB.
 */
#ifndef LEAFD_DISK_RANGES_H
#define LEAFD_DISK_RANGES_H

#include "disk/batch.h"

typedef struct range {
    uint8_t db;
    bytes_t from;
    bytes_t to;
    bytes_t reach;     /* once they are in order: the highest `to` of the part that this one is the middle of */
    uint64_t position; /* puts before it are gone */
} range_t;

/* Begun with zeros. */
typedef struct ranges {
    range_t *at;
    uint64_t count;
    uint64_t room;
    uint64_t end[DB_COUNT]; /* once they are in order: behind those of each database */
} ranges_t;

/* An OP_DELETE_RANGE, whose bytes stay where they are; in the order of positions. */
LEAF_MUST_USE status_t ranges_add(ranges_t *ranges, const batch_op_t *op, uint64_t position);
/* When all are there, before ranges_hold. */
void ranges_sort(ranges_t *ranges);
/* Does one of them, noted behind the position, hold the key? *last: the one that held the key before, which is asked
 * first, since mostly it holds this one, too; begun with NULL. */
bool ranges_hold(const ranges_t *ranges, store_db_t db, bytes_t key, uint64_t position, const range_t **last);
void ranges_free(ranges_t *ranges);

#endif
