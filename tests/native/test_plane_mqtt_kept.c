/* test_plane_mqtt_kept.c: what sessions that outlive their connection get: what streams publish again, and messages
 * whose time passes while they wait. The journal is real, time is the test's. */
#include "mqtt_lasting_rig.h"

#define THREE "10 0d 0004'MQTT' 04 00 0000 0001't'"
#define FIVE "10 13 0004'MQTT' 05 00 0000 05 11 00000e10 0001'f'"

#define HEARD_BEHIND_CONNACK(expected, peer)                                                                           \
    do {                                                                                                               \
        mqtt_rig_bytes_t mqtt_expected = mqtt_bytes(expected);                                                         \
        size_t mqtt_size = rig_take_queue(&(peer)->conn.out);                                                          \
        CHECK(mqtt_size >= 4 && rig_out[0] == 0x20);                                                                   \
        size_t mqtt_from = 2 + (size_t)rig_out[1];                                                                     \
        CHECK_BYTES(mqtt_expected.at, mqtt_expected.size, rig_out + mqtt_from, mqtt_size - mqtt_from);                 \
    } while (0)

static void subscribed(peer_t *peer, const char *packet) {
    mqtt_say(plane, peer, packet);
    settle();
    CHECK(rig_take_queue(&peer->conn.out) != 0);
}

/* ---- what streams publish again ---------------------------------------------------------------------------------- */

static void put_republishing(uint64_t loading) {
    static const char *const parts[] = {"R", "{}", "", "", "", "s.>", "w.>", "s.>"};
    stream_config_t config = rig_stream;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 9, .arg = loading, .token = 905}, &config,
                 sizeof(config), parts, 8);
    settle();
}

static void republished_waits(void) {
    put_republishing(0);
    peer_t *nats = rig_client(plane), *peer = came(THREE);
    subscribed(peer, "82 08 0001 0003'w/#' 01");
    breaks(peer);
    /* what orders something of that stream does not of another one */
    rig_feed(plane, nats, "HPUB s.a 51 53\r\nNATS/1.0\r\nNats-Msg-Id:7\r\nNats-Expected-Stream:R\r\n\r\nhi\r\n");
    rig_feed(plane, nats, "PUB s.a 2\r\nho\r\nPUB s.b 2\r\nhe\r\n");
    settle();
    (void)rig_take_queue(&other->conn.out);
    crash();
    put_republishing(1);
    peer = came(THREE);
    /* nobody wrote down that it was away, so it may have had them */
    HEARD_BEHIND_CONNACK("3a 09 0003'w/a' 0002'hi' 3a 09 0003'w/a' 0003'ho' 3a 09 0003'w/b' 0004'he'", peer);
}

/* Who is here has it once, with QoS 1; whose session ends with its connection has it as all that comes from NATS. */
static void republished_comes_once(void) {
    put_republishing(0);
    peer_t *nats = rig_client(plane), *peer = came(THREE);
    subscribed(peer, "82 0e 0001 0003'w/#' 01 0003'w/z' 00");
    rig_feed(plane, nats, "PUB s.a 2\r\nho\r\nPUB s.z 2\r\nhz\r\n");
    settle();
    mqtt_rig_bytes_t heard = {.size = 0};
    heard.size = (uint32_t)rig_take_queue(&peer->conn.out);
    CHECK_EQ_U64(11 + 11 + 9, heard.size); /* and w/z also with QoS 0, by its own subscription */
    MQTT_HEARD("30 07 0003'w/a''ho' 30 07 0003'w/z''hz'", other);
    mqtt_say(plane, peer, "a2 07 0002 0003'w/#'");
    settle();
    MQTT_HEARD("b0 02 0002", peer);
    rig_feed(plane, nats, "PUB s.z 2\r\nhz\r\n"); /* no session wants it from the stream */
    settle();
    MQTT_HEARD("30 07 0003'w/z''hz'", peer);
}

