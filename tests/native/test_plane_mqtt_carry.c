/* test_plane_mqtt_carry.c: devices whose session another server of the cluster has, at either end of that: the other
 * server is played over a route, also as one that lies. Whole servers: tests/interop/test_mqtt_any_server.py.
 */
#include "carry_rig.h"

/* ---- the server with the session --------------------------------------------------------------------------------- */

static void served_as_any_client(void) {
    begin_home();
    peer_t *route = other_server();
    uint64_t connections = plane->stats.connections, here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    CHECK_EQ_U64(connections, plane->stats.connections); /* it is counted where it is */
    bytes_come(route, 'S', here, DEVICE, "82 08 0001 0003'a/b' 01");
    CHECK_TOLD("90 03 0001 01", frames_heard(route, "W"));
    bytes_come(route, 'S', here, DEVICE, "32 08 0003'a/b' 0002 'x'");
    CHECK_TOLD("40 02 0002 32 08 0003'a/b' 0002 'x'", frames_heard(route, "W"));
    bytes_come(route, 'S', here, DEVICE, "40 02 00");
    bytes_come(route, 'S', here, DEVICE, "02 c0 00"); /* in pieces */
    CHECK_TOLD("d0 00", frames_heard(route, "W"));
    bytes_come(route, 'E', here, DEVICE, "0000 0001");
    (void)frames_heard(route, "E");
    CHECK(peer_find(plane, here) == NULL);
    peer_t *publisher = mqtt_client_3(plane);
    mqtt_feed(plane, publisher, "32 08 0003'a/b' 0001 'y'");
    settle();
    MQTT_HEARD("40 02 0001", publisher);
    uint8_t text[2000];
    uint32_t size = opening(text, "A", PERSISTENT("p"), NULL);
    frame_comes(route, 'O', 0, DEVICE + 1, text, size);
    CHECK_TOLD("20 02 01 00 32 08 0003'a/b' 0003 'y'", frames_heard(route, "TW"));
    rig_close_and_remove(plane);
}

static void judged_by_the_rights_that_it_was_given(void) {
    begin_home();
    peer_t *route = other_server(), *ear = mqtt_client_3(plane);
    mqtt_feed(plane, ear, "82 06 0001 0001'#' 00");
    MQTT_HEARD("90 03 0001 00", ear);
    uint8_t text[2000];
    uint32_t size = opening(text, "A", PERSISTENT("p"), "up.>");
    frame_comes(route, 'O', 0, DEVICE, text, size);
    uint64_t here = frames_heard(route, "TW").from;
    bytes_come(route, 'S', here, DEVICE, "30 05 0001's' 'no' 30 08 0004'up/a' 'ya'");
    MQTT_HEARD("30 08 0004'up/a' 'ya'", ear);
    rig_close_and_remove(plane);
}

/* What another route says of the connection, or one that names another device, is nobody's word. */
static void no_server_speaks_for_another_ones_devices(void) {
    begin_home();
    peer_t *route = other_server(), *liar = other_server();
    uint64_t here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    bytes_come(liar, 'S', here, DEVICE, "c0 00");
    bytes_come(liar, 'E', here, DEVICE, "0000 0001");
    bytes_come(route, 'S', here, DEVICE + 1, "c0 00");
    bytes_come(route, 'E', here, DEVICE + 1, "0000 0001");
    (void)frames_heard(route, "");
    (void)frames_heard(liar, "");
    peer_t *client = mqtt_client_3(plane); /* nor is it of a client here */
    bytes_come(liar, 'E', client->id, DEVICE, "0000 0001");
    bytes_come(liar, 'W', client->id, 0, "c0 00");
    MQTT_HEARD("", client);
    CHECK(peer_find(plane, here) != NULL && client->state == PEER_ADMITTED);
    rig_close_and_remove(plane);
}

