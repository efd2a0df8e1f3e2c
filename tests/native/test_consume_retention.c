/* test_consume_retention.c: what interest and work queue streams remove, and what they keep. */
#include "push_rig.h"

#define INTEREST 1
#define WORK_QUEUE 2

static consumer_t *named(const char *name, const char *filter, uint8_t ack_policy) {
    static bytes_t filters[8];
    consumer_setup_t setup = rig_setup(name);
    setup.id += (uint8_t)name[0];
    setup.config.ack_policy = ack_policy;
    if (filter[0]) {
        filters[0] = text(filter);
        setup.filters = (filters_t){.patterns = filters, .count = 1};
    }
    return rig_add(&setup);
}

static uint64_t stored(void) {
    stream_state_t state;
    store_stream_state(rig.stream, &state);
    return state.messages;
}

static void all_must_ack(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT), *b = named("b", "", ACK_EXPLICIT);
    rig_publish_many("s", 2);
    rig_pull(a, "in", "2");
    rig_ack(a, 1, 1, "");
    rig_ack(a, 2, 2, "+TERM");
    CHECK_EQ_U64(2, stored());
    rig_pull(b, "in", "2");
    rig_ack(b, 2, 2, "");
    CHECK_EQ_U64(1, stored());
    rig_ack(b, 1, 1, "-NAK");
    CHECK_EQ_U64(1, stored());
    rig_ack(b, 1, 1, "");
    CHECK_EQ_U64(0, stored());
}

static void filters_share(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "s.>", ACK_EXPLICIT), *b = named("b", "s.b", ACK_EXPLICIT);
    rig_publish("s.a", "x");
    rig_publish("s.b", "x");
    rig_pull(a, "in", "2");
    rig_ack(a, 1, 1, "");
    rig_ack(a, 2, 2, "");
    CHECK(!rig.stream->messages[1].there);
    CHECK(rig.stream->messages[2].there);
    rig_pull(b, "in", "1");
    rig_ack(b, 2, 1, "");
    CHECK_EQ_U64(0, stored());
}

static void ack_none_counts_delivery(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_NONE), *b = named("b", "", ACK_EXPLICIT);
    rig_publish_many("s", 2);
    rig_pull(b, "in", "2");
    rig_ack(b, 1, 1, "");
    rig_ack(b, 2, 2, "");
    CHECK_EQ_U64(2, stored());
    rig_pull(a, "in", "2");
    CHECK_EQ_U64(0, stored());
}

static void ack_all_releases_the_range(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_ALL);
    rig_publish_many("s", 3000);
    rig.quiet = true;
    consumer_setup_t setup = *consumer_setup(a);
    setup.config.max_ack_pending = -1;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(a, &setup, rig.now));
    rig_pull(a, "in", "3000");
    bool answer;
    consumer_ack(a, 2999, 2999, 1, BYTES_NONE, BYTES_NONE, rig.now, &answer);
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    CHECK(again); /* in steps */
    CHECK(stored() > 1);
    rig_run();
    CHECK_EQ_U64(1, stored());
}

static void removal_reviews(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT), *b = named("b", "", ACK_EXPLICIT);
    rig_publish_many("s", 3);
    rig_pull(a, "in", "3");
    rig_ack(a, 2, 2, "");
    CHECK_EQ_U64(3, stored());
    consumer_remove(b, rig.now);
    rig_run();
    CHECK_EQ_U64(2, stored());
    consumer_remove(a, rig.now);
    rig_run();
    CHECK_EQ_U64(0, stored());
}

static void filter_change_reviews(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    rig_publish("s.a", "x");
    rig_publish("s.b", "x");
    bytes_t filter = text("s.b");
    consumer_setup_t setup = *consumer_setup(a);
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    CHECK_EQ_I64(STATUS_OK, consumer_configure(a, &setup, rig.now));
    rig_run();
    CHECK(!rig.stream->messages[1].there);
    CHECK(rig.stream->messages[2].there);
}

