/* test_plane_mqtt_names.c: who has a client identifier, at one server of a cluster whose others are played over routes:
 * which of two connections ends, and what a clean start does to a session that is kept elsewhere. Whole servers:
 * tests/interop/test_mqtt_identifiers.py.
 */
#include "carry_rig.h"

#define SECOND_NS NS_PER_SECOND
#define CLEAN(name) "10 0d 0004'MQTT' 04 02 003c 0001'" name "'"
#define OTHERS UINT64_C(5) /* the other server's number */

typedef struct said {
    uint64_t server, stamp;
    bool anew;
    char client[20];
} said_t;

/* What a frame says of the first client in it. */
static said_t said_of(heard_t frame) {
    said_t found = {.server = load_be64(frame.at), .stamp = load_be64(frame.at + 8), .anew = frame.at[16] != 0};
    uint32_t account = load_be16(frame.at + 17), client = load_be16(frame.at + 19);
    CHECK(frame.size >= 21 + account + client && client < sizeof found.client);
    CHECK_TEXT("A", (const char *)frame.at + 21, account);
    memcpy(found.client, frame.at + 21 + account, client);
    return found;
}

static uint32_t saying(uint8_t *to, uint64_t stamp, bool anew, const char *account, const char *client) {
    store_be64(to, OTHERS);
    store_be64(to + 8, stamp);
    to[16] = anew;
    store_be16(to + 17, (uint16_t)strlen(account));
    store_be16(to + 19, (uint16_t)strlen(client));
    return (uint32_t)(bytes_write(bytes_write(to + 21, rig_text(account)), rig_text(client)) - to);
}

static void other_has(peer_t *route, uint64_t stamp, const char *client) {
    uint8_t text[200];
    frame_comes(route, 'C', 0, 0, text, saying(text, stamp, false, "A", client));
}

static void other_begins(peer_t *route, uint64_t connection, uint64_t stamp, const char *client) {
    uint8_t text[200];
    frame_comes(route, 'C', 0, connection, text, saying(text, stamp, true, "A", client));
}

static void open_two(void) {
    open_server(NULL, 0);
    plane->now.wall_ns = 1000 * SECOND_NS;
}

/* A client that is let in, whose CONNACK is taken. */
static peer_t *comes(const char *connect) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    mqtt_say(plane, peer, connect);
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    return peer;
}

static bool is_here(uint64_t id) {
    return peer_find(plane, id) != NULL;
}

/* ---- which one stays --------------------------------------------------------------------------------------------- */

static void the_older_one_ends_wherever_it_is(void) {
    open_two();
    peer_t *route = other_server();
    uint64_t first = comes(CLEAN("p"))->id;
    said_t said = said_of(frames_heard(route, "C"));
    CHECK_TEXT("p", said.client, strlen(said.client));
    CHECK(!said.anew && said.stamp >= (uint64_t)(1000 * SECOND_NS));
    other_has(route, said.stamp + 1, "p");
    CHECK(!is_here(first));
    (void)frames_heard(route, "");
    uint64_t second = comes(CLEAN("p"))->id; /* it is younger than what was heard, whatever the clocks say */
    CHECK(said_of(frames_heard(route, "C")).stamp > said.stamp + 1);
    CHECK(is_here(second));
    rig_close(plane);
}

static void the_younger_one_stays_and_its_server_says_so(void) {
    open_two();
    peer_t *route = other_server();
    uint64_t here = comes(CLEAN("p"))->id;
    said_t said = said_of(frames_heard(route, "C"));
    other_has(route, said.stamp - 1, "p");
    CHECK(is_here(here));
    CHECK_EQ_U64(said.stamp, said_of(frames_heard(route, "C")).stamp);
    other_has(route, said.stamp + 1, "q"); /* another one's */
    CHECK(is_here(here));
    (void)frames_heard(route, "");
    rig_close(plane);
}

/* Both servers compare the same two: whose number is larger keeps its own. */
static void of_two_at_the_same_moment_one_stays(void) {
    open_two();
    peer_t *route = other_server();
    uint64_t here = comes(CLEAN("p"))->id;
    said_t said = said_of(frames_heard(route, "C"));
    uint8_t text[200];
    uint32_t size = saying(text, said.stamp, false, "A", "p");
    store_be64(text, said.server - 1);
    frame_comes(route, 'C', 0, 0, text, size);
    CHECK(is_here(here));
    CHECK_EQ_U64(said.stamp, said_of(frames_heard(route, "C")).stamp);
    store_be64(text, said.server + 1);
    frame_comes(route, 'C', 0, 0, text, size);
    CHECK(!is_here(here));
    rig_close(plane);
}

