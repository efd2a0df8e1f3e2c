/* test_consume_line.c: which of many pull requests is served next: a comparison with the plain rule, an array whose
 * head goes to the end when it was served, reported that it is full, or is skipped because it had; and the cost of
 * finding the next one. */
#include "consume_rig.h"
#include "consume/private.h"

#define LINE_MAX 40
#define NAMES 12
#define GRACE (SECOND / 2000) /* a request lives that much longer than it asks for */

typedef struct waiting {
    uint32_t name;
    uint32_t left;
    int64_t expires_ns;
    bool tiny; /* takes fewer bytes than any message has: ends when it is reached */
    bool full;
} waiting_t;

static struct {
    waiting_t line[LINE_MAX];
    uint32_t count;
    uint64_t undelivered, offers, refused, lost;
    bool full[NAMES]; /* the receivers */
    bool gone[NAMES];
} model;

static uint32_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 10) % bound;
}

static waiting_t take(uint32_t i) {
    waiting_t taken = model.line[i];
    memmove(&model.line[i], &model.line[i + 1], (--model.count - i) * sizeof *model.line);
    return taken;
}

static void to_the_end(void) {
    waiting_t head = take(0);
    model.line[model.count++] = head;
}

static void forget_expired(void) {
    for (uint32_t i = 0; i < model.count;) {
        if (model.line[i].expires_ns <= rig.now.mono_ns) {
            (void)take(i);
        } else {
            i++;
        }
    }
}

/* Once round at most; when that finds nobody, all are asked again the next time. */
static waiting_t *next(void) {
    for (uint32_t left = model.count; left > 0; left--) {
        if (model.line[0].full) {
            to_the_end();
        } else if (model.line[0].tiny) {
            (void)take(0);
        } else {
            return model.line;
        }
    }
    for (uint32_t i = 0; i < model.count; i++) model.line[i].full = false;
    return NULL;
}

static bool somebody_can_be_asked(void) {
    for (uint32_t i = 0; i < model.count; i++) {
        if (!model.line[i].full && !model.line[i].tiny) return true;
    }
    return false;
}

static delivered_t receive(bytes_t to) {
    forget_expired();
    waiting_t *head = next();
    CHECK(head != NULL);
    char name[8];
    (void)snprintf(name, sizeof name, "r%u", head->name);
    CHECK_TEXT(name, to.at, to.size);
    model.offers++;
    if (model.gone[head->name]) {
        model.lost++;
        (void)take(0);
        (void)next();
        return DELIVERED_NO_INTEREST;
    }
    if (model.full[head->name]) {
        model.refused++;
        head->full = true;
        to_the_end();
        (void)next();
        return DELIVERED_FULL;
    }
    model.undelivered--;
    if (--head->left == 0) {
        (void)take(0);
    } else {
        to_the_end();
    }
    return DELIVERED;
}

static void settle(void) {
    rig_run();
    forget_expired();
    if (model.undelivered > 0 && !somebody_can_be_asked()) (void)next();
}

static void ask(consumer_t *consumer) {
    if (model.count == LINE_MAX) return;
    uint32_t name = random_below(NAMES), left = 1 + random_below(5), seconds = 1 + random_below(9);
    char inbox[8], body[64];
    (void)snprintf(inbox, sizeof inbox, "r%u", name);
    bool tiny = random_below(5) == 0;
    (void)snprintf(body, sizeof body, "{\"batch\":%u,\"expires\":%u000000000%s}", left, seconds,
                   tiny ? ",\"max_bytes\":1" : "");
    model.line[model.count++] =
        (waiting_t){.name = name, .left = left, .expires_ns = rig.now.mono_ns + seconds * SECOND + GRACE, .tiny = tiny};
    consumer_pull(consumer, text(inbox), text(body), rig.now);
}

static void step(consumer_t *consumer) {
    uint32_t what = random_below(12), who = random_below(NAMES);
    if (what < 5) {
        ask(consumer);
    } else if (what < 8) {
        uint32_t count = 1 + random_below(6);
        model.undelivered += count;
        rig_publish_many("s", (int)count);
    } else if (what < 10) {
        model.full[who] = !model.full[who];
        consume_unblocked(rig.consume);
    } else if (what == 10) {
        model.gone[who] = random_below(6) == 0;
    } else if (random_below(4) == 0) {
        settle();
        rig_pass(GRACE); /* requests are asked at whole seconds, so what ends of them ends now */
        settle();
        rig_pass(SECOND - GRACE);
    }
    settle();
}

static consumer_t *a_consumer(void) {
    consumer_setup_t setup = rig_setup("c");
    setup.config.ack_policy = ACK_NONE;
    setup.config.max_ack_pending = 0;
    rig.quiet = true;
    return rig_add(&setup);
}

static void duel(void) {
    uint64_t offers = 0, refused = 0, lost = 0;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        rig_start(0);
        memset(&model, 0, sizeof model);
        random_state = seed;
        consumer_t *consumer = a_consumer();
        rig.receive = receive;
        for (int i = 0; i < 1000; i++) {
            step(consumer);
            CHECK_EQ_U64(model.count, rig_state(consumer).waiting);
        }
        offers += model.offers;
        refused += model.refused;
        lost += model.lost;
    }
    CHECK(offers > 10000);
    CHECK(refused > 1000);
    CHECK(lost > 1000);
}

static delivered_t one_reader(bytes_t to) {
    return to.at[0] == 'f' ? DELIVERED_FULL : DELIVERED;
}

static void one_reader_among_full_ones(void) {
    const uint32_t full = 500, messages = 2000;
    rig_start(0);
    consumer_t *consumer = a_consumer();
    rig.receive = one_reader;
    for (uint32_t i = 0; i < full; i++) consumer_pull(consumer, text("full"), text("5"), rig.now);
    consumer_pull(consumer, text("reader"), text("100000"), rig.now);
    rig_publish_many("s", (int)messages);
    rig_run();
    CHECK_EQ_U64(messages, rig.deliveries);
    CHECK_EQ_U64(full + 1, rig_state(consumer).waiting);
    CHECK_EQ_U64(full + messages, consumer->pull->requests.steps);
}

static void lowest_batch(void) {
    rig_start(0);
    consumer_t *consumer = rig_add_plain();
    rig_pull(consumer, "in", "{\"batch\":-9223372036854775808}");
    rig_pull(consumer, "in", "{\"batch\":-9223372036854775808}");
    rig_publish_many("s", 5);
    rig_run();
    CHECK_EQ_U64(5, rig.deliveries);
    CHECK_EQ_U64(2, rig_state(consumer).waiting);
}

int main(void) {
    RUN("requests for the lowest number there is get messages as from the reference, and overflow nothing",
        lowest_batch);
    RUN("pull requests are served in the order that the plain rule says, whoever is full, leaves or expires", duel);
    RUN("one reader among many full ones is found at once, for each message", one_reader_among_full_ones);
    rig_end();
    return TEST_RESULT();
}
