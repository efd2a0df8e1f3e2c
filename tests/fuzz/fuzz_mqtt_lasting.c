/* Invariant: whatever clients with sessions that outlive their connections do, in whatever order, with crashes between:
 * whoever comes is let in; a message of QoS 2 is taken once by each session that subscribes and once by each group that
 * shares it, at most; and when all have come back and answered, nothing waits in the stream and no identifier of a
 * message is in use. The store is real.
 *
 * The input, byte by byte: the low three bits are what is done (step_t), the next two by which client, the upper three
 * how.
 */
#include <stddef.h>

#include "base/check.h"
#include "mqtt_lasting_rig.h"

#define CLIENTS 3u /* and one that publishes */
#define PUBLISHER CLIENTS
#define GROUPS 2u
#define STEPS_MAX 48u
#define CRASHES_MAX 2u
#define MESSAGES_MAX 26u
#define ROUNDS_MAX 80u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef enum step { COME = 0, GO, SUBSCRIBE, UNSUBSCRIBE, PUBLISH, ANSWER, CRASH, RAW } step_t;

typedef struct client {
    uint64_t peer; /* 0: it is away */
    bool used[UINT16_MAX + 1];
} client_t;

static client_t clients[CLIENTS + 1];
static uint32_t taken[CLIENTS][MESSAGES_MAX]; /* of QoS 2 */
static uint32_t published, crashes;

static peer_t *peer_of(uint32_t client) {
    peer_t *peer = clients[client].peer == 0 ? NULL : peer_find(plane, clients[client].peer);
    return peer == NULL || peer->state != PEER_ADMITTED ? NULL : peer;
}

static void says(uint32_t client, const char *text) {
    peer_t *peer = peer_of(client);
    if (peer != NULL && peer_is_read(peer)) {
        mqtt_say(plane, peer, text);
    }
}

static void come(uint32_t client) {
    char text[64];
    if (peer_of(client) != NULL) {
        return;
    }
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    check(peer != NULL);
    clients[client].peer = peer->id;
    snprintf(text, sizeof text, "10 0d 0004'MQTT' 04 00 0000 0001'%c'", (char)('A' + client));
    mqtt_say(plane, peer, text);
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    check(peer_of(client) != NULL && peer->session->admitted);
}

static void go(uint32_t client, uint32_t how) {
    peer_t *peer = peer_of(client);
    if (peer == NULL) {
        return;
    }
    if (how % 2 == 0) {
        mqtt_say(plane, peer, "e0 00");
    } else {
        peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("its line broke"));
    }
    settle();
    clients[client].peer = 0;
}

static const char *const filters[] = {"0003'w/#'", "000c'$share/g/w/#'", "0003'w/a'", "000c'$share/h/w/a'"};
static const uint8_t filter_sizes[] = {5, 14, 5, 14};

static void subscribe(uint32_t client, uint32_t how, bool subscribes) {
    char text[64];
    uint32_t which = how % 4;
    int size = snprintf(text, sizeof text, "%02x %02x 0001 %s", subscribes ? 0x82u : 0xa2u,
                        2u + filter_sizes[which] + subscribes, filters[which]);
    if (subscribes) {
        (void)snprintf(text + size, sizeof text - (size_t)size, " %02x", how >= 4 ? 2u : 1u);
    }
    says(client, text);
}

static void publishes(uint32_t how) {
    char text[64];
    if (published == MESSAGES_MAX) {
        return;
    }
    uint32_t qos = 1 + how % 2;
    snprintf(text, sizeof text, "%02x 08 0003'w/a' %04x '%c'", 0x30u | qos << 1, published + 1,
             (char)('a' + published));
    published++;
    says(PUBLISHER, text);
}

/* Takes it when its identifier is not in use (5: 4.3.3, method A). */
static void hears_message(uint32_t client, const uint8_t *packet) {
    char text[16];
    uint32_t qos = packet[0] >> 1 & 3u, id = qos == 0 ? 0 : load_be16(packet + 4u + packet[3]);
    uint32_t message = (uint32_t)(packet[1u + packet[1]] - 'a');
    check(message < MESSAGES_MAX);
    if (qos == 2 && !clients[client].used[id]) {
        clients[client].used[id] = true;
        taken[client][message]++;
    }
    if (qos != 0) {
        snprintf(text, sizeof text, "%02x 02 %04x", qos == 1 ? 0x40u : 0x50u, id);
        says(client, text);
    }
}

