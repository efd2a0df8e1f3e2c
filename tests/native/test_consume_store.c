/* test_consume_store.c: consumers over the real store: kill -9 at any moment, removal from inside the store's own tick,
 * and counts that stay exact whatever leaves the stream. What a consumer does otherwise is tested over the fake store.
 */
#include "consume/consume.h"
#include "quiet_host.h"
#include "store_rig.h"

#define STREAM_ID 1
#define CONSUMER_ID 7
#define MESSAGES_MAX 2000

static rig_t rig;
static consume_t *consume;
static share_t memory = {.limit = UINT64_MAX};
static store_stream_t *stream;
static stream_config_t config;
static consumer_setup_t setup;
static consumer_t *consumer;
static uint64_t seed;

/* What came out, as the test wants it: how often each message was delivered since the last look, and how many were
 * terminated. */
static uint32_t delivered[MESSAGES_MAX];
static uint64_t consumer_seq[MESSAGES_MAX];
static uint32_t terminated, deliveries;

static delivered_t deliver(void *context, const delivery_t *delivery) {
    (void)context;
    unsigned long long seq, sequence;
    char reply[256];
    (void)snprintf(reply, sizeof reply, "%.*s", (int)delivery->reply.size, (const char *)delivery->reply.at);
    CHECK(sscanf(reply, "$JS.ACK.S.c.%*u.%llu.%llu.", &seq, &sequence) == 2);
    CHECK(seq < MESSAGES_MAX);
    delivered[seq]++;
    consumer_seq[seq] = sequence;
    deliveries++;
    return DELIVERED;
}

static void advise(void *context, consumer_t *which, uint32_t advisory, const advisory_t *numbers, bytes_t text) {
    (void)context, (void)which, (void)numbers, (void)text;
    terminated += advisory == ADVISORY_TERMINATED;
}

static uint64_t random_below(uint64_t limit) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % limit;
}

static void attach(bool loading) {
    static const consume_out_t out = {.deliver = deliver,
                                      .status = quiet_status,
                                      .interest = quiet_interest,
                                      .exact_interest = quiet_interest,
                                      .advise = advise,
                                      .gone = quiet_gone};
    consume = consume_new(&out, &memory);
    CHECK(consume != NULL);
    store_set_hooks(rig.store, consume_store_hooks(consume));
    CHECK_EQ_I64(STATUS_OK, store_stream_open(rig.store, STREAM_ID, &config, rig.now, &stream));
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, loading, rig.now, &consumer));
}

static void begin(uint8_t retention) {
    config = rig_config();
    config.retention = retention;
    setup = (consumer_setup_t){
        .stream_id = STREAM_ID,
        .id = CONSUMER_ID,
        .stream_name = BYTES_LITERAL("S"),
        .name = BYTES_LITERAL("c"),
        .config = {
            .ack_policy = ACK_EXPLICIT, .max_deliver = -1, .ack_wait_ns = 30 * NS_PER_SECOND, .max_ack_pending = 1000}};
    memset(delivered, 0, sizeof delivered);
    deliveries = terminated = 0;
    rig_open(&rig);
    attach(false);
}

static void end(void) {
    consume_free(consume);
    rig_close(&rig);
}

/* One round of the plane's tick; with `durable`, until everything is on disk and seen. */
static void tick(bool durable) {
    bool again = true;
    for (int i = 0; again && i < 1000; i++) consume_tick(consume, rig.now, &again);
    CHECK(!again);
    consume_flush(consume);
    if (durable) {
        rig_sync(&rig);
    } else {
        store_tick(rig.store, rig.now);
        while (store_advanced_next(rig.store)) {
        }
    }
    consume_advanced(consume, stream);
    again = true;
    for (int i = 0; again && i < 1000; i++) consume_tick(consume, rig.now, &again);
}

static void kill_and_start(void) {
    consume_free(consume);
    rig_crash(&rig);
    attach(true);
}

