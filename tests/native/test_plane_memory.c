/* test_plane_memory.c: out of memory, at every place. A workload runs again and again, and in its n-th run the n-th
 * allocation of the plane's thread fails, and, in a second round, every one from the n-th on for a while. Whatever is
 * refused for it: nothing aborts, nothing leaks (the sanitizers watch), every command is answered once, every
 * connection that was announced is told to be closed once, and when memory is there again the plane serves a new
 * client.
 */
#include <ftw.h>
#include <stdio.h>

#include "failing_allocator.h"
#include "stream_rig.h"

static bool failing; /* an allocation of this run is to fail */

/* ---- control's side ---------------------------------------------------------------------------------------------- */

#define TOKENS_MAX 256u

static plane_t *plane;
static uint32_t taken[TOKENS_MAX]; /* by token: 1 once the ring took the command */
static uint32_t answers[TOKENS_MAX];
static int32_t last_status;
static uint64_t next_token;
static uint64_t opened, closed;

static void take_events(void) {
    plane_event_t events[16];
    for (uint32_t count; (count = exchange_poll(&plane->exchange, events, 16)) != 0;
         exchange_release(&plane->exchange, count)) {
        for (uint32_t i = 0; i < count; i++) {
            opened += events[i].kind == EVENT_OPENED;
            closed += events[i].kind == EVENT_CLOSED;
            if (events[i].kind == EVENT_DONE) {
                answers[events[i].token]++;
                last_status = events[i].status;
            }
        }
    }
}

static void tick(void) {
    plane->more = false;
    core_commands(plane);
    core_backlog(plane);
    core_settle(plane);
    take_events();
}

/* Until what was promised is on disk: the journal's thread is real. */
static void settle(void) {
    int64_t until = 0;
    for (int i = 0; patient(&until); i++) {
        rig_pass_pauses(plane);
        tick();
        const store_t *store = plane->js.stores[STORE_FILE];
        if (store == NULL
            || (plane->js.held[STORE_FILE].count == 0 && store_batch_empty(store)
                && store_durable(store) + 1 == store_batch(store) && plane->js.jobs == NULL && i >= 2)) {
            return;
        }
        usleep(50);
    }
    FAIL("what waits for the disk waits for ever");
}

static const char first_wildcard[] = "the byte 0";

/* true: done. Without a failing allocation it has to be. */
static bool command(plane_command_t command, const char *const *texts, uint32_t count) {
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < count; i++) {
        rig_pack(&strings, texts[i] == first_wildcard ? "0" : texts[i]);
        if (texts[i] == first_wildcard) strings.at[strings.size - 1] = 0;
    }
    command.token = ++next_token;
    CHECK(next_token < TOKENS_MAX);
    command.extra = strings.at;
    command.extra_size = strings.size;
    last_status = STATUS_NO_MEMORY;
    taken[next_token] = (uint32_t)exchange_submit(&plane->exchange, &command, 1);
    settle();
    bool ok = taken[next_token] == 1 && last_status == STATUS_OK;
    if (!ok && !failing) FAIL("command %u is refused with %d", command.op, last_status);
    return ok;
}

#define COMMAND(texts, ...) command((plane_command_t){__VA_ARGS__}, texts, sizeof(texts) / sizeof(texts[0]))
#define COMMAND_ALONE(...) command((plane_command_t){__VA_ARGS__}, NULL, 0) /* without strings */

/* ---- the peers' side --------------------------------------------------------------------------------------------- */

static void say(uint64_t id, const char *text) {
    peer_t *peer = peer_find(plane, id);
    if (peer == NULL) {
        return;
    }
    if (buffer_append(&peer->conn.rest, text, strlen(text)) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
    } else {
        peer_act(plane, peer, conn_rest(&peer->conn));
    }
    settle();
}