static void reset_past_messages(void) {
    uint64_t seq;
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT), *b = named("b", "", ACK_EXPLICIT);
    rig_publish_many("s", 6);
    rig_pull(b, "in", "2");
    rig_ack(b, 1, 1, "");
    rig_ack(b, 2, 2, "");
    CHECK_EQ_I64(STATUS_OK, consumer_reset(a, 5, rig.now, &seq));
    rig_run();
    CHECK_EQ_U64(4, stored()); /* b wants 3 and 4 */
    CHECK_EQ_I64(STATUS_OK, consumer_reset(b, 5, rig.now, &seq));
    rig_run();
    CHECK_EQ_U64(2, stored());
    CHECK_EQ_I64(STATUS_OK, consumer_reset(a, 100, rig.now, &seq));
    CHECK_EQ_I64(STATUS_OK, consumer_reset(b, 100, rig.now, &seq));
    rig_run();
    CHECK_EQ_U64(2, stored()); /* as in the reference, where it ends beyond the last message */
}

static void exhausted_stays(void) {
    rig_start(INTEREST);
    consumer_setup_t setup = rig_setup("a");
    setup.config.max_deliver = 1;
    setup.config.ack_wait_ns = SECOND;
    consumer_t *a = rig_add(&setup), *b = named("b", "", ACK_EXPLICIT);
    rig_publish("s", "x");
    rig_pull(a, "in", "1");
    rig_pass(2 * SECOND);
    rig_pull(b, "in", "1");
    rig_ack(b, 1, 1, "");
    CHECK_EQ_U64(1, stored());
    consumer_remove(b, rig.now);
    rig_run();
    CHECK_EQ_U64(1, stored());
    consumer_remove(a, rig.now);
    rig_run();
    CHECK_EQ_U64(0, stored());
}

static void direct_does_not_count(void) {
    rig_start(INTEREST);
    consumer_setup_t setup = rig_setup("m");
    setup.config.flags = CONSUMER_PUSH | CONSUMER_DIRECT;
    setup.config.ack_policy = ACK_NONE;
    setup.deliver_subject = text("d");
    consumer_t *mirror = rig_add(&setup);
    CHECK(!consume_wanted(rig.consume, STREAM_ID, text("s")));
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    CHECK(consume_wanted(rig.consume, STREAM_ID, text("s")));
    rig_publish("s", "x");
    rig_run();
    CHECK_EQ_U64(1, stored());
    consumer_remove(mirror, rig.now);
    rig_run();
    CHECK_EQ_U64(1, stored());
    rig_pull(a, "in", "1");
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(0, stored());
}

static void work_queue(void) {
    rig_start(WORK_QUEUE);
    consumer_t *a = named("a", "s.a", ACK_EXPLICIT), *b = named("b", "s.b", ACK_EXPLICIT);
    rig_publish("s.a", "x");
    rig_publish("s.b", "x");
    rig_publish("s.a", "x");
    rig_pull(a, "in", "2");
    rig_pull(b, "in", "2");
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(2, stored());
    rig_ack(b, 2, 1, "+TERM");
    CHECK_EQ_U64(1, stored());
    consumer_remove(a, rig.now);
    consumer_remove(b, rig.now);
    rig_run();
    CHECK_EQ_U64(1, stored()); /* removing a consumer removes nothing */
}

/* Of a source that acknowledges by flow control: what it was sent before its filters changed is its own, too. */
static void filter_change_before_an_ack(void) {
    rig_start(WORK_QUEUE);
    bytes_t filters[2] = {text("s.a"), text("s.b")};
    consumer_setup_t setup = acking_setup();
    setup.filters = (filters_t){.patterns = filters, .count = 2};
    consumer_t *a = rig_add(&setup);
    rig_publish("s.a", "x");
    rig_publish("s.b", "x");
    rig_publish("s.c", "x");
    rig_run();
    rig_skip();
    rig_pass(1001 * NS_PER_MS);
    EXPECT_DELIVERY("d <*  | NATS/1.0 100 Idle Heartbeat");
    bytes_t asked = flow_id(rig_next());
    setup.filters = (filters_t){.patterns = &filters[1], .count = 1};
    CHECK_EQ_I64(STATUS_OK, consumer_configure(a, &setup, rig.now));
    says_it_took(a, asked, 2, 2);
    rig_run();
    CHECK(!rig.stream->messages[1].there);
    CHECK(!rig.stream->messages[2].there);
    CHECK(rig.stream->messages[3].there);
}

static void limits_stream(void) {
    rig_start(0);
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    rig_publish("s", "x");
    rig_pull(a, "in", "1");
    rig_ack(a, 1, 1, "");
    consumer_remove(a, rig.now);
    rig_run();
    CHECK_EQ_U64(1, stored());
}

