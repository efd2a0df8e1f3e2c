/* test_plane_replicated.c: a stream that several servers keep, in a plane (jetstream/replicated.h): who leads listens
 * to its subjects and answers what the log has committed; who does not takes nothing. Here a group is one server, or
 * one of three that are not there. Groups of several: test_replicas.c.
 */
#include "stream_rig.h"

#include "group/group.h"
#include "jetstream/replicated_private.h"
#include "meta/meta.h"
#include "store/ledger.h"

#define OWN UINT64_C(0x4141414141414141)
#define GROUP UINT64_C(99)
#define TOKEN 77u

static plane_t *plane;
static uint64_t journal_size; /* 0: as usual */

static void open_plane(void) {
    plane_limits_t limits = rig_limits(rig_directory);
    limits.journal_size = journal_size != 0 ? journal_size : limits.journal_size;
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(rig_directory, limits);
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "");
}

static plane_event_t asked(plane_command_t command, const void *body, uint32_t size, const char *const parts[],
                           uint32_t count) {
    plane_event_t event;
    command.token = TOKEN;
    rig_run_with(plane, command, body, size, parts, count);
    for (int64_t until = 0; patient(&until);) {
        while (rig_event(plane, EVENT_DONE, &event)) {
            if (event.token == TOKEN) return event;
        }
        plane->now.mono_ns += 10 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("command %u is not answered", command.op);
    return event;
}

static int64_t status_of(plane_command_t command) {
    return asked(command, NULL, 0, NULL, 0).status;
}

static int64_t got(uint64_t sequence) {
    static const char *const no_subject[] = {""};
    const plane_command_t command = {.op = COMMAND_MESSAGE_GET, .target = 1};
    const message_query_t query = {.mode = QUERY_SEQUENCE, .sequence = sequence};
    return asked(command, &query, sizeof query, no_subject, 1).status;
}

static int64_t put_stream(stream_config_t config, bool loading) {
    const plane_command_t command = {.op = COMMAND_STREAM_PUT, .target = 1, .arg = loading};
    return asked(command, &config, sizeof config, rig_stream_strings, 8).status;
}

static stream_config_t replicated(void) {
    stream_config_t config = rig_stream;
    config.flags |= STREAM_REPLICATED | STREAM_ALLOW_DIRECT;
    config.duplicate_window_ns = 60 * NS_PER_SECOND;
    return config;
}

static int64_t join(uint64_t name, uint32_t members) {
    meta_disk_t disks[RAFT_MEMBERS_MAX];
    uint64_t disk = 0;
    CHECK(store_ledger_disk(plane->js.stores[STORE_FILE], &disk));
    for (uint32_t i = 0; i < members; i++) {
        disks[i] = (meta_disk_t){.peer = OWN + i, .disk = disk + i};
    }
    const plane_command_t command = {.op = COMMAND_STREAM_GROUP, .target = 1, .arg = name};
    return asked(command, disks, members * (uint32_t)sizeof *disks, NULL, 0).status;
}

static int64_t open_meta(void) {
    return status_of((plane_command_t){.op = COMMAND_META_OPEN, .arg = OWN});
}

static meta_look_t look(void) {
    meta_look_t found;
    plane_event_t event = asked((plane_command_t){.op = COMMAND_STREAM_GROUP_LOOK, .target = 1}, NULL, 0, NULL, 0);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK(event.payload_size >= sizeof found);
    memcpy(&found, event.payload, sizeof found);
    CHECK_EQ_U64(sizeof found + found.members * sizeof(meta_member_t), event.payload_size);
    return found;
}

static const stream_t *the_stream(void) {
    return stream_find(&plane->js, 1);
}

static void until_led(void) {
    for (int64_t until = 0; patient(&until);) {
        if (the_stream()->subject_count == 1) return;
        plane->now.mono_ns += 50 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("nobody leads");
}

static const char *until_heard(peer_t *client) {
    for (int64_t until = 0; patient(&until);) {
        const char *heard = rig_heard(client);
        if (strncmp(heard, "PING\r\n", 6) == 0) heard += 6; /* it has waited so long */
        if (heard[0] != 0) return heard;
        usleep(500);
        plane->now.mono_ns += NS_PER_MS;
        rig_turn(plane);
    }
    FAIL("no answer comes");
    return NULL;
}

/* An answer to `r`. */
static void says(peer_t *client, const char *expected) {
    char message[512];
    snprintf(message, sizeof message, "MSG r 1 %zu\r\n%s\r\n", strlen(expected), expected);
    const char *heard = until_heard(client);
    CHECK_TEXT(message, heard, strlen(heard));
}

static stream_state_t state(void) {
    stream_state_t found;
    stream_state_of(the_stream(), &found);
    return found;
}

static void begin_with(stream_config_t config) {
    rig_new_directory();
    open_plane();
    CHECK_EQ_I64(STATUS_OK, put_stream(config, false));
    CHECK_EQ_I64(STATUS_AGAIN, join(GROUP, 1)); /* there are no groups yet */
    CHECK_EQ_I64(STATUS_OK, open_meta());
    CHECK_EQ_I64(STATUS_OK, join(GROUP, 1));
    CHECK_EQ_I64(STATUS_OK, join(GROUP, 1));
    CHECK_EQ_I64(STATUS_EXISTS, join(GROUP + 1, 1));
    until_led();
}

static void begin(void) {
    begin_with(replicated());
}

static peer_t *asking(void) {
    peer_t *client = rig_client(plane);
    rig_feed(plane, client, "SUB r 1\r\n");
    rig_heard(client);
    return client;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void put_message(peer_t *client, const char *header, const char *expected) {
    char line[512];
    int size = header == NULL ? snprintf(line, sizeof line, "PUB s.a r 1\r\n1\r\n")
                              : snprintf(line, sizeof line, "HPUB s.a r %zu %zu\r\nNATS/1.0\r\n%s\r\n\r\n1\r\n",
                                         strlen(header) + 14, strlen(header) + 15, header);
    CHECK(size > 0 && (size_t)size < sizeof line);
    rig_feed(plane, client, line);
    says(client, expected);
}

/* What nats-server says, too (tests/wire/jetstream.md). */
static void published(void) {
    begin();
    peer_t *client = asking();
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":1}");
    put_message(client, "Nats-Msg-Id: x", "{\"stream\":\"S\",\"seq\":2}");
    put_message(client, "Nats-Msg-Id: x", "{\"stream\":\"S\",\"seq\":2,\"duplicate\": true}");
    put_message(
        client, "Nats-Expected-Last-Sequence: 1",
        "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 2\"},\"stream\":\"S\","
        "\"seq\":0}");
    put_message(client, "Nats-Expected-Last-Sequence: 2", "{\"stream\":\"S\",\"seq\":3}");
    put_message(client, "Nats-Batch-Id: b\r\nNats-Batch-Sequence: 1",
                "{\"error\":{\"code\":400,\"err_code\":10174,\"description\":\"atomic publish is disabled\"},"
                "\"stream\":\"S\",\"seq\":0}");
    CHECK_EQ_U64(3, state().messages);
    CHECK_EQ_I64(STATUS_OK, got(3));
    CHECK_EQ_U64(look().last, look().applied);
    rig_feed(plane, client, "PUB $JS.API.DIRECT.GET.S.s.a r 0\r\n\r\n");
    const char *got = until_heard(client);
    CHECK(strstr(got, "Nats-Sequence: 3") != NULL);
    rig_close_and_remove(plane);
}

/* Beats pass, and it has no turn. */
static void until_at_rest(void) {
    uint32_t quiet = 0;
    for (int64_t until = 0; quiet < 20 && patient(&until);) {
        plane->now.mono_ns += 50 * NS_PER_MS;
        usleep(200);
        bool woken = plane->js.replicated_rows[ROW_TURNS] != NULL || plane->js.replicas_due_ns <= plane->now.mono_ns;
        rig_turn(plane);
        quiet = woken || plane->js.replicated_rows[ROW_TURNS] != NULL ? 0 : quiet + 1;
    }
    CHECK_EQ_U64(20, quiet);
}

/* A turn goes to the streams that have something to do: to one at rest when it is to have another age, and then as its
 * messages age. */
static void at_rest(void) {
    stream_config_t config = replicated();
    begin();
    peer_t *client = asking();
    until_at_rest();
    CHECK_EQ_I64(INT64_MAX, plane->js.replicas_due_ns);
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":1}");
    until_at_rest();
    CHECK_EQ_I64(INT64_MAX, plane->js.replicas_due_ns);
    config.max_age_ns = 500 * NS_PER_SECOND;
    CHECK_EQ_I64(STATUS_OK, put_stream(config, false));
    until_at_rest();
    CHECK(plane->js.replicas_due_ns < plane->now.mono_ns + config.max_age_ns);
    plane->now.mono_ns += config.max_age_ns;
    for (int64_t until = 0; state().messages > 0 && patient(&until);) {
        plane->now.mono_ns += 50 * NS_PER_MS;
        usleep(200);
        rig_turn(plane);
    }
    CHECK_EQ_U64(0, state().messages);
    until_at_rest();
    rig_close_and_remove(plane);
}

static void many_in_a_turn(void) {
    begin();
    peer_t *client = asking();
    for (uint64_t i = 1; i <= 300; i++) {
        rig_say(plane, client, "PUB s.b r 1\r\n1\r\n");
    }
    for (uint64_t i = 1, at = 0; i <= 300; i++) {
        static char heard[65536];
        char expected[64];
        if (heard[at] == 0) {
            snprintf(heard, sizeof heard, "%s", until_heard(client));
            at = 0;
        }
        int size = snprintf(expected, sizeof expected, "{\"stream\":\"S\",\"seq\":%d}\r\n", (int)i);
        const char *ack = strstr(heard + at, "\r\n") + 2;
        CHECK_TEXT(expected, ack, (size_t)size);
        at = (uint64_t)(ack + size - heard);
    }
    CHECK_EQ_U64(300, state().messages);
    rig_close_and_remove(plane);
}

/* Publishes faster than the log takes them wait in their order, and one that comes when 65,536 wait is told so. */
static void waits_for_room(void) {
    static char large[8200];
    journal_size = 1 << 20; /* an eighth of it for what is proposed */
    begin();
    peer_t *client = asking();
    int size = snprintf(large, sizeof large, "PUB s.b 8000\r\n%08000d\r\n", 0);
    CHECK(size > 8000 && (size_t)size < sizeof large);
    for (uint32_t i = 0; i < 20; i++) {
        rig_say(plane, client, large);
    }
    rig_say(plane, client, "PUB s.b r 1\r\n1\r\n");
    CHECK_EQ_U64(0, strlen(rig_heard(client)));
    says(client, "{\"stream\":\"S\",\"seq\":21}");
    for (uint32_t i = 0; i < 20 + 65536; i++) {
        rig_say(plane, client, i < 20 ? large : "PUB s.b 1\r\n1\r\n");
    }
    rig_say(plane, client, "PUB s.b r 1\r\n1\r\n");
    says(client, "{\"error\":{\"code\":429,\"err_code\":10167,\"description\":\"too many requests\"},"
                 "\"stream\":\"S\",\"seq\":0}");
    for (int64_t until = 0; state().messages < 5000; rig_turn(plane)) {
        CHECK(patient(&until));
        usleep(500);
        plane->now.mono_ns += NS_PER_MS;
    }
    rig_feed(plane, client, "PUB s.b r 1\r\n1\r\n"); /* behind what waits */
    unsigned long long seq = 0;
    CHECK_EQ_I64(1, sscanf(until_heard(client), "MSG r 1 %*u\r\n{\"stream\":\"S\",\"seq\":%llu}", &seq));
    CHECK(seq > 21 + 65536);
    CHECK(seq <= 21 + 20 + 65536);
    CHECK_EQ_U64(seq, state().messages);
    rig_close_and_remove(plane);
    journal_size = 0;
}

static int64_t put_consumer(uint64_t id) {
    const consumer_config_t config = {.ack_policy = ACK_EXPLICIT, .ack_wait_ns = 30 * NS_PER_SECOND, .max_waiting = 9};
    const plane_command_t command = {.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = id};
    return asked(command, &config, sizeof config, rig_consumer_strings, 6).status;
}

static consumer_state_t consumer_now(uint64_t id) {
    consumer_state_t found;
    const plane_command_t command = {.op = COMMAND_CONSUMER_STATE, .target = 1, .arg = id};
    plane_event_t event = asked(command, NULL, 0, NULL, 0);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK(event.payload_size >= sizeof found);
    memcpy(&found, event.payload, sizeof found);
    return found;
}

static void fill_log(peer_t *client) {
    static char large[8200];
    snprintf(large, sizeof large, "PUB s.b 8000\r\n%08000d\r\n", 0);
    for (int64_t until = 0; !store_batch_empty(plane->js.stores[STORE_FILE]); rig_turn(plane)) {
        CHECK(patient(&until)); /* what entries before did takes no room of the batch */
        plane->now.mono_ns += NS_PER_MS;
    }
    for (uint32_t i = 0; i < 15 + 300; i++) { /* an eighth of the journal, to its last bytes */
        rig_say(plane, client, i < 15 ? large : "PUB s.b 1\r\n1\r\n");
    }
    CHECK_EQ_U64(GROUP_WAITS, group_look(the_stream()->replicated->group, plane->now).state);
}

/* While the log is full an acknowledgement that asks for an answer waits, and so does a consumer that is made. */
static void consumers_wait_for_room(void) {
    char line[256], reply[128];
    journal_size = 1 << 20;
    begin();
    CHECK_EQ_I64(STATUS_OK, put_consumer(1));
    peer_t *client = asking();
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":1}");
    rig_feed(plane, client, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C r 0\r\n\r\n");
    CHECK_EQ_I64(1, sscanf(until_heard(client), "MSG s.a 1 %127s", reply));
    fill_log(client);
    snprintf(line, sizeof line, "PUB %s r 4\r\n+ACK\r\n", reply);
    rig_feed(plane, client, line);
    says(client, "");
    CHECK_EQ_U64(1, consumer_now(1).floor_stream);
    fill_log(client);
    CHECK_EQ_I64(STATUS_OK, put_consumer(2));
    CHECK_EQ_I64(STATUS_OK, status_of((plane_command_t){.op = COMMAND_CONSUMER_REMOVE, .target = 1, .arg = 2}));
    rig_close_and_remove(plane);
    journal_size = 0;
}

/* The consumers that the disk has, a slice after the other, each with its position where one is written. */
static void stored_consumers(void) {
    enum { CONSUMERS = 300 };
    char line[256], reply[128];
    begin();
    CHECK_EQ_I64(STATUS_OK, put_consumer(1));
    peer_t *client = asking();
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":1}");
    rig_feed(plane, client, "PUB $JS.API.CONSUMER.MSG.NEXT.S.C r 0\r\n\r\n");
    CHECK_EQ_I64(1, sscanf(until_heard(client), "MSG s.a 1 %127s", reply));
    snprintf(line, sizeof line, "PUB %s r 4\r\n+ACK\r\n", reply);
    rig_feed(plane, client, line);
    says(client, "");
    for (uint32_t id = 2; id <= CONSUMERS; id++) CHECK_EQ_I64(STATUS_OK, put_consumer(id));
    static const uint32_t streams[] = {1, 7};
    plane_event_t event = asked((plane_command_t){.op = COMMAND_CONSUMERS_COUNT}, streams, sizeof streams, NULL, 0);
    uint32_t counts[2], told = 0, known = 0, slices = 0;
    CHECK_EQ_U64(sizeof counts, event.payload_size);
    memcpy(counts, event.payload, sizeof counts);
    CHECK_EQ_U64(CONSUMERS, counts[0]);
    CHECK_EQ_U64(0, counts[1]);
    uint64_t after = 0;
    do {
        event = asked((plane_command_t){.op = COMMAND_CONSUMERS_STORED, .target = 1, .arg = after}, NULL, 0, NULL, 0);
        CHECK_EQ_I64(STATUS_OK, event.status);
        for (uint32_t at = 0; at < event.payload_size; slices += at == event.payload_size) {
            stored_consumer_t row;
            memcpy(&row, event.payload + at, sizeof row);
            CHECK_EQ_U64(++told, row.consumer);
            CHECK_TEXT("{}", (const char *)event.payload + at + sizeof row, row.size);
            known += row.known == 1 && row.floor_stream == 1 && row.delivered_consumer == 1;
            at += (uint32_t)(sizeof row + row.size);
        }
        after = event.arg;
    } while (after != 0);
    CHECK_EQ_U64(CONSUMERS, told);
    CHECK_EQ_U64(2, slices);
    CHECK_EQ_U64(1, known);
    CHECK_EQ_I64(STATUS_INVALID, status_of((plane_command_t){.op = COMMAND_CONSUMERS_COUNT}));
    rig_close_and_remove(plane);
}

