/* test_plane_mqtt_share.c: shared subscriptions of sessions that outlive their connection: each message of QoS 1 and 2
 * reaches one member, whoever is away (5: 4.8.2). What is expected follows from that text: to whom of those that are
 * here a message goes is the server's choice, so the tests count. */
#include "mqtt_lasting_rig.h"

#define KEPT(name) "10 0d 0004'MQTT' 04 00 0000 0001'" name "'"
#define KEPT_5(name) "10 13 0004'MQTT' 05 00 0000 05 11 00000e10 0001'" name "'"
#define SHARED_1 "82 11 0001 000c'$share/g/w/#' 01"
#define SHARED_2 "82 11 0001 000c'$share/g/w/#' 02"
#define ANSWERED_1 "90 03 0001 01"

/* What a client has heard, packet by packet. */
typedef struct heard {
    uint32_t publishes, qos2, again;
    uint16_t ids[16];
    char payloads[17]; /* the last byte of each */
} heard_t;

/* Packets are small, so their size is one byte; what is no PUBLISH is passed over. */
static heard_t hear(peer_t *peer) {
    heard_t heard = {.publishes = 0};
    settle();
    size_t size = rig_take_queue(&peer->conn.out);
    for (const uint8_t *at = (const uint8_t *)rig_out, *end = at + size; at < end; at += 2u + at[1]) {
        if ((at[0] & 0xf0u) != 0x30) continue;
        CHECK(heard.publishes < 16);
        uint32_t qos = at[0] >> 1 & 3u;
        heard.ids[heard.publishes] = qos == 0 ? 0 : load_be16(at + 4u + at[3]);
        heard.payloads[heard.publishes++] = (char)at[1u + at[1]];
        heard.qos2 += qos == 2;
        heard.again += (at[0] & 8u) != 0;
    }
    return heard;
}

static peer_t *member(const char *connect, const char *subscribe) {
    peer_t *peer = came(connect);
    (void)hear(peer);
    mqtt_say(plane, peer, subscribe);
    (void)hear(peer);
    return peer;
}

/* w/a with that payload, and that QoS. */
static void sends(peer_t *from, uint32_t qos, char payload) {
    static uint16_t id;
    char text[64];
    id = id % 60000 + 1;
    if (qos == 0) {
        snprintf(text, sizeof text, "30 06 0003'w/a''%c'", payload);
    } else {
        snprintf(text, sizeof text, "%02x 08 0003'w/a' %04x '%c'", 0x30 | qos << 1, id, payload);
    }
    mqtt_say(plane, from, text);
    settle();
    (void)rig_take_queue(&from->conn.out);
    if (qos == 2) {
        snprintf(text, sizeof text, "62 02 %04x", id);
        mqtt_say(plane, from, text);
        settle();
        (void)rig_take_queue(&from->conn.out);
    }
}

static void answers(peer_t *peer, uint32_t kind, uint16_t id) {
    char text[16];
    snprintf(text, sizeof text, "%02x 02 %04x", kind, id);
    mqtt_say(plane, peer, text);
    settle();
}

#define PUBACK 0x40u
#define PUBREC 0x50u
#define PUBCOMP 0x70u

static uint64_t left_in_stream(void) {
    stream_state_t state;
    const mqtt_account_t *keeper = table_find(&((const mqtt_desk_t *)plane->mqtt_desk)->accounts, RIG_ACCOUNT);
    store_stream_state(keeper->messages->store, &state);
    return state.messages;
}

/* ---- all are away ------------------------------------------------------------------------------------------------ */

static void waits_for_one(void) {
    peer_t *one = member(KEPT("A"), SHARED_1), *two = member(KEPT("B"), SHARED_1), *from = mqtt_client_3(plane);
    breaks(one);
    breaks(two);
    sends(from, 1, 'x');
    sends(from, 2, 'y');
    CHECK_EQ_U64(2, left_in_stream()); /* each once, for both */
    crash();
    CHECK_EQ_U64(2, left_in_stream());
    two = came(KEPT("B"));
    heard_t heard = hear(two);
    CHECK_EQ_U64(2, heard.publishes);
    CHECK_EQ_U64(0, heard.qos2);
    CHECK_EQ_U64(2, heard.again); /* a member may have had them before the crash */
    CHECK(memcmp(heard.payloads, "xy", 2) == 0);
    one = came(KEPT("A"));
    CHECK_EQ_U64(0, hear(one).publishes);
    answers(two, PUBACK, heard.ids[0]);
    answers(two, PUBACK, heard.ids[1]);
    settle();
    CHECK_EQ_U64(0, left_in_stream());
    crash();
    CHECK_EQ_U64(0, hear(came(KEPT("A"))).publishes + hear(came(KEPT("B"))).publishes);
}

