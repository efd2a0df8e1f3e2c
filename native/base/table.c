/* table.c: see table.h. Linear probing, three quarters full at most, holes closed by moving back. */
#include "base/table.h"

#include <stddef.h>
#include <stdlib.h>

static uint32_t table_slot_of(const table_t *table, uint64_t id) {
    return (uint32_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (table->size - 1);
}

void *table_find(const table_t *table, uint64_t id) {
    if (table->count == 0) {
        return NULL;
    }
    for (uint32_t i = table_slot_of(table, id);; i = (i + 1) & (table->size - 1)) {
        const table_slot_t *slot = &table->slots[i];
        if (slot->value == NULL || slot->id == id) {
            return slot->value;
        }
    }
}

static void table_place(table_t *table, uint64_t id, void *value) {
    uint32_t i = table_slot_of(table, id);
    while (table->slots[i].value != NULL && table->slots[i].id != id) {
        i = (i + 1) & (table->size - 1);
    }
    if (table->slots[i].value == NULL) {
        table->count++;
    }
    table->slots[i] = (table_slot_t){id, value};
}

status_t table_put(table_t *table, uint64_t id, void *value) {
    if ((uint64_t)(table->count + 1) * 4 > (uint64_t)table->size * 3) {
        table_t grown = {.size = table->size == 0 ? 16 : table->size * 2};
        grown.slots = calloc(grown.size, sizeof(*grown.slots));
        if (grown.slots == NULL) {
            return STATUS_NO_MEMORY;
        }
        for (uint32_t i = 0; i < table->size; i++) {
            if (table->slots[i].value != NULL) {
                table_place(&grown, table->slots[i].id, table->slots[i].value);
            }
        }
        free(table->slots);
        *table = grown;
    }
    table_place(table, id, value);
    return STATUS_OK;
}

void table_drop(table_t *table, uint64_t id) {
    if (table_find(table, id) == NULL) {
        return;
    }
    uint32_t i = table_slot_of(table, id);
    while (table->slots[i].id != id || table->slots[i].value == NULL) {
        i = (i + 1) & (table->size - 1);
    }
    table->slots[i] = (table_slot_t){0, NULL};
    table->count--;
    for (uint32_t j = (i + 1) & (table->size - 1); table->slots[j].value != NULL; j = (j + 1) & (table->size - 1)) {
        table_slot_t moved = table->slots[j];
        table->slots[j] = (table_slot_t){0, NULL};
        table->count--;
        table_place(table, moved.id, moved.value);
    }
}

void *table_next(const table_t *table, uint32_t *cursor) {
    while (*cursor < table->size) {
        void *value = table->slots[(*cursor)++].value;
        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}

void table_free(table_t *table) {
    free(table->slots);
    *table = (table_t){NULL, 0, 0};
}