static void taken_out(void) {
    begin();
    peer_t *client = asking();
    for (int i = 1; i <= 5; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "{\"stream\":\"S\",\"seq\":%d}", i);
        put_message(client, NULL, expected);
    }
    CHECK_EQ_I64(STATUS_OK, status_of((plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 2}));
    CHECK_EQ_I64(STATUS_NOT_FOUND, status_of((plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 2}));
    CHECK_EQ_U64(4, state().messages);
    static const char *const no_filter[] = {""};
    const plane_command_t purge = {.op = COMMAND_STREAM_PURGE, .target = 1, .arg2 = 1};
    plane_event_t event = asked(purge, NULL, 0, no_filter, 1);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK_EQ_U64(3, event.arg);
    CHECK_EQ_U64(1, state().messages);
    CHECK_EQ_U64(5, state().first_seq);
    rig_close_and_remove(plane);
}

/* What it has is there after a start, and its subjects are, when it leads. */
static void started_again(void) {
    begin();
    put_message(asking(), "Nats-Msg-Id: x", "{\"stream\":\"S\",\"seq\":1}");
    core_shutdown(plane);
    rig_close(plane);
    open_plane();
    CHECK_EQ_I64(STATUS_OK, put_stream(replicated(), true));
    CHECK_EQ_I64(STATUS_OK, open_meta());
    CHECK_EQ_U64(0, the_stream()->subject_count);
    CHECK_EQ_I64(STATUS_OK, join(GROUP, 0));
    until_led();
    peer_t *client = asking();
    put_message(client, "Nats-Msg-Id: x", "{\"stream\":\"S\",\"seq\":1,\"duplicate\": true}");
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":2}");
    rig_close_and_remove(plane);
}

