/* test_plane_client.c: what clients of the core see. Texts are nats-server 2.15.1's (tests/wire/client.md). */
#include "plane_rig.h"

static void message_to_all(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    rig_feed(plane, a, "SUB foo.* 1\r\nSUB foo.> 2\r\nSUB bar 3\r\n");
    rig_feed(plane, b, "PUB foo.x r 2\r\nhi\r\nHPUB foo.y 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    const char *heard = rig_heard(a);
    CHECK(strstr(heard, "MSG foo.x 1 r 2\r\nhi\r\n") != NULL);
    CHECK(strstr(heard, "MSG foo.x 2 r 2\r\nhi\r\n") != NULL);
    CHECK(strstr(heard, "HMSG foo.y 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n") != NULL);
    RIG_HEARD("", b);
    rig_close(plane);
}

static void split_anywhere(void) {
    static const char script[] = "SUB a.b 7\r\nPUB a.b 5\r\nhello\r\nPING\r\n";
    for (size_t cut = 1; cut < sizeof(script) - 1; cut++) {
        plane_t *plane = rig_open(NULL, "");
        peer_t *a = rig_client(plane);
        char head[sizeof(script)];
        memcpy(head, script, cut);
        head[cut] = 0;
        rig_feed(plane, a, head);
        rig_feed(plane, a, script + cut);
        RIG_HEARD("MSG a.b 7 5\r\nhello\r\nPONG\r\n", a);
        rig_close(plane);
    }
}

static void one_of_a_group(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    rig_feed(plane, a, "SUB q w 1\r\nSUB q w 2\r\n");
    rig_feed(plane, b, "SUB q w 3\r\nSUB * 4\r\n");
    uint64_t members = 0, plain = 0;
    for (int i = 0; i < 200; i++) {
        rig_feed(plane, a, "PUB q 0\r\n\r\n");
    }
    const char *ways[] = {"MSG q 1 ", "MSG q 2 ", "MSG q 3 ", "MSG q 4 "};
    uint64_t counts[4] = {0};
    peer_t *peers[] = {a, b};
    for (int p = 0; p < 2; p++) {
        const char *heard = rig_heard(peers[p]);
        for (int w = 0; w < 4; w++) {
            for (const char *at = heard; (at = strstr(at, ways[w])) != NULL; at++) counts[w]++;
        }
    }
    members = counts[0] + counts[1] + counts[2];
    plain = counts[3];
    CHECK_EQ_U64(200, members);
    CHECK_EQ_U64(200, plain);
    CHECK(counts[0] > 20 && counts[1] > 20 && counts[2] > 20);
    rig_close(plane);
}

static void ends_after_max(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB s 1\r\nUNSUB 1 2\r\nPUB s 1\r\na\r\nPUB s 1\r\nb\r\nPUB s 1\r\nc\r\n");
    RIG_HEARD("MSG s 1 1\r\na\r\nMSG s 1 1\r\nb\r\n", a);
    CHECK_EQ_U64(0, plane->stats.subscriptions);
    rig_close(plane);
}

static void nobody_answers(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 9\r\nPUB none _I.1 0\r\n\r\n");
    RIG_HEARD("HMSG _I.1 9 36 36\r\nNATS/1.0 503\r\nNats-Subject: none\r\n\r\n\r\n", a);
    rig_close(plane);
}

static void map_subjects(plane_t *plane, const char *const *parts) {
    rig_strings_t strings = {.size = 0};
    for (; *parts != NULL; parts++) rig_pack(&strings, *parts);
    rig_run(plane, (plane_command_t){.op = COMMAND_MAPPING, .account = RIG_ACCOUNT, .token = 7}, &strings);
}

static void mapped_by_weight(void) {
    static const char *const some[] = {"a.*", "b.$1", "20", "c.$1", "70", "", NULL};
    plane_t *plane = rig_open(NULL, "");
    plane->random = 12345;
    map_subjects(plane, some);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB > 1\r\n");
    uint32_t b = 0, c = 0;
    for (int i = 0; i < 10000; i++) {
        rig_feed(plane, a, "PUB a.x 0\r\n\r\n");
        const char *heard = rig_heard(a);
        b += strcmp(heard, "MSG b.x 1 0\r\n\r\n") == 0;
        c += strcmp(heard, "MSG c.x 1 0\r\n\r\n") == 0;
        CHECK(strstr(heard, "a.x") == NULL);
    }
    CHECK(b > 1800 && b < 2200);
    CHECK(c > 4700 && c < 5300);
    rig_close(plane);
}

static void mappings_are_replaced_whole(void) {
    static const char *const first[] = {"a", "b", "100", "", "c", "d", "100", "", NULL},
                             *const second[] = {"c", "e", "100", "", NULL},
                             *const bad[] = {"a", "x.$1", "100", "", NULL}, *const none[] = {NULL};
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", NULL);
    (void)rig_heard(leaf);
    map_subjects(plane, first);
    core_settle(plane);
    RIG_HEARD("LS+ a\r\nLS+ c\r\n", leaf);
    rig_feed(plane, a, "SUB > 1\r\nPUB a 0\r\n\r\nPUB c 0\r\n\r\n");
    RIG_HEARD("MSG b 1 0\r\n\r\nMSG d 1 0\r\n\r\n", a);
    RIG_HEARD("LS+ >\r\n", leaf);
    map_subjects(plane, second);
    map_subjects(plane, bad);
    rig_feed(plane, a, "PUB a 0\r\n\r\nPUB c 0\r\n\r\n");
    RIG_HEARD("MSG a 1 0\r\n\r\nMSG e 1 0\r\n\r\n", a);
    RIG_HEARD("LS- a\r\n", leaf);
    map_subjects(plane, none);
    rig_feed(plane, a, "PUB c 0\r\n\r\n");
    RIG_HEARD("MSG c 1 0\r\n\r\n", a);
    RIG_HEARD("LS- c\r\n", leaf);
    rig_close(plane);
}

static void own_messages_only_with_echo(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client_with(plane, (conn_verdict_t){.flags = VERDICT_HEADERS}, NULL), *b = rig_client(plane);
    rig_feed(plane, b, "SUB e 1\r\n");
    rig_feed(plane, a, "SUB e 1\r\nPUB e 1\r\nx\r\n");
    RIG_HEARD("", a);
    RIG_HEARD("MSG e 1 1\r\nx\r\n", b);
    rig_close(plane);
}

static void permissions(void) {
    plane_t *plane = rig_open(NULL, "");
    static const char *const lists[4] = {"ok.>", "ok.no", "in.>", "in.secret"};
    peer_t *a = rig_client_with(
        plane, (conn_verdict_t){.flags = RIG_FLAGS, .response_max = 1, .response_ttl_ns = NS_PER_SECOND}, lists);
    peer_t *b = rig_client(plane);
    rig_feed(plane, b, "SUB > 1\r\n");
    rig_feed(
        plane, a,
        "PUB ok.a 1\r\nx\r\nPUB ok.no 1\r\nx\r\nPUB other 1\r\nx\r\nSUB out 1\r\nSUB in.secret 2\r\nSUB in.> 3\r\n");
    RIG_HEARD("MSG ok.a 1 1\r\nx\r\n", b);
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"ok.no\"'\r\n-ERR 'Permissions Violation for Publish to "
              "\"other\"'\r\n"
              "-ERR 'Permissions Violation for Subscription to \"out\"'\r\n"
              "-ERR 'Permissions Violation for Subscription to \"in.secret\"'\r\n",
              a);
    rig_feed(plane, b, "UNSUB 1\r\nSUB _R 2\r\nPUB in.secret 1\r\ns\r\nPUB in.x _R 1\r\nq\r\n");
    RIG_HEARD("MSG in.x 3 _R 1\r\nq\r\n", a);
    rig_feed(plane, a, "PUB _R 1\r\n1\r\nPUB _R 1\r\n2\r\n");
    RIG_HEARD("MSG _R 2 1\r\n1\r\n", b);
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"_R\"'\r\n", a);
    rig_close(plane);
}

