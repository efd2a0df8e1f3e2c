/* test_jetstream.c: JetStream without a plane: what it asks of its host, and what it promises over the small one of
 * js_rig.h.
 */
#include "ingest_rig.h"

static void acknowledged_when_durable(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    CHECK(js_rig_send(rig, "s.a", "_I.1", "one"));
    CHECK(js_rig_send(rig, "s.b", "", "two"));
    CHECK(!js_rig_send(rig, "s.c", "", "three"));
    JS_RIG_HEARD("", rig);
    js_rig_until_durable(rig);
    JS_RIG_HEARD("_I.1 {\"stream\":\"S\",\"seq\":1}\n", rig);
    js_rig_close(rig);
}

static void nobody_elses_messages(void) {
    js_rig_t *rig = js_rig_open();
    const char *subjects[] = {"s.a"};
    store_stream_t *left = NULL; /* the store has it, and nobody knows whose it was */
    CHECK_EQ_I64(STATUS_OK, store_stream_open(rig->js.stores[STORE_FILE], 7, &stream_defaults, *rig->js.now, &left));
    CHECK_EQ_I64(STATUS_EXISTS, put_stream(rig, 7, subjects, 1));
    CHECK(rig->sinks == NULL);
    CHECK(stream_find(&rig->js, 7) == NULL);
    CHECK_EQ_I64(STATUS_OK, put_stream(rig, 8, subjects, 1));
    js_rig_close(rig);
}

static void refused_at_once(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    bytes_t header = BYTES_LITERAL("NATS/1.0\r\nNats-Expected-Stream: T\r\nNats-Incr: 1\r\n\r\n");
    message_t message = {.subject = js_rig_text("s.a"), .reply = js_rig_text("_I.1"), .header = header};
    js_publish(&rig->js, stream_find(&rig->js, 1), &message);
    JS_RIG_HEARD("_I.1 {\"error\":{\"code\":400,\"err_code\":10168,\"description\":\"message counters is disabled\"},"
                 "\"stream\":\"S\",\"seq\":0}\n",
                 rig);
    js_rig_close(rig);
}

static void whole_or_not_at_all(void) {
    js_rig_t *rig = js_rig_open();
    const char *subjects[] = {"s.a", "s.b"};
    for (uint32_t left = 0; left < 4; left++) {
        rig->listens_left = left;
        CHECK_EQ_I64(STATUS_NO_MEMORY, put_stream(rig, 1, subjects, 2));
        CHECK(rig->sinks == NULL);
        CHECK(stream_find(&rig->js, 1) == NULL);
    }
    rig->listens_left = 4; /* two subjects, two for direct gets */
    CHECK_EQ_I64(STATUS_OK, put_stream(rig, 1, subjects, 2));
    const char *others[] = {"s.c", "s.d"};
    rig->listens_left = 1;
    CHECK_EQ_I64(STATUS_NO_MEMORY, put_stream(rig, 1, others, 2));
    CHECK(js_rig_send(rig, "s.a", "", "still there"));
    CHECK(!js_rig_send(rig, "s.c", "", "never there"));
    js_rig_close(rig);
}

static void delivered_and_acknowledged(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    consumer_config_t config = {.account = 1,
                                .ack_policy = ACK_EXPLICIT,
                                .max_deliver = -1,
                                .max_ack_pending = 10,
                                .ack_wait_ns = 30 * NS_PER_SECOND,
                                .max_waiting = 10};
    const char *parts[] = {"C", "{}", "", "", "", ""};
    CHECK_EQ_I64(STATUS_OK, js_rig_put(rig,
                                       (plane_command_t){.op = COMMAND_CONSUMER_PUT,
                                                         .account = 1,
                                                         .target = 1,
                                                         .arg = 7,
                                                         .body = (const uint8_t *)&config,
                                                         .body_size = sizeof(config)},
                                       parts, 6));
    CHECK(js_rig_send(rig, "s.a", "", "one"));
    js_rig_until_durable(rig);
    CHECK(js_rig_send(rig, "$JS.API.CONSUMER.MSG.NEXT.S.C", "_I.2", ""));
    js_rig_turn(rig);
    JS_RIG_HEARD("_I.2 one\n", rig);
    consumer_binding_t *binding = binding_find(&rig->js, stream_find(&rig->js, 1), 7);
    message_t ack = {.subject = BYTES_LITERAL("$JS.ACK.S.C.1.1.1.1700000000000000000.0"), .reply = js_rig_text("_I.3")};
    js_ack(&rig->js, binding, &ack);
    JS_RIG_HEARD("", rig);
    js_rig_until_durable(rig);
    JS_RIG_HEARD("_I.3 \n", rig);
    consumer_state_t state;
    consumer_snapshot(binding->consumer, rig->now, &state);
    CHECK_EQ_U64(1, state.floor_stream);
    js_rig_close(rig);
}

