/* map.c: see map.h. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/visits.h"

#define SIZE_FIRST 2u
#define DIRECTORY_FIRST 8u /* segments */

static map_link_t **bucket_number(map_t *map, uint32_t bucket) {
    return bucket < MAP_SEGMENT ? &map->first[bucket] : &map->more[bucket / MAP_SEGMENT - 1][bucket % MAP_SEGMENT];
}

static uint32_t number_of(const map_t *map, uint64_t hash) {
    uint32_t bucket = (uint32_t)hash & map->mask;
    return bucket < map->size ? bucket : bucket & map->mask >> 1;
}

/* ---- growth ------------------------------------------------------------------------------------------------------ */

static bool first_doubled(map_t **at) {
    size_t size = (size_t)(*at)->size * 2;
    map_t *larger = realloc(*at, sizeof(*larger) + size * sizeof(map_link_t *));
    if (larger == NULL) {
        return false;
    }
    memset(&larger->first[larger->size], 0, larger->size * sizeof(map_link_t *));
    *at = larger;
    return true;
}

static bool segment_added(map_t *map) {
    uint32_t segment = map->size / MAP_SEGMENT - 1;
    if (segment == map->room) {
        uint32_t room = map->room == 0 ? DIRECTORY_FIRST : map->room * 2;
        map_link_t ***larger = realloc(map->more, (size_t)room * sizeof(*larger));
        if (larger == NULL) {
            return false;
        }
        map->more = larger;
        map->room = room;
    }
    map->more[segment] = calloc(MAP_SEGMENT, sizeof(map_link_t *));
    return map->more[segment] != NULL;
}

/* Memory for one bucket more. */
static bool has_room(map_t **at) {
    const map_t *map = *at;
    if (map->size < MAP_SEGMENT) {
        return map->size <= map->mask || first_doubled(at);
    }
    return map->size < MAP_BUCKETS_MAX && (map->size % MAP_SEGMENT != 0 || segment_added(*at));
}

/* Without memory for it the chains become longer, and the next insertion tries again. */
static void split_next(map_t **at) {
    if (!has_room(at)) {
        return;
    }
    map_t *map = *at;
    map->mask = map->size > map->mask ? map->mask * 2 + 1 : map->mask;
    uint32_t fresh = map->size++;
    map_link_t **bucket = bucket_number(map, fresh & map->mask >> 1), *stays = NULL, *goes = NULL;
    for (map_link_t *entry = *bucket, *next; entry != NULL; entry = next) {
        visits_add(1);
        next = entry->next;
        if (((uint32_t)entry->hash & map->mask) == fresh) {
            entry->next = goes;
            goes = entry;
        } else {
            entry->next = stays;
            stays = entry;
        }
    }
    *bucket = stays;
    *bucket_number(map, fresh) = goes;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

status_t map_open(map_t **at) {
    if (*at != NULL) {
        return STATUS_OK;
    }
    map_t *map = calloc(1, sizeof(*map) + SIZE_FIRST * sizeof(map_link_t *));
    if (map == NULL) {
        return STATUS_NO_MEMORY;
    }
    map->size = SIZE_FIRST;
    map->mask = SIZE_FIRST - 1;
    *at = map;
    return STATUS_OK;
}

status_t map_put(map_t **at, map_link_t *entry, uint64_t hash) {
    if (map_open(at) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    if ((*at)->count >= (*at)->size) {
        split_next(at);
        if (LEAF_UNLIKELY((*at)->count > (*at)->size)) { /* there was no memory for it some time ago */
            split_next(at);
        }
    }
    map_t *map = *at;
    map_link_t **bucket = bucket_number(map, number_of(map, hash));
    *entry = (map_link_t){.next = *bucket, .hash = hash};
    *bucket = entry;
    map->count++;
    return STATUS_OK;
}

void map_take(map_t *map, map_link_t *entry) {
    map_link_t **at = bucket_number(map, number_of(map, entry->hash));
    while (*at != entry) {
        check(*at != NULL);
        at = &(*at)->next;
    }
    *at = entry->next;
    map->count--;
}

void map_free(map_t **at) {
    map_t *map = *at;
    if (map == NULL) {
        return;
    }
    for (uint32_t i = MAP_SEGMENT; i < map->size; i += MAP_SEGMENT) {
        free(map->more[i / MAP_SEGMENT - 1]);
    }
    free(map->more);
    free(map);
    *at = NULL;
}

/* ---- walking through a map --------------------------------------------------------------------------------------- */

static uint32_t backwards(uint32_t bits) {
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0F0F0F0Fu) | (bits & 0x0F0F0F0Fu) << 4;
    return __builtin_bswap32(bits);
}

uint32_t map_place(uint64_t hash) {
    return backwards((uint32_t)hash);
}

map_link_t *map_at(const map_t *map, uint64_t place) {
    return map_first(map, backwards((uint32_t)place));
}

uint64_t map_beyond(const map_t *map, uint64_t place) {
    if (map == NULL) {
        return MAP_END;
    }
    /* How many bits of a hash say that it is in this bucket: one more when it was split, or split off. */
    uint32_t half = map->mask >> 1, low = backwards((uint32_t)place) & half;
    uint64_t width = MAP_END / (low + half + 1 < map->size ? map->mask + UINT64_C(1) : half + UINT64_C(1));
    return (place & ~(width - 1)) + width;
}

map_link_t *map_go_on(const map_t *map, map_walk_t *walk) {
    while (walk->next == NULL && walk->place < MAP_END) {
        walk->next = map_at(map, walk->place);
        walk->place = map_beyond(map, walk->place);
    }
    map_link_t *found = walk->next;
    walk->next = found == NULL ? NULL : found->next;
    return found;
}
