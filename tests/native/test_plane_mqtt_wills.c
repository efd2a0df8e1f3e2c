/* test_plane_mqtt_wills.c: what clients of MQTT leave behind when their session outlives their connection: it waits for
 * its delay, also over a crash, and ends when they are back. The journal is real, time is the test's. */
#include "mqtt_lasting_rig.h"

/* flags: of CONNECT; expiry, delay: 4 bytes as digits. The will is "gone" on the topic w/x, with QoS 1, and lasts for
 * an hour. */
static peer_t *client(const char *flags, const char *expiry, const char *delay) {
    char text[300];
    snprintf(text, sizeof text,
             "10 2f 0004'MQTT' 05 %s 0000 05 11 %s 0001'b' 0a 18 %s 02 00000e10 0003'w/x' 0004'gone'", flags, expiry,
             delay);
    mqtt_rig_bytes_t bytes = mqtt_bytes(text);
    char size[3];
    snprintf(size, sizeof size, "%02x", bytes.size - 2);
    memcpy(text + 3, size, 2);
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    mqtt_say(plane, peer, text);
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    CHECK_EQ_I64(PEER_ADMITTED, peer->state);
    CHECK(peer->session->admitted && !peer->session->enters);
    return peer;
}

#define WITH_WILL "0c"       /* QoS 1 */
#define WITH_WILL_CLEAN "0e" /* and clean start */
#define HOUR "00000e10"
#define TEN "0000000a"
#define NONE "00000000"

#define GONE "30 09 0003'w/x''gone'"

static void waits_for_its_delay(void) {
    breaks(client(WITH_WILL, HOUR, TEN));
    pass(9);
    MQTT_HEARD("", other);
    pass(2);
    MQTT_HEARD(GONE, other);
    pass(100);
    MQTT_HEARD("", other);
    crash();
    pass(100);
    MQTT_HEARD("", other);
}

static void keeps_its_properties(void) {
    peer_t *five = mqtt_client_with(plane, MQTT_CONNECT_5("e"), NULL);
    mqtt_feed(plane, five, "82 09 0001 00 0003'w/x' 01");
    MQTT_HEARD("90 04 0001 00 01", five);
    breaks(client(WITH_WILL, HOUR, TEN));
    crash();
    five = mqtt_client_with(plane, MQTT_CONNECT_5("e"), NULL);
    mqtt_feed(plane, five, "82 09 0001 00 0003'w/x' 01");
    MQTT_HEARD("90 04 0001 00 01", five);
    pass(11);
    MQTT_HEARD("32 11 0003'w/x' 0001 05 02 00000e10'gone'", five);
}

static void is_no_more_when_its_client_is_back(void) {
    breaks(client(WITH_WILL, HOUR, TEN));
    pass(5);
    peer_t *back = client(WITH_WILL, HOUR, TEN);
    pass(100);
    MQTT_HEARD("", other);
    breaks(back);
    pass(9);
    MQTT_HEARD("", other);
    pass(2);
    MQTT_HEARD(GONE, other);
}

static void comes_when_its_session_ends(void) {
    breaks(client(WITH_WILL, TEN, HOUR)); /* it expires */
    pass(9);
    MQTT_HEARD("", other);
    pass(2);
    pass(1);
    MQTT_HEARD(GONE, other);
    breaks(client(WITH_WILL, HOUR, HOUR)); /* a clean start ends it */
    pass(1);
    MQTT_HEARD("", other);
    peer_t *clean = client(WITH_WILL_CLEAN, HOUR, HOUR);
    pass(1);
    MQTT_HEARD(GONE, other);
    breaks(clean); /* its stream is removed */
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = MESSAGES_STREAM, .token = 901}, NULL,
                 0, NULL, 0);
    settle();
    pass(1);
    MQTT_HEARD(GONE, other);
}

static void leave_is_taken(void) {
    peer_t *peer = client(WITH_WILL, HOUR, TEN);
    mqtt_feed(plane, peer, "e0 00");
    settle();
    pass(100);
    crash();
    pass(100);
    MQTT_HEARD("", other);
    peer = client(WITH_WILL, HOUR, TEN);
    mqtt_feed(plane, peer, "e0 02 04 00"); /* with its will */
    settle();
    pass(9);
    MQTT_HEARD("", other);
    pass(2);
    MQTT_HEARD(GONE, other);
    peer = client(WITH_WILL, HOUR, TEN);
    mqtt_feed(plane, peer, "e0 07 04 05 11 00000000"); /* and the session ends with it */
    settle();
    MQTT_HEARD(GONE, other);
}

static void a_crash_is_an_end(void) {
    (void)client(WITH_WILL, HOUR, TEN); /* here when it happens */
    crash();
    pass(9);
    MQTT_HEARD("", other);
    pass(2);
    MQTT_HEARD(GONE, other);
    crash(); /* once */
    pass(100);
    MQTT_HEARD("", other);
    breaks(client(WITH_WILL, HOUR, TEN)); /* away: what is left of its time, and the streams that are to have it open */
    pass(3);
    crash();
    pass(4);
    MQTT_HEARD("", other);
    pass(4);
    MQTT_HEARD(GONE, other);
    (void)client(WITH_WILL, HOUR, NONE);
    crash();
    pass(4);
    MQTT_HEARD("", other);
    pass(2);
    MQTT_HEARD(GONE, other);
    (void)client(WITH_WILL, HOUR, NONE);
    crash();
    (void)client(WITH_WILL, HOUR, NONE); /* back in time */
    pass(100);
    MQTT_HEARD("", other);
}