/* Only the last one's leave ends it. */
static void ends_with_its_last(void) {
    peer_t *one = member(KEPT("A"), SHARED_1), *two = member(KEPT("B"), SHARED_1), *from = mqtt_client_3(plane);
    mqtt_say(plane, one, "a2 10 0002 000c'$share/g/w/#'");
    settle();
    breaks(one);
    breaks(two);
    sends(from, 1, 'x');
    CHECK_EQ_U64(1, left_in_stream());
    breaks(member("10 0d 0004'MQTT' 04 02 0000 0001'B'", "82 08 0001 0003'z/#' 00")); /* a clean start ends it */
    settle();
    sends(from, 1, 'y');
    CHECK_EQ_U64(0, left_in_stream());
    crash();
    CHECK_EQ_U64(0, hear(came(KEPT("A"))).publishes);
    CHECK_EQ_U64(0, map_count(((const mqtt_desk_t *)plane->mqtt_desk)->shares));
}

/* ---- some are here ----------------------------------------------------------------------------------------------- */

static void by_turns(void) {
    peer_t *one = member(KEPT("A"), SHARED_1), *two = member(KEPT_5("B"), "82 12 0001 00 000c'$share/g/w/#' 01");
    peer_t *from = mqtt_client_3(plane);
    for (char payload = 'a'; payload < 'a' + 10; payload++) sends(from, 1, payload);
    heard_t first = hear(one), second = hear(two);
    CHECK_EQ_U64(10, first.publishes + second.publishes);
    CHECK(first.publishes >= 3 && second.publishes >= 3);
    bool there[10] = {false};
    for (uint32_t i = 0; i < first.publishes; i++) there[first.payloads[i] - 'a'] = true;
    for (uint32_t i = 0; i < second.publishes; i++) there[second.payloads[i] - 'a'] = true;
    for (uint32_t i = 0; i < 10; i++) CHECK(there[i]);
    for (uint32_t i = 0; i < first.publishes; i++) answers(one, PUBACK, first.ids[i]);
    breaks(one);
    sends(from, 1, 'z'); /* to whom is here */
    CHECK_EQ_U64(1, hear(two).publishes);
}

/* Who is in the group without such a session: MQTT's take part, queue subscribers of NATS have what is not stored. */
static void with_others(void) {
    peer_t *from = mqtt_client_with(plane, MQTT_CONNECT_3("p"), NULL), *nats = rig_client(plane);
    peer_t *clean = mqtt_client_with(plane, MQTT_CONNECT_3("q"), NULL);
    mqtt_feed(plane, clean, SHARED_1);
    MQTT_HEARD(ANSWERED_1, clean);
    peer_t *kept = member(KEPT("A"), SHARED_1);
    rig_feed(plane, nats, "SUB w.> g 1\r\n");
    breaks(kept);
    for (char payload = 'a'; payload < 'a' + 4; payload++) sends(from, 1, payload);
    heard_t heard = hear(clean);
    CHECK_EQ_U64(4, heard.publishes);
    answers(clean, PUBACK, heard.ids[0]);
    breaks(clean); /* three were not answered, and are for the session */
    CHECK_EQ_U64(3, hear(came(KEPT("A"))).publishes);
    CHECK_EQ_U64(0, rig_take_queue(&nats->conn.out));
}

/* ---- what was sent and not acknowledged -------------------------------------------------------------------------- */

/* 5: 4.8.2: a message of QoS 1 may go to another one; one of QoS 2 may not. */
static void one_goes_on(void) {
    peer_t *one = member(KEPT("A"), SHARED_1), *from = mqtt_client_3(plane);
    sends(from, 1, 'x');
    CHECK_EQ_U64(1, hear(one).publishes);
    peer_t *two = member(KEPT("B"), SHARED_1);
    breaks(one);
    heard_t heard = hear(two);
    CHECK_EQ_U64(1, heard.publishes);
    CHECK_EQ_U64(0, heard.again); /* to this client it comes for the first time */
    answers(two, PUBACK, heard.ids[0]);
    CHECK_EQ_U64(0, hear(came(KEPT("A"))).publishes);
}

