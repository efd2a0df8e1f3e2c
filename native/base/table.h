/* table.h: a small hash table from a 64-bit id to a pointer. Ids are given out one by one, so a multiplication spreads
 * them. */
#ifndef LEAFD_BASE_TABLE_H
#define LEAFD_BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct table_slot {
    uint64_t id;
    void *value; /* NULL = free */
} table_slot_t;

typedef struct table {
    table_slot_t *slots;
    uint32_t size;
    uint32_t count;
} table_t;

void *table_find(const table_t *table, uint64_t id);
LEAF_MUST_USE status_t table_put(table_t *table, uint64_t id, void *value); /* replaces */
void table_drop(table_t *table, uint64_t id);
/* For walking: the next value at or after *cursor, NULL at the end. The table must not change meanwhile. */
void *table_next(const table_t *table, uint32_t *cursor);
void table_free(table_t *table);

#endif
