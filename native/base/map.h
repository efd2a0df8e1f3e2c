/* map.h: a hash map whose entries carry their own link, and which grows by one bucket at a time. No insertion moves
 * more than a bucket's entries, however many the map holds: a table that doubles at once holds up everybody meanwhile.
 *
 *     size 11, mask 15:     [ 0  1  2 | 3  4  5  6  7 | 8  9 10 ]
 *                             split     not yet         what was split off 0, 1 and 2
 *
 * This is linear hashing. An entry is in the bucket of its hash's lowest four bits, and where the map has no such
 * bucket yet, in that of the lowest three. The next insertion splits bucket 3 and makes bucket 11. Buckets are in
 * segments: the first is behind the map itself and doubles as it grows, the others keep their place, so that no growth
 * copies many.
 *
 * A walk goes through the buckets in the order of the hashes' lowest 32 bits read from the last to the first (the place
 * of an entry, map_place). The two parts of a bucket that was split are neighbours in that order, so a walk may stop
 * anywhere, go on after the map has grown, and meets each entry that stayed once.
 *
 * Not here: what an entry is, and when two are the same. Maps do not shrink; map_free ends them.
 */
#ifndef LEAFD_BASE_MAP_H
#define LEAFD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A member of each entry. */
typedef struct map_link {
    struct map_link *next; /* in its bucket */
    uint64_t hash;
} map_link_t;

/* Held by a pointer that is NULL until the first entry comes. */
typedef struct map {
    uint32_t count;
    uint32_t size; /* buckets */
    uint32_t mask; /* of hashes; mask / 2 < size <= mask + 1 */
    uint32_t room; /* how many segments `more` has room for */
    map_link_t ***more;
    map_link_t *first[]; /* the first segment */
} map_t;

#define MAP_SEGMENT 1024u                   /* buckets */
#define MAP_END (UINT64_C(1) << 32)         /* where a walk is over */
#define MAP_BUCKETS_MAX (UINT32_C(1) << 30) /* beyond that the chains become longer */

#define MAP_ENTRY(link, type, member) ((type *)(void *)((uint8_t *)(link) - offsetof(type, member)))

static inline uint32_t map_count(const map_t *map) {
    return map == NULL ? 0 : map->count;
}

/* The first of the chain in which an entry with that hash is, if there is one. */
static inline map_link_t *map_first(const map_t *map, uint64_t hash) {
    if (map == NULL) {
        return NULL;
    }
    uint32_t bucket = (uint32_t)hash & map->mask;
    bucket = bucket < map->size ? bucket : bucket & map->mask >> 1;
    return bucket < MAP_SEGMENT ? map->first[bucket] : map->more[bucket / MAP_SEGMENT - 1][bucket % MAP_SEGMENT];
}

/* From then on no insertion fails. */
LEAF_MUST_USE status_t map_open(map_t **map);
/* Adds an entry without looking for it: two entries may be the same. STATUS_NO_MEMORY: nothing has changed. */
LEAF_MUST_USE status_t map_put(map_t **map, map_link_t *entry, uint64_t hash);
void map_take(map_t *map, map_link_t *entry);
void map_free(map_t **map); /* the entries are their owner's */

/* A walk in steps of one bucket, which may stop after each. From place 0 to MAP_END. */
map_link_t *map_at(const map_t *map, uint64_t place);  /* the chain there */
uint64_t map_beyond(const map_t *map, uint64_t place); /* where the next bucket begins */
uint32_t map_place(uint64_t hash);                     /* of an entry */

/* A walk over all of them at once; all zero at first. What it returned may be taken out before it goes on, nothing else
 * may change. */
typedef struct map_walk {
    uint64_t place;
    map_link_t *next;
} map_walk_t;

map_link_t *map_go_on(const map_t *map, map_walk_t *walk);

static inline map_link_t *map_next(const map_t *map, map_walk_t *walk) { /* NULL: that was all */
    return map == NULL ? NULL : map_go_on(map, walk);
}

#endif