static void two_stays(void) {
    peer_t *one = member(KEPT("A"), SHARED_2), *from = mqtt_client_3(plane);
    sends(from, 2, 'x');
    heard_t first = hear(one);
    CHECK_EQ_U64(1, first.qos2);
    peer_t *two = member(KEPT("B"), SHARED_2);
    breaks(one);
    CHECK_EQ_U64(0, hear(two).publishes);
    sends(from, 2, 'y'); /* others are not held up */
    heard_t other_one = hear(two);
    CHECK_EQ_U64(1, other_one.qos2);
    answers(two, PUBREC, other_one.ids[0]);
    one = came(KEPT("A"));
    heard_t again = hear(one);
    CHECK_EQ_U64(1, again.publishes);
    CHECK_EQ_U64(1, again.again);
    CHECK_EQ_U64(first.ids[0], again.ids[0]);
    answers(one, PUBREC, again.ids[0]);
    CHECK_EQ_U64(0, left_in_stream());
}

static void two_ends_with_its_session(void) {
    peer_t *one = member(KEPT("A"), SHARED_2), *from = mqtt_client_3(plane);
    sends(from, 2, 'x');
    CHECK_EQ_U64(1, hear(one).qos2);
    peer_t *two = member(KEPT("B"), SHARED_2);
    breaks(one);
    breaks(came("10 0d 0004'MQTT' 04 02 0000 0001'A'"));
    CHECK_EQ_U64(0, hear(two).publishes);
    CHECK_EQ_U64(0, left_in_stream());
}

/* It was sent before the crash, and so to that client again, and to none but that. */
static void two_stays_over_a_crash(void) {
    peer_t *one = member(KEPT("A"), SHARED_2), *from = mqtt_client_3(plane);
    breaks(member(KEPT("B"), SHARED_2));
    sends(from, 2, 'x');
    heard_t first = hear(one);
    CHECK_EQ_U64(1, first.qos2);
    crash();
    peer_t *two = came(KEPT("B"));
    CHECK_EQ_U64(0, hear(two).publishes);
    one = came(KEPT("A"));
    heard_t again = hear(one);
    CHECK_EQ_U64(1, again.qos2);
    CHECK_EQ_U64(first.ids[0], again.ids[0]);
    answers(one, PUBREC, again.ids[0]);
    crash();
    CHECK_EQ_U64(0, hear(came(KEPT("B"))).publishes + hear(came(KEPT("A"))).publishes);
}

/* 5: 3.10.4-3: the server completes what it has begun to send, so no other one has it meanwhile. */
static void one_that_unsubscribes_completes(void) {
    peer_t *one = member(KEPT("A"), SHARED_1), *from = mqtt_client_3(plane);
    sends(from, 1, 'x');
    sends(from, 1, 'y');
    heard_t heard = hear(one);
    CHECK_EQ_U64(2, heard.publishes);
    peer_t *two = member(KEPT("B"), SHARED_1);
    mqtt_say(plane, one, "a2 10 0002 000c'$share/g/w/#'");
    CHECK_EQ_U64(0, hear(one).publishes + hear(two).publishes);
    answers(one, PUBACK, heard.ids[0]);
    CHECK_EQ_U64(1, left_in_stream());
    sends(from, 1, 'z');
    CHECK_EQ_U64(1, hear(two).publishes);
    breaks(one); /* without an answer to the second one */
    heard = hear(two);
    CHECK_EQ_U64(1, heard.publishes);
    CHECK_EQ_U64('y', heard.payloads[0]);
}

/* Whenever it is that a member goes, between PUBLISH and the message on its way to it: one of them gets it. */
static void goes_after(uint32_t turns) {
    peer_t *members[2] = {member(KEPT("A"), SHARED_2), member(KEPT("B"), SHARED_2)}, *from = mqtt_client_3(plane);
    mqtt_say(plane, from, "34 08 0003'w/a' 0077 'x'");
    for (uint32_t i = 0; i < turns; i++) {
        rig_turn(plane);
        usleep(300);
    }
    mqtt_say(plane, members[0], "a2 10 0002 000c'$share/g/w/#'");
    rig_turn(plane);
    heard_t heard[2] = {hear(members[0]), hear(members[1])};
    CHECK_EQ_U64(1, heard[0].qos2 + heard[1].qos2);
    uint32_t who = heard[1].qos2;
    answers(members[who], PUBREC, heard[who].ids[0]);
    answers(members[who], PUBCOMP, heard[who].ids[0]);
    CHECK_EQ_U64(0, left_in_stream());
}