/* ---- what a mirror or source takes in ---------------------------------------------------------------------------- */

/* By that link, and silent when nothing comes for so long. */
static void start_taking(js_rig_t *rig, bool durable, uint64_t link, int64_t silence_ns) {
    start_as(rig, (ingest_config_t){.durable = durable,
                                    .last_sequence = 2,
                                    .silence_ns = silence_ns,
                                    .delivered_sequence = durable ? 1 : 0,
                                    .link = link});
}

static void start_told(js_rig_t *rig) {
    start_as(rig, (ingest_config_t){.last_sequence = 3, .silence_ns = 600 * NS_PER_SECOND, .link = 9, .spared = 1});
}

static js_rig_t *taking_by(bool durable, uint64_t link, int64_t silence_ns) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    start_taking(rig, durable, link, silence_ns);
    return rig;
}

/* Of the consumer C, which is a durable one or one made for this start, of a stream of which 2 messages are stored. */
static js_rig_t *taking(bool durable) {
    return taking_by(durable, 0, INT64_MAX);
}

/* A message, by its sequences at the consumer and at the origin. */
static void taken_at(js_rig_t *rig, int consumer_seq, int stream_seq, int second) {
    char reply[80];
    snprintf(reply, sizeof(reply), "$JS.ACK.O.C.1.%d.%d.17000000%02d000000000.0", stream_seq, consumer_seq, second);
    CHECK(js_rig_send(rig, "d", reply, "x"));
}

static void taken(js_rig_t *rig, int consumer_seq, int stream_seq) {
    taken_at(rig, consumer_seq, stream_seq, 0);
}

/* Ends the rig. Whether control was told that deliveries are missing, and nothing else but of the first one. */
static bool told_of_a_gap(js_rig_t *rig) {
    plane_event_t event;
    bool gap = false;
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        CHECK(event.code == INGEST_GAP || event.code == INGEST_FIRST);
        gap = gap || event.code == INGEST_GAP;
        exchange_release(&rig->exchange, 1);
    }
    js_rig_close(rig);
    return gap;
}

/* A sequence that was taken, with a newer stamp: of a durable consumer the message is new, and taken; what is as old as
 * what was taken is not. A consumer that began at a sequence has passed over others: nothing of it is taken. */
static void an_origin_that_was_put_back(void) {
    js_rig_t *rig = taking(true);
    taken_at(rig, 1, 3, 1);
    taken_at(rig, 2, 4, 2);
    CHECK(!told_of(rig, INGEST_BACK));
    plane_command_t command = {.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1};
    ingest_stop(&rig->js, &command, stream_find(&rig->js, 1));
    start_taking(rig, true, 0, INT64_MAX);
    taken_at(rig, 1, 3, 1);
    CHECK_EQ_U64(2, stored(rig));
    taken_at(rig, 2, 4, 3);
    CHECK_EQ_U64(3, stored(rig));
    CHECK(told_of(rig, INGEST_BACK));
    taken_at(rig, 3, 5, 3);
    CHECK_EQ_U64(4, stored(rig));
    CHECK(!told_of(rig, INGEST_BACK));
    start_taking(rig, false, 0, INT64_MAX);
    taken_at(rig, 1, 5, 4);
    CHECK(told_of(rig, INGEST_BACK));
    taken_at(rig, 2, 6, 5);
    CHECK_EQ_U64(4, stored(rig));
    js_rig_close(rig);
}

static void end_taking(js_rig_t *rig) {
    plane_command_t command = {.op = COMMAND_INGEST_STOP, .target = 1, .arg = 1};
    ingest_stop(&rig->js, &command, stream_find(&rig->js, 1));
}

