/* Invariant: whatever another server of the cluster says over a route about streams and about messages that it or this
 * server waits for, in whatever order: a message of QoS 1 is acknowledged to its client only when that server has said
 * at the place that it was told, of that very message, that a stream has it; once; and nothing is left at the end.
 *
 * The input is a list of steps. First byte of each: bits 0 to 2 = what happens, the others = a small number.
 */
#include <stdio.h>

#include "base/check.h"
#include "mqtt_rig.h"

#include "gateway_rig.h"

#define SENT_MAX 64u
#define PLACE_BYTES 100u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct sent {
    char at[PLACE_BYTES]; /* where its answer is believed; empty: nobody was asked */
    bool kept;            /* it was told so there, or no stream is to have it */
    bool acknowledged;
} sent_t;

static sent_t sent[SENT_MAX]; /* by identifier - 1 */
static uint32_t sent_count;
static uint64_t publisher;
static bool placed; /* is there a stream elsewhere? */

static void fuzz_open(void) {
    plane_limits_t limits = rig_limits(NULL);
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_META;
    plane = rig_open_with(NULL, limits);
    named_account(RIG_ACCOUNT, 0, "A");
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    rig_admits_to = RIG_ACCOUNT;
    memset(sent, 0, sizeof sent);
    sent_count = 0;
}

static void fuzz_place(bool is) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "A");
    rig_pack(&strings, "S");
    if (is) rig_pack(&strings, "s.>");
    placed = is;
    rig_run(plane, (plane_command_t){.op = COMMAND_PLACED, .arg = PLACED_STREAM}, &strings);
}

/* The place for the answer, of the message that was just published. */
static void learn_place(peer_t *route, sent_t *one) {
    const char *from = strstr(rig_heard(route), "RMSG A $MQTT.N.");
    from = from == NULL ? NULL : strstr(from, " $MQTT.F.");
    const char *to = from == NULL ? NULL : strchr(from + 1, ' ');
    check(from == NULL || (to != NULL && (size_t)(to - from) < sizeof one->at));
    if (from != NULL) {
        memcpy(one->at, from + 1, (size_t)(to - from - 1));
    }
}

/* Everything that the client was told: what is acknowledged with success has to be kept. */
static void look_at_answers(void) {
    peer_t *peer = peer_find(plane, publisher);
    if (peer == NULL) {
        return;
    }
    size_t size = rig_take_queue(&peer->conn.out);
    for (size_t at = 0; at + 4 <= size;) {
        const uint8_t *packet = (const uint8_t *)rig_out + at;
        uint32_t length = packet[1], id = (uint32_t)packet[2] << 8 | packet[3];
        bool refused = length > 2 && packet[4] >= 0x80;
        if (packet[0] == 0x40) {
            check(id != 0 && id <= sent_count && !sent[id - 1].acknowledged);
            check(refused || sent[id - 1].kept);
            sent[id - 1].acknowledged = true;
        }
        at += 2 + length;
    }
}

static void fuzz_publish(peer_t *route) {
    peer_t *peer = peer_find(plane, publisher);
    if (peer == NULL || !peer_is_read(peer) || sent_count == SENT_MAX) {
        return;
    }
    rig_heard(route);
    char text[60];
    snprintf(text, sizeof text, "32 09 0003's/a' %04x 00 'x'", ++sent_count);
    mqtt_feed(plane, peer, text);
    sent[sent_count - 1].kept = !placed;
    learn_place(route, &sent[sent_count - 1]);
}

static void fuzz_answer(peer_t *route, uint32_t which, bool kept) {
    if (sent_count == 0 || sent[which % sent_count].at[0] == 0) {
        return;
    }
    sent_t *one = &sent[which % sent_count];
    const char *payload = kept ? "{\"stream\":\"S\",\"seq\":1}" : "{\"error\":{\"code\":503}}";
    char line[PLACE_BYTES + 60];
    snprintf(line, sizeof line, "RMSG A %s %zu\r\n%s\r\n", one->at, strlen(payload), payload);
    one->kept |= kept;
    rig_feed(plane, route, line);
}

/* A line about subjects of MQTT, with what the input has as its words: `RMSG A $MQTT.<text> 1`. */
static void fuzz_say(peer_t *route, const char *verb, bytes_t text) {
    char line[400];
    int size = snprintf(line, sizeof line, "%s%.*s\r\nx\r\n", verb, (int)text.size, (const char *)text.at);
    check(size > 0 && (size_t)size < sizeof line);
    if (strlen(line) == (size_t)size) {
        rig_feed(plane, route, line);
    }
}

static void fuzz_step(peer_t *route, uint8_t first, bytes_t text) {
    uint32_t number = first >> 3;
    switch (first & 7) {
    case 0: fuzz_publish(route); break;
    case 1: fuzz_answer(route, number, true); break;
    case 2: fuzz_answer(route, number, false); break;
    case 3: fuzz_say(route, "RMSG A $MQTT.", text); break;
    case 4: fuzz_say(route, "HMSG A ", text); break;
    case 5: fuzz_place((number & 1) != 0); break;
    case 6: time_passes((int64_t)number * NS_PER_SECOND); break;
    default: fuzz_say(route, (number & 1) != 0 ? "RS- A " : "RS+ A ", text); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 2048) {
        return 0;
    }
    fuzz_open();
    publisher = mqtt_client_5(plane)->id;
    peer_t *route = route_of("S2");
    rig_feed(plane, route, "RS+ A s.>\r\n");
    fuzz_place(true);
    uint64_t server = route->id;
    for (size_t at = 0; at < size && (route = peer_find(plane, server)) != NULL;) {
        uint8_t first = data[at++];
        size_t length = (first & 7) >= 3 && at < size ? data[at++] % 200u : 0;
        length = length < size - at ? length : size - at;
        fuzz_step(route, first, bytes_of(data + at, (uint32_t)length));
        at += length;
        look_at_answers();
    }
    rig_close(plane);
    return 0;
}