static void goes_at_any_time(void) {
    for (uint32_t turns = 0; turns < 12; turns++) {
        goes_after(turns);
        rig_close_and_remove(plane);
        plane = mqtt_open(rig_new_directory());
        begin(0);
    }
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* A client of 5 takes one at a time: the others go to whom has room, and wait where nobody has. */
static void full_members(void) {
    peer_t *one =
        member("10 16 0004'MQTT' 05 00 0000 08 11 00000e10 21 0001 0001'A'", "82 12 0001 00 000c'$share/g/w/#' 01");
    peer_t *two =
        member("10 16 0004'MQTT' 05 00 0000 08 11 00000e10 21 0002 0001'B'", "82 12 0001 00 000c'$share/g/w/#' 01");
    peer_t *from = mqtt_client_3(plane);
    for (char payload = 'a'; payload < 'a' + 5; payload++) sends(from, 1, payload);
    heard_t first = hear(one), second = hear(two);
    CHECK_EQ_U64(1, first.publishes);
    CHECK_EQ_U64(2, second.publishes);
    answers(two, PUBACK, second.ids[0]); /* room for one, at once */
    second = hear(two);
    CHECK_EQ_U64(1, second.publishes);
    answers(one, PUBACK, first.ids[0]);
    CHECK_EQ_U64(1, hear(one).publishes);
}

/* A filter of its own beside: 5: 4.8.2, each of them gets it. */
static void beside_its_own(void) {
    peer_t *one = member(KEPT("A"), "82 19 0001 000c'$share/g/w/#' 01 0005'w/a/#' 01"), *from = mqtt_client_3(plane);
    sends(from, 1, 'x');
    uint32_t copies = 0;
    for (uint32_t i = 0; i < 3; i++) {
        heard_t heard = hear(one);
        copies += heard.publishes;
        for (uint32_t j = 0; j < heard.publishes; j++) answers(one, PUBACK, heard.ids[j]);
        pass(2);
    }
    CHECK_EQ_U64(2, copies);
    CHECK_EQ_U64(0, left_in_stream());
}

static void many_groups(void) {
    peer_t *one = came(KEPT_5("A")), *from = mqtt_client_5(plane);
    (void)hear(one);
    char text[80];
    for (uint32_t i = 0; i < MQTT_GROUPS_MAX + 1; i++) {
        snprintf(text, sizeof text, "82 13 0001 00 000d'$share/%02u/w/#' 01", i);
        mqtt_say(plane, one, text);
        settle();
    }
    (void)hear(one);
    breaks(one);
    mqtt_say(plane, from, "32 09 0003'w/a' 0001 00 'x'");
    settle();
    mqtt_rig_bytes_t refused = mqtt_bytes("40 03 0001 97");
    CHECK(rig_take_queue(&from->conn.out) >= 4 && (uint8_t)rig_out[4] == refused.at[4]);
    CHECK_EQ_U64(0, left_in_stream());
    one = came(KEPT_5("A"));
    mqtt_say(plane, one, "a2 12 0002 00 000d'$share/00/w/#'");
    settle();
    breaks(one);
    mqtt_say(plane, from, "32 09 0003'w/a' 0002 00 'x'");
    settle();
    CHECK_EQ_U64(1, left_in_stream());
}

int main(void) {
    ALONE("a message waits for one of a group of which all are away, once, also over a crash", waits_for_one);
    ALONE("what is shared ends with its last session", ends_with_its_last);
    ALONE("those that are here get messages by turns, each one once", by_turns);
    ALONE("members without a lasting session take part, queue subscribers of NATS do not", with_others);
    ALONE("a message of QoS 1 that a member did not acknowledge goes to another one", one_goes_on);
    ALONE("one of QoS 2 is for the member that it was sent to", two_stays);
    ALONE("and for nobody when that one's session ends", two_ends_with_its_session);
    ALONE("and so it is over a crash", two_stays_over_a_crash);
    ALONE("a member that unsubscribes still answers what it was sent", one_that_unsubscribes_completes);
    ALONE("one of QoS 2 goes to another one as long as it was not sent", goes_at_any_time);
    ALONE("messages go to members that take more, and wait where none does", full_members);
    ALONE("a member's own subscription gets the message beside what it shares", beside_its_own);
    ALONE("a message for more groups than a publish has room for is refused", many_groups);
    return TEST_RESULT();
}
