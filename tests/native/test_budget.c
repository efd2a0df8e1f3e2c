/* test_budget.c: which ranks may go at which count of bytes, and what is held when one may not. Not here: days and
 * months (tests/unit/links/test_ledger.py). */
#include "plane/budget.h"

#include <stdlib.h>
#include <string.h>

#include "plane/lanes.h"
#include "test.h"

#define MOST 16384

static lanes_t *lanes;
static outq_t out;
static share_t share;

static bytes_t text(const char *at) {
    return bytes_of(at, (uint32_t)strlen(at));
}

static void begin(void) {
    share = (share_t){.limit = 64 << 20};
    outq_init(&out, UINT64_MAX, &share);
    lanes = lanes_new(&share);
}

static void end(void) {
    lanes_free(lanes);
    outq_free(&out);
    CHECK_EQ_U64(0, share.used);
}

static void put(const lane_use_t *use, char letter) {
    lane_t *lane = lanes_lane(lanes, NULL, use);
    CHECK(lane != NULL);
    lane_end(lanes, lane, buffer_append(&lane_out(lane)->data, &letter, 1));
}

static void message(const char *subject, char letter) {
    lane_use_t use = {.subject = text(subject), .size = 1};
    put(&use, letter);
}

static flow_t flow(uint64_t left, uint64_t size) {
    return (flow_t){.id = FLOW_FIRST + left + size, .stream = text("S"), .left = left, .size = size};
}

static void delivery(uint64_t left, char letter) {
    flow_t of = flow(left, 1000);
    lane_use_t use = {.subject = text("_D"), .flow = &of, .size = 1000};
    put(&use, letter);
}

/* What goes, in order, up to the lowest rank that is not held. */
static void goes(const char *expected) {
    char went[64];
    lanes_fill(lanes, &out, UINT64_MAX, LANE_LOW);
    uint64_t size = outq_pending(&out);
    CHECK(size < sizeof went);
    if (size != 0) {
        memcpy(went, out.data.at + out.sent, size);
    }
    went[size] = 0;
    outq_written(&out, size, 1);
    if (strcmp(expected, went) != 0) {
        (void)fprintf(stderr, "expected %s, went %s\n", expected, went);
    }
    CHECK(strcmp(expected, went) == 0);
}

static void ranks_stop_one_after_the_other(void) {
    const budget_t budget = {.urgent = 1000, .high = 1000, .normal = 950, .low = 900, .tell = 50};
    CHECK_EQ_U64(LANE_LOW, budget_lowest(&budget, 0));
    CHECK_EQ_U64(900, budget_room(&budget, 0));
    CHECK_EQ_U64(LANE_LOW, budget_lowest(&budget, 899));
    CHECK_EQ_U64(1, budget_room(&budget, 899));
    CHECK_EQ_U64(LANE_NORMAL, budget_lowest(&budget, 900));
    CHECK_EQ_U64(50, budget_room(&budget, 900));
    CHECK_EQ_U64(LANE_HIGH, budget_lowest(&budget, 950));
    CHECK(budget_lowest(&budget, 1000) == LANE_NONE);
    CHECK_EQ_U64(UINT64_MAX, budget_room(&budget, 1000)); /* what was begun goes to its end */
    CHECK(budget_lowest(&budget, UINT64_MAX) == LANE_NONE);
}

static void without_a_bound_all_goes(void) {
    const budget_t paced = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 2000};
    CHECK_EQ_U64(LANE_LOW, budget_lowest(&paced, UINT64_MAX - 1));
    CHECK_EQ_U64(UINT64_MAX, budget_room(&paced, 12345));
    CHECK_EQ_U64(LANE_LOW, budget_lowest(NULL, 12345));
    CHECK_EQ_U64(UINT64_MAX, budget_room(NULL, 12345));
}

static void a_rank_may_wait_by_the_time_of_the_day(void) {
    const budget_t day = {.urgent = UINT64_MAX, .high = UINT64_MAX, .normal = UINT64_MAX, .low = 0};
    CHECK_EQ_U64(LANE_NORMAL, budget_lowest(&day, 0));
    CHECK_EQ_U64(UINT64_MAX, budget_room(&day, 0));
}