static void start_at_new(js_rig_t *rig) {
    start_as(rig, (ingest_config_t){.last_sequence = 2, .silence_ns = INT64_MAX, .begins = BEGINS_NEW});
}

/* Of an origin that says that all is new, messages with sequences and stamps that were taken are taken, too. The
 * position goes on with the first of them: until then it is that of before, and after it nothing comes twice. */
static void an_origin_that_was_put_back_with_its_clock(void) {
    js_rig_t *rig = taking(true);
    taken_at(rig, 1, 3, 50);
    taken_at(rig, 2, 4, 51);
    end_taking(rig);
    start_at_new(rig);
    end_taking(rig);
    start_taking(rig, true, 0, INT64_MAX);
    taken_at(rig, 1, 3, 1);
    CHECK_EQ_U64(2, stored(rig));
    end_taking(rig);
    start_at_new(rig);
    taken_at(rig, 1, 3, 1);
    CHECK_EQ_U64(3, stored(rig));
    taken_at(rig, 2, 4, 2);
    CHECK_EQ_U64(4, stored(rig));
    CHECK(!told_of(rig, INGEST_BACK));
    end_taking(rig);
    start_taking(rig, true, 0, INT64_MAX);
    taken_at(rig, 1, 4, 2);
    CHECK_EQ_U64(4, stored(rig));
    taken_at(rig, 2, 5, 3);
    CHECK_EQ_U64(5, stored(rig));
    js_rig_close(rig);
}

static bool is_silent(js_rig_t *rig, int64_t after_ns, int64_t heard_after_ns) {
    rig->link_heard_ns += heard_after_ns;
    rig->now.mono_ns += after_ns;
    ingest_chores(&rig->js);
    bool silent = false;
    plane_event_t event;
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        silent = silent || event.code == INGEST_SILENT;
        exchange_release(&rig->exchange, 1);
    }
    js_rig_close(rig);
    return silent;
}

static void silence_is_the_links(void) {
    const int64_t s = NS_PER_SECOND;
    CHECK(is_silent(taking_by(false, 0, 5 * s), 6 * s, 0));
    CHECK(!is_silent(taking_by(false, 9, 5 * s), 60 * s, 4 * s));
    CHECK(is_silent(taking_by(false, 9, 5 * s), 60 * s, 7 * s));
    js_rig_t *rig = taking_by(true, 9, 5 * s);
    taken(rig, 1, 3);
    CHECK(!is_silent(rig, 30 * s, 5 * s));
}

/* the link is pinged each 13 s: its heartbeats come more often, and tell */
static void silence_of_often_heard(void) {
    const int64_t s = NS_PER_SECOND;
    CHECK(!is_silent(taking_by(false, 9, 4 * s), 4 * s, 0));
    CHECK(is_silent(taking_by(false, 9, 4 * s), 5 * s, 0));
    CHECK(is_silent(taking_by(false, 9, 4 * s), 5 * s, 3 * s));
    CHECK(!is_silent(taking_by(false, 9, 4 * s), 5 * s, 5 * s)); /* it carries what may stand before them */
    CHECK(is_silent(taking_by(false, 9, 4 * s), 7 * s, 7 * s));
}

static int64_t heard_ago(js_rig_t *rig) {
    const uint64_t slot = UINT64_C(1) << 32 | 1;
    plane_command_t command = {.op = COMMAND_INGESTS_STATE, .token = 7};
    command.body = (const uint8_t *)&slot;
    command.body_size = sizeof slot;
    ingests_state(&rig->js, &command);
    plane_event_t event;
    ingest_state_t state = {.active_ns = -2};
    while (exchange_poll(&rig->exchange, &event, 1) == 1) {
        if (event.kind == EVENT_DONE && event.token == 7) memcpy(&state, event.payload, sizeof(state));
        exchange_release(&rig->exchange, 1);
    }
    return state.active_ns;
}

