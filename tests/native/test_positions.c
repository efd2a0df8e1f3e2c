/* test_positions.c: where a ledger's newest entries lie, and how many bytes they are (store/positions.h), beside plain
 * arrays of all that were ever there.
 */
#include "base/random.h"
#include "store/positions.h"
#include "test.h"

#define STEPS 200000u
#define INDEXES 400000u

static uint64_t truth[INDEXES]; /* 0: none */
static uint64_t sizes[INDEXES];

static uint64_t sum_of(uint64_t from, uint64_t upto) {
    uint64_t sum = 0;
    for (uint64_t index = from; index <= upto; index++) sum += sizes[index];
    return sum;
}

static void as_an_array_has_them(void) {
    positions_t positions = {0};
    uint64_t seed = 29, first = 1, last = 0, position = 100, freed = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t what = random_below(&seed, 20);
        uint64_t there = last + 1 - first;
        if (what < 15 && last + 1 < INDEXES) {
            uint64_t more = 1 + random_below(&seed, 4);
            CHECK_EQ_I64(STATUS_OK, positions_reserve(&positions, more, freed));
            position += 1 + random_below(&seed, 500);
            sizes[++last] = random_below(&seed, 1000);
            positions_add(&positions, last, position, sizes[last]);
            truth[last] = position;
        } else if (what < 17 && there > 0) {
            last -= random_below(&seed, random_below(&seed, 4) == 0 ? (uint32_t)there + 1 : 2);
            positions_cut(&positions, last);
        } else if (what < 19 && there > 0) {
            first += random_below(&seed, random_below(&seed, 8) == 0 ? (uint32_t)there + 1 : 2);
            positions_pass(&positions, first - 1);
        } else if (there > 0) {
            uint64_t passed = truth[first + random_below(&seed, (uint32_t)there)];
            freed = passed > freed ? passed : freed; /* those before it may be forgotten */
        }
        CHECK_EQ_U64(0, positions_of(&positions, last + 1));
        CHECK_EQ_U64(0, positions_of(&positions, first - 1));
        for (uint64_t index = last; index >= first && index + 8 > last; index--) {
            CHECK(positions_of(&positions, index) == truth[index] || truth[index] < freed);
            if (positions_of(&positions, index) != 0) {
                CHECK_EQ_U64(sum_of(index, last), positions_bytes(&positions, index, last));
                CHECK_EQ_U64(sizes[index], positions_bytes(&positions, index, index));
            }
        }
        CHECK_EQ_U64(0, positions_bytes(&positions, last + 1, last));
    }
    CHECK(last > 1000); /* it got somewhere */
    positions_free(&positions);
}

static void one_that_is_emptied_keeps_little(void) {
    positions_t positions = {0};
    CHECK_EQ_I64(STATUS_OK, positions_reserve(&positions, 100000, 0));
    for (uint64_t index = 1; index <= 100000; index++) {
        positions_add(&positions, index, index * 10, 1);
    }
    CHECK_EQ_U64(100000, positions_bytes(&positions, 1, 100000));
    positions_pass(&positions, 99999);
    CHECK_EQ_U64(1000000, positions_of(&positions, 100000));
    positions_pass(&positions, 100000);
    CHECK(positions.room <= 1024);
    positions_free(&positions);
}

static void those_that_are_done_with_make_room(void) {
    positions_t positions = {0};
    for (uint64_t index = 1; index <= 100000; index++) {
        CHECK_EQ_I64(STATUS_OK, positions_reserve(&positions, 1, index > 50 ? (index - 50) * 10 : 0));
        positions_add(&positions, index, index * 10, 1);
        CHECK_EQ_U64(index * 10, positions_of(&positions, index));
    }
    CHECK(positions.room <= 128);
    positions_free(&positions);
}

/* What a thousand take is known without a look at each. */
static void rooms_are_the_sum_of_all(void) {
    static positions_t many[100];
    uint64_t rooms = 0, seed = 31;
    for (uint32_t i = 0; i < 100; i++) positions_begin(&many[i], &rooms);
    for (uint32_t step = 0; step < 20000; step++) {
        positions_t *one = &many[random_below(&seed, 100)];
        uint64_t last = one->first + one->count;
        if (random_below(&seed, 8) == 0) {
            positions_pass(one, last);
        } else if (random_below(&seed, 50) == 0) {
            positions_free(one);
        } else {
            uint64_t more = 1 + random_below(&seed, 2000);
            CHECK_EQ_I64(STATUS_OK, positions_reserve(one, more, 0));
            for (uint64_t i = 0; i < more; i++) positions_add(one, last + i, step + 1, 1);
        }
        uint64_t sum = 0;
        for (uint32_t i = 0; i < 100; i++) sum += many[i].room;
        CHECK_EQ_U64(sum, rooms);
    }
    CHECK(rooms > 0);
    for (uint32_t i = 0; i < 100; i++) positions_free(&many[i]);
    CHECK_EQ_U64(0, rooms);
}

int main(void) {
    RUN("each index has its position and its bytes, through cuts, floors and growth", as_an_array_has_them);
    RUN("one that is emptied keeps little memory", one_that_is_emptied_keeps_little);
    RUN("those that are done with make room for others", those_that_are_done_with_make_room);
    RUN("the room of all is their sum", rooms_are_the_sum_of_all);
    return TEST_RESULT();
}
