/* test_space.c: how much a store may still take, for small and large disks. */
#include "disk/space.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static space_t healthy(void) {
    return (space_t){.firm = true,
                     .ring = 64 * MIB,
                     .budget = 64 * GIB,
                     .used = GIB,
                     .ahead = 20 * MIB,
                     .map_left = 100 * GIB,
                     .disk_free = 50 * GIB};
}

static void plenty(void) {
    space_t space = healthy();
    space_short_t by;
    CHECK_EQ_U64(56 * MIB, space_admits(&space, &by));
    CHECK_EQ_U64(SPACE_ENOUGH, by);
    CHECK(space_wanted(&space) <= 32 * MIB);
}

static void ring_always_is_checkpointed(void) {
    for (uint64_t disk = 0; disk <= 600; disk += 7) {
        for (uint64_t ahead = 0; ahead <= 200; ahead += 3) {
            space_t space = healthy();
            space_short_t by;
            space.disk_free = disk * MIB;
            space.ahead = ahead * MIB;
            uint64_t admits = space_admits(&space, &by);
            uint64_t counted = space.ahead + (disk > 512 ? (disk - 512) * MIB : 0);
            CHECK(admits == 0 || admits * 5 / 2 + space_reserve(&space) <= counted);
            CHECK((by == SPACE_ENOUGH) == (admits >= SPACE_RESUME));
        }
    }
}

static void full(void) {
    space_t space = healthy();
    space_short_t by;
    space.disk_free = 0;
    space.ahead = space_reserve(&space);
    CHECK_EQ_U64(0, space_admits(&space, &by));
    CHECK_EQ_U64(SPACE_DISK, by);
    space.free_pages = 100 * MIB; /* a purge was checkpointed */
    CHECK(space_admits(&space, &by) > SPACE_RESUME);
    CHECK_EQ_U64(SPACE_ENOUGH, by);
}

static void limit(void) {
    space_t space = healthy();
    space_short_t by;
    space.budget = space.used;
    CHECK_EQ_U64(0, space_admits(&space, &by));
    CHECK_EQ_U64(SPACE_LIMIT, by);
    space = healthy();
    space.map_left = 0;
    CHECK_EQ_U64(0, space_admits(&space, &by));
    CHECK_EQ_U64(SPACE_LIMIT, by);
    space = healthy();
    space.budget = 16 * MIB;
    space.used = UINT64_MAX / 2;
    CHECK_EQ_U64(0, space_admits(&space, &by));
}

/* What groups have agreed on finds room where publishers find none, on a disk and below the limit. */
static void agreed(void) {
    for (uint64_t disk = 0; disk <= 700; disk += 7) {
        for (uint64_t budget = 0; budget <= 300; budget += 9) {
            space_t space = healthy();
            space_short_t by;
            space.disk_free = disk * MIB;
            space.agreed = 16 * MIB;
            space.ahead = space_wanted(&space);
            space.budget = space.used + budget * MIB;
            uint64_t admits = space_admits(&space, &by), grants = space_grants(&space);
            CHECK(grants >= 56 * MIB || grants >= admits + space.agreed);
            CHECK(grants >= space.agreed);
            CHECK(grants * 5 / 2 + space_reserve(&space) <= space.ahead + (disk > 512 ? (disk - 512) * MIB : 0));
        }
    }
}

int main(void) {
    RUN("a disk with plenty bounds nothing and little is reserved", plenty);
    RUN("what the ring may hold fits behind the pages in use, with the reserve, for any free space",
        ring_always_is_checkpointed);
    RUN("a full disk admits nothing, and free pages admit again", full);
    RUN("the limit and the map bound as the disk does", limit);
    RUN("what groups have agreed on has room of its own", agreed);
    return TEST_RESULT();
}