static void a_route_that_comes_up_hears_of_all_who_are_here(void) {
    open_two();
    char connect[60];
    for (uint32_t i = 0; i < 200; i++) {
        (void)snprintf(connect, sizeof connect, "10 0f 0004'MQTT' 04 02 003c 0003'%03u'", i);
        CHECK(comes(connect)->state == PEER_ADMITTED);
    }
    peer_t *route = other_server();
    mqtt_chores(plane);
    heard_t frame = frames_heard(route, "C");
    bool seen[200] = {false};
    uint32_t at = 8, count = 0;
    for (; at < frame.size; count++) {
        CHECK(frame.at[at + 8] == 0); /* no session ends by it */
        uint32_t account = load_be16(frame.at + at + 9), client = load_be16(frame.at + at + 11);
        CHECK_EQ_U64(3, client);
        uint32_t number = (uint32_t)strtoul((const char *)frame.at + at + 13 + account, NULL, 10);
        CHECK(number < 200 && !seen[number]);
        seen[number] = true;
        at += 13 + account + client;
    }
    CHECK_EQ_U64(200, count);
    mqtt_chores(plane);
    (void)frames_heard(route, "");
    rig_close(plane);
}

static void what_is_no_such_frame_changes_nothing(void) {
    open_two();
    peer_t *route = other_server();
    uint64_t here = comes(CLEAN("p"))->id;
    said_t said = said_of(frames_heard(route, "C"));
    uint8_t text[200];
    uint32_t size = saying(text, said.stamp + 1, true, "A", "p");
    for (uint32_t i = 0; i < size; i++) frame_comes(route, 'C', 0, 0, text, i);
    frame_comes(route, 'C', 0, 0, text, saying(text, UINT64_MAX, true, "A", "p"));
    frame_comes(route, 'C', 0, 0, text, saying(text, said.stamp + 1, true, "B", "p")); /* no such account */
    for (uint32_t i = 0; i < 9; i++) frame_comes(route, 'D', here, 0, text, i);
    CHECK(is_here(here));
    (void)frames_heard(route, "");
    rig_close(plane);
}

/* ---- a clean start where a session is at another server ---------------------------------------------------------- */

static void a_session_here_ends_for_one_that_begins_anew_elsewhere(void) {
    begin_home();
    peer_t *route = other_server();
    uint64_t here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    bytes_come(route, 'S', here, DEVICE, "82 08 0001 0003'a/b' 01");
    CHECK_TOLD("90 03 0001 01", frames_heard(route, "W"));
    uint64_t stamp = ((session_t *)peer_find(plane, here)->session)->stamp;
    CHECK_EQ_U64(1, plane->stats.mqtt_sessions);
    other_begins(route, 99, stamp + 1, "p");
    heard_t cleared = frames_heard(route, "ED");
    CHECK_EQ_U64(99, cleared.to);
    CHECK_EQ_U64(0, load_be64(cleared.at));
    CHECK(!is_here(here));
    CHECK_EQ_U64(0, plane->stats.mqtt_sessions);
    other_begins(route, 98, stamp + 2, "p"); /* there is none any more */
    CHECK_EQ_U64(98, frames_heard(route, "D").to);
    (void)device_comes(route, DEVICE + 1, PERSISTENT("p"), "20 02 00 00");
    rig_close_and_remove(plane);
}

/* A word that comes late must not end what was made since. */
static void a_session_that_was_used_since_stays(void) {
    begin_home();
    peer_t *route = other_server();
    uint64_t here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    uint64_t stamp = ((session_t *)peer_find(plane, here)->session)->stamp;
    bytes_come(route, 'E', here, DEVICE, "0000 0001");
    (void)frames_heard(route, "E");
    other_begins(route, 99, stamp - 1, "p");
    heard_t again = frames_heard(route, "D");
    CHECK_EQ_U64(stamp, load_be64(again.at));
    CHECK_EQ_U64(1, plane->stats.mqtt_sessions);
    other_begins(route, 99, stamp + 1, "p");
    CHECK_EQ_U64(0, load_be64(frames_heard(route, "D").at));
    CHECK_EQ_U64(0, plane->stats.mqtt_sessions);
    rig_close_and_remove(plane);
}

