/* mqtt_rig.h: clients of MQTT on the rig of the plane. Packets are written as hexadecimal digits and text in quotes:
 *
 *     "30 05 0001'a'00'hi'"      blanks do not count
 */
#ifndef LEAFD_TESTS_MQTT_RIG_H
#define LEAFD_TESTS_MQTT_RIG_H

#include "base/hex.h"
#include "plane_rig.h"
#include "sessions/session.h"
#include "verbs/verbs.h"

#define MQTT_RIG_BYTES 4096u

typedef struct mqtt_rig_bytes {
    uint8_t at[MQTT_RIG_BYTES];
    uint32_t size;
} mqtt_rig_bytes_t;

static inline mqtt_rig_bytes_t mqtt_bytes(const char *text) {
    mqtt_rig_bytes_t out = {.size = 0};
    bool quoted = false;
    for (; *text != 0; text++) {
        CHECK(out.size < MQTT_RIG_BYTES);
        if (*text == '\'') {
            quoted = !quoted;
        } else if (quoted) {
            out.at[out.size++] = (uint8_t)*text;
        } else if (*text != ' ') {
            int high = hex_digit((uint8_t)text[0]), low = hex_digit((uint8_t)text[1]);
            CHECK(high >= 0 && low >= 0);
            out.at[out.size++] = (uint8_t)(high * 16 + low);
            text++;
        }
    }
    return out;
}

static inline void mqtt_say_bytes(plane_t *plane, peer_t *peer, const uint8_t *at, uint32_t size) {
    CHECK_EQ_I64(STATUS_OK, buffer_append(&peer->conn.rest, at, size));
    bytes_t input = conn_rest(&peer->conn);
    rig_step_begins();
    uint32_t used = peer_input(plane, peer, input);
    rig_step_ends();
    CHECK_EQ_I64(STATUS_OK, conn_keep(&peer->conn, input, used));
}

/* Without ending the tick. */
static inline void mqtt_say(plane_t *plane, peer_t *peer, const char *text) {
    mqtt_rig_bytes_t bytes = mqtt_bytes(text);
    mqtt_say_bytes(plane, peer, bytes.at, bytes.size);
}

static inline void mqtt_feed(plane_t *plane, peer_t *peer, const char *text) {
    mqtt_say(plane, peer, text);
    for (uint32_t i = 0; i < 4; i++) { /* what was put off, and what a turn has deferred */
        rig_turn(plane);
        core_backlog(plane);
    }
    rig_turn(plane);
}

#define MQTT_HEARD(expected, peer)                                                                                     \
    do {                                                                                                               \
        mqtt_rig_bytes_t mqtt_expected = mqtt_bytes(expected);                                                         \
        size_t mqtt_size = rig_take_queue(&(peer)->conn.out);                                                          \
        CHECK_BYTES(mqtt_expected.at, mqtt_expected.size, rig_out, mqtt_size);                                         \
    } while (0)

static inline void mqtt_limit(plane_t *plane, mqtt_limits_t limits) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_MQTT, .body = (const uint8_t *)&limits, .body_size = sizeof(limits)},
            &strings);
}

#define MQTT_RIG_LIMITS                                                                                                \
    ((mqtt_limits_t){.flags = MQTT_VERSION_3 | MQTT_VERSION_5,                                                         \
                     .receive_maximum = 10,                                                                            \
                     .topic_alias_maximum = 4,                                                                         \
                     .max_ack_pending = 100,                                                                           \
                     .ack_wait_ns = 30 * NS_PER_SECOND})

static inline plane_t *mqtt_open(const char *directory) {
    plane_t *plane = rig_open(directory, "");
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    return plane;
}

/* And no turn behind it, in which one that is refused would go. */
static inline void mqtt_judge(plane_t *plane, peer_t *peer, const char *name, const char *const lists[4]) {
    conn_verdict_t verdict = {.flags = VERDICT_ECHO | VERDICT_HEADERS};
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, name);
    for (uint32_t i = 0; i < 4; i++) {
        if (lists != NULL && lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    CHECK_EQ_I64(PEER_WAITING, peer->state);
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT,
                              .account = rig_admits_to,
                              .target = peer->id,
                              .body = (const uint8_t *)&verdict,
                              .body_size = sizeof(verdict)},
            &strings);
}

static inline void mqtt_admit(plane_t *plane, peer_t *peer, const char *name, const char *const lists[4]) {
    mqtt_judge(plane, peer, name, lists);
    core_backlog(plane);
    rig_turn(plane);
}

/* connect: the packet. What it is answered is taken away. */
static inline peer_t *mqtt_client_with(plane_t *plane, const char *connect, const char *const lists[4]) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    mqtt_say(plane, peer, connect);
    mqtt_admit(plane, peer, "given", lists);
    CHECK_EQ_I64(PEER_ADMITTED, peer->state);
    CHECK(rig_take_queue(&peer->conn.out) != 0);
    return peer;
}

#define MQTT_CONNECT_3(name) "10 0d 0004'MQTT' 04 02 0000 0001'" name "'"
#define MQTT_CONNECT_5(name) "10 0e 0004'MQTT' 05 02 0000 00 0001'" name "'"

static inline peer_t *mqtt_client_3(plane_t *plane) {
    return mqtt_client_with(plane, MQTT_CONNECT_3("c"), NULL);
}
static inline peer_t *mqtt_client_5(plane_t *plane) {
    return mqtt_client_with(plane, MQTT_CONNECT_5("d"), NULL);
}

#endif
