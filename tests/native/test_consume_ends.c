/* test_consume_ends.c: however many wait at a consumer, no turn goes over more of them than visits.h allows, whatever
 * ends: a consumer, its stream, its requests' time, its messages' ack waits. */
#include "base/visits.h"

#include "consume_rig.h"

#define MANY 19000 /* more than a turn may visit, and than the rig has lines for */

_Static_assert(MANY > VISITS_A_TURN_MAX, "one turn may not do all of it");
_Static_assert(MANY < RIG_LINES_MAX, "the rig writes down each of them");

/* The rest of a turn in which something ended, and then one turn after the other until all is quiet. */
static void turns_within(uint64_t visits) {
    uint32_t turns = 0;
    for (bool again = true; again && turns < 1000; turns++) {
        consume_tick(rig.consume, rig.now, &again);
        CHECK(visits_take() <= visits);
        rig.now.mono_ns++; /* what is due right after this turn */
        again = again || consume_next_deadline(rig.consume) <= rig.now.mono_ns;
        consume_flush(rig.consume);
        fake_invalidate(rig.store);
    }
    CHECK(turns > 1 && turns < 1000);
}

static consumer_t *waited_for(const char *request) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_waiting = MANY;
    consumer_t *consumer = rig_add(&setup);
    rig_run();
    for (uint32_t i = 0; i < MANY; i++) consumer_pull(consumer, text("in"), text(request), rig.now);
    rig_run();
    CHECK_EQ_U64(MANY, rig_state(consumer).waiting);
    (void)visits_take();
    return consumer;
}

static void all_were_told(const char *line) {
    for (uint32_t i = 0; i < MANY; i++) EXPECT(line);
    EXPECT_NOTHING();
    CHECK_EQ_U64(0, rig.memory.used);
}

static void a_deleted_consumer(void) {
    consumer_remove(waited_for("{\"batch\":1}"), rig.now);
    CHECK(consume_find(rig.consume, STREAM_ID, CONSUMER_ID) == NULL);
    EXPECT("in <*  | NATS/1.0 409 Consumer Deleted~~");
    rig.line_next = 0;
    turns_within(VISITS_AN_END_MAX);
    all_were_told("in <*  | NATS/1.0 409 Consumer Deleted~~");
}

static void one_of_its_name_meanwhile(void) {
    consumer_remove(waited_for("{\"batch\":1}"), rig.now);
    consumer_t *consumer = rig_add_plain();
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
    rig.quiet = true;
    rig_publish("s", "x");
    rig_run();
    CHECK_EQ_U64(0, rig.deliveries);
    rig_pull(consumer, "in", "1");
    CHECK_EQ_U64(1, rig.deliveries);
}

static void a_deleted_stream(void) {
    (void)waited_for("{\"batch\":1}");
    consume_stream_removed(rig.consume, STREAM_ID, rig.now);
    CHECK(consume_find(rig.consume, STREAM_ID, CONSUMER_ID) == NULL);
    turns_within(VISITS_AN_END_MAX);
    all_were_told("in <*  | NATS/1.0 409 Consumer Deleted~~");
}

static void a_stream_with_many_consumers(void) {
    rig_start(0);
    for (uint32_t i = 0; i < 5000; i++) {
        consumer_setup_t setup = rig_setup("c");
        setup.id = i + 1;
        (void)rig_add(&setup);
    }
    rig_run();
    (void)visits_take();
    consume_stream_removed(rig.consume, STREAM_ID, rig.now);
    CHECK_EQ_U64(0, consume_count(rig.consume));
    CHECK(visits_take() <= VISITS_A_TURN_MAX);
}

static void requests_whose_time_is_over(void) {
    consumer_t *consumer = waited_for("{\"batch\":1,\"expires\":5000000000}");
    rig.now.mono_ns += 6 * SECOND;
    turns_within(VISITS_AN_END_MAX);
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
    for (uint32_t i = 0; i < MANY; i++)
        EXPECT("in <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 1~Nats-Pending-Bytes: 0~~");
    EXPECT_NOTHING();
}

