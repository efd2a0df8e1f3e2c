/* test_consume_start.c: where a consumer starts by its policy, filters, and the exactness of its counts. */
#include <time.h>

#include "consume_rig.h"

static consumer_t *starting(uint8_t policy, uint64_t seq, int64_t ts, bytes_t *filters, uint32_t count) {
    consumer_setup_t setup = rig_setup("c");
    setup.id += (uint32_t)consume_count(rig.consume);
    setup.config.deliver_policy = policy;
    setup.config.opt_start_seq = seq;
    setup.config.opt_start_ts = ts;
    setup.filters = (filters_t){.patterns = filters, .count = count};
    return rig_add(&setup);
}

static void expect_start(consumer_t *consumer, uint64_t delivered, uint64_t pending) {
    consumer_state_t state = rig_state(consumer);
    CHECK_EQ_U64(delivered, state.delivered_stream);
    CHECK_EQ_U64(delivered, state.floor_stream);
    CHECK_EQ_U64(pending, state.pending);
    CHECK_EQ_U64(0, state.delivered_consumer);
}

/* s.1 s.2 s.0 s.1 s.2 s.0 s.1 s.2 s.0 s.1 */
static void ten_messages(void) {
    for (int i = 1; i <= 10; i++) {
        char subject[8];
        (void)snprintf(subject, sizeof subject, "s.%d", i % 3);
        rig_publish(subject, "x");
    }
}

static void policies(void) {
    bytes_t s9 = BYTES_LITERAL("s.9"), s2 = BYTES_LITERAL("s.2"), both[] = {BYTES_LITERAL("s.1"), BYTES_LITERAL("s.2")};
    rig_start(0);
    ten_messages();
    expect_start(starting(DELIVER_ALL, 0, 0, NULL, 0), 0, 10);
    expect_start(starting(DELIVER_LAST, 0, 0, NULL, 0), 9, 1);
    expect_start(starting(DELIVER_LAST, 0, 0, &s2, 1), 7, 1);
    expect_start(starting(DELIVER_LAST, 0, 0, both, 2), 9, 1);
    expect_start(starting(DELIVER_LAST, 0, 0, &s9, 1), 0, 0);
    expect_start(starting(DELIVER_NEW, 0, 0, NULL, 0), 10, 0);
    expect_start(starting(DELIVER_BY_START_SEQUENCE, 4, 0, &s2, 1), 3, 2);
    expect_start(starting(DELIVER_BY_START_SEQUENCE, 100, 0, NULL, 0), 99, 0);
    expect_start(starting(DELIVER_BY_START_TIME, 0, WALL_START + 4, NULL, 0), 3, 7);
    expect_start(starting(DELIVER_BY_START_TIME, 0, INT64_MAX, NULL, 0), 10, 0);
    expect_start(starting(DELIVER_LAST_PER_SUBJECT, 0, 0, both, 2), 7, 2);
    expect_start(starting(DELIVER_LAST_PER_SUBJECT, 0, 0, &s9, 1), 9, 0);
}

static void empty_stream(void) {
    for (uint8_t policy = DELIVER_ALL; policy <= DELIVER_LAST_PER_SUBJECT; policy++) {
        rig_start(0);
        consumer_t *consumer = starting(policy, 0, WALL_START, NULL, 0);
        expect_start(consumer, 0, 0);
        rig_publish_many("s", 2);
        CHECK_EQ_U64(2, rig_state(consumer).pending);
        rig_pull(consumer, "in", "5");
        EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.1.1.");
        EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.2.");
    }
}

static void future_start(void) {
    rig_start(0);
    consumer_t *consumer = starting(DELIVER_BY_START_SEQUENCE, 3, 0, NULL, 0);
    rig_pull(consumer, "in", "5");
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_NOTHING();
    CHECK_EQ_U64(0, rig_state(consumer).pending);
    rig_publish("s", "x");
    rig_run();
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.3.1.");
}

static void last_per_subject(void) {
    bytes_t all = BYTES_LITERAL("s.*");
    rig_start(0);
    ten_messages();
    consumer_t *consumer = starting(DELIVER_LAST_PER_SUBJECT, 0, 0, &all, 1);
    expect_start(consumer, 7, 3);
    rig_publish("s.1", "x"); /* 11: replaces nothing that was selected, comes after it */
    CHECK_EQ_U64(4, rig_state(consumer).pending);
    rig_pull(consumer, "in", "1");
    EXPECT("in <- s.2 | $JS.ACK.S.c.1.8.1.1700000000000000008.3 |  | x");
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 9));
    CHECK_EQ_U64(2, rig_state(consumer).pending);
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 2)); /* not selected */
    CHECK_EQ_U64(2, rig_state(consumer).pending);
    rig_pull(consumer, "in", "5");
    EXPECT("in <- s.1 | $JS.ACK.S.c.1.10.2.1700000000000000010.1 |  | x");
    EXPECT("in <- s.1 | $JS.ACK.S.c.1.11.3.1700000000000000011.0 |  | x");
    EXPECT_NOTHING();
}

