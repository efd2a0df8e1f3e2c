/* test_consume_concern.c: the index of filters against asking every consumer: what each has left is the same. */
#include "base/random.h"
#include "base/visits.h"
#include "consume_rig.h"
#include "text/subject.h"

#define CONSUMERS 120u
#define MESSAGES 1500u
#define FILTERS 3u

typedef struct twin {
    consumer_t *consumer;
    char filters[FILTERS][48];
    bytes_t patterns[FILTERS];
    uint32_t count;
    uint64_t left;
} twin_t;

static twin_t twins[CONSUMERS];
static char subjects[MESSAGES][48];
static uint32_t published;
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t below(uint32_t bound) {
    return (uint32_t)(random_next(&state) >> 33) % bound;
}

/* One to four tokens of few, so that many match; the first one keeps filters of a consumer apart. */
static void draw(char to[48], uint32_t first, bool wild) {
    static const char *const tokens[] = {"a", "b", "plant", "7", "*x", ">y"};
    int size = 0;
    uint32_t count = 1 + below(4);
    for (uint32_t i = 0; i < count; i++) {
        bool star = wild && below(4) == 0, rest = wild && i > 0 && i + 1 == count && below(3) == 0;
        const char *token = rest ? ">" : star ? "*" : tokens[below(6)];
        if (i == 0 && first < 6) token = tokens[first];
        size += snprintf(to + size, (size_t)(48 - size), "%s%s", i > 0 ? "." : "", token);
    }
}

static bool takes(const twin_t *twin, const char *subject) {
    for (uint32_t i = 0; i < twin->count; i++) {
        if (subject_matches(text(subject), twin->patterns[i])) return true;
    }
    return twin->count == 0;
}

static consumer_setup_t setup_of(twin_t *twin, uint32_t number) {
    twin->count = below(8) == 0 ? 0 : 1 + below(FILTERS);
    uint32_t first = below(6);
    bool alike = below(2) == 0; /* up to the wildcard */
    static const char *const ends[FILTERS] = {"a", "7", ">y"};
    for (uint32_t i = 0; i < twin->count; i++) {
        draw(twin->filters[i], twin->count == 1 ? 6 : (first + i) % 6, true);
        if (alike && twin->count > 1) (void)snprintf(twin->filters[i], 48, "b.*.%s", ends[i]);
        twin->patterns[i] = text(twin->filters[i]);
    }
    consumer_setup_t setup = rig_setup("c");
    setup.id = number + 1;
    setup.filters = (filters_t){.patterns = twin->patterns, .count = twin->count};
    twin->left = 0;
    for (uint32_t i = 0; i < published; i++) twin->left += takes(twin, subjects[i]);
    return setup;
}

static void come(uint32_t number) {
    consumer_setup_t setup = setup_of(&twins[number], number);
    twins[number].consumer = rig_add(&setup);
    CHECK_EQ_U64(twins[number].left, rig_state(twins[number].consumer).pending);
}

static void change(uint32_t number) {
    consumer_setup_t setup = setup_of(&twins[number], number);
    CHECK_EQ_I64(STATUS_OK, consumer_configure(twins[number].consumer, &setup, rig.now));
    CHECK_EQ_U64(twins[number].left, rig_state(twins[number].consumer).pending);
}

static void go_and_come_back(uint32_t number) {
    consumer_remove(twins[number].consumer, rig.now);
    come(number);
}

static void agrees(void) {
    rig_start(0);
    for (uint32_t i = 0; i < CONSUMERS; i++) come(i);
    while (published < MESSAGES) {
        char *subject = subjects[published++];
        draw(subject, 6, false);
        (void)rig_publish(subject, "x");
        for (uint32_t i = 0; i < CONSUMERS; i++) twins[i].left += takes(&twins[i], subject);
        if (published % 40 == 0) change(below(CONSUMERS));
        if (published % 60 == 0) go_and_come_back(below(CONSUMERS));
    }
    uint64_t most = 0;
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        CHECK_EQ_U64(twins[i].left, rig_state(twins[i].consumer).pending);
        most = twins[i].left > most ? twins[i].left : most;
    }
    CHECK_EQ_U64(MESSAGES, most);
    rig_end();
}

#define GONE 300u

static void leaves(uint64_t seq) {
    status_t status = store_delete(rig.stream, seq);
    CHECK(status == STATUS_OK || status == STATUS_NOT_FOUND);
}

