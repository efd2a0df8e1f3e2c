/* test_plane_mqtt.c: clients of MQTT 3.1.1 and 5: how they come and go, and messages between them and clients of NATS.
 * The bytes are the standards' and nats-server's. */
#include "mqtt_rig.h"

static plane_t *plane;

static peer_t *stranger(void) {
    return peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
}

/* ---- who comes --------------------------------------------------------------------------------------------------- */

static void a_login_is_controls_business(void) {
    peer_t *peer = stranger();
    plane_event_t event;
    mqtt_say(plane, peer, MQTT_CONNECT_3("c") "c000");
    CHECK_EQ_I64(PEER_WAITING, peer->state);
    CHECK(rig_event(plane, EVENT_LINE, &event));
    CHECK_EQ_U64(LINE_CONNECT, event.code);
    CHECK_EQ_U64(peer->id, event.target);
    mqtt_rig_bytes_t whole = mqtt_bytes(MQTT_CONNECT_3("c"));
    CHECK_BYTES(whole.at, whole.size, event.payload, event.payload_size);
    MQTT_HEARD("", peer);
    mqtt_admit(plane, peer, "", NULL);
    MQTT_HEARD("20 02 00 00 d000", peer);
}

static void a_client_of_5_hears_what_it_may(void) {
    peer_t *peer = stranger();
    mqtt_say(plane, peer, "10 0d 0004'MQTT' 05 02 003c 00 0000");
    mqtt_admit(plane, peer, "made", NULL);
    MQTT_HEARD("20 17 00 00 14 12 0004'made' 21 000a 22 0004 25 00 27 00020000", peer);
}

static void who_is_refused_hears_why(void) {
    peer_t *peer = stranger(), *five = stranger();
    mqtt_say(plane, peer, MQTT_CONNECT_3("c"));
    peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("Authorization Violation"));
    MQTT_HEARD("20 02 00 05", peer);
    mqtt_say(plane, five, MQTT_CONNECT_5("c"));
    peer_doom(plane, five, CLOSE_AUTHENTICATION, BYTES_LITERAL("no"));
    MQTT_HEARD("20 08 00 87 05 1f 0002'no'", five);
    peer_t *old = stranger(), *nobody = stranger(), *anonymous = stranger();
    mqtt_say(plane, old, "10 0f 0006'MQIsdp' 03 02 0000 0001'c'");
    MQTT_HEARD("20 02 00 01", old);
    CHECK_EQ_I64(PEER_DOOMED, old->state);
    mqtt_say(plane, nobody, "10 0c 0004'MQTT' 04 00 0000 0000");
    MQTT_HEARD("20 02 00 02", nobody);
    mqtt_say(plane, anonymous, "c000");
    MQTT_HEARD("", anonymous);
    CHECK_EQ_I64(PEER_DOOMED, anonymous->state);
}

static void versions_can_be_closed(void) {
    mqtt_limits_t limits = MQTT_RIG_LIMITS;
    limits.flags = MQTT_VERSION_5;
    mqtt_limit(plane, limits);
    peer_t *peer = stranger();
    mqtt_say(plane, peer, MQTT_CONNECT_3("c"));
    MQTT_HEARD("20 02 00 01", peer);
    CHECK_EQ_I64(PEER_DOOMED, peer->state);
}

static void a_name_is_one_clients(void) {
    peer_t *first = mqtt_client_with(plane, MQTT_CONNECT_5("x"), NULL);
    peer_t *second = stranger();
    mqtt_say(plane, second, MQTT_CONNECT_3("x"));
    conn_verdict_t verdict = {.flags = VERDICT_ECHO | VERDICT_HEADERS};
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 5; i++) rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT,
                              .account = RIG_ACCOUNT,
                              .target = second->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
    CHECK_EQ_I64(PEER_DOOMED, first->state);
    CHECK_EQ_U64(CLOSE_DUPLICATE, first->close_reason);
    size_t size = rig_take_queue(&first->conn.out);
    CHECK(size > 4 && (uint8_t)rig_out[0] == 0xe0 && (uint8_t)rig_out[2] == 0x8e);
    rig_turn(plane);
    MQTT_HEARD("20 02 00 00", second);
}