static void publish(const char *subject, int count) {
    for (int i = 0; i < count; i++) {
        append_t append = {.subject = bytes_of(subject, (uint32_t)strlen(subject)),
                           .payload = BYTES_LITERAL("payload")};
        CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    }
}

static void pull(const char *body) {
    consumer_pull(consumer, BYTES_LITERAL("in"), bytes_of(body, (uint32_t)strlen(body)), rig.now);
    tick(true);
}

static bool ack(uint64_t seq, const char *body) {
    bool answer;
    consumer_ack(consumer, seq, consumer_seq[seq], 1, bytes_of(body, (uint32_t)strlen(body)), BYTES_LITERAL("r"),
                 rig.now, &answer);
    return answer;
}

static consumer_state_t state(void) {
    consumer_state_t out;
    consumer_snapshot(consumer, rig.now, &out);
    return out;
}

static uint64_t stored(void) {
    stream_state_t out;
    store_stream_state(stream, &out);
    return out.messages;
}

static void floors_survive(void) {
    begin(0);
    publish("s.a", 10);
    pull("10");
    CHECK_EQ_U64(10, deliveries);
    for (uint64_t seq = 1; seq <= 4; seq++) CHECK(ack(seq, "+ACK"));
    CHECK(ack(8, "+ACK"));
    tick(true);
    kill_and_start();
    consumer_state_t now = state();
    CHECK_EQ_U64(4, now.floor_stream);
    CHECK_EQ_U64(3, now.ack_pending); /* 5, 6 and 7 */
    CHECK_EQ_U64(2, now.pending);     /* 9 and 10 were not settled: they come again */
    CHECK_EQ_U64(10, now.delivered_consumer);
    memset(delivered, 0, sizeof delivered);
    pull("10");
    rig_pass(&rig, 31 * NS_PER_SECOND);
    tick(true);
    static const uint32_t expected[] = {0, 0, 0, 0, 0, 1, 1, 1, 0, 2, 2};
    for (uint64_t seq = 1; seq <= 10; seq++) CHECK_EQ_U64(expected[seq], delivered[seq]);
    end();
}

static void ack_and_removal_are_one(void) {
    for (uint8_t retention = 1; retention <= 2; retention++) {
        begin(retention);
        publish("s.a", 6);
        pull("6");
        for (uint64_t seq = 1; seq <= 6; seq += 2) CHECK(ack(seq, "+ACK"));
        tick(true);
        CHECK_EQ_U64(3, stored());
        CHECK(ack(2, "+ACK")); /* in an open batch that is never written */
        consume_flush(consume);
        CHECK_EQ_U64(2, stored());
        kill_and_start();
        CHECK_EQ_U64(3, stored());
        CHECK_EQ_U64(1, state().floor_stream);
        memset(delivered, 0, sizeof delivered);
        pull("9");
        rig_pass(&rig, 31 * NS_PER_SECOND);
        tick(true);
        CHECK(delivered[2] > 0);
        CHECK(delivered[4] > 0);
        CHECK(delivered[6] > 0);
        CHECK_EQ_U64(0, delivered[1] + delivered[3] + delivered[5]);
        end();
    }
}

static void age_takes_pending(void) {
    begin(0);
    config.max_age_ns = 20 * NS_PER_SECOND;
    store_stream_configure(stream, &config, rig.now);
    publish("s.a", 5);
    pull("5");
    rig_pass(&rig, 2 * NS_PER_SECOND);
    tick(true); /* settled: each has a record */
    CHECK_EQ_U64(5, state().ack_pending);
    rig_pass(&rig, 19 * NS_PER_SECOND);
    for (int i = 0; i < 10; i++) tick(true);
    CHECK_EQ_U64(0, stored());
    CHECK_EQ_U64(5, terminated);
    CHECK_EQ_U64(0, state().ack_pending);
    kill_and_start();
    CHECK_EQ_U64(0, state().ack_pending);
    CHECK_EQ_U64(5, state().floor_stream);
    end();
}