static void filters(void) {
    bytes_t two[] = {BYTES_LITERAL("a.*"), BYTES_LITERAL("b.>")};
    rig_start(0);
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, two, 2);
    rig_publish("a.1", "x");
    rig_publish("a.1.2", "x");
    rig_publish("c", "x");
    rig_publish("b.1.2", "x");
    CHECK_EQ_U64(2, rig_state(consumer).pending);
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true}");
    EXPECT("in <- a.1 | $JS.ACK.S.c.1.1.1.1700000000000000001.1 |  | x");
    EXPECT("in <- b.1.2 | $JS.ACK.S.c.1.4.2.1700000000000000004.0 |  | x");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    CHECK(consume_wanted(rig.consume, STREAM_ID, text("b.x")));
    CHECK(!consume_wanted(rig.consume, STREAM_ID, text("b")));
    CHECK(!consume_wanted(rig.consume, STREAM_ID + 1, text("b.x")));
}

/* Each message that is stored asks every consumer of its stream. */
static void thousands_of_filters(void) {
    static char texts[30000][16];
    static bytes_t many[30000];
    for (uint32_t i = 0; i < 30000; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "f.%u", i);
        many[i] = text(texts[i]);
    }
    rig_start(0);
    subject_set_t set = subject_set_make(many, 30000);
    consumer_setup_t setup = rig_setup("c");
    setup.filters = (filters_t){.patterns = set.at, .count = set.count, .sorted = set.sorted};
    consumer_t *consumer = rig_add(&setup);
    CHECK_EQ_U64(0, rig_state(consumer).pending);
    clock_t start = clock();
    for (uint32_t i = 0; i < 5000; i++) CHECK(!consume_wanted(rig.consume, STREAM_ID, text("f.none")));
    CHECK(consume_wanted(rig.consume, STREAM_ID, text("f.29999")));
    CHECK((clock() - start) / CLOCKS_PER_SEC < 1);
}

static void rare_matches(void) {
    bytes_t rare = BYTES_LITERAL("rare");
    rig_start(0);
    rig_publish_many("often", 20000);
    rig_publish("rare", "x");
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, &rare, 1);
    consumer_pull(consumer, text("in"), text("1"), rig.now);
    bool again;
    consume_tick(rig.consume, rig.now, &again);
    CHECK(again); /* one tick does not pass over them all */
    EXPECT_NOTHING();
    rig_run();
    EXPECT_DELIVERY("in <- rare | $JS.ACK.S.c.1.20001.1.");
}

static void deletions_count(void) {
    rig_start(0);
    rig_publish_many("s", 5);
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, NULL, 0);
    rig_pull(consumer, "in", "2");
    rig_skip();
    CHECK_EQ_U64(3, rig_state(consumer).pending);
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 4));
    CHECK_EQ_U64(2, rig_state(consumer).pending);
    rig_pull(consumer, "in", "5");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.3.3.1700000000000000003.1");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.5.4.1700000000000000005.0");
}

static void tell_purged(const char *filter, uint64_t left) {
    store_hooks_t hooks = consume_store_hooks(rig.consume);
    hooks.purged(hooks.context, rig.stream, bytes_of((const uint8_t *)filter, (uint32_t)strlen(filter)), left);
}

static void purge_moves_on(void) {
    rig_start(0);
    rig_publish_many("s", 40);
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, NULL, 0);
    for (uint64_t seq = 1; seq <= 40; seq++) CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, seq));
    expect_start(consumer, 0, 0);
    tell_purged("", 41);
    expect_start(consumer, 40, 0);
}

/* s.1 s.2 s.3 around and around: where a consumer is after a purge of `purged`, of which the first that stays is 8. */
static uint64_t moved_to(const char *purged, const char *filter, const char *other) {
    bytes_t filters[2] = {bytes_of((const uint8_t *)filter, (uint32_t)strlen(filter))};
    rig_start(0);
    for (int i = 0; i < 9; i++) (void)rig_publish(i % 3 == 0 ? "s.1" : i % 3 == 1 ? "s.2" : "s.3", "x");
    if (other) filters[1] = bytes_of((const uint8_t *)other, (uint32_t)strlen(other));
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, filter[0] ? filters : NULL, filter[0] ? other ? 2 : 1 : 0);
    CHECK_EQ_I64(STATUS_OK, store_delete(rig.stream, 1)); /* so the stream begins with 2 */
    tell_purged(purged, 8);
    return rig_state(consumer).delivered_stream;
}