static void ended_with_its_route_and_its_will_is_published(void) {
    begin_home();
    peer_t *route = other_server(), *ear = mqtt_client_3(plane);
    mqtt_feed(plane, ear, "82 06 0001 0001'#' 00");
    MQTT_HEARD("90 03 0001 00", ear);
    uint64_t here = device_comes(route, DEVICE, "10 13 0004'MQTT' 04 04 003c 0001'p' 0001'w' 0001'!'", "20 02 00 00");
    peer_doom_silently(plane, route, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    settle();
    CHECK(peer_find(plane, here) == NULL);
    MQTT_HEARD("30 04 0001'w' '!'", ear);
    rig_close_and_remove(plane);
}

static void said_again_makes_no_second_one(void) {
    begin_home();
    peer_t *route = other_server();
    uint8_t text[2000];
    uint32_t size = opening(text, "A", PERSISTENT("p"), NULL);
    frame_comes(route, 'R', 0, DEVICE, text, size);
    uint64_t here = frames_heard(route, "TW").from;
    frame_comes(route, 'R', 0, DEVICE, text, size);
    (void)frames_heard(route, "");
    CHECK(peer_find(plane, here) != NULL);
    rig_close_and_remove(plane);
}

static void what_is_no_login_changes_nothing(void) {
    begin_home();
    peer_t *route = other_server();
    uint8_t text[2000];
    uint32_t size = opening(text, "A", PERSISTENT("p"), NULL);
    for (uint32_t i = 0; i < size; i++) frame_comes(route, 'O', 0, DEVICE, text, i);
    size = opening(text, "B", PERSISTENT("p"), NULL); /* no such account */
    frame_comes(route, 'O', 0, DEVICE, text, size);
    size = opening(text, "A", "30 05 0001'a' 'xx'", NULL);
    frame_comes(route, 'O', 0, DEVICE, text, size);
    (void)frames_heard(route, "");
    peer_t *client = rig_client(plane); /* nor can a client write such a letter */
    (void)frames_heard(route, "");
    rig_feed(plane, client, "PUB $LC.C 17\r\nS0000000011111111\r\n");
    (void)frames_heard(route, "");
    rig_close_and_remove(plane);
}

/* Its own server hears that it may say more when much of that has been acted on. */
static void told_how_much_was_acted_on(void) {
    begin_home();
    peer_t *route = other_server();
    uint64_t here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    uint8_t many[8000];
    for (uint32_t i = 0; i < sizeof many; i += 8)
        memcpy(many + i,
               "\x30\x06\x00\x01"
               "axyz",
               8);
    for (uint32_t i = 0; i < 4; i++) frame_comes(route, 'S', here, DEVICE, many, sizeof many);
    (void)frames_heard(route, "");
    frame_comes(route, 'S', here, DEVICE, many, sizeof many);
    heard_t got = frames_heard(route, "G");
    CHECK_EQ_U64(4, got.size);
    CHECK_EQ_U64(5 * sizeof many, load_be32(got.at));
    rig_close_and_remove(plane);
}

/* ---- the server with the connection ------------------------------------------------------------------------------ */

static peer_t *device_waits(const char *connect) {
    peer_t *device = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    mqtt_say(plane, device, connect);
    mqtt_admit(plane, device, "given", NULL);
    mqtt_desk_t *desk = plane->mqtt_desk;
    mqtt_account_t *keeper = table_find(&desk->accounts, RIG_ACCOUNT);
    keeper->sessions = KEEPS_UNKNOWN; /* as control answers: another server has the stream */
    keeper->elsewhere = KEEPS_YES;
    mqtt_wake(plane, keeper);
    mqtt_enter(plane, device);
    settle();
    return device;
}

static void carried_to_the_server_that_answers(void) {
    open_server(NULL, ACCOUNT_JETSTREAM);
    peer_t *route = other_server();
    peer_t *device = device_waits("10 17 0004'MQTT' 04 c0 003c 0001'p' 0003'usr' 0003'pas'");
    heard_t open = frames_heard(route, "O");
    CHECK_EQ_U64(device->id, open.from);
    CHECK(memmem(open.at, open.size, "usr", 3) == NULL && memmem(open.at, open.size, "pas", 3) == NULL);
    mqtt_rig_bytes_t connect = mqtt_bytes(PERSISTENT("p"));
    CHECK_BYTES(connect.at, connect.size, open.at + open.size - connect.size, connect.size);
    mqtt_feed(plane, device, "c0 00"); /* it need not wait for CONNACK */
    (void)frames_heard(route, "");
    bytes_come(route, 'T', device->id, 5, "");
    CHECK_TOLD("c0 00", frames_heard(route, "S"));
    bytes_come(route, 'P', device->id, 5, "20 02 00");
    bytes_come(route, 'W', device->id, 5, "00");
    MQTT_HEARD("20 02 00 00", device);
    mqtt_feed(plane, device, "82 08 0001 0003'a/b' 01");
    CHECK_TOLD("82 08 0001 0003'a/b' 01", frames_heard(route, "S"));
    uint64_t id = device->id;
    bytes_come(route, 'E', id, 5, "0000 0001");
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

static void refused_where_nobody_answers(void) {
    open_server(NULL, ACCOUNT_JETSTREAM);
    peer_t *route = other_server(), *device = device_waits(PERSISTENT("p"));
    (void)frames_heard(route, "O");
    uint64_t id = device->id;
    for (uint32_t i = 0; i < 8; i++) {
        time_passes(NS_PER_SECOND / 2);
        (void)rig_take_queue(&route->conn.out);
        CHECK(peer_find(plane, id) != NULL);
        table_t *accounts = &((mqtt_desk_t *)plane->mqtt_desk)->accounts;
        ((mqtt_account_t *)table_find(accounts, RIG_ACCOUNT))->sessions = KEEPS_UNKNOWN;
    }
    for (uint32_t i = 0; i < 4 && peer_find(plane, id) != NULL; i++) {
        time_passes(NS_PER_SECOND / 2);
    }
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

/* Before CONNACK it waits for the next one that has its session; later it is closed, and comes back. */
static void its_home_goes(void) {
    open_server(NULL, ACCOUNT_JETSTREAM);
    peer_t *route = other_server(), *device = device_waits(PERSISTENT("p"));
    (void)frames_heard(route, "O");
    bytes_come(route, 'T', device->id, 5, "");
    bytes_come(route, 'E', device->id, 5, "0000 0001");
    CHECK(device->state == PEER_ADMITTED);
    MQTT_HEARD("", device);
    time_passes(NS_PER_SECOND);
    (void)frames_heard(route, "R");
    bytes_come(route, 'T', device->id, 6, "");
    bytes_come(route, 'W', device->id, 6, "20 02 00 00");
    MQTT_HEARD("20 02 00 00", device);
    uint64_t id = device->id;
    bytes_come(route, 'T', id, 7, ""); /* a second one that would have it is let go */
    CHECK_EQ_U64(7, frames_heard(route, "E").to);
    peer_doom_silently(plane, route, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    settle();
    CHECK(peer_find(plane, id) == NULL);
    rig_close(plane);
}

static void no_more_than_a_window_is_under_way(void) {
    open_server(NULL, ACCOUNT_JETSTREAM);
    peer_t *route = other_server(), *device = device_waits(PERSISTENT("p"));
    (void)frames_heard(route, "O");
    bytes_come(route, 'T', device->id, 5, "");
    bytes_come(route, 'W', device->id, 5, "20 02 00 00");
    static uint8_t much[CARRY_CHUNK];
    for (uint32_t i = 0; i < 5; i++) {
        mqtt_say_bytes(plane, device, much, sizeof much);
    }
    CHECK(peer_waits(device, WAITS_SESSION));
    CHECK_EQ_U64(CARRY_CHUNK, conn_rest(&device->conn).size);
    (void)frames_heard(route, "SSSS");
    bytes_come(route, 'G', device->id, 5, "0001 0000");
    CHECK(!peer_waits(device, WAITS_SESSION));
    CHECK_EQ_U64(0, conn_rest(&device->conn).size);
    (void)frames_heard(route, "S");
    rig_close(plane);
}

int main(void) {
    RUN("a device of another server has its session here", served_as_any_client);
    RUN("it may do here what it may do there", judged_by_the_rights_that_it_was_given);
    RUN("no server speaks for devices of another one", no_server_speaks_for_another_ones_devices);
    RUN("it ends with its route, and its will is published", ended_with_its_route_and_its_will_is_published);
    RUN("a login that is said again is one login", said_again_makes_no_second_one);
    RUN("what is no login changes nothing", what_is_no_login_changes_nothing);
    RUN("its server is told how much was acted on", told_how_much_was_acted_on);
    RUN("a device is carried to the server that has its session", carried_to_the_server_that_answers);
    RUN("it is refused where no server answers", refused_where_nobody_answers);
    RUN("when that server goes it waits for the next, or is closed", its_home_goes);
    RUN("what is under way to that server is bounded", no_more_than_a_window_is_under_way);
    return TEST_RESULT();
}