static void slow_receiver(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    static char line[40100];
    memset(line, 'x', sizeof(line));
    memcpy(line, "PUB s 40000\r\n", 13);
    memcpy(line + 40013, "\r\n", 3);
    rig_feed(plane, a, "SUB s 1\r\n");
    uint64_t slow = a->id, alive = plane->stats.connections;
    for (int i = 0; i < 40; i++) rig_feed(plane, b, line);
    CHECK(peer_find(plane, slow) == NULL);
    CHECK_EQ_U64(alive - 1, plane->stats.connections);
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_CLOSED, &event));
    CHECK_EQ_U64(CLOSE_SLOW, event.code);
    rig_close(plane);
}

static void fast_producer(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    static char line[40100];
    memset(line, 'x', sizeof(line));
    memcpy(line, "PUB s 40000\r\n", 13);
    memcpy(line + 40013, "\r\n", 3);
    rig_feed(plane, a, "SUB s 1\r\n");
    for (int i = 0; i < 19; i++) rig_feed(plane, b, line);
    CHECK(!peer_waits(b, WAITS_RECEIVER));
    rig_feed(plane, b, line);
    CHECK(b->stalled_until_ns > plane->now.mono_ns);
    CHECK(core_sleep_ns(plane) <= STALL_NS);
    plane->now.mono_ns += STALL_NS;
    core_settle(plane);
    CHECK(!peer_waits(b, WAITS_RECEIVER));
    rig_close(plane);
}