static bool show_group(void *context, uint32_t group) {
    *(uint64_t *)context |= UINT64_C(1) << group;
    return true;
}

static uint64_t groups_there(void) {
    uint64_t found = 0;
    CHECK_EQ_I64(LIST_WHOLE, store_ledger_each(plane->js.stores[STORE_FILE], show_group, &found));
    return found;
}

static void removed(void) {
    begin();
    put_message(asking(), NULL, "{\"stream\":\"S\",\"seq\":1}");
    CHECK_EQ_U64(4, groups_there());
    CHECK_EQ_I64(STATUS_OK, status_of((plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1}));
    CHECK_EQ_U64(0, groups_there());
    CHECK(the_stream() == NULL);
    CHECK(plane->js.replicated == NULL);
    rig_close_and_remove(plane);
}

/* One of three: without the others it takes nothing, and nobody hears from it that it listens. */
static void no_majority(void) {
    rig_new_directory();
    open_plane();
    CHECK_EQ_I64(STATUS_OK, put_stream(replicated(), false));
    CHECK_EQ_I64(STATUS_OK, open_meta());
    CHECK_EQ_I64(STATUS_OK, join(GROUP, 3));
    peer_t *client = asking();
    for (int i = 0; i < 200; i++) {
        plane->now.mono_ns += 50 * NS_PER_MS;
        rig_turn(plane);
    }
    CHECK_EQ_U64(0, the_stream()->subject_count);
    CHECK_EQ_U64(3, look().members);
    rig_feed(plane, client, "PUB s.a r 1\r\n1\r\n");
    CHECK(strstr(until_heard(client), "NATS/1.0 503") != NULL);
    CHECK_EQ_I64(STATUS_AGAIN, got(1)); /* others may have more */
    static const char *const no_filter[] = {""};
    CHECK_EQ_I64(STATUS_AGAIN, status_of((plane_command_t){.op = COMMAND_MESSAGE_DELETE, .target = 1, .arg = 2}));
    const plane_command_t purge = {.op = COMMAND_STREAM_PURGE, .target = 1};
    CHECK_EQ_I64(STATUS_AGAIN, asked(purge, NULL, 0, no_filter, 1).status);
    CHECK_EQ_I64(STATUS_AGAIN, status_of((plane_command_t){.op = COMMAND_STREAM_GROUP_TRANSFER, .target = 1}));
    CHECK_EQ_U64(0, state().messages);
    rig_close_and_remove(plane);
}

