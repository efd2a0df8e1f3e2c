/* test_plane_names.c: the second name that a message may have beside the subject on the wire: who sees it, and that it
 * is acted on nowhere. packaging/doc/promises.md has the rule. */
#include "stream_rig.h"
#include "text/headers.h"

static void put_flagged(plane_t *plane, uint64_t id, const char *name, const char *subject, uint32_t flags) {
    const stream_config_t config = {.account = RIG_ACCOUNT,
                                    .flags = flags,
                                    .max_msg_size = -1,
                                    .max_msgs = -1,
                                    .max_bytes = -1,
                                    .max_msgs_per_subject = -1};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = id, .token = 900 + id}, &config,
                 sizeof(config), (const char *const[]){name, "{}", "", "", "", "", "", subject}, 8);
    rig_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_I64(STATUS_OK, event.status);
}

static void put_stream(plane_t *plane, uint64_t id, const char *name, const char *subject) {
    put_flagged(plane, id, name, subject, 0);
}

/* The link may publish to open.> alone, and names other subjects behind the acknowledgement's. */
static void named_behind_the_ack(void) {
    static const char *const lists[4] = {NULL, NULL, "open.>", NULL};
    static const char *const names[] = {"s.forged", "$JS.API.STREAM.DELETE.S", "open.*", "open..b", ">", "", "open.ok"};
    plane_t *plane = rig_open_fresh("hub");
    put_stream(plane, 1, "S", "s.>");
    put_stream(plane, 2, "O", "open.>");
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "open.api");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 77}, &strings);
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", lists);
    rig_feed(plane, a, "SUB open.> 1\r\nSUB s.> 2\r\n");
    (void)rig_heard(leaf);
    plane_event_t event;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char line[128], expected[128];
        const char *shown = i + 1 == sizeof(names) / sizeof(names[0]) ? "open.ok" : "open.api";
        snprintf(line, sizeof(line), "LMSG open.api $JS.ACK.a.b.1.2.3.4.5@%s 1\r\nx\r\n", names[i]);
        snprintf(expected, sizeof(expected), "MSG %s 1 $JS.ACK.a.b.1.2.3.4.5 1\r\nx\r\n", shown);
        rig_feed(plane, leaf, line);
        RIG_HEARD(expected, a);
        CHECK(rig_event(plane, EVENT_MESSAGE, &event));
        CHECK_TEXT("open.api", event.subject, event.subject_size);
        rig_settle(plane);
    }
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(0, state.messages);
    store_stream_state(stream_find(&plane->js, 2)->store, &state);
    CHECK_EQ_U64(sizeof(names) / sizeof(names[0]), state.messages);
    CHECK_EQ_U64(1, state.subjects);
    rig_close_and_remove(plane);
}

/* Buckets are denied to every link, as each end has its own. What a leaf's user may publish holds for their names, too.
 */
static void key_of_a_bucket_behind_the_ack(void) {
    static const char *const all[4] = {NULL, NULL, NULL, "$KV.>"};
    static const char *const inboxes[4] = {NULL, NULL, "_INBOX.>", "$KV.>"};
    plane_t *plane = rig_open_fresh("hub");
    put_stream(plane, 1, "KV_B", "$KV.B.>");
    peer_t *a = rig_client(plane), *leaf = rig_leaf(plane, 0, "l", all), *other = rig_leaf(plane, 0, "m", inboxes);
    rig_feed(plane, a, "SUB _INBOX.w 1\r\n");
    (void)rig_heard(leaf);
    (void)rig_heard(other);
    rig_feed(plane, leaf, "LMSG _INBOX.w $JS.ACK.KV_B.b.1.2.3.4.5@$KV.B.key 1\r\nx\r\n");
    RIG_HEARD("MSG $KV.B.key 1 $JS.ACK.KV_B.b.1.2.3.4.5 1\r\nx\r\n", a);
    rig_feed(plane, leaf, "LMSG _INBOX.w $JS.ACK.KV_B.b.1.2.3.4.5@$KV.B.* 1\r\nx\r\n");
    RIG_HEARD("MSG _INBOX.w 1 $JS.ACK.KV_B.b.1.2.3.4.5 1\r\nx\r\n", a);
    rig_feed(plane, other, "LMSG _INBOX.w $JS.ACK.KV_B.b.1.2.3.4.5@$KV.B.key 1\r\nx\r\n");
    RIG_HEARD("MSG _INBOX.w 1 $JS.ACK.KV_B.b.1.2.3.4.5 1\r\nx\r\n", a);
    other->dialled = true; /* a hub, which says what it sends */
    rig_feed(plane, other, "LMSG _INBOX.w $JS.ACK.KV_B.b.1.2.3.4.5@$KV.B.key 1\r\nx\r\n");
    RIG_HEARD("MSG $KV.B.key 1 $JS.ACK.KV_B.b.1.2.3.4.5 1\r\nx\r\n", a);
    rig_settle(plane);
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    CHECK_EQ_U64(0, state.messages);
    rig_close_and_remove(plane);
}

