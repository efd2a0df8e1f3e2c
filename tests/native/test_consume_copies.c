/* test_consume_copies.c: the push consumers of mirrors and sources: few heartbeats over a link, what a copy has stored,
 * how many messages wait. Not here: push consumers of clients (test_consume_push.c), copies of a store that was put
 * back (test_consume_put_back.c).
 */
#include "consume/private.h"
#include "push_rig.h"

/* A copy at the other end of a link: few heartbeats, but as many as ever while it owes acknowledgements; its end is
 * told. Whoever comes later has not agreed to that. */
static void spared(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 10;
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    consumer_spare(consumer, 300 * SECOND, rig.now);
    rig_pass(299 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("d <- s");
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    EXPECT_DELIVERY("d <* $JS.FC.S.p.");
    consumer_remove(consumer, rig.now);
    EXPECT("d <*  | NATS/1.0 409 Consumer Deleted~~");
}

/* What a copy took last it is asked for with a heartbeat of its own: a second after a few kilobytes, a minute after
 * less. Then nothing is owed, and heartbeats are few again. */
static void asked_though_spared(void) {
    static char part[501];
    memset(part, 'k', sizeof part - 1);
    rig_start(0);
    consumer_setup_t setup = push_setup();
    setup.config.flags |= CONSUMER_FLOW_CONTROL | CONSUMER_DIRECT;
    setup.config.idle_heartbeat_ns = 25 * SECOND;
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    consumer_spare(consumer, 300 * SECOND, rig.now);
    rig_pass(10 * SECOND);
    for (int i = 0; i < 9; i++) rig_publish("s", part);
    rig_run();
    rig_skip();
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    says_it_took(consumer, flow_id(rig_next()), 9, 9);
    rig_publish("s", "x");
    rig_run();
    rig_skip();
    rig_pass(59 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    says_it_took(consumer, flow_id(rig_next()), 10, 10);
    rig_pass(299 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    EXPECT_NOTHING();
}

/* A heartbeat each second to a copy, or to a client: what waits for room is what the link is busy with. */
static void heartbeats_while_it_waits_for_the_link(void) {
    for (int copy = 0; copy < 2; copy++) {
        rig_start(0);
        consumer_setup_t setup = push_setup();
        setup.config.flags |= copy ? CONSUMER_FLOW_CONTROL | CONSUMER_DIRECT : 0;
        setup.config.idle_heartbeat_ns = SECOND;
        (void)rig_add(&setup);
        rig_run();
        (void)strcpy(rig.full, "d");
        rig.full_after = 1;
        rig_publish_many("s", 2);
        rig_run();
        EXPECT_DELIVERY("d <- s");
        for (int time = 0; time < 2; time++) {
            rig_pass(copy ? 2999 * NS_PER_MS : 999 * NS_PER_MS);
            EXPECT_NOTHING();
            rig_pass(NS_PER_MS);
            EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
        }
        rig.full[0] = 0;
        consume_unblocked(rig.consume);
        rig_run();
        EXPECT_DELIVERY("d <- s");
        rig_pass(1001 * NS_PER_MS);
        EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
        EXPECT_NOTHING();
    }
}

static void spared_no_longer(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    consumer_spare(consumer, 300 * SECOND, rig.now);
    interest("", "");
    interest("d", "");
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    consumer_remove(consumer, rig.now);
    EXPECT_NOTHING();
}

/* Of a copy's consumer: it subscribes, and then sets it back. */
static void set_back_before_it_delivers(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 10;
    setup.config.idle_heartbeat_ns = 60 * SECOND;
    consumer_t *consumer = rig_add(&setup);
    uint64_t seq;
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 0, rig.now, &seq));
    consumer_begin(consumer, rig.now);
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.1.1.");
    interest("", "");
    interest("d", "");
    rig_publish("s", "y");
    rig_run();
    EXPECT_NOTHING();
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 0, rig.now, &seq));
    rig_run();
    EXPECT_NOTHING(); /* before its answer */
    consumer_begin(consumer, rig.now);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.1.1.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.2.2.");
    interest("", "");
    interest("d", "");
    rig_pass(6 * SECOND); /* nobody sets it back: it goes on */
    rig_publish("s", "z");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.3.3.");
}

/* Of a mirror or source: C, which begins at the second of three messages. */
static consumer_t *copied(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    setup.config.flags = CONSUMER_PUSH | CONSUMER_DIRECT | CONSUMER_FLOW_CONTROL;
    setup.config.idle_heartbeat_ns = SECOND;
    setup.config.inactive_threshold_ns = 10 * SECOND;
    setup.config.deliver_policy = DELIVER_BY_START_SEQUENCE;
    setup.config.opt_start_seq = 2;
    rig.quiet = true;
    rig_publish_many("s", 3);
    return rig_add(&setup);
}

