/* test_consume_bound.c: how many messages may wait for one of those consumers whose receivers come and go, and how many
 * bytes of them. */
#include "base/visits.h"
#include "consume/private.h"
#include "consume_rig.h"

#define INTEREST 1
#define MOST 10
#define SESSIONS 3000
#define BYTES 100
#define TEN "seven.." /* with "s.a" ten bytes */

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
    consume_bound(rig.consume, MOST, 0);
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
    consume_bound(rig.consume, MOST, 0);
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
    consume_bound(rig.consume, MOST, 0);
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
    consume_bound(rig.consume, MOST, 0);
    rig_run();
    rig_pass(SECOND);
    CHECK_EQ_U64(MOST, rig_state(away).pending);
    CHECK_EQ_U64(MOST, stored());
    consume_bound(rig.consume, 0, 0);
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
    consume_bound(rig.consume, MOST, 0);
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
    consume_bound(rig.consume, MOST, 0);
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

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void the_oldest_bytes_go(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, 0, BYTES);
    consumer_t *away = attended(0);
    rig_run();
    for (uint32_t i = 0; i < 25; i++) {
        (void)rig_publish("s.a", TEN);
        rig_pass(NS_PER_MS);
        CHECK_EQ_U64(i < 10 ? i + 1 : 10, rig_state(away).pending);
    }
    CHECK_EQ_U64(16, first_stored());
    CHECK_EQ_U64(15, consume_passed_over(rig.consume));
    (void)rig_publish("s.a", TEN TEN TEN); /* 24: three of ten go */
    rig_pass(NS_PER_MS);
    CHECK_EQ_U64(19, first_stored());
    char large[2 * BYTES + 1] = {0};
    memset(large, 'x', sizeof large - 1);
    (void)rig_publish("s.a", large); /* it waits alone */
    rig_pass(NS_PER_MS);
    CHECK_EQ_U64(1, rig_state(away).pending);
    (void)rig_publish("s.a", TEN);
    rig_pass(NS_PER_MS);
    CHECK_EQ_U64(28, first_stored());
}

/* In flight they do not count, and what is delivered makes room. */
static void bytes_in_flight_do_not_count(void) {
    rig_start(INTEREST);
    consume_bound(rig.consume, 0, BYTES);
    consumer_t *here = attended(0);
    consumer_attend(here, 4, 30 * SECOND, rig.now);
    rig_run();
    for (uint32_t i = 0; i < 14; i++) {
        (void)rig_publish("s.a", TEN);
        rig_pass(NS_PER_MS);
    }
    CHECK_EQ_U64(4, rig_state(here).ack_pending);
    CHECK_EQ_U64(10, rig_state(here).pending);
    (void)rig_ack(here, 1, 1, "");
    (void)rig_publish("s.a", TEN);
    rig_pass(NS_PER_MS);
    CHECK_EQ_U64(10, rig_state(here).pending);
    CHECK_EQ_U64(0, consume_passed_over(rig.consume));
    (void)rig_publish("s.a", TEN);
    rig_pass(NS_PER_MS);
    CHECK_EQ_U64(1, consume_passed_over(rig.consume));
}

/* After a start, and with other filters, only what waits for it is added up: not what waits for others. */
static void only_its_own_is_weighed(void) {
    rig_start(INTEREST);
    (void)attended(0);
    consumer_setup_t plain = rig_setup("d"), setup = setup_of(0);
    plain.id = CONSUMER_ID + 1;
    (void)rig_add(&plain);
    rig_run();
    for (uint32_t i = 0; i < 300; i++) {
        (void)rig_publish("t.large", TEN TEN TEN);
        if (i % 30 == 0) (void)rig_publish("s.a", TEN);
        rig_run();
    }
    rig_restart();
    consume_bound(rig.consume, 0, BYTES);
    consumer_t *away = rig_load(&setup);
    (void)rig_load(&plain);
    rig_pass(SECOND);
    CHECK_EQ_U64(10, rig_state(away).pending);
    CHECK_EQ_U64(0, consume_passed_over(rig.consume));
    (void)rig_publish("s.a", TEN);
    rig_pass(SECOND);
    CHECK_EQ_U64(1, consume_passed_over(rig.consume));
    static bytes_t both[2] = {BYTES_LITERAL("s.a"), BYTES_LITERAL("s.b")};
    setup.filters = (filters_t){.patterns = both, .count = 2};
    CHECK_EQ_I64(STATUS_OK, consumer_configure(away, &setup, rig.now));
    rig_pass(SECOND);
    CHECK_EQ_U64(10, rig_state(away).pending);
    CHECK_EQ_U64(1, consume_passed_over(rig.consume));
    (void)rig_publish("s.b", TEN TEN); /* 17: two of ten go */
    rig_pass(SECOND);
    CHECK_EQ_U64(3, consume_passed_over(rig.consume));
}

/* What may wait, said by the plain rule: the newest whose sizes fit. */
typedef struct model {
    uint64_t first, last; /* of those that wait */
    uint64_t sizes[4000]; /* by sequence; 0: another's, or gone */
} model_t;

static uint64_t model_sum(const model_t *model, uint64_t *count) {
    uint64_t sum = 0;
    *count = 0;
    for (uint64_t seq = model->first; seq <= model->last; seq++) {
        sum += model->sizes[seq];
        *count += model->sizes[seq] != 0;
    }
    return sum;
}

static void model_bound(model_t *model, uint64_t most) {
    uint64_t count;
    while (model_sum(model, &count) > most && count > 1) model->first++;
}

static uint32_t random_below(uint32_t *state, uint32_t end) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % end;
}

