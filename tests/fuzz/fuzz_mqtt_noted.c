/* Invariant: whatever another server of the cluster says over a route about messages of MQTT, to the server that has
 * the streams: a message is answered once, where that server said right before it, when the stream has it on disk; what
 * comes over a leaf link or before a login is answered nowhere; and sessions here get what their stream took, once.
 *
 * The input is a list of steps. First byte of each: bits 0 to 2 = what happens, the others = a small number; some are
 * followed by a size and so many bytes of text.
 */
#include <stdio.h>

#include "base/check.h"
#include "mqtt_rig.h"
#include "stream_rig.h"
#include "verbs/mqtt.h"
#include "verbs/mqtt_lasting.h"

/* Behind the headers: they have names that theirs would hide. */
#include "gateway_rig.h"

#include "mqtt_lasting_rig.h"

#define USER_STREAM 1u
#define MARKS 4u
#define NOTED_MESSAGES 8u /* that may come between what is said of one, and that one (mqtt_far.c) */
#define STEPS_MAX 40u
#define PLACE "$MQTT.F.0000000000000001.0000000000000002.m"
#define SESSION_PLACE "$MQTT.F.0000000000000001.0000000000000002."

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t noted, left; /* the mark of what was said last and may still come; 0: none */
static bool foggy;           /* text of the input may have said something since */
static uint64_t device, leaf, route_asked;

static uint64_t stored(uint32_t stream) {
    stream_state_t state;
    store_stream_state(stream_find(&plane->js, stream)->store, &state);
    return state.last_seq;
}

static void fuzz_open(void) {
    directory_make_in_memory(rig_directory, sizeof rig_directory);
    plane_limits_t limits = rig_limits(rig_directory);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(rig_directory, limits);
    named_account(RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    rig_admits_to = RIG_ACCOUNT;
    begin(0);
    rig_put_stream(plane, rig_stream);
    settle();
    noted = left = 0;
    foggy = false;
}

/* Who has a session that wants w/# with QoS 1. */
static void device_comes(void) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    check(peer != NULL);
    device = peer->id;
    mqtt_say(plane, peer, "10 0d 0004'MQTT' 04 00 0000 0001's'");
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    mqtt_feed(plane, peer, "82 08 0001 0003'w/#' 01");
    settle();
}

static bool at_place(const char *subject, size_t size) {
    return size > 8 && memcmp(subject, "$MQTT.F.", 8) == 0;
}

/* How many answers at places of MQTT the route has got since it was asked last. *kept: how many of these say that a
 * stream has the message. */
static uint32_t answers(peer_t *route, uint32_t *kept) {
    uint32_t count = 0;
    *kept = 0;
    for (const char *at = rig_heard(route); (at = strstr(at, "RMSG A $MQTT.")) != NULL; at++) {
        const char *subject = at + 7, *end = strchr(subject, ' '), *line = strstr(at, "\r\n");
        check(end != NULL && line != NULL && at_place(subject, (size_t)(end - subject)));
        count++;
        *kept += strncmp(line + 2, "{\"error\"", 8) != 0;
    }
    return count;
}

static void say(peer_t *peer, const char *start, bytes_t text, const char *end) {
    char line[600];
    int size = snprintf(line, sizeof line, "%s%.*s%s", start, (int)text.size, (const char *)text.at, end);
    check(size > 0 && (size_t)size < sizeof line);
    if (strlen(line) == (size_t)size) {
        rig_feed(plane, peer, line);
        rig_settle(plane);
    }
}

static void fuzz_note(peer_t *route, uint32_t number) {
    char line[200];
    uint32_t mark = 1 + number % MARKS;
    snprintf(line, sizeof line, "RMSG A $MQTT.N.%u " PLACE "%u 0\r\n\r\n", mark, mark);
    say(route, line, BYTES_NONE, "");
    noted = mark;
    left = NOTED_MESSAGES;
    foggy = false;
}

/* A message for the user's stream, with a mark. */
static void fuzz_message(peer_t *from, uint32_t number, bool over_leaf) {
    char line[200];
    uint32_t mark = 1 + number % MARKS, kept;
    uint64_t before = stored(USER_STREAM);
    snprintf(line, sizeof line, "HMSG %ss.a 26 27\r\nNATS/1.0\r\nNmqtt-Kept:%u\r\n\r\nx\r\n", over_leaf ? "" : "A ",
             mark);
    say(from, line, BYTES_NONE, "");
    if (over_leaf) {
        return;
    }
    check(stored(USER_STREAM) == before + 1);
    uint32_t count = answers(from, &kept);
    check(foggy || count == (noted == mark && left > 0));
    check(count <= 1 && kept == count);
    left -= left > 0;
    noted = noted == mark || left == 0 ? 0 : noted;
}

