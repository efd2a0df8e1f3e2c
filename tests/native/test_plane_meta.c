/* test_plane_meta.c: the group of all servers in a plane (meta/meta.h): it is founded, keeps rows over a restart, and
 * believes nobody but the servers that routes and gateways lead to. Groups of several: test_groups.c; whole servers:
 * tests/interop/test_meta_group.py.
 */
#include "route_rig.h"

#include "disk/env.h"
#include "disk/keys.h"
#include "meta/meta.h"
#include "meta/meta_rows.h"
#include "raft/frame.h"
#include "store/ledger.h"
#include "text/hash8.h"

#define SYSTEM RIG_ACCOUNT
#define OWN UINT64_C(0x4141414141414141) /* AAAAAAAA */
#define OTHER UINT64_C(0x4242424242424242)
#define TOKEN 77u

static char directory[64];

static void open_plane(void) {
    plane_limits_t limits = rig_limits(directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META | CLUSTERED_GATEWAYS;
    plane = rig_open_with(directory, limits);
    rig_strings_t names = {.size = 0};
    rig_pack(&names, "C");
    rig_pack(&names, "S1");
    rig_run(plane, (plane_command_t){.op = COMMAND_GATEWAY}, &names);
    named_account(SYSTEM, 0, "A");
    named_account(OTHER_ACCOUNT, 0, "B");
    rig_admits_to = SYSTEM;
}

static plane_event_t asked(plane_command_t command, const rig_strings_t *strings) {
    plane_event_t event;
    command.token = TOKEN;
    rig_run(plane, command, strings);
    for (int i = 0; i < 2000; i++) {
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

static plane_event_t put(const char *key, const char *value, uint64_t revision) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, key);
    rig_pack(&strings, value);
    return asked((plane_command_t){.op = COMMAND_META_PUT, .arg = revision}, &strings);
}

static meta_look_t look(void) {
    meta_look_t found = {0};
    plane_event_t event = asked((plane_command_t){.op = COMMAND_META_LOOK}, NULL);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK(event.payload_size >= sizeof found);
    memcpy(&found, event.payload, sizeof found);
    CHECK_EQ_U64(sizeof found + found.members * sizeof(meta_member_t), event.payload_size);
    return found;
}

static uint64_t open_group(bool there) {
    plane_event_t event = asked((plane_command_t){.op = COMMAND_META_OPEN, .account = SYSTEM, .arg = OWN}, NULL);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK_EQ_U64(there, event.arg2);
    return event.arg;
}

static void until_led(void) {
    for (int i = 0; i < 2000; i++) {
        meta_look_t found = look();
        if (found.role == META_LEADER && found.leased != 0) return;
        plane->now.mono_ns += 50 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("nobody leads");
}

static void found_alone(void) {
    meta_disk_t own = {.peer = OWN, .disk = open_group(false)};
    CHECK_EQ_U64(0, look().name);
    CHECK_EQ_I64(STATUS_AGAIN, put("k", "v", 0).status);
    plane_command_t command = {
        .op = COMMAND_META_FOUND, .arg = 9, .body = (const uint8_t *)&own, .body_size = sizeof own};
    CHECK_EQ_I64(STATUS_OK, asked(command, NULL).status);
    CHECK_EQ_I64(STATUS_EXISTS, asked(command, NULL).status);
    until_led();
}

static void in_a_directory(void (*function)(void)) {
    directory_make(directory, sizeof directory);
    open_plane();
    function();
    rig_close(plane);
    directory_remove(directory);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void rows_are(uint64_t count) {
    plane_event_t event = asked((plane_command_t){.op = COMMAND_META_ROWS}, NULL);
    CHECK_EQ_I64(STATUS_OK, event.status);
    uint64_t found = 0;
    for (uint32_t at = 0; at < event.payload_size; found++) {
        at += 13 + event.payload[at] + load_be32(event.payload + at + 1);
    }
    CHECK_EQ_U64(count, found);
}

static void rows_are_compared_and_set(void) {
    found_alone();
    plane_event_t first = put("s/A/one", "1", 0);
    CHECK_EQ_I64(STATUS_OK, first.status);
    plane_event_t again = put("s/A/one", "2", 0);
    CHECK_EQ_I64(STATUS_EXISTS, again.status);
    CHECK_EQ_U64(first.arg, again.arg);
    CHECK_EQ_I64(STATUS_OK, put("s/A/one", "2", first.arg).status);
    CHECK_EQ_I64(STATUS_EXISTS, put("s/A/one", "3", first.arg).status);
    CHECK_EQ_I64(STATUS_OK, put("s/A/two", "", UINT64_MAX).status);
    CHECK_EQ_I64(STATUS_INVALID, put("", "", 0).status);
    rows_are(2);
    /* What it has is there after a start. */
    core_shutdown(plane);
    rig_close(plane);
    open_plane();
    CHECK(open_group(true) != 0);
    rows_are(2);
    until_led();
    CHECK_EQ_I64(STATUS_EXISTS, put("s/A/one", "4", first.arg).status);
}

static void rows_and_restart(void) {
    in_a_directory(rows_are_compared_and_set);
}

/* One entry of the log, whose page and key are sound. */
static void spoil_log(void) {
    char reason[PLANE_REASON_SIZE];
    store_key_t from;
    bytes_t key = BYTES_NONE, value = BYTES_NONE;
    env_t *env;
    key_ledger(&from, 1, 0);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(READ_FOUND, env_seek(env, DB_LEDGER, key_bytes(&from), &key, &value));
    key_ledger(&from, 1, load_be64(key.at + 5));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_LEDGER, key_bytes(&from), BYTES_LITERAL("spoiled, and long enough")));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static void until_it_leaves(void) {
    for (int i = 0; i < 2000; i++) {
        plane_event_t event;
        while (rig_event(plane, EVENT_ALARM, &event)) {
            if (event.code == ALARM_MEND) return;
        }
        plane->now.mono_ns += 10 * NS_PER_MS;
        usleep(500);
        rig_turn(plane);
    }
    FAIL("the disk keeps its id");
}

static void a_damaged_log_is_left(void) {
    found_alone();
    CHECK_EQ_I64(STATUS_OK, put("s/A/one", "1", 0).status);
    core_shutdown(plane);
    rig_close(plane);
    spoil_log();
    open_plane();
    plane_command_t command = {.op = COMMAND_META_OPEN, .account = SYSTEM, .arg = OWN};
    plane_event_t opened = asked(command, NULL);
    CHECK_EQ_I64(STATUS_OK, opened.status);
    CHECK_EQ_U64(2, opened.arg2);
    until_it_leaves();
    CHECK_EQ_I64(STATUS_FULL, asked((plane_command_t){.op = COMMAND_META_FOUND, .arg = 9}, NULL).status);
    core_shutdown(plane);
    rig_close(plane);
    open_plane();
    plane_event_t again = asked(command, NULL);
    CHECK_EQ_I64(STATUS_OK, again.status);
    CHECK_EQ_U64(2, again.arg2);
    CHECK(again.arg != opened.arg);
    CHECK_EQ_I64(STATUS_OK, asked((plane_command_t){.op = COMMAND_META_FOUND, .arg = 9}, NULL).status);
}

static void damaged(void) {
    in_a_directory(a_damaged_log_is_left);
}

/* ---- who is believed --------------------------------------------------------------------------------------------- */

static peer_t *route_of(uint64_t server) {
    peer_t *route = route_with(0, (route_terms_t){.flags = ROUTE_UNSUB_ORIGIN, .peer = server}, NULL);
    rig_feed(plane, route, "PONG\r\n");
    rig_heard(route);
    return route;
}

/* ---- a group in the place of another ----------------------------------------------------------------------------- */

static plane_event_t replace(uint64_t name, const meta_disk_t *own, uint64_t index) {
    plane_command_t command = {.op = COMMAND_META_FOUND, .arg = name, .arg2 = index};
    if (own != NULL) {
        command.body = (const uint8_t *)own;
        command.body_size = sizeof *own;
    }
    plane_event_t event = asked(command, NULL);
    for (int i = 0; i < 100 && (event.status == STATUS_AGAIN || event.status == STATUS_FULL); i++) {
        plane->now.mono_ns += 20 * NS_PER_MS;
        rig_turn(plane);
        event = asked(command, NULL);
    }
    return event;
}

static void restart(void) {
    core_shutdown(plane);
    rig_close(plane);
    open_plane();
    CHECK(open_group(true) != 0);
}

static void send_frame(peer_t *route, bytes_t frame) {
    uint8_t line[1200];
    int head = snprintf((char *)line, sizeof line, "RMSG A $LR.AAAAAAAA %u\r\n", frame.size);
    CHECK(head > 0 && (size_t)head + frame.size + 2 <= sizeof line);
    memcpy(line + head, frame.at, frame.size);
    memcpy(line + head + frame.size, "\r\n", 2);
    peer_act(plane, route, bytes_of(line, (uint32_t)head + frame.size + 2));
}

/* A group of two whose leader has sent two rows by that route. */
static meta_disk_t follow_other(peer_t **by) {
    uint8_t bytes[1024], heard_nothing[FRAME_HEAD];
    frame_writer_t writer;
    buffer_t entry;
    const meta_disk_t disks[2] = {{.peer = OWN, .disk = open_group(false)}, {.peer = OTHER, .disk = 5}};
    const plane_command_t two = {
        .op = COMMAND_META_FOUND, .arg = 9, .body = (const uint8_t *)disks, .body_size = sizeof disks};
    CHECK_EQ_I64(STATUS_OK, asked(two, NULL).status);
    const raft_disk_t own = {.peer = OWN, .disk = disks[0].disk}, other = {.peer = OTHER, .disk = 5};
    const raft_message_t message = {
        .subject = RAFT_ENTRIES, .from = other, .to = own, .term = 5, .entry_term = 5, .count = 2};
    frame_begin(&writer, heard_nothing, sizeof heard_nothing, other, own, -1);
    const bytes_t first = bytes_of(heard_nothing, frame_end(&writer));
    frame_begin(&writer, bytes, sizeof bytes, other, own, 0);
    CHECK(frame_put(&writer, 9, &message));
    buffer_init(&entry, UINT32_MAX);
    for (const char *key = "ab"; *key != 0; key++) {
        entry.size = 0;
        CHECK_EQ_I64(STATUS_OK, meta_entry(&entry, bytes_of((const uint8_t *)key, 1), BYTES_LITERAL("v"), 0, false));
        CHECK(frame_put_entry(&writer, RAFT_DATA, bytes_of(entry.at, (uint32_t)entry.size)));
    }
    buffer_free(&entry);
    *by = route_of(OTHER);
    send_frame(*by, first); /* it is not believed before it has said what it knows of this disk: group/marks.h */
    send_frame(*by, bytes_of(bytes, frame_end(&writer)));
    rig_turn(plane);
    return disks[0];
}

/* .. and died: nobody here knows whether they are committed. */
static meta_disk_t left_behind(void) {
    peer_t *route;
    const meta_disk_t own = follow_other(&route);
    restart();
    meta_look_t found = look();
    CHECK_EQ_U64(9, found.name);
    CHECK_EQ_U64(2, found.members);
    CHECK_EQ_U64(2, found.last);
    CHECK_EQ_U64(0, found.applied);
    rows_are(0);
    return own;
}

static void one_goes_on_alone(void) {
    const meta_disk_t own = left_behind();
    const uint64_t index = 3;
    CHECK_EQ_I64(STATUS_INVALID, replace(0, &own, index).status);
    CHECK_EQ_I64(STATUS_INVALID, replace(10, &own, UINT64_MAX).status);
    CHECK_EQ_I64(STATUS_OK, replace(10, &own, index).status);
    CHECK_EQ_I64(STATUS_OK, replace(10, &own, index).status); /* as who did not hear the answer asks again */
    until_led();
    CHECK_EQ_U64(10, look().name);
    CHECK_EQ_U64(1, look().members);
    CHECK_EQ_U64(index, look().floor);
    rows_are(2);
    plane_event_t third = put("c", "3", 0);
    CHECK_EQ_I64(STATUS_OK, third.status);
    CHECK(third.arg > index); /* revisions go on, so who has seen an old one takes the new one */
    restart();
    until_led();
    CHECK_EQ_U64(10, look().name);
    rows_are(3);
    CHECK_EQ_I64(STATUS_OK, put("c", "4", third.arg).status);
}

static void alone(void) {
    in_a_directory(one_goes_on_alone);
}

static void one_waits_for_another_group(void) {
    (void)left_behind();
    CHECK_EQ_I64(STATUS_OK, replace(10, NULL, 1).status);
    CHECK_EQ_U64(10, look().name);
    CHECK_EQ_U64(0, look().members);
    CHECK_EQ_I64(STATUS_AGAIN, put("c", "3", 0).status);
    restart();
    CHECK_EQ_U64(10, look().name);
    CHECK_EQ_U64(0, look().members);
    CHECK_EQ_U64(0, look().leader);
}

static void waits(void) {
    in_a_directory(one_waits_for_another_group);
}

/* ---- a leader whose links end -------------------------------------------------------------------------------- */

static bool second_link, asked_soon;

static void a_link_to_the_leader_ends(void) {
    peer_t *route;
    (void)follow_other(&route);
    if (second_link) (void)route_of(OTHER);
    CHECK_EQ_U64(OTHER, look().leader);
    rig_run(plane, (plane_command_t){.op = COMMAND_CLOSE, .target = route->id}, NULL);
    rig_turn(plane);
    for (int64_t passed_ms = 20; passed_ms <= 1900; passed_ms += 20) {
        plane->now.mono_ns += 20 * NS_PER_MS;
        rig_turn(plane);
        asked_soon = look().role != RAFT_FOLLOWER;
        CHECK(!asked_soon || passed_ms >= 1480); /* its promise */
        if (asked_soon) return;
    }
}

static void lost_leaders(void) {
    uint32_t soon[2] = {0};
    for (uint32_t round = 0; round < 24; round++) {
        second_link = round % 2 != 0;
        in_a_directory(a_link_to_the_leader_ends);
        soon[second_link] += asked_soon;
    }
    CHECK_EQ_U64(12, soon[0]);
    CHECK(soon[1] < 12); /* one that is there speaks for it still: 1.5 to 3 s, as ever */
}

/* ---- others' frames ---------------------------------------------------------------------------------------------- */

static void say_frame(peer_t *peer, const char *account, raft_disk_t from, raft_disk_t to) {
    uint8_t bytes[FRAME_HEAD + FRAME_MESSAGE_HEAD];
    char head[64];
    frame_writer_t writer;
    const raft_message_t message = {.subject = RAFT_VOTE, .term = 1u << 20, .index = 1u << 20, .log_term = 1u << 20};
    frame_begin(&writer, bytes, sizeof bytes, from, to, 0);
    CHECK(frame_put(&writer, 9, &message));
    uint32_t size = frame_end(&writer);
    int head_size = snprintf(head, sizeof head, "RMSG %s $LR.AAAAAAAA %u\r\n", account, size);
    uint8_t line[512];
    memcpy(line, head, (size_t)head_size);
    memcpy(line + head_size, bytes, size);
    memcpy(line + head_size + size, "\r\n", 2);
    peer_act(plane, peer, bytes_of(line, (uint32_t)head_size + size + 2));
    rig_turn(plane);
}

static void only_servers_are_believed(void) {
    found_alone();
    uint64_t disk = 0;
    CHECK(store_ledger_disk(plane->js.stores[STORE_FILE], &disk));
    const raft_disk_t own = {.peer = OWN, .disk = disk};
    const raft_disk_t other = {.peer = OTHER, .disk = 5};
    peer_t *route = route_of(OTHER), *nameless = route_of(0);
    peer_t *listener = client_of(SYSTEM);
    rig_feed(plane, listener, "SUB > 1\r\nSUB $LR.> 2\r\n");
    rig_heard(listener);
    rig_heard(route);
    meta_look_t before = look();
    say_frame(route, "A", other, own);
    CHECK_EQ_U64(before.frames_in + 1, look().frames_in);
    say_frame(nameless, "A", other, own); /* a server that no group knows */
    say_frame(route, "B", other, own);    /* of another account */
    CHECK_EQ_U64(before.frames_in + 1, look().frames_in);
    CHECK_EQ_U64(before.bad, look().bad);
    say_frame(route, "A", own, own); /* in another's name */
    CHECK_EQ_U64(before.bad + 1, look().bad);
    CHECK_EQ_U64(META_LEADER, look().role);
    RIG_HEARD("", listener);
    /* Nobody's message gets there over a route, whoever asks for it. */
    rig_feed(plane, route, "RS+ A >\r\nRS+ A $LR.AAAAAAAA\r\n");
    peer_t *client = client_of(SYSTEM), *leaf = leaf_of(0, "one");
    rig_heard(route);
    rig_feed(plane, client, "PUB $LR.BBBBBBBB 4\r\nLRF1\r\nPUB x 1\r\n1\r\n");
    RIG_HEARD("RMSG A x 1\r\n1\r\n", route);
    rig_feed(plane, leaf, "LMSG $LR.BBBBBBBB 4\r\nLRF1\r\nLMSG y 1\r\n1\r\n");
    RIG_HEARD("LMSG one A y 0 1\r\n1\r\n", route);
}

static void believed(void) {
    in_a_directory(only_servers_are_believed);
}

static peer_t *gateway_of(uint64_t server, uint32_t flags) {
    peer_t *peer = rig_peer(plane, CONN_GATEWAY, "test:7222");
    rig_say(plane, peer, "CONNECT {}\r\n");
    const gateway_terms_t terms = {.flags = flags | GATEWAY_HEADERS, .peer = server};
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "D");
    plane_command_t command = {
        .op = COMMAND_ADMIT_GATEWAY, .target = peer->id, .body = (const uint8_t *)&terms, .body_size = sizeof terms};
    rig_run(plane, command, &strings);
    CHECK(peer->state == PEER_ADMITTED);
    rig_turn(plane);
    rig_feed(plane, peer, "PONG\r\n");
    rig_heard(peer);
    return peer;
}

/* A server of another cluster has two gateways with this one: what it says comes by one, what it hears goes by the
 * other. */
static void gateways_carry_what_servers_say(void) {
    plane_event_t event;
    found_alone();
    peer_t *in = gateway_of(OTHER, 0), *out = gateway_of(OTHER, GATEWAY_OUTBOUND);
    rig_feed(plane, in, "RMSG A $LR.AAAAAAAA 5\r\nLRB1x\r\nRMSG B $LR.AAAAAAAA 5\r\nLRB1z\r\n");
    CHECK(rig_event(plane, EVENT_LETTER, &event));
    CHECK_EQ_U64(OTHER, event.arg);
    CHECK_TEXT("LRB1x", event.payload, event.payload_size);
    CHECK(!rig_event(plane, EVENT_LETTER, &event));
    plane_command_t command = {.op = COMMAND_META_SEND, .arg = OTHER, .body = (const uint8_t *)"LRB1y", .body_size = 5};
    CHECK_EQ_U64(1, asked(command, NULL).arg);
    RIG_HEARD("RMSG A $LR.BBBBBBBB 5\r\nLRB1y\r\n", out);
    /* Nobody's message gets there, whoever asks for it. */
    rig_feed(plane, out, "RS+ A >\r\nRS+ A $LR.BBBBBBBB\r\n");
    rig_heard(out);
    peer_t *client = client_of(SYSTEM);
    rig_feed(plane, client, "PUB $LR.BBBBBBBB 4\r\nLRF1\r\nPUB x 1\r\n1\r\n");
    RIG_HEARD("RMSG A x 1\r\n1\r\n", out);
}

static void over_gateways(void) {
    in_a_directory(gateways_carry_what_servers_say);
}

static void letters_reach_control_and_the_other_server(void) {
    plane_event_t event;
    found_alone();
    peer_t *route = route_of(OTHER);
    rig_feed(plane, route, "RMSG A $LR.AAAAAAAA 5\r\nLRB1x\r\n");
    CHECK(rig_event(plane, EVENT_LETTER, &event));
    CHECK_EQ_U64(OTHER, event.arg);
    CHECK_TEXT("LRB1x", event.payload, event.payload_size);
    plane_command_t command = {.op = COMMAND_META_SEND, .arg = OTHER, .body = (const uint8_t *)"LRB1y", .body_size = 5};
    CHECK_EQ_U64(1, asked(command, NULL).arg);
    RIG_HEARD("RMSG A $LR.BBBBBBBB 5\r\nLRB1y\r\n", route);
    command.arg = OTHER + 1;
    CHECK_EQ_U64(0, asked(command, NULL).arg);
    static uint8_t large[(1 << 17) + 1];
    command.body = large;
    command.body_size = sizeof large;
    command.arg = OTHER;
    CHECK_EQ_U64(0, asked(command, NULL).arg);
}

static void letters(void) {
    in_a_directory(letters_reach_control_and_the_other_server);
}

/* ---- handed on --------------------------------------------------------------------------------------------------- */

#define FAR UINT64_C(0x4545454545454545)     /* EEEEEEEE, of cluster D as DDDDDDDD is */
#define FARTHER UINT64_C(0x4646464646464646) /* FFFFFFFF, of another one */
#define NEAR UINT64_C(0x4444444444444444)

static uint64_t cluster_named(const char *name) {
    uint8_t hash[HASH8_SIZE];
    hash8(bytes_of((const uint8_t *)name, (uint32_t)strlen(name)), hash);
    return load_be64(hash);
}

static void set_ways(void) {
    const meta_way_t ways[] = {{.peer = NEAR, .cluster = cluster_named("D")},
                               {.peer = FAR, .cluster = cluster_named("D")},
                               {.peer = FARTHER, .cluster = cluster_named("X"), .mate = OTHER}};
    plane_command_t command = {.op = COMMAND_META_WAYS, .body = (const uint8_t *)ways, .body_size = sizeof ways};
    CHECK_EQ_I64(STATUS_OK, asked(command, NULL).status);
    static meta_way_t many[257];
    command.body = (const uint8_t *)many;
    command.body_size = sizeof many;
    CHECK_EQ_I64(STATUS_FULL, asked(command, NULL).status);
}

static uint64_t sends(uint64_t server) {
    plane_command_t command = {
        .op = COMMAND_META_SEND, .arg = server, .body = (const uint8_t *)"hello", .body_size = 5};
    return asked(command, NULL).arg;
}

static void no_letter(void) {
    plane_event_t event;
    CHECK(!rig_event(plane, EVENT_LETTER, &event));
}

static void letter_from(uint64_t server) {
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_LETTER, &event));
    CHECK_EQ_U64(server, event.arg);
    CHECK_TEXT("hello", event.payload, event.payload_size);
    no_letter();
}

