/* test_plane_jetstream.c: streams in the core: nothing is acknowledged before it is on disk, and what the answers say.
 * Texts are nats-server 2.15.1's (tests/wire/jetstream.md). The journal's thread is real, so "until" loops wait for
 * it. */
#include "stream_rig.h"

static const stream_config_t stream_defaults = {.account = RIG_ACCOUNT,
                                                .max_msg_size = -1,
                                                .max_msgs = -1,
                                                .max_bytes = -1,
                                                .max_msgs_per_subject = -1,
                                                .duplicate_window_ns = 120 * NS_PER_SECOND};

/* rewrites: source and destination of the transform, and of what is published again; NULL: neither. */
static void put_rewriting(plane_t *plane, stream_config_t config, const char *subject, const char *const rewrites[4],
                          bool loading) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "S");
    rig_pack(&strings, "{\"name\":\"S\"}");
    for (int i = 0; i < 5; i++) rig_pack(&strings, i == 0 || rewrites == NULL ? "" : rewrites[i - 1]);
    rig_pack(&strings, subject);
    rig_run(plane,
            (plane_command_t){.op = COMMAND_STREAM_PUT,
                              .account = RIG_ACCOUNT,
                              .target = 1,
                              .token = 900,
                              .arg = loading,
                              .body = (const uint8_t *)&config,
                              .body_size = sizeof(config)},
            &strings);
    rig_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(0, event.status);
    CHECK_EQ_U64(sizeof(stream_state_t), event.payload_size);
}

static void put_stream(plane_t *plane, stream_config_t config, const char *subject, bool loading) {
    put_rewriting(plane, config, subject, NULL, loading);
}

static void put_consumer(plane_t *plane) {
    rig_put_consumer(plane, rig_consumer);
    rig_settle(plane);
}

static void ack_after_disk(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    for (uint64_t i = 1; i <= 50; i++) {
        uint64_t batch = store_batch(plane->js.stores[STORE_FILE]);
        rig_say(plane, a, "PUB s.a _I.1 1\r\nx\r\n");
        RIG_HEARD("", a);
        char expected[100], body[64];
        int size = snprintf(body, sizeof(body), "{\"stream\":\"S\",\"seq\":%" PRIu64 "}", i);
        snprintf(expected, sizeof(expected), "MSG _I.1 1 %d\r\n%s\r\n", size, body);
        const char *heard = "";
        while (heard[0] == 0) {
            core_settle(plane);
            heard = rig_heard(a);
            if (heard[0] != 0) CHECK(store_durable(plane->js.stores[STORE_FILE]) >= batch);
        }
        CHECK_TEXT(expected, heard, strlen(heard));
    }
    rig_close_and_remove(plane);
}

static void answers(void) {
    plane_t *plane = rig_open_fresh("");
    stream_config_t config = stream_defaults;
    config.max_msg_size = 100;
    put_stream(plane, config, "s.>", false);
    peer_t *a = rig_client(plane);
    static const char *const script[][2] = {
        {"Nats-Msg-Id: 7", "{\"stream\":\"S\",\"seq\":1}"},
        {"Nats-Msg-Id: 7", "{\"stream\":\"S\",\"seq\":1,\"duplicate\": true}"},
        {"Nats-Expected-Last-Sequence: 9", "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last "
                                           "sequence: 1\"},\"stream\":\"S\",\"seq\":0}"},
        {"Nats-Expected-Stream: T", "{\"error\":{\"code\":400,\"err_code\":10060,\"description\":\"expected stream "
                                    "does not match\"},\"stream\":\"S\",\"seq\":0}"},
        {"Nats-Rollup: sub", "{\"error\":{\"code\":500,\"err_code\":10111,\"description\":\"rollup not "
                             "permitted\"},\"stream\":\"S\",\"seq\":0}"},
        {"Nats-TTL: 10s", "{\"error\":{\"code\":400,\"err_code\":10166,\"description\":\"per-message TTL is "
                          "disabled\"},\"stream\":\"S\",\"seq\":0}"},
    };
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        char line[200], expected[400];
        size_t header = strlen(script[i][0]) + strlen("NATS/1.0\r\n\r\n\r\n");
        snprintf(line, sizeof(line), "HPUB s.a _I.1 %zu %zu\r\nNATS/1.0\r\n%s\r\n\r\nx\r\n", header, header + 1,
                 script[i][0]);
        rig_feed(plane, a, line);
        rig_settle(plane);
        snprintf(expected, sizeof(expected), "MSG _I.1 1 %zu\r\n%s\r\n", strlen(script[i][1]), script[i][1]);
        RIG_HEARD(expected, a);
    }
    char large[160] = "PUB s.a _I.1 101\r\n";
    memset(large + 18, 'x', 101);
    memcpy(large + 119, "\r\n", 3);
    rig_feed(plane, a, large);
    CHECK(strstr(rig_heard(a), "\"err_code\":10054,\"description\":\"message size exceeds maximum allowed\"") != NULL);
    rig_close_and_remove(plane);
}