/* ---- messages whose time passes ---------------------------------------------------------------------------------- */

/* 5: 3.3.2.3.3 */
static void time_passes_while_it_waits(void) {
    peer_t *peer = came(FIVE), *from = mqtt_client_5(plane);
    subscribed(peer, "82 09 0001 00 0003'w/#' 01");
    breaks(peer);
    mqtt_say(plane, from, "32 0e 0003'w/s' 0001 05 02 0000000a 's' 32 0e 0003'w/l' 0002 05 02 00000064 'l'");
    settle();
    pass(30);
    peer = came(FIVE);
    HEARD_BEHIND_CONNACK("32 0e 0003'w/l' 0003 05 02 00000046 'l'", peer);
    breaks(peer);
    pass(80); /* it was sent, and is not any more: nobody had acknowledged it */
    peer = came(FIVE);
    HEARD_BEHIND_CONNACK("", peer);
}

static void time_passes_behind_a_window(void) {
    peer_t *from = mqtt_client_5(plane);
    peer_t *peer = came("10 16 0004'MQTT' 05 00 0000 08 11 00000e10 21 0001 0001'f'"); /* one at a time */
    subscribed(peer, "82 09 0001 00 0003'w/#' 01");
    mqtt_say(plane, from, "32 09 0003'w/1' 0001 00 '1' 32 0e 0003'w/l' 0002 05 02 00000064 'l'");
    settle();
    MQTT_HEARD("32 09 0003'w/1' 0002 00 '1'", peer);
    pass(30);
    mqtt_say(plane, peer, "40 02 0002");
    settle();
    MQTT_HEARD("32 0e 0003'w/l' 0003 05 02 00000046 'l'", peer);
}

/* Likewise of a session that ends with its connection, and its message with a payload format. */
static void time_passes_without_a_session(void) {
    peer_t *from = mqtt_client_5(plane);
    peer_t *peer = came("10 11 0004'MQTT' 05 02 0000 03 21 0001 0001'n'");
    subscribed(peer, "82 09 0001 00 0003'w/#' 01");
    mqtt_say(plane, from, "32 09 0003'w/1' 0001 00 '1' 32 10 0003'w/l' 0002 07 01 01 02 00000064 'l'");
    settle();
    MQTT_HEARD("32 09 0003'w/1' 0001 00 '1'", peer);
    pass(30);
    mqtt_say(plane, peer, "40 02 0001");
    settle();
    MQTT_HEARD("32 10 0003'w/l' 0002 07 01 01 02 00000046 'l'", peer);
    mqtt_say(plane, from, "32 0e 0003'w/s' 0003 05 02 00000010 's'");
    settle();
    pass(30);
    mqtt_say(plane, peer, "40 02 0002");
    settle();
    MQTT_HEARD("", peer);
}

/* ---- messages that come again ------------------------------------------------------------------------------------ */

static void publishes(peer_t *from, const char *packet) {
    mqtt_say(plane, from, packet);
    settle();
    CHECK(rig_take_queue(&from->conn.out) != 0);
}

/* MQTT-3.3.1-1. That a message was sent is on disk a second later, and nobody waits for that. */
static void sent_before_a_crash(void) {
    peer_t *peer = came(THREE);
    subscribed(peer, "82 08 0001 0003'w/#' 01");
    publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '1'");
    MQTT_HEARD("32 08 0003'w/a' 0002 '1'", peer);
    crash();
    peer = came(THREE);
    HEARD_BEHIND_CONNACK("3a 08 0003'w/a' 0002 '1'", peer);
    publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '2'");
    MQTT_HEARD("32 08 0003'w/a' 0003 '2'", peer);
}

