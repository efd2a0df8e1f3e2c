/* test_consume_bound.c: how many messages may wait for one of those consumers whose receivers come and go. */
#include "base/visits.h"
#include "consume/private.h"
#include "consume_rig.h"

#define INTEREST 1
#define MOST 10
#define SESSIONS 3000

static consumer_setup_t setup_of(uint32_t number) {
    static bytes_t filters[1] = {BYTES_LITERAL("s.>")};
    consumer_setup_t setup = rig_setup("c");
    setup.id = CONSUMER_ID + number;
    setup.deliver_subject = BYTES_LITERAL("in");
    setup.filters = (filters_t){.patterns = filters, .count = 1};
    setup.config.flags = CONSUMER_PUSH | CONSUMER_ATTENDED;
    setup.config.max_ack_pending = 4;
    return setup;
}

static consumer_t *attended(uint32_t number) {
    consumer_setup_t setup = setup_of(number);
    return rig_add(&setup);
}

static uint64_t stored(void) {
    stream_state_t state;
    store_stream_state(rig.stream, &state);
    return state.messages;
}

static uint64_t first_stored(void) {
    stream_state_t state;
    store_stream_state(rig.stream, &state);
    return state.first_seq;
}

static void the_oldest_go(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, MOST);
    consumer_t *away = attended(0);
    rig_run();
    for (uint32_t i = 0; i < 25; i++) {
        (void)rig_publish("s.a", "x");
        rig_run();
        CHECK(rig_state(away).pending <= MOST);
    }
    CHECK_EQ_U64(MOST, rig_state(away).pending);
    CHECK_EQ_U64(MOST, stored());
    CHECK_EQ_U64(16, first_stored());
    CHECK_EQ_U64(15, consume_passed_over(rig.consume));
    consumer_attend(away, 4, 30 * SECOND, rig.now);
    rig_run();
    EXPECT_DELIVERY("in <- s.a | $JS.ACK.S.c.1.16.1.");
    EXPECT_DELIVERY("in <- s.a | $JS.ACK.S.c.1.17.2.");
}

/* Beside what is in flight, which stays. */
static void what_is_in_flight_stays(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, MOST);
    consumer_t *here = attended(0);
    consumer_attend(here, 4, 30 * SECOND, rig.now);
    rig_run();
    rig_publish_many("s.a", 4);
    rig_run();
    CHECK_EQ_U64(4, rig_state(here).ack_pending);
    rig_publish_many("s.a", 15);
    rig_run();
    CHECK_EQ_U64(4, rig_state(here).ack_pending);
    CHECK_EQ_U64(MOST, rig_state(here).pending);
    CHECK_EQ_U64(4 + MOST, stored());
    for (uint64_t seq = 1; seq <= 4; seq++) (void)rig_ack(here, seq, seq, "");
    rig_skip();
    CHECK_EQ_U64(6, rig_state(here).pending);
    CHECK_EQ_U64(10, first_stored());
}

/* A message stays for another consumer that has fewer, and comes back to nobody after a crash. */
static void others_keep_theirs(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, MOST);
    consumer_t *away = attended(0);
    consumer_setup_t plain = rig_setup("d");
    plain.id = CONSUMER_ID + 1;
    consumer_t *all = rig_add(&plain);
    rig_run();
    rig_publish_many("s.a", 30);
    rig_run();
    CHECK_EQ_U64(MOST, rig_state(away).pending);
    CHECK_EQ_U64(30, rig_state(all).pending);
    CHECK_EQ_U64(30, stored());
    rig_restart();
    consumer_setup_t setup = setup_of(0);
    away = rig_load(&setup);
    all = rig_load(&plain);
    rig_run();
    CHECK_EQ_U64(MOST, rig_state(away).pending);
    CHECK_EQ_U64(30, rig_state(all).pending);
}

/* A bound that comes later, and one that is taken away. */
static void a_bound_that_changes(void) {
    rig_start(INTEREST);
    consumer_t *away = attended(0);
    rig_run();
    rig_publish_many("s.a", 1000);
    rig_run();
    CHECK_EQ_U64(1000, rig_state(away).pending);
    consume_bound(rig.consume, MOST);
    rig_run();
    rig_pass(SECOND);
    CHECK_EQ_U64(MOST, rig_state(away).pending);
    CHECK_EQ_U64(MOST, stored());
    consume_bound(rig.consume, 0);
    rig_publish_many("s.a", 50);
    rig_pass(SECOND);
    CHECK_EQ_U64(MOST + 50, rig_state(away).pending);
}

/* However many consumers there are: a turn of the loop does not grow with them. */
static void a_turn_at_a_time(void) {
    rig_start(INTEREST);
    consumer_t *away[8];
    for (uint32_t i = 0; i < 8; i++) away[i] = attended(i);
    rig_run();
    rig_publish_many("s.a", 500);
    rig_run();
    consume_bound(rig.consume, MOST);
    uint64_t before = 0;
    bool again;
    for (uint32_t turns = 0; turns < 100 && before < UINT64_C(8) * (500 - MOST); turns++) {
        consume_tick(rig.consume, rig.now, &again);
        CHECK(consume_passed_over(rig.consume) - before <= ENDS_A_TURN);
        before = consume_passed_over(rig.consume);
        rig.now.mono_ns++;
    }
    for (uint32_t i = 0; i < 8; i++) CHECK_EQ_U64(MOST, rig_state(away[i]).pending);
    CHECK_EQ_U64(MOST, stored());
}

/* Consumers of JetStream's clients have no such bound. */
static void whoever_else_has_none(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, MOST);
    consumer_t *plain = rig_add_plain();
    rig_publish_many("s.a", 50);
    rig_pass(SECOND);
    CHECK_EQ_U64(50, rig_state(plain).pending);
    CHECK_EQ_U64(0, consume_passed_over(rig.consume));
}

/* What subscribes or leaves says nothing of a receiver that is said to come and go. */
static void nobody_asks_for_them(void) {
    rig_start(INTEREST);
    bool again;
    for (uint32_t i = 0; i < SESSIONS; i++) (void)attended(i);
    consumer_setup_t setup = setup_of(SESSIONS);
    setup.config.flags = CONSUMER_PUSH;
    consumer_t *plain = rig_add(&setup);
    rig_run();
    (void)visits_take();
    for (uint32_t i = 0; i < 10; i++) {
        consume_interest_changed(rig.consume);
        consume_tick(rig.consume, rig.now, &again);
    }
    uint64_t visits = visits_take();
    CHECK(visits >= 10); /* the one that asks for interest is looked at */
    CHECK(visits < SESSIONS);
    consumer_remove(plain, rig.now);
    consume_interest_changed(rig.consume);
    consume_tick(rig.consume, rig.now, &again);
}

int main(void) {
    RUN("where too many wait the oldest go, and the newest are delivered", the_oldest_go);
    RUN("what is in flight stays, and is not counted", what_is_in_flight_stays);
    RUN("a message stays for those that still want it, and comes back to nobody", others_keep_theirs);
    RUN("a bound counts for what waits already, and ends", a_bound_that_changes);
    RUN("a turn passes over so many messages of all", a_turn_at_a_time);
    RUN("consumers of others have no such bound", whoever_else_has_none);
    RUN("thousands of them are not looked at when somebody subscribes", nobody_asks_for_them);
    rig_end();
    return TEST_RESULT();
}
