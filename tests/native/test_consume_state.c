/* test_consume_state.c: what a consumer stores, and what it knows after the process was killed and started again. */
#include "consume/state.h"
#include "consume_rig.h"

static uint32_t records(uint32_t kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig.store->record_count; i++) count += rig.store->records[i]->kind == kind;
    return count;
}

static void in_order_writes_no_pending(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    rig_publish_many("s", 500);
    rig.quiet = true;
    for (uint64_t seq = 1; seq <= 500; seq += 10) {
        rig_pull(consumer, "in", "10");
        for (uint64_t i = 0; i < 10; i++) {
            bool answer;
            consumer_ack(consumer, seq + i, seq + i, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
        }
        rig_run();
        CHECK_EQ_U64(0, records(RECORD_CONSUMER_PENDING));
    }
    CHECK_EQ_U64(1 + 50, rig.store->record_writes); /* one for the start, one a batch */
}

static void acks_survive(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 6);
    rig_pull(consumer, "in", "6");
    rig_ack(consumer, 1, 1, "");
    rig_ack(consumer, 4, 4, "");
    CHECK_EQ_U64(2, records(RECORD_CONSUMER_PENDING)); /* 2 and 3; 5 and 6 are above what was acknowledged */
    rig_restart();
    rig_skip();
    consumer = rig_load(&setup);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(1, state.floor_stream);
    CHECK_EQ_U64(2, state.ack_pending);
    CHECK_EQ_U64(2, state.pending);
    rig_pull(consumer, "in", "9");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.5.7.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.6.8.");
    EXPECT_NOTHING();
    CHECK(rig_ack(consumer, 2, 2, ""));
    CHECK(rig_ack(consumer, 4, 4, "")); /* acknowledged before the crash */
    rig_pass(31 * SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.3.9.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.5.10.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.6.11.");
    EXPECT_NOTHING();
}

static void floor_goes_on(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    rig_publish_many("s", 6);
    rig_pull(consumer, "in", "4");
    rig_ack(consumer, 2, 2, "");
    rig_restart(); /* 3 and 4 come again, with new consumer sequences */
    consumer = rig_load(&setup);
    rig_pull(consumer, "in", "4");
    rig_ack(consumer, 1, 1, "");
    CHECK_EQ_U64(2, rig_state(consumer).floor_stream);
    rig_ack(consumer, 3, 5, "");
    CHECK_EQ_U64(3, rig_state(consumer).floor_stream);
    rig_ack(consumer, 5, 7, "");
    rig_ack(consumer, 4, 6, "");
    CHECK_EQ_U64(5, rig_state(consumer).floor_stream);
    CHECK_EQ_U64(7, rig_state(consumer).floor_consumer);
}

static void deliveries_settle(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "3");
    CHECK_EQ_U64(0, records(RECORD_CONSUMER_PENDING));
    rig_pass(1001 * NS_PER_MS);
    CHECK_EQ_U64(3, records(RECORD_CONSUMER_PENDING));
    rig_restart();
    rig_skip();
    consumer = rig_load(&setup);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(3, state.ack_pending);
    CHECK_EQ_U64(3, state.delivered_stream);
    CHECK_EQ_U64(3, state.delivered_consumer);
    CHECK_EQ_U64(0, state.pending);
    rig_pull(consumer, "in", "9");
    EXPECT_NOTHING();
    rig_pass(31 * SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.4.");
}

/* The server hands its lead of the stream over. */
static void settled_at_once(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "3");
    consume_settle(rig.consume, STREAM_ID + 1); /* another stream's */
    consume_flush(rig.consume);
    CHECK_EQ_U64(0, records(RECORD_CONSUMER_PENDING));
    consume_settle(rig.consume, STREAM_ID);
    consume_flush(rig.consume);
    CHECK_EQ_U64(3, records(RECORD_CONSUMER_PENDING));
    rig_restart();
    rig_skip();
    CHECK_EQ_U64(3, rig_state(rig_load(&setup)).ack_pending);
}

static void deliveries_may_repeat(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "3");
    rig_restart();
    rig_skip();
    consumer = rig_load(&setup);
    rig_pull(consumer, "in", "3");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.3.");
}

static void delivery_counts_survive(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_deliver = 3;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 2);
    rig_pull(consumer, "in", "2");
    rig_ack(consumer, 2, 2, "");
    rig_ack(consumer, 1, 1, "-NAK");
    rig_pull(consumer, "in", "1");
    rig_restart();
    rig_skip();
    consumer = rig_load(&setup);
    CHECK_EQ_U64(1, rig_state(consumer).redelivered);
    rig_pull(consumer, "in", "1");
    rig_pass(31 * SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.3.1.");
    rig_pass(31 * SECOND);
    EXPECT("advisory 1 1 1 3 0 ");
    rig_restart();
    rig_skip();
    consumer = rig_load(&setup);
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
    rig_pull(consumer, "in", "{\"batch\":1,\"no_wait\":true}");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~"); /* not delivered a fourth time, nor told again */
    EXPECT_NOTHING();
}

