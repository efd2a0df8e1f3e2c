/* mqtt_world.h: a publisher of MQTT that sends messages of QoS 1 and 2, a session that subscribes to all of them, and
 * two that share them, on the rig of lasting sessions. For tests of power cuts and of reads that fail: what each client
 * knows, and what has to hold in the end of each message that was sent:
 *
 *     QoS 2    taken once by the session, and once by one of the two
 *     QoS 1    taken by the session, and by one of the two; more than once only if a cut or a lost connection was
 *              between, which these tests do not count
 *
 * and the stream is empty, and no identifier is in use. Clients take a message of QoS 2 when its PUBLISH comes and its
 * identifier is not in use (5: 4.3.3, method A).
 */
#ifndef LEAFD_TESTS_MQTT_WORLD_H
#define LEAFD_TESTS_MQTT_WORLD_H

#include "mqtt_lasting_rig.h"

#define MQTT_WORLD_MARKS 100u

#define MESSAGES 14u /* half of each QoS */
#define PUBLISHER 0u
#define RECEIVERS 3u /* clients 1 to 3: the session, and the two that share */
#define CLIENTS (1u + RECEIVERS)
#define ROUNDS_MAX 60u
#define JOURNAL (UINT64_C(1) << 20)

/* What clients do. The value: what client, message and identifier: 8, 8 and 16 bits. */
typedef enum mark {
    MARK_SENT = MQTT_WORLD_MARKS, /* the publisher: PUBLISH */
    MARK_RECEIVED,                /* it heard PUBREC, and so says PUBREL */
    MARK_DONE,                    /* it heard PUBACK or PUBCOMP */
    MARK_TAKEN,                   /* a receiver: a message, its identifier is in use if that is not 0 */
    MARK_FREED,                   /* it heard PUBREL */
} mark_t;

typedef enum sent { SENT_NOT = 0, SENT_ONCE, SENT_RECEIVED, SENT_DONE } sent_t;

typedef struct world {
    sent_t sent[MESSAGES];
    uint32_t taken[RECEIVERS][MESSAGES];
    bool used[RECEIVERS][UINT16_MAX + 1];
    uint32_t commanded; /* what is sent by now */
} world_t;

static world_t world, fresh_world;
static peer_t *clients[CLIENTS];
static uint64_t client_ids[CLIENTS];                 /* 0: it is not here */
static void (*noted)(uint32_t kind, uint64_t value); /* NULL: nobody notes it */

static inline uint32_t qos_of_message(uint32_t message) {
    return 1 + message % 2;
}

/* ---- what clients know ------------------------------------------------------------------------------------------- */

static inline void apply(uint32_t kind, uint64_t value) {
    uint32_t client = (uint32_t)(value >> 24), message = value >> 16 & 255u, id = value & 65535u;
    switch (kind) {
    case MARK_SENT: world.sent[message] = SENT_ONCE; break;
    case MARK_RECEIVED: world.sent[message] = SENT_RECEIVED; break;
    case MARK_DONE: world.sent[message] = SENT_DONE; break;
    case MARK_TAKEN:
        world.taken[client - 1][message]++;
        world.used[client - 1][id] = id != 0;
        break;
    default: world.used[client - 1][id] = false; break;
    }
}

/* Before the server hears of it. */
static inline void does(mark_t kind, uint32_t client, uint32_t message, uint32_t id) {
    uint64_t value = (uint64_t)client << 24 | message << 16 | id;
    if (noted != NULL) noted((uint32_t)kind, value);
    apply((uint32_t)kind, value);
}

static inline bool is_here(uint32_t client) {
    const peer_t *peer = client_ids[client] != 0 ? peer_find(plane, client_ids[client]) : NULL;
    return peer != NULL && peer == clients[client] && peer->state == PEER_ADMITTED;
}

/* ---- what they say ----------------------------------------------------------------------------------------------- */

static inline void publishes(uint32_t message, bool again) {
    char text[64];
    snprintf(text, sizeof text, "%02x 08 0003'w/a' %04x '%c'", 0x30 | qos_of_message(message) << 1 | (again ? 8u : 0u),
             message + 1, (char)('a' + message));
    mqtt_say(plane, clients[PUBLISHER], text);
}

static inline void answers_with(uint32_t client, uint32_t kind, uint32_t id) {
    char text[16];
    snprintf(text, sizeof text, "%02x 02 %04x", kind, id);
    mqtt_say(plane, clients[client], text);
}