static void no_session_ends_by_what_a_new_route_is_told(void) {
    begin_home();
    peer_t *route = other_server();
    uint64_t here = device_comes(route, DEVICE, PERSISTENT("p"), "20 02 00 00");
    uint64_t stamp = ((session_t *)peer_find(plane, here)->session)->stamp;
    other_has(route, stamp + 1, "p");
    (void)frames_heard(route, "E");
    CHECK(!is_here(here));
    CHECK_EQ_U64(1, plane->stats.mqtt_sessions);
    (void)device_comes(route, DEVICE + 1, PERSISTENT("p"), "20 02 01 00");
    rig_close_and_remove(plane);
}

/* A client that begins anew, at a server that knows that another one has the sessions. */
static peer_t *begins(void) {
    peer_t *device = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    mqtt_account_t *keeper = mqtt_account_of(plane, mqtt_desk_of(plane), account_find(plane, RIG_ACCOUNT));
    keeper->elsewhere = KEEPS_YES;
    mqtt_say(plane, device, CLEAN("p"));
    mqtt_admit(plane, device, "given", NULL);
    settle();
    return device;
}

static void one_that_begins_anew_waits_for_the_server_with_the_sessions(void) {
    open_two();
    peer_t *route = other_server();
    rig_feed(plane, route, "RS+ A $MQTT.msgs.>\r\n");
    peer_t *device = begins();
    heard_t heard = frames_heard(route, "C");
    said_t said = said_of(heard);
    CHECK(said.anew);
    CHECK_EQ_U64(device->id, heard.from);
    MQTT_HEARD("", device);
    bytes_come(route, 'D', device->id, 0, "0000 0100 0000 0000"); /* used since, by its clock */
    CHECK(said_of(frames_heard(route, "C")).stamp > UINT64_C(0x10000000000));
    MQTT_HEARD("", device);
    bytes_come(route, 'D', device->id, 0, "0000 0000 0000 0000");
    MQTT_HEARD("20 02 00 00", device);
    bytes_come(route, 'D', device->id, 0, "0000 0000 0000 0000"); /* nothing more comes of it */
    MQTT_HEARD("", device);
    mqtt_feed(plane, device, "c0 00");
    MQTT_HEARD("d0 00", device);
    rig_close(plane);
}

static void where_no_server_answers_it_is_let_in(void) {
    open_two();
    peer_t *route = other_server();
    rig_feed(plane, route, "RS+ A $MQTT.msgs.>\r\n");
    peer_t *device = begins();
    (void)frames_heard(route, "C");
    time_passes(SECOND_NS);
    (void)frames_heard(route, "C");
    MQTT_HEARD("", device);
    time_passes(2 * SECOND_NS);
    MQTT_HEARD("20 02 00 00", device);
    uint64_t first = device->id;
    device = begins(); /* the next one does not wait */
    MQTT_HEARD("20 02 00 00", device);
    CHECK(!is_here(first));
    CHECK(said_of(frames_heard(route, "C")).anew);
    rig_close(plane);
}

int main(void) {
    RUN("the older one of two ends, wherever it is", the_older_one_ends_wherever_it_is);
    RUN("the younger one stays, and the other server hears it", the_younger_one_stays_and_its_server_says_so);
    RUN("of two that come at the same moment one stays", of_two_at_the_same_moment_one_stays);
    RUN("a route that comes up hears of all who are here", a_route_that_comes_up_hears_of_all_who_are_here);
    RUN("what is no such frame changes nothing", what_is_no_such_frame_changes_nothing);
    RUN("a session ends for one that begins anew elsewhere", a_session_here_ends_for_one_that_begins_anew_elsewhere);
    RUN("a session that was used since stays", a_session_that_was_used_since_stays);
    RUN("no session ends by what a new route is told", no_session_ends_by_what_a_new_route_is_told);
    RUN("one that begins anew waits until its session is no more",
        one_that_begins_anew_waits_for_the_server_with_the_sessions);
    RUN("it is let in where no server answers", where_no_server_answers_it_is_let_in);
    return TEST_RESULT();
}