static void who_is_silent_is_gone(void) {
    peer_t *peer = mqtt_client_with(plane, "10 0e 0004'MQTT' 05 02 000a 00 0001'k'", NULL);
    int64_t begin_ns = plane->now.mono_ns;
    plane->now.mono_ns = begin_ns + 14 * NS_PER_SECOND;
    peer_chores(plane, peer);
    mqtt_feed(plane, peer, "c000");
    MQTT_HEARD("d000", peer);
    plane->now.mono_ns = begin_ns + 28 * NS_PER_SECOND;
    peer_chores(plane, peer);
    CHECK_EQ_I64(PEER_ADMITTED, peer->state);
    plane->now.mono_ns = begin_ns + 30 * NS_PER_SECOND;
    peer_chores(plane, peer);
    CHECK_EQ_I64(PEER_DOOMED, peer->state);
    CHECK_EQ_U64(CLOSE_STALE, peer->close_reason);
    (void)rig_take_queue(&peer->conn.out);
    CHECK((uint8_t)rig_out[2] == 0x8d);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void to_and_from_nats(void) {
    peer_t *client = rig_client(plane), *three = mqtt_client_3(plane), *five = mqtt_client_5(plane);
    rig_feed(plane, client, "SUB a.> 1\r\n");
    mqtt_feed(plane, three, "82 08 0001 0003'a/+' 00");
    MQTT_HEARD("90 03 0001 00", three);
    mqtt_feed(plane, five, "82 09 0007 00 0003'a/#' 02");
    MQTT_HEARD("90 04 0007 00 02", five);
    rig_feed(plane, client, "PUB a.b r.s 2\r\nhi\r\n");
    RIG_HEARD("MSG a.b 1 r.s 2\r\nhi\r\n", client);
    MQTT_HEARD("30 07 0003'a/b''hi'", three);
    MQTT_HEARD("30 0e 0003'a/b' 06 08 0003'r/s' 'hi'", five);
    mqtt_feed(plane, three, "30 07 0003'a/b''hi'");
    RIG_HEARD("HMSG a.b 1 25 27\r\nNATS/1.0\r\nNmqtt-Pub:0\r\n\r\nhi\r\n", client);
    MQTT_HEARD("30 07 0003'a/b''hi'", three);
    MQTT_HEARD("30 08 0003'a/b' 00 'hi'", five);
    rig_feed(plane, client, "PUB a 1\r\nx\r\n");
    MQTT_HEARD("", three);
    MQTT_HEARD("30 05 0001'a' 00 'x'", five); /* a/# is a, too */
}

static void properties_are_headers(void) {
    peer_t *client = rig_client(plane), *one = mqtt_client_5(plane);
    peer_t *other = mqtt_client_with(plane, MQTT_CONNECT_5("e"), NULL);
    rig_feed(plane, client, "SUB a 1\r\n");
    mqtt_feed(plane, other, "82 09 0007 02 0b05 0001'a' 02");
    MQTT_HEARD("90 04 0007 00 02", other);
    const char *properties =
        "0101 02 0000003c 03 0004't/xt' 08 0001'r' 09 0002 00ff 26 0001'k' 0001'v' 26 0001':' 0000";
    char text[512];
    snprintf(text, sizeof text, "30 2a 0001'a' 24 %s 'hi'", properties);
    mqtt_feed(plane, one, text);
    RIG_HEARD("HMSG a 1 r 126 128\r\nNATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Format:1\r\nNmqtt-Expiry:60\r\n"
              "Content-Type:t/xt\r\nNmqtt-Correlation:00ff\r\nk:v\r\nNmqtt-Property:3a:\r\n\r\nhi\r\n",
              client);
    snprintf(text, sizeof text,
             "30 2c 0001'a' 26 0101 02 0000003c 03 0004't/xt' 08 0001'r' 09 0002 00ff 0b05 "
             "26 0001'k' 0001'v' 26 0001':' 0000 'hi'");
    MQTT_HEARD(text, other);
    rig_feed(plane, client,
             "HPUB a r 126 128\r\nNATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Format:1\r\nNmqtt-Expiry:60\r\n"
             "Content-Type:t/xt\r\nNmqtt-Correlation:00ff\r\nk:v\r\nNmqtt-Property:3a:\r\n\r\nhi\r\n");
    MQTT_HEARD(text, other);
}

static void what_topics_hide(void) {
    peer_t *client = rig_client(plane), *three = mqtt_client_3(plane);
    mqtt_feed(plane, three, "82 06 0001 0001'#' 00");
    MQTT_HEARD("90 03 0001 00", three);
    rig_feed(plane, client, "PUB $SYS.x 1\r\nx\r\nPUB x.$y 1\r\nx\r\n");
    MQTT_HEARD("30 07 0004'x/$y''x'", three);
}

static void not_to_oneself(void) {
    peer_t *five = mqtt_client_5(plane);
    mqtt_feed(plane, five, "82 07 0001 00 0001'a' 04");
    MQTT_HEARD("90 04 0001 00 00", five);
    mqtt_feed(plane, five, "30 05 0001'a' 00 'x'");
    MQTT_HEARD("", five);
}

static void subscriptions_end(void) {
    peer_t *client = rig_client(plane), *five = mqtt_client_5(plane);
    mqtt_feed(plane, five, "82 0f 0001 00 0003'a/#' 00 0003'b/c' 00");
    MQTT_HEARD("90 05 0001 00 00 00", five);
    CHECK_EQ_U64(3, map_count(five->table));
    mqtt_feed(plane, five, "a2 0d 0002 00 0003'a/#' 0003'no?'");
    MQTT_HEARD("b0 05 0002 00 00 11", five);
    CHECK_EQ_U64(1, map_count(five->table));
    rig_feed(plane, client, "PUB a.b 1\r\nx\r\nPUB a 1\r\nx\r\nPUB b.c 1\r\nx\r\n");
    MQTT_HEARD("30 07 0003'b/c' 00 'x'", five);
}

static void a_group_shares(void) {
    peer_t *client = rig_client(plane), *one = mqtt_client_3(plane), *two = mqtt_client_5(plane);
    mqtt_feed(plane, one, "82 0f 0001 000a'$share/g/a' 00");
    mqtt_feed(plane, two, "82 10 0001 00 000a'$share/g/a' 00");
    MQTT_HEARD("90 03 0001 00", one);
    MQTT_HEARD("90 04 0001 00 00", two);
    for (uint32_t i = 0; i < 40; i++) rig_feed(plane, client, "PUB a 1\r\nx\r\n");
    CHECK_EQ_U64(40, one->out_msgs + two->out_msgs);
    CHECK(one->out_msgs != 0 && two->out_msgs != 0);
}

static void permissions_hold(void) {
    static const char *const lists[4] = {"a", NULL, "b.>", "b.c"};
    peer_t *client = rig_client(plane), *five = mqtt_client_with(plane, MQTT_CONNECT_5("p"), lists);
    plane_event_t event;
    rig_feed(plane, client, "SUB > 1\r\n");
    mqtt_feed(plane, five, "32 07 0001'x' 0009 00 'x'");
    MQTT_HEARD("40 2a 0009 87 26 1f 0023'the user has no permission for that'", five);
    RIG_HEARD("", client);
    CHECK(rig_event(plane, EVENT_REFUSED, &event));
    CHECK_EQ_U64(REFUSED_PUBLISH, event.code);
    mqtt_feed(plane, five, "30 05 0001'x' 00 'x'");
    CHECK_EQ_I64(PEER_ADMITTED, five->state);
    mqtt_feed(plane, five, "82 13 0001 00 0001'x' 00 0003'b/c' 00 0003'b/#' 00");
    MQTT_HEARD("90 2c 0001 26 1f 0023'the user has no permission for that' 87 87 00", five);
    rig_feed(plane, client, "PUB b.c 1\r\nx\r\nPUB b.d 1\r\nx\r\nPUB b 1\r\nx\r\n");
    MQTT_HEARD("30 07 0003'b/d' 00 'x'", five);
}

/* 5: 3.1.2.11.7, 3.1.2.11.4 */
static void reasons_in_words(void) {
    static const char *const lists[4] = {"a", NULL, "b.>", "b.c"};
    peer_t *silent = mqtt_client_with(plane, "10 10 0004'MQTT' 05 02 0000 02 17 00 0001'p'", lists);
    peer_t *small = mqtt_client_with(plane, "10 13 0004'MQTT' 05 02 0000 05 27 00000028 0001'q'", lists);
    peer_t *three = mqtt_client_with(plane, MQTT_CONNECT_3("r"), lists);
    mqtt_feed(plane, silent, "32 07 0001'x' 0009 00 'x' 62 02 0007 82 07 0001 00 0001'x' 00");
    MQTT_HEARD("40 03 0009 87 70 03 0007 92 90 04 0001 00 87", silent);
    mqtt_feed(plane, small, "32 07 0001'x' 0009 00 'x' 62 02 0007 82 07 0001 00 0001'x' 00");
    MQTT_HEARD("40 04 0009 87 00 70 04 0007 92 00 90 04 0001 00 87", small);
    mqtt_feed(plane, three, "62 02 0007 82 06 0001 0001'x' 00");
    MQTT_HEARD("70 02 0007 90 03 0001 80", three);
}

/* ---- qualities of service ---------------------------------------------------------------------------------------- */

static void once_or_more(void) {
    peer_t *one = mqtt_client_3(plane), *other = mqtt_client_5(plane);
    mqtt_feed(plane, other, "82 07 0001 00 0001'a' 01");
    MQTT_HEARD("90 04 0001 00 01", other);
    mqtt_feed(plane, one, "34 06 0001'a' 0005 'x'");
    MQTT_HEARD("50 02 0005", one);
    MQTT_HEARD("32 07 0001'a' 0001 00 'x'", other);
    CHECK_EQ_U64(1, other->session->flight.part->sent.count);
    mqtt_feed(plane, other, "40 02 0001");
    CHECK_EQ_U64(0, other->session->flight.part->sent.count);
}

static void exactly_once(void) {
    peer_t *one = mqtt_client_3(plane), *other = mqtt_client_5(plane);
    mqtt_feed(plane, other, "82 07 0001 00 0001'a' 02");
    MQTT_HEARD("90 04 0001 00 02", other);
    mqtt_feed(plane, one, "34 06 0001'a' 0005 'x'");
    mqtt_feed(plane, one, "3c 06 0001'a' 0005 'x'"); /* said again: published once */
    MQTT_HEARD("50 02 0005 50 02 0005", one);
    MQTT_HEARD("34 07 0001'a' 0001 00 'x'", other);
    mqtt_feed(plane, one, "62 02 0005 62 02 0005");
    MQTT_HEARD("70 02 0005 70 02 0005", one);
    mqtt_feed(plane, one, "34 06 0001'a' 0005 'y'"); /* the identifier is free */
    MQTT_HEARD("34 07 0001'a' 0002 00 'y'", other);
    mqtt_feed(plane, other, "50 02 0001 50 03 0002 00");
    MQTT_HEARD("62 02 0001 62 02 0002", other);
    mqtt_feed(plane, other, "70 02 0001");
    CHECK_EQ_U64(1, other->session->flight.part->released.count);
    mqtt_feed(plane, other, "50 02 0063");
    MQTT_HEARD("62 3a 0063 92 36 1f 0033'no message with that packet identifier is under way'", other);
}

static void no_more_than_it_takes(void) {
    peer_t *one = mqtt_client_3(plane);
    peer_t *other = mqtt_client_with(plane, "10 11 0004'MQTT' 05 02 0000 03 21 0002 0001'r'", NULL);
    mqtt_feed(plane, other, "82 07 0001 00 0001'a' 01");
    MQTT_HEARD("90 04 0001 00 01", other);
    mqtt_feed(plane, one, "32 06 0001'a' 0001 '1' 32 06 0001'a' 0002 '2' 32 06 0001'a' 0003 '3' 30 04 0001'a' '0'");
    MQTT_HEARD("40 02 0001 40 02 0002 40 02 0003", one);
    MQTT_HEARD("32 07 0001'a' 0001 00 '1' 32 07 0001'a' 0002 00 '2' 30 05 0001'a' 00 '0'", other);
    mqtt_feed(plane, other, "40 02 0002");
    MQTT_HEARD("32 07 0001'a' 0003 00 '3'", other);
    CHECK_EQ_U64(0, other->session->flight.part->waiting.size);
}

/* max_queued, of a session that ends with its connection: the oldest goes. */
static void no_more_waits_than_may(void) {
    mqtt_limits_t limits = MQTT_RIG_LIMITS;
    limits.max_queued = 2;
    mqtt_limit(plane, limits);
    peer_t *one = mqtt_client_3(plane);
    peer_t *other = mqtt_client_with(plane, "10 11 0004'MQTT' 05 02 0000 03 21 0001 0001'r'", NULL);
    mqtt_feed(plane, other, "82 07 0001 00 0001'a' 01");
    mqtt_feed(plane, one, "32 06 0001'a' 0001 '1' 32 06 0001'a' 0002 '2' 32 06 0001'a' 0003 '3'");
    mqtt_feed(plane, one, "32 06 0001'a' 0004 '4' 32 06 0001'a' 0005 '5'");
    MQTT_HEARD("40 02 0001 40 02 0002 40 02 0003 40 02 0004 40 02 0005", one);
    MQTT_HEARD("90 04 0001 00 01 32 07 0001'a' 0001 00 '1'", other);
    mqtt_feed(plane, other, "40 02 0001");
    MQTT_HEARD("32 07 0001'a' 0002 00 '4'", other);
    mqtt_feed(plane, other, "40 02 0002");
    MQTT_HEARD("32 07 0001'a' 0003 00 '5'", other);
    mqtt_feed(plane, other, "40 02 0003");
    MQTT_HEARD("", other);
    CHECK_EQ_U64(2, plane->stats.mqtt_passed_over);
}

/* max_session_bytes, likewise: each packet has 9. */
static void no_more_bytes_wait_than_may(void) {
    mqtt_limits_t limits = MQTT_RIG_LIMITS;
    limits.max_session_bytes = 18;
    mqtt_limit(plane, limits);
    peer_t *one = mqtt_client_3(plane);
    peer_t *other = mqtt_client_with(plane, "10 11 0004'MQTT' 05 02 0000 03 21 0001 0001'r'", NULL);
    uint64_t before = plane->stats.mqtt_passed_over;
    mqtt_feed(plane, other, "82 07 0001 00 0001'a' 01");
    mqtt_feed(plane, one, "32 06 0001'a' 0001 '1' 32 06 0001'a' 0002 '2' 32 06 0001'a' 0003 '3'");
    mqtt_feed(plane, one, "32 06 0001'a' 0004 '4' 32 06 0001'a' 0005 '5'");
    MQTT_HEARD("40 02 0001 40 02 0002 40 02 0003 40 02 0004 40 02 0005", one);
    MQTT_HEARD("90 04 0001 00 01 32 07 0001'a' 0001 00 '1'", other);
    mqtt_feed(plane, other, "40 02 0001");
    MQTT_HEARD("32 07 0001'a' 0002 00 '4'", other);
    mqtt_feed(plane, other, "40 02 0002");
    MQTT_HEARD("32 07 0001'a' 0003 00 '5'", other);
    CHECK_EQ_U64(before + 2, plane->stats.mqtt_passed_over);
}

/* What waits for acknowledgements is memory like what waits for a socket. Who reads is told. */
static void who_does_not_acknowledge_goes_first(void) {
    peer_t *one = mqtt_client_3(plane), *client = rig_client(plane);
    peer_t *silent = mqtt_client_with(plane, "10 11 0004'MQTT' 05 02 0000 03 21 0001 0001's'", NULL);
    mqtt_feed(plane, silent, "82 07 0001 00 0001'a' 01");
    rig_feed(plane, client, "SUB b 1\r\n");
    plane->memory.output.limit = 600 << 10;
    uint8_t packet[1029] = {0x30, 0x82, 0x08, 0x00, 0x01, 'b'};
    for (uint32_t i = 0; i < 80; i++) mqtt_say_bytes(plane, one, packet, sizeof packet);
    packet[0] = 0x32, packet[5] = 'a', packet[7] = 1;
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < 2000 && silent->state == PEER_ADMITTED; i++) {
        waiting = flight_waiting(&silent->session->flight);
        mqtt_say_bytes(plane, one, packet, sizeof packet);
        (void)rig_take_queue(&one->conn.out);
        if (silent->state == PEER_ADMITTED) {
            (void)rig_take_queue(&silent->conn.out);
        }
    }
    CHECK_EQ_I64(PEER_DOOMED, silent->state);
    (void)rig_take_queue(&silent->conn.out);
    CHECK((uint8_t)rig_out[0] == 0xe0 && (uint8_t)rig_out[2] == 0x97);
    CHECK_EQ_U64(CLOSE_SLOW, silent->close_reason);
    CHECK(waiting > 200 << 10);
    CHECK_EQ_I64(PEER_ADMITTED, client->state);
    CHECK(outq_pending(&client->conn.out) > 80 << 10);
}