/* What was sent is on disk then, and what was not as well. */
static void sent_before_a_stop(void) {
    peer_t *peer = came(THREE);
    subscribed(peer, "82 08 0001 0003'w/#' 01");
    publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '1'");
    MQTT_HEARD("32 08 0003'w/a' 0002 '1'", peer);
    breaks(peer);
    publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '2'");
    stop();
    peer = came(THREE);
    HEARD_BEHIND_CONNACK("3a 08 0003'w/a' 0002 '1' 32 08 0003'w/a' 0003 '2'", peer);
}

/* Its record says when it left. */
static void never_sent_before_a_crash(void) {
    peer_t *peer = came(FIVE);
    subscribed(peer, "82 09 0001 00 0003'w/#' 01");
    breaks(peer);
    pass(10);
    publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '1'");
    crash();
    peer = came(FIVE);
    HEARD_BEHIND_CONNACK("32 09 0003'w/a' 0002 00 '1'", peer);
}

/* 4.6.0-4: PUBRELs in the order of PUBRECs. A record of a leafd before 2026-11-30 has no order. */
static void released_in_their_order(void) {
    peer_t *peer = came(THREE);
    subscribed(peer, "82 08 0001 0003'w/#' 02");
    publishes(mqtt_client_3(plane), "34 08 0003'w/a' 0001 '1' 34 08 0003'w/b' 0002 '2' 34 08 0003'w/c' 0003 '3'"
                                    "34 08 0003'w/d' 0004 '4'");
    MQTT_HEARD("34 08 0003'w/a' 0002 '1' 34 08 0003'w/b' 0003 '2' 34 08 0003'w/c' 0004 '3' 34 08 0003'w/d' 0005 '4'",
               peer);
    mqtt_say(plane, peer, "50 02 0004 50 02 0002");
    settle();
    mqtt_say(plane, peer, "50 02 0005");
    settle();
    MQTT_HEARD("62 02 0004 62 02 0002 62 02 0005", peer);
    for (uint32_t i = 0; i < 2; i++) {
        i == 0 ? breaks(peer) : crash();
        peer = came(THREE);
        HEARD_BEHIND_CONNACK("62 02 0004 62 02 0002 62 02 0005 3c 08 0003'w/b' 0003 '2'", peer);
    }
    kept_t *kept = mqtt_kept_find(plane->mqtt_desk, RIG_ACCOUNT, rig_text("t"));
    CHECK(mqtt_kept_note(plane, kept, RECORD_SESSION_OUT, 9, true));
    crash();
    peer = came(THREE);
    HEARD_BEHIND_CONNACK("62 02 0009 62 02 0004 62 02 0002 62 02 0005 3c 08 0003'w/b' 0003 '2'", peer);
    mqtt_say(plane, peer, "70 02 0002 70 02 0009 50 02 0003");
    settle();
    crash();
    peer = came(THREE);
    HEARD_BEHIND_CONNACK("62 02 0004 62 02 0005 62 02 0003", peer);
}