static void counts_stay_exact(void) {
    static const char *const subjects[] = {"a.1", "a.2", "b.1", "c"};
    static const bytes_t patterns[] = {{(const uint8_t *)"a.*", 3}, {(const uint8_t *)"c", 1}};
    for (uint64_t round = 1; round <= 6; round++) {
        seed = round;
        begin(0);
        consumer_remove(consumer, rig.now);
        setup.config.ack_policy = ACK_NONE;
        if (round % 2) setup.filters = (filters_t){.patterns = patterns, .count = 2};
        CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, false, rig.now, &consumer));
        config.max_msgs = 60;
        config.max_msgs_per_subject = 40;
        store_stream_configure(stream, &config, rig.now);
        for (int i = 0; i < 400; i++) {
            stream_state_t about;
            store_stream_state(stream, &about);
            uint64_t some = about.first_seq + random_below(about.last_seq - about.first_seq + 2);
            switch (random_below(8)) {
            case 0: {
                status_t gone_already = store_delete(stream, some);
                CHECK(gone_already == STATUS_OK || gone_already == STATUS_NOT_FOUND);
                break;
            }
            case 1:
                if (random_below(8)) break;
                (void)rig_purge(stream, BYTES_LITERAL("a.>"), some, 0);
                break;
            case 2: pull(random_below(2) ? "{\"batch\":3,\"no_wait\":true}" : "{\"batch\":40,\"no_wait\":true}"); break;
            case 3: rig_pass(&rig, 2 * NS_PER_SECOND); break;
            default: publish(subjects[random_below(4)], (int)random_below(4));
            }
            tick(random_below(4) == 0);
            uint64_t from = state().delivered_stream + 1;
            CHECK_EQ_U64(store_count(stream, setup.filters, from), state().pending);
        }
        end();
    }
}

static void crashes(void) {
    static bool acknowledged[MESSAGES_MAX], sure[MESSAGES_MAX];
    for (uint64_t round = 1; round <= 8; round++) {
        seed = round;
        begin((uint8_t)(round % 3));
        memset(acknowledged, 0, sizeof acknowledged);
        memset(sure, 0, sizeof sure);
        uint64_t last = 0;
        for (int i = 0; i < 250; i++) {
            uint64_t seq = 1 + random_below(last + 1);
            switch (random_below(8)) {
            case 0: publish("s.a", (int)random_below(5)); break;
            case 1:
                consumer_pull(consumer, BYTES_LITERAL("in"), BYTES_LITERAL("{\"batch\":5,\"expires\":1}"), rig.now);
                break;
            case 2:
            case 3:
            case 4: acknowledged[seq] |= seq <= last && ack(seq, "+ACK"); break;
            case 5: rig_pass(&rig, (int64_t)random_below(10) * NS_PER_SECOND); break;
            default: break;
            }
            bool durable = random_below(3) == 0;
            tick(durable);
            if (durable) memcpy(sure, acknowledged, sizeof sure);
            if (random_below(25) == 0) {
                kill_and_start();
                memcpy(acknowledged, sure, sizeof sure); /* the others may or may not have got through */
                memset(delivered, 0, sizeof delivered);
            }
            for (uint64_t k = 1; k < MESSAGES_MAX; k++) CHECK(!sure[k] || delivered[k] == 0 || acknowledged[k]);
            for (uint64_t k = 1; k < MESSAGES_MAX; k++) {
                if (sure[k]) delivered[k] = 0;
            }
            stream_state_t about;
            store_stream_state(stream, &about);
            last = store_stream_visible(stream) < about.last_seq ? store_stream_visible(stream) : about.last_seq;
        }
        tick(true);
        memset(delivered, 0, sizeof delivered);
        stream_state_t about;
        store_stream_state(stream, &about);
        for (int quiet = 0; quiet < 3;) {
            uint32_t before = deliveries;
            pull("{\"batch\":500,\"expires\":1}");
            for (uint64_t seq = 1; seq <= about.last_seq; seq++) {
                CHECK(!sure[seq] || delivered[seq] == 0);
                if (delivered[seq] > 0) (void)ack(seq, "+ACK");
            }
            quiet = deliveries > before ? 0 : quiet + 1;
            rig_pass(&rig, 31 * NS_PER_SECOND);
            tick(true);
        }
        CHECK_EQ_U64(0, state().ack_pending);
        CHECK_EQ_U64(0, state().pending);
        CHECK_EQ_U64(about.last_seq, state().floor_stream);
        if (round % 3 != 0) CHECK_EQ_U64(0, stored());
        end();
    }
}