static void interrupted_sweep(void) {
    rig_start(INTEREST);
    consumer_setup_t setup = rig_setup("k");
    consumer_t *keeps = rig_add(&setup);
    bytes_t filter = text("k");
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    consumer_t *b = named("b", "", ACK_EXPLICIT);
    CHECK_EQ_I64(STATUS_OK, consumer_configure(keeps, &setup, rig.now));
    rig_run();
    rig_publish_many("s", 1500);
    rig_publish("k", "x");
    consumer_remove(b, rig.now);
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    consume_flush(rig.consume);
    CHECK(stored() > 100);
    rig_restart();
    (void)rig_load(&setup);
    rig_run();
    CHECK(stored() > 100); /* other consumers may still be on their way */
    rig_pass(6 * SECOND);
    CHECK_EQ_U64(1, stored());
    CHECK(rig.stream->messages[1501].there);
    rig_run();
    bytes_t value;
    static const uint8_t key[] = {0, 0, 0, STREAM_ID, 0xff, 0xff, 0xff, 0xff};
    CHECK_EQ_I64(ENTRY_NONE, store_record_get(rig.store, RECORD_CONSUMER_STATE, bytes_of(key, sizeof key), &value));
}

static void full_store(uint8_t retention) {
    rig_start(retention);
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    rig_publish_many("s", 3);
    rig_pull(a, "in", "3");
    rig.store->full = true;
    rig_ack(a, 1, 1, "");
    rig_ack(a, 3, 3, "");
    rig_pass(SECOND);
    CHECK_EQ_U64(3, stored());
    rig.store->full = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(1, stored()); /* what nobody acknowledged */
    CHECK(rig.stream->messages[2].there);
    rig_ack(a, 2, 2, "");
    CHECK_EQ_U64(0, stored());
    CHECK(consume_next_deadline(rig.consume) > rig.now.mono_ns + SECOND); /* it no longer tries */
}

static void full_store_interest(void) {
    full_store(INTEREST);
}

static void full_store_work_queue(void) {
    full_store(WORK_QUEUE);
}

static void full_store_sweep(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    rig_publish_many("s", 1000);
    rig.store->full = true;
    consumer_remove(a, rig.now);
    rig_pass(SECOND);
    CHECK_EQ_U64(1000, stored());
    rig.store->full = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(0, stored());
}

/* A consumer with all of three messages delivered and settled, the first one acknowledged while the store was full;
 * then the process dies. */
static consumer_t *die_full(uint32_t fail_in) {
    rig_start(WORK_QUEUE);
    consumer_setup_t setup = rig_setup("a");
    consumer_t *a = rig_add(&setup);
    rig_publish_many("s", 3);
    rig_pull(a, "in", "3");
    rig_pass(2 * SECOND);
    rig.store->full = true;
    rig.store->fail_in = fail_in;
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(3, stored());
    rig_restart();
    rig.store->full = false;
    rig.store->fail_in = 0;
    return rig_load(&setup);
}

static void full_store_restart(void) {
    consumer_t *a = die_full(0);
    rig_pass(10 * SECOND);
    CHECK_EQ_U64(2, stored());
    CHECK(!rig.stream->messages[1].there);
    rig_ack(a, 2, 2, "");
    CHECK_EQ_U64(1, stored());
}

static void full_store_no_record(void) {
    consumer_t *a = die_full(1); /* the range could not be written */
    rig_pass(10 * SECOND);
    CHECK_EQ_U64(3, stored());
    CHECK_EQ_U64(3, rig_state(a).ack_pending);
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(2, stored());
}

/* Of both consumers that wait for it, with as many others as there are to be. */
static void damaged_among(uint32_t others) {
    rig_start(INTEREST);
    consumer_setup_t setup = rig_setup("o");
    bytes_t filter = text("other");
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    for (uint32_t i = 0; i < others; i++) {
        setup.id = 1000 + i;
        (void)rig_add(&setup);
    }
    consumer_t *a = named("a", "s.>", ACK_EXPLICIT), *b = named("b", "s.>", ACK_EXPLICIT);
    rig_publish_many("s.a", 2);
    rig_pull(a, "in", "2");
    rig_pull(b, "in", "2");
    rig.stream->messages[1].damaged = true;
    rig_ack(a, 1, 1, "");
    CHECK_EQ_U64(2, stored());
    rig_ack(b, 1, 1, "");
    rig_run();
    if (others == 0) CHECK_EQ_U64(1, stored());
    CHECK(rig.stream->messages[2].there);
}

