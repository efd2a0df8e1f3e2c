/* test_plane_scenes_reads.c: a read of LMDB that fails, at every place, while clients do one thing on a store that was
 * just opened: direct gets of every kind, an end of a schedule, a schedule that fires, keys of a bucket, a consumer by
 * time, an atomic batch, consumers with priority groups. What is refused is asked again. What is answered meanwhile is
 * true, and what it leaves is what it leaves without the fault, after another start too. And reads that fail for long.
 * Consumers, sources and definitions: test_plane_reads.c.
 *
 * Each run has every ninth place, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include <limits.h>

#include "disk/env.h"
#include "plane_scenes.h"
#include "text/time_text.h"

/* ---- direct gets ------------------------------------------------------------------------------------------------- */

static char reply[1 << 16];

/* The whole answer: one message, or a batch up to its end. */
static void hear_answer(bool batch) {
    size_t size = 0;
    reply[0] = 0;
    for (unsigned turns = 0;; turns++) {
        size += (size_t)snprintf(reply + size, sizeof reply - size, "%s", hear());
        READS_CHECK(size < sizeof reply);
        bool refused = strstr(reply, "NATS/1.0 503") != NULL || strstr(reply, "NATS/1.0 404") != NULL;
        if (refused || strstr(reply, batch ? "204 EOB" : "Nats-Sequence: ") != NULL) return;
        READS_CHECK(turns < 20000);
        sleep_a_turn();
        usleep(50);
    }
}

/* Which messages the answer has. A batch may be shorter, if it says that there is more. */
static bool has_all(const char *expected, bool *more) {
    char got[100] = "";
    size_t size = 0;
    for (const char *at = reply; (at = strstr(at, "Nats-Sequence: ")) != NULL; at++) {
        size += (size_t)snprintf(got + size, sizeof got - size, "%s%lu", size == 0 ? "" : " ",
                                 strtoul(at + strlen("Nats-Sequence: "), NULL, 10));
        CHECK(size < sizeof got);
    }
    const char *end = strstr(reply, "204 EOB\r\nNats-Num-Pending: ");
    *more = end != NULL && strtoul(end + strlen("204 EOB\r\nNats-Num-Pending: "), NULL, 10) > 0
            && strncmp(got, expected, size) == 0;
    return strcmp(got, expected) == 0;
}

static void get(const char *subject, const char *body, const char *expected) {
    char line[300];
    bool batch = strstr(body, "batch") != NULL || strstr(body, "multi") != NULL;
    unsigned tries = 0;
    snprintf(line, sizeof line, "PUB $JS.API.DIRECT.GET.%s _I.g %zu\r\n%s\r\n", subject, strlen(body), body);
    for (;;) {
        bool more = false;
        say(line);
        hear_answer(batch);
        if (strstr(reply, "NATS/1.0 503") == NULL && has_all(expected, &more)) return;
        if (strstr(reply, "NATS/1.0 503") == NULL && !more) {
            FAIL("read %u fails: %s %s is answered by %s", failing_at, subject, body, reply);
        }
        again(&tries);
    }
}

static void get_by(const char *front, uint64_t seq, const char *expected) {
    char body[200];
    uint8_t text[TIME_TEXT_MAX];
    uint32_t size = time_format(stamps[seq], text);
    snprintf(body, sizeof body, "{%s_time\":\"%.*s\"}", front, (int)size, (const char *)text);
    get("S", body, expected);
}

static void get_each(void) {
    get_by("\"start", 5, "5");
    get_by("\"next_by_subj\":\"s.a\",\"start", 5, "7");
    get_by("\"batch\":3,\"start", 4, "4 5 6");
    get_by("\"multi_last\":[\"s.*\"],\"up_to", 7, "4 5 6");
    get("S", "{\"multi_last\":[\"s.*\"],\"up_to_seq\":5}", "3 4 5");
    get("S", "{\"multi_last\":[\"s.c\",\"s.a\"],\"batch\":2}", "7 9");
    get("S", "{\"last_by_subj\":\"s.*\"}", "9");
    get("S", "{\"next_by_subj\":\"s.*\",\"seq\":3}", "3");
    get("S", "{\"seq\":2}", "2");
    get("S.s.b", "", "8");
}

