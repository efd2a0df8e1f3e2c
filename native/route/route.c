/* route.c: a routing domain = the trie and a cache of match results keyed by subject.
 *
 * Cache: a table of pairs of entries that starts small and grows while it is crowded. A subject may lie at either place
 * of its pair: with one place for each, a thousand subjects in turn evicted each other in a table of four thousand. An
 * entry has room for the copy of a usual subject and a few targets, beside what is looked at to find it: of a thousand
 * subjects in turn, each has left the processor's cache when its turn comes, and then comes back at once. What is
 * longer takes a block of memory, which the next entry there reuses: a steady load allocates nothing. An entry counts
 * only while its generation is the domain's. A result of more than CACHE_ENTRY_MAX bytes is kept too, but only one of
 * them, so that a few huge fan-outs cannot fill the memory.
 *
 * Beside the table lies a tag for each entry, a few bits of its hash: 16 KB for a table of 1 MB. An inbox that is asked
 * for once is told from all that the table has by its pair's tags alone; the entries themselves have left the
 * processor's cache, and to look at them cost a replicated publish a twentieth of its leader's time.
 *
 * A subject gets a place when it is asked for the second time; until then its result lies in `once`. Inboxes of
 * requests and PubAcks are asked for once and never again. When they got places, they evicted everything else from the
 * table, and the table from the processor's cache (a fifth of the plane's time with unique reply subjects). What was
 * asked for lately is known by a small table, in which subjects that come in turn overwrite each other for ever: four
 * of ten at a thousand. So by chance, one in LUCKY gets a place that was not known there. A subject that was asked for
 * again since it came keeps its place once.
 */
#include "route/route.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "text/subject.h"
#include "route/trie.h"

#define CACHE_FIRST 32u
#define CACHE_LAST 8192u
#define CACHE_WAYS 2u
#define CACHE_LINE 64u /* of the processor's */
#define ENTRY_ROOM 64u
#define CROWDED 2u /* it grows when so many misses as half of its places met others' results */
#define SUBJECT_SIZE_MASK UINT32_C(0x7fffffff)
#define CACHE_ENTRY_MAX 4096u
#define SEEN_SIZE 2048u
#define LUCKY 16u
#define GROUPS_FEW 16u

typedef struct cache_entry {
    uint64_t hash;
    uint64_t generation;
    uint8_t *block; /* the subject, then what the match points to; `room`, where that is enough */
    uint32_t block_size;
    uint32_t subject_size : 31;
    bool asked : 1; /* for again, since it came or had to defend its place */
    route_match_t match;
    uint8_t room[ENTRY_ROOM];
} cache_entry_t;

_Static_assert(sizeof(void *) < 8 || sizeof(cache_entry_t) == 2 * CACHE_LINE, "an entry takes whole lines");

struct route {
    trie_node_t *root;
    route_watch_t *watch; /* may be NULL */
    uint64_t generation;
    uint64_t count;
    cache_entry_t *cache;
    uint16_t *tags;      /* of its entries; 0: none came yet */
    uint32_t cache_size; /* a power of two */
    uint32_t conflicts;  /* misses that met two live results since the last growth */
    cache_entry_t large;
    cache_entry_t once;
    uint64_t chance;
    uint16_t seen[SEEN_SIZE]; /* of subjects asked for lately: some bits of the hash */
    trie_found_t found;
};

