/* carry_rig.h: a plane with MQTT in a cluster whose other servers are played over routes, frame by frame
 * (verbs/mqtt_carry.h): what it says to them is taken apart, what they say is put into its input.
 *
 * Not here: MQTT's own packets (mqtt_rig.h).
 */
#ifndef LEAFD_TESTS_CARRY_RIG_H
#define LEAFD_TESTS_CARRY_RIG_H

#include "mqtt_rig.h"
#include "stream_rig.h"

#include "gateway_rig.h"

#include "verbs/mqtt.h"
#include "verbs/mqtt_carry.h"

#define SYSTEM 9u
#define MESSAGES_STREAM 7u
#define DEVICE UINT64_C(77) /* a connection at the other server */
#define FRAMES_MAX 40000u

#define PERSISTENT(name) "10 0d 0004'MQTT' 04 00 003c 0001'" name "'"

/* ---- frames ------------------------------------------------------------------------------------------------------ */

typedef struct heard {
    char kind;
    uint64_t to, from;
    uint8_t at[FRAMES_MAX];
    uint32_t size;
} heard_t;

static inline void open_server(const char *directory, uint32_t flags) {
    plane_limits_t limits = rig_limits(directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(directory, limits);
    named_account(RIG_ACCOUNT, flags, "A");
    named_account(SYSTEM, 0, "SYS");
    plane->mail_account = account_find(plane, SYSTEM);
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    rig_admits_to = RIG_ACCOUNT;
}

static inline peer_t *other_server(void) {
    peer_t *route = route_of("S2");
    rig_feed(plane, route, "PONG\r\n");
    (void)rig_take_queue(&route->conn.out);
    return route;
}

static inline void settle(void) {
    for (uint32_t i = 0; i < 4; i++) {
        if (plane->js.consume != NULL) {
            rig_settle(plane);
        }
        core_backlog(plane);
        rig_turn(plane);
    }
}

static inline void frame_comes(peer_t *route, char kind, uint64_t to, uint64_t from, const uint8_t *rest,
                               uint32_t size) {
    static uint8_t line[FRAMES_MAX + 200];
    uint32_t at = (uint32_t)snprintf((char *)line, 100, "RMSG SYS $LC.C %u\r\n", CARRY_HEAD + size);
    line[at] = (uint8_t)kind;
    store_be64(line + at + 1, to);
    store_be64(line + at + 9, from);
    memcpy(line + at + CARRY_HEAD, rest, size);
    memcpy(line + at + CARRY_HEAD + size, "\r\n", 2);
    mqtt_say_bytes(plane, route, line, at + CARRY_HEAD + size + 2);
    settle();
}

static inline void bytes_come(peer_t *route, char kind, uint64_t to, uint64_t from, const char *packets) {
    mqtt_rig_bytes_t bytes = mqtt_bytes(packets);
    frame_comes(route, kind, to, from, bytes.at, bytes.size);
}

/* The next frame in a route's queue, which was taken before; false: there is none. */
static inline bool next_frame(const uint8_t *queue, size_t size, size_t *at, heard_t *out) {
    while (*at < size) {
        const uint8_t *line = queue + *at, *end = memmem(line, size - *at, "\r\n", 2);
        CHECK(end != NULL);
        *at = (size_t)(end + 2 - queue);
        if ((size_t)(end - line) < 14 || memcmp(line, "RMSG SYS $LC.C", 14) != 0) {
            continue;
        }
        uint32_t whole = (uint32_t)strtoul((const char *)line + 15, NULL, 10);
        CHECK(whole >= CARRY_HEAD && *at + whole + 2 <= size && whole - CARRY_HEAD <= FRAMES_MAX);
        *out = (heard_t){.kind = (char)queue[*at],
                         .to = load_be64(queue + *at + 1),
                         .from = load_be64(queue + *at + 9),
                         .size = whole - CARRY_HEAD};
        memcpy(out->at, queue + *at + CARRY_HEAD, out->size);
        *at += whole + 2;
        return true;
    }
    return false;
}

/* The frames that a route was given, of which there is one of each of these kinds, in that order; the last one. What is
 * said of who has come is left out unless it is among them. */
static inline heard_t frames_heard(peer_t *route, const char *kinds) {
    static uint8_t queue[sizeof rig_out];
    heard_t found = {.kind = 0}, one;
    size_t size = rig_take_queue(&route->conn.out), at = 0;
    memcpy(queue, rig_out, size);
    char all[64];
    uint32_t count = 0;
    while (next_frame(queue, size, &at, &one)) {
        if (one.kind == 'C' && strchr(kinds, 'C') == NULL) continue;
        CHECK(count < sizeof all - 1);
        found = one;
        all[count++] = found.kind;
    }
    all[count] = 0;
    CHECK_TEXT(kinds, all, count);
    return found;
}

#define CHECK_TOLD(expected, frame)                                                                                    \
    do {                                                                                                               \
        mqtt_rig_bytes_t told_expected = mqtt_bytes(expected);                                                         \
        heard_t told_frame = (frame);                                                                                  \
        CHECK_BYTES(told_expected.at, told_expected.size, told_frame.at, told_frame.size);                             \
    } while (0)

/* ---- a server with sessions -------------------------------------------------------------------------------------- */

static inline void begin_home(void) {
    static const char *const parts[] = {"$MQTT_msgs", "{}", "", "", "", "", "", "$MQTT.msgs.>"};
    open_server(rig_new_directory(), 0);
    stream_config_t config = rig_stream;
    config.retention = 1;
    config.flags = STREAM_ALLOW_TTL;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = MESSAGES_STREAM, .token = 900}, &config,
                 sizeof(config), parts, 8);
    settle();
}

/* lists: publish allow, and so on. Returns its size. */
static inline uint32_t opening(uint8_t *to, const char *account, const char *connect, const char *may_publish) {
    const conn_verdict_t verdict = {.flags = VERDICT_ECHO | VERDICT_HEADERS};
    rig_strings_t strings = {.size = 0};
    mqtt_rig_bytes_t packet = mqtt_bytes(connect);
    rig_pack(&strings, "");
    if (may_publish != NULL) rig_pack(&strings, may_publish);
    for (uint32_t i = 0; i < 4; i++) rig_pack(&strings, "");
    store_be32(to, sizeof verdict);
    store_be32(to + 4, strings.size);
    store_be32(to + 8, (uint32_t)strlen(account));
    uint8_t *at = bytes_write(to + 12, bytes_of(&verdict, sizeof verdict));
    at = bytes_write(at, bytes_of(strings.at, strings.size));
    at = bytes_write(at, rig_text(account));
    return (uint32_t)(bytes_write(at, bytes_of(packet.at, packet.size)) - to);
}

/* The connection of the device here. */
static inline uint64_t device_comes(peer_t *route, uint64_t device, const char *connect, const char *connack) {
    uint8_t text[2000];
    uint32_t size = opening(text, "A", connect, NULL);
    frame_comes(route, 'O', 0, device, text, size);
    heard_t told = frames_heard(route, "TW");
    CHECK_EQ_U64(device, told.to);
    CHECK_TOLD(connack, told);
    return told.from;
}

#endif