static void a_get_is_answered_or_refused(void) {
    static const uint64_t seqs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
    play((scene_t){"gets", STREAM_ALLOW_DIRECT, -1, 0, put_nine, get_each, seqs});
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

#define SCHEDULES (STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP | STREAM_ALLOW_TTL)

static void put_schedule(void) {
    put("s.job", "Nats-Schedule: @every 1h\r\nNats-Schedule-Target: s.out\r\n", "x");
    put_plain("s.x");
}

static void end_schedule(void) {
    put("s.done", "Nats-Schedule-Next: purge\r\nNats-Scheduler: s.job\r\n", "x");
}

static void a_schedule_ends_when_that_was_acknowledged(void) {
    static const uint64_t seqs[] = {2, 3, 0};
    play((scene_t){"an end", SCHEDULES, -1, 0, put_schedule, end_schedule, seqs});
}

static void put_once(void) {
    char header[200];
    uint8_t text[TIME_TEXT_MAX];
    uint32_t size = time_format(plane->now.wall_ns + 60 * NS_PER_SECOND, text);
    snprintf(header, sizeof header, "Nats-Schedule: @at %.*s\r\nNats-Schedule-Target: s.out\r\n", (int)size,
             (const char *)text);
    put("s.job", header, "x");
    put_plain("s.x");
}

static void let_it_fire(void) {
    for (unsigned i = 0; i < 100; i++) pass(NS_PER_SECOND);
}

/* Of the stream, while the daemon is stopped. */
static void spoil_message(uint64_t seq) {
    char reason[256];
    uint8_t bytes[100];
    env_t *env;
    store_key_t key;
    memset(bytes, 0xa5, sizeof bytes);
    CHECK_EQ_I64(STATUS_OK, env_open(rig_directory, 256 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    key_message(&key, 1, seq);
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_MESSAGES, key_bytes(&key), bytes_of(bytes, sizeof bytes)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static void put_once_of_a_source(void) {
    char header[200];
    uint8_t text[TIME_TEXT_MAX];
    uint32_t size = time_format(plane->now.wall_ns + 90 * NS_PER_SECOND, text);
    snprintf(header, sizeof header,
             "Nats-Schedule: @at %.*s\r\nNats-Schedule-Target: s.out\r\nNats-Schedule-Source: s.from\r\n", (int)size,
             (const char *)text);
    put("s.job", header, "its own");
}

static stream_state_t state_now(void) {
    stream_state_t state;
    stream_state_of(stream_find(&plane->js, 1), &state);
    return state;
}

static void a_schedule_waits_for_a_damaged_source(void) {
    stored_message_t made;
    failing_at = 0;
    config = rig_stream;
    config.flags = SCHEDULES;
    (void)rig_new_directory();
    begin(false);
    preparing = true;
    put("s.from", "", "first");
    put_once_of_a_source();
    preparing = false;
    rig_settle(plane);
    pass(21 * NS_PER_SECOND);
    rig_settle(plane);
    rig_close(plane);
    spoil_message(1);
    begin(true);
    let_it_fire();
    CHECK_EQ_U64(2, state_now().last_seq);
    CHECK_EQ_U64(2, state_now().messages);
    put("s.from", "", "second");
    let_it_fire();
    CHECK_EQ_U64(4, state_now().last_seq);
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream_find(&plane->js, 1)->store, 4, &made));
    CHECK(bytes_equal(made.subject, rig_text("s.out")) && bytes_equal(made.payload, rig_text("second")));
    rig_close_and_remove(plane);
}

static void a_schedule_fires_once(void) {
    static const uint64_t seqs[] = {2, 3, 0};
    play((scene_t){"a time", SCHEDULES, -1, 0, put_once, let_it_fire, seqs});
}

/* ---- a bucket ---------------------------------------------------------------------------------------------------- */

static void put_keys(void) {
    static const char *const keys[] = {"s.a", "s.b", "s.c", "s.d", "s.a"};
    for (unsigned i = 0; i < 5; i++) put_plain(keys[i]);
}

/* By the API, as control does: all messages of one subject. */
static void purge_subject(const char *subject) {
    const char *const filter[] = {subject};
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PURGE, .target = 1, .token = 5}, NULL, 0, filter, 1);
        int32_t status = answered(5);
        READS_CHECK(status != STATUS_NOT_FOUND);
        if (status == STATUS_OK) return;
        again(&tries);
    }
}

static void change_keys(void) {
    put("s.b", "KV-Operation: PURGE\r\nNats-Rollup: sub\r\n", "");
    put("s.c", "KV-Operation: DEL\r\n", "");
    purge_subject("s.d");
    put("s.d", "Nats-Expected-Last-Subject-Sequence: 0\r\n", "new");
    put("s.a", "Nats-Expected-Last-Subject-Sequence: 5\r\n", "newer");
    get("S", "{\"multi_last\":[\"s.*\"]}", "6 7 8 9");
}