/* While a look at all of them is under way, others come: their time is kept, too. */
static void requests_that_come_meanwhile(void) {
    consumer_t *consumer = waited_for("{\"batch\":1,\"expires\":5000000000}");
    rig.now.mono_ns += 6 * SECOND;
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    CHECK(rig_state(consumer).waiting > 0);
    consumer_pull(consumer, text("late"), text("{\"batch\":1,\"expires\":2000000000}"), rig.now);
    rig_pass(SECOND);
    CHECK_EQ_U64(1, rig_state(consumer).waiting);
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
    for (uint32_t i = 0; i < MANY; i++) (void)rig_next();
    EXPECT("late <*  | NATS/1.0 408 Request Timeout~Nats-Pending-Messages: 1~Nats-Pending-Bytes: 0~~");
    EXPECT_NOTHING();
}

static void a_server_that_stops(void) {
    (void)waited_for("{\"batch\":1}");
    consume_shutdown(rig.consume, rig.now);
    all_were_told("in <*  | NATS/1.0 409 Server Shutdown~Nats-Pending-Messages: 1~Nats-Pending-Bytes: 0~~");
}

static consumer_t *unacknowledged_by(uint8_t policy) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = MANY;
    setup.config.ack_policy = policy;
    consumer_t *consumer = rig_add(&setup);
    rig.quiet = true;
    rig_publish_many("s", MANY);
    rig_pull(consumer, "in", "100000");
    CHECK_EQ_U64(MANY, rig_state(consumer).ack_pending);
    (void)visits_take();
    return consumer;
}

static consumer_t *unacknowledged(void) {
    return unacknowledged_by(ACK_EXPLICIT);
}

static void ack_waits_that_are_over(void) {
    consumer_t *consumer = unacknowledged();
    rig.now.mono_ns += 31 * SECOND;
    turns_within(VISITS_A_TURN_MAX);
    CHECK_EQ_U64(2 * MANY, rig.deliveries);
    CHECK_EQ_U64(MANY, rig_state(consumer).redelivered);
}

