/* test_consume_ack.c: the verbs of an acknowledgement, the floor, redelivery and its limits. */
#include "consume_rig.h"

static consumer_t *with(consumer_setup_t setup) {
    return rig_add(&setup);
}

/* A consumer that got `count` messages on inbox "in"; what came out is skipped. */
static consumer_t *got(consumer_setup_t setup, int count) {
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", count);
    char body[16];
    (void)snprintf(body, sizeof body, "%d", count);
    rig_pull(consumer, "in", body);
    rig_skip();
    return consumer;
}

static void plain_acks(void) {
    static const char *const bodies[] = {"", "+ACK", "+OK"};
    for (size_t i = 0; i < 3; i++) {
        rig_start(0);
        consumer_t *consumer = got(rig_setup("c"), 2);
        CHECK(rig_ack(consumer, 1, 1, bodies[i]));
        consumer_state_t state = rig_state(consumer);
        CHECK_EQ_U64(1, state.ack_pending);
        CHECK_EQ_U64(1, state.floor_consumer);
        CHECK_EQ_U64(1, state.floor_stream);
        CHECK(state.last_acked_ts > 0);
    }
}

static void answers(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 3);
    CHECK(rig_ack(consumer, 1, 1, "+ACK"));
    CHECK(rig_ack(consumer, 1, 1, "+ACK")); /* acknowledged already */
    CHECK(rig_ack(consumer, 2, 2, "-NAK"));
    CHECK(rig_ack(consumer, 2, 2, "+WPI"));
    CHECK(rig_ack(consumer, 3, 3, "+TERM"));
    CHECK(rig_ack(consumer, 2, 2, "+nonsense"));
    CHECK(!rig_ack(consumer, 4, 4, "+ACK")); /* never delivered */
    CHECK(!rig_ack(consumer, 2, 2, "+NXT"));
    bool answer;
    consumer_ack(consumer, 3, 3, 1, text("+ACK"), BYTES_NONE, rig.now, &answer);
    CHECK(!answer);
}

static void case_matters(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 1);
    CHECK(rig_ack(consumer, 1, 1, "+ack"));
    CHECK(rig_ack(consumer, 1, 1, "+ACK "));
    CHECK(rig_ack(consumer, 1, 1, "+WPI "));
    CHECK_EQ_U64(1, rig_state(consumer).ack_pending);
    EXPECT_NOTHING();
}

static void floor_follows(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    bytes_t filter = text("s.1");
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    consumer_t *consumer = with(setup);
    for (int i = 1; i <= 30; i++) {
        char subject[8];
        (void)snprintf(subject, sizeof subject, "s.%d", i % 3);
        rig_publish(subject, "x");
    }
    rig_pull(consumer, "in", "{\"batch\":30,\"no_wait\":true}");
    consumer_state_t state = rig_state(consumer); /* the very sequence of steps that nats-server was asked for */
    CHECK_EQ_U64(28, state.delivered_stream);
    CHECK_EQ_U64(10, state.delivered_consumer);
    rig_ack(consumer, 4, 2, "");
    state = rig_state(consumer);
    CHECK_EQ_U64(0, state.floor_consumer);
    CHECK_EQ_U64(0, state.floor_stream);
    CHECK_EQ_U64(9, state.ack_pending);
    rig_ack(consumer, 1, 1, "");
    state = rig_state(consumer);
    CHECK_EQ_U64(2, state.floor_consumer);
    CHECK_EQ_U64(6, state.floor_stream);
    for (uint64_t seq = 7; seq <= 28; seq += 3) rig_ack(consumer, seq, (seq + 2) / 3, "");
    state = rig_state(consumer);
    CHECK_EQ_U64(10, state.floor_consumer);
    CHECK_EQ_U64(28, state.floor_stream);
    CHECK_EQ_U64(0, state.ack_pending);
}

static void ack_all(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = ACK_ALL;
    consumer_t *consumer = got(setup, 5);
    CHECK(rig_ack(consumer, 3, 3, ""));
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(3, state.floor_consumer);
    CHECK_EQ_U64(3, state.floor_stream);
    CHECK_EQ_U64(2, state.ack_pending);
    CHECK(!rig_ack(consumer, 30, 30, ""));
    CHECK_EQ_U64(2, rig_state(consumer).ack_pending);
    CHECK(rig_ack(consumer, 2, 2, ""));
    CHECK_EQ_U64(3, rig_state(consumer).floor_stream);
}

