/* table.c: see table.h. */
#include "base/table.h"

#include <stdlib.h>

typedef struct table_row {
    map_link_t link;
    void *value;
} table_row_t;

/* Ids are given out one by one, some of them in both halves. No two have the same hash: each step can be undone. */
static uint64_t table_hash(uint64_t id) {
    id = (id ^ id >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return id ^ id >> 32;
}

static table_row_t *table_row(const table_t *table, uint64_t hash) {
    map_link_t *link = map_first(table->map, hash);
    while (link != NULL && link->hash != hash) {
        link = link->next;
    }
    return link == NULL ? NULL : MAP_ENTRY(link, table_row_t, link);
}

void *table_find(const table_t *table, uint64_t id) {
    const table_row_t *row = table_row(table, table_hash(id));
    return row == NULL ? NULL : row->value;
}

status_t table_put(table_t *table, uint64_t id, void *value) {
    uint64_t hash = table_hash(id);
    table_row_t *row = table_row(table, hash);
    if (row == NULL) {
        row = malloc(sizeof(*row));
        if (row == NULL || map_put(&table->map, &row->link, hash) != STATUS_OK) {
            free(row);
            return STATUS_NO_MEMORY;
        }
    }
    row->value = value;
    return STATUS_OK;
}

void table_drop(table_t *table, uint64_t id) {
    table_row_t *row = table_row(table, table_hash(id));
    if (row != NULL) {
        map_take(table->map, &row->link);
        free(row);
    }
}

void *table_next(const table_t *table, map_walk_t *walk) {
    map_link_t *link = map_next(table->map, walk);
    return link == NULL ? NULL : MAP_ENTRY(link, table_row_t, link)->value;
}

void table_free(table_t *table) {
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(table->map, &walk)) != NULL;) {
        free(MAP_ENTRY(link, table_row_t, link));
    }
    map_free(&table->map);
}