static void letters_are_handed_on(void) {
    found_alone();
    CHECK_EQ_U64(0, sends(FAR));
    set_ways();
    CHECK_EQ_U64(0, sends(FAR));
    peer_t *in = gateway_of(NEAR, 0), *out = gateway_of(NEAR, GATEWAY_OUTBOUND);
    peer_t *route = route_of(OTHER), *stranger = route_of(0);
    /* Its own: by a gateway into the cluster, or by the server that has one. */
    CHECK_EQ_U64(1, sends(FAR));
    RIG_HEARD("RMSG A $LR.EEEEEEEE 5\r\nhello\r\n", out);
    CHECK_EQ_U64(1, sends(FARTHER));
    RIG_HEARD("RMSG A $LR.FFFFFFFF 5\r\nhello\r\n", route);
    /* A route's: over a gateway, with the name of who sent it, once. */
    rig_feed(plane, route, "RMSG A $LR.EEEEEEEE 5\r\nhello\r\nRMSG A $LR.DDDDDDDD 5\r\nhello\r\n");
    RIG_HEARD("RMSG A $LR.EEEEEEEE.BBBBBBBB 5\r\nhello\r\nRMSG A $LR.DDDDDDDD.BBBBBBBB 5\r\nhello\r\n", out);
    rig_feed(plane, route, "RMSG A $LR.EEEEEEEE.FFFFFFFF 5\r\nhello\r\nRMSG A $LR.FFFFFFFF 5\r\nhello\r\n");
    rig_feed(plane, stranger, "RMSG A $LR.EEEEEEEE 5\r\nhello\r\nRMSG A $LR.AAAAAAAA 5\r\nhello\r\n");
    rig_feed(plane, route, "RMSG B $LR.EEEEEEEE 5\r\nhello\r\nRMSG A $LR.EEEEEEE 5\r\nhello\r\n");
    RIG_HEARD("", out);
    RIG_HEARD("", route);
    no_letter();
    /* A gateway's: over a route, to its addressee alone, of servers of its cluster alone. */
    rig_feed(plane, in, "RMSG A $LR.BBBBBBBB 5\r\nhello\r\nRMSG A $LR.BBBBBBBB.EEEEEEEE 5\r\nhello\r\n");
    RIG_HEARD("RMSG A $LR.BBBBBBBB.DDDDDDDD 5\r\nhello\r\nRMSG A $LR.BBBBBBBB.EEEEEEEE 5\r\nhello\r\n", route);
    rig_feed(plane, in, "RMSG A $LR.BBBBBBBB.FFFFFFFF 5\r\nhello\r\nRMSG A $LR.BBBBBBBB.BBBBBBBB 5\r\nhello\r\n");
    rig_feed(plane, in, "RMSG A $LR.FFFFFFFF 5\r\nhello\r\nRMSG A $LR.EEEEEEEE 5\r\nhello\r\n");
    RIG_HEARD("", route);
    RIG_HEARD("", out);
    /* For this server: of whom the link may speak for, and nobody else. */
    rig_feed(plane, route, "RMSG A $LR.AAAAAAAA.FFFFFFFF 5\r\nhello\r\n");
    letter_from(FARTHER);
    rig_feed(plane, in, "RMSG A $LR.AAAAAAAA.EEEEEEEE 5\r\nhello\r\n");
    letter_from(FAR);
    rig_feed(plane, in, "RMSG A $LR.AAAAAAAA.FFFFFFFF 5\r\nhello\r\nRMSG A $LR.AAAAAAAA.BBBBBBBB 5\r\nhello\r\n");
    rig_feed(plane, route, "RMSG A $LR.AAAAAAAA.AAAAAAAA 5\r\nhello\r\nRMSG A $LR.AAAAAAAA.CCCCCCCC 5\r\nhello\r\n");
    rig_feed(plane, route, "RMSG A $LR.AAAAAAAA.EEEEEEE 5\r\nhello\r\nRMSG A $LR.AAAAAAAAxEEEEEEEE 5\r\nhello\r\n");
    no_letter();
}

static void handed_on(void) {
    in_a_directory(letters_are_handed_on);
}

int main(void) {
    RUN("rows are written when they have the revision that is named, and are there after a start", rows_and_restart);
    RUN("a disk whose log is damaged becomes another one, which waits for its leader", damaged);
    RUN("a disk that is left behind goes on alone, with all that its log has", alone);
    RUN("a group that is in the place of another begins empty, and waits for its leader", waits);
    RUN("a member asks for votes as soon as it may when the last link to its leader ends", lost_leaders);
    RUN("frames are believed of servers that routes lead to, and nobody else's message gets there", believed);
    RUN("gateways carry frames and letters, and nobody else's message gets there", over_gateways);
    RUN("letters are handed on between clusters, of servers that a link may speak for", handed_on);
    RUN("letters reach control with the server that sent them", letters);
    return TEST_RESULT();
}