/* Expected: nats-server 2.15.1 */
static void purges_of_some(void) {
    CHECK_EQ_U64(7, moved_to("s.2", "s.2", NULL));
    CHECK_EQ_U64(7, moved_to("s.*", "s.2", NULL));
    CHECK_EQ_U64(7, moved_to("s.*", "s.1", "s.2"));
    CHECK_EQ_U64(1, moved_to("s.2", "s.1", "s.2"));
    CHECK_EQ_U64(1, moved_to("s.2", "s.*", NULL));
    CHECK_EQ_U64(1, moved_to("s.2", "", NULL));
    CHECK_EQ_U64(0, moved_to("s.2", "s.1", NULL));
    CHECK_EQ_U64(0, moved_to("s.2", "s.1", "s.3"));
}

static void counts_heal(void) {
    rig_start(0);
    rig_publish_many("s", 2);
    consumer_t *consumer = starting(DELIVER_ALL, 0, 0, NULL, 0);
    CHECK_EQ_U64(2, rig_state(consumer).pending);
    rig.stream->messages[1].there = false; /* as a corrupt one: stepped over, never reported as removed */
    rig_pull(consumer, "in", "{\"batch\":5,\"no_wait\":true}");
    EXPECT_DELIVERY("in <- s | $JS.ACK.S.c.1.2.1.");
    EXPECT("in <*  | NATS/1.0 404 No Messages~~");
    CHECK_EQ_U64(0, rig_state(consumer).pending);
    fake_message_free(&rig.stream->messages[1]);
}

static void filter_update(void) {
    bytes_t one = BYTES_LITERAL("s.1"), two = BYTES_LITERAL("s.2");
    rig_start(0);
    ten_messages();
    consumer_setup_t setup = rig_setup("c");
    setup.filters = (filters_t){.patterns = &one, .count = 1};
    consumer_t *consumer = rig_add(&setup);
    CHECK_EQ_U64(4, rig_state(consumer).pending);
    setup.filters.patterns = &two;
    CHECK_EQ_I64(STATUS_OK, consumer_configure(consumer, &setup, rig.now));
    CHECK_EQ_U64(3, rig_state(consumer).pending);
    rig_pull(consumer, "in", "1");
    EXPECT_DELIVERY("in <- s.2 | $JS.ACK.S.c.1.2.1.");
}

/* Its creation is answered when what is left for it has been counted: nobody can ask for anything before. */
static void counting_is_no_inactivity(void) {
    rig_start(0);
    rig_publish_many("s", 2);
    rig.stream->tally_steps = 3;
    consumer_setup_t setup = rig_setup("e");
    setup.config.inactive_threshold_ns = 5 * SECOND;
    consumer_t *consumer = rig_add(&setup);
    consumer_await(consumer);
    CHECK(!consumer_counted(consumer));
    rig_pass(60 * SECOND);
    EXPECT_NOTHING();
    while (!consumer_counted(consumer)) {
    }
    rig_pass(4 * SECOND);
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT("gone 1 7");
}

int main(void) {
    RUN("each deliver policy starts where nats-server starts, with the exact number pending", policies);
    RUN("an empty stream starts at 1 whatever the policy", empty_stream);
    RUN("a start sequence in the future is waited for", future_start);
    RUN("last per subject delivers the newest of each subject, then what comes", last_per_subject);
    RUN("several filters select together", filters);
    RUN("thirty thousand filters cost a message little more than one", thousands_of_filters);
    RUN("a filter that passes over many messages gives way to others", rare_matches);
    RUN("deleted messages leave the count of pending ones", deletions_count);
    RUN("a purge moves on a consumer that delivers nothing, what goes otherwise does not", purge_moves_on);
    RUN("a purge of some subjects moves on whom it took something from, and how far depends on what else they want",
        purges_of_some);
    RUN("a count that a corrupt message made wrong is right again at the end of the stream", counts_heal);
    RUN("changed filters are counted anew", filter_update);
    rig_end();
    RUN("an ephemeral's inactivity begins when its creation is answered, however long counting takes",
        counting_is_no_inactivity);
    return TEST_RESULT();
}