static void delivered_and_acked(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    put_consumer(plane);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\nPUB s.a 1\r\nx\r\n");
    rig_settle(plane);
    rig_feed(plane, a, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.p 1\r\n1\r\n");
    rig_settle(plane);
    char *heard = (char *)(uintptr_t)rig_heard(a);
    CHECK(bytes_starts(rig_text(heard), BYTES_LITERAL("MSG s.a 1 $JS.ACK.S.C.1.1.1.")));
    char line[200];
    *strchr(heard + 10, ' ') = 0;
    snprintf(line, sizeof(line), "PUB %s _I.ack 0\r\n\r\n", heard + 10);
    rig_feed(plane, a, line);
    rig_settle(plane);
    RIG_HEARD("MSG _I.ack 1 0\r\n\r\n", a);
    rig_feed(plane, a, "PUB $JS.API.CONSUMER.MSG.NEXT.S.no _I.p 0\r\n\r\nPUB $JS.ACK.S.no.1.1.1.1.0 _I.p 0\r\n\r\n");
    const char *missing = rig_heard(a);
    CHECK(strstr(missing, "503\r\nNats-Subject: $JS.API.CONSUMER.MSG.NEXT.S.no\r\n") != NULL);
    CHECK(strstr(missing, "503\r\nNats-Subject: $JS.ACK.S.no.1.1.1.1.0\r\n") != NULL);
    rig_close_and_remove(plane);
}

static void over_a_link(void) {
    plane_t *plane = rig_open_fresh("edge");
    put_stream(plane, stream_defaults, "s.>", false);
    peer_t *leaf = rig_leaf(plane, VERDICT_SPOKE, "hub", NULL);
    const char *told = rig_heard(leaf);
    CHECK(strstr(told, "LS+ $JS.edge.API.CONSUMER.>\r\n") != NULL);
    CHECK(strstr(told, "LS+ s.>\r\n") != NULL);
    put_consumer(plane);
    told = rig_heard(leaf);
    CHECK(strstr(told, "LS+ $JS.ACK.S.C.*.*.*.*.*\r\n") != NULL);
    CHECK(strstr(told, "LS+ $JS.ACK._.NUmM6cRx.S.C.*.*.*.*.>\r\n") != NULL);
    rig_feed(plane, leaf, "LS+ _I.p\r\nLMSG s.x 1\r\nx\r\n");
    rig_settle(plane);
    rig_feed(plane, leaf, "LMSG $JS.edge.API.CONSUMER.MSG.NEXT.S.C _I.p 1\r\n1\r\n");
    rig_settle(plane);
    const char *heard = rig_heard(leaf);
    CHECK(bytes_starts(rig_text(heard), BYTES_LITERAL("LMSG _I.p $JS.ACK.S.C.1.1.1.")));
    CHECK(strstr(heard, ".0@s.x 1\r\nx\r\n") != NULL);
    rig_close_and_remove(plane);
}

static void again_after_disk(void) {
    static const char *const rewrites[4] = {"s.*", "t.$1", "t.*", "again.$1"};
    plane_t *plane = rig_open_fresh("");
    plane->now.wall_ns = INT64_C(1700000000123456789);
    put_rewriting(plane, stream_defaults, "s.>", rewrites, false);
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, VERDICT_SPOKE, "hub", NULL);
    rig_feed(plane, a, "SUB again.> 1\r\nSUB _I.> 2\r\n");
    rig_feed(plane, leaf, "LS+ again.*\r\n");
    (void)rig_heard(leaf);
    uint64_t batch = store_batch(plane->js.stores[STORE_FILE]);
    rig_say(plane, a, "PUB s.x _I.1 2\r\nhi\r\nPUB s.x.y _I.1 2\r\nno\r\n");
    RIG_HEARD("", a);
    const char *heard = "";
    while (heard[0] == 0) {
        core_settle(plane);
        heard = rig_heard(a);
        if (heard[0] != 0) CHECK(store_durable(plane->js.stores[STORE_FILE]) >= batch);
    }
    CHECK_TEXT("HMSG again.x 1 137 139\r\nNATS/1.0\r\nNats-Stream: S\r\nNats-Subject: t.x\r\nNats-Sequence: "
               "1\r\nNats-Time-Stamp: 2023-11-14T22:13:20.123456789Z\r\n"
               "Nats-Last-Sequence: 0\r\n\r\nhi\r\n"
               "MSG _I.1 2 22\r\n{\"stream\":\"S\",\"seq\":1}\r\nMSG _I.1 2 22\r\n{\"stream\":\"S\",\"seq\":2}\r\n",
               heard, strlen(heard));
    heard = rig_heard(leaf);
    CHECK_TEXT("HMSG again.x 137 139\r\nNATS/1.0\r\nNats-Stream: S\r\nNats-Subject: t.x\r\nNats-Sequence: "
               "1\r\nNats-Time-Stamp: 2023-11-14T22:13:20.123456789Z\r\n"
               "Nats-Last-Sequence: 0\r\n\r\nhi\r\n",
               heard, strlen(heard));
    rig_close_and_remove(plane);
}

