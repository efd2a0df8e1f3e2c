/* test_consume_push.c: interest, deliver groups, heartbeats, flow control, the rate limit, replay at the original pace.
 */
#include "consume_rig.h"

static consumer_setup_t push_setup(void) {
    consumer_setup_t setup = rig_setup("p");
    setup.config.flags |= CONSUMER_PUSH;
    setup.config.ack_policy = ACK_NONE;
    setup.deliver_subject = BYTES_LITERAL("d");
    return setup;
}

static void interest(const char *subject, const char *group) {
    (void)strcpy(rig.interest[0], subject);
    (void)strcpy(rig.groups[0], group);
    consume_interest_changed(rig.consume);
    rig_run();
}

static void follows_interest(void) {
    rig_start(0);
    interest("", "");
    rig_publish_many("s", 2);
    consumer_setup_t setup = push_setup();
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    EXPECT_NOTHING();
    CHECK_EQ_U64(0, rig_state(consumer).push_bound);
    interest("d", "");
    EXPECT("d <- s | $JS.ACK.S.p.1.1.1.1700000000000000001.1 |  | x");
    EXPECT("d <- s | $JS.ACK.S.p.1.2.2.1700000000000000002.0 |  | x");
    CHECK_EQ_U64(1, rig_state(consumer).push_bound);
    interest("", "");
    rig_publish("s", "x");
    rig_run();
    EXPECT_NOTHING();
    CHECK_EQ_U64(1, rig_state(consumer).pending);
    interest("d", "");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.3.3.");
}

static void created_before_delivery(void) {
    rig_start(0);
    rig_publish_many("s", 3);
    consumer_setup_t setup = push_setup();
    consumer_t *consumer = rig_add(&setup);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(0, state.delivered_consumer);
    CHECK_EQ_U64(3, state.pending);
    CHECK_EQ_U64(1, state.push_bound);
    EXPECT_NOTHING();
}

static void groups(void) {
    rig_start(0);
    interest("d", "");
    rig_publish("s", "x");
    consumer_setup_t setup = push_setup();
    setup.deliver_group = text("g");
    (void)rig_add(&setup);
    rig_run();
    EXPECT_NOTHING();
    interest("d", "other");
    EXPECT_NOTHING();
    interest("d", "g");
    EXPECT_DELIVERY("d <- s");
    rig_start(0);
    interest("d", "g");
    rig_publish("s", "x");
    setup = push_setup();
    (void)rig_add(&setup);
    rig_run();
    EXPECT_NOTHING();
}