static void silent_client(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    plane->limits.ping_interval_ns = 2 * NS_PER_SECOND;
    int64_t start = plane->now.mono_ns;
    for (int i = 1; i <= 12; i++) {
        plane->now.mono_ns = start + i * NS_PER_SECOND / 2;
        core_settle(plane);
    }
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_CLOSED, &event));
    CHECK_EQ_U64(CLOSE_STALE, event.code);
    CHECK_TEXT("Stale Connection", event.payload, event.payload_size);
    (void)a;
    rig_close(plane);
}

static void protocol_errors(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    rig_say(plane, a, "NONSENSE\r\n");
    RIG_HEARD("-ERR 'Unknown Protocol Operation'\r\n", a);
    a = rig_client(plane);
    rig_say(plane, a, "PUB s 70000\r\n");
    RIG_HEARD("-ERR 'Maximum Payload Violation'\r\n", a);
    a = rig_client(plane);
    rig_say(plane, a, "PUB s\r\n");
    RIG_HEARD("", a);
    CHECK(a->state == PEER_DOOMED);
    core_settle(plane);
    CHECK_EQ_U64(0, plane->stats.connections);
    rig_close(plane);
}

static peer_t *stranger(plane_t *plane, uint32_t kind) {
    peer_t *peer = rig_peer(plane, kind, "test:2");
    CHECK(peer != NULL);
    return peer;
}

static void first_byte_decides(void) {
    plane_t *plane = rig_open(NULL, "");
    plane_event_t event;
    static const char *const first[] = {"P",   "PUB a 1048576\r\nxx", "SUB a 1\r\n", "PING\r\n", "-", "+", "I", "x",
                                        "\r\n"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        peer_t *peer = stranger(plane, CONN_CLIENT);
        rig_say(plane, peer, first[i]);
        CHECK_EQ_I64(PEER_WAITING, peer->state);
        CHECK(rig_event(plane, EVENT_LINE, &event));
        CHECK(event.code != OP_CONNECT);
        CHECK_EQ_U64(0, event.payload_size);
        peer = stranger(plane, CONN_LEAF);
        rig_say(plane, peer, first[i]);
        CHECK_EQ_I64(first[i][0] == 'I' ? PEER_GREETING : PEER_DOOMED, peer->state);
    }
    core_settle(plane);
    rig_close(plane);
}

static void strangers_send_little(void) {
    static char line[3 * 4096];
    plane_t *plane = rig_open(NULL, "");
    for (uint32_t kind = CONN_CLIENT; kind <= CONN_LEAF; kind++) {
        peer_t *peer = stranger(plane, kind);
        CHECK_EQ_U64(4096 + GREETING_SLACK, peer->conn.read_max);
        memset(line, 'a', sizeof line);
        memcpy(line, "CONNECT ", 8);
        line[8 + 4096] = 0;
        rig_say(plane, peer, line);
        CHECK_EQ_I64(PEER_GREETING, peer->state);
        rig_say(plane, peer, "\r\n");
        CHECK_EQ_I64(PEER_WAITING, peer->state);
        peer = stranger(plane, kind);
        line[8 + 4096] = 'a';
        line[8 + 4098] = 0;
        rig_say(plane, peer, line);
        RIG_HEARD("-ERR 'maximum control line exceeded'\r\n", peer);
        CHECK_EQ_I64(PEER_DOOMED, peer->state);
    }
    plane->limits.max_control_line = 32768;
    CHECK_EQ_U64(32768 + GREETING_SLACK, stranger(plane, CONN_CLIENT)->conn.read_max);
    plane->limits.max_control_line = 512;
    CHECK_EQ_U64(4096 + GREETING_SLACK, stranger(plane, CONN_CLIENT)->conn.read_max);
    core_settle(plane);
    rig_close(plane);
}