static void a_bucket_has_the_newest_of_each_key(void) {
    static const uint64_t seqs[] = {6, 7, 8, 9, 0};
    play((scene_t){"a bucket", STREAM_ALLOW_DIRECT | STREAM_ALLOW_ROLLUP, 1, 0, put_keys, change_keys, seqs});
}

/* ---- a consumer by time ------------------------------------------------------------------------------------------ */

static void consume_from_five(void) {
    memset(delivered, 0, sizeof delivered);
    reader = rig_consumer;
    reader.deliver_policy = DELIVER_BY_START_TIME;
    reader.opt_start_ts = stamps[5];
    listen_to = count_deliveries;
    put_consumer(false);
    say("PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 12\r\n{\"batch\":20}\r\n");
    for (unsigned i = 0; i < 40; i++) {
        pass(50 * NS_PER_MS);
        (void)hear();
    }
    listen_to = NULL;
    for (unsigned seq = 1; seq <= 9; seq++) {
        if (delivered[seq] != (seq >= 5)) {
            FAIL("read %u fails: %u was delivered %u times", failing_at, seq, delivered[seq]);
        }
    }
}

static void a_consumer_begins_at_its_time(void) {
    static const uint64_t seqs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
    play((scene_t){"a consumer by time", 0, -1, 0, put_nine, consume_from_five, seqs});
}

/* ---- an atomic batch --------------------------------------------------------------------------------------------- */

static void say_batched(unsigned id, unsigned at, const char *subject, const char *more) {
    char headers[300];
    char line[500];
    int size = snprintf(headers, sizeof headers, "NATS/1.0\r\nNats-Batch-Id: b%u\r\nNats-Batch-Sequence: %u\r\n%s\r\n",
                        id, at, more);
    bool ends = strstr(more, "Nats-Batch-Commit") != NULL;
    snprintf(line, sizeof line, "HPUB %s %s%d %d\r\n%sx\r\n", subject, ends ? "_I.p " : "", size, size + 1, headers);
    say(line);
}

/* All of it or nothing: what is refused is sent anew, as another batch. */
static void publish_a_batch(void) {
    unsigned tries = 0;
    for (unsigned id = 1;; id++) {
        say_batched(id, 1, "s.a", "Nats-Expected-Last-Subject-Sequence: 7\r\nNats-Msg-Id: one\r\n");
        say_batched(id, 2, "s.d", "");
        say_batched(id, 3, "s.b", "Nats-Msg-Id: two\r\nNats-Batch-Commit: 1\r\n");
        bool refused = false;
        for (unsigned turns = 0; !refused; turns++) {
            const char *heard = hear();
            if (strstr(heard, "\"seq\":12") != NULL) return;
            refused = strstr(heard, "error") != NULL;
            READS_CHECK(turns < 20000);
            sleep_a_turn();
            usleep(50);
        }
        again(&tries);
    }
}

static void a_batch_is_there_whole_or_refused(void) {
    static const uint64_t seqs[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0};
    play((scene_t){"a batch", STREAM_ALLOW_ATOMIC, 3, 120 * NS_PER_SECOND, put_nine, publish_a_batch, seqs});
}

/* ---- priority groups --------------------------------------------------------------------------------------------- */

static uint32_t policy;

static void hear_second(const char *heard) {
    READS_CHECK(strstr(heard, "MSG _I.second 1 $JS.ACK") == NULL);
    count_deliveries(heard);
}

static void ask_twice(void) {
    static const char *const grouped[] = {"C", "{}", "", "", "", "g"};
    static const char second[] = "{\"batch\":20,\"group\":\"g\",\"priority\":5,\"expires\":60000000000}";
    static const char first[] = "{\"batch\":20,\"group\":\"g\",\"priority\":0,\"expires\":60000000000}";
    bool prioritized = policy == PRIORITY_PRIORITIZED;
    char line[500];
    memset(delivered, 0, sizeof delivered);
    reader = rig_consumer;
    reader.priority_policy = policy;
    reader.priority_timeout_ns = 120 * NS_PER_SECOND;
    reader_strings = grouped;
    put_consumer(false);
    reader_strings = rig_consumer_strings;
    listen_to = hear_second;
    snprintf(line, sizeof line, "PUB %s _I.%s %zu\r\n%s\r\nPUB %s _I.%s %zu\r\n%s\r\n", NEXT,
             prioritized ? "second" : "first", sizeof second - 1, second, NEXT, prioritized ? "first" : "second",
             sizeof first - 1, first);
    say(line);
    for (unsigned i = 0; i < 40; i++) {
        pass(50 * NS_PER_MS);
        (void)hear();
    }
    listen_to = NULL;
    for (unsigned seq = 1; seq <= 9; seq++) READS_CHECK(delivered[seq] == 1);
}