static void nak_at_once(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 2);
    rig_publish("s", "x");
    rig_ack(consumer, 2, 2, "-NAK");
    EXPECT("advisory 2 2 2 1 0 ");
    rig_pull(consumer, "in", "2");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.2.3."); /* before the new one, with a consumer sequence of its own */
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.3.4.");
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(1, state.redelivered);
    CHECK_EQ_U64(3, state.ack_pending);
    CHECK_EQ_U64(3, state.delivered_stream);
}

static void nak_of_others(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 2);
    rig_ack(consumer, 1, 1, "");
    rig_ack(consumer, 1, 1, "-NAK");
    rig_ack(consumer, 9, 9, "-NAK");
    rig_ack(consumer, 2, 9, "-NAK");
    rig_ack(consumer, 2, 1, "-NAK");
    EXPECT_NOTHING();
}

static void nak_delays(void) {
    static const struct {
        const char *body;
        int64_t wait_ns;
    } cases[] = {{"-NAK {\"delay\":2000000000}", 2 * SECOND},
                 {"-NAK 1.5s", 1500 * NS_PER_MS},
                 {"-NAK  1h ", 3600 * SECOND},
                 {"-NAK{\"delay\": 100000000, \"x\":[]}", 100 * NS_PER_MS},
                 {"-NAK {\"delay\":0}", 0},
                 {"-NAK -3s", 0},
                 {"-NAK bogus", 0},
                 {"-NAK {\"delay\":\"2s\"}", 0},
                 {"-NAK {", 0},
                 {"-NAKx", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig_start(0);
        consumer_setup_t setup = rig_setup("c");
        setup.config.ack_wait_ns = 4000 * SECOND;
        consumer_t *consumer = got(setup, 1);
        rig_pull(consumer, "in", "1");
        rig_ack(consumer, 1, 1, cases[i].body);
        EXPECT("advisory 2 1 1 1 0 ");
        if (cases[i].wait_ns > 0) {
            rig_pass(cases[i].wait_ns - NS_PER_MS);
            EXPECT_NOTHING();
        }
        rig_pass(2 * NS_PER_MS);
        EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
    }
}

static void ack_wait(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_wait_ns = 2 * SECOND;
    consumer_t *consumer = got(setup, 3);
    rig_ack(consumer, 2, 2, "");
    rig_pull(consumer, "in", "9");
    rig_pass(1900 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(200 * NS_PER_MS);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.4.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.3.5.");
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.3.1.6.");
    CHECK_EQ_U64(2, rig_state(consumer).redelivered);
}

static void progress(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_wait_ns = 2 * SECOND;
    consumer_t *consumer = got(setup, 1);
    rig_pull(consumer, "in", "1");
    for (int i = 0; i < 5; i++) {
        rig_pass(1500 * NS_PER_MS);
        rig_ack(consumer, 1, 1, "+WPI");
    }
    EXPECT_NOTHING();
    rig_pass(2100 * NS_PER_MS);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
}

static void clock_steps(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_wait_ns = 2 * SECOND;
    consumer_t *consumer = got(setup, 1);
    rig_pull(consumer, "in", "1");
    rig.now.wall_ns += 1000000 * SECOND;
    rig_pass(SECOND);
    EXPECT_NOTHING();
    rig.now.wall_ns -= 2000000 * SECOND;
    rig_pass(1100 * NS_PER_MS);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
    (void)consumer;
}

static void backoff(void) {
    static const int64_t steps[] = {SECOND, 3 * SECOND, 5 * SECOND};
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.backoff_ns = steps;
    setup.backoff_count = 3;
    consumer_t *consumer = got(setup, 1);
    rig_pull(consumer, "in", "9");
    static const int64_t waits[] = {1, 3, 5, 5, 5};
    for (int i = 0; i < 5; i++) {
        rig_pass(waits[i] * SECOND - 10 * NS_PER_MS);
        EXPECT_NOTHING();
        rig_pass(10 * NS_PER_MS);
        char start[64];
        (void)snprintf(start, sizeof start, "in <- s | $JS.ACK.S.c.%d.1.%d.", i + 2, i + 2);
        EXPECT_DELIVERY(start);
    }
    (void)consumer;
}

static void max_deliver(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_deliver = 2;
    setup.config.ack_wait_ns = SECOND;
    consumer_t *consumer = got(setup, 1);
    rig_pull(consumer, "in", "5");
    rig_pass(SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
    rig_pass(SECOND);
    EXPECT("advisory 1 1 1 2 0 ");
    rig_pass(10 * SECOND);
    EXPECT_NOTHING();
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(0, state.ack_pending);
    CHECK_EQ_U64(1, state.redelivered); /* as nats-server: until it is acknowledged after all */
    CHECK(rig.stream->messages[1].there);
    CHECK(rig_ack(consumer, 1, 2, "+ACK"));
    CHECK_EQ_U64(0, rig_state(consumer).redelivered);
}

static void floor_is_held(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_deliver = 1;
    setup.config.ack_wait_ns = SECOND;
    consumer_t *consumer = got(setup, 2);
    rig_pass(2 * SECOND);
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1");
    rig_ack(consumer, 3, 3, "");
    CHECK_EQ_U64(0, rig_state(consumer).floor_consumer); /* 1 and 2 used up their deliveries */
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
    rig_ack(consumer, 1, 1, "");
    CHECK_EQ_U64(0, rig_state(consumer).floor_consumer);
}

static void nak_of_the_last(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_deliver = 1;
    consumer_t *consumer = got(setup, 1);
    rig_ack(consumer, 1, 1, "-NAK");
    EXPECT("advisory 2 1 1 1 0 ");
    rig_pull(consumer, "in", "1");
    EXPECT("advisory 1 1 1 1 0 ");
    EXPECT_NOTHING();
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
    CHECK_EQ_U64(0, rig_state(consumer).redelivered);
}

static void term(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 2);
    rig_ack(consumer, 1, 1, "+TERM  bad data ");
    EXPECT("advisory 3 1 1 1 0 bad data");
    rig_ack(consumer, 2, 2, "+TERM");
    EXPECT("advisory 3 2 2 1 0 ");
    rig_ack(consumer, 2, 2, "+TERM");
    EXPECT_NOTHING();
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
    CHECK_EQ_U64(2, rig_state(consumer).floor_stream);
}

static void next(void) {
    rig_start(0);
    consumer_t *consumer = with(rig_setup("c"));
    rig_publish_many("s", 4);
    rig_pull(consumer, "in", "1");
    rig_skip();
    CHECK(!rig_ack(consumer, 1, 1, "+NXT"));
    EXPECT_DELIVERY("_R <- s | $JS.ACK.S.c.1.2.2.");
    CHECK(!rig_ack(consumer, 2, 2, "+NXT {\"batch\":2}"));
    EXPECT_DELIVERY("_R <- s | $JS.ACK.S.c.1.3.3.");
    EXPECT_DELIVERY("_R <- s | $JS.ACK.S.c.1.4.4.");
    CHECK_EQ_U64(2, rig_state(consumer).ack_pending);
}

static void max_ack_pending(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = 1;
    setup.config.ack_wait_ns = SECOND;
    consumer_t *consumer = with(setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "9");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1.");
    EXPECT_NOTHING();
    rig_pass(SECOND); /* it gates new messages only */
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
    EXPECT_NOTHING();
    rig_ack(consumer, 1, 2, "");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.3.");
    EXPECT_NOTHING();
}

static void deleted_while_pending(void) {
    rig_start(0);
    consumer_t *consumer = got(rig_setup("c"), 3);
    rig_ack(consumer, 3, 3, "");
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 1));
    EXPECT("advisory 3 1 1 1 0 Unacknowledged message was deleted");
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(1, state.ack_pending);
    CHECK_EQ_U64(1, state.floor_consumer);
    CHECK(state.last_acked_ts > 0);
    rig_run();
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 2));
    rig_run();
    CHECK_EQ_U64(3, rig_state(consumer).floor_stream);
}