static void control_hears(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$API.>");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 77}, &strings);
    rig_feed(plane, a, "SUB _I 1\r\nPUB $API.x _I 2\r\n{}\r\n");
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_EQ_U64(77, event.target);
    CHECK_EQ_U64(a->id, event.arg);
    CHECK_TEXT("$API.x", event.subject, event.subject_size);
    CHECK_TEXT("{}", event.payload, event.payload_size);
    strings.size = 0;
    rig_pack(&strings, "_I");
    rig_pack(&strings, "");
    rig_pack(&strings, "");
    rig_run(
        plane,
        (plane_command_t){
            .op = COMMAND_PUBLISH, .account = RIG_ACCOUNT, .token = 5, .body = (const uint8_t *)"ok", .body_size = 2},
        &strings);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", a);
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_U64(1, event.arg);
    rig_run(plane, (plane_command_t){.op = COMMAND_UNSUBSCRIBE, .account = RIG_ACCOUNT, .target = 77}, NULL);
    rig_feed(plane, a, "PUB $API.x 2\r\n{}\r\n");
    CHECK(!rig_event(plane, EVENT_MESSAGE, &event));
    rig_close(plane);
}

static void second_connect(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB s 1\r\nCONNECT {}\r\nPUB s 1\r\nx\r\n");
    CHECK(a->state == PEER_WAITING);
    CHECK_EQ_U64(0, plane->stats.subscriptions);
    RIG_HEARD("", a);
    rig_close(plane);
}

static peer_state_t state_after_silence(plane_t *plane, const peer_t *peer) {
    rig_run(plane, (plane_command_t){.op = COMMAND_CLOSE, .target = peer->id, .arg = CLOSE_AUTHENTICATION, .arg2 = 1},
            NULL);
    return peer->state;
}

/* control may be seconds behind when a thousand come at once */
static void time_to_log_in(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *silent = rig_peer(plane, CONN_CLIENT, "test:1"), *asks = rig_peer(plane, CONN_CLIENT, "test:2");
    rig_say(plane, asks, "CONNECT {}\r\n");
    CHECK(state_after_silence(plane, asks) == PEER_WAITING);
    CHECK(state_after_silence(plane, rig_client(plane)) == PEER_ADMITTED);
    CHECK(state_after_silence(plane, silent) == PEER_DOOMED);
    rig_close(plane);
}