static uint64_t join(uint32_t kind, uint32_t account, uint32_t flags) {
    peer_t *peer = peer_new(plane, -1, kind, 1, rig_text("test:1"));
    if (peer == NULL) {
        return 0;
    }
    uint64_t id = peer->id;
    conn_verdict_t verdict = {.flags = flags, .response_max = kind == CONN_CLIENT ? 1 : 0};
    static const char *const client[] = {"INFO {}\r\n", "a.>",   "s.>", "_I.>", "$JS.>", "local.>", "ask", "m.*",
                                         "$API.>",      "_no.>", "",    "a.no", "",      "",        ""};
    static const char *const leaf[] = {"far", "$LDS.own", "", "a.no", "", "", "", ""};
    say(id, "CONNECT {}\r\n");
    (void)command((plane_command_t){.op = kind == CONN_CLIENT ? COMMAND_ADMIT : COMMAND_ADMIT_LEAF,
                                    .account = account,
                                    .target = id,
                                    .body = (const uint8_t *)&verdict,
                                    .body_size = sizeof(verdict)},
                  kind == CONN_CLIENT ? client : leaf,
                  kind == CONN_CLIENT ? sizeof(client) / sizeof(client[0]) : sizeof(leaf) / sizeof(leaf[0]));
    return id;
}

/* What it heard, which is written by that. */
static bool heard(uint64_t id, const char *text) {
    peer_t *peer = peer_find(plane, id);
    return peer != NULL && strstr(rig_heard(peer), text) != NULL;
}

/* ---- the workload ------------------------------------------------------------------------------------------------ */

static void accounts(void) {
    static const char *const first[] = {"A", "edge"}, *const second[] = {"B", ""}, *const api[] = {"$API.>", ""};
    (void)COMMAND(first, .op = COMMAND_ACCOUNT, .account = 1, .arg = plane->js.consume != NULL ? ACCOUNT_JETSTREAM : 0);
    (void)COMMAND(second, .op = COMMAND_ACCOUNT, .account = 2);
    (void)COMMAND(api, .op = COMMAND_SUBSCRIBE, .account = 1, .target = 77);
    static const char *const mapping[] = {"m.*", "a.$1", "50", "a.x", "100", ""};
    (void)COMMAND(mapping, .op = COMMAND_MAPPING, .account = 1);
    static const char *const imports[] = {"a.>", "local.>", first_wildcard, "",  "", "$API.ask",
                                          "ask", "",        "told",         ".T"};
    import_row_t rows[] = {
        {.account = 1, .kind = IMPORT_STREAM},
        {.account = 1, .kind = IMPORT_SERVICE, .flags = IMPORT_DETAILED | IMPORT_MEASURED, .sampling = 100}};
    (void)COMMAND(imports, .op = COMMAND_IMPORTS, .account = 2, .body = (const uint8_t *)rows,
                  .body_size = sizeof(rows));
}