/* Of messages and requests; acknowledgements and what consumers delivered go. */
static void what_is_held_and_what_is_not(void) {
    begin();
    message("event", 'e');
    message("$JS.API.STREAM.NAMES", 'r');
    message("$JS.FC.S.C.x", 'f');
    message("$JS.ACK.S.C.1", 'a');
    delivery(10000, 'd');
    delivery(1, 'n');
    lanes_hold(lanes, LANE_NONE);
    CHECK_EQ_U64(3, lanes_held(lanes));
    CHECK_EQ_U64(3, lanes_going(lanes));
    goes("and");
    goes("");
    CHECK_EQ_U64(3, lanes_pending(lanes));
    lanes_hold(lanes, LANE_HIGH);
    goes("rf");
    CHECK_EQ_U64(1, lanes_held(lanes));
    lanes_hold(lanes, LANE_NORMAL);
    goes("e");
    CHECK_EQ_U64(0, lanes_held(lanes));
    end();
}

static void a_consumer_that_catches_up_stops_first(void) {
    begin();
    flow_t bulk = flow(100, 1000), small = flow(2, 1000), status = flow(FLOW_LEFT_UNKNOWN, 0);
    CHECK(!lanes_full(lanes, NULL, &bulk, MOST));
    lanes_hold(lanes, LANE_NORMAL);
    CHECK(lanes_full(lanes, NULL, &bulk, MOST));
    CHECK(!lanes_full(lanes, NULL, &small, MOST));
    CHECK(!lanes_full(lanes, NULL, &status, MOST));
    CHECK(!lanes_full(lanes, NULL, NULL, MOST)); /* the link's own lines */
    lanes_hold(lanes, LANE_URGENT);
    CHECK(lanes_full(lanes, NULL, &small, MOST));
    CHECK(!lanes_full(lanes, NULL, NULL, MOST));
    end();
}

static void who_was_told_to_wait_hears_when_it_goes_on(void) {
    begin();
    flow_t bulk = flow(100, 1000);
    lanes_hold(lanes, LANE_NORMAL);
    CHECK(lanes_full(lanes, NULL, &bulk, MOST));
    CHECK(!lanes_drained(lanes, MOST));
    lanes_hold(lanes, LANE_NORMAL);
    CHECK(!lanes_drained(lanes, MOST));
    lanes_hold(lanes, LANE_LOW);
    CHECK(lanes_drained(lanes, MOST));
    CHECK(!lanes_drained(lanes, MOST));
    CHECK(!lanes_full(lanes, NULL, &bulk, MOST));
    end();
}

static void a_stream_with_priority_goes_on(void) {
    begin();
    const bytes_t rules[] = {text("high"), text("stream"), text("S")};
    precedence_t *precedence = precedence_new(rules, 3);
    CHECK(precedence != NULL);
    flow_t bulk = flow(100, 1000);
    lanes_hold(lanes, LANE_HIGH);
    CHECK(lanes_full(lanes, NULL, &bulk, MOST));
    CHECK(!lanes_full(lanes, precedence, &bulk, MOST));
    precedence_free(precedence);
    end();
}

/* A reload that takes lanes away takes nothing that waits with them. */
static void lanes_that_end_give_all(void) {
    begin();
    message("event", 'e');
    lanes_hold(lanes, LANE_NONE);
    goes("");
    CHECK(lanes_join(lanes, &out) == STATUS_OK);
    CHECK_EQ_U64(1, outq_pending(&out));
    end();
}

int main(void) {
    RUN("of a budget bulk stops first, then what is normal, then all", ranks_stop_one_after_the_other);
    RUN("without a bound all goes, whatever was carried", without_a_bound_all_goes);
    RUN("a rank may wait by the time of the day", a_rank_may_wait_by_the_time_of_the_day);
    RUN("messages and requests are held, acknowledgements and what was delivered are not",
        what_is_held_and_what_is_not);
    RUN("a consumer that catches up stops first", a_consumer_that_catches_up_stops_first);
    RUN("who was told to wait hears when it goes on", who_was_told_to_wait_hears_when_it_goes_on);
    RUN("a stream with priority goes on", a_stream_with_priority_goes_on);
    RUN("lanes that end give all that waits", lanes_that_end_give_all);
    return TEST_RESULT();
}