/* What a consumer has gone through before a purge: messages delivered, some of them acknowledged, some given up, and a
 * selection that is delivered by half, counted and stored, or not. */
static void live_before_purge(uint64_t round) {
    seed = round;
    begin((uint8_t)(round % 3 == 2 ? 1 : 0));
    static const bytes_t all = {(const uint8_t *)"s.>", 3};
    publish("s.a", 40);
    for (int i = 0; i < 60; i++) {
        char subject[16];
        (void)snprintf(subject, sizeof subject, "s.%d", (int)random_below(30));
        publish(subject, 1);
    }
    consumer_remove(consumer, rig.now);
    setup.filters = (filters_t){.patterns = &all, .count = 1};
    setup.config.deliver_policy = round % 2 == 0 ? DELIVER_ALL : DELIVER_LAST_PER_SUBJECT;
    setup.config.max_deliver = round % 4 < 2 ? -1 : 1;
    CHECK_EQ_I64(STATUS_OK, consumer_add(consume, stream, &setup, false, rig.now, &consumer));
    if (round % 5 != 4) pull(round % 3 == 0 ? "7" : "25");
    for (uint64_t seq = 1; seq <= 100; seq++) {
        if (delivered[seq] > 0 && random_below(3) == 0) (void)ack(seq, "+ACK");
    }
    tick(true);
    if (random_below(2)) {
        rig_pass(&rig, 31 * NS_PER_SECOND); /* stored, or exhausted */
        tick(true);
    }
}

typedef struct after_purge {
    consumer_state_t state;
    uint32_t terminated, deliveries;
    uint32_t came[10];
} after_purge_t;

static after_purge_t purge_and_go_on(bytes_t filter, bool killed) {
    after_purge_t out = {0};
    (void)rig_purge(stream, filter, 0, 0);
    CHECK_EQ_U64(0, stored());
    tick(true);
    if (killed) kill_and_start();
    out.state = state();
    out.terminated = terminated;
    memset(delivered, 0, sizeof delivered);
    deliveries = 0;
    stream_state_t about;
    store_stream_state(stream, &about);
    publish("s.new", 9);
    pull("{\"batch\":100,\"expires\":1}");
    out.deliveries = deliveries;
    for (uint64_t i = 0; i < 10; i++) out.came[i] = delivered[about.last_seq + i];
    CHECK_EQ_U64(0, state().pending);
    return out;
}

/* Taken at once (no filter), or one by one (a filter that all match): nobody can tell the difference. */
static void purge_at_once_is_as_one_by_one(void) {
    for (uint64_t round = 1; round <= 60; round++) {
        after_purge_t ways[2];
        for (int way = 0; way < 2; way++) {
            live_before_purge(round);
            ways[way] = purge_and_go_on(way == 0 ? BYTES_NONE : BYTES_LITERAL("s.>"), round % 7 == 0);
            end();
        }
        CHECK_EQ_U64(9, ways[0].deliveries);
        CHECK(memcmp(&ways[0], &ways[1], sizeof *ways) == 0);
    }
}