static uint64_t change_rights(plane_t *plane, const peer_t *peer, conn_verdict_t verdict, const char *const lists[4],
                              int32_t *status) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "INFO {}\r\n");
    for (uint32_t i = 0; i < 4; i++) {
        if (lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    rig_run(plane,
            (plane_command_t){.op = COMMAND_RIGHTS,
                              .account = RIG_ACCOUNT,
                              .target = peer->id,
                              .token = 5,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    *status = event.status;
    return event.arg;
}

static void tell_all(plane_t *plane, const char *info) {
    plane_command_t command = {
        .op = COMMAND_BROADCAST, .body = (const uint8_t *)info, .body_size = (uint32_t)strlen(info)};
    rig_run(plane, command, NULL);
}

static void told_before_its_first_pong(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "INFO {login}\r\n");
    for (uint32_t i = 0; i < 4; i++) {
        rig_pack(&strings, "");
    }
    conn_verdict_t verdict = {.flags = RIG_FLAGS | VERDICT_PROTOCOL_1};
    peer_t *a = rig_admit(plane, COMMAND_ADMIT, CONN_CLIENT, verdict, &strings);
    tell_all(plane, "INFO {came}\r\n");
    tell_all(plane, "INFO {came and went}\r\n");
    RIG_HEARD("", a);
    rig_feed(plane, a, "PING\r\n");
    RIG_HEARD("PONG\r\nINFO {login}\r\nINFO {came and went}\r\n", a);
    tell_all(plane, "INFO {later}\r\n");
    rig_feed(plane, a, "PING\r\n");
    RIG_HEARD("INFO {later}\r\nPONG\r\n", a);
    rig_close(plane);
}

static void other_rights(void) {
    static const char *const denied[4] = {NULL, "p.no", NULL, "s.no"}, *const all[4] = {NULL};
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    int32_t status;
    rig_feed(plane, a, "SUB s.no 1\r\nSUB s.* 2\r\nSUB t 3\r\n");
    conn_verdict_t verdict = {.flags = RIG_FLAGS, .max_payload = 3, .max_subscriptions = 2};
    CHECK_EQ_U64(1, change_rights(plane, a, verdict, denied, &status));
    CHECK_EQ_I64(STATUS_OK, status);
    RIG_HEARD("-ERR 'Permissions Violation for Subscription to \"s.no\" (sid \"1\")'\r\n", a);
    rig_feed(plane, b, "PUB s.no 1\r\nx\r\nPUB s.yes 1\r\ny\r\n");
    RIG_HEARD("MSG s.yes 2 1\r\ny\r\n", a);
    rig_feed(plane, a, "PUB p.no 1\r\nx\r\nSUB s.no 4\r\nSUB u 5\r\n");
    RIG_HEARD("-ERR 'Permissions Violation for Publish to \"p.no\"'\r\n-ERR 'Permissions Violation for Subscription to "
              "\"s.no\"'\r\n"
              "-ERR 'maximum subscriptions exceeded'\r\n",
              a);
    CHECK_EQ_U64(0, change_rights(plane, a, verdict, all, &status));
    rig_feed(plane, b, "PUB s.no 1\r\nz\r\n");
    RIG_HEARD("MSG s.no 2 1\r\nz\r\n", a);
    verdict.max_subscriptions = 1;
    CHECK_EQ_U64(0, change_rights(plane, a, verdict, all, &status));
    RIG_HEARD("-ERR 'maximum subscriptions exceeded'\r\n", a);
    CHECK(a->state == PEER_DOOMED);
    core_settle(plane);
    rig_close(plane);
}

/* Who cannot be given the new rights does not keep the old ones. */
static void rights_that_cannot_change(void) {
    static const char *const all[4] = {NULL};
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane);
    int32_t status;
    rig_say(plane, a, "CONNECT {}\r\n");
    change_rights(plane, a, (conn_verdict_t){.flags = RIG_FLAGS}, all, &status);
    CHECK_EQ_I64(STATUS_NOT_FOUND, status);
    CHECK(a->state == PEER_WAITING);
    peer_t *b = rig_client(plane);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_REMOVED, "");
    change_rights(plane, b, (conn_verdict_t){.flags = RIG_FLAGS}, all, &status);
    CHECK_EQ_I64(STATUS_INVALID, status);
    RIG_HEARD("-ERR 'Authorization Violation'\r\n", b);
    CHECK(b->state == PEER_DOOMED);
    rig_run(plane, (plane_command_t){.op = COMMAND_ADMIT, .account = RIG_ACCOUNT, .target = a->id}, NULL);
    CHECK(a->state == PEER_DOOMED);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_ALARM, &event));
    CHECK_EQ_U64(ALARM_COMMAND, event.code);
    core_settle(plane);
    rig_close(plane);
}

/* A few bytes of input may be many deliveries. */
static void one_read_of_a_publisher_does_not_cut_off_who_reads(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *reader = rig_client(plane), *writer = rig_client(plane), *other = rig_client(plane);
    char line[32];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "SUB x %u\r\n", i);
        rig_feed(plane, reader, line);
    }
    static char flood[600 * 11 + 1];
    for (uint32_t i = 0; i < 600; i++) {
        memcpy(flood + (size_t)i * 11, "PUB x 0\r\n\r\n", 12);
    }
    rig_feed(plane, writer, flood);
    CHECK(writer->conn.rest.size > 0); /* 600,000 deliveries are more than one turn */
    rig_feed(plane, other, "PING\r\n");
    RIG_HEARD("PONG\r\n", other);
    for (uint32_t turn = 0; turn < 1000 && writer->conn.rest.size != 0; turn++) {
        (void)rig_heard(reader);
        plane->now.mono_ns += NS_PER_MS;
        core_backlog(plane);
        core_settle(plane);
    }
    CHECK_EQ_U64(0, writer->conn.rest.size);
    CHECK(reader->state == PEER_ADMITTED);
    CHECK_EQ_U64(600000, reader->out_msgs);
    CHECK_EQ_U64(0, plane->stats.slow_consumers);
    rig_close(plane);
}