static void orderly_stop_keeps_all(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "2");
    consume_shutdown(rig.consume, rig.now);
    rig_restart();
    consumer = rig_load(&setup);
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(2, state.ack_pending);
    CHECK_EQ_U64(2, state.delivered_consumer);
    CHECK_EQ_U64(1, state.pending);
}

static void waits_survive(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 2);
    rig_pull(consumer, "in", "2");
    rig_ack(consumer, 2, 2, "");
    rig_ack(consumer, 1, 1, "-NAK 1h");
    rig_restart();
    consumer = rig_load(&setup);
    rig_pull(consumer, "in", "1");
    rig_skip();
    rig_pass(3590 * SECOND);
    EXPECT_NOTHING();
    rig_pass(20 * SECOND);
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.3.");
}

static void wall_clock_lost(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1");
    rig_pass(2 * SECOND);
    rig_restart();
    rig.now.wall_ns = 5 * SECOND; /* no clock battery: it is 1970 */
    rig_skip();
    consumer = rig_load(&setup);
    rig_pull(consumer, "in", "1");
    rig_pass(31 * SECOND); /* no longer than one ack wait */
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.2.1.2.");
}

static void selection_survives(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.deliver_policy = DELIVER_LAST_PER_SUBJECT;
    static const char *const subjects[] = {"a", "b", "c", "a", "b"};
    for (int i = 0; i < 5; i++) rig_publish(subjects[i], "x");
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "in", "1");
    EXPECT_DELIVERY("in <- c | $JS.ACK.S.c.1.3.1.");
    rig_ack(consumer, 3, 1, "");
    rig_restart();
    consumer = rig_load(&setup);
    rig_publish("b", "x");
    CHECK_EQ_U64(3, rig_state(consumer).pending);
    rig_pull(consumer, "in", "{\"batch\":9,\"no_wait\":true}");
    EXPECT_DELIVERY("in <- a | $JS.ACK.S.c.1.4.2.");
    EXPECT_DELIVERY("in <- b | $JS.ACK.S.c.1.5.3.");
    EXPECT_DELIVERY("in <- b | $JS.ACK.S.c.1.6.4.");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
}

static void ack_none_is_late(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = ACK_NONE;
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    uint32_t writes = rig.store->record_writes;
    for (int i = 0; i < 20; i++) {
        rig_publish("s", "x");
        rig_pull(consumer, "in", "1");
    }
    CHECK_EQ_U64(writes, rig.store->record_writes);
    rig_pass(1001 * NS_PER_MS);
    CHECK_EQ_U64(writes + 1, rig.store->record_writes);
    rig_restart();
    consumer = rig_load(&setup);
    CHECK_EQ_U64(20, rig_state(consumer).delivered_stream);
    CHECK_EQ_U64(20, rig_state(consumer).floor_stream);
}

static void dirty_has_a_deadline(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1");
    bool answer;
    consumer_ack(consumer, 1, 1, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
    CHECK(consume_next_deadline(rig.consume) <= rig.now.mono_ns);
    rig.store->fail_in = 1;
    consume_flush(rig.consume);
    CHECK(consume_next_deadline(rig.consume) > rig.now.mono_ns); /* refused: not at once again */
    CHECK(consume_next_deadline(rig.consume) <= rig.now.mono_ns + SECOND);
    consume_flush(rig.consume);
    rig_run();
    CHECK(consume_next_deadline(rig.consume) > rig.now.mono_ns);
}

static void some_write_nothing(void) {
    static const uint32_t flags[] = {CONSUMER_MEMORY, CONSUMER_DIRECT};
    for (size_t i = 0; i < 2; i++) {
        rig_start(0);
        consumer_setup_t setup = rig_setup("c");
        setup.config.flags = flags[i];
        consumer_t *consumer = rig_add(&setup);
        rig_publish_many("s", 3);
        rig_pull(consumer, "in", "3");
        rig_ack(consumer, 2, 2, "");
        rig_pass(5 * SECOND);
        consumer_remove(consumer, rig.now);
        rig_run();
        CHECK_EQ_U64(0, rig.store->record_writes);
    }
    rig_start(0);
    rig.stream->config.storage = 1;
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish("s", "x");
    rig_pull(consumer, "in", "1");
    rig_ack(consumer, 1, 1, "");
    CHECK_EQ_U64(0, rig.store->record_writes);
}

static void removal_cleans(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(consumer, "in", "3");
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(4, rig.store->record_count);
    /* the store is in the middle of it when we hear that: the record goes later */
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 1));
    rig_run();
    CHECK_EQ_U64(2, records(RECORD_CONSUMER_PENDING));
    consumer_remove(consumer, rig.now);
    CHECK_EQ_U64(0, rig.store->record_count);
}

