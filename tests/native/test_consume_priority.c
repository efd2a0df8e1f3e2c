/* test_consume_priority.c: which pull requests are served where a consumer has priority groups: overflow, prioritized
 * and pinned clients; and that many who wait do not slow down those who are served. What they look like on the wire is
 * in tests/wire/jetstream/priority-*.wire. */
#include "consume_rig.h"
#include "consume/private.h"

#define NAMES 16
#define TIMEOUT (120 * SECOND)

static consumer_t *a_consumer(uint32_t policy) {
    consumer_setup_t setup = rig_setup("c");
    setup.priority_groups = text("A B");
    setup.config.priority_policy = policy;
    setup.config.priority_timeout_ns = TIMEOUT;
    return rig_add(&setup);
}

static void pinned_line(char *line, size_t size, const consumer_t *consumer, const char *group) {
    bytes_t id = consumer_pin_id(consumer);
    CHECK_EQ_U64(PIN_ID_SIZE, id.size);
    (void)snprintf(line, size, "advisory %d 0 0 0 0 %s %.*s", ADVISORY_PINNED, group, (int)id.size,
                   (const char *)id.at);
}

#define EXPECT_PINNED(consumer, group)                                                                                 \
    do {                                                                                                               \
        char line[80];                                                                                                 \
        pinned_line(line, sizeof line, consumer, group);                                                               \
        EXPECT(line);                                                                                                  \
    } while (0)

static void ask_with_pin(consumer_t *consumer, const char *inbox, const char *id) {
    char body[96];
    (void)snprintf(body, sizeof body, "{\"batch\":1,\"group\":\"A\",\"id\":\"%s\"}", id);
    rig_pull(consumer, inbox, body);
}

static void current_pin(const consumer_t *consumer, char id[PIN_ID_SIZE + 1]) {
    memcpy(id, consumer_pin_id(consumer).at, PIN_ID_SIZE);
    id[PIN_ID_SIZE] = 0;
}

/* ---- overflow ---------------------------------------------------------------------------------------------------- */

static void overflow_by_pending(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_OVERFLOW);
    rig_pull(consumer, "late", "{\"batch\":9,\"group\":\"A\",\"min_pending\":3}");
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_NOTHING();
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_DELIVERY("late <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("late <- s | $JS.ACK.S.c.1.2.2");
    EXPECT_NOTHING(); /* two are left, and it wants three */
}

static void overflow_by_unacknowledged(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_OVERFLOW);
    rig_publish_many("s", 6);
    rig_pull(consumer, "help", "{\"batch\":9,\"group\":\"A\",\"min_ack_pending\":2}");
    EXPECT_NOTHING();
    rig_pull(consumer, "main", "{\"batch\":9,\"group\":\"A\"}");
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.2.2");
    EXPECT_DELIVERY("help <- s | $JS.ACK.S.c.1.3.3"); /* in the same turn */
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.4.4");
    EXPECT_DELIVERY("help <- s | $JS.ACK.S.c.1.5.5");
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.6.6");
    EXPECT_NOTHING();
}

static void overflow_when_more_comes(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_OVERFLOW);
    rig_pull(consumer, "late", "{\"batch\":9,\"group\":\"A\",\"min_pending\":3}");
    rig_pull(consumer, "main", "{\"batch\":99,\"group\":\"A\"}");
    rig_publish_many("s", 1);
    rig_run();
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.1.1");
    rig_publish_many("s", 3);
    rig_run();
    EXPECT_DELIVERY("late <- s | $JS.ACK.S.c.1.2.2");
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.3.3");
    EXPECT_DELIVERY("main <- s | $JS.ACK.S.c.1.4.4");
}

static void overflow_no_wait(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_OVERFLOW);
    rig_publish_many("s", 1);
    rig_pull(consumer, "late", "{\"batch\":1,\"group\":\"A\",\"min_pending\":3,\"no_wait\":true}");
    EXPECT("late <*  | NATS/1.0 404 No Messages~~");
    CHECK_EQ_U64(0, rig_state(consumer).waiting);
}

/* ---- prioritized ------------------------------------------------------------------------------------------------- */

static struct {
    uint32_t level[NAMES], left[NAMES];
    uint64_t asked[NAMES]; /* when it came to its place, 0 = it does not wait */
    bool full[NAMES], skipped[NAMES];
    uint64_t clock, offers;
} model;

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % bound;
}

/* The plain rule: the lowest level, and among equals who has waited longest since it was served. */
static uint32_t best(void) {
    uint32_t found = NAMES;
    for (uint32_t i = 0; i < NAMES; i++) {
        if (!model.asked[i] || model.skipped[i]) continue;
        bool better = found == NAMES || model.level[i] < model.level[found]
                      || (model.level[i] == model.level[found] && model.asked[i] < model.asked[found]);
        if (better) found = i;
    }
    return found;
}