static void a_transform_that_is_none(void) {
    static const char *const rewrites[4] = {"s.*", "t.$2", "", ""};
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    const char *parts[] = {"S", "{}", "", rewrites[0], rewrites[1], rewrites[2], rewrites[3], "u.>"};
    stream_config_t config = stream_defaults;
    config.max_msgs = 1;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 1, .token = 902}, &config, sizeof(config),
                 parts, sizeof(parts) / sizeof(parts[0]));
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(STATUS_INVALID, event.status);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "PUB s.a 1\r\nx\r\nPUB s.a 1\r\nx\r\nPUB u.a 1\r\nx\r\n");
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(2, state.messages);
    rig_close_and_remove(plane);
}

/* A definition for stream `id` of which the last part cannot be had, with everything else changed. */
static void put_refused(plane_t *plane, uint64_t id, status_t expected, const rig_strings_t *strings) {
    stream_config_t config = stream_defaults;
    config.max_msgs = 1;
    config.flags |= STREAM_ALLOW_DIRECT;
    rig_run(plane,
            (plane_command_t){.op = COMMAND_STREAM_PUT,
                              .account = RIG_ACCOUNT,
                              .target = id,
                              .token = 903,
                              .body = (const uint8_t *)&config,
                              .body_size = sizeof(config)},
            strings);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(expected, event.status);
}

static void pack_refused(rig_strings_t *strings, const char *subject) {
    strings->size = 0;
    const char *parts[] = {"T", "{}", "", "", "", "", "", "u.>", subject};
    for (int i = 0; i < 9; i++) rig_pack(strings, parts[i]);
}

static void nothing_of_a_refused_definition(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "PUB s.a 1\r\nx\r\nPUB s.b 1\r\nx\r\n");
    rig_strings_t strings;
    pack_refused(&strings, "");
    put_refused(plane, 1, STATUS_INVALID, &strings);
    put_refused(plane, 2, STATUS_INVALID, &strings);
    CHECK(stream_find(&plane->js, 2) == NULL);
    rig_feed(plane, a, "PUB u.a 1\r\nx\r\nPUB s.c 1\r\nx\r\n");
    stream_t *stream = stream_find(&plane->js, 1);
    stream_state_t state;
    store_stream_state(stream->store, &state);
    CHECK_EQ_U64(3, state.messages);
    CHECK_EQ_I64(-1, store_stream_config(stream->store)->max_msgs);
    CHECK(bytes_equal(rig_text("S"), stream->name));
    CHECK(stream->direct[0] == NULL);
    rig_close_and_remove(plane);
}