static void refused_writes(void) {
    for (uint32_t nth = 1; nth <= 8; nth++) {
        rig_start(0);
        consumer_setup_t setup = rig_setup("c");
        consumer_t *consumer = rig_add(&setup);
        rig_run();
        rig_publish_many("s", 6);
        rig_pull(consumer, "in", "6");
        rig.store->fail_in = nth; /* the n-th record write fails, the next flush makes good */
        rig_ack(consumer, 6, 6, "");
        rig_ack(consumer, 3, 3, "");
        rig_run();
        rig_restart();
        consumer = rig_load(&setup);
        consumer_state_t state = rig_state(consumer);
        CHECK(state.ack_pending >= 4); /* nothing unacknowledged is ever forgotten */
        CHECK(state.ack_pending <= 5);
        CHECK_EQ_U64(0, state.pending);
    }
}

static void newer_version(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    (void)rig_add(&setup);
    rig_run();
    CHECK_EQ_U64(1, rig.store->record_count);
    rig.store->records[0]->value[0] = 3;
    rig_restart();
    consumer_t *consumer;
    CHECK_EQ_I64(STATUS_VERSION, consumer_add(rig.consume, rig.stream, &setup, true, rig.now, &consumer));
    CHECK(consumer == NULL);
    CHECK_EQ_U64(0, consume_count(rig.consume));
    rig.store->records[0]->value[0] = 2; /* whose size is another one */
    CHECK_EQ_I64(STATUS_CORRUPT, consumer_add(rig.consume, rig.stream, &setup, true, rig.now, &consumer));
    rig.store->records[0]->value[0] = 1;
    rig.store->records[0]->value_size--;
    CHECK_EQ_I64(STATUS_CORRUPT, consumer_add(rig.consume, rig.stream, &setup, true, rig.now, &consumer));
}

static void floor_beyond_the_end(consumer_t *consumer) {
    consumer->floor_stream = consumer->delivered_stream + 1;
}

static void floor_beyond_what_was_sent(consumer_t *consumer) {
    consumer->floor_consumer = consumer->next_sequence;
}

static void more_in_flight_than_there_was(consumer_t *consumer) {
    consumer->delivered_stream = consumer->floor_stream;
    consumer->pending.count = (uint32_t)consumer->delivered_stream + 1;
}

static void contradictions_stay_in_memory(void) {
    void (*const faults[])(consumer_t *) = {floor_beyond_the_end, floor_beyond_what_was_sent,
                                            more_in_flight_than_there_was};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        rig_start(0);
        consumer_setup_t setup = rig_setup("c");
        consumer_t *consumer = rig_add(&setup);
        rig_publish_many("s", 6);
        rig_pull(consumer, "in", "6");
        rig_ack(consumer, 1, 1, "");
        CHECK_EQ_U64(0, rig.stream->stopped_by);
        uint32_t writes = rig.store->record_writes;
        faults[i](consumer);
        state_dirty(consumer);
        consume_flush(rig.consume);
        CHECK_EQ_U64(CONSUMER_ID, rig.stream->stopped_by);
        CHECK_EQ_U64(writes, rig.store->record_writes);
        rig_restart();
        consumer = rig_load(&setup);
        CHECK_EQ_U64(1, rig_state(consumer).floor_stream);
    }
}

int main(void) {
    RUN("messages acknowledged in order never get a pending record, one state a batch", in_order_writes_no_pending);
    RUN("after a crash everything acknowledged is acknowledged, whatever the order was", acks_survive);
    RUN("after a crash the floor goes on although the consumer is never idle", floor_goes_on);
    RUN("what is in flight for a second is known after a crash", deliveries_settle);
    RUN("what is in flight is known at once where that is asked for", settled_at_once);
    RUN("a delivery that was not settled is repeated after a crash", deliveries_may_repeat);
    RUN("delivery counts and exhausted messages survive", delivery_counts_survive);
    RUN("an orderly stop keeps everything", orderly_stop_keeps_all);
    RUN("a delayed -NAK keeps its delay over a restart", waits_survive);
    RUN("a wall clock that fell back makes no wait longer", wall_clock_lost);
    RUN("a half delivered selection of last messages goes on", selection_survives);
    RUN("without acks the position is written once a second, not once a delivery", ack_none_is_late);
    RUN("what waits to be written is a deadline, so that nobody sleeps over it", dirty_has_a_deadline);
    RUN("memory consumers, those of mirrors and those of memory streams write nothing", some_write_nothing);
    RUN("deleted messages and removed consumers leave no records", removal_cleans);
    RUN("a record write that fails is made good by the next flush", refused_writes);
    RUN("a newer or damaged record is refused, not misread", newer_version);
    RUN("a position that contradicts itself is not written, and stops its stream", contradictions_stay_in_memory);
    rig_end();
    return TEST_RESULT();
}