static void refused(void) {
    rig_new_directory();
    open_plane();
    CHECK_EQ_I64(STATUS_OK, put_stream(rig_stream, false));
    CHECK_EQ_I64(STATUS_OK, open_meta());
    CHECK_EQ_I64(STATUS_INVALID, join(GROUP, 1)); /* a stream of this server alone */
    CHECK_EQ_I64(STATUS_INVALID, status_of((plane_command_t){.op = COMMAND_STREAM_GROUP_LOOK, .target = 1}));
    CHECK_EQ_I64(STATUS_OK, put_stream(replicated(), false));    /* from now on it is one of several .. */
    CHECK_EQ_I64(STATUS_INVALID, put_stream(rig_stream, false)); /* .. and stays so */
    CHECK_EQ_I64(STATUS_OK, join(GROUP, 1));
    rig_close_and_remove(plane);
}

/* Bytes are the reference's of a message in memory: subject, payload and 16. */
static void in_memory(void) {
    stream_config_t config = replicated();
    config.storage = 1;
    begin_with(config);
    peer_t *client = asking();
    put_message(client, NULL, "{\"stream\":\"S\",\"seq\":1}");
    const allowance_t *stored = the_stream()->account->stored;
    CHECK_EQ_U64(STORE_FILE, the_stream()->which_store);
    CHECK_EQ_U64(3 + 1 + 16, stored[STORE_MEMORY].bytes);
    CHECK_EQ_U64(0, stored[STORE_FILE].bytes);
    const allowed_t allowed = {.file = -1, .memory = 22};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_ALLOW, .token = 1}, &allowed, sizeof allowed, NULL, 0);
    plane_event_t event;
    for (int64_t until = 0; patient(&until) && !rig_event(plane, EVENT_ALLOWANCE, &event);) {
        rig_turn(plane);
    }
    CHECK_EQ_U64(STORE_MEMORY, event.target);
    CHECK_EQ_U64(20, event.arg);
    rig_close_and_remove(plane);
}