/* With filters that are others than when it was sent, too. */
static void gone_for_all(void) {
    bool told = false;
    published = 0;
    rig_start(0);
    rig.quiet = true;
    for (uint32_t i = 0; i < CONSUMERS; i++) come(i);
    for (uint32_t i = 0; i < GONE; i++) {
        char *subject = subjects[published++];
        draw(subject, 6, false);
        (void)rig_publish(subject, "x");
        rig_pull(twins[below(CONSUMERS)].consumer, "in", "5");
        if (i % 60 == 59) { /* before any goes, and while others have gone */
            consumer_setup_t setup = setup_of(&twins[i % CONSUMERS], i % CONSUMERS);
            CHECK_EQ_I64(STATUS_OK, consumer_configure(twins[i % CONSUMERS].consumer, &setup, rig.now));
        }
        if (i > GONE / 2) leaves(1 + below(i));
    }
    for (uint32_t i = 0; i < CONSUMERS; i++) told = told || rig_state(twins[i].consumer).ack_pending != 0;
    CHECK(told);
    for (uint32_t seq = 1; seq <= GONE; seq++) leaves(seq);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        CHECK_EQ_U64(0, rig_state(twins[i].consumer).ack_pending);
        CHECK_EQ_U64(0, rig_state(twins[i].consumer).pending);
    }
    CHECK(!rig.stream->messages[GONE].there);
    rig_end();
}

/* ---- who is woken ------------------------------------------------------------------------------------------------ */

#define MANY 2000u
#define FEW_THERE 20u

static consumer_t *receiver(uint32_t number) {
    char subject[16], inbox[16];
    (void)snprintf(subject, sizeof subject, "to.%u", number);
    (void)snprintf(inbox, sizeof inbox, "in.%u", number);
    bytes_t filter = text(subject);
    consumer_setup_t setup = rig_setup("c");
    setup.id = number + 1;
    setup.deliver_subject = text(inbox);
    setup.filters = (filters_t){.patterns = &filter, .count = 1};
    setup.config.flags = CONSUMER_PUSH;
    return rig_add(&setup);
}

/* Blocks of code that a message for one of so many costs, from the batch that has it to its delivery. */
static uint64_t cost_among(uint32_t count) {
    rig_start(0);
    for (uint32_t i = 0; i < count; i++) (void)receiver(i);
    (void)rig_publish("to.0", "x"); /* makes the index */
    rig_run();
    (void)blocks_take();
    (void)rig_publish("to.7", "x");
    bool again;
    consume_tick(rig.consume, rig.now, &again); /* without a flush: the fake store looks for records one by one */
    uint64_t blocks = blocks_take();
    EXPECT_DELIVERY("in.0 <- to.0 | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("in.7 <- to.7 | $JS.ACK.S.c.1.2.1");
    EXPECT_NOTHING();
    rig_end();
    return blocks;
}

static void wakes_whom_it_concerns(void) {
    uint64_t few = cost_among(FEW_THERE), many = cost_among(MANY);
    CHECK(many <= few + few / 4);
}

/* The message is in a batch before the consumer comes, and can be seen after it has looked for the first time. */
static void seen_later(void) {
    rig_start(0);
    for (uint32_t i = 0; i < FEW_THERE; i++) (void)receiver(i);
    rig_run();
    rig.stream->hold = true;
    (void)rig_publish("to.3", "first"); /* one that waits already */
    consumer_setup_t setup = rig_setup("c");
    setup.id = FEW_THERE + 1;
    setup.deliver_subject = text("late");
    setup.config.flags = CONSUMER_PUSH;
    (void)rig_add(&setup); /* delivers all that is there */
    rig_run();
    EXPECT_NOTHING();
    consume_advanced(rig.consume, rig.stream); /* another batch: of this one nothing can be seen yet */
    rig_run();
    EXPECT_NOTHING();
    fake_show(rig.stream);
    consume_advanced(rig.consume, rig.stream);
    rig_run();
    EXPECT_DELIVERY("in.3 <- to.3 | $JS.ACK.S.c.1.1.1");
    EXPECT_DELIVERY("late <- to.3 | $JS.ACK.S.c.1.1.1");
    EXPECT_NOTHING();
    rig_end();
}

int main(void) {
    RUN("what each of many consumers has left is what asking each of them for every message would count", agrees);
    RUN("a message that leaves the stream leaves each of many consumers that hold it", gone_for_all);
    RUN("a message costs what those cost whom it concerns, not what all of the stream do", wakes_whom_it_concerns);
    RUN("a message that cannot be seen yet is delivered when it can, to a consumer that came between, too", seen_later);
    return TEST_RESULT();
}