/* They are told of one by one, until there are few; what came since the purge began stays. */
static void purge_of_what_is_held(void) {
    begin(0);
    publish("s.a", 950);
    pull("900");
    tick(true);
    store_purge_t purge = {0};
    uint64_t purged = 0, steps = 0;
    step_outcome_t step = STEP_MORE;
    for (; step != STEP_OVER && steps < 1000; steps++) {
        uint64_t some;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
        purged += some;
        CHECK(some <= 256 || state().ack_pending == 0);
    }
    CHECK(steps > 2);
    CHECK_EQ_U64(950, purged);
    CHECK_EQ_U64(900, terminated);
    CHECK_EQ_U64(0, state().ack_pending);
    publish("s.a", 900);
    pull("400");
    purge = (store_purge_t){0};
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
    CHECK_EQ_U64(STEP_MORE, step);
    publish("s.a", 5);
    for (steps = 0; step != STEP_OVER && steps < 1000; steps++) {
        uint64_t some;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
    }
    CHECK_EQ_U64(5, stored());
    CHECK_EQ_U64(5, state().pending);
    end();
}

static void stop_keeps_all(void) {
    begin(0);
    publish("s.a", 4);
    pull("3");
    consume_shutdown(consume, rig.now);
    consume_free(consume);
    rig_reopen(&rig);
    attach(true);
    CHECK_EQ_U64(3, state().ack_pending);
    CHECK_EQ_U64(1, state().pending);
    CHECK_EQ_U64(3, state().delivered_consumer);
    end();
}

/* Flips a bit of the last payload "UNREADABLE" in the file that readers have mapped. */
static void flip_payload(void) {
    static uint8_t file[4 << 20];
    char path[160];
    snprintf(path, sizeof path, "%s/data.mdb", rig.directory);
    int fd = open(path, O_RDWR);
    ssize_t size = pread(fd, file, sizeof file, 0), at = -1;
    for (ssize_t i = 0; i + 10 <= size; i++)
        at = memcmp(file + i, "UNREADABLE", 10) == 0 || memcmp(file + i, "TNREADABLE", 10) == 0 ? i : at;
    CHECK(at > 0);
    file[at] ^= 1;
    CHECK_EQ_I64(1, pwrite(fd, file + at, 1, at));
    close(fd);
}

static void unreadable_stays_pending(void) {
    begin(0);
    append_t append = {.subject = BYTES_LITERAL("s.a"), .payload = BYTES_LITERAL("UNREADABLE")};
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    publish("s.b", 1);
    pull("2");
    CHECK_EQ_U64(2, deliveries);
    rig_checkpoint(&rig);
    flip_payload();
    consumer_pull(consumer, BYTES_LITERAL("in"), BYTES_LITERAL("10"), rig.now);
    rig_pass(&rig, 31 * NS_PER_SECOND);
    tick(true);
    CHECK_EQ_U64(1, delivered[1]);
    CHECK_EQ_U64(2, delivered[2]);
    CHECK_EQ_U64(0, terminated);
    CHECK_EQ_U64(2, state().ack_pending);
    rig_pass(&rig, 31 * NS_PER_SECOND);
    tick(true);
    unsigned alarms = 0;
    for (store_alarm_t alarm; store_alarm_next(rig.store, &alarm);) alarms += alarm.code == ALARM_CORRUPT;
    CHECK_EQ_U64(1, alarms);
    flip_payload(); /* whatever it was has passed */
    rig_pass(&rig, 31 * NS_PER_SECOND);
    tick(true);
    CHECK_EQ_U64(2, delivered[1]);
    CHECK_EQ_U64(0, terminated);
    end();
}

int main(void) {
    RUN("floors and pending messages survive kill -9", floors_survive);
    RUN("an ack and the removal that follows from it are one: both or none after kill -9", ack_and_removal_are_one);
    RUN("messages that expire inside the store's tick leave pending, and their records go", age_takes_pending);
    RUN("the number pending is exact whatever leaves the stream", counts_stay_exact);
    RUN("what a purge of everything takes at once leaves consumers where a purge message by message does",
        purge_at_once_is_as_one_by_one);
    RUN("a purge tells of what consumers hold in steps, and takes nothing that came since", purge_of_what_is_held);
    RUN("kill -9 at any moment: what was durably acknowledged never comes again, the rest always does", crashes);
    RUN("a pending message that cannot be read stays pending, is alarmed once and tried again",
        unreadable_stays_pending);
    RUN("an orderly stop keeps what is in flight", stop_keeps_all);
    return TEST_RESULT();
}