static void a_refused_stream_leaves_its_place(void) {
    plane_t *plane = rig_open_fresh("");
    rig_strings_t strings;
    pack_refused(&strings, "");
    put_refused(plane, 1, STATUS_INVALID, &strings);
    put_stream(plane, stream_defaults, "s.>", false); /* the same id, and its state says that it is new */
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "PUB s.a 1\r\nx\r\n");
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(1, state.messages);
    CHECK_EQ_U64(1, state.last_seq);
    rig_close_and_remove(plane);
}

static void again_into_another_stream(void) {
    static const char *const rewrites[4] = {"", "", "s.>", "r.>"};
    plane_t *plane = rig_open_fresh("");
    put_rewriting(plane, stream_defaults, "s.>", rewrites, false);
    rig_strings_t strings = {.size = 0};
    const char *parts[] = {"R", "{}", "", "", "", "r.>", "x.>", "r.>"};
    for (int i = 0; i < 8; i++) rig_pack(&strings, parts[i]);
    rig_run(plane,
            (plane_command_t){.op = COMMAND_STREAM_PUT,
                              .account = RIG_ACCOUNT,
                              .target = 2,
                              .body = (const uint8_t *)&stream_defaults,
                              .body_size = sizeof(stream_defaults)},
            &strings);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB x.> 1\r\nPUB s.a 1\r\nx\r\n");
    const char *heard = "";
    for (int64_t until = 0; heard[0] == 0 && patient(&until);) {
        core_settle(plane);
        heard = rig_heard(a);
    }
    CHECK(bytes_starts(rig_text(heard), BYTES_LITERAL("HMSG x.a 1 ")));
    CHECK_EQ_U64(1, store_stream_visible(stream_find(&plane->js, 2)->store));
    rig_close_and_remove(plane);
}

/* A leaf may name any subject for its replies. */
static void delivered_into_its_own_ack(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    put_consumer(plane);
    peer_t *leaf = rig_leaf(plane, 0, "l", NULL);
    rig_feed(plane, leaf, "LMSG s.x 4\r\n+ACK\r\n");
    rig_settle(plane);
    rig_feed(plane, leaf, "LMSG $JS.API.CONSUMER.MSG.NEXT.S.C _I.1 1\r\n1\r\n");
    rig_feed(plane, leaf, "LS+ _I.1\r\nLMSG $JS.API.CONSUMER.MSG.NEXT.S.C _I.1 1\r\n1\r\n");
    rig_feed(plane, leaf, "LMSG $JS.API.CONSUMER.MSG.NEXT.S.C $JS.ACK.S.C.1.1.1.1.0 1\r\n1\r\n");
    rig_feed(plane, leaf, "LMSG s.x $JS.ACK.S.C.1.1.1.1.0 1\r\nx\r\n");
    for (int i = 0; i < 5; i++) rig_settle(plane);
    consumer_state_t state;
    consumer_snapshot(binding_find(&plane->js, stream_find(&plane->js, 1), 1)->consumer, plane->now, &state);
    CHECK_EQ_U64(1, state.delivered_stream);
    CHECK_EQ_U64(1, state.ack_pending);
    rig_close_and_remove(plane);
}

/* What control would hear of the API; its subscription is the one of a daemon. */
static uint64_t api_requests(plane_t *plane) {
    plane_event_t event;
    uint64_t count = 0;
    while (rig_event(plane, EVENT_MESSAGE, &event)) count += event.target == 77;
    return count;
}

