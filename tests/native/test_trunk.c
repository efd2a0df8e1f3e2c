/* test_trunk.c: which links have a line together, and what is counted of it. Not here: what a window makes of that
 * (test_window_way.c). */
#include "plane/trunk.h"

#include "base/clock.h"
#include "test.h"

static void those_of_one_place_and_box_have_one(void) {
    table_t lines = {0};
    trunk_t *first = trunk_hold(&lines, trunk_key(7, 70)), *second = trunk_hold(&lines, trunk_key(7, 70));
    trunk_t *neighbour = trunk_hold(&lines, trunk_key(7, 71)), *elsewhere = trunk_hold(&lines, trunk_key(8, 70));
    trunk_t *own = trunk_hold(&lines, TRUNK_DIALLED);
    CHECK(first != NULL && first == second);
    CHECK(neighbour != first && elsewhere != first && elsewhere != neighbour);
    CHECK(own != first && own != neighbour && own != elsewhere);
    CHECK_EQ_U64(2, first->holders);
    CHECK_EQ_U64(4, table_count(&lines));
    trunk_leave(&lines, first);
    CHECK(trunk_hold(&lines, trunk_key(7, 70)) == second);
    trunk_leave(&lines, second);
    trunk_leave(&lines, second);
    CHECK_EQ_U64(3, table_count(&lines));
    trunk_leave(&lines, neighbour);
    trunk_leave(&lines, elsewhere);
    trunk_leave(&lines, own);
    CHECK_EQ_U64(0, table_count(&lines));
    table_free(&lines);
}

static void of_whom_nothing_is_known_is_alone(void) {
    table_t lines = {0};
    CHECK(trunk_hold(&lines, trunk_key(7, 0)) == NULL); /* it is nobody */
    CHECK(trunk_hold(&lines, trunk_key(0, 70)) == NULL);
    trunk_leave(&lines, NULL);
    CHECK_EQ_U64(0, table_count(&lines));
    table_free(&lines);
}

static void it_runs_empty_for_all_at_once(void) {
    trunk_t line = {.drained_ns = 100 * NS_PER_SECOND};
    const int64_t every_ns = 120 * NS_PER_SECOND, takes_ns = 2 * NS_PER_SECOND;
    CHECK(!trunk_drains(&line, every_ns, takes_ns, 220 * NS_PER_SECOND));
    CHECK(trunk_drains(&line, every_ns, takes_ns, 221 * NS_PER_SECOND));
    CHECK(trunk_drains(&line, every_ns, 5 * NS_PER_SECOND, 223 * NS_PER_SECOND - 1)); /* as the first one said */
    CHECK(!trunk_drains(&line, every_ns, 5 * NS_PER_SECOND, 223 * NS_PER_SECOND));
    CHECK(!trunk_drains(&line, every_ns, takes_ns, 341 * NS_PER_SECOND));
    CHECK(trunk_drains(&line, every_ns, takes_ns, 342 * NS_PER_SECOND));
}

int main(void) {
    RUN("links of one box that come from one place have a line together", those_of_one_place_and_box_have_one);
    RUN("a link of whom nothing is known is alone", of_whom_nothing_is_known_is_alone);
    RUN("a line is let run empty for all of its links at once", it_runs_empty_for_all_at_once);
    return TEST_RESULT();
}