/* The record of a session that has ended is there until its will has gone. */
static void outlives_its_session(void) {
    breaks(client(WITH_WILL, HOUR, HOUR));
    mqtt_desk_t *desk = plane->mqtt_desk;
    kept_t *kept = mqtt_kept_find(desk, RIG_ACCOUNT, BYTES_LITERAL("b"));
    CHECK(kept != NULL && kept->will != NULL);
    uint32_t number = kept->number;
    CHECK_EQ_I64(STATUS_OK, mqtt_kept_end(plane, kept));
    crash(); /* before the chores */
    peer_t *next = client(WITH_WILL, HOUR, HOUR);
    CHECK(next->session->kept->number > number);
    pass(6);
    MQTT_HEARD(GONE, other);
    crash();
    pass(100);
    MQTT_HEARD("", other);
}

static void a_take_over_is_no_end(void) {
    (void)client(WITH_WILL, HOUR, TEN);
    peer_t *second = client(WITH_WILL, HOUR, TEN);
    pass(100);
    MQTT_HEARD("", other);
    (void)client(WITH_WILL_CLEAN, HOUR, TEN); /* but one that ends the session is */
    MQTT_HEARD(GONE, other);
    (void)second;
    (void)client(WITH_WILL, HOUR, NONE);
    MQTT_HEARD("", other);
    (void)client(WITH_WILL, HOUR, NONE); /* no delay */
    MQTT_HEARD(GONE, other);
}

static void a_session_without_one_forgets_it(void) {
    breaks(client(WITH_WILL, HOUR, TEN));
    peer_t *peer = mqtt_client_with(plane, "10 13 0004'MQTT' 05 00 0000 05 11 00000e10 0001'b'", NULL);
    settle();
    breaks(peer);
    crash();
    pass(100);
    MQTT_HEARD("", other);
}

static void its_memory_is_counted(void) {
    uint64_t before = plane->memory.interest.used;
    breaks(client(WITH_WILL, TEN, HOUR));
    CHECK(plane->memory.interest.used > before + sizeof(will_t));
    pass(11);
    pass(1);
    MQTT_HEARD(GONE, other);
    CHECK_EQ_U64(before, plane->memory.interest.used);
}

/* A CONNECT of 2,072 bytes, whose will is 2,048 of them. What it is answered. */
static void large(uint32_t name, const char *answer) {
    uint8_t packet[3 + 22 + 2048];
    mqtt_rig_bytes_t head = mqtt_bytes("10 96 10 0004'MQTT' 05 06 0000 00 0001'z' 00 0003'w/x' 0800");
    CHECK_EQ_U64(sizeof packet, head.size + 2048);
    memcpy(packet, head.at, head.size);
    memset(packet + head.size, 'x', 2048);
    packet[16] = (uint8_t)name;
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    mqtt_say_bytes(plane, peer, packet, sizeof packet);
    if (peer->state == PEER_WAITING) mqtt_admit(plane, peer, "given", NULL);
    mqtt_rig_bytes_t expected = mqtt_bytes(answer);
    CHECK(rig_take_queue(&peer->conn.out) >= expected.size);
    CHECK_BYTES(expected.at, expected.size, rig_out, expected.size);
    settle();
}

/* What is left then is for subscriptions. A small will is in what each connection may take. */
static void one_that_there_is_no_memory_for_is_refused(void) {
    share_t *share = &plane->memory.interest;
    uint64_t limit = share->limit, before = share->used;
    share->limit = (before + 2048) / MQTT_EIGHTHS * 8;
    large('y', "20 1c 00 97 19 1f 0016'no memory for its will'");
    CHECK_EQ_U64(before, share->used);
    CHECK(share_has(share, 2048 + before / MQTT_EIGHTHS));
    breaks(client(WITH_WILL_CLEAN, NONE, NONE));
    MQTT_HEARD(GONE, other);
    share->limit += 2048;
    large('z', "20");
    CHECK(share->used > before + 2048);
    large('y', "20 1c 00 97");
    share->limit = limit;
}

int main(void) {
    ALONE("a will waits for its delay, and is published once", waits_for_its_delay);
    ALONE("a will has its properties, and its expiry begins when it is published", keeps_its_properties);
    ALONE("a will is no more when its client is back before its delay is over", is_no_more_when_its_client_is_back);
    ALONE("a will is published when its session ends before its delay is over", comes_when_its_session_ends);
    ALONE("a client that takes leave has no will, unless it says so", leave_is_taken);
    ALONE("a crash is the end of all connections, and a will waits on after it, once", a_crash_is_an_end);
    ALONE("a will that a crash catches behind the end of its session is published", outlives_its_session);
    ALONE("a newer connection of its client ends a will that was to wait, unless it ends the session",
          a_take_over_is_no_end);
    ALONE("a client that comes back without a will has none", a_session_without_one_forgets_it);
    ALONE("the memory of wills is counted, and given back", its_memory_is_counted);
    ALONE("a will that there is no memory for is refused", one_that_there_is_no_memory_for_is_refused);
    return TEST_RESULT();
}