static void nothing_of_ours_asks_the_api(void) {
    static const char *const rewrites[4] = {"", "", "s.*", "$JS.API.STREAM.DELETE.S"};
    static const char *const words[] = {
        "PUB s.x $JS.API.STREAM.DELETE.S 0\r\n\r\n",
        "PUB s.x $JS.hub.API.STREAM.DELETE.S 0\r\n\r\n",
        "PUB $JS.API.CONSUMER.MSG.NEXT.S.C $JS.API.STREAM.DELETE.S 26\r\n{\"batch\":5,\"no_wait\":true}\r\n",
        "PUB $JS.hub.API.CONSUMER.MSG.NEXT.S.C $JS.hub.API.STREAM.DELETE.S 26\r\n{\"batch\":5,\"no_wait\":true}\r\n",
        "PUB $JS.API.CONSUMER.MSG.NEXT.S.C $JS.API.CONSUMER.MSG.NEXT.S.C 26\r\n{\"batch\":5,\"no_wait\":true}\r\n",
    };
    plane_t *plane = rig_open_fresh("hub");
    put_rewriting(plane, stream_defaults, "s.>", rewrites, false);
    put_consumer(plane);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$JS.API.>");
    rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 77, .arg = SUBSCRIBE_API},
            &strings);
    peer_t *a = rig_client(plane);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        rig_feed(plane, a, words[i]);
        for (int j = 0; j < 5; j++) rig_settle(plane);
        CHECK_EQ_U64(0, api_requests(plane));
    }
    rig_feed(plane, a, "PUB $JS.hub.API.STREAM.DELETE.S _I.1 0\r\n\r\n");
    CHECK_EQ_U64(1, api_requests(plane));
    for (uint32_t flags = 0; flags <= PUBLISH_REQUEST; flags += PUBLISH_REQUEST) {
        strings.size = 0;
        for (int i = 0; i < 3; i++) rig_pack(&strings, i == 0 ? "$JS.hub.API.STREAM.DELETE.S" : "");
        rig_run(plane, (plane_command_t){.op = COMMAND_PUBLISH, .account = RIG_ACCOUNT, .arg = flags}, &strings);
        core_settle(plane);
        CHECK_EQ_U64(flags != 0, api_requests(plane));
    }
    rig_close_and_remove(plane);
}

static void publish_to_streams(plane_t *plane, const char *subject, const char *reply, const char *body) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, subject);
    rig_pack(&strings, reply);
    rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_PUBLISH,
                              .account = RIG_ACCOUNT,
                              .token = 7,
                              .arg = PUBLISH_STREAMS,
                              .body = (const uint8_t *)body,
                              .body_size = (uint32_t)strlen(body)},
            &strings);
}

static void template_subject(plane_t *plane) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "s.*");
    rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 78, .arg = SUBSCRIBE_TEMPLATE},
            &strings);
}

/* Control takes it, and is not done with it. Its slices are gone. */
static plane_event_t message_taken(plane_t *plane, const char *payload) {
    plane_event_t event = {0};
    while (event.kind != EVENT_MESSAGE) {
        CHECK_EQ_U64(1, exchange_poll(&plane->exchange, &event, 1));
        if (event.kind == EVENT_MESSAGE) CHECK_TEXT(payload, event.payload, event.payload_size);
        exchange_release(&plane->exchange, 1);
    }
    return event;
}

static void a_template_gets_what_no_stream_takes(void) {
    plane_t *plane = rig_open_fresh("");
    plane_event_t event;
    template_subject(plane);
    put_stream(plane, stream_defaults, "s.a", false);
    peer_t *a = rig_client(plane), *b = rig_client(plane);
    rig_feed(plane, b, "SUB s.b 1\r\n");
    rig_feed(plane, a, "SUB _I 1\r\nPUB s.a 1\r\nw\r\n");
    CHECK(!rig_event(plane, EVENT_MESSAGE, &event));
    rig_feed(plane, a, "PUB s.b _I 1\r\nx\r\nPUB s.b _I 1\r\ny\r\nPING\r\n");
    event = message_taken(plane, "x");
    CHECK_EQ_U64(78, event.target);
    uint64_t token = event.token;
    core_settle(plane);
    core_backlog(plane);
    CHECK(peer_waits(a, WAITS_CONTROL)); /* y does not overtake x */
    RIG_HEARD("", a);
    RIG_HEARD("MSG s.b 1 _I 1\r\nx\r\n", b);
    publish_to_streams(plane, "s.b", "_I", "x");
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_U64(0, event.arg); /* there is none yet */
    put_stream(plane, stream_defaults, "s.>", false);
    publish_to_streams(plane, "s.b", "_I", "x");
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_U64(1, event.arg);
    exchange_repay(&plane->exchange, token);
    core_settle(plane);
    core_backlog(plane);
    rig_settle(plane);
    CHECK(!peer_waits(a, WAITS_CONTROL));
    RIG_HEARD("PONG\r\nMSG _I 1 22\r\n{\"stream\":\"S\",\"seq\":2}\r\nMSG _I 1 22\r\n{\"stream\":\"S\",\"seq\":3}\r\n",
              a);
    RIG_HEARD("MSG s.b 1 _I 1\r\ny\r\n", b); /* once each */
    rig_close_and_remove(plane);
}

