/* test_consume_push.c: interest, deliver groups, heartbeats, flow control, the rate limit, replay at the original pace.
 */
#include "push_rig.h"

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

static char megabyte[1 << 19];

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

static void goes_when_nobody_listens(void) {
    rig_start(0);
    interest("d", "");
    consumer_setup_t setup = push_setup();
    setup.config.inactive_threshold_ns = 60 * NS_PER_MS;
    (void)rig_add(&setup);
    rig_run();
    rig_pass(SECOND);
    EXPECT_NOTHING();
    interest("", "");
    rig_pass(59 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(2 * NS_PER_MS);
    EXPECT("gone 1 7");
}

int main(void) {
    RUN("delivery starts with interest in the deliver subject and stops without it", follows_interest);
    RUN("nothing is delivered before the snapshot after adding", created_before_delivery);
    RUN("a group needs a queue subscription of its name, no group a plain one", groups);
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
    RUN("push consumers redeliver after the ack wait", redelivers);
    RUN("a changed deliver subject is followed", deliver_subject_changes);
    RUN("one with a short threshold goes when nobody has listened for that long", goes_when_nobody_listens);
    rig_end();
    return TEST_RESULT();
}
