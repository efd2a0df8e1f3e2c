/* test_plane_mqtt_powercut.c: what sessions of MQTT have of their messages after a power cut at any sync.
 *
 * A publisher sends messages of QoS 1 and 2, a session subscribes to all of them, two share them. What each client has
 * done is noted among the writes (powercut.h), so that an image of the disk has the clients of that moment beside it.
 * The image is opened, the clients come back with what they knew, say again what was not answered, and go on to the
 * end. Then, for each message that was sent before the cut:
 *
 *     QoS 2    taken once by the session, and once by one of the two
 *     QoS 1    taken by the session, and by one of the two; more than once only if a cut or a lost connection was
 *              between, which this test does not count
 *
 * and the stream is empty, and no identifier is in use. Clients take a message of QoS 2 when its PUBLISH comes and its
 * identifier is not in use (5: 4.3.3, method A).
 *
 *     LEAFD_POWER_CUTS=5000    so many images, in place of one for each sync and a few beside it
 */
#include "mqtt_lasting_rig.h"
#include "powercut.h"

#define MESSAGES 14u /* half of each QoS */
#define PUBLISHER 0u
#define RECEIVERS 3u /* clients 1 to 3: the session, and the two that share */
#define CLIENTS (1u + RECEIVERS)
#define ROUNDS_MAX 60u
#define JOURNAL (UINT64_C(1) << 20)

