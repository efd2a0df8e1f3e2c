/* test_consume_put_back.c: the push consumer of a copy that acknowledges, at a store that may have been put back from
 * an old copy of itself (consume/copy.h). Not here: what else such a consumer does (test_consume_copies.c).
 */
#include "consume/private.h"
#include "consume/retention.h"
#include "push_rig.h"

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

/* The answer of a leafd's copy, and the next question, which is a header of these lines behind its first. */
static bytes_t says_it_took_last(consumer_t *consumer, bytes_t id, unsigned seq, const char *lines) {
    char header[160], asked[160];
    (void)snprintf(header, sizeof header,
                   "NATS/1.0\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 5\r\nLeafd-Last-Taken: %u\r\n"
                   "Leafd-Copy: 1\r\n\r\n",
                   seq);
    consumer_flow_reply(consumer, id, text(header), rig.now);
    rig_run();
    if (*lines == 0) return BYTES_NONE;
    const char *line = rig_next();
    bytes_t next = bytes_of(line + strlen("d <* $JS.FC.S.p."), 4);
    (void)snprintf(asked, sizeof asked, "d <* $JS.FC.S.p.%.4s | NATS/1.0 100 FlowControl Request~%s~",
                   (const char *)next.at, lines);
    CHECK_TEXT(asked, line, strlen(line));
    return next;
}

/* It took nine of another store under these sequences: it hears that all behind five is new, and is given nothing
 * before it stands there. Stamps do not matter. */
static void a_copy_that_is_told(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    id = says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    rig_pass(999 * NS_PER_MS);
    EXPECT_NOTHING();
    rig_pass(2 * NS_PER_MS);
    const char *line = rig_next();
    CHECK(strstr(line, "Idle Heartbeat") && strstr(line, "~Leafd-New-Behind: 5~"));
    says_it_took_last(consumer, id, 5, "");
    for (unsigned seq = 6; seq <= 9; seq++) {
        char delivery[64];
        (void)snprintf(delivery, sizeof delivery, "d <- s | $JS.ACK.S.p.1.%u.%u.", seq, seq);
        EXPECT_DELIVERY(delivery);
    }
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
}

/* A crash before the copy has said so, and its store has nine by now: these may be what the copy has. */
static void told_and_started_again(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    (void)says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    rig_restart();
    consumer = rig_load(&setup);
    rig_run();
    id = flow_id(rig_next());
    (void)says_it_took_last(consumer, id, 12, "Leafd-New-Behind: 9~");
    EXPECT_NOTHING();
}

/* A crash behind the first delivery: the start knows that the copy's sixth is this store's. */
static void told_and_given_and_started_again(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(1, &id);
    id = says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    says_it_took_last(consumer, id, 5, "");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    rig_restart();
    consumer = rig_load(&setup);
    rig_run();
    says_it_took_last(consumer, flow_id(rig_next()), 6, "");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.");
}

/* The old copy was made while its hub was away, and then the hub took four more of the same store: none is new. */
static void copied_while_the_hub_was_away(void) {
    bytes_t id;
    (void)begun_again(4, &id);
    consumer_setup_t setup = acking_setup();
    setup.config.max_ack_pending = 5;
    rig_restart();
    consumer_t *consumer = rig_load(&setup);
    rig_run();
    says_it_took_last(consumer, flow_id(rig_next()), 9, "");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
}

/* Its link is lost before it has answered: it is asked anew. */
static void told_and_away(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    (void)says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    interest("", "");
    interest("d", "");
    id = flow_id(rig_next());
    id = says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    says_it_took_last(consumer, id, 5, "");
    EXPECT_DELIVERY("d <- s | $JS.ACK.S.p.1.6.6.");
}

/* A mirror says what it has, and that it takes no other messages at these sequences. */
static void a_mirror_that_is_ahead(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    consumer_flow_reply(consumer, id,
                        text("NATS/1.0\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 5\r\n"
                             "Leafd-Last-Taken: 9\r\n\r\n"),
                        rig.now);
    EXPECT("advisory 9 9 5 0 0 ");
    rig_run();
    EXPECT_NOTHING();
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
}

/* One that stays where it was, whatever it is told, passes over what is new. */
static void a_copy_that_is_told_in_vain(void) {
    bytes_t id;
    consumer_t *consumer = begun_again(4, &id);
    id = says_it_took_last(consumer, id, 9, "Leafd-New-Behind: 5~");
    says_it_took_last(consumer, id, 9, "");
    EXPECT("advisory 9 9 5 0 0 ");
    for (uint64_t seq = 6; seq < 10; seq++) CHECK(rig.stream->messages[seq].there);
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
    RUN("of a store that was put back a copy is not given what it passes over, and that stays", a_copy_that_is_ahead);
    RUN("a copy that has no more than it was given goes on at once", a_copy_that_is_not_ahead);
    RUN("an older leafd's copy is given everything, whatever it says", a_copy_that_notices);
    RUN("a leafd's copy hears behind which sequence all is new, and is given that once it stands there",
        a_copy_that_is_told);
    RUN("a start behind it tells what has come since that start", told_and_started_again);
    RUN("and knows what was given before the crash", told_and_given_and_started_again);
    RUN("or by an old copy that was made while its hub was away", copied_while_the_hub_was_away);
    RUN("a copy whose link was lost meanwhile is told once more", told_and_away);
    RUN("a copy that stays ahead is not given what it passes over", a_copy_that_is_told_in_vain);
    RUN("nor is a mirror, which is ahead by what it has", a_mirror_that_is_ahead);
    RUN("one that does not say how far it is goes on after a minute", a_copy_that_does_not_say);
    RUN("a store that was put back and started twice knows what it has given", started_twice);
    RUN("a copy that was given more by another machine is not given what it passes over", twins);
    RUN("a copy is asked behind the answer to its consumer's reset", asked_behind_the_answer);
    RUN("what a copy has passed over stays when a sweep goes over it", passed_and_swept);
    RUN("and when it was started again since", passed_and_swept_later);
    RUN("what is acknowledged goes, though the consumer is set back before the sweep", set_back_before_the_sweep);
    rig_end();
    return TEST_RESULT();
}
