/* id_map.c: from a number to a pointer: groups by stream id, consumers by stream and consumer id. Open addressing, at
 * most half full, gaps closed at removal. */
#include <stdlib.h>

#include "consume/private.h"

static uint32_t slot_of(const id_map_t *map, uint64_t key) {
    return (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (map->capacity - 1);
}

void *id_map_get(const id_map_t *map, uint64_t key) {
    if (map->count == 0) return NULL;
    for (uint32_t slot = slot_of(map, key); map->values[slot]; slot = (slot + 1) & (map->capacity - 1)) {
        if (map->keys[slot] == key) return map->values[slot];
    }
    return NULL;
}

static void put(id_map_t *map, uint64_t key, void *value) {
    uint32_t slot = slot_of(map, key);
    while (map->values[slot]) slot = (slot + 1) & (map->capacity - 1);
    map->keys[slot] = key;
    map->values[slot] = value;
}

status_t id_map_put(id_map_t *map, uint64_t key, void *value) {
    if (id_map_get(map, key)) return STATUS_EXISTS;
    if (map->count * 2 >= map->capacity) {
        id_map_t larger = {.capacity = map->capacity ? map->capacity * 2 : 32, .count = map->count};
        larger.keys = calloc(larger.capacity, sizeof *larger.keys);
        larger.values = calloc(larger.capacity, sizeof *larger.values);
        if (!larger.keys || !larger.values) {
            id_map_free(&larger);
            return STATUS_NO_MEMORY;
        }
        for (uint32_t i = 0; i < map->capacity; i++) {
            if (map->values[i]) put(&larger, map->keys[i], map->values[i]);
        }
        id_map_free(map);
        *map = larger;
    }
    put(map, key, value);
    map->count++;
    return STATUS_OK;
}

void id_map_remove(id_map_t *map, uint64_t key) {
    if (map->count == 0) return;
    uint32_t mask = map->capacity - 1;
    uint32_t hole = slot_of(map, key);
    while (map->values[hole] && map->keys[hole] != key) hole = (hole + 1) & mask;
    if (!map->values[hole]) return;
    for (uint32_t slot = (hole + 1) & mask; map->values[slot]; slot = (slot + 1) & mask) {
        if (((slot - slot_of(map, map->keys[slot])) & mask) < ((slot - hole) & mask)) continue;
        map->keys[hole] = map->keys[slot];
        map->values[hole] = map->values[slot];
        hole = slot;
    }
    map->values[hole] = NULL;
    map->count--;
}

void id_map_free(id_map_t *map) {
    free(map->keys);
    free(map->values);
    *map = (id_map_t){0};
}
