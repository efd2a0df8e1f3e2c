/* test_consume_copies.c: the push consumers of mirrors and sources: few heartbeats over a link, what a copy has stored,
 * how many messages wait. Not here: push consumers of clients (test_consume_push.c).
 */
#include "consume/private.h"
#include "consume/retention.h"
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

/* A copy has stored five messages of a work queue when the store ends; then the store begins again, and so many more
 * come before anybody has said how far the copy is. */
static consumer_t *begun_again(int more, bytes_t *id) {
    rig_start(2);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 5);
    rig_run();
    for (int i = 0; i < 5; i++) EXPECT_DELIVERY("d <- s");
    says_it_took(consumer, flow_id(rig_next()), 5, 5);
    rig_run();
    CHECK(!rig.stream->messages[5].there);
    rig_restart();
    consumer = rig_load(&setup);
    rig_publish_many("s", more);
    rig_run();
    *id = flow_id(rig_next());
    EXPECT_NOTHING();
    return consumer;
}

/* The store was put back: the copy has nine of it. What has their sequences now is not given to the copy, which would
 * acknowledge it unseen. */
static void a_copy_that_is_ahead(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    says_it_took(consumer, id, 9, 9);
    EXPECT("advisory 9 9 5 0 0 ");
    rig_run();
    EXPECT_NOTHING();
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.10.10.");
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    says_it_took(consumer, flow_id(rig_next()), 10, 10);
    rig_run();
    CHECK(!rig.stream->messages[10].there);
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
    CHECK_EQ_U64(10, rig_state(consumer).floor_stream);
}

static void a_copy_that_is_not_ahead(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(2, &id);
    says_it_took(consumer, id, 5, 5);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.7.7.");
    EXPECT_NOTHING();
}

/* It is given everything, as it sees by the stamps what is new. */
static void a_copy_that_notices(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(1, &id);
    consumer_flow_reply(consumer, id,
                        text("NATS/1.0\r\nNats-Last-Consumer: 9\r\nNats-Last-Stream: 9\r\nLeafd-Copy: 1\r\n\r\n"),
                        rig.now);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
}

/* One whose acknowledgements remove messages has a minute. */
static void a_copy_that_does_not_say(void) {
    bytes_t id;
    (void)begun_again(1, &id);
    rig_pass(59 * SECOND);
    int deliveries = 0;
    for (const char *line = rig_next(); *line; line = rig_next()) deliveries += strstr(line, "$JS.ACK.") != NULL;
    CHECK_EQ_U64(0, (uint64_t)deliveries);
    rig_pass(2 * SECOND);
    for (const char *line = rig_next(); *line; line = rig_next()) {
        deliveries += strstr(line, "$JS.ACK.S.p.1.6.6.") != NULL;
    }
    CHECK_EQ_U64(1, (uint64_t)deliveries);
}

/* Four more were stored before another start. Nobody was given them. */
static void started_twice(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    interest("", "");
    rig_run();
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    rig_restart();
    consumer = rig_load(&setup);
    interest("d", "");
    rig_run();
    says_it_took(consumer, flow_id(rig_next()), 9, 9);
    EXPECT("advisory 9 9 5 0 0 ");
    rig_run();
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
}

/* Another machine with the same copy of the store has given it more meanwhile. */
static void twins(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(2, &id);
    says_it_took(consumer, id, 5, 5);
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.7.7.");
    interest("", "");
    rig_publish_many("s", 3);
    interest("d", "");
    rig_run();
    says_it_took(consumer, flow_id(rig_next()), 9, 9);
    EXPECT("advisory 9 9 7 0 0 ");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.10.10.");
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
}

/* Its creation is answered first; then it is asked, and only then given anything. */
static void asked_behind_the_answer(void) {
    bytes_t id;
    uint64_t at;
    consumer_t *consumer = begun_again(4, &id);
    CHECK(consumer_reset(consumer, 0, rig.now, &at) == STATUS_OK);
    rig_run();
    EXPECT_NOTHING();
    consumer_begin(consumer, rig.now);
    rig_run();
    id = flow_id(rig_next());
    EXPECT_NOTHING();
    says_it_took(consumer, id, 0, 9);
    EXPECT("advisory 9 9 5 0 0 ");
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.10.1.");
}

/* What was passed lies between two ranges that are acknowledged: one sweep goes over all of it. */
static void passed_and_swept(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    says_it_took(consumer, id, 9, 9);
    rig_run();
    retention_acked_range(consumer, 1, 5);
    retention_acked_range(consumer, 9, 9);
    rig_run();
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
}

/* The same after another start: a sweep for another consumer of the stream goes over what the copy has passed. */
static void passed_and_swept_later(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    says_it_took(consumer, id, 9, 9);
    rig_run();
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    for (int start = 0; start < 2; start++) {
        rig_restart();
        consumer = rig_load(&setup);
        rig_run();
        retention_acked_range(consumer, 1, 9);
        rig_run();
        for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
    }
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(store_delete_any(rig.stream, seq) == STATUS_OK);
    rig_restart();
    consumer = rig_load(&setup);
    CHECK_EQ_U64(0, consumer->push.told.passed_upto);
}

static void set_back_before_the_sweep(void) {
    rig_start(2);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 5);
    rig_run();
    for (int i = 0; i < 5; i++) EXPECT_DELIVERY("d <- s");
    uint64_t at;
    says_it_took(consumer, flow_id(rig_next()), 5, 5);
    CHECK(rig.stream->messages[1].there);
    CHECK(consumer_reset(consumer, 1, rig.now, &at) == STATUS_OK);
    rig_run();
    for (uint64_t seq = 1; seq <= 5; seq++) CHECK(!rig.stream->messages[seq].there);
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
    RUN("of a store that was put back a copy is not given what it passes over, and that stays", a_copy_that_is_ahead);
    RUN("a copy that has no more than it was given goes on at once", a_copy_that_is_not_ahead);
    RUN("a leafd's copy is given everything, whatever it says", a_copy_that_notices);
    RUN("one that does not say how far it is goes on after a minute", a_copy_that_does_not_say);
    RUN("a store that was put back and started twice knows what it has given", started_twice);
    RUN("a copy that was given more by another machine is not given what it passes over", twins);
    RUN("a copy is asked behind the answer to its consumer's reset", asked_behind_the_answer);
    RUN("what a copy has passed over stays when a sweep goes over it", passed_and_swept);
    RUN("and when it was started again since", passed_and_swept_later);
    RUN("what is acknowledged goes, though the consumer is set back before the sweep", set_back_before_the_sweep);
    RUN("a consumer of a mirror or source goes without interest and writes nothing", ephemeral);
    rig_end();
    return TEST_RESULT();
}