static void hears(uint32_t client, const uint8_t *packet) {
    char text[16];
    uint32_t kind = packet[0] >> 4, id = kind == 2 || kind == 3 ? 0 : load_be16(packet + 2);
    if (kind == 3) {
        hears_message(client, packet);
    } else if (kind == 5 || kind == 6) { /* PUBREC, PUBREL */
        clients[client].used[id] = clients[client].used[id] && kind == 5;
        snprintf(text, sizeof text, "%02x 02 %04x", kind == 5 ? 0x62u : 0x70u, id);
        says(client, text);
    }
}

/* false: it heard nothing. */
static bool answers(uint32_t client) {
    peer_t *peer = peer_of(client);
    uint8_t heard[16384];
    size_t size = peer == NULL ? 0 : rig_take_queue(&peer->conn.out);
    check(size <= sizeof heard);
    memcpy(heard, rig_out, size);
    for (const uint8_t *at = heard; at < heard + size; at += 2u + at[1]) {
        check((at[1] & 0x80u) == 0);
        hears(client, at);
    }
    settle();
    return size != 0;
}

/* Bytes of the input, as they are, to a client that then is away. The driver never hands on none. */
static void raw(uint32_t client, bytes_t sent) {
    peer_t *peer = peer_of(client);
    if (peer == NULL || !peer_is_read(peer) || sent.size == 0) {
        return;
    }
    mqtt_say_bytes(plane, peer, sent.at, sent.size);
    settle();
    go(client, 1);
}

static void step(uint8_t byte, bytes_t rest) {
    uint32_t client = (byte >> 3 & 3u) % CLIENTS, how = byte >> 5;
    switch ((step_t)(byte & 7u)) {
    case COME: come(client); break;
    case GO: go(client, how); break;
    case SUBSCRIBE: subscribe(client, how, true); break;
    case UNSUBSCRIBE: subscribe(client, how, false); break;
    case PUBLISH: publishes(how); break;
    case ANSWER: (void)answers(client); break;
    case CRASH:
        if (crashes++ < CRASHES_MAX) {
            crash();
            for (uint32_t i = 0; i <= CLIENTS; i++) clients[i].peer = 0;
            come(PUBLISHER);
        }
        break;
    default: raw(client, bytes_of(rest.at, rest.size < how ? rest.size : how)); break;
    }
    settle();
}

/* All come back, answer, and hear no more. */
static void comes_to_an_end(void) {
    for (uint32_t i = 0; i <= CLIENTS; i++) come(i);
    for (uint32_t round = 0, quiet = 0; quiet < 3; round++) {
        check(round < ROUNDS_MAX);
        quiet++;
        for (uint32_t i = 0; i <= CLIENTS; i++) {
            if (answers(i)) quiet = 0;
        }
        pass(2); /* what waited for somebody with room */
    }
}

static void check_end(void) {
    stream_state_t state;
    const mqtt_account_t *keeper = table_find(&((const mqtt_desk_t *)plane->mqtt_desk)->accounts, RIG_ACCOUNT);
    store_stream_state(keeper->messages->store, &state);
    check(state.messages == 0);
    map_walk_t walk = {0};
    for (const kept_t *kept; (kept = table_next(&keeper->numbers, &walk)) != NULL;) {
        check(kept->released.count == 0);
    }
    for (uint32_t i = 0; i < published; i++) {
        uint32_t times = 0;
        for (uint32_t j = 0; j < CLIENTS; j++) {
            check(taken[j][i] <= 1 + GROUPS);
            times += taken[j][i];
        }
        check(times <= CLIENTS + GROUPS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > STEPS_MAX) {
        return 0;
    }
    memset(clients, 0, sizeof clients);
    memset(taken, 0, sizeof taken);
    published = crashes = 0;
    directory_make_in_memory(rig_directory, sizeof rig_directory);
    plane = mqtt_open(rig_directory);
    begin(0);
    come(PUBLISHER);
    for (size_t i = 0; i < size; i++) {
        step(data[i], bytes_of(data + i + 1, (uint32_t)(size - i - 1)));
    }
    comes_to_an_end();
    check_end();
    rig_close(plane);
    directory_remove_files(rig_directory);
    return 0;
}