static void not_acknowledged_for_long(void) {
    for (int64_t wait_s = 0; wait_s <= 30; wait_s += 30) {
        mqtt_limits_t limits = MQTT_RIG_LIMITS;
        limits.ack_wait_ns = wait_s * SECOND;
        mqtt_limit(plane, limits);
        peer_t *peer = came(THREE);
        subscribed(peer, "82 08 0001 0003'w/#' 01");
        publishes(mqtt_client_3(plane), "32 08 0003'w/a' 0001 '1'");
        MQTT_HEARD(wait_s == 0 ? "32 08 0003'w/a' 0002 '1'" : "32 08 0003'w/a' 0003 '1'", peer);
        pass(29);
        MQTT_HEARD("", peer);
        pass(3600);
        MQTT_HEARD(wait_s == 0 ? "" : "3a 08 0003'w/a' 0003 '1'", peer);
        breaks(peer);
        peer = came(THREE);
        HEARD_BEHIND_CONNACK(wait_s == 0 ? "3a 08 0003'w/a' 0002 '1'" : "3a 08 0003'w/a' 0003 '1'", peer);
        mqtt_say(plane, peer, wait_s == 0 ? "40 02 0002" : "40 02 0003");
        settle();
        breaks(peer);
    }
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static uint64_t batches(void) {
    plane_stats_t stats = {0};
    settle();
    store_stats(plane->js.stores[STORE_FILE], &stats);
    return stats.journal_batches;
}

/* Ten thousand that are back after a start would write as many records. One that expires has to: its time is over. */
static void back_after_a_start(void) {
    breaks(came(THREE));
    breaks(came(FIVE));
    for (uint32_t i = 0; i < 2; i++) {
        i == 0 ? stop() : crash();
        uint64_t before = batches();
        peer_t *peer = came(THREE);
        CHECK(peer->session->present);
        CHECK_EQ_U64(before, batches());
        breaks(peer);
        CHECK_EQ_U64(before, batches());
        peer = came(FIVE);
        CHECK(peer->session->present);
        CHECK_EQ_U64(before + 1, batches());
        breaks(peer);
    }
}

#define MANY 600u /* more than one step reads */

static kept_t *kept_of(uint32_t number) {
    char name[16];
    snprintf(name, sizeof name, "d%03u", number);
    return mqtt_kept_find(plane->mqtt_desk, RIG_ACCOUNT, rig_text(name));
}

static void many_are_there(void) {
    static peer_t *peers[MANY];
    char text[100];
    for (uint32_t i = 0; i < MANY; i++) {
        peers[i] = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
        CHECK(peers[i] != NULL);
        snprintf(text, sizeof text, "10 10 0004'MQTT' 04 00 0000 0004'd%03u'", i);
        mqtt_say(plane, peers[i], text);
        mqtt_admit(plane, peers[i], "given", NULL);
    }
    settle();
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "82 0b 0001 0006'w/d%03u' 01", i);
        mqtt_say(plane, peers[i], text);
    }
    settle();
    peer_t *from = mqtt_client_3(plane);
    for (uint32_t i = 0; i < MANY; i += 7) { /* in flight of some, QoS 2 of some is here */
        snprintf(text, sizeof text, "32 0b 0006'w/d%03u' 0001'x'", i);
        mqtt_say(plane, from, text);
        mqtt_say(plane, peers[i], "34 06 0001'z' 0009'x'");
        settle();
    }
    crash();
    uint32_t there = 0, received = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        const kept_t *kept = kept_of(i);
        there += kept != NULL && kept->binding != NULL && kept->filter_count == 1;
        received += kept != NULL && ids_has(&kept->received, 9);
    }
    CHECK_EQ_U64(MANY, there);
    CHECK_EQ_U64((MANY + 6) / 7, received);
}

int main(void) {
    ALONE("what a stream publishes again waits for sessions that are away, also over a crash", republished_waits);
    ALONE("what a stream publishes again comes to a session that is here once, with QoS 1", republished_comes_once);
    ALONE("a message says how much of its time is left, and is not sent when none is", time_passes_while_it_waits);
    ALONE("the time that a message waits for the client's window is taken off", time_passes_behind_a_window);
    ALONE("that holds for a session that ends with its connection", time_passes_without_a_session);
    ALONE("what was sent before a crash comes again with DUP, and what comes behind it has none", sent_before_a_crash);
    ALONE("behind a stop in order DUP is on what was sent, and on nothing else", sent_before_a_stop);
    ALONE("whoever is back after a start is not written down, if its session never expires", back_after_a_start);
    ALONE("a session that had left long before a crash has no DUP on what came meanwhile", never_sent_before_a_crash);
    ALONE("what a client is told to release it is told again in the order in which it had it", released_in_their_order);
    ALONE("what is not acknowledged comes again with its client, and before that where the configuration says so",
          not_acknowledged_for_long);
    ALONE("hundreds of sessions are all there after a crash, with what they have received", many_are_there);
    return TEST_RESULT();
}