/* Notes. The value: what client, message and identifier: 8, 8 and 16 bits. */
typedef enum mark {
    MARK_SENT = NOTE_MARK, /* the publisher: PUBLISH */
    MARK_RECEIVED,         /* it heard PUBREC, and so says PUBREL */
    MARK_DONE,             /* it heard PUBACK or PUBCOMP */
    MARK_TAKEN,            /* a receiver: a message, its identifier is in use if that is not 0 */
    MARK_FREED,            /* it heard PUBREL */
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
static powercut_chance_t chance = {.state = 7};

static uint32_t qos_of_message(uint32_t message) {
    return 1 + message % 2;
}

/* ---- what clients know ------------------------------------------------------------------------------------------- */

static void apply(uint32_t kind, uint64_t value) {
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
static void does(mark_t kind, uint32_t client, uint32_t message, uint32_t id) {
    uint64_t value = (uint64_t)client << 24 | message << 16 | id;
    powercut_note((uint32_t)kind, value);
    apply((uint32_t)kind, value);
}

/* ---- what they say ----------------------------------------------------------------------------------------------- */

static void publishes(uint32_t message, bool again) {
    char text[64];
    snprintf(text, sizeof text, "%02x 08 0003'w/a' %04x '%c'", 0x30 | qos_of_message(message) << 1 | (again ? 8u : 0u),
             message + 1, (char)('a' + message));
    mqtt_say(plane, clients[PUBLISHER], text);
}

static void answers_with(uint32_t client, uint32_t kind, uint32_t id) {
    char text[16];
    snprintf(text, sizeof text, "%02x 02 %04x", kind, id);
    mqtt_say(plane, clients[client], text);
}

static void hears_message(uint32_t client, const uint8_t *packet) {
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

static void hears(uint32_t client, const uint8_t *packet) {
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
static void goes_on(void) {
    for (uint32_t round = 0, quiet = 0; quiet < 2; round++) {
        CHECK(round < ROUNDS_MAX);
        settle();
        quiet++;
        for (uint32_t i = 0; i < CLIENTS; i++) {
            uint8_t heard[8192];
            size_t size = rig_take_queue(&clients[i]->conn.out);
            CHECK(size <= sizeof heard);
            memcpy(heard, rig_out, size);
            quiet = size != 0 ? 0 : quiet;
            for (const uint8_t *at = heard; at < heard + size; at += 2u + at[1]) hears(i, at);
        }
    }
}

static void come(void) {
    for (uint32_t i = 0; i < CLIENTS; i++) {
        char text[64];
        clients[i] = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
        CHECK(clients[i] != NULL);
        snprintf(text, sizeof text, "10 0d 0004'MQTT' 04 00 0000 0001'%c'", (char)('A' + i));
        mqtt_say(plane, clients[i], text);
        mqtt_admit(plane, clients[i], "given", NULL);
    }
    settle();
}

/* ---- before and after the cut ------------------------------------------------------------------------------------ */

static void open_here(uint64_t loading) {
    plane = rig_open_small(rig_directory, "", JOURNAL, 0);
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    begin(loading);
}

static void record(void) {
    world = fresh_world;
    (void)rig_new_directory();
    open_here(0);
    come();
    mqtt_say(plane, clients[1], "82 08 0001 0003'w/#' 02");
    mqtt_say(plane, clients[2], "82 11 0001 000c'$share/g/w/#' 02");
    mqtt_say(plane, clients[3], "82 11 0001 000c'$share/g/w/#' 02");
    goes_on();
    powercut_record(rig_directory);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        does(MARK_SENT, PUBLISHER, i, 0);
        publishes(i, false);
        if (i % 3 == 0) { /* some are under way with others */
            goes_on();
        }
    }
    goes_on();
    powercut_stop();
    rig_close_and_remove(plane);
}

static void check_end(uint64_t cut) {
    stream_state_t state;
    const mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper = table_find(&desk->accounts, RIG_ACCOUNT);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t alone = world.taken[0][i], shared = world.taken[1][i] + world.taken[2][i];
        bool right = world.sent[i] == SENT_NOT ? alone == 0 && shared == 0
                     : qos_of_message(i) == 2  ? alone == 1 && shared == 1
                                               : alone >= 1 && shared >= 1;
        if (!right || (world.sent[i] != SENT_NOT && world.sent[i] != SENT_DONE)) {
            FAIL("cut behind %llu: message %u of QoS %u, sent %u: taken %u and %u times", (unsigned long long)cut, i,
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

static void check_cut(uint64_t cut, powercut_plan_t plan) {
    world = fresh_world;
    for (uint64_t i = 0; i < cut; i++) {
        if (powercut.notes[i].kind >= NOTE_MARK) apply(powercut.notes[i].kind, powercut.notes[i].offset);
    }
    powercut_image(cut, plan, &chance, rig_new_directory());
    open_here(1);
    come();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (world.sent[i] == SENT_ONCE) publishes(i, true);
        if (world.sent[i] == SENT_RECEIVED) answers_with(PUBLISHER, 0x62, i + 1);
    }
    goes_on();
    check_end(cut);
    rig_close_and_remove(plane);
}

static bool is_sync(uint64_t note) {
    return powercut.notes[note].kind == NOTE_SYNCED || powercut.notes[note].kind == NOTE_DSYNCED;
}

static void cuts_at_each_sync(void) {
    const char *wanted = getenv("LEAFD_POWER_CUTS");
    uint64_t most = wanted == NULL ? UINT64_MAX : strtoull(wanted, NULL, 10), done = 0, syncs = 0;
    record();
    for (uint64_t i = 0; i < powercut.count && done < most; i++) {
        if (!is_sync(i)) continue;
        syncs++;
        check_cut(i, PLAN_NONE);     /* all but this sync */
        check_cut(i + 1, PLAN_NONE); /* just behind it */
        check_cut(i, (powercut_plan_t)(powercut_next(&chance) % PLAN_COUNT));
        done += 3;
    }
    CHECK(done >= most || syncs >= MESSAGES); /* or the test proves little */
    for (; wanted != NULL && done < most; done++) {
        check_cut(powercut_next(&chance) % (powercut.count + 1),
                  (powercut_plan_t)(powercut_next(&chance) % PLAN_COUNT));
    }
    printf("        %llu power cuts at %llu syncs\n", (unsigned long long)done, (unsigned long long)syncs);
    powercut_forget();
    free(powercut.notes);
}

int main(void) {
    RUN("after a power cut at any sync QoS 2 is taken once and QoS 1 at least once, by sessions and what they share",
        cuts_at_each_sync);
    return TEST_RESULT();
}