static void streams(void) {
    stream_config_t config = rig_stream;
    config.flags = STREAM_ALLOW_DIRECT;
    config.duplicate_window_ns = 120 * NS_PER_SECOND;
    static const char *const stream[] = {"S", "{\"name\":\"S\"}", "edge", "", "", "", "", "s.>"};
    static const char *const durable[] = {"C", "{}", "", "", "", ""}, *const all[] = {">"}, *const none[] = {""};
    (void)COMMAND(stream, .op = COMMAND_STREAM_PUT, .account = 1, .target = 1, .body = (const uint8_t *)&config,
                  .body_size = sizeof(config));
    (void)COMMAND(durable, .op = COMMAND_CONSUMER_PUT, .account = 1, .target = 1, .arg = 1,
                  .body = (const uint8_t *)&rig_consumer, .body_size = sizeof(rig_consumer));
    uint64_t a = join(CONN_CLIENT, 1, RIG_FLAGS);
    say(a, "SUB _I.> 1\r\nPUB s.a _I.1 1\r\nx\r\nHPUB s.b _I.2 28 29\r\nNATS/1.0\r\nNats-Msg-Id: 7\r\n\r\nx\r\nPUB s.a "
           "1\r\nx\r\n");
    say(a, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.p 1\r\n2\r\nPUB $JS.API.DIRECT.GET.S.s.a _I.d 0\r\n\r\n");
    peer_t *peer = peer_find(plane, a);
    const char *ack = peer == NULL ? NULL : strstr(rig_heard(peer), "$JS.ACK.");
    if (ack == NULL && !failing) FAIL("no delivery: %s", rig_out);
    if (ack != NULL) {
        char line[200];
        snprintf(line, sizeof(line), "PUB %.*s _I.ack 4\r\n+ACK\r\n", (int)strcspn(ack, " \r"), ack);
        say(a, line);
    }
    (void)COMMAND(all, .op = COMMAND_STREAM_STATE, .target = 1);
    (void)COMMAND_ALONE(.op = COMMAND_CONSUMER_STATE, .target = 1, .arg = 1);
    (void)COMMAND_ALONE(.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 2);
    (void)COMMAND(none, .op = COMMAND_STREAM_PURGE, .target = 1);
    (void)COMMAND_ALONE(.op = COMMAND_CONSUMER_REMOVE, .target = 1, .arg = 1);
    (void)COMMAND_ALONE(.op = COMMAND_STREAM_REMOVE, .target = 1);
}

static void peers(void) {
    uint64_t a = join(CONN_CLIENT, 1, RIG_FLAGS), b = join(CONN_CLIENT, 2, RIG_FLAGS),
             leaf = join(CONN_LEAF, 1, VERDICT_HEADERS);
    uint64_t second = join(CONN_LEAF, 1, VERDICT_HEADERS | VERDICT_SPOKE);
    say(a, "SUB a.> 1\r\nSUB a.b q 2\r\nSUB _I.* 3\r\nPING\r\nUNSUB 2 5\r\n");
    say(b, "SUB local.> 1\r\nSUB _I.* 3\r\nPUB ask _I.9 2\r\n{}\r\n");
    say(leaf, "LS+ a.b\r\nLS+ a.q q 3\r\nLMSG a.b 2\r\nhi\r\nLMSG a.b + _I.x q 2\r\nhi\r\n-ERR 'x'\r\nINFO {}\r\n");
    say(second, "LS+ a.*\r\nLS- a.*\r\n");
    say(a, "PUB a.b 2\r\nhi\r\nPUB m.x _I.1 2\r\nhi\r\nPUB $API.x _I.7 2\r\n{}\r\nHPUB a.c 12 "
           "13\r\nNATS/1.0\r\n\r\nx\r\nPUB _no.one _I.2 0\r\n\r\n");
    static const char *const reply[] = {"_I.7", "", ""};
    CHECK(failing || heard(b, "MSG local.b"));
    (void)COMMAND(reply, .op = COMMAND_PUBLISH, .account = 1, .body = (const uint8_t *)"ok", .body_size = 2);
    (void)COMMAND_ALONE(.op = COMMAND_CONNECTIONS);
    (void)COMMAND_ALONE(.op = COMMAND_CLOSE, .target = leaf);
    say(a, "CONNECT {}\r\nnonsense\r\n");
}

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static plane_t *open_plane(bool jetstream) {
    plane_t *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    made->now = clock_now();
    plane_limits_t limits = rig_limits(jetstream ? rig_directory : NULL);
    limits.max_file_store = 8 << 20;
    char reason[PLANE_REASON_SIZE] = "";
    if (core_open(made, &limits, jetstream ? rig_directory : NULL, NULL, reason) != STATUS_OK) {
        CHECK(reason[0] != 0);
        core_close(made);
        free(made);
        return NULL;
    }
    return made;
}

static void new_client_is_served(void) {
    static const char *const account[] = {"Z", ""};
    CHECK(COMMAND(account, .op = COMMAND_ACCOUNT, .account = 9,
                  .arg = plane->js.consume != NULL ? ACCOUNT_JETSTREAM : 0));
    uint64_t id = join(CONN_CLIENT, 9, RIG_FLAGS);
    say(id, "SUB a.* 1\r\nPUB a.z 3\r\nnew\r\n");
    CHECK(heard(id, "MSG a.z 1 3\r\nnew\r\n"));
    if (plane->js.consume != NULL) {
        stream_config_t config = rig_stream;
        config.account = 9;
        static const char *const stream[] = {"Z", "{}", "", "", "", "", "", "s.z"};
        CHECK(COMMAND(stream, .op = COMMAND_STREAM_PUT, .account = 9, .target = 9, .body = (const uint8_t *)&config,
                      .body_size = sizeof(config)));
        say(id, "SUB _I.* 2\r\nPUB s.z _I.1 1\r\nx\r\n");
        CHECK(heard(id, "{\"stream\":\"Z\",\"seq\":1}"));
    }
}

/* The number of allocations that the workload makes. */
static uint64_t run(bool jetstream, uint64_t from, uint64_t many) {
    next_token = opened = closed = 0;
    memset(taken, 0, sizeof(taken));
    memset(answers, 0, sizeof(answers));
    if (jetstream) {
        (void)rig_new_directory();
    }
    failing = from != 0;
    failing_allocations((failing_allocations_t){.from = from, .times = many});
    plane = open_plane(jetstream);
    if (plane != NULL) {
        accounts();
        (jetstream ? streams : peers)();
    }
    uint64_t made = failing_allocations_count();
    failing = false;
    failing_allocations((failing_allocations_t){0});
    if (plane == NULL) {
        CHECK(from != 0);
        plane = open_plane(jetstream); /* what a failed start left behind is no obstacle */
        CHECK(plane != NULL);
    }
    new_client_is_served();
    map_walk_t walk = {0};
    for (account_t *account; (account = table_next(&plane->accounts, &walk)) != NULL;) {
        route_check(account->route);
    }
    while (plane->all_peers != NULL) {
        peer_doom(plane, plane->all_peers, CLOSE_SHUTDOWN, BYTES_NONE);
        tick();
    }
    CHECK_EQ_U64(0, plane->stats.connections);
    CHECK_EQ_U64(opened, closed);
    for (uint64_t token = 1; token <= next_token; token++) {
        CHECK_EQ_U64(taken[token], answers[token]);
    }
    rig_close(plane);
    if (jetstream) {
        CHECK(nftw(rig_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
    }
    return made;
}

/* A stream is loaded while the n-th allocation fails, for every n: whatever is refused, its messages are still there
 * afterwards. */
static void load_again(void) {
    static const char *const stream[] = {"S", "{}", "edge", "", "", "", "", "s.>"}, *const account[] = {"A", "edge"},
                             *const all[] = {">"};
    plane_command_t put = {.op = COMMAND_STREAM_PUT,
                           .account = 1,
                           .target = 1,
                           .body = (const uint8_t *)&rig_stream,
                           .body_size = sizeof(rig_stream)};
    (void)rig_new_directory();
    bool loaded = false;
    for (uint64_t n = 0; !loaded; n++) {
        next_token = opened = closed = 0;
        memset(taken, 0, sizeof(taken));
        memset(answers, 0, sizeof(answers));
        plane = open_plane(true);
        CHECK(plane != NULL);
        CHECK(COMMAND(account, .op = COMMAND_ACCOUNT, .account = 1, .arg = ACCOUNT_JETSTREAM));
        if (n == 0) {
            CHECK(command(put, stream, 8));
            say(join(CONN_CLIENT, 1, RIG_FLAGS), "PUB s.a 1\r\nx\r\nPUB s.b 1\r\ny\r\n");
        } else {
            put.arg = 1;
            failing = true;
            failing_allocations((failing_allocations_t){.from = n, .times = 1});
            loaded = command(put, stream, 8) && failing_allocations_count() < n;
            failing = false;
            failing_allocations((failing_allocations_t){0});
            if (stream_find(&plane->js, 1) == NULL) CHECK(command(put, stream, 8));
        }
        CHECK(COMMAND(all, .op = COMMAND_STREAM_STATE, .target = 1));
        stream_state_t state;
        stream_state_of(stream_find(&plane->js, 1), &state);
        CHECK_EQ_U64(2, state.messages);
        rig_close(plane);
    }
    CHECK(nftw(rig_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static void open_again(void) {
    static const char *const account[] = {"A", "edge"};
    next_token = opened = closed = 0;
    memset(taken, 0, sizeof(taken));
    memset(answers, 0, sizeof(answers));
    plane = open_plane(true);
    CHECK(plane != NULL);
    CHECK(COMMAND(account, .op = COMMAND_ACCOUNT, .account = 1, .arg = ACCOUNT_JETSTREAM));
}

/* What the only consumer of a stream of interest has in flight, and where it stands; and its definition on the disk. */
static void check_consumer(void) {
    static const uint8_t key[8] = {0, 0, 0, 1, 0, 0, 0, 1};
    bytes_t definition;
    stream_state_t state;
    consumer_state_t stands;
    stream_state_of(stream_find(&plane->js, 1), &state);
    CHECK_EQ_U64(2, state.messages);
    consumer_snapshot(binding_find(&plane->js, stream_find(&plane->js, 1), 1)->consumer, plane->now, &stands);
    CHECK_EQ_U64(1, stands.floor_stream);
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(plane->js.stores[STORE_FILE], RECORD_CONSUMER, bytes_of(key, sizeof key),
                                               &definition));
}

/* A consumer is loaded while the n-th allocation fails, for every n: it is loaded in the end, as it was. */
static void load_consumer_again(void) {
    static const char *const stream[] = {"S", "{}", "edge", "", "", "", "", "s.>"}, *const durable[] = {"C", "{}", "",
                                                                                                        "",  "",   ""};
    stream_config_t config = rig_stream;
    config.retention = 1;
    plane_command_t put = {.op = COMMAND_STREAM_PUT, .account = 1, .target = 1};
    put.body = (const uint8_t *)&config;
    put.body_size = sizeof(config);
    plane_command_t consume = {.op = COMMAND_CONSUMER_PUT, .account = 1, .target = 1, .arg = 1};
    consume.body = (const uint8_t *)&rig_consumer;
    consume.body_size = sizeof(rig_consumer);
    (void)rig_new_directory();
    open_again();
    CHECK(command(put, stream, 8) && command(consume, durable, 6));
    uint64_t client = join(CONN_CLIENT, 1, RIG_FLAGS);
    say(client, "SUB _I.> 1\r\nPUB s.a 1\r\nx\r\nPUB s.b 1\r\ny\r\nPUB s.c 1\r\nz\r\n");
    say(client, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.p 1\r\n2\r\n");
    say(client, "PUB $JS.ACK.S.C.1.1.1.0.0 0\r\n\r\n");
    check_consumer();
    put.arg = consume.arg2 = 1;
    bool loaded = false;
    for (uint64_t n = 1; !loaded; n++) {
        core_shutdown(plane);
        rig_close(plane);
        open_again();
        CHECK(command(put, stream, 8));
        failing = true;
        failing_allocations((failing_allocations_t){.from = n, .times = 1});
        bool put_now = command(consume, durable, 6);
        loaded = failing_allocations_count() < n;
        failing = false;
        failing_allocations((failing_allocations_t){0});
        if (!put_now) CHECK(command(consume, durable, 6));
        check_consumer();
    }
    rig_close(plane);
    CHECK(nftw(rig_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* One that fails is none that control has to hear of: it is asked for again. */
static void subscribe_anyhow(void) {
    static const char *const subject[] = {"$JS.API.>", ""};
    (void)rig_new_directory();
    bool reached = true;
    for (uint64_t n = 1; reached; n++) {
        open_again();
        failing = true;
        failing_allocations((failing_allocations_t){.from = n, .times = 1});
        bool done = COMMAND(subject, .op = COMMAND_SUBSCRIBE, .account = 1, .target = 77);
        reached = failing_allocations_count() >= n;
        failing = false;
        failing_allocations((failing_allocations_t){0});
        CHECK(done || taken[next_token] != 1 || answers[next_token] == 0);
        rig_close(plane);
    }
    CHECK(nftw(rig_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* LEAFD_MEMORY_STEP: of the runs with a store, every so many; 1 = all. */
static uint64_t step(void) {
    const char *text = getenv("LEAFD_MEMORY_STEP");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

static void fail_each(bool jetstream, uint64_t many) {
    uint64_t all = run(jetstream, 0, 0);
    CHECK(all > 50);
    for (uint64_t n = 1; n <= all; n += jetstream ? step() : 1) {
        if (getenv("LEAFD_MEMORY_TALK") != NULL) fprintf(stderr, "%" PRIu64 " of %" PRIu64 "\n", n, all);
        (void)run(jetstream, n, many);
    }
}

static void each_of_peers(void) {
    fail_each(false, 1);
}

static void some_of_peers(void) {
    fail_each(false, 20);
}

static void each_of_streams(void) {
    fail_each(true, 1);
}

int main(void) {
    RUN("clients, links, imports: each allocation fails once", each_of_peers);
    RUN("clients, links, imports: twenty allocations in a row fail", some_of_peers);
    RUN("streams, consumers, acknowledgements, purge: each allocation fails once", each_of_streams);
    RUN("a stream that cannot be loaded keeps its messages", load_again);
    RUN("a subscription of control is made, whichever allocation failed", subscribe_anyhow);
    RUN("a consumer that cannot be loaded keeps what is stored of it", load_consumer_again);
    return TEST_RESULT();
}
