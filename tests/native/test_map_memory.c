/* test_map_memory.c: the map against a plain array; walks that go on while it grows; what an insertion does at most. */
#include "base/map.h"

#include <stdlib.h>

#include "base/visits.h"
#include "failing_allocator.h"
#include "test.h"

#define MANY 100000u

typedef struct entry {
    uint64_t seen;
    map_link_t link;
    bool in;
} entry_t;

static entry_t entries[2 * MANY];

/* Any two numbers have different hashes, with every bit in use. */
static uint64_t hash_of(uint64_t number) {
    number = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return number ^ number >> 29;
}

static void put(map_t **map, uint32_t number) {
    CHECK_EQ_I64(STATUS_OK, map_put(map, &entries[number].link, hash_of(number)));
    entries[number].in = true;
}

static bool is_in(const map_t *map, uint32_t number) {
    map_link_t *link = map_first(map, hash_of(number));
    while (link != NULL && MAP_ENTRY(link, entry_t, link) != &entries[number]) link = link->next;
    return link != NULL;
}

static void begin(void) {
    memset(entries, 0, sizeof(entries));
}

static void duel(void) {
    begin();
    map_t *map = NULL;
    uint64_t seed = 5, count = 0;
    for (uint32_t step = 0; step < 400000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t number = (uint32_t)(seed >> 33) % 5000, asked = (uint32_t)(seed >> 20) % 5000;
        if (!entries[number].in) {
            put(&map, number);
            count++;
        } else if ((seed >> 50) % 3 == 0) {
            map_take(map, &entries[number].link);
            entries[number].in = false;
            count--;
        }
        CHECK(is_in(map, asked) == entries[asked].in);
        CHECK_EQ_U64(count, map_count(map));
    }
    CHECK(map->size > 2 * MAP_SEGMENT);
    map_free(&map);
    CHECK(map == NULL && map_count(map) == 0 && map_first(map, 7) == NULL);
}

static void note_chain(map_link_t *link, uint64_t from, uint64_t to) {
    for (; link != NULL; link = link->next) {
        CHECK(map_place(link->hash) >= from && map_place(link->hash) < to);
        MAP_ENTRY(link, entry_t, link)->seen++;
    }
}

/* From a few entries on, so that the map doubles while the walk is at each of its buckets. */
static void walked_while_it_grows(void) {
    for (uint32_t few = 1; few < 3000; few = few * 3 + 1) {
        begin();
        map_t *map = NULL;
        uint32_t count = 0;
        while (count < few) put(&map, count++);
        for (uint64_t at = 0, next; at < MAP_END; at = next) {
            next = map_beyond(map, at);
            CHECK(next > at && next <= MAP_END);
            note_chain(map_at(map, at), at, next);
            for (uint32_t i = 0; i < few / 4 + 1 && count < MANY; i++) put(&map, count++);
        }
        for (uint32_t i = 0; i < few; i++) CHECK_EQ_U64(1, entries[i].seen);
        for (uint32_t i = few; i < count; i++) CHECK(entries[i].seen <= 1);
        map_free(&map);
    }
}

static void walked_at_once(void) {
    begin();
    map_t *map = NULL;
    for (uint32_t i = 0; i < MANY; i++) put(&map, i);
    map_walk_t walk = {0};
    for (map_link_t *link; (link = map_next(map, &walk)) != NULL;) {
        MAP_ENTRY(link, entry_t, link)->seen++;
        map_take(map, link);
    }
    CHECK_EQ_U64(0, map_count(map));
    for (uint32_t i = 0; i < MANY; i++) CHECK_EQ_U64(1, entries[i].seen);
    map_free(&map);
    walk = (map_walk_t){0};
    CHECK(map_next(NULL, &walk) == NULL);
}

/* A chain before its split has two entries on average. */
static void no_insertion_moves_many(void) {
    begin();
    map_t *map = NULL;
    (void)visits_take();
    uint64_t all = 0;
    for (uint32_t i = 0; i < 2 * MANY; i++) {
        put(&map, i);
        uint64_t visits = visits_take();
        CHECK(visits <= 12);
        all += visits;
    }
    CHECK(all < 4 * MANY);
    map_free(&map);
}

static void without_memory(void) {
    begin();
    map_t *map = NULL;
    failing_allocations((failing_allocations_t){.from = 1, .times = UINT64_MAX});
    CHECK_EQ_I64(STATUS_NO_MEMORY, map_put(&map, &entries[0].link, 1));
    CHECK(map == NULL);
    failing_allocations((failing_allocations_t){0});
    CHECK_EQ_I64(STATUS_OK, map_open(&map));
    failing_allocations((failing_allocations_t){.from = 1, .times = UINT64_MAX});
    for (uint32_t i = 0; i < 1000; i++) put(&map, i); /* in longer chains */
    failing_allocations((failing_allocations_t){0});
    for (uint32_t i = 1000; i < 6000; i++) put(&map, i);
    CHECK(map->size >= 4096); /* what it could not do then is made up for */
    for (uint32_t i = 0; i < 6000; i++) CHECK(is_in(map, i));
    map_free(&map);
}

int main(void) {
    RUN("the map finds what a plain array finds", duel);
    RUN("a walk in steps meets each entry once, in the order of its place, while the map grows", walked_while_it_grows);
    RUN("a walk at once meets each entry once while it takes them out", walked_at_once);
    RUN("no insertion moves more than a bucket's entries", no_insertion_moves_many);
    RUN("without memory a map that is open takes entries, and grows once there is memory", without_memory);
    return TEST_RESULT();
}