static consumer_state_t state_of(consumer_t *consumer) {
    consumer_state_t state;
    consumer_snapshot(consumer, rig.now, &state);
    return state;
}

static void a_copy_says_what_it_has(void) {
    consumer_t *consumer = copied();
    CHECK_EQ_U64(1, state_of(consumer).taken);
    rig_run();
    CHECK_EQ_U64(1, state_of(consumer).taken);
    CHECK_EQ_U64(2, state_of(consumer).untaken);
    static char body[LARGE + 1];
    memset(body, 'x', LARGE);
    rig_pass(SECOND);
    rig_skip();
    rig_publish("s", body);
    rig_run();
    bytes_t id = flow_id(rig_next());
    rig_publish("s", body);
    rig_run();
    says_it_took(consumer, id, 3, 4);
    CHECK_EQ_U64(4, state_of(consumer).taken);
    CHECK_EQ_U64(1, state_of(consumer).untaken);
    rig_publish("s", body);
    rig_run();
    EXPECT_NOTHING(); /* within a second it is not asked again */
    interest("", "");
    rig_pass(11 * SECOND);
    EXPECT("gone 1 7, 4 taken");
}

/* How often it is asked in so many seconds in which nothing comes; at the end. */
static uint32_t asked_in(int seconds, const char **last) {
    uint32_t asked = 0;
    for (int second = 0; second < seconds; second++) {
        rig_pass(SECOND);
        while (rig.line_next < rig.line_count) {
            const char *line = rig_next();
            if (strstr(line, "FlowControl") != NULL) {
                asked++;
                *last = line;
            }
        }
    }
    return asked;
}

static void the_rest_is_asked_for_later(void) {
    consumer_t *consumer = copied();
    const char *line = "";
    rig_run();
    rig_skip();
    CHECK_EQ_U64(0, asked_in(58, &line));
    CHECK_EQ_U64(1, asked_in(4, &line));
    bytes_t id = flow_id(line);
    says_it_took(consumer, id, 2, 3);
    CHECK_EQ_U64(3, state_of(consumer).taken);
    CHECK_EQ_U64(0, state_of(consumer).untaken);
    CHECK_EQ_U64(0, asked_in(200, &line));
    static char body[LARGE / 4 + 1];
    memset(body, 'x', LARGE / 4);
    rig_publish("s", body);
    rig_run();
    CHECK_EQ_U64(1, asked_in(2, &line));
}

static void lies_of_a_copy(void) {
    consumer_t *consumer = copied();
    rig_run();
    static char body[LARGE + 1];
    memset(body, 'x', LARGE);
    rig_pass(2 * SECOND);
    rig_skip();
    rig_publish("s", body);
    rig_run();
    bytes_t id = flow_id(rig_next());
    says_it_took(consumer, id, 9, 99);
    CHECK_EQ_U64(1, state_of(consumer).taken);
}

static void a_copy_hears_what_is_pending(void) {
    consumer_t *consumer = copied();
    (void)consumer;
    rig_run();
    rig_skip();
    rig_pass(SECOND);
    EXPECT("d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 2~Nats-Last-Stream: 3~Leafd-Pending: 0~~");
}

static void ephemeral(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    setup.config.flags = CONSUMER_PUSH | CONSUMER_DIRECT;
    setup.config.inactive_threshold_ns = 10 * SECOND;
    (void)rig_add(&setup);
    rig_publish("s", "x");
    rig_run();
    rig_pass(60 * SECOND);
    rig_skip();
    interest("", "");
    rig_pass(9 * SECOND);
    interest("d", "");
    interest("", "");
    rig_pass(9 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT("gone 1 7");
    CHECK_EQ_U64(0, rig.store->record_writes);
}

int main(void) {
    RUN("a copy over a link has few heartbeats while nothing is owed, and is told of its consumer's end", spared);
    RUN("such a copy is asked how far it is a second after a few kilobytes, a minute after less", asked_though_spared);
    RUN("a copy has few heartbeats while its messages wait for its link", heartbeats_while_it_waits_for_the_link);
    RUN("who comes after such a copy has the heartbeats that are configured", spared_no_longer);
    RUN("a copy that subscribes again gets nothing before it has set its consumer back, and has the answer",
        set_back_before_it_delivers);
    RUN("a mirror or source is asked what it has stored, after 16 KB and not each second", a_copy_says_what_it_has);
    RUN("once no more comes it is asked for the rest, for a little of it a minute later, and then no more",
        the_rest_is_asked_for_later);
    RUN("it has not stored what was not delivered, whatever it says", lies_of_a_copy);
    RUN("its heartbeat says how many messages wait", a_copy_hears_what_is_pending);
    RUN("a consumer of a mirror or source goes without interest and writes nothing", ephemeral);
    rig_end();
    return TEST_RESULT();
}