static void samples(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.sample_percent = 100;
    consumer_t *consumer = got(setup, 1);
    rig_pass(3 * SECOND);
    rig_ack(consumer, 1, 1, "");
    EXPECT("advisory 4 1 1 1 3000000000 ");
}

static void ack_none(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = ACK_NONE;
    consumer_t *consumer = got(setup, 3);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(0, state.ack_pending);
    CHECK_EQ_U64(3, state.floor_stream);
    CHECK_EQ_U64(3, state.floor_consumer);
    CHECK(!rig_ack(consumer, 1, 1, ""));
}

static void reset(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = got(setup, 5);
    rig_ack(consumer, 1, 1, "");
    rig_ack(consumer, 2, 2, "-NAK");
    rig_skip();
    uint64_t seq;
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 0, rig.now, &seq));
    CHECK_EQ_U64(2, seq);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(0, state.delivered_consumer);
    CHECK_EQ_U64(1, state.delivered_stream);
    CHECK_EQ_U64(0, state.floor_consumer);
    CHECK_EQ_U64(1, state.floor_stream);
    CHECK_EQ_U64(0, state.ack_pending);
    CHECK_EQ_U64(4, state.pending);
    rig_pull(consumer, "in", "1");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.1.");
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 1, rig.now, &seq));
    rig_pull(consumer, "in", "1");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1.");
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 1, rig.now, &seq));
    CHECK_EQ_I64(0, rig_state(consumer).last_delivered_ts);
    for (uint64_t purged = 1; purged <= 3; purged++) CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, purged));
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 0, rig.now, &seq));
    CHECK_EQ_U64(1, seq);
    store_hooks_t hooks = consume_store_hooks(rig.consume);
    hooks.purged(hooks.context, rig.stream, BYTES_NONE, 4);
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 0, rig.now, &seq));
    CHECK_EQ_U64(4, seq); /* what is purged is below any floor */
    setup = rig_setup("d");
    setup.id++;
    setup.config.deliver_policy = DELIVER_BY_START_SEQUENCE;
    setup.config.opt_start_seq = 3;
    consumer = rig_add(&setup);
    CHECK_EQ_I64(STATUS_INVALID, consumer_reset(consumer, 2, rig.now, &seq));
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 4, rig.now, &seq));
    setup.id++;
    setup.config.deliver_policy = DELIVER_NEW;
    consumer = rig_add(&setup);
    CHECK_EQ_I64(STATUS_INVALID, consumer_reset(consumer, 2, rig.now, &seq));
}