/* The entries, and behind them their tags. */
static cache_entry_t *cache_new(uint32_t size) {
    size_t all = (size_t)size * (sizeof(cache_entry_t) + sizeof(uint16_t));
    size_t bytes = (all + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    cache_entry_t *cache = aligned_alloc(CACHE_LINE, bytes);
    if (cache != NULL) {
        memset(cache, 0, bytes);
    }
    return cache;
}

static void cache_set(route_t *route, cache_entry_t *cache, uint32_t size) {
    route->cache = cache;
    route->tags = (uint16_t *)(void *)(cache + size);
    route->cache_size = size;
}

static uint16_t entry_tag(uint64_t hash) {
    return (uint16_t)((hash >> 48) | 1);
}

static void entry_free(cache_entry_t *entry) {
    if (entry->block != entry->room) {
        free(entry->block);
    }
    entry->block = NULL;
    entry->block_size = 0;
}

route_t *route_new(route_watch_t *watch) {
    route_t *route = calloc(1, sizeof(*route));
    if (route == NULL) {
        return NULL;
    }
    route->watch = watch;
    route->root = trie_node_new(NULL, BYTES_NONE);
    route->generation = 1;
    cache_entry_t *cache = cache_new(CACHE_FIRST);
    if (cache != NULL) {
        cache_set(route, cache, CACHE_FIRST);
    }
    if (route->root == NULL || cache == NULL) {
        route_free(route);
        return NULL;
    }
    return route;
}

void route_free(route_t *route) {
    if (route == NULL) {
        return;
    }
    for (uint32_t i = 0; route->cache != NULL && i < route->cache_size; i++) {
        entry_free(&route->cache[i]);
    }
    free(route->cache);
    entry_free(&route->large);
    entry_free(&route->once);
    free(route->found.nodes);
    trie_node_free(route->root);
    free(route);
}

static bool is_watched(const route_t *route, bytes_t subject) {
    return route->watch != NULL && subject_collides(subject, route->watch->pattern);
}

status_t route_add(route_t *route, route_target_t *target, bytes_t subject, bytes_t queue) {
    if (subject.size == 0 || subject_token_count(subject) > SUBJECT_TOKENS_MAX) {
        return STATUS_INVALID;
    }
    uint8_t *copy = malloc((size_t)subject.size + queue.size);
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, subject.at, subject.size);
    if (queue.size != 0) {
        memcpy(copy + subject.size, queue.at, queue.size);
    }
    trie_node_t *node = trie_reach(route->root, subject);
    if (node == NULL) {
        free(copy);
        return STATUS_NO_MEMORY;
    }
    target->subject = bytes_of(copy, subject.size);
    target->queue = bytes_of(copy + subject.size, queue.size);
    status_t status = trie_attach(node, target, target->queue);
    if (status != STATUS_OK) {
        trie_prune(node);
        free(copy);
        return status;
    }
    target->node = node;
    if (is_watched(route, subject)) {
        atomic_fetch_add_explicit(&route->watch->count, 1, memory_order_relaxed);
    }
    route->count++;
    route->generation++;
    return STATUS_OK;
}

