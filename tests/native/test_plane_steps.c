/* test_plane_steps.c: whatever ends, and however much of it there is, no step of the plane takes long. plane_rig.h
 * judges each step of each test by the blocks of code that it runs; here the bound is closer, and what ends is large: a
 * stream's messages, what consumers have delivered, the subscriptions of clients and links. */
#include "stream_rig.h"
#include "verbs/turn.h"

#define MANY 30000u
#define TURNS (MANY / 64)   /* in which what is left of so many is done: each end costs several of a turn's budget */
#define BLOCKS_MAX 1250000u /* for each of MANY forty, reads of the disk included: a loop over all does not fit */
#define REMOVALS_MAX (BLOCKS_MAX * 2) /* where each takes hundreds: a turn's share of them, and not half of them all */
#define E RIG_ACCOUNT
#define I 2u

static void time_passes(plane_t *plane, int64_t ns) {
    plane->now.mono_ns += ns;
    plane->now.wall_ns += ns;
}

static void turns(plane_t *plane, uint32_t count) {
    while (count-- > 0) {
        time_passes(plane, NS_PER_MS);
        rig_turn(plane);
    }
}

/* As rig_settle(), with time that passes: what the store puts off for a moment is done, too. */
static void settle(plane_t *plane) {
    const store_t *store = plane->js.stores[STORE_FILE];
    for (int64_t until = 0; patient(&until); usleep(200)) {
        turns(plane, 1);
        if (plane->js.job_count == 0 && plane->js.held[STORE_FILE].count == 0 && store_batch_empty(store)
            && store_durable(store) + 1 == store_batch(store))
            return;
    }
    FAIL("the journal does not answer");
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static plane_t *open_stream(stream_config_t config) {
    plane_t *plane = rig_open_small(rig_new_directory(), "", 32 << 20, 0);
    rig_put_stream(plane, config);
    return plane;
}

/* On s.0, s.1 ..., each with that header (printed with its number). */
static void publish_many(plane_t *plane, const char *header) {
    peer_t *a = rig_client(plane);
    for (uint32_t i = 0; i < MANY; i++) {
        char line[256], filled[160] = "NATS/1.0\r\n";
        int size = 10 + snprintf(filled + 10, sizeof(filled) - 10, header, i);
        snprintf(line, sizeof(line), "HPUB s.%u %d %d\r\n%s\r\nx\r\n", i, size + 2, size + 3, filled);
        rig_say(plane, a, line);
        if (i % 400 == 399) settle(plane);
    }
    settle(plane);
    peer_doom(plane, a, CLOSE_CLIENT, BYTES_NONE);
    settle(plane);
}

static plane_t *open_with_many(stream_config_t config, const char *header) {
    plane_t *plane = open_stream(config);
    publish_many(plane, header);
    return plane;
}

static uint64_t stored(plane_t *plane) {
    plane_stats_t stats = {0};
    store_stats(plane->js.stores[STORE_FILE], &stats);
    return stats.store_messages;
}

static void until_left(plane_t *plane, uint64_t most) {
    for (int64_t until = 0; stored(plane) > most;) {
        if (!patient(&until)) FAIL("they do not go");
        turns(plane, 10);
        usleep(100);
    }
    settle(plane);
}

static void run_on_stream(plane_t *plane, plane_command_t command, const char *text) {
    command.target = 1;
    command.token = 5;
    rig_run_with(plane, command, NULL, 0, &text, 1);
    settle(plane);
}

static void purges(void) {
    static const plane_command_t ways[] = {{.op = COMMAND_STREAM_PURGE},
                                           {.op = COMMAND_STREAM_PURGE, .arg2 = 1},
                                           {.op = COMMAND_STREAM_PURGE, .arg = MANY},
                                           {.op = COMMAND_STREAM_PURGE},
                                           {.op = COMMAND_STREAM_REMOVE}};
    for (uint32_t i = 0; i < 5; i++) {
        plane_t *plane = open_with_many(rig_stream, "");
        CHECK_EQ_U64(MANY, stored(plane));
        run_on_stream(plane, ways[i], i == 3 ? "s.*" : "");
        if (i < 4) until_left(plane, i == 1 || i == 2);
        rig_close_and_remove(plane);
    }
}

static void limits(void) {
    for (uint32_t i = 0; i < 4; i++) {
        plane_t *plane = open_with_many(rig_stream, "");
        stream_config_t config = rig_stream;
        if (i == 0) config.max_msgs = 1;
        if (i == 1) config.max_bytes = 100;
        if (i >= 2) config.max_age_ns = NS_PER_SECOND;
        if (i == 3) config.marker_ttl_ns = NS_PER_SECOND;
        time_passes(plane, 2 * NS_PER_SECOND);
        rig_put_stream(plane, config);
        until_left(plane, 2);
        rig_close_and_remove(plane);
    }
}

static void times_to_live(void) {
    for (uint32_t i = 0; i < 2; i++) {
        stream_config_t config = rig_stream;
        config.flags = STREAM_ALLOW_TTL | STREAM_ALLOW_ROLLUP;
        config.marker_ttl_ns = i * NS_PER_SECOND;
        plane_t *plane = open_with_many(config, "Nats-TTL: 1h\r\n");
        time_passes(plane, 7200 * NS_PER_SECOND);
        until_left(plane, 0);
        rig_close_and_remove(plane);
    }
}

static void message_ids(void) {
    stream_config_t config = rig_stream;
    config.duplicate_window_ns = 3600 * NS_PER_SECOND;
    plane_t *plane = open_with_many(config, "Nats-Msg-Id: %u\r\n");
    time_passes(plane, 7200 * NS_PER_SECOND);
    turns(plane, 200);
    rig_close_and_remove(plane);
}

static void schedules(void) {
    stream_config_t config = rig_stream;
    config.flags = STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP | STREAM_GRANTS_SCHEDULES;
    static const char header[] = "Nats-Schedule: @every 1h\r\nNats-Schedule-Target: s.out\r\n";
    for (uint32_t i = 0; i < 2; i++) {
        plane_t *plane = open_with_many(config, header);
        CHECK_EQ_U64(MANY, stored(plane));
        if (i == 0) {
            run_on_stream(plane, (plane_command_t){.op = COMMAND_STREAM_PURGE}, "");
        } else {
            time_passes(plane, 7200 * NS_PER_SECOND);
            turns(plane, 500);
            CHECK(stored(plane) > MANY);
        }
        rig_close_and_remove(plane);
    }
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

typedef struct fetched {
    plane_t *plane;
    peer_t *client;
    char last[128]; /* reply of the last delivery */
} fetched_t;

/* All of the stream is delivered and not acknowledged. */
static fetched_t fetch_all(uint8_t retention, uint8_t policy, bool settled) {
    stream_config_t config = rig_stream;
    config.retention = retention;
    plane_t *plane = open_stream(config);
    consumer_config_t consumer = rig_consumer;
    consumer.max_ack_pending = -1;
    consumer.ack_policy = policy;
    rig_put_consumer(plane, consumer);
    publish_many(plane, "");
    fetched_t fetched = {.plane = plane, .client = rig_client(plane)};
    rig_feed(plane, fetched.client, "SUB in 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C in 15\r\n{\"batch\":30000}\r\n");
    uint32_t heard = 0;
    for (int64_t until = 0; heard < MANY && patient(&until);) {
        const char *said = rig_heard(fetched.client);
        /* (For each strstr() the sanitizer reads up to the end of what was said.) */
        for (const char *at = strchr(said, '$'); at != NULL; at = strchr(at + 1, '$')) {
            CHECK(strncmp(at, "$JS.ACK", 7) == 0);
            heard++;
            size_t size = strcspn(at, " ");
            CHECK(size < sizeof(fetched.last));
            memcpy(fetched.last, at, size);
            fetched.last[size] = 0;
        }
        rig_turn(plane);
        usleep(50);
    }
    CHECK_EQ_U64(MANY, heard);
    turns(plane, settled ? 2000 : 0);
    return fetched;
}

static void consumer_command(fetched_t fetched, uint32_t op, uint64_t arg2) {
    rig_run_with(fetched.plane, (plane_command_t){.op = op, .target = 1, .arg = 1, .arg2 = arg2, .token = 5}, NULL, 0,
                 NULL, 0);
}

static void quiet_end(fetched_t fetched) {
    turns(fetched.plane, 200);
    settle(fetched.plane);
    rig_close_and_remove(fetched.plane);
}

static void consumers_that_end(void) {
    for (uint32_t i = 0; i < 8; i++) {
        fetched_t fetched = fetch_all(0, ACK_EXPLICIT, i & 1);
        switch (i / 2) {
        case 0: consumer_command(fetched, COMMAND_CONSUMER_REMOVE, 0); break;
        case 1: consumer_command(fetched, COMMAND_CONSUMER_RESET, 5); break;
        case 2: run_on_stream(fetched.plane, (plane_command_t){.op = COMMAND_STREAM_PURGE}, ""); break;
        default: run_on_stream(fetched.plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE}, ""); break;
        }
        quiet_end(fetched);
    }
}

/* Its messages are counted for it, and a backup wants it before they are. */
static void consumer_of_a_backup(void) {
    static const char *const parts[] = {"c", "definition", "", "", "", "s.*"};
    plane_t *plane = open_with_many(rig_stream, "");
    consumer_config_t config = rig_consumer;
    config.deliver_policy = DELIVER_LAST_PER_SUBJECT;
    plane_command_t put = {.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 1, .token = 901};
    rig_blocks_max = BLOCKS_MAX * 3; /* a step looks at 7168 subjects, with 360 blocks each */
    rig_run_with(plane, put, &config, sizeof(config), parts, 6);
    consumer_command((fetched_t){.plane = plane}, COMMAND_CONSUMER_EXPORT, 0);
    settle(plane);
    rig_blocks_max = BLOCKS_MAX;
    rig_close_and_remove(plane);
}

static void ack_waits(void) {
    fetched_t fetched = fetch_all(0, ACK_EXPLICIT, false);
    time_passes(fetched.plane, 40 * NS_PER_SECOND);
    quiet_end(fetched);
}

static void ack_all(void) {
    for (uint8_t retention = 0; retention < 3; retention++) {
        fetched_t fetched = fetch_all(retention, ACK_ALL, retention != 0);
        char line[160];
        snprintf(line, sizeof(line), "PUB %s 0\r\n\r\n", fetched.last);
        rig_feed(fetched.plane, fetched.client, line);
        if (retention != 0) until_left(fetched.plane, 0);
        quiet_end(fetched);
    }
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

static void say_many(plane_t *plane, peer_t *peer, const char *line) {
    for (uint32_t n = 0; n < MANY; n++) {
        char filled[64];
        snprintf(filled, sizeof(filled), line, n, n);
        rig_say(plane, peer, filled);
        if (n % 1000 == 999) rig_turn(plane);
    }
    rig_turn(plane);
}

/* Until nobody is told anything any more. */
static void turns_told(plane_t *plane, peer_t *peer) {
    for (uint32_t n = 0; n < TURNS; n++) {
        rig_turn(plane);
        if (peer != NULL) (void)rig_heard(peer);
    }
}

static void subscriptions(void) {
    static const char *const lines[] = {"SUB a.%u %u\r\n", "SUB a %u\r\n", "SUB a q %u\r\n", "SUB a q.%u %u\r\n"};
    for (uint32_t i = 0; i < 4; i++) {
        plane_t *plane = rig_open(NULL, "");
        peer_t *c = rig_client(plane);
        say_many(plane, c, lines[i]);
        CHECK_EQ_U64(MANY, plane->stats.subscriptions);
        peer_doom(plane, c, CLOSE_CLIENT, BYTES_NONE);
        turns_told(plane, NULL);
        CHECK_EQ_U64(0, plane->stats.subscriptions);
        rig_close(plane);
    }
}

static void links(void) {
    plane_t *plane = rig_open(NULL, "");
    plane->limits.max_pending = 64 << 20;
    peer_t *leaf = rig_leaf(plane, 0, "", NULL), *client = rig_client(plane);
    say_many(plane, leaf, "LS+ a.%u\r\n");
    peer_t *other = rig_leaf(plane, 0, "", NULL); /* is told of all of them */
    turns_told(plane, other);
    say_many(plane, client, "SUB b.%u %u\r\n");
    (void)rig_heard(other);
    peer_doom(plane, leaf, CLOSE_CLIENT, BYTES_NONE);
    turns_told(plane, other);
    peer_doom(plane, client, CLOSE_CLIENT, BYTES_NONE);
    turns_told(plane, other);
    CHECK(plane->stats.subscriptions == 0);
    rig_close(plane);
}

static void import_stream(plane_t *plane, bool any) {
    static const uint8_t strings[] = {3, 0, 0, 0, 'a', '.', '*', 3, 0, 0, 0, 'b', '.', '*',
                                      1, 0, 0, 0, 0,   0,   0,   0, 0, 0, 0, 0,   0};
    import_row_t row = {.account = E, .kind = IMPORT_STREAM};
    rig_run(plane,
            (plane_command_t){.op = COMMAND_IMPORTS,
                              .account = I,
                              .body = (const uint8_t *)&row,
                              .body_size = any ? sizeof(row) : 0,
                              .extra = any ? strings : NULL,
                              .extra_size = any ? sizeof(strings) : 0},
            NULL);
}

static void imports(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, 0, "");
    import_stream(plane, true);
    rig_turn(plane);
    peer_t *e = rig_client(plane);
    rig_admits_to = I;
    peer_t *c = rig_client(plane);
    rig_admits_to = E;
    say_many(plane, c, "SUB b.%u %u\r\n");
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\n");
    RIG_HEARD("MSG b.7 7 1\r\nx\r\n", c);
    import_stream(plane, false);
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\n"); /* it ended, though its shadows are still there */
    RIG_HEARD("", c);
    turns_told(plane, NULL);
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\n");
    RIG_HEARD("", c);
    peer_doom(plane, c, CLOSE_CLIENT, BYTES_NONE);
    turns_told(plane, NULL);
    rig_close(plane);
}

static void imports_that_come(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, 0, "");
    peer_t *e = rig_client(plane);
    rig_admits_to = I;
    peer_t *c = rig_client(plane), *goes = rig_client(plane);
    say_many(plane, goes, "SUB b.%u %u\r\n");
    say_many(plane, c, "SUB b.%u %u\r\n");
    rig_admits_to = E;
    import_stream(plane, true);
    peer_doom(plane, goes, CLOSE_CLIENT, BYTES_NONE);
    rig_feed(plane, c, "SUB b.new n\r\n");
    turns_told(plane, NULL);
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\nPUB a.29999 1\r\nx\r\nPUB a.new 1\r\nx\r\n");
    RIG_HEARD("MSG b.7 7 1\r\nx\r\nMSG b.29999 29999 1\r\nx\r\nMSG b.new n 1\r\nx\r\n", c);
    import_stream(plane, true);
    import_stream(plane, false); /* while the shadows of another would be cast */
    turns_told(plane, NULL);
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\n");
    RIG_HEARD("", c);
    import_stream(plane, true);
    import_stream(plane, false);
    rig_feed(plane, e, "PUB a.7 1\r\nx\r\n");
    RIG_HEARD("", c);
    turns_told(plane, NULL);
    import_stream(plane, true);
    rig_close(plane);
}