static delivered_t receive_in_order(bytes_t to) {
    uint32_t name = best();
    char expected[8];
    (void)snprintf(expected, sizeof expected, "r%u", name);
    CHECK_TEXT(expected, to.at, to.size);
    if (name == NAMES) return DELIVERED;
    model.offers++;
    if (model.full[name]) {
        model.skipped[name] = true;
        if (best() == NAMES) memset(model.skipped, 0, sizeof model.skipped);
        return DELIVERED_FULL;
    }
    model.asked[name] = --model.left[name] > 0 ? ++model.clock : 0;
    return DELIVERED;
}

static void prioritized_step(consumer_t *consumer) {
    uint32_t who = random_below(NAMES);
    memset(model.skipped, 0, sizeof model.skipped);
    if (random_below(3) > 0 && !model.asked[who]) {
        model.level[who] = random_below(LEVELS);
        model.left[who] = 1 + random_below(4);
        model.asked[who] = ++model.clock;
        char inbox[8], body[64];
        (void)snprintf(inbox, sizeof inbox, "r%u", who);
        (void)snprintf(body, sizeof body, "{\"batch\":%u,\"group\":\"B\",\"priority\":%u}", model.left[who],
                       model.level[who]);
        if (model.level[who] == LEVELS - 1) (void)snprintf(body, sizeof body, "%u", model.left[who]);
        consumer_pull(consumer, text(inbox), text(body), rig.now);
    } else if (random_below(3) > 0) {
        rig_publish_many("s", 1);
    } else {
        model.full[who] = !model.full[who];
        consume_unblocked(rig.consume);
    }
    rig_run();
}

static void prioritized_duel(void) {
    uint64_t offers = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        rig_start(0);
        memset(&model, 0, sizeof model);
        random_state = seed;
        consumer_t *consumer = a_consumer(PRIORITY_PRIORITIZED);
        consumer->setup.config.max_ack_pending = -1;
        rig.quiet = true;
        rig.receive = receive_in_order;
        for (int i = 0; i < 1000; i++) prioritized_step(consumer);
        offers += model.offers;
    }
    CHECK(offers > 10000);
}

static void policy_changes_with_requests_waiting(void) {
    rig_start(0);
    consumer_setup_t setup = rig_setup("c");
    consumer_t *consumer = rig_add(&setup);
    rig_pull(consumer, "nine", "{\"batch\":1,\"priority\":9}");
    rig_pull(consumer, "one", "{\"batch\":1,\"priority\":1}");
    setup.priority_groups = text("A");
    setup.config.priority_policy = PRIORITY_PRIORITIZED;
    CHECK(consumer_configure(consumer, &setup, rig.now) == STATUS_OK);
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("nine <- s | $JS.ACK.S.c.1.2.2");
}

/* ---- pinned clients ---------------------------------------------------------------------------------------------- */

static void first_is_pinned(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    rig_pull(consumer, "one", "{\"batch\":2,\"group\":\"B\"}");
    rig_pull(consumer, "two", "{\"batch\":9,\"group\":\"A\"}");
    rig_publish_many("s", 3);
    rig_run();
    EXPECT_PINNED(consumer, "B");
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.2.2");
    EXPECT_NOTHING();
    ask_with_pin(consumer, "three", "somebody");
    EXPECT("three <*  | NATS/1.0 423 Nats-Pin-Id mismatch~~");
    char id[PIN_ID_SIZE + 1];
    current_pin(consumer, id);
    ask_with_pin(consumer, "one", id);
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.3.3");
    EXPECT_NOTHING();
}

static void pin_times_out(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    rig_pull(consumer, "one", "{\"batch\":1,\"group\":\"A\"}");
    rig_pull(consumer, "two", "{\"batch\":1,\"group\":\"B\"}");
    rig_publish_many("s", 2);
    rig_run();
    EXPECT_PINNED(consumer, "A");
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.1.1");
    rig_ack(consumer, 1, 1, "+ACK");
    char id[PIN_ID_SIZE + 1];
    current_pin(consumer, id);
    rig_pass(TIMEOUT - SECOND);
    ask_with_pin(consumer, "one", id); /* which keeps the pin */
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.2.2");
    rig_ack(consumer, 2, 2, "+ACK");
    rig_pass(TIMEOUT - SECOND);
    rig_publish_many("s", 1);
    rig_run();
    EXPECT_NOTHING();
    rig_pass(2 * SECOND);
    EXPECT("advisory 7 0 0 0 0 A");
    EXPECT_PINNED(consumer, "B");
    EXPECT_DELIVERY("two <- s | $JS.ACK.S.c.1.3.3");
    ask_with_pin(consumer, "one", id);
    EXPECT("one <*  | NATS/1.0 423 Nats-Pin-Id mismatch~~");
}