/* A message for the sessions' stream. */
static void fuzz_keep(peer_t *route, uint32_t number) {
    char line[200];
    uint32_t kept;
    uint64_t before = stored(MESSAGES_STREAM);
    snprintf(line, sizeof line,
             "HMSG A $MQTT.msgs.w.a " SESSION_PLACE "%u 39 40\r\nNATS/1.0\r\nNmqtt-Pub:1\r\nNmqtt-Kept:%u\r\n\r\nx\r\n",
             1 + number, 1 + number % MARKS);
    say(route, line, BYTES_NONE, "");
    uint32_t count = answers(route, &kept);
    check(count == 1);
    check(kept == 0 || stored(MESSAGES_STREAM) <= before + 1);
}

/* Everything that the device gets is acknowledged, and is a message of QoS 1 or an answer to what it said. */
static void device_hears(void) {
    peer_t *peer = peer_find(plane, device);
    if (peer == NULL) {
        return;
    }
    static uint8_t heard[1 << 16];
    size_t size = rig_take_queue(&peer->conn.out);
    if (size == 0) {
        return;
    }
    check(size <= sizeof heard);
    memcpy(heard, rig_out, size);
    for (size_t at = 0; at + 2 <= size && peer_find(plane, device) != NULL; at += 2u + heard[at + 1]) {
        char text[20];
        check(heard[at + 1] < 0x80 && at + 2 + heard[at + 1] <= size);
        if ((heard[at] & 0xf6) == 0x32) {
            size_t topic = (size_t)heard[at + 2] << 8 | heard[at + 3];
            check(topic >= 2 && memcmp(heard + at + 4, "w/", 2) == 0);
            snprintf(text, sizeof text, "40 02 %02x%02x", heard[at + 4 + topic], heard[at + 5 + topic]);
            mqtt_feed(plane, peer, text);
        }
    }
    settle();
}

static void fuzz_device(uint32_t number) {
    peer_t *peer = peer_find(plane, device);
    if (peer == NULL) {
        device_comes();
    } else if ((number & 1) != 0) {
        breaks(peer);
    }
}

/* The same words from a server that has not logged in. */
static void fuzz_stranger(uint32_t number, bytes_t text) {
    uint64_t user = stored(USER_STREAM), sessions = stored(MESSAGES_STREAM);
    peer_t *peer = rig_peer(plane, (number & 1) != 0 ? CONN_ROUTE : CONN_LEAF, "test:6222");
    check(peer != NULL);
    uint64_t id = peer->id;
    if ((number & 2) != 0) {
        rig_say(plane, peer, "CONNECT {}\r\n");
    }
    say(peer, "RMSG A $MQTT.N.1 " PLACE "1 0\r\n\r\nHMSG A s.a 26 27\r\nNATS/1.0\r\nNmqtt-Kept:1\r\n\r\nx\r\n", text,
        "\r\n");
    check(stored(USER_STREAM) == user && stored(MESSAGES_STREAM) == sessions);
    peer = peer_find(plane, id);
    if (peer != NULL) {
        breaks(peer);
    }
}

static void fuzz_step(peer_t *route, uint8_t first, bytes_t text) {
    uint32_t number = first >> 3, kept;
    switch (first & 7) {
    case 0: fuzz_note(route, number); break;
    case 1: fuzz_message(route, number, false); break;
    case 2: fuzz_keep(route, number); break;
    case 3: fuzz_device(number); break;
    case 4: fuzz_stranger(number, text); break;
    case 5: {
        peer_t *peer = peer_find(plane, leaf);
        if (peer != NULL) {
            say(peer, (number & 1) != 0 ? "LMSG $MQTT.N." : "LMSG $MQTT.", text, "\r\nx\r\n");
        }
        if ((number & 2) != 0 && (peer = peer_find(plane, leaf)) != NULL) {
            fuzz_message(peer, number, true);
        }
        break;
    }
    case 6:
        foggy = true;
        say(route, "RMSG A $MQTT.", text, "\r\nx\r\n");
        break;
    default:
        foggy = true;
        say(route, "HMSG A $MQTT.N.", text, "\r\nx\r\n");
        break;
    }
    route = peer_find(plane, route_asked);
    if (route != NULL && !foggy) {
        check(answers(route, &kept) == 0);
    } else if (route != NULL) {
        (void)rig_heard(route);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1024) {
        return 0;
    }
    fuzz_open();
    device_comes();
    leaf = rig_leaf(plane, 0, "L", NULL)->id;
    peer_t *route = route_of("S2");
    route_asked = route->id;
    rig_feed(plane, route, "RS+ A $MQTT.>\r\n");
    settle();
    (void)rig_heard(route);
    uint32_t steps = 0;
    for (size_t at = 0; at < size && steps++ < STEPS_MAX && (route = peer_find(plane, route_asked)) != NULL;) {
        uint8_t first = data[at++];
        size_t length = (first & 7) >= 4 && at < size ? data[at++] % 200u : 0;
        length = length < size - at ? length : size - at;
        fuzz_step(route, first, bytes_of(data + at, (uint32_t)length));
        at += length;
        device_hears();
    }
    rig_close(plane);
    directory_remove_files(rig_directory);
    return 0;
}