static void heartbeats(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    setup.config.idle_heartbeat_ns = 500 * NS_PER_MS;
    (void)rig_add(&setup);
    rig_run();
    rig_pass(400 * NS_PER_MS);
    rig_publish_many("s", 2);
    rig_run();
    rig_skip();
    rig_pass(499 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(2 * NS_PER_MS);
    EXPECT("d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 2~Nats-Last-Stream: 2~~");
    rig_pass(500 * NS_PER_MS);
    EXPECT("d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 2~Nats-Last-Stream: 2~~");
    interest("", "");
    rig_pass(2 * SECOND);
    EXPECT_NOTHING();
    interest("d", "");
    rig_pass(501 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
}

/* The id in "d <* $JS.FC.S.p.XXXX | ..." */
static bytes_t flow_id(const char *line) {
    static const char start[] = "d <* $JS.FC.S.p.";
    CHECK_BYTES(start, sizeof start - 1, line, sizeof start - 1);
    CHECK_TEXT(" | NATS/1.0 100 FlowControl Request~~", line + sizeof start - 1 + 4,
               strlen(line + sizeof start - 1 + 4));
    return bytes_of(line + sizeof start - 1, 4);
}

static consumer_setup_t acking_setup(void) {
    consumer_setup_t setup = push_setup();
    setup.config.flags |= CONSUMER_FLOW_CONTROL;
    setup.config.ack_policy = ACK_FLOW_CONTROL;
    setup.config.idle_heartbeat_ns = SECOND;
    return setup;
}

/* The copy's answer to a request of flow control. */
static void says_it_took(consumer_t *consumer, bytes_t id, unsigned delivery, unsigned seq) {
    char header[96];
    (void)snprintf(header, sizeof header, "NATS/1.0\r\nNats-Last-Consumer: %u\r\nNats-Last-Stream: %u\r\n\r\n",
                   delivery, seq);
    consumer_flow_reply(consumer, id, text(header), rig.now);
}

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

static char megabyte[1 << 19];

#define LARGE (16u << 10) /* after so many bytes a mirror or source is asked how far it is */

static void flow_control(void) {
    memset(megabyte, 'y', sizeof megabyte - 1);
    rig_start(0);
    rig.quiet = true;
    consumer_setup_t setup = push_setup();
    setup.config.flags |= CONSUMER_FLOW_CONTROL;
    setup.config.idle_heartbeat_ns = SECOND;
    consumer_t *consumer = rig_add(&setup);
    for (int i = 0; i < 30; i++) rig_publish("s", megabyte);
    rig_run();
    /* 2 MiB of window: a request after the first MiB, a stop above the window */
    CHECK_EQ_U64(4, rig.deliveries);
    const char *request = rig_next();
    bytes_t id = flow_id(request);
    EXPECT_NOTHING();
    rig_pass(1001 * NS_PER_MS);
    char expected[200];
    (void)snprintf(expected, sizeof expected,
                   "d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 4~Nats-Last-Stream: "
                   "4~Nats-Consumer-Stalled: $JS.FC.S.p.%.*s~~",
                   SHOWN(id));
    EXPECT(expected);
    consumer_flow_reply(consumer, text("nope"), BYTES_NONE, rig.now);
    rig_run();
    CHECK_EQ_U64(4, rig.deliveries);
    consumer_flow_reply(consumer, id, BYTES_NONE, rig.now);
    rig_run();
    /* the first two were covered; the window is 4 MiB now: the two others and 6 more go over it */
    CHECK_EQ_U64(10, rig.deliveries);
    id = flow_id(rig_next());
    consumer_flow_reply(consumer, id, BYTES_NONE, rig.now);
    rig_run();
    CHECK(rig.deliveries > 20);
    consumer_flow_reply(consumer, id, BYTES_NONE, rig.now); /* an old one */
    rig_run();
    CHECK(rig.deliveries < 30);
    EXPECT_DELIVERY("d <* $JS.FC.S.p.");
}

static void flow_control_acks(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 3;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 5);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.1.1.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.2.2.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.3.3.");
    bytes_t id = flow_id(rig_next()); /* because max_ack_pending is reached */
    EXPECT_NOTHING();
    says_it_took(consumer, id, 2, 2);
    rig_run();
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(2, state.floor_stream);
    CHECK_EQ_U64(2, state.floor_consumer);
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.4.4.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.5.5.");
    rig_skip();
    consumer_ack(consumer, 5, 5, 1, text("+ACK"), text("_R"), rig.now, &(bool){false});
    CHECK_EQ_U64(2, rig_state(consumer).floor_stream);
    rig_pass(SECOND);
    EXPECT_DELIVERY(
        "d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 5~Nats-Last-Stream: 5~Nats-Consumer-Stalled");
}

/* A mirror or source that has more than it was given answers with what it has. */
static void acks_beyond_what_was_delivered(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 2;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 5);
    rig_run();
    rig_skip();
    uint64_t seq;
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 1, rig.now, &seq));
    consumer_begin(consumer, rig.now);
    rig_run();
    rig_skip();
    rig_pass(1001 * NS_PER_MS);
    const char *stalled = strstr(rig_next(), "Stalled: $JS.FC.S.p.");
    CHECK(stalled != NULL);
    bytes_t id = bytes_of(stalled + 20, 4);
    says_it_took(consumer, id, 9, 5);
    CHECK_EQ_U64(0, rig_state(consumer).floor_stream); /* it has not seen what was delivered last */
    rig_run();
    says_it_took(consumer, flow_id(rig_next()), 2, 5);
    CHECK_EQ_U64(2, rig_state(consumer).floor_stream);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.3.3.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.4.4.");
}

static void heartbeat_asks(void) {
    rig_start(0);
    consumer_setup_t setup = acking_setup();
    (void)rig_add(&setup);
    rig_publish("s", "x");
    rig_run();
    rig_skip();
    rig_pass(1001 * NS_PER_MS);
    EXPECT("d <*  | NATS/1.0 100 Idle Heartbeat~Nats-Last-Consumer: 1~Nats-Last-Stream: 1~Leafd-Pending: 0~~");
    (void)flow_id(rig_next());
    EXPECT_NOTHING();
}

static void rate_limit(void) {
    memset(megabyte, 'y', sizeof megabyte - 1);
    rig_start(0);
    rig.quiet = true;
    consumer_setup_t setup = push_setup();
    setup.config.rate_limit_bps = 8 << 20; /* a megabyte a second, after a burst of one */
    (void)rig_add(&setup);
    for (int i = 0; i < 20; i++) rig_publish("s", megabyte);
    rig_run();
    CHECK_EQ_U64(1, rig.deliveries);
    rig_pass(5 * SECOND);
    CHECK_EQ_U64(11, rig.deliveries);
}

