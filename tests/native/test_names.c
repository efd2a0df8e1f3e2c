/* test_names.c: names within their owners against a plain array. */
#include "base/names.h"

#include "test.h"

#define OWNERS 40u
#define NAMES 50u

typedef struct thing {
    bool in;
    name_link_t id;
    char text[8];
} thing_t;

static thing_t things[OWNERS][NAMES];

static thing_t *found(const map_t *map, uint32_t owner, const char *text, uint32_t size) {
    name_link_t *link = names_find(map, owner, bytes_of((const uint8_t *)text, size));
    return link == NULL ? NULL : MAP_ENTRY(link, thing_t, id);
}

/* Each owner has the same names: which one is found depends on both. */
static void names_duel(void) {
    map_t *map = NULL;
    uint32_t count = 0;
    uint64_t seed = 5;
    for (uint32_t owner = 0; owner < OWNERS; owner++) {
        for (uint32_t i = 0; i < NAMES; i++) {
            thing_t *one = &things[owner][i];
            uint32_t size = (uint32_t)snprintf(one->text, sizeof one->text, "box-%u", i);
            one->id.owner = owner == OWNERS - 1 ? UINT32_MAX : owner;
            one->id.name = bytes_of((const uint8_t *)one->text, size);
        }
    }
    for (int step = 0; step < 100000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        thing_t *one = &things[(seed >> 33) % OWNERS][(seed >> 45) % NAMES];
        if (one->in) {
            map_take(map, &one->id.link);
        } else {
            CHECK_EQ_I64(STATUS_OK, names_put(&map, &one->id));
        }
        one->in = !one->in;
        count += one->in ? 1u : UINT32_MAX;
        CHECK_EQ_U64(count, map_count(map));
        thing_t *asked = &things[(seed >> 20) % OWNERS][(seed >> 27) % NAMES];
        CHECK(found(map, asked->id.owner, asked->text, asked->id.name.size) == (asked->in ? asked : NULL));
    }
    map_free(&map);
}

static void no_other_name(void) {
    map_t *map = NULL;
    thing_t one = {.id = {.owner = 1, .name = BYTES_LITERAL("box-1")}}, empty = {.id = {.owner = 1}};
    CHECK(found(map, 1, "box-1", 5) == NULL);
    CHECK_EQ_I64(STATUS_OK, names_put(&map, &one.id));
    CHECK(found(map, 1, "box-1", 5) == &one);
    CHECK(found(map, 1, "box-1", 4) == NULL);
    CHECK(found(map, 1, "box-10", 6) == NULL);
    CHECK(found(map, 2, "box-1", 5) == NULL);
    CHECK(found(map, 1, "", 0) == NULL);
    CHECK_EQ_I64(STATUS_OK, names_put(&map, &empty.id));
    CHECK(found(map, 1, "", 0) == &empty);
    CHECK(found(map, 0, "", 0) == NULL);
    map_free(&map);
}

int main(void) {
    RUN("names within owners are found as in a plain array", names_duel);
    RUN("a name is neither its beginning, nor a longer one, nor another owner's", no_other_name);
    return TEST_RESULT();
}