static void damaged_is_kept_for_others(void) {
    damaged_among(0);
    damaged_among(20); /* of which some have not come to it */
}

/* So many are acknowledged when no filter matches them any more, and the store takes no deletion. */
static consumer_t *owe(uint32_t count, consumer_setup_t *setup) {
    static bytes_t filters[2];
    filters[0] = text("s.a");
    filters[1] = text("s.b");
    rig_start(WORK_QUEUE);
    *setup = rig_setup("a");
    setup->filters = (filters_t){.patterns = filters, .count = 1};
    consumer_t *a = rig_add(setup);
    rig_publish_many("s.a", (int)count + 1);
    rig_pull(a, "in", "100");
    rig_pass(2 * SECOND);
    setup->filters.patterns = filters + 1;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(a, setup, rig.now));
    rig.store->full = true;
    for (uint64_t seq = count; seq > 0; seq--) rig_ack(a, seq, seq, "");
    CHECK_EQ_U64(count + 1, stored());
    return a;
}

static void owed_ones_go(void) {
    consumer_setup_t setup;
    (void)owe(50, &setup);
    rig.store->full = false;
    rig_pass(SECOND);
    CHECK_EQ_U64(1, stored()); /* which was not acknowledged */
    CHECK(rig.stream->messages[51].there);
}

static void owed_ones_go_after_a_crash(void) {
    consumer_setup_t setup;
    (void)owe(50, &setup);
    rig_restart();
    rig.store->full = false;
    (void)rig_load(&setup);
    rig_pass(10 * SECOND);
    CHECK_EQ_U64(1, stored());
    CHECK(rig.stream->messages[51].there);
}

static void wants_of_the_missing(void) {
    rig_start(INTEREST);
    consumer_t *a = named("a", "", ACK_EXPLICIT);
    rig_publish_many("s", 2);
    rig_pull(a, "in", "2");
    rig.stream->config.flags |= STREAM_LACKS_CONSUMERS;
    rig_ack(a, 1, 1, "");
    rig_pass(SECOND);
    CHECK_EQ_U64(2, stored());
    rig.stream->config.flags = 0;
    consume_judge(rig.consume, STREAM_ID, 1);
    rig_pass(SECOND);
    CHECK_EQ_U64(1, stored());
    CHECK(rig.stream->messages[2].there);
}

int main(void) {
    RUN("an interest stream removes a message when every consumer acknowledged it", all_must_ack);
    RUN("a consumer whose filter does not match holds nothing back", filters_share);
    RUN("for a consumer without acks delivery is enough", ack_none_counts_delivery);
    RUN("an ack of everything below removes the range, in bounded steps", ack_all_releases_the_range);
    RUN("removing a consumer removes what only it held, removing the last one empties the stream", removal_reviews);
    RUN("a changed filter removes what nobody wants any more", filter_change_reviews);
    RUN("a consumer that is reset past messages gives them up", reset_past_messages);
    RUN("a message that used up its deliveries stays while its consumer is there", exhausted_stays);
    RUN("consumers of mirrors and sources are no interest", direct_does_not_count);
    RUN("a work queue removes on ack or TERM, and nothing when a consumer goes", work_queue);
    RUN("a range that is acknowledged goes whole, also where the filters have changed", filter_change_before_an_ack);
    RUN("a limits stream removes nothing on acks", limits_stream);
    RUN("a removal that a crash interrupted is finished after the start", interrupted_sweep);
    RUN("an acknowledged message that a full store kept goes when there is room (interest)", full_store_interest);
    RUN("an acknowledged message that a full store kept goes when there is room (work queue)", full_store_work_queue);
    RUN("a sweep that met a full store goes on where it was", full_store_sweep);
    RUN("an acknowledged message that a full store kept goes after a crash, too", full_store_restart);
    RUN("nothing is removed by interest while stored consumers are not served", wants_of_the_missing);
    RUN("a damaged message stays while a consumer may want it", damaged_is_kept_for_others);
    RUN("what was acknowledged under an earlier filter goes when there is room, however many", owed_ones_go);
    RUN("so it does after a crash", owed_ones_go_after_a_crash);
    RUN("an ack is not written before what it has to remove is, so that a crash repeats it", full_store_no_record);
    rig_end();
    return TEST_RESULT();
}