static void too_many_at_once(void) {
    mqtt_limits_t limits = MQTT_RIG_LIMITS;
    limits.receive_maximum = 1;
    mqtt_limit(plane, limits);
    peer_t *five = mqtt_client_5(plane);
    mqtt_feed(plane, five, "34 06 0001'a' 0001 00");
    MQTT_HEARD("50 02 0001", five);
    mqtt_say(plane, five, "34 06 0001'a' 0002 00");
    CHECK_EQ_I64(PEER_DOOMED, five->state);
    (void)rig_take_queue(&five->conn.out);
    CHECK((uint8_t)rig_out[0] == 0xe0 && (uint8_t)rig_out[2] == 0x93);
}

static void short_names(void) {
    peer_t *client = rig_client(plane);
    peer_t *five = mqtt_client_with(plane, "10 11 0004'MQTT' 05 02 0000 03 22 0001 0001'n'", NULL);
    rig_feed(plane, client, "SUB * 1\r\n");
    mqtt_feed(plane, five, "82 07 0001 00 0001'+' 00 30 08 0001'a' 03 23 0004 '1' 30 07 0000 03 23 0004 '2'");
    RIG_HEARD(
        "HMSG a 1 25 26\r\nNATS/1.0\r\nNmqtt-Pub:0\r\n\r\n1\r\nHMSG a 1 25 26\r\nNATS/1.0\r\nNmqtt-Pub:0\r\n\r\n2\r\n",
        client);
    MQTT_HEARD("90 04 0001 00 00 30 08 0001'a' 03 23 0001 '1' 30 07 0000 03 23 0001 '2'", five);
    mqtt_say(plane, five, "30 07 0000 03 23 0005 '2'");
    CHECK_EQ_I64(PEER_DOOMED, five->state);
    (void)rig_take_queue(&five->conn.out);
    CHECK((uint8_t)rig_out[2] == 0x94);
}