static void allow(uint64_t replicas, int64_t file, uint64_t elsewhere) {
    const allowed_t allowed = {.file = file, .memory = -1, .file_elsewhere = elsewhere};
    const plane_command_t command = {.op = COMMAND_ALLOW, .account = RIG_ACCOUNT, .arg = replicas};
    CHECK_EQ_I64(STATUS_OK, asked(command, &allowed, sizeof allowed, NULL, 0).status);
}

/* So many messages at once, of 34 bytes each; `fit` of them are taken, in front. */
static void publish_at_once(peer_t *client, unsigned count, uint64_t first, unsigned fit) {
    char heard[4096] = "", expected[64];
    for (unsigned i = 0; i < count; i++) rig_say(plane, client, "PUB s.a r 1\r\n1\r\n");
    unsigned answers = 0, refusals = 0;
    for (unsigned at = 0; answers + refusals < count;) {
        at += (unsigned)snprintf(heard + at, sizeof heard - at, "%s", until_heard(client));
        CHECK(at < sizeof heard);
        answers = refusals = 0;
        for (const char *found = heard; (found = strstr(found, "{\"stream\"")) != NULL; found++) answers++;
        for (const char *found = heard; (found = strstr(found, "\"err_code\":10002")) != NULL; found++) refusals++;
    }
    CHECK_EQ_U64(fit, answers);
    snprintf(expected, sizeof expected, "\"seq\":%u}", (unsigned)(first + fit - 1));
    CHECK(fit == 0 || strstr(heard, expected) != NULL);
}

