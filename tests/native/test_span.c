/* test_span.c: how many messages of another server's consumer may be on their way, found by the time that they take. */
#include "jetstream/span.h"

#include "test.h"

#define MS NS_PER_MS
#define SECOND NS_PER_SECOND

static span_time_t at(int64_t ns) {
    return (span_time_t){ns, ns};
}

/* A link: one round trip, and so much for each message; a message leaves when there is room for it. */
typedef struct way {
    int64_t trip_ns;
    int64_t each_ns;
    int64_t free_ns;          /* when the last one has left */
    int64_t room_ns[1 << 18]; /* by sequence: when its room was made known at the origin */
} way_t;

static way_t way;

/* So many messages over it, all of which wait from the beginning. Returns what it wants in the end, and how often the
 * consumer was made anew. */
static uint32_t drained(uint32_t size, uint64_t messages, int64_t trip_ns, int64_t each_ns, unsigned *anew) {
    span_t span;
    int64_t now_ns = 0;
    *anew = 0;
    uint64_t sent = 0;
    way.free_ns = 0;
    while (sent < messages) {
        span_begin(&span, size, messages - sent, at(now_ns));
        uint64_t open = size;
        int64_t opened_ns = now_ns + trip_ns / 2;
        for (uint64_t seq = 1; sent < messages; seq++) {
            CHECK(seq <= open);
            int64_t room_ns = seq <= size ? opened_ns : way.room_ns[seq];
            way.free_ns = (room_ns > way.free_ns ? room_ns : way.free_ns) + each_ns;
            now_ns = way.free_ns + trip_ns / 2;
            sent++;
            span_step_t step = span_took(&span, seq, messages - sent, trip_ns, at(now_ns));
            CHECK(step != SPAN_WAIT || seq < open || sent == messages);
            if (step == SPAN_CHANGE) {
                CHECK_EQ_U64(open, seq); /* nothing is on its way */
                size = span.wanted;
                ++*anew;
                now_ns += trip_ns;
                break;
            }
            if (step == SPAN_ACK) {
                span_acked(&span, seq, at(now_ns));
                for (uint64_t more = open + 1; more <= seq + size; more++) way.room_ns[more] = now_ns + trip_ns / 2;
                open = seq + size;
            }
        }
    }
    way.free_ns = now_ns;
    return size;
}

static void slow_and_far_needs_few(void) {
    unsigned anew;
    uint32_t size = drained(32, 3000, 2 * SECOND, 32 * MS, &anew); /* 200 B at 50 kbit/s */
    CHECK(size >= 96 && size <= 256 && anew <= 3);
    CHECK(way.free_ns < 3000 * 32 * MS + 20 * SECOND);
}

static void fast_and_far_needs_many(void) {
    unsigned anew;
    uint32_t size = drained(32, 100000, 600 * MS, 800000, &anew); /* 2 Mbit/s */
    CHECK(size > 750 && anew <= 5);
    CHECK(way.free_ns < 100000 * 800000L * 11 / 10);
    size = drained(32, 200000, 30 * MS, 3000, &anew); /* 500 Mbit/s */
    CHECK(size > 10000 && anew <= 6);
}

static void large_ones_need_fewer(void) {
    unsigned anew;
    uint32_t size = drained(32, 200, 2 * SECOND, 2 * SECOND, &anew); /* 12 KB at 50 kbit/s */
    CHECK(size <= 8 && anew >= 1 && anew <= 3);
    CHECK(way.free_ns < 200 * 2 * SECOND + 30 * SECOND);
}

/* What comes one by one takes as long as it likes, and each is acknowledged: a work queue is emptied. */
static void what_trickles_tells_nothing(void) {
    span_t span;
    span_begin(&span, 8, 0, at(0));
    for (uint64_t seq = 1; seq < 100; seq++) {
        CHECK_EQ_U64(SPAN_ACK, span_took(&span, seq, 0, SECOND, at((int64_t)seq * 100 * SECOND)));
        span_acked(&span, seq, at((int64_t)seq * 100 * SECOND));
    }
    CHECK_EQ_U64(8, span.wanted);
    CHECK_EQ_U64(SPAN_WAIT, span_took(&span, 100, 20, SECOND, at(20000 * SECOND))); /* a backlog after hours */
    CHECK_EQ_U64(SPAN_ACK, span_took(&span, 101, 20, SECOND, at(20000 * SECOND)));
    span_acked(&span, 101, at(20000 * SECOND));
    CHECK_EQ_U64(8, span.wanted);
    CHECK_EQ_U64(109, span.awaited);
}

static void lost_acknowledgements_show(void) {
    span_t span;
    span_begin(&span, 8, 100, at(0));
    for (uint64_t seq = 1; seq <= 8; seq++) {
        if (span_took(&span, seq, 100 - seq, SECOND, at(3 * SECOND)) == SPAN_ACK)
            span_acked(&span, seq, at(3 * SECOND));
    }
    CHECK(span_waits(&span));
    CHECK(!span_stuck(&span, 3 * SECOND + SPAN_LOST_NS));
    CHECK(span_stuck(&span, 4 * SECOND + SPAN_LOST_NS));
    CHECK_EQ_U64(SPAN_ACK, span_took(&span, 9, 0, SECOND, at(4 * SECOND)));
    CHECK(!span_waits(&span) && !span_stuck(&span, 600 * SECOND)); /* nothing is missing */
    span_begin(&span, 0, 100, at(0));
    CHECK(!span_waits(&span) && !span_stuck(&span, 600 * SECOND));
    CHECK_EQ_U64(SPAN_WAIT, span_took(&span, 1, 0, SECOND, at(SECOND)));
}

static void an_outage_changes_nothing(void) {
    span_t span;
    span_begin(&span, 8, 100, at(0));
    for (uint64_t seq = 1; seq <= 8; seq++) { /* half an hour by the clock, three seconds in which anything came */
        span_time_t now = {1800 * SECOND, 3 * SECOND};
        if (span_took(&span, seq, 100, 2 * SECOND, now) == SPAN_ACK) span_acked(&span, seq, now);
    }
    CHECK_EQ_U64(8, span.wanted);
    CHECK_EQ_U64(16, span.awaited);
}

/* A block of compressed messages that is longer than a contact never arrives. */
static void nothing_that_came_asks_for_less(void) {
    span_t span;
    span_begin(&span, 64, 100, at(SECOND));
    CHECK_EQ_U64(64, span_next(&span, 0, 10 * SECOND));
    CHECK_EQ_U64(32, span_next(&span, 0, 40 * SECOND));
    CHECK_EQ_U64(64, span_next(&span, 1, 40 * SECOND));
    span_begin(&span, SPAN_MIN, 100, at(SECOND));
    CHECK_EQ_U64(SPAN_MIN, span_next(&span, 0, 40 * SECOND));
    span_begin(&span, 64, 0, at(SECOND)); /* nothing waited */
    CHECK_EQ_U64(64, span_next(&span, 0, 40 * SECOND));
}

int main(void) {
    RUN("a slow link that is far is used with few on their way", slow_and_far_needs_few);
    RUN("a fast one with as many as it needs, found in a few steps", fast_and_far_needs_many);
    RUN("large messages have fewer on their way", large_ones_need_fewer);
    RUN("messages that come one by one change nothing, and each is acknowledged", what_trickles_tells_nothing);
    RUN("an acknowledgement that made no room shows", lost_acknowledgements_show);
    RUN("an outage changes nothing", an_outage_changes_nothing);
    RUN("where nothing came of it at all fewer are asked for", nothing_that_came_asks_for_less);
    return TEST_RESULT();
}