void route_remove(route_t *route, route_target_t *target) {
    trie_node_t *node = target->node;
    check(node != NULL);
    trie_detach(node, target);
    trie_prune(node);
    if (is_watched(route, target->subject)) {
        atomic_fetch_sub_explicit(&route->watch->count, 1, memory_order_relaxed);
    }
    free((void *)(uintptr_t)target->subject.at);
    target->node = NULL;
    target->subject = BYTES_NONE;
    target->queue = BYTES_NONE;
    route->count--;
    route->generation++;
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

/* Groups of the same name at several nodes are one group. A few are searched one by one; for thousands, which one
 * client can cause, a hash table finds the name. */
typedef struct gathering {
    route_group_t *groups;
    uint32_t count;
    uint32_t *places; /* by name: number of the group + 1; NULL when there are few */
    uint32_t mask;
} gathering_t;

static status_t gathering_open(gathering_t *gathering, route_group_t *groups, uint64_t max) {
    *gathering = (gathering_t){.groups = groups};
    if (max <= GROUPS_FEW) {
        return STATUS_OK;
    }
    uint32_t size = GROUPS_FEW;
    while (size < max * 2) {
        size *= 2;
    }
    gathering->mask = size - 1;
    gathering->places = calloc(size, sizeof(*gathering->places));
    return gathering->places == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* The group of that name, made when it is new. */
static route_group_t *gathered_group(gathering_t *gathering, const trie_group_t *source) {
    bytes_t name = trie_group_name(source);
    uint32_t k = 0, i = 0;
    if (gathering->places == NULL) {
        while (k < gathering->count && !bytes_equal(gathering->groups[k].queue, name)) {
            k++;
        }
    } else {
        i = (uint32_t)source->link.hash & gathering->mask;
        while (gathering->places[i] != 0 && !bytes_equal(gathering->groups[gathering->places[i] - 1].queue, name)) {
            i = (i + 1) & gathering->mask;
        }
        k = gathering->places[i] != 0 ? gathering->places[i] - 1 : gathering->count;
    }
    if (k == gathering->count) {
        gathering->groups[gathering->count++] = (route_group_t){.queue = name};
        if (gathering->places != NULL) {
            gathering->places[i] = gathering->count;
        }
    }
    return &gathering->groups[k];
}

static void groups_count(gathering_t *gathering, const trie_found_t *found) {
    for (uint32_t i = 0; i < found->count; i++) {
        map_walk_t walk = {0};
        for (map_link_t *link; (link = map_next(found->nodes[i]->groups, &walk)) != NULL;) {
            const trie_group_t *source = trie_group(link);
            gathered_group(gathering, source)->count += source->members.count;
        }
    }
}

/* The members of each group side by side, from `to` on. */
static void members_copy(gathering_t *gathering, const trie_found_t *found, route_target_t **to) {
    for (uint32_t k = 0; k < gathering->count; k++) {
        gathering->groups[k].members = to;
        to += gathering->groups[k].count;
        gathering->groups[k].count = 0;
    }
    for (uint32_t i = 0; i < found->count; i++) {
        map_walk_t walk = {0};
        for (map_link_t *link; (link = map_next(found->nodes[i]->groups, &walk)) != NULL;) {
            const trie_group_t *source = trie_group(link);
            route_group_t *group = gathered_group(gathering, source);
            memcpy((route_target_t **)(uintptr_t)group->members + group->count, source->members.at,
                   (size_t)source->members.count * sizeof(*to));
            group->count += source->members.count;
        }
    }
}

/* false: no memory; the entry stays as it was. */
static bool entry_room(cache_entry_t *entry, uint64_t size) {
    if (entry->block != NULL && entry->block_size >= size) {
        return true;
    }
    uint8_t *block = size <= ENTRY_ROOM ? entry->room : size <= UINT32_MAX ? malloc(size) : NULL;
    if (block == NULL) {
        return false;
    }
    entry_free(entry);
    entry->block = block;
    entry->block_size = size <= ENTRY_ROOM ? ENTRY_ROOM : (uint32_t)size;
    return true;
}

static const route_match_t no_memory;

bool route_match_failed(const route_match_t *match) {
    return match == &no_memory;
}

static const route_match_t *entry_fill(route_t *route, cache_entry_t *entry, bytes_t subject, uint64_t hash) {
    trie_found_t *found = &route->found;
    uint64_t plain_count = 0, member_count = 0, group_max = 0;
    for (uint32_t i = 0; i < found->count; i++) {
        plain_count += found->nodes[i]->plain.count;
        group_max += map_count(found->nodes[i]->groups);
        map_walk_t walk = {0};
        for (map_link_t *link; (link = map_next(found->nodes[i]->groups, &walk)) != NULL;) {
            member_count += trie_group(link)->members.count;
        }
    }
    found->steps += group_max;
    uint64_t text = ((uint64_t)subject.size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    uint64_t pointers = (plain_count + member_count) * sizeof(route_target_t *);
    uint64_t size = text + pointers + group_max * sizeof(route_group_t);
    if (size > CACHE_ENTRY_MAX) {
        entry = &route->large;
    }
    if (!entry_room(entry, size)) {
        return &no_memory;
    }
    route_target_t **at = (route_target_t **)(void *)(entry->block + text);
    route_group_t *groups = (route_group_t *)(void *)(entry->block + text + pointers);
    if (subject.size != 0) {
        memcpy(entry->block, subject.at, subject.size);
    }
    gathering_t gathering;
    if (gathering_open(&gathering, groups, group_max) != STATUS_OK) {
        entry->generation = 0;
        return &no_memory;
    }
    entry->subject_size = subject.size & SUBJECT_SIZE_MASK;
    entry->asked = false;
    entry->hash = hash;
    entry->generation = route->generation;
    entry->match = (route_match_t){.plain = at, .plain_count = (uint32_t)plain_count, .groups = groups};
    for (uint32_t i = 0; i < found->count; i++) {
        const trie_list_t *plain = &found->nodes[i]->plain;
        if (plain->count != 0) {
            memcpy(at, plain->at, (size_t)plain->count * sizeof(*at));
            at += plain->count;
        }
    }
    groups_count(&gathering, found);
    members_copy(&gathering, found, at);
    free(gathering.places);
    entry->match.group_count = gathering.count;
    return &entry->match;
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

static bool entry_is(const route_t *route, const cache_entry_t *entry, bytes_t subject, uint64_t hash) {
    return entry->generation == route->generation && entry->hash == hash
           && bytes_equal(bytes_of(entry->block, entry->subject_size), subject);
}

static uint64_t pair_of(uint32_t size, uint64_t hash) {
    return (hash & (size / CACHE_WAYS - 1)) * CACHE_WAYS;
}

/* The place of a pair for another subject; NULL: those that have one were asked for again, and have to be once more. */
static cache_entry_t *cache_victim(const route_t *route, cache_entry_t *pair) {
    for (uint32_t i = 0; i < CACHE_WAYS; i++) {
        if (pair[i].generation != route->generation) {
            return &pair[i];
        }
    }
    for (uint32_t i = 0; i < CACHE_WAYS; i++) {
        if (!pair[i].asked) {
            return &pair[i];
        }
        pair[i].asked = false;
    }
    return NULL;
}

/* What lies in the room of one, in that of the other. */
static void *room_of(cache_entry_t *to, const cache_entry_t *from, const void *at) {
    return to->room + ((const uint8_t *)at - from->room);
}

/* To a place that is free. */
static void entry_move(cache_entry_t *to, cache_entry_t *from) {
    *to = *from;
    if (from->block == from->room) {
        route_group_t *groups = room_of(to, from, from->match.groups);
        to->block = to->room;
        to->match.plain = room_of(to, from, from->match.plain);
        to->match.groups = groups;
        for (uint32_t i = 0; i < to->match.group_count; i++) {
            groups[i].members = room_of(to, from, groups[i].members);
        }
    }
    from->block = NULL;
}

/* Results that count go along, where there is a place for them. */
static void cache_grow(route_t *route) {
    uint32_t size = route->cache_size * 4;
    cache_entry_t *grown = cache_new(size);
    if (grown == NULL) {
        return; /* the smaller cache works too, only slower */
    }
    uint16_t *tags = (uint16_t *)(void *)(grown + size);
    for (uint32_t i = 0; i < route->cache_size; i++) {
        cache_entry_t *entry = &route->cache[i];
        cache_entry_t *place = &grown[pair_of(size, entry->hash)];
        place += place->block != NULL;
        if (entry->generation == route->generation && place->block == NULL) {
            entry_move(place, entry);
            tags[place - grown] = entry_tag(place->hash);
        } else {
            entry_free(entry);
        }
    }
    free(route->cache);
    cache_set(route, grown, size);
    route->conflicts = 0;
}

/* Was the subject asked for lately, or is it lucky? Records that it was asked for now. */
static bool deserves_place(route_t *route, uint64_t hash) {
    uint16_t *seen = &route->seen[(hash >> 32) & (SEEN_SIZE - 1)];
    uint16_t tag = entry_tag(hash);
    bool before = *seen == tag;
    *seen = tag;
    route->chance = route->chance * UINT64_C(6364136223846793005) + 1;
    return before || route->chance >> 32 < (UINT64_C(1) << 32) / LUCKY;
}

/* The place for the result of a subject that has none. */
static cache_entry_t *cache_place(route_t *route, uint64_t hash) {
    if (!deserves_place(route, hash)) {
        return &route->once;
    }
    cache_entry_t *entry = cache_victim(route, &route->cache[pair_of(route->cache_size, hash)]);
    bool crowded = entry == NULL || entry->generation == route->generation;
    if (crowded && ++route->conflicts > route->cache_size / CROWDED && route->cache_size < CACHE_LAST) {
        cache_grow(route);
        entry = cache_victim(route, &route->cache[pair_of(route->cache_size, hash)]);
    }
    return entry != NULL ? entry : &route->once;
}

/* NULL: the table has none. */
static cache_entry_t *cache_find(const route_t *route, bytes_t subject, uint64_t hash) {
    uint64_t pair = pair_of(route->cache_size, hash);
    for (uint64_t i = pair; i < pair + CACHE_WAYS; i++) {
        if (route->tags[i] != entry_tag(hash)) {
            continue;
        }
        cache_entry_t *entry = &route->cache[i];
        for (size_t line = CACHE_LINE; line < sizeof *entry; line += CACHE_LINE) {
            __builtin_prefetch((const uint8_t *)entry + line);
        }
        if (entry_is(route, entry, subject, hash)) {
            return entry;
        }
    }
    return NULL;
}

const route_match_t *route_match(route_t *route, bytes_t subject) {
    uint64_t hash = hash_bytes(subject.at, subject.size);
    cache_entry_t *entry = cache_find(route, subject, hash);
    if (entry != NULL) {
        entry->asked = true;
        return &entry->match;
    }
    if (entry_is(route, &route->large, subject, hash)) {
        return &route->large.match;
    }
    entry = cache_place(route, hash);
    if (trie_find(route->root, subject, &route->found) != STATUS_OK) {
        return &no_memory;
    }
    const route_match_t *match = entry_fill(route, entry, subject, hash);
    if (entry != &route->once && match == &entry->match) {
        route->tags[entry - route->cache] = entry_tag(hash);
    }
    return match;
}

const route_match_t *route_match_once(route_t *route, bytes_t subject) {
    if (trie_find(route->root, subject, &route->found) != STATUS_OK) {
        return &no_memory;
    }
    const route_match_t *match = entry_fill(route, &route->once, subject, 0);
    if (match == &route->large.match) {
        route->large.generation = 0; /* without its hash it is not to be found */
    }
    return match;
}

void route_each(route_t *route, bool (*visit)(void *context, route_target_t *target), void *context) {
    (void)trie_each(route->root, visit, context);
}

uint64_t route_count(const route_t *route) {
    return route->count;
}

const uint64_t *route_steps(const route_t *route) {
    return &route->found.steps;
}

void route_check(const route_t *route) {
    check(trie_check(route->root) == route->count);
}
