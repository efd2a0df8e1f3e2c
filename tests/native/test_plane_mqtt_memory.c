/* test_plane_mqtt_memory.c: out of memory, at every place, while clients of MQTT publish: in the n-th run the n-th
 * allocation of the plane's thread fails, or some in a row. Whatever is refused for it, a message that is acknowledged
 * was kept: by a stream of another server, by one here for which another server asked, or for a session that is away.
 * When memory is there again, all goes on. What has no MQTT: test_plane_memory.c.
 */
#include "failing_allocator.h"
#include "mqtt_rig.h"
#include "stream_rig.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"

/* Behind the headers: they have names that theirs would hide. */
#include "gateway_rig.h"

#include "mqtt_lasting_rig.h"

#define IDS 8u
#define PLACE_BYTES 100u
#define PLACE "$MQTT.F.0000000000000001.0000000000000002.m7"
#define KEPT "{\"stream\":\"S\",\"seq\":1}"

static bool acknowledged[IDS]; /* by identifier: with success, as it was last looked */

static void open_server(const char *directory) {
    plane_limits_t limits = rig_limits(directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(directory, limits);
    named_account(RIG_ACCOUNT, directory != NULL ? ACCOUNT_JETSTREAM : 0, "A");
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    rig_admits_to = RIG_ACCOUNT;
    memset(acknowledged, 0, sizeof acknowledged);
}

/* One that has been closed says nothing; one whose input finds no memory is closed. */
static void says(uint64_t id, const void *at, size_t size) {
    peer_t *peer = peer_find(plane, id);
    if (peer == NULL) {
        return;
    }
    if (buffer_append(&peer->conn.rest, at, size) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
    } else {
        peer_act(plane, peer, conn_rest(&peer->conn));
    }
    for (uint32_t i = 0; i < 4; i++) {
        rig_turn(plane);
        core_backlog(plane);
    }
    rig_turn(plane);
}

static void server_says(uint64_t id, const char *text) {
    says(id, text, strlen(text));
}

static void client_says(uint64_t id, const char *text) {
    mqtt_rig_bytes_t bytes = mqtt_bytes(text);
    says(id, bytes.at, bytes.size);
}

/* Which identifiers are acknowledged, by what a client has heard since. */
static void look_at_answers(uint64_t id) {
    peer_t *peer = peer_find(plane, id);
    size_t size = peer == NULL ? 0 : rig_take_queue(&peer->conn.out);
    for (size_t at = 0; at + 4 <= size; at += 2u + (uint8_t)rig_out[at + 1]) {
        const uint8_t *packet = (const uint8_t *)rig_out + at;
        if (packet[0] == 0x40 && (packet[1] == 2 || packet[4] < 0x80)) {
            CHECK(packet[2] == 0 && packet[3] < IDS);
            acknowledged[packet[3]] = true;
        }
    }
}

static void fail(uint64_t from, uint64_t times) {
    failing_allocations((failing_allocations_t){.from = from, .times = times});
}

/* ---- a stream of another server ---------------------------------------------------------------------------------- */

static uint64_t other_server(void) {
    uint64_t route = route_of("S2")->id;
    server_says(route, "RS+ A s.>\r\n");
    (void)rig_heard(peer_find(plane, route));
    return route;
}

/* Where the answer is wanted, as the other server has heard; false: it was not told. */
static bool told_where(uint64_t route, char at[PLACE_BYTES]) {
    peer_t *peer = peer_find(plane, route);
    const char *from = peer == NULL ? NULL : strstr(rig_heard(peer), "RMSG A $MQTT.N.");
    from = from == NULL ? NULL : strstr(from, " $MQTT.F.");
    const char *to = from == NULL ? NULL : strchr(from + 1, ' ');
    if (to == NULL) {
        return false;
    }
    CHECK(to - from < (long)PLACE_BYTES);
    memcpy(at, from + 1, (size_t)(to - from - 1));
    at[to - from - 1] = 0;
    return true;
}

static bool answers(uint64_t route) {
    char at[PLACE_BYTES], line[300];
    if (!told_where(route, at)) {
        return false;
    }
    snprintf(line, sizeof line, "RMSG A %s %zu\r\n%s\r\n", at, strlen(KEPT), KEPT);
    server_says(route, line);
    return true;
}

static uint64_t publish_far(uint64_t n, uint64_t times) {
    rig_strings_t strings = {.size = 0};
    open_server(NULL);
    for (const char *const *text = (const char *const[]){"A", "S", "s.>", NULL}; *text != NULL; text++) {
        rig_pack(&strings, *text);
    }
    rig_run(plane, (plane_command_t){.op = COMMAND_PLACED, .arg = PLACED_STREAM}, &strings);
    uint64_t client = mqtt_client_5(plane)->id, route = other_server();
    fail(n, times);
    client_says(client, "32 09 0003's/a' 0001 00 'x'");
    look_at_answers(client);
    CHECK(!acknowledged[1]); /* nobody has said so */
    bool kept = answers(route);
    look_at_answers(client);
    CHECK(kept || !acknowledged[1]);
    client_says(client, "32 09 0003's/a' 0002 00 'x'");
    look_at_answers(client);
    CHECK(!acknowledged[2]);
    uint64_t count = failing_allocations_count();
    fail(0, 0);
    CHECK(n != 0 || acknowledged[1]);
    uint64_t again = mqtt_client_3(plane)->id;
    route = peer_find(plane, route) == NULL ? other_server() : route;
    char passed[PLACE_BYTES];
    (void)told_where(route, passed);
    client_says(again, "32 08 0003's/a' 0003 'x'");
    CHECK(answers(route));
    look_at_answers(again);
    CHECK(acknowledged[3]);
    rig_close(plane);
    return count;
}

/* ---- a stream here ----------------------------------------------------------------------------------------------- */

static uint64_t stored(void) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, 1)->store, &state);
    return state.last_seq;
}