/* 34 bytes for each of three copies. Who leads asks before the log has it, so what the account may not have is refused
 * and holds up nothing; what is under way counts as if it were stored. */
static void within_its_allowance(void) {
    stream_config_t config = replicated();
    config.replicas = 3;
    begin_with(config);
    peer_t *client = asking();
    allow(0, 3 * 102 + 101, 0);
    publish_at_once(client, 6, 1, 3);
    publish_at_once(client, 1, 4, 0);
    allow(0, 4 * 102, 0);
    publish_at_once(client, 2, 4, 1);
    allow(0, 10 * 102, 5 * 102); /* others have the half */
    publish_at_once(client, 4, 5, 1);
    static const char *const no_filter[] = {""};
    const plane_command_t purge = {.op = COMMAND_STREAM_PURGE, .target = 1};
    CHECK_EQ_I64(STATUS_OK, asked(purge, NULL, 0, no_filter, 1).status);
    publish_at_once(client, 6, 6, 5);
    const allowance_t *stored = the_stream()->account->stored;
    CHECK_EQ_U64(5 * 102, stored[STORE_FILE].bytes);
    CHECK_EQ_U64(0, stored[STORE_FILE].promised);
    rig_close_and_remove(plane);
}

/* What streams of three have counts against their tier alone, also what they had before there were tiers. */
static void within_its_tier(void) {
    stream_config_t config = replicated();
    config.replicas = 3;
    begin_with(config);
    peer_t *client = asking();
    publish_at_once(client, 1, 1, 1);
    for (uint64_t tier = 1; tier <= ALLOW_TIERS; tier++) allow(tier, tier == 3 ? 3 * 102 : 0, 0);
    publish_at_once(client, 3, 2, 2);
    const js_account_t *account = the_stream()->account;
    CHECK_EQ_U64(3 * 102, account->tiers[2][STORE_FILE].bytes);
    CHECK_EQ_U64(0, account->stored[STORE_FILE].bytes);
    plane_event_t event = {0};
    for (int64_t until = 0; event.code != ALLOWANCE_LEVEL_FULL && patient(&until);) {
        rig_turn(plane);
        rig_event(plane, EVENT_ALLOWANCE, &event);
    }
    CHECK_EQ_U64(3, event.token);
    CHECK_EQ_U64(3 * 102, event.arg);
    config.replicas = 1; /* and of one of its own */
    CHECK_EQ_I64(STATUS_OK, put_stream(config, false));
    CHECK_EQ_U64(3 * 34, account->tiers[0][STORE_FILE].bytes);
    CHECK_EQ_U64(0, account->tiers[2][STORE_FILE].bytes);
    allow(0, 4 * 34, 0);
    publish_at_once(client, 2, 4, 1);
    CHECK(store_sound(plane->js.stores[STORE_FILE]));
    CHECK_EQ_I64(STATUS_INVALID,
                 asked((plane_command_t){.op = COMMAND_ALLOW, .account = RIG_ACCOUNT, .arg = ALLOW_TIERS + 1},
                       &(allowed_t){0}, sizeof(allowed_t), NULL, 0)
                     .status);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("at rest it has no turn, until its age or a message gives it one", at_rest);
    RUN("a publish is answered when the log has it, as a stream of one server answers", published);
    RUN("hundreds in a turn are answered, each once and in order", many_in_a_turn);
    RUN("publishes wait for room in the log, in their order, and not too many of them", waits_for_room);
    RUN("acknowledgements and new consumers wait for room in the log", consumers_wait_for_room);
    RUN("the consumers that its disk has are told in slices, with what is written of their positions",
        stored_consumers);
    RUN("deletes and purges go by the log", taken_out);
    RUN("after a start it has what it had", started_again);
    RUN("its log goes with it", removed);
    RUN("without a majority it takes nothing", no_majority);
    RUN("one in memory is kept in files, and counts as what is in memory", in_memory);
    RUN("what its account may not have is refused before the log has it, each copy counted", within_its_allowance);
    RUN("where limits are by number of replicas it shares its own tier", within_its_tier);
    RUN("a stream of this server alone joins no group, and one of several stays one", refused);
    return TEST_RESULT();
}