/* Whoever had many subscriptions goes in slices. */
static void many_subscriptions_leave_in_slices(void) {
    plane_t *plane = rig_open(NULL, "");
    peer_t *many = rig_client(plane), *other = rig_client(plane);
    char line[32];
    for (uint32_t i = 0; i < 3 * SWEEP_MAX; i++) {
        snprintf(line, sizeof(line), "SUB x.%u %u\r\n", i, i);
        rig_say(plane, many, line);
    }
    core_settle(plane);
    uint64_t before = plane->stats.subscriptions;
    peer_doom(plane, many, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64(before - SWEEP_MAX, plane->stats.subscriptions);
    CHECK(plane->more);
    rig_feed(plane, other, "PUB x.1 inbox 0\r\n\r\nPUB x.12000 inbox 0\r\n\r\nPING\r\n");
    RIG_HEARD("PONG\r\n", other);
    for (uint32_t turn = 0; turn < 3; turn++) {
        core_settle(plane);
    }
    CHECK_EQ_U64(before - 3 * SWEEP_MAX, plane->stats.subscriptions);
    CHECK_EQ_U64(1, plane->stats.connections);
    rig_close(plane);
}

/* It waits until they are gone, and everybody else does not. */
static void introduced_again(void) {
    enum { MANY = 20000 };
    char line[64];
    plane_t *plane = rig_open(NULL, "");
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    rig_feed(plane, b, "SUB b 1\r\n");
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(line, sizeof(line), "SUB s.%u %u\r\n", (unsigned)i, (unsigned)i);
        rig_say(plane, a, line);
    }
    core_settle(plane);
    CHECK_EQ_U64(MANY + 1, plane->stats.subscriptions);
    plane_event_t event;
    while (rig_event(plane, EVENT_LINE, &event)) {
    }
    rig_say(plane, a, "CONNECT {}\r\n");
    uint32_t turns = 0;
    do {
        rig_feed(plane, b, "PUB s.1 1\r\nx\r\nPUB b 1\r\nx\r\n");
        RIG_HEARD("MSG b 1 1\r\nx\r\n", b);
        turns++;
    } while (turns < 100 && !rig_event(plane, EVENT_LINE, &event));
    CHECK_EQ_U64(MANY / SWEEP_MAX + 1, turns);
    CHECK_EQ_U64(1, plane->stats.subscriptions);
    CHECK_EQ_U64(a->id, event.target);
    RIG_HEARD("", a);
    rig_say(plane, b, "CONNECT {}\r\n");
    peer_doom_silently(plane, b, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    rig_close(plane);
}

static void promises(void) {
    RUN("who has said CONNECT in time is not closed for silence", time_to_log_in);
    RUN("a message goes to every subscription that matches, with its header and reply", message_to_all);
    RUN("input may be cut anywhere", split_anywhere);
    RUN("a queue group gets a message once, each member its share; plain subscriptions get it too", one_of_a_group);
    RUN("a subscription ends after its maximum of deliveries", ends_after_max);
    RUN("a request that nobody hears is answered 503", nobody_answers);
    RUN("a mapping's choices get their shares, and what is left over is lost", mapped_by_weight);
    RUN("mappings are replaced as a whole, or not at all, and links are told", mappings_are_replaced_whole);
    RUN("without echo a client does not hear itself", own_messages_only_with_echo);
    RUN("permissions hold for publishing, subscribing, wildcards over a deny, and a counted reply", permissions);
    RUN("who answers no ping is closed as stale", silent_client);
    RUN("protocol errors are answered as the reference does and close", protocol_errors);
    RUN("whoever does not begin with CONNECT is control's to refuse at the first byte, or closed on the leaf port",
        first_byte_decides);
    RUN("before the login one line of 4 KB, or of max_control_line, is all that is read", strangers_send_little);
    RUN("control hears its subjects, publishes, learns how many took it, and stops hearing", control_hears);
    RUN("whoever had many subscriptions leaves in slices, and nothing is delivered to it meanwhile",
        many_subscriptions_leave_in_slices);
    RUN("a second CONNECT drops subscriptions and waits for a verdict", second_connect);
    RUN("what changes for all before a client's first PONG, it hears behind it: the last of it",
        told_before_its_first_pong);
    RUN("changed rights hold at once: subscriptions go or are filtered, limits count, too many subscriptions end it",
        other_rights);
    RUN("whoever cannot be given changed rights is closed, and a login that is under way is left to its verdict",
        rights_that_cannot_change);
    RUN("who introduces himself anew with thousands of subscriptions loses them in slices, and holds nobody up",
        introduced_again);
}

int main(void) {
    promises();
    RIG_BYTE_BY_BYTE(promises);
    /* These are about how much is read or waits, not about its pieces. */
    RUN("who does not read is cut off, and nobody else", slow_receiver);
    RUN("who publishes to a crowded queue is not read for a moment", fast_producer);
    RUN("one read of a publisher does not cut off a reader with many subscriptions, nor hold the others up",
        one_read_of_a_publisher_does_not_cut_off_who_reads);
    return TEST_RESULT();
}