static inline void hears_message(uint32_t client, const uint8_t *packet) {
    uint32_t qos = packet[0] >> 1 & 3u, id = load_be16(packet + 4u + packet[3]);
    uint32_t message = (uint32_t)(packet[1u + packet[1]] - 'a');
    CHECK(message < MESSAGES && qos == qos_of_message(message));
    if (qos == 1) {
        does(MARK_TAKEN, client, message, 0);
        answers_with(client, 0x40, id);
        return;
    }
    if (!world.used[client - 1][id]) {
        does(MARK_TAKEN, client, message, id);
    }
    answers_with(client, 0x50, id);
}

static inline void hears(uint32_t client, const uint8_t *packet) {
    uint32_t kind = packet[0] >> 4, id = kind == 2 || kind == 3 ? 0 : load_be16(packet + 2);
    if (kind == 3) {
        hears_message(client, packet);
    } else if (kind == 6) { /* PUBREL */
        does(MARK_FREED, client, 0, id);
        answers_with(client, 0x70, id);
    } else if (kind == 5) { /* PUBREC */
        does(MARK_RECEIVED, client, id - 1, 0);
        answers_with(client, 0x62, id);
    } else if (kind == 4 || kind == 7) { /* PUBACK, PUBCOMP */
        does(MARK_DONE, client, id - 1, 0);
    }
}

/* All hear what there is, until nothing comes any more. */
static inline void goes_on(void) {
    for (uint32_t round = 0, quiet = 0; quiet < 2; round++) {
        CHECK(round < ROUNDS_MAX);
        settle();
        quiet++;
        for (uint32_t i = 0; i < CLIENTS; i++) {
            uint8_t heard[8192];
            if (!is_here(i)) continue;
            size_t size = rig_take_queue(&clients[i]->conn.out);
            CHECK(size <= sizeof heard);
            memcpy(heard, rig_out, size);
            quiet = size != 0 ? 0 : quiet;
            for (const uint8_t *at = heard; at < heard + size; at += 2u + at[1]) hears(i, at);
        }
    }
}

/* false: it was not let in. */
static inline bool comes(uint32_t i) {
    char text[64];
    clients[i] = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(clients[i] != NULL);
    client_ids[i] = clients[i]->id;
    snprintf(text, sizeof text, "10 0d 0004'MQTT' 04 00 0000 0001'%c'", (char)('A' + i));
    mqtt_say(plane, clients[i], text);
    mqtt_admit(plane, clients[i], "given", NULL);
    settle();
    return is_here(i) && clients[i]->session->admitted;
}

static inline void come(void) {
    for (uint32_t i = 0; i < CLIENTS; i++) {
        CHECK(comes(i));
    }
}

static inline void begin_anew(uint64_t loading) {
    plane = rig_open_small(rig_directory, "", JOURNAL, 0);
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    begin(loading);
}

/* A session subscribes to all, and two share it. */
static inline void subscribe_all(void) {
    mqtt_say(plane, clients[1], "82 08 0001 0003'w/#' 02");
    mqtt_say(plane, clients[2], "82 11 0001 000c'$share/g/w/#' 02");
    mqtt_say(plane, clients[3], "82 11 0001 000c'$share/g/w/#' 02");
    goes_on();
}

/* With what they knew, they say again what was not answered. */
static inline void come_back(void) {
    come();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (world.sent[i] == SENT_ONCE) publishes(i, true);
        if (world.sent[i] == SENT_RECEIVED) answers_with(PUBLISHER, 0x62, i + 1);
    }
    goes_on();
}

static inline void check_end(const char *what, uint64_t nth) {
    stream_state_t state;
    const mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper = table_find(&desk->accounts, RIG_ACCOUNT);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t alone = world.taken[0][i], shared = world.taken[1][i] + world.taken[2][i];
        bool right = world.sent[i] == SENT_NOT ? alone == 0 && shared == 0
                     : qos_of_message(i) == 2  ? alone == 1 && shared == 1
                                               : alone >= 1 && shared >= 1;
        if (!right || (world.sent[i] != SENT_NOT && world.sent[i] != SENT_DONE)) {
            FAIL("%s %llu: message %u of QoS %u, sent %u: taken %u and %u times", what, (unsigned long long)nth, i,
                 qos_of_message(i), (uint32_t)world.sent[i], alone, shared);
        }
    }
    store_stream_state(keeper->messages->store, &state);
    CHECK_EQ_U64(0, state.messages);
    map_walk_t walk = {0};
    for (const kept_t *kept; (kept = table_next(&keeper->numbers, &walk)) != NULL;) {
        CHECK_EQ_U64(0, kept->received.count + kept->released.count);
    }
    for (uint32_t i = 0; i < RECEIVERS; i++) {
        for (uint32_t id = 0; id <= UINT16_MAX; id++) CHECK(!world.used[i][id]);
    }
}

#endif