static void rights(void) {
    for (uint32_t i = 0; i < 2; i++) {
        plane_t *plane = rig_open(NULL, "");
        plane->limits.max_pending = 64 << 20;
        peer_t *c = rig_client(plane);
        say_many(plane, c, "SUB a.%u %u\r\n");
        rig_strings_t strings = {.size = 0};
        static const char *const parts[] = {"", "", "", "", "a.>", ""};
        for (uint32_t n = 0; n < 6; n++)
            if (i == 1 || n != 4) rig_pack(&strings, parts[n]);
        conn_verdict_t verdict = {.flags = RIG_FLAGS};
        rig_run(plane,
                (plane_command_t){.op = COMMAND_RIGHTS,
                                  .account = E,
                                  .target = c->id,
                                  .body = (const uint8_t *)&verdict,
                                  .body_size = sizeof(verdict)},
                &strings);
        turns_told(plane, c);
        CHECK_EQ_U64(i == 0 ? MANY : 0, plane->stats.subscriptions);
        rig_close(plane);
    }
}

/* Which allow_responses lets a connection send, and a reload does not. */
static void allowed_replies(void) {
    plane_t *plane = rig_open(NULL, "");
    static const char *const lists[4] = {"nothing", "", "", ""};
    peer_t *asks = rig_client(plane);
    peer_t *a = rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS, .response_max = 1}, lists);
    rig_feed(plane, a, "SUB a 1\r\n");
    for (uint32_t i = 0; i < 16384; i++) {
        char line[64];
        snprintf(line, sizeof(line), "PUB a r.%u 0\r\n\r\n", i);
        rig_feed(plane, asks, line);
        if (i % 400 == 399) (void)rig_heard(a);
    }
    CHECK(plane->memory.allowed.share.used > 16384 * 64);
    rig_strings_t strings = {.size = 0};
    static const char *const parts[] = {"", "r.5", "", "", "", ""};
    for (uint32_t n = 0; n < 6; n++) rig_pack(&strings, parts[n]);
    conn_verdict_t verdict = {.flags = RIG_FLAGS};
    rig_blocks_max = BLOCKS_MAX / 4;
    rig_run(plane,
            (plane_command_t){.op = COMMAND_RIGHTS,
                              .account = E,
                              .target = a->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
    turns_told(plane, a);
    rig_blocks_max = BLOCKS_MAX;
    CHECK_EQ_U64(0, plane->memory.allowed.share.used);
    rig_feed(plane, asks, "SUB r.> 1\r\n");
    rig_feed(plane, a, "PUB r.6 0\r\n\r\n");
    CHECK(strstr(rig_heard(a), "-ERR 'Permissions Violation for Publish to \"r.6\"") != NULL);
    RIG_HEARD("", asks);
    rig_close(plane);
}

/* Thousands of lines in one read: another client's PING is answered in the same turn. */
static void subscriptions_that_come(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *flood = rig_client(plane), *other = rig_client(plane);
    buffer_t lines;
    buffer_init(&lines, 1 << 20);
    for (uint32_t i = 0; i < 10 * INPUT_CHANGES_MAX; i++) {
        char line[40];
        int size = snprintf(line, sizeof(line), i % 2 == 0 ? "SUB s.%u %u\r\n" : "UNSUB %u\r\n", i, i);
        CHECK_EQ_I64(STATUS_OK, buffer_append(&lines, line, (uint32_t)size));
    }
    CHECK_EQ_I64(STATUS_OK, buffer_append(&lines, "PING\r\n", 7));
    rig_say(plane, flood, (const char *)lines.at);
    core_backlog(plane); /* not in the same turn */
    CHECK_EQ_U64(INPUT_CHANGES_MAX / 2, plane->stats.subscriptions);
    rig_feed(plane, other, "PING\r\n");
    RIG_HEARD("PONG\r\n", other);
    RIG_HEARD("", flood);
    for (uint32_t i = 0; i < 10; i++) {
        core_backlog(plane);
        rig_turn(plane);
    }
    CHECK_EQ_U64(5 * INPUT_CHANGES_MAX, plane->stats.subscriptions);
    RIG_HEARD("PONG\r\n", flood);
    buffer_free(&lines);
    rig_close(plane);
}

/* One operation may be a thousand deliveries: the clock is looked at by what was done, not by operations alone. */
static void deliveries_end_a_turn(void) {
    static plane_t bare;
    static const uint64_t steps = 0;
    const uint64_t each = 4 * INPUT_TIME_WORK;
    for (uint32_t threaded = 0; threaded < 2; threaded++) {
        bare.threaded = threaded != 0;
        turn_t one = turn_begin(&bare, &steps);
        uint32_t operations = 0;
        do {
            operations++;
            bare.stats.out_msgs += each;
            CHECK(!bare.threaded || usleep(INPUT_TIME_NS / 1000 * 3 / 4) == 0);
        } while (!turn_is_over(&bare, &one));
        CHECK(bare.threaded ? operations <= 3 : operations == INPUT_WORK_MAX / INPUT_TIME_WORK);
    }
}

int main(void) {
    rig_blocks_max = BLOCKS_MAX;
    RUN("subscriptions that come by the thousand", subscriptions_that_come);
    RUN("deliveries by the thousand end a turn", deliveries_end_a_turn);
    RUN("a purge of any kind, and a stream's removal", purges);
    rig_blocks_max = REMOVALS_MAX;
    RUN("limits that are lowered", limits);
    RUN("messages whose time is over, with markers and without", times_to_live);
    RUN("message ids whose window is over", message_ids);
    rig_blocks_max = BLOCKS_MAX;
    RUN("schedules that are purged, or due together", schedules);
    RUN("consumers that are removed, set back or lose their messages", consumers_that_end);
    RUN("deliveries that nobody acknowledges in time", ack_waits);
    RUN("deliveries that are acknowledged together", ack_all);
    RUN("a consumer that a backup wants before its messages are counted", consumer_of_a_backup);
    RUN("subscriptions that leave with their client", subscriptions);
    RUN("interest that a link brings, and that leaves with it", links);
    RUN("an import that a reload takes away", imports);
    RUN("an import that a reload brings", imports_that_come);
    RUN("rights that a reload changes", rights);
    RUN("replies that a reload lets nobody send any more", allowed_replies);
    return TEST_RESULT();
}