static void who_waits_for_a_template_waits_for_nothing_else(void) {
    plane_t *plane = rig_open_fresh("");
    template_subject(plane);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "api");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 79}, &strings);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "PUB api 0\r\n\r\nPUB s.b 1\r\nx\r\nPUB s.b 1\r\ny\r\n");
    plane_event_t asked = message_taken(plane, ""), kept = message_taken(plane, "x");
    CHECK_EQ_U64(78, kept.target);
    exchange_repay(&plane->exchange, asked.token);
    core_settle(plane);
    CHECK(peer_waits(a, WAITS_CONTROL));
    exchange_repay(&plane->exchange, kept.token);
    core_settle(plane);
    CHECK(!peer_waits(a, WAITS_CONTROL));
    core_backlog(plane);
    CHECK_EQ_U64(78, message_taken(plane, "y").target);
    rig_close_and_remove(plane);
}

static void still_there(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "PUB s.a 1\r\nx\r\nPUB s.b 1\r\ny\r\n");
    rig_settle(plane);
    rig_close(plane);
    plane = rig_open_again("");
    uint8_t key[64], value[256];
    uint32_t key_size = 0;
    CHECK_EQ_I64(12, plane_record_next(plane, RECORD_STREAM, NULL, 0, key, &key_size, value, sizeof(value)));
    CHECK_BYTES("\0\0\0\1", 4, key, key_size);
    CHECK_TEXT("{\"name\":\"S\"}", value, 12);
    CHECK_EQ_I64(-1, plane_record_next(plane, RECORD_STREAM, key, key_size, key, &key_size, value, sizeof(value)));
    put_stream(plane, stream_defaults, "s.>", true);
    rig_get_message(plane, 3, 2);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_TEXT("s.b", event.subject, event.subject_size);
    CHECK_TEXT("y", event.payload, event.payload_size);
    rig_close_and_remove(plane);
}

static void hears_about_batch(plane_t *plane, peer_t *peer, const char *reply, const char *expected) {
    char line[100];
    snprintf(line, sizeof(line), "PUB s.a %s 1\r\nx\r\n", reply);
    rig_feed(plane, peer, line);
    rig_settle(plane);
    const char *heard = rig_heard(peer);
    CHECK(strstr(heard, expected) != NULL);
}