static void shorter_wait(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = got(setup, 1);
    rig_pull(consumer, "in", "1");
    setup.config.ack_wait_ns = 2 * SECOND;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    rig_pass(1900 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(200 * NS_PER_MS);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
}

int main(void) {
    RUN("an empty body, +ACK and +OK acknowledge", plain_acks);
    RUN("every verb but +NXT is answered when asked, also for an old sequence, never for one not delivered", answers);
    RUN("verbs are matched byte by byte", case_matters);
    RUN("the floor follows the lowest pending message and jumps when nothing is pending", floor_follows);
    RUN("ack policy all acknowledges everything below", ack_all);
    RUN("-NAK delivers again at once, before new messages", nak_at_once);
    RUN("-NAK of what is not pending is ignored", nak_of_others);
    RUN("-NAK takes a duration or a JSON delay; one that cannot be read is a plain -NAK", nak_delays);
    RUN("what is not acknowledged within ack_wait comes again, in stream order", ack_wait);
    RUN("+WPI restarts the ack wait and counts no delivery", progress);
    RUN("steps of the wall clock neither hurry nor delay a redelivery", clock_steps);
    RUN("backoff sets each wait, its last entry repeats", backoff);
    RUN("after max_deliver the message leaves pending with one advisory and stays in the stream", max_deliver);
    RUN("what used up its deliveries holds the floor", floor_is_held);
    RUN("-NAK of the last delivery is noticed at the next request", nak_of_the_last);
    RUN("+TERM ends a message and names its reason", term);
    RUN("+NXT acknowledges and asks for more on the ack's reply", next);
    RUN("max_ack_pending holds back new messages, not redeliveries", max_ack_pending);
    RUN("a message deleted while pending is terminated", deleted_while_pending);
    RUN("sampled acks tell how long they took", samples);
    RUN("without acks the floor is what was delivered", ack_none);
    RUN("a reset starts the consumer sequence anew where its policy allows", reset);
    RUN("a changed ack wait counts for what is in flight", shorter_wait);
    rig_end();
    return TEST_RESULT();
}