/* What a consumer delivers to a subject of another stream is stored there under that subject. */
static void delivered_into_a_stream(void) {
    plane_t *plane = rig_open_fresh("");
    put_stream(plane, 1, "S", "s.>");
    put_stream(plane, 2, "O", "open.>");
    rig_put_consumer(plane, rig_consumer);
    rig_settle(plane);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB open.> 1\r\nPUB s.x 1\r\nx\r\n");
    rig_settle(plane);
    rig_feed(plane, a, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C open.in 1\r\n1\r\n");
    rig_settle(plane);
    const char *heard = rig_heard(a);
    CHECK(strstr(heard, "MSG s.x 1 $JS.ACK.S.C.1.1.1.") != NULL);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream_find(&plane->js, 2)->store, 1, &message));
    CHECK(bytes_equal(rig_text("open.in"), message.subject));
    rig_close_and_remove(plane);
}

static void schedule(plane_t *plane, peer_t *peer, const char *subject, const char *names) {
    char header[256], line[512];
    int size = snprintf(header, sizeof(header), "NATS/1.0\r\nNats-Schedule: @every 1h\r\n%s\r\n\r\n", names);
    bool link = peer->protocol->link;
    snprintf(line, sizeof(line), "%s %s _I.r %d %d\r\n%sx\r\n", link ? "LMSG" : "HPUB", subject, size, size + 1,
             header);
    rig_feed(plane, peer, line);
    rig_settle(plane);
}

static uint64_t messages_of(plane_t *plane, uint64_t id) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, id)->store, &state);
    return state.messages;
}

/* A user who publishes to open.> and may not read s.>. */
static void names_of_schedules(void) {
    static const char *const lists[4] = {"open.>", "open.private", NULL, "s.>"};
    static const char *const denied[][3] = {
        {"Nats-Schedule-Target: s.forged", "Publish to \"s.forged\"", "10190"},
        {"Nats-Schedule-Target: open.t\r\nNats-Schedule-Source: s.secret", "Subscription to \"s.secret\"", "10203"},
        {"Nats-Schedule-Next: purge\r\nNats-Scheduler: s.job", "Publish to \"s.job\"", "10212"}};
    plane_t *plane = rig_open_fresh("hub");
    put_flagged(plane, 1, "S", "s.>", STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP);
    put_flagged(plane, 2, "O", "open.>", STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP);
    peer_t *all = rig_client(plane), *user = rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS}, lists);
    rig_feed(plane, user, "SUB _I.> 1\r\n");
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        schedule(plane, user, "open.x", denied[i][0]);
        const char *heard = rig_heard(user);
        CHECK(strstr(heard, denied[i][1]) != NULL);
        CHECK(strstr(heard, denied[i][2]) != NULL);
        CHECK_EQ_U64(0, messages_of(plane, 2));
    }
    schedule(plane, user, "open.x", "Nats-Schedule-Target: open.t");
    CHECK(strstr(rig_heard(user), "\"seq\":1}") != NULL);
    schedule(plane, all, "s.job", "Nats-Schedule-Target: s.t");
    CHECK_EQ_U64(1, messages_of(plane, 1));
    schedule(plane, user, "open.y", "Nats-Schedule-Target: open.private");
    CHECK(strstr(rig_heard(user), "10190") != NULL);
    put_flagged(plane, 2, "O", "open.>", STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP | STREAM_GRANTS_SCHEDULES);
    schedule(plane, user, "open.y", "Nats-Schedule-Target: open.private");
    CHECK(strstr(rig_heard(user), "\"seq\":2}") != NULL);
    rig_close_and_remove(plane);
}

/* A user of everything, who has a name. */
static peer_t *named_client(plane_t *plane, const char *author) {
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 5; i++) {
        rig_pack(&strings, "");
    }
    rig_pack(&strings, author);
    return rig_admit(plane, COMMAND_ADMIT, CONN_CLIENT, (conn_verdict_t){.flags = RIG_FLAGS}, &strings);
}

static void time_passes(plane_t *plane, int64_t ns) {
    plane->now.mono_ns += ns;
    plane->now.wall_ns += ns;
    rig_settle(plane);
}

static void second_passes(plane_t *plane) {
    time_passes(plane, 2 * NS_PER_SECOND);
}

static void hour_passes(plane_t *plane) {
    time_passes(plane, 3602 * NS_PER_SECOND);
}

