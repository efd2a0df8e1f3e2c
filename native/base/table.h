/* table.h: a table from a 64-bit id to a pointer: a map (map.h) of rows that are its own.
 */
#ifndef LEAFD_BASE_TABLE_H
#define LEAFD_BASE_TABLE_H

#include <stdint.h>

#include "base/map.h"
#include "base/status.h"

typedef struct table {
    map_t *map;
} table_t;

static inline uint32_t table_count(const table_t *table) {
    return map_count(table->map);
}

void *table_find(const table_t *table, uint64_t id);
LEAF_MUST_USE status_t table_put(table_t *table, uint64_t id, void *value); /* replaces; never NULL */
void table_drop(table_t *table, uint64_t id);
/* For walking: the next value, NULL at the end; *walk is all zero at first. What it returned may be dropped before it
 * goes on, nothing else may change. */
void *table_next(const table_t *table, map_walk_t *walk);
void table_free(table_t *table);

#endif