static uint64_t asking_server(void) {
    uint64_t route = route_of("S2")->id;
    server_says(route, "RS+ A $MQTT.F.>\r\n");
    (void)rig_heard(peer_find(plane, route));
    return route;
}

/* How often the other server was answered. */
static uint32_t answered(uint64_t route) {
    uint32_t count = 0;
    peer_t *peer = peer_find(plane, route);
    for (const char *at = peer == NULL ? "" : rig_heard(peer); (at = strstr(at, "RMSG A " PLACE " ")) != NULL; at++) {
        count += strncmp(strstr(at, "\r\n") + 2, "{\"error\"", 8) != 0;
    }
    return count;
}

static void asks(uint64_t route) {
    server_says(route, "RMSG A $MQTT.N.7 " PLACE " 0\r\n\r\nHMSG A s.a 26 27\r\nNATS/1.0\r\nNmqtt-Kept:7\r\n\r\nx\r\n");
}

static uint64_t keep_for_another(uint64_t n, uint64_t times) {
    open_server(rig_new_directory());
    rig_put_stream(plane, rig_stream);
    rig_settle(plane);
    uint64_t route = asking_server();
    fail(n, times);
    asks(route);
    uint64_t count = failing_allocations_count();
    fail(0, 0);
    rig_settle(plane);
    uint32_t said = answered(route);
    uint64_t before = stored();
    CHECK(said <= before && before <= 1);
    CHECK(n != 0 || said == 1);
    route = peer_find(plane, route) == NULL ? asking_server() : route;
    asks(route);
    rig_settle(plane);
    CHECK_EQ_U64(before + 1, stored());
    CHECK_EQ_U64(1, answered(route));
    rig_close_and_remove(plane);
    return count;
}

/* ---- a session here ---------------------------------------------------------------------------------------------- */

static uint64_t session_comes(void) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    uint64_t id = peer->id;
    mqtt_say(plane, peer, "10 0d 0004'MQTT' 04 00 0000 0001's'");
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    CHECK(peer_find(plane, id) != NULL && peer->session->admitted);
    return id;
}

/* The payloads that the session gets, each of one byte that is its identifier. */
static void look_at_messages(uint64_t id, bool got[IDS]) {
    peer_t *peer = peer_find(plane, id);
    size_t size = peer == NULL ? 0 : rig_take_queue(&peer->conn.out);
    for (size_t at = 0; at + 2 <= size; at += 2u + (uint8_t)rig_out[at + 1]) {
        uint8_t last = (uint8_t)rig_out[at + 1u + (uint8_t)rig_out[at + 1]];
        if ((rig_out[at] & 0xf0) == 0x30) {
            CHECK(last < IDS);
            got[last] = true;
        }
    }
}

static uint64_t publish_for_a_session(uint64_t n, uint64_t times) {
    bool got[IDS] = {false};
    open_server(rig_new_directory());
    begin(0);
    uint64_t session = session_comes();
    mqtt_feed(plane, peer_find(plane, session), "82 08 0001 0003'w/#' 01");
    settle();
    uint64_t publisher = mqtt_client_3(plane)->id;
    fail(n, times);
    client_says(publisher, "32 08 0003'w/a' 0001 01");
    peer_t *peer = peer_find(plane, session);
    if (peer != NULL) peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    rig_turn(plane);
    client_says(publisher, "32 08 0003'w/a' 0002 02 32 08 0003'w/b' 0003 03");
    uint64_t count = failing_allocations_count();
    fail(0, 0);
    settle();
    look_at_answers(publisher);
    CHECK(n != 0 || (acknowledged[1] && acknowledged[2] && acknowledged[3]));
    session = session_comes();
    pass(1); /* a delivery that found no memory is tried again soon */
    look_at_messages(session, got);
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK(got[i] || !acknowledged[i]);
    }
    rig_close_and_remove(plane);
    return count;
}

/* ---- at each place ----------------------------------------------------------------------------------------------- */

static uint64_t (*work)(uint64_t n, uint64_t times);

static void at_each_place(void) {
    uint64_t most = work(0, 0);
    CHECK(most > 3);
    for (uint64_t n = 1; n <= most + 1; n++) {
        (void)work(n, 1);
        (void)work(n, 5);
    }
    printf("        %llu allocations\n", (unsigned long long)most);
}

#define RUN_WORK(text, function)                                                                                       \
    do {                                                                                                               \
        work = function;                                                                                               \
        RUN(text, at_each_place);                                                                                      \
    } while (0)

int main(void) {
    RUN_WORK("a message is acknowledged when another server has kept it, and not for want of memory", publish_far);
    RUN_WORK("another server is answered at most once, and only for what is stored", keep_for_another);
    RUN_WORK("what was acknowledged is there for a session that was away", publish_for_a_session);
    return TEST_RESULT();
}