/* Where the origin tells of its consumer's end, what comes by the link is heard of it. */
static void told_of_its_end(void) {
    js_rig_t *rig = taking_by(false, 9, 600 * NS_PER_SECOND);
    taken(rig, 1, 3);
    int64_t since = rig->now.mono_ns;
    rig->heard_at_ns = since + 50 * NS_PER_SECOND;
    rig->now.mono_ns = since + 60 * NS_PER_SECOND;
    CHECK_EQ_I64(60 * NS_PER_SECOND, heard_ago(rig));
    start_told(rig);
    taken(rig, 1, 4);
    rig->heard_at_ns = rig->now.mono_ns + 50 * NS_PER_SECOND;
    rig->now.mono_ns += 60 * NS_PER_SECOND;
    CHECK_EQ_I64(10 * NS_PER_SECOND, heard_ago(rig));
    control(rig, "", "NATS/1.0 409 Consumer Deleted\r\n\r\n");
    CHECK(told_of_a_gap(rig));
}

/* Of an empty stream nothing comes, so what the link brings is heard of it as soon as it has told what it holds. */
static void told_of_an_empty_stream(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    ingest_config_t config = {.last_sequence = 2, .silence_ns = 600 * NS_PER_SECOND, .link = 9, .spared = 1};
    start_as(rig, config);
    rig->heard_at_ns = rig->now.mono_ns + 50 * NS_PER_SECOND;
    rig->now.mono_ns += 60 * NS_PER_SECOND;
    CHECK_EQ_I64(-1, heard_ago(rig));
    config.pending_known = 1;
    start_as(rig, config);
    CHECK_EQ_I64(10 * NS_PER_SECOND, heard_ago(rig));
    js_rig_close(rig);
}

static void set_back_to_what_is_new(void) {
    for (int durable = 0; durable < 2; durable++) {
        js_rig_t *rig = taking(durable == 1);
        taken(rig, 1, 3);
        taken(rig, 2, 4);
        taken(rig, 1, 5);
        taken(rig, 2, 6);
        taken(rig, 3, 7);
        CHECK_EQ_U64(2, stored(rig));
        CHECK(told_of_a_gap(rig));
    }
}

static void set_back_to_what_is_known(void) {
    for (int durable = 0; durable < 2; durable++) {
        js_rig_t *rig = taking(durable == 1);
        taken(rig, 1, 2);
        taken(rig, 2, 3);
        taken(rig, 1, 2); /* the old stream's, a second time, or a new stream's */
        taken(rig, 2, 3);
        taken(rig, 3, 4);
        CHECK_EQ_U64(durable == 1 ? 1 : 2, stored(rig));
        CHECK(told_of_a_gap(rig) == (durable == 1));
    }
    js_rig_t *rig = taking(true);
    taken(rig, 1, 1); /* below what it was set back to */
    CHECK(told_of_a_gap(rig));
}

static void heartbeat_of_one_set_back(void) {
    for (int durable = 0; durable < 2; durable++) {
        js_rig_t *rig = taking(durable == 1);
        taken(rig, 1, 3);
        control(rig, "", "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 3\r\n\r\n");
        CHECK(rig->js.ingests != NULL && ingest_feeds(rig->js.ingests, &(uint32_t){0}));
        control(rig, "", "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 1\r\n\r\n");
        CHECK(told_of_a_gap(rig) == (durable == 1));
    }
}