static void some_time_of_it(model_t *model, uint32_t *random, uint64_t most, consumer_t *away, uint32_t steps) {
    static const char filler[] = "0123456789012345678901234567890123456789";
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t what = random_below(random, 10);
        if (what < 8) {
            const char *payload = filler + random_below(random, 40);
            uint64_t seq = rig_publish(what < 5 ? "s.a" : "t.b", payload);
            model->sizes[seq] = what < 5 ? 3 + strlen(payload) : 0;
            model->last = seq;
        } else if (model->last != 0) {
            uint64_t seq = 1 + random_below(random, (uint32_t)model->last);
            CHECK(store_delete(rig.stream, seq) != STATUS_FULL);
            model->sizes[seq] = 0;
        }
        if (random_below(random, 3) != 0) continue;
        rig_pass(NS_PER_MS);
        model_bound(model, most);
        uint64_t count, sum = model_sum(model, &count);
        CHECK_EQ_U64(count, rig_state(away).pending);
        CHECK(away->weight_rough ? away->weight >= sum : away->weight == sum);
    }
}

static void as_the_rule_says(void) {
    uint32_t random = 28;
    for (uint32_t round = 0; round < 8; round++) {
        model_t model = {.first = 1};
        uint64_t most = 40 + random_below(&random, 1000);
        rig_start(INTEREST);
        consumer_setup_t plain = rig_setup("d"), setup = setup_of(0);
        plain.id = CONSUMER_ID + 1;
        (void)rig_add(&plain);
        consumer_t *away = attended(0);
        consume_bound(rig.consume, 0, most);
        rig_run();
        for (uint32_t life = 0; life < 4; life++) {
            some_time_of_it(&model, &random, most, away, 200);
            rig_pass(NS_PER_MS);
            model_bound(&model, most);
            rig_restart();
            consume_bound(rig.consume, 0, most);
            (void)rig_load(&plain);
            away = rig_load(&setup);
            rig_run();
        }
        CHECK_EQ_U64(0, consume_passed_over(rig.consume)); /* a start brings none back */
    }
}

/* To add up what waits for thousands takes many turns, and no one is longer for it. */
static void a_turn_weighs_so_many(void) {
    rig_start(INTEREST);
    consumer_setup_t plain = rig_setup("d");
    plain.id = CONSUMER_ID + 100;
    (void)rig_add(&plain);
    consumer_t *away[8];
    for (uint32_t i = 0; i < 8; i++) away[i] = attended(i);
    rig_run();
    rig_publish_many("s.a", 500);
    rig_run();
    rig_restart();
    consume_bound(rig.consume, 0, 4 * 490);
    (void)rig_load(&plain);
    for (uint32_t i = 0; i < 8; i++) {
        consumer_setup_t setup = setup_of(i);
        away[i] = rig_load(&setup);
    }
    bool again;
    uint32_t turns = 0, rough = 8;
    for (; turns < 100 && rough != 0; turns++) {
        consume_tick(rig.consume, rig.now, &again);
        rig.now.mono_ns += NS_PER_MS;
        rough = 0;
        for (uint32_t i = 0; i < 8; i++) rough += away[i]->weight_rough || !away[i]->left_known;
    }
    CHECK(turns >= 8 * 500 / ENDS_A_TURN && turns < 100);
    rig_pass(SECOND);
    for (uint32_t i = 0; i < 8; i++) CHECK_EQ_U64(490, rig_state(away[i]).pending);
}

/* What comes and goes while its messages are added up, before and behind the place where that has come to. */
static void what_changes_while_it_is_weighed(void) {
    rig_start(INTEREST);
    consumer_setup_t setup = setup_of(0);
    (void)attended(0);
    rig_run();
    rig_publish_many("s.a", 1500); /* of 4 bytes; the stream counts 30 more for each */
    rig_run();
    rig_restart();
    consumer_t *away = rig_load(&setup);
    rig_pass(SECOND);
    consume_bound(rig.consume, 0, 10000);
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    CHECK(away->weighing != NULL && away->weight_rough);
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 10));
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 1400));
    (void)rig_publish("s.a", TEN);
    (void)rig_publish("s.a", TEN);
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 1502));
    rig_pass(SECOND);
    CHECK(away->weighing == NULL && !away->weight_rough);
    CHECK_EQ_U64(1500 * 4 - 4 - 4 + 10, away->weight);
    CHECK_EQ_U64(0, consume_passed_over(rig.consume));
}

int main(void) {
    RUN("where too many wait the oldest go, and the newest are delivered", the_oldest_go);
    RUN("what is in flight stays, and is not counted", what_is_in_flight_stays);
    RUN("a message stays for those that still want it, and comes back to nobody", others_keep_theirs);
    RUN("a bound counts for what waits already, and ends", a_bound_that_changes);
    RUN("a turn passes over so many messages of all", a_turn_at_a_time);
    RUN("consumers of others have no such bound", whoever_else_has_none);
    RUN("thousands of them are not looked at when somebody subscribes", nobody_asks_for_them);
    RUN("where too many bytes wait the oldest go, and the newest stays", the_oldest_bytes_go);
    RUN("bytes in flight do not count", bytes_in_flight_do_not_count);
    RUN("what waits for others is not weighed", only_its_own_is_weighed);
    RUN("whatever comes, goes and restarts, as many wait as the plain rule says", as_the_rule_says);
    RUN("what comes and goes while it is weighed is counted", what_changes_while_it_is_weighed);
    RUN("a turn weighs so many messages of all", a_turn_weighs_so_many);
    rig_end();
    return TEST_RESULT();
}