static void silent_batches(void) {
    plane_t *plane = rig_open_fresh("");
    stream_config_t config = stream_defaults;
    config.flags = STREAM_ALLOW_BATCHED;
    put_stream(plane, config, "s.>", false);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    hears_about_batch(plane, a, "_I.b.9.ok.1.0.$FI", "{\"type\":\"ack\",\"seq\":0,\"msgs\":9}");
    plane->now.mono_ns += 9 * NS_PER_SECOND;
    hears_about_batch(plane, a, "_I.b.9.ok.1.4.$FI", "{\"type\":\"ack\",\"seq\":0,\"msgs\":9}");
    plane->now.mono_ns += 9 * NS_PER_SECOND;
    hears_about_batch(plane, a, "_I.b.9.ok.1.4.$FI", "{\"type\":\"ack\",\"seq\":0,\"msgs\":9}");
    plane->now.mono_ns += 10 * NS_PER_SECOND;
    core_settle(plane);
    hears_about_batch(plane, a, "_I.b.9.ok.2.1.$FI", "\"err_code\":10208,\"description\":\"batch publish ID unknown\"");
    hears_about_batch(plane, a, "_I.c.9.ok.1.0.$FI", "{\"type\":\"ack\",\"seq\":0,\"msgs\":9}");
    rig_run(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1, .token = 5}, NULL);
    rig_settle(plane);
    plane_event_t removed;
    CHECK(rig_event(plane, EVENT_DONE, &removed));
    put_stream(plane, config, "s.>", false);
    hears_about_batch(plane, a, "_I.c.9.ok.2.1.$FI", "\"err_code\":10208");
    hears_about_batch(plane, a, "_I.d.9.ok.1.0.$FI", "{\"type\":\"ack\",\"seq\":0,\"msgs\":9}");
    rig_close_and_remove(plane);
}

static uint64_t agreed;

static uint64_t lagging(void *context, const store_stream_t *asked, uint64_t durable) {
    (void)context;
    (void)asked;
    (void)durable;
    return agreed;
}

static void waits_for_the_watermark(void) {
    static const commit_rule_t rule = {.upto = lagging};
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, stream_defaults, "s.>", false);
    put_consumer(plane);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    store_t *store = plane->js.stores[STORE_FILE];
    uint64_t batch = store_batch(store);
    agreed = batch - 1;
    store_set_commit(store, &rule);
    rig_say(plane, a, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _I.p 0\r\n\r\n");
    rig_say(plane, a, "PUB s.a _I.1 1\r\nx\r\n");
    for (int i = 0; i < 10000 && store_durable(store) < batch; i++) {
        core_settle(plane);
        usleep(200);
    }
    CHECK(store_durable(store) >= batch);
    core_settle(plane);
    RIG_HEARD("", a);
    agreed = UINT64_MAX;
    bool acknowledged = false, delivered = false;
    for (int i = 0; i < 10000 && !(acknowledged && delivered); i++) {
        core_settle(plane);
        const char *heard = rig_heard(a);
        acknowledged |= strstr(heard, "{\"stream\":\"S\",\"seq\":1}") != NULL;
        delivered |= strstr(heard, "$JS.ACK.S.C.1.1.1.") != NULL;
        usleep(200);
    }
    CHECK(acknowledged);
    CHECK(delivered);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("an acknowledgement is in nobody's queue before its batch is on disk", ack_after_disk);
    RUN("nothing is acknowledged or delivered before the commit watermark, though the disk has it",
        waits_for_the_watermark);
    RUN("publish answers, good and bad, are the reference's", answers);
    RUN("a pulled message comes with its own subject; its double ack is answered; missing consumers are a 503",
        delivered_and_acked);
    RUN("a link is told domain, stream and ack subjects, and carries requests and deliveries", over_a_link);
    RUN("what is published again leaves after the disk and before the ack, to clients and links", again_after_disk);
    RUN("a transform that does not compile changes nothing of the stream", a_transform_that_is_none);
    RUN("of a definition that cannot be carried out nothing is done, whether the stream is there or new",
        nothing_of_a_refused_definition);
    RUN("a stream that could not be made can be made afterwards", a_refused_stream_leaves_its_place);
    RUN("what another stream stores of it, and publishes again, is on disk before that", again_into_another_stream);
    RUN("a message that is delivered to its own ack subject, and an answer to it, acknowledge nothing",
        delivered_into_its_own_ack);
    RUN("what JetStream publishes to a subject of somebody's choice never asks its API; clients and control do",
        nothing_of_ours_asks_the_api);
    RUN("a template gets what no stream takes, and the publisher's next message comes behind it",
        a_template_gets_what_no_stream_takes);
    RUN("who waits for a template goes on when that message is done with, not when another one is",
        who_waits_for_a_template_waits_for_nothing_else);
    RUN("a fast batch is forgotten ten seconds after its last word, and with its stream", silent_batches);
    RUN("streams and messages are there after closing and opening", still_there);
    return TEST_RESULT();
}