/* One that asks later goes first by its priority; who is pinned has all. */
static void priorities_hold(void) {
    static const uint64_t seqs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
    policy = PRIORITY_PRIORITIZED;
    play((scene_t){"priorities", 0, -1, 0, put_nine, ask_twice, seqs});
    policy = PRIORITY_PINNED;
    play((scene_t){"a pin", 0, -1, 0, put_nine, ask_twice, seqs});
}

/* ---- what cannot be read for long -------------------------------------------------------------------------------- */

static unsigned said; /* that reading fails */
static bool purged;

static void hear_alarms(void) {
    plane_event_t event;
    while (exchange_poll(&plane->exchange, &event, 1) != 0) {
        said += event.kind == EVENT_ALARM && strstr((const char *)event.payload, "fails") != NULL;
        purged |= event.kind == EVENT_DONE && event.token == 5;
        exchange_release(&plane->exchange, 1);
    }
}

#define LONG_NS (10 * NS_PER_SECOND)
#define LONG_TURNS 250 /* a job is tried some 17 times in ten seconds; ten times a second are others' looks */

static void sleep_long(void) {
    int64_t end_ns = plane->now.mono_ns + LONG_NS;
    for (unsigned turns = 0; plane->now.mono_ns < end_ns; turns++) {
        READS_CHECK(turns < LONG_TURNS);
        int64_t sleeps_ns = core_sleep_ns(plane);
        plane->more = false;
        pass(sleeps_ns < LONG_NS ? sleeps_ns : LONG_NS);
        hear_alarms();
    }
}

/* A purge and a consumer that counts, when no read works from that one on. true: the purge waited for one, and was not
 * refused. */
static bool waits(unsigned from) {
    static const char *const filter[] = {"s.a"};
    static const char *const consumer[] = {"C", "{}", "", "", "", "", "s.b"};
    failing_at = from;
    published = 0;
    config = rig_stream;
    (void)rig_new_directory();
    begin(false);
    preparing = true;
    put_nine();
    preparing = false;
    pass(21 * NS_PER_SECOND);
    rig_settle(plane);
    rig_close(plane);
    begin(true);
    reader = rig_consumer;
    reader.deliver_policy = DELIVER_BY_START_SEQUENCE;
    reader.opt_start_seq = 4;
    hear_alarms();
    said = 0;
    purged = false;
    failing_reads((failing_reads_t){.from = from, .times = UINT_MAX / 2, .error = EIO});
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 1, .token = 2}, &reader,
                 sizeof reader, consumer, 7);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PURGE, .target = 1, .token = 5}, NULL, 0, filter, 1);
    say("PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.d 12\r\n{\"batch\":20}\r\n");
    sleep_long();
    READS_CHECK(said == 1);
    bool waited = !purged;
    failing_reads((failing_reads_t){0});
    for (unsigned turns = 0; waited && !purged; turns++) {
        READS_CHECK(turns < 100);
        pass(20 * NS_PER_MS);
        usleep(1000);
        hear_alarms();
    }
    rig_close_and_remove(plane);
    return waited;
}

static void nobody_turns_for_what_cannot_be_read(void) {
    unsigned waited = 0;
    for (unsigned from = 1; from <= 9; from++) waited += waits(from);
    printf("%u of 9 purges waited\n", waited);
    CHECK(waited > 0);
}

int main(void) {
    RUN("a direct get is answered with what is there or refused, whichever read failed", a_get_is_answered_or_refused);
    RUN("a schedule ends with the message that was acknowledged, whichever read failed",
        a_schedule_ends_when_that_was_acknowledged);
    RUN("a schedule of one time fires once, whichever read failed", a_schedule_fires_once);
    RUN("a schedule whose source's newest message is damaged waits for another one",
        a_schedule_waits_for_a_damaged_source);
    RUN("a bucket has the newest of each key, whichever read failed", a_bucket_has_the_newest_of_each_key);
    RUN("a consumer begins at its time, whichever read failed", a_consumer_begins_at_its_time);
    RUN("a batch is there whole or refused, whichever read failed", a_batch_is_there_whole_or_refused);
    RUN("a request goes before one of a lower priority, and before one that is not pinned, whichever read failed",
        priorities_hold);
    RUN("nobody turns for what cannot be read for long, and it is said once", nobody_turns_for_what_cannot_be_read);
    return TEST_RESULT();
}