/* The origin's server listens for answers to flow control as long as the consumer is there. */
static void unwanted_by_its_origin(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    ingest_config_t config = {.last_sequence = 2, .silence_ns = INT64_MAX, .link = 9, .origin = 9};
    start_as(rig, config);
    const char *others[] = {"$JS.FC.O.D.*", "$JS.FC.O.C", "$JS.ACK.O.C.*", "$JS.FC.", "$JS.FC.C", "$JS.FC.O.CC.*"};
    for (uint32_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        ingest_unwanted(&rig->js, 9, js_rig_text(others[i]));
    ingest_unwanted(&rig->js, 8, js_rig_text("$JS.FC.O.C.*"));
    CHECK(!told_of(rig, INGEST_GAP));
    const char *wanted[] = {"$JS.FC.O.C.*", "$JS.FC.hub.NUmM6cRx.O.C.*"};
    for (uint32_t i = 0; i < 2; i++) {
        start_as(rig, config);
        ingest_unwanted(&rig->js, 9, js_rig_text(wanted[i]));
        CHECK(told_of(rig, INGEST_GAP));
        ingest_unwanted(&rig->js, 9, js_rig_text(wanted[i]));
        CHECK(!told_of(rig, INGEST_GAP)); /* said already */
    }
    config.durable = 1;
    start_as(rig, config);
    ingest_unwanted(&rig->js, 9, js_rig_text("$JS.FC.O.C.*"));
    CHECK(!told_of_a_gap(rig));
}

static void acknowledges_what_it_was_given(void) {
    js_rig_t *rig = taking(true);
    control(rig, "$JS.FC.S.C.1", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    control(rig, "elsewhere", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    control(rig, "", "NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: $JS.FC.a b\r\n\r\n");
    taken(rig, 1, 2);
    control(rig, "$JS.FC.S.C.2", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.S.C.1 NATS/1.0\r\nNats-Last-Consumer: 0\r\nNats-Last-Stream: 1\r\n" COPY_AT(
                     "2") "$JS.FC.S.C.2 NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 2\r\n" COPY_AT("2"),
                 rig);
    CHECK(!told_of_a_gap(rig));
}

static void beside_another_consumer(void) {
    const char *theirs = "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 4\r\n\r\n";
    js_rig_t *rig = taking(false);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        char reply[64];
        (void)snprintf(reply, sizeof(reply), "$JS.ACK.O.C-2.1.%d.%d.1.0", (int)seq + 2, (int)seq);
        message_t message = {.subject = js_rig_text("s.a"), .reply = js_rig_text(reply)};
        ingest_frame(&rig->js, rig->js.ingests, &message, BYTES_NONE);
    }
    control(rig, "$JS.FC.O.C-2.x", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    control(
        rig, "",
        "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\nNats-Consumer-Stalled: $JS.FC.h.a.O.C-2.x\r\n\r\n");
    control(rig, "", theirs);
    CHECK_EQ_U64(0, stored(rig));
    taken(rig, 1, 3);
    control(rig, "", theirs);
    taken(rig, 2, 4);
    control(rig, "", theirs);
    control(rig, "$JS.FC.h.a.O.C.y", "NATS/1.0 100 FlowControl Request\r\n\r\n");
    js_rig_until_durable(rig);
    JS_RIG_HEARD("$JS.FC.h.a.O.C.y NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 4\r\nLeafd-Copy: 1\r\n\r\n\n",
                 rig);
    CHECK_EQ_U64(2, stored(rig));
    CHECK(ingest_feeds(rig->js.ingests, &(uint32_t){0}));
    control(rig, "", "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 3\r\nNats-Last-Stream: 5\r\n\r\n");
    CHECK(told_of_a_gap(rig));
}

static status_t put_consumer(js_rig_t *rig, uint32_t id, uint32_t flags) {
    consumer_config_t config = {.account = 1, .flags = flags, .max_deliver = -1, .max_waiting = 10};
    char name[16];
    (void)snprintf(name, sizeof(name), "C%u", id);
    const char *parts[] = {name, "{}", "", "", "", ""};
    plane_command_t command = {.op = COMMAND_CONSUMER_PUT,
                               .account = 1,
                               .target = 1,
                               .arg = id,
                               .body = (const uint8_t *)&config,
                               .body_size = sizeof(config)};
    return js_rig_put(rig, command, parts, 6);
}

/* First, last and middle ones of the list go; those of mirrors and sources elsewhere are not counted. */
static void consumers_come_and_go(void) {
    js_rig_t *rig = js_rig_open();
    put_default(rig);
    stream_t *stream = stream_find(&rig->js, 1);
    stream_state_t state;
    for (uint32_t id = 1; id <= 9; id++) {
        CHECK_EQ_I64(STATUS_OK, put_consumer(rig, id, id % 3 == 0 ? CONSUMER_DIRECT : 0));
    }
    CHECK_EQ_I64(STATUS_OK, put_consumer(rig, 3, 0)); /* changed: it is to be seen now */
    stream_state_of(stream, &state);
    CHECK_EQ_U64(7, state.consumers);
    const uint32_t going[] = {9, 1, 5, 6};
    for (uint32_t i = 0; i < 4; i++) {
        consumer_binding_t *binding = binding_find(&rig->js, stream, going[i]);
        CHECK(binding != NULL && binding->id == going[i]);
        plane_command_t command = {.op = COMMAND_CONSUMER_REMOVE, .account = 1, .target = 1, .arg = going[i]};
        binding_remove(&rig->js, &command, binding);
        CHECK(binding_find(&rig->js, stream, going[i]) == NULL);
    }
    stream_state_of(stream, &state);
    CHECK_EQ_U64(5, state.consumers);
    uint32_t found = 0;
    for (uint64_t id = 0; id <= 10; id++) {
        found += binding_find(&rig->js, stream, id) != NULL;
        CHECK(binding_find(&rig->js, stream, id | UINT64_C(1) << 32) == NULL);
    }
    CHECK_EQ_U64(5, found);
    js_rig_close(rig);
}

static uint32_t refused;

static bool never_over(js_t *js, job_t *job) {
    (void)js, (void)job;
    return false;
}

static void count_refused(js_t *js, job_t *job, status_t status) {
    (void)js;
    refused += status == STATUS_FULL;
    free(job);
}

static uint32_t taken_of(js_t *js, stream_t *stream, uint32_t count) {
    uint32_t before = refused;
    for (uint32_t i = 0; i < count; i++) {
        job_t *job = calloc(1, sizeof(*job));
        CHECK(job != NULL);
        *job = (job_t){.stream = stream, .refusable = true, .step = never_over, .end = count_refused};
        job_wait(js, job);
    }
    return count - (refused - before);
}

static void accounts_leave_room(void) {
    js_rig_t *rig = js_rig_open();
    js_t *js = &rig->js;
    stream_t one = {.account = &rig->accounts[0]}, two = {.account = &rig->accounts[1]};
    CHECK_EQ_U64(2048, taken_of(js, &one, 5000));
    CHECK_EQ_U64(1024, taken_of(js, &two, 5000));
    jobs_forget(js, &one);
    CHECK_EQ_U64(0, one.account->job_count);
    CHECK_EQ_U64(1536, taken_of(js, &one, 5000));
    jobs_forget(js, &one);
    jobs_forget(js, &two);
    CHECK_EQ_U64(0, js->job_count);
    CHECK_EQ_U64(0, two.account->job_count);
    js_rig_close(rig);
}

#define MANY 6000

static void publish_expecting(js_rig_t *rig, const char *subject, const char *reply, const char *header) {
    message_t message = {.subject = js_rig_text(subject),
                         .reply = js_rig_text(reply),
                         .header = header != NULL ? js_rig_text(header) : BYTES_NONE,
                         .payload = BYTES_LITERAL("p")};
    js_publish(&rig->js, stream_find(&rig->js, 1), &message);
}

static uint64_t last_of(js_rig_t *rig) {
    stream_state_t state;
    store_stream_state(stream_find(&rig->js, 1)->store, &state);
    return state.last_seq;
}

/* s.first is the only one that matches, and far back: all the subjects have to be gone through. */
static void many_subjects(js_rig_t *rig) {
    put_default(rig);
    publish_expecting(rig, "s.first", "", NULL);
    for (uint32_t i = 1; i < MANY; i++) {
        char subject[32];
        snprintf(subject, sizeof(subject), "t.%u", i);
        publish_expecting(rig, subject, "", NULL);
    }
    js_rig_until_durable(rig);
    rig->heard_size = 0;
}

#define EXPECT_FIRST(seq)                                                                                              \
    "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: " seq                                                            \
    "\r\nNats-Expected-Last-Subject-Sequence-Subject: *.first\r\n\r\n"

static void long_looks_wait(void) {
    js_rig_t *rig = js_rig_open();
    many_subjects(rig);
    publish_expecting(rig, "s.x", "_I.1", EXPECT_FIRST("1"));
    publish_expecting(rig, "s.first", "_I.2", NULL);
    publish_expecting(rig, "s.x", "_I.3", EXPECT_FIRST("1"));
    publish_expecting(rig, "s.x", "_I.4", EXPECT_FIRST("6002"));
    CHECK_EQ_U64(MANY, last_of(rig)); /* none of them in this turn */
    js_rig_turn(rig);
    CHECK_EQ_U64(MANY, last_of(rig));
    while (last_of(rig) == MANY) js_rig_turn(rig);
    js_rig_until_durable(rig);
    JS_RIG_HEARD("_I.3 {\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 6002\"},"
                 "\"stream\":\"S\",\"seq\":0}\n"
                 "_I.1 {\"stream\":\"S\",\"seq\":6001}\n"
                 "_I.2 {\"stream\":\"S\",\"seq\":6002}\n"
                 "_I.4 {\"stream\":\"S\",\"seq\":6003}\n",
                 rig);
    publish_expecting(rig, "s.x", "_I.5", EXPECT_FIRST("6002")); /* what was looked for is known from then on */
    CHECK_EQ_U64(6004, last_of(rig));
    js_rig_until_durable(rig);
    js_rig_close(rig);
}

static void waiting_is_bounded(void) {
    js_rig_t *rig = js_rig_open();
    many_subjects(rig);
    publish_expecting(rig, "s.x", "_I.1", EXPECT_FIRST("7"));
    for (uint32_t i = 1; i < 10000; i++) publish_expecting(rig, "s.x", "", NULL);
    JS_RIG_HEARD("", rig);
    publish_expecting(rig, "s.x", "_I.2", NULL);
    JS_RIG_HEARD("_I.2 {\"error\":{\"code\":429,\"err_code\":10167,\"description\":\"too many requests\"},"
                 "\"stream\":\"S\",\"seq\":0}\n",
                 rig);
    while (last_of(rig) < MANY + 9999) js_rig_turn(rig);
    js_rig_turn(rig);
    CHECK(stream_find(&rig->js, 1)->later == NULL);
    rig->heard_size = 0;
    publish_expecting(rig, "s.x", "", EXPECT_FIRST("7"));
    js_rig_until_durable(rig);
    js_rig_close(rig);
}

static void a_stream_that_goes_takes_them_along(void) {
    js_rig_t *rig = js_rig_open();
    many_subjects(rig);
    publish_expecting(rig, "s.x", "_I.1", EXPECT_FIRST("1"));
    publish_expecting(rig, "s.x", "_I.2", NULL);
    js_rig_close(rig); /* and nothing leaks */
}

int main(void) {
    RUN("a message is acknowledged when it is on disk, and not before", acknowledged_when_durable);
    RUN("a new stream is refused a number under which the store has something", nobody_elses_messages);
    RUN("of two reasons to refuse a message the reference's first one is told, at once", refused_at_once);
    RUN("a stream listens to all of its subjects or is not changed", whole_or_not_at_all);
    RUN("a pull is answered out of the stream, and a double ack when its effect is on disk",
        delivered_and_acknowledged);
    RUN("a copy of a leafd hears of its consumer's end, and by its link meanwhile", told_of_its_end);
    RUN("a copy of an empty stream of a leafd is heard of by its link", told_of_an_empty_stream);
    RUN("while a link brings nothing at all, none of its copies is silent", silence_is_the_links);
    RUN("a consumer whose heartbeats come often is silent soon by a link that brings nothing", silence_of_often_heard);
    RUN("a consumer that was set back to what is new here is made anew, so that nothing of it is missed",
        set_back_to_what_is_new);
    RUN("what is stored already goes by, but what a durable consumer counts anew may be another stream's",
        set_back_to_what_is_known);
    RUN("the heartbeat of a durable consumer that was set back tells so", heartbeat_of_one_set_back);
    RUN("flow control acknowledges what the consumer delivered, not what is stored beyond it",
        acknowledges_what_it_was_given);
    RUN("of two consumers that a request made one is taken, acknowledged and judged by its heartbeats",
        beside_another_consumer);
    RUN("a copy begins anew when its origin's server takes no answers for its consumer any more, and only then",
        unwanted_by_its_origin);
    RUN("each of a stream's consumers is found, and counted if clients may see it, whichever have gone",
        consumers_come_and_go);
    RUN("an expectation about many subjects takes several turns, and what is published behind it keeps its place",
        long_looks_wait);
    RUN("so many messages wait for it, and the next one is told so", waiting_is_bounded);
    RUN("messages that wait go with their stream", a_stream_that_goes_takes_them_along);
    RUN("an account has no more jobs that wait than it leaves places for others", accounts_leave_room);
    RUN("of an origin that was put back what is newer is taken, and nothing twice", an_origin_that_was_put_back);
    RUN("of one whose clock is behind all is taken that it says is new", an_origin_that_was_put_back_with_its_clock);
    return TEST_RESULT();
}
