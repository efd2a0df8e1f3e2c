/* test_lag.c: how far a copy is behind, by what it was told and when. */
#include "jetstream/lag.h"

#include "test.h"

#define SECOND NS_PER_SECOND

static void nothing_is_known_at_first(void) {
    lag_t behind = {0};
    CHECK(!behind.known && !behind.paced && !behind.leveled);
    lag_learn(&behind, 5000, 7 * SECOND);
    CHECK(behind.known && !behind.leveled);
    CHECK_EQ_U64(5000, behind.messages);
    CHECK_EQ_I64(7 * SECOND, behind.learned_ns);
}

static void the_pace_is_that_of_late(void) {
    lag_t behind = {0};
    int64_t now = SECOND;
    lag_learn(&behind, 10000, now);
    for (int i = 1; i <= 100; i++) { /* 25 a second for ten seconds */
        lag_learn(&behind, 10000 - 5 * (uint64_t)i / 2, now += SECOND / 10);
    }
    CHECK(behind.paced);
    CHECK(behind.pace > 24 && behind.pace < 26);
    for (int i = 1; i <= 100; i++) { /* then the origin is faster, by 40 a second */
        lag_learn(&behind, 9750 + 4 * (uint64_t)i, now += SECOND / 10);
    }
    CHECK(behind.pace < -35 && behind.pace > -41);
    lag_learn(&behind, 10000, now += 10 * SECOND); /* and then the copy is, by 15 */
    CHECK(behind.pace > 14 && behind.pace < 16);
    /* What comes in a heap after an outage counts over the whole outage. */
    lag_learn(&behind, 9500, now += 100 * SECOND);
    CHECK(behind.pace > 9 && behind.pace < 11);
    CHECK_EQ_U64(9500, behind.messages);
}

static void only_a_second_heartbeat_says_level(void) {
    lag_t behind = {0};
    lag_heartbeat(&behind, BYTES_NONE, false, SECOND);
    CHECK(!behind.known);
    lag_learn(&behind, 3, 2 * SECOND);
    lag_heartbeat(&behind, BYTES_NONE, false, 3 * SECOND);
    CHECK_EQ_U64(3, behind.messages);
    lag_heartbeat(&behind, BYTES_NONE, false, 4 * SECOND);
    CHECK_EQ_U64(0, behind.messages);
    CHECK(behind.leveled);
    CHECK_EQ_I64(4 * SECOND, behind.level_ns);
    lag_learn(&behind, 8, 5 * SECOND);
    for (int i = 6; i < 20; i++) {
        lag_heartbeat(&behind, BYTES_NONE, true, i * SECOND);
    }
    CHECK_EQ_U64(8, behind.messages);
    CHECK_EQ_I64(5 * SECOND, behind.learned_ns);
    CHECK_EQ_I64(4 * SECOND, behind.level_ns);
    bytes_t told = BYTES_LITERAL("NATS/1.0 100 Idle Heartbeat\r\nLeafd-Pending: 12\r\n\r\n");
    lag_heartbeat(&behind, told, true, 21 * SECOND);
    CHECK_EQ_U64(12, behind.messages);
    CHECK_EQ_I64(21 * SECOND, behind.learned_ns);
}

static void what_is_told_of_it(void) {
    lag_t behind = {0};
    ingest_state_t state;
    lag_tell(&behind, 9 * SECOND, &state);
    CHECK_EQ_I64(-1, state.known_ns);
    CHECK_EQ_I64(-1, state.level_ns);
    CHECK_EQ_I64(INT64_MIN, state.pace_milli);
    lag_learn(&behind, 0, 10 * SECOND);
    lag_learn(&behind, 90, 13 * SECOND);
    lag_tell(&behind, 15 * SECOND, &state);
    CHECK_EQ_U64(90, state.lag);
    CHECK_EQ_I64(2 * SECOND, state.known_ns);
    CHECK_EQ_I64(5 * SECOND, state.level_ns);
    CHECK_EQ_I64(-30000, state.pace_milli);
    lag_learn(&behind, UINT64_MAX, 20 * SECOND);
    lag_tell(&behind, 20 * SECOND, &state);
    CHECK_EQ_I64(-1000000000000000, state.pace_milli);
    lag_learn(&behind, 0, 25 * SECOND);
    lag_tell(&behind, 25 * SECOND, &state);
    CHECK_EQ_I64(1000000000000000, state.pace_milli);
}

int main(void) {
    RUN("what was not told is not known, and is not 0", nothing_is_known_at_first);
    RUN("the pace is measured over seconds, and follows", the_pace_is_that_of_late);
    RUN("of a server that tells no more, the second quiet heartbeat says that nothing waits, unless it stalls",
        only_a_second_heartbeat_says_level);
    RUN("how old each number is, is told with it", what_is_told_of_it);
    return TEST_RESULT();
}