static void what_it_leaves_behind(void) {
    peer_t *client = rig_client(plane);
    rig_feed(plane, client, "SUB w 1\r\n");
    peer_t *one = mqtt_client_with(plane, "10 13 0004'MQTT' 04 06 0000 0001'o' 0001'w' 0001'x'", NULL);
    peer_t *two = mqtt_client_with(plane, "10 13 0004'MQTT' 04 06 0000 0001'p' 0001'w' 0001'x'", NULL);
    mqtt_feed(plane, one, "e000");
    RIG_HEARD("", client);
    peer_doom_silently(plane, two, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
    rig_turn(plane);
    RIG_HEARD("HMSG w 1 25 26\r\nNATS/1.0\r\nNmqtt-Pub:0\r\n\r\nx\r\n", client);
}

static void a_packet_too_large_is_not_sent(void) {
    peer_t *client = rig_client(plane);
    peer_t *five = mqtt_client_with(plane, "10 13 0004'MQTT' 05 02 0000 05 27 00000020 0001'm'", NULL);
    mqtt_feed(plane, five, "82 07 0001 00 0001'a' 01");
    MQTT_HEARD("90 04 0001 00 01", five);
    rig_feed(plane, client, "PUB a 27\r\nabcdefghijklmnopqrstuvwxyz1\r\nPUB a 26\r\nabcdefghijklmnopqrstuvwxyz\r\n");
    MQTT_HEARD("30 1e 0001'a' 00 'abcdefghijklmnopqrstuvwxyz'", five);
}

static void what_breaks_the_protocol(void) {
    static const struct {
        const char *packet;
        uint8_t reason;
    } rows[] = {
        {MQTT_CONNECT_5("c"), 0x82},
        {"36 06 0001'a' 0001 00", 0x81},
        {"30 05 0002'a#' 00", 0x90},
        {"31 04 0001'a' 00", 0x9a},
        {"30 06 0003'a b' 00", 0x90},
        {"f0 00", 0x8c},
        {"d0 00", 0x82},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        peer_t *five = mqtt_client_5(plane);
        mqtt_say(plane, five, rows[i].packet);
        CHECK_EQ_I64(PEER_DOOMED, five->state);
        CHECK(rig_take_queue(&five->conn.out) > 3);
        CHECK_EQ_U64(rows[i].reason, (uint8_t)rig_out[2]);
        rig_turn(plane);
    }
}

#define ALONE(promise, function)                                                                                       \
    do {                                                                                                               \
        plane = mqtt_open(NULL);                                                                                       \
        RUN(promise, function);                                                                                        \
        rig_close(plane);                                                                                              \
    } while (0)

int main(void) {
    ALONE("a CONNECT goes to control as it is, and what is behind it waits", a_login_is_controls_business);
    ALONE("a client of 5 is told its name and what it may do", a_client_of_5_hears_what_it_may);
    ALONE("who is refused hears why, in the words of its version", who_is_refused_hears_why);
    ALONE("a version that is not served is refused", versions_can_be_closed);
    ALONE("a client identifier is that of one client: who had it goes", a_name_is_one_clients);
    ALONE("who is silent for one and a half times its keep alive is gone", who_is_silent_is_gone);
    ALONE("messages go between clients of NATS and of both versions", to_and_from_nats);
    ALONE("properties are headers, and headers properties", properties_are_headers);
    ALONE("a filter that begins with a wildcard hides topics that begin with $", what_topics_hide);
    ALONE("with No Local a client does not get what it published", not_to_oneself);
    ALONE("a subscription ends, and who had none is told so", subscriptions_end);
    ALONE("a shared subscription is a queue group", a_group_shares);
    ALONE("permissions are those of clients, by subject", permissions_hold);
    ALONE("a refusal says why, to who wants to know and takes a packet of that size", reasons_in_words);
    ALONE("QoS 1 is acknowledged both ways", once_or_more);
    ALONE("QoS 2 is published once, and released and completed both ways", exactly_once);
    ALONE("a client gets no more at once than it takes, in order", no_more_than_it_takes);
    ALONE("no more waits for a client than the bound says: the oldest goes", no_more_waits_than_may);
    ALONE("nor more bytes than that", no_more_bytes_wait_than_may);
    ALONE("who does not acknowledge what it gets is closed before who has less waiting",
          who_does_not_acknowledge_goes_first);
    ALONE("more messages than the receive maximum end the connection", too_many_at_once);
    ALONE("topics have short names both ways", short_names);
    ALONE("a will is published, unless its client says goodbye", what_it_leaves_behind);
    ALONE("a packet that is larger than its client takes is not sent", a_packet_too_large_is_not_sent);
    ALONE("who breaks the protocol is told how", what_breaks_the_protocol);
    return TEST_RESULT();
}
