/* mqtt_lasting_rig.h: clients of MQTT whose sessions outlive their connection, on the rig of the plane with a store:
 * the stream of messages for them, a client beside them that hears w/#, time that passes, and crashes. The journal is
 * real.
 */
#ifndef LEAFD_TESTS_MQTT_LASTING_RIG_H
#define LEAFD_TESTS_MQTT_LASTING_RIG_H

#include "mqtt_rig.h"
#include "stream_rig.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"

#define MESSAGES_STREAM 7u
#define SECOND NS_PER_SECOND

static plane_t *plane;
static peer_t *other;

static inline void settle(void) {
    for (uint32_t i = 0; i < 4; i++) {
        rig_settle(plane);
        core_backlog(plane);
        rig_turn(plane);
    }
}

static inline void pass(int64_t seconds) {
    plane->now.mono_ns += seconds * SECOND;
    plane->now.wall_ns += seconds * SECOND;
    settle();
}

/* The stream of messages for sessions, with the records that are in it. */
static inline void begin(uint64_t loading) {
    static const char *const parts[] = {"$MQTT_msgs", "{}", "", "", "", "", "", "$MQTT.msgs.>"};
    stream_config_t config = rig_stream;
    config.retention = 1;
    config.flags = STREAM_ALLOW_TTL;
    rig_run_with(plane,
                 (plane_command_t){.op = COMMAND_STREAM_PUT, .target = MESSAGES_STREAM, .arg = loading, .token = 900},
                 &config, sizeof(config), parts, 8);
    settle();
    other = mqtt_client_3(plane);
    mqtt_feed(plane, other, "82 08 0001 0003'w/#' 00");
    MQTT_HEARD("90 03 0001 00", other);
}

/* A client that is let in; what it hears begins with CONNACK. */
static inline peer_t *came(const char *connect) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    mqtt_say(plane, peer, connect);
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    CHECK(peer->state == PEER_ADMITTED && peer->session->admitted);
    return peer;
}

/* As after a crash: with the files of this moment. */
static inline void crash(void) {
    char before[sizeof rig_directory], command[200];
    settle();
    memcpy(before, rig_directory, sizeof before);
    snprintf(command, sizeof command, "cp -r %s %s.crash", before, before);
    CHECK(system(command) == 0);
    moment_t now = plane->now;
    rig_close_and_remove(plane);
    CHECK((size_t)snprintf(command, sizeof command, "%s.crash", before) < sizeof rig_directory);
    memcpy(rig_directory, command, sizeof rig_directory);
    plane = mqtt_open(rig_directory);
    plane->now = now;
    begin(1);
}

/* In order, and a start behind it. */
static inline void stop(void) {
    settle();
    moment_t now = plane->now;
    core_shutdown(plane);
    rig_close(plane);
    plane = mqtt_open(rig_directory);
    plane->now = now;
    begin(1);
}

static inline void breaks(peer_t *peer) {
    peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    settle();
}

#define ALONE(promise, function)                                                                                       \
    do {                                                                                                               \
        plane = mqtt_open(rig_new_directory());                                                                        \
        begin(0);                                                                                                      \
        RUN(promise, function);                                                                                        \
        rig_close_and_remove(plane);                                                                                   \
    } while (0)

#endif