static void replay_original(void) {
    rig_start(0);
    int64_t stamps[] = {0, 3, 3, 10};
    for (int i = 0; i < 4; i++) fake_append(rig.stream, "s", "", "x", WALL_START + stamps[i] * SECOND);
    consumer_setup_t setup = push_setup();
    setup.config.replay_policy = 1;
    (void)rig_add(&setup);
    rig_publish("s", "new");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.1.1.");
    EXPECT_NOTHING();
    rig_pass(2900 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(200 * NS_PER_MS);
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.2.2.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.3.3.");
    rig_pass(6800 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(200 * NS_PER_MS);
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.4.4.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.5.5."); /* beyond the end as of the start: at once */
}

static void full_receiver(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    (void)strcpy(rig.full, "d");
    rig.full_after = 2;
    (void)rig_add(&setup);
    rig_publish_many("s", 4);
    rig_run();
    CHECK_EQ_U64(2, rig.deliveries);
    consume_advanced(rig.consume, rig.stream);
    rig_run();
    CHECK_EQ_U64(2, rig.deliveries);
    rig.full[0] = 0;
    consume_unblocked(rig.consume);
    rig_run();
    CHECK_EQ_U64(4, rig.deliveries);
}

static void full_receiver_dies(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    (void)strcpy(rig.full, "d");
    rig.full_after = 1;
    (void)rig_add(&setup);
    rig_publish_many("s", 4);
    rig_run();
    CHECK_EQ_U64(1, rig.deliveries);
    interest("", "");
    rig.full[0] = 0;
    interest("d", "");
    CHECK_EQ_U64(4, rig.deliveries);
    (void)strcpy(rig.full, "d");
    rig.full_after = 0;
    rig_publish("s", "x");
    rig_run();
    rig.full[0] = 0; /* and nobody says that it drained */
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(5, rig.deliveries);
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

static void redelivers(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    setup.config.ack_policy = ACK_EXPLICIT;
    setup.config.ack_wait_ns = SECOND;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 2);
    rig_run();
    rig_ack(consumer, 1, 1, "");
    rig_skip();
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.2.2.3.");
    EXPECT_NOTHING();
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

static void deliver_subject_changes(void) {
    rig_start(0);
    consumer_setup_t setup = push_setup();
    interest("e", "");
    consumer_t *consumer = rig_add(&setup);
    rig_publish("s", "x");
    rig_run();
    EXPECT_NOTHING();
    setup.deliver_subject = text("e");
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    rig_run();
    EXPECT_DELIVERY("e <- s");
}

int main(void) {
    RUN("delivery starts with interest in the deliver subject and stops without it", follows_interest);
    RUN("nothing is delivered before the snapshot after adding", created_before_delivery);
    RUN("a group needs a queue subscription of its name, no group a plain one", groups);
    RUN("a copy over a link has few heartbeats while nothing is owed, and is told of its consumer's end", spared);
    RUN("such a copy is asked how far it is a second after a few kilobytes, a minute after less", asked_though_spared);
    RUN("a copy has few heartbeats while its messages wait for its link", heartbeats_while_it_waits_for_the_link);
    RUN("who comes after such a copy has the heartbeats that are configured", spared_no_longer);
    RUN("a copy that subscribes again gets nothing before it has set its consumer back, and has the answer",
        set_back_before_it_delivers);
    RUN("a heartbeat comes after a whole quiet interval, while there is interest", heartbeats);
    RUN("flow control asks after half of the window, stops above it, and doubles it with each answer", flow_control);
    RUN("ack policy flow_control takes Nats-Last-Stream of an answer as an ack of everything below", flow_control_acks);
    RUN("an answer that tells of more than was delivered is an ack of all that was, if it was seen",
        acks_beyond_what_was_delivered);
    RUN("with acks pending, a heartbeat of ack policy flow_control asks, too", heartbeat_asks);
    RUN("the rate limit holds after a burst", rate_limit);
    RUN("replay original keeps the gaps up to the end as of the start", replay_original);
    RUN("a full receiver stops delivery until it drained", full_receiver);
    RUN("a full receiver that dies, or drains silently, blocks nobody for long", full_receiver_dies);
    RUN("a mirror or source is asked what it has stored, after 16 KB and not each second", a_copy_says_what_it_has);
    RUN("once no more comes it is asked for the rest, for a little of it a minute later, and then no more",
        the_rest_is_asked_for_later);
    RUN("it has not stored what was not delivered, whatever it says", lies_of_a_copy);
    RUN("its heartbeat says how many messages wait", a_copy_hears_what_is_pending);
    RUN("push consumers redeliver after the ack wait", redelivers);
    RUN("a consumer of a mirror or source goes without interest and writes nothing", ephemeral);
    RUN("a changed deliver subject is followed", deliver_subject_changes);
    rig_end();
    return TEST_RESULT();
}