static void unpinned(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    rig_pull(consumer, "one", "{\"batch\":9,\"group\":\"A\"}");
    rig_publish_many("s", 1);
    rig_run();
    EXPECT_PINNED(consumer, "A");
    EXPECT_DELIVERY("one <- s | $JS.ACK.S.c.1.1.1");
    CHECK(rig_state(consumer).pinned_ts > 0);
    consumer_unpin(consumer, rig.now);
    CHECK_EQ_U64(0, consumer_pin_id(consumer).size);
    CHECK(rig_state(consumer).pinned_ts == 0);
    rig_pull(consumer, "two", "{\"batch\":1,\"group\":\"A\"}");
    rig_publish_many("s", 1);
    rig_run();
    EXPECT("one <*  | NATS/1.0 423 Nats-Wrong-Pin-Id~Nats-Pending-Messages: 8~Nats-Pending-Bytes: 0~~");
    EXPECT_PINNED(consumer, "A");
    EXPECT_DELIVERY("two <- s | $JS.ACK.S.c.1.2.2");
}

static void nobody_is_pinned_in_vain(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    rig.interest[0][0] = 0;
    (void)strcpy(rig.interest[1], "here");
    consumer_pull(consumer, text("gone"), text("{\"batch\":1,\"group\":\"A\"}"), rig.now);
    consumer_pull(consumer, text("here"), text("{\"batch\":1,\"group\":\"A\",\"max_bytes\":3}"), rig.now);
    consumer_pull(consumer, text("here"), text("{\"batch\":1,\"group\":\"A\"}"), rig.now);
    rig_publish_many("s", 1);
    rig_run();
    EXPECT("here <*  | NATS/1.0 409 Message Size Exceeds MaxBytes~Nats-Pending-Messages: 1~Nats-Pending-Bytes: 3~~");
    EXPECT_PINNED(consumer, "A");
    EXPECT_DELIVERY("here <- s | $JS.ACK.S.c.1.1.1");
    EXPECT_NOTHING();
}

static void plain_number_pins_nobody(void) {
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    rig_pull(consumer, "plain", "1");
    rig_publish_many("s", 1);
    rig_run();
    EXPECT_DELIVERY("plain <- s | $JS.ACK.S.c.1.1.1");
    CHECK_EQ_U64(0, consumer_pin_id(consumer).size);
}

static void one_pinned_among_many(void) {
    const uint32_t waiting = 500, messages = 2000;
    rig_start(0);
    consumer_t *consumer = a_consumer(PRIORITY_PINNED);
    consumer->setup.config.max_ack_pending = -1;
    rig.quiet = true;
    consumer_pull(consumer, text("pinned"), text("{\"batch\":100000,\"group\":\"A\"}"), rig.now);
    for (uint32_t i = 0; i < waiting; i++)
        consumer_pull(consumer, text("other"), text("{\"batch\":1,\"group\":\"A\"}"), rig.now);
    rig_publish_many("s", (int)messages);
    rig_run();
    CHECK_EQ_U64(messages, rig.deliveries);
    CHECK_EQ_U64(waiting + messages, consumer->pull->requests.steps);
}

int main(void) {
    RUN("overflow: a request is served while as many messages are pending as it names", overflow_by_pending);
    RUN("overflow: a request is served from the message on that as many are unacknowledged as it names",
        overflow_by_unacknowledged);
    RUN("overflow: a request that waits is served when enough has come, also while another one has taken all before",
        overflow_when_more_comes);
    RUN("overflow: a request that does not want to wait for that is told at once", overflow_no_wait);
    RUN("prioritized: requests are served as the plain rule says, whoever is full", prioritized_duel);
    RUN("a change of policy sorts the requests that wait", policy_changes_with_requests_waiting);
    RUN("pinned: the first client that is served is, and nobody else", first_is_pinned);
    RUN("pinned: a client that does not pull for the timeout is pinned no longer", pin_times_out);
    RUN("pinned: an unpinned client's requests end, and the next client is pinned", unpinned);
    RUN("pinned: who does not listen, or cannot take the message, is not pinned", nobody_is_pinned_in_vain);
    RUN("pinned: a request that names no group gets its message and pins nobody", plain_number_pins_nobody);
    RUN("one pinned client among many that wait is found at once, for each message", one_pinned_among_many);
    rig_end();
    return TEST_RESULT();
}