/* What is acknowledged, refused or put off between two steps of the look does not mislead it. */
static void acknowledgements_meanwhile(void) {
    consumer_t *consumer = unacknowledged();
    bool answer, again;
    consumer_ack(consumer, MANY, MANY, 1, text("-NAK {\"delay\": 60000000000}"), BYTES_NONE, rig.now, &answer);
    rig.now.mono_ns += 31 * SECOND;
    consume_tick(rig.consume, rig.now, &again);
    for (uint64_t seq = 1; seq < MANY; seq++)
        consumer_ack(consumer, seq, seq, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
    rig.deliveries = 0;
    rig_pass(28 * SECOND);
    CHECK_EQ_U64(0, rig.deliveries);
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(1, rig.deliveries);
}

static void a_consumer_set_back(void) {
    consumer_t *consumer = unacknowledged();
    uint64_t seq;
    CHECK_EQ_I64(STATUS_OK, consumer_reset(consumer, 1, rig.now, &seq));
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
    CHECK(visits_take() <= VISITS_A_TURN_MAX);
    turns_within(VISITS_A_TURN_MAX);
    CHECK_EQ_U64(1, rig_state(consumer).floor_stream + 1);
}

static void acknowledge_nearly_all(consumer_t *consumer) {
    bool answer;
    consumer_ack(consumer, MANY - 1, MANY - 1, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
}

/* It counts at once: none of them comes again, not after a crash between two steps either. */
static void all_acknowledged_together(void) {
    for (int settled = 0; settled < 2; settled++) {
        consumer_t *consumer = unacknowledged_by(ACK_ALL);
        if (settled) rig_pass(2 * SECOND);
        (void)visits_take();
        acknowledge_nearly_all(consumer);
        CHECK(visits_take() <= VISITS_A_TURN_MAX);
        CHECK_EQ_U64(MANY - 1, rig_state(consumer).floor_stream);
        CHECK(rig_state(consumer).ack_pending > 1);
        consume_flush(rig.consume); /* which stores none of them first */
        CHECK(visits_take() <= VISITS_AN_END_MAX);
        fake_invalidate(rig.store);
        turns_within(VISITS_AN_END_MAX);
        CHECK_EQ_U64(1, rig_state(consumer).ack_pending);
        CHECK_EQ_U64(MANY - 1, rig_state(consumer).floor_consumer);
        rig.deliveries = 0;
        rig_pass(31 * SECOND); /* its request is still open */
        CHECK_EQ_U64(1, rig.deliveries);
    }
}

static void a_crash_between_two_steps(void) {
    consumer_t *consumer = unacknowledged_by(ACK_ALL);
    rig_pass(2 * SECOND);
    acknowledge_nearly_all(consumer);
    consume_flush(rig.consume);
    CHECK(rig_state(consumer).ack_pending > 1);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = MANY;
    setup.config.ack_policy = ACK_ALL;
    rig_restart();
    rig.quiet = true;
    consumer = rig_load(&setup);
    CHECK_EQ_U64(1, rig_state(consumer).ack_pending);
    rig.deliveries = 0;
    rig_pull(consumer, "in", "100000");
    rig_pass(31 * SECOND);
    CHECK_EQ_U64(1, rig.deliveries);
}

/* Whatever was delivered and not acknowledged is stored: with each flush some, as soon as there are very many. */
static void deliveries_that_are_stored(void) {
    (void)unacknowledged();
    rig.now.mono_ns += 2 * SECOND;
    turns_within(VISITS_AN_END_MAX);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = MANY;
    rig_restart();
    consumer_t *consumer = rig_load(&setup);
    CHECK_EQ_U64(MANY, rig_state(consumer).ack_pending);
    CHECK_EQ_U64(0, rig_state(consumer).pending);
}

/* While publishers wait for room, so do they; what is acknowledged does not. */
static void deliveries_that_leave_room(void) {
    consumer_t *consumer = unacknowledged();
    rig.store->busy = true;
    for (uint32_t i = 0; i < 3; i++) rig_pass(SECOND);
    uint32_t before = rig.store->record_writes;
    for (uint32_t i = 0; i < 3; i++) rig_pass(SECOND);
    CHECK_EQ_U64(before, rig.store->record_writes);
    bool answer;
    consumer_ack(consumer, 2, 2, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
    consume_flush(rig.consume);
    CHECK(rig.store->record_writes > before);
    rig.store->busy = false;
    rig.now.mono_ns += SECOND;
    turns_within(VISITS_AN_END_MAX);
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = MANY;
    rig_restart();
    CHECK_EQ_U64(MANY - 1, rig_state(rig_load(&setup)).ack_pending);
}

static void refused_and_then_put_off(void) {
    consumer_t *consumer = unacknowledged();
    bool answer;
    for (uint64_t seq = 1; seq <= MANY; seq++)
        consumer_ack(consumer, seq, seq, 1, text("-NAK"), BYTES_NONE, rig.now, &answer);
    for (uint64_t seq = MANY; seq > 1; seq--)
        consumer_ack(consumer, seq, seq, 1, text("-NAK 1s"), BYTES_NONE, rig.now, &answer);
    for (uint64_t seq = 2; seq < MANY; seq += 2)
        consumer_ack(consumer, seq, seq, 1, text("-NAK"), BYTES_NONE, rig.now, &answer);
    rig.deliveries = 0;
    rig_pull(consumer, "in", "100000");
    CHECK_EQ_U64(MANY / 2, rig.deliveries);
    rig_pass(2 * SECOND);
    CHECK_EQ_U64(MANY, rig.deliveries);
}

static void used_up_and_refused(void) {
    consumer_t *consumer = unacknowledged();
    consumer_setup_t setup = rig_setup("c");
    setup.config.max_ack_pending = MANY;
    setup.config.max_deliver = 1;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    bool answer;
    for (uint64_t seq = 1; seq <= MANY; seq++)
        consumer_ack(consumer, seq, seq, 1, text("-NAK"), BYTES_NONE, rig.now, &answer);
    (void)visits_take();
    consumer_pull(consumer, text("in"), text("10"), rig.now);
    turns_within(VISITS_A_TURN_MAX);
    CHECK_EQ_U64(0, rig_state(consumer).ack_pending);
}

static void told_where_to_deliver_again(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    setup.config.flags |= CONSUMER_PUSH;
    setup.config.max_ack_pending = MANY;
    setup.deliver_subject = text("there");
    rig.quiet = true;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", MANY);
    rig_run();
    CHECK_EQ_U64(MANY, rig.deliveries);
    (void)visits_take();
    setup.deliver_subject = text("elsewhere");
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    CHECK(visits_take() <= VISITS_A_TURN_MAX);
    turns_within(VISITS_A_TURN_MAX);
    rig_run();
    CHECK_EQ_U64(2 * MANY, rig.deliveries);
}

/* The messages go before all of their rows do: nobody may hear that they were not acknowledged. The floor stays. */
static void acknowledged_together_and_removed(void) {
    rig_start(1); /* kept while there is interest */
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = ACK_ALL;
    setup.config.max_ack_pending = -1;
    consumer_t *consumer = rig_add(&setup);
    rig_publish_many("s", MANY);
    rig.quiet = true;
    consumer_pull(consumer, text("in"), text("{\"batch\":19000}"), rig.now);
    rig_run();
    CHECK_EQ_U64(MANY, rig.deliveries);
    rig.quiet = false;
    (void)visits_take();
    bool answer;
    consumer_ack(consumer, MANY - 1, MANY - 1, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
    CHECK_EQ_U64(MANY - 1, rig_state(consumer).floor_stream);
    turns_within(VISITS_A_TURN_MAX);
    EXPECT_NOTHING();
    stream_state_t state;
    store_stream_state(rig.stream, &state);
    CHECK_EQ_U64(1, state.messages);
    CHECK_EQ_U64(MANY - 1, rig_state(consumer).floor_stream);
    CHECK_EQ_U64(MANY - 1, rig_state(consumer).floor_consumer);
    CHECK_EQ_U64(1, rig_state(consumer).ack_pending);
}

int main(void) {
    RUN("a consumer that many requests wait at is gone at once, and they are told in steps", a_deleted_consumer);
    RUN("another one of its name has none of its requests", one_of_its_name_meanwhile);
    RUN("so it is with a stream that is deleted", a_deleted_stream);
    RUN("many consumers leave with their stream, each found at once", a_stream_with_many_consumers);
    RUN("requests whose time is over are told in steps", requests_whose_time_is_over);
    RUN("a request that comes between two of these steps keeps its time", requests_that_come_meanwhile);
    RUN("a server that stops tells all requests before it is gone", a_server_that_stops);
    RUN("messages whose ack wait is over are queued again in steps", ack_waits_that_are_over);
    RUN("acknowledgements between two of these steps count", acknowledgements_meanwhile);
    RUN("a consumer is set back without a look at each of its messages", a_consumer_set_back);
    RUN("acknowledging all before a message counts at once, and they are removed in steps", all_acknowledged_together);
    RUN("messages that go since all were acknowledged are told of as nothing else, and the floor stays",
        acknowledged_together_and_removed);
    RUN("after a crash between two of these steps none of them comes again", a_crash_between_two_steps);
    RUN("deliveries that are not acknowledged are stored in steps", deliveries_that_are_stored);
    RUN("they are not while the store has no room, where an acknowledgement is", deliveries_that_leave_room);
    RUN("messages that are refused, and then put off, come each once, when they are due", refused_and_then_put_off);
    RUN("refused messages that used up their deliveries are passed over in steps", used_up_and_refused);
    RUN("a new deliver subject gets all that is pending, in steps", told_where_to_deliver_again);
    rig_end();
    return TEST_RESULT();
}