/* allow: what the author may publish to; NULL: nothing at all. */
static void answer_author(plane_t *plane, uint64_t ticket, const char *allow) {
    rig_strings_t strings = {.size = 0};
    if (allow != NULL) {
        rig_pack(&strings, allow);
    }
    for (uint32_t i = 0; i < PERMISSION_LISTS; i++) {
        rig_pack(&strings, "");
    }
    const conn_verdict_t verdict = {.flags = 0};
    rig_run(plane,
            (plane_command_t){.op = COMMAND_AUTHOR,
                              .arg = ticket,
                              .arg2 = allow != NULL ? AUTHOR_MAY : 0,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
}

static uint64_t asked_author(plane_t *plane, const char *author) {
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_AUTHOR, &event));
    CHECK_EQ_U64(AUTHOR_ASKED, event.code);
    CHECK_TEXT(author, event.header, event.header_size);
    return event.arg;
}

static void author_of_a_schedule(void) {
    plane_t *plane = rig_open_fresh("hub");
    uint32_t flags = STREAM_ALLOW_SCHEDULES | STREAM_ALLOW_ROLLUP;
    plane_event_t event;
    put_flagged(plane, 1, "S", "s.>", flags);
    peer_t *alice = named_client(plane, "alice");
    rig_feed(plane, alice, "SUB _I.> 1\r\n");
    schedule(plane, alice, "s.job",
             "Nats-Schedule-Target: s.t\r\nNats-Schedule-Author: root\r\nNats-Schedule-Author: a");
    CHECK_EQ_U64(1, messages_of(plane, 1));
    stored_message_t message;
    bytes_t author;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream_find(&plane->js, 1)->store, 1, &message));
    CHECK(headers_find(message.header, SCHEDULE_AUTHOR, &author));
    CHECK(bytes_equal(rig_text("alice"), author));
    /* nobody has answered: it waits */
    uint64_t ticket = asked_author(plane, "alice");
    hour_passes(plane);
    CHECK_EQ_U64(1, messages_of(plane, 1));
    ticket = asked_author(plane, "alice");
    answer_author(plane, ticket - 1, "s.>"); /* too late: it was asked again */
    second_passes(plane);
    CHECK_EQ_U64(1, messages_of(plane, 1));
    answer_author(plane, asked_author(plane, "alice"), "s.>");
    second_passes(plane);
    CHECK_EQ_U64(2, messages_of(plane, 1));
    /* others may do other things now */
    rig_run(plane, (plane_command_t){.op = COMMAND_AUTHORS_FORGET}, NULL);
    hour_passes(plane);
    CHECK_EQ_U64(2, messages_of(plane, 1));
    answer_author(plane, asked_author(plane, "alice"), "s.other");
    second_passes(plane);
    CHECK_EQ_U64(2, messages_of(plane, 1));
    CHECK(rig_event(plane, EVENT_AUTHOR, &event));
    CHECK_EQ_U64(AUTHOR_DENIED, event.code);
    CHECK_TEXT("s.t", event.subject, event.subject_size);
    CHECK_TEXT("s.job", event.reply, event.reply_size);
    CHECK_EQ_U64(1, plane->stats.schedules_refused);
    rig_run(plane, (plane_command_t){.op = COMMAND_AUTHORS_FORGET}, NULL);
    hour_passes(plane);
    answer_author(plane, asked_author(plane, "alice"), NULL);
    second_passes(plane);
    CHECK_EQ_U64(2, messages_of(plane, 1));
    CHECK_EQ_U64(2, plane->stats.schedules_refused);
    CHECK(rig_event(plane, EVENT_AUTHOR, &event));
    CHECK_EQ_U64(AUTHOR_DENIED, event.code);
    /* asked for the first time when it is due, as after a restart: it fires soon after the answer */
    rig_run(plane, (plane_command_t){.op = COMMAND_AUTHORS_FORGET}, NULL);
    hour_passes(plane);
    CHECK_EQ_U64(2, messages_of(plane, 1));
    answer_author(plane, asked_author(plane, "alice"), "s.>");
    time_passes(plane, 60 * NS_PER_MS);
    CHECK_EQ_U64(3, messages_of(plane, 1));
    /* the stream grants it */
    put_flagged(plane, 1, "S", "s.>", flags | STREAM_GRANTS_SCHEDULES);
    hour_passes(plane);
    CHECK_EQ_U64(4, messages_of(plane, 1));
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("the name behind an acknowledgement reaches no API and no stream, and subscribers if the link may publish "
        "there",
        named_behind_the_ack);
    RUN("the key of a bucket at the other end is shown, unless the leaf's user may not publish there",
        key_of_a_bucket_behind_the_ack);
    RUN("what a consumer delivers to a stream is stored under the subject that it was delivered to",
        delivered_into_a_stream);
    RUN("a schedule names as target, as source, or as the schedule that ends, what its sender may publish or read",
        names_of_schedules);
    RUN("a schedule fires by what control says that its author may do today, and waits until that is said",
        author_of_a_schedule);
    return TEST_RESULT();
}
