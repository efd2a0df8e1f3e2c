/* test_plane_mqtt_damaged.c: records of sessions of MQTT that are damaged in both places that have them, in data.mdb of
 * a server that was stopped in order. What they say is lost, and told. All other sessions of the account are as they
 * were, and messages are taken. A record that is damaged in one place costs nothing.
 */
#include "disk/keys.h"
#include "mqtt_lasting_rig.h"
#include "store/store.h"

#define CLIENTS 6u

static const kept_t *kept_of(uint32_t i) {
    char name[16];
    snprintf(name, sizeof name, "device%u", i);
    return mqtt_kept_find(plane->mqtt_desk, RIG_ACCOUNT, rig_text(name));
}

static peer_t *comes(uint32_t i, bool anew) {
    char text[64];
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    snprintf(text, sizeof text, "10 13 0004'MQTT' 04 %02x 0000 0007'device%u'", anew ? 2u : 0u, i);
    mqtt_say(plane, peer, text);
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    return peer;
}

/* What CONNACK says: its flags and its reason. */
static uint32_t connack(const peer_t *peer) {
    size_t size = rig_take_queue(&((peer_t *)(uintptr_t)peer)->conn.out);
    CHECK(size >= 4 && rig_out[0] == 0x20);
    return load_be16((const uint8_t *)rig_out + 2);
}

/* Sessions with a subscription each, who have gone, and of QoS 2 an identifier that is in use. */
static void prepare(void) {
    char text[64];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        peer_t *peer = comes(i, false);
        snprintf(text, sizeof text, "82 0a 0001 0005'w/d%u_' 01", i);
        mqtt_say(plane, peer, text);
        mqtt_say(plane, peer, "34 06 0001'z' 0009'x'");
        settle();
        breaks(peer);
    }
}

typedef enum places { ONE_PLACE, BOTH_PLACES } places_t;

/* Flips a bit of each record with that key, which data.mdb has twice, and of its older versions, which nobody reads. */
static void damage(uint32_t kind, uint32_t number, uint32_t id, places_t places) {
    static uint8_t file[32 << 20];
    uint8_t key[16];
    char path[80];
    uint32_t size = id != 0 ? 11 : 9, found = 0;
    key[0] = (uint8_t)kind;
    store_be32(key + 1, MESSAGES_STREAM);
    store_be32(key + 5, number);
    store_be16(key + 9, (uint16_t)id);
    snprintf(path, sizeof path, "%s/data.mdb", rig_directory);
    FILE *data = fopen(path, "r+b");
    CHECK(data != NULL);
    size_t end = fread(file, 1, sizeof file, data);
    CHECK(end > 0 && end < sizeof file);
    for (size_t at = 8; at + size + VALUE_CRC_SIZE < end; at++) {
        /* the size of a key stands in front of it */
        if (file[at - 2] != size || file[at - 1] != 0 || memcmp(file + at, key, size) != 0) {
            continue;
        }
        uint8_t wrong = file[at + size] ^ 1u;
        found++;
        if (places == BOTH_PLACES || found % 2 == 1) {
            CHECK(fseek(data, (long)(at + size), SEEK_SET) == 0 && fwrite(&wrong, 1, 1, data) == 1);
        }
    }
    CHECK(fclose(data) == 0 && found >= 2);
}

/* In order, damage, and a start. */
static void stop_and(void (*spoil)(void)) {
    settle();
    moment_t now = plane->now;
    core_shutdown(plane);
    rig_close(plane);
    spoil();
    plane = mqtt_open(rig_directory);
    plane->now = now;
    begin(1);
}

static bool told(const char *word) {
    plane_event_t event;
    bool found = false;
    while (rig_event(plane, EVENT_ALARM, &event)) {
        found |= memmem(event.payload, event.payload_size, word, strlen(word)) != NULL;
    }
    return found;
}

static uint32_t doomed, doomed_number;

static void spoil_session(void) {
    damage(RECORD_SESSION, doomed_number, 0, BOTH_PLACES);
}

/* Its client hears that there is none, and what it was sent and had sent is not another's. */
static void one_session_is_lost(void) {
    for (doomed = 0; doomed < CLIENTS; doomed += CLIENTS - 1) { /* the lowest number, and the highest */
        prepare();
        doomed_number = kept_of(doomed)->number;
        uint32_t last = kept_of(CLIENTS - 1)->number;
        stop_and(spoil_session);
        CHECK(told("of session"));
        CHECK(kept_of(doomed) == NULL);
        peer_t *publisher = mqtt_client_3(plane);
        mqtt_feed(plane, publisher, "32 09 0004'w/d3' 0007'm'");
        settle();
        MQTT_HEARD("40 02 0007", publisher); /* it is taken */
        for (uint32_t i = 0; i < CLIENTS; i++) {
            peer_t *peer = comes(i, false);
            CHECK_EQ_U64(i == doomed ? 0x0000 : 0x0100, connack(peer));
            CHECK_EQ_U64(i == doomed ? 0 : 1, kept_of(i)->filter_count);
            CHECK_EQ_U64(i != doomed, ids_has(&kept_of(i)->received, 9));
            breaks(peer);
        }
        CHECK(kept_of(doomed)->number > last);
        stop(); /* it is not told again, and nothing of the old one is left */
        CHECK(!told("of session"));
        CHECK_EQ_U64(0x0100, connack(comes(doomed, false)));
        CHECK(kept_of(doomed)->filter_count == 0);
        for (uint32_t i = 0; i < CLIENTS; i++) {
            breaks(comes(i, true));
        }
    }
}

static void spoil_identifier(void) {
    damage(RECORD_SESSION_IN, doomed_number, 9, BOTH_PLACES);
}

static void spoil_one_place(void) {
    damage(RECORD_SESSION, doomed_number, 0, ONE_PLACE);
}

static void spoil_position(void) {
    damage(RECORD_CONSUMER_STATE, doomed_number | UINT32_C(0x80000000), 0, BOTH_PLACES);
}

static void all_are_there(void) {
    for (uint32_t i = 0; i < CLIENTS; i++) {
        peer_t *peer = comes(i, false);
        CHECK_EQ_U64(0x0100, connack(peer));
        CHECK(kept_of(i)->filter_count == 1 && ids_has(&kept_of(i)->received, 9));
        breaks(peer);
    }
}

static void an_identifier_is_known_by_its_key(void) {
    prepare();
    doomed_number = kept_of(2)->number;
    stop_and(spoil_identifier);
    all_are_there();
}

static void one_place_costs_nothing(void) {
    prepare();
    doomed_number = kept_of(2)->number;
    stop_and(spoil_one_place);
    CHECK(!told("of session"));
    all_are_there();
}

static void a_position_is_lost(void) {
    prepare();
    doomed_number = kept_of(2)->number;
    stop_and(spoil_position);
    CHECK(told("where it stood"));
    CHECK(kept_of(2) == NULL && kept_of(1) != NULL && kept_of(3) != NULL);
    CHECK_EQ_U64(0x0000, connack(comes(2, false)));
    CHECK_EQ_U64(0x0100, connack(comes(3, false)));
}

static void spoil_will(void) {
    damage(RECORD_SESSION_WILL, doomed_number, 0, BOTH_PLACES);
}

/* A will with a delay waits on the disk. */
static void a_will_is_lost(void) {
    prepare();
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    mqtt_say(plane, peer,
             "10 29 0004'MQTT' 05 0c 0000 05 11 00000e10 0005'heirs' 05 18 00000e10 0003'w/x' 0005'adieu'");
    mqtt_admit(plane, peer, "given", NULL);
    settle();
    const kept_t *kept = mqtt_kept_find(plane->mqtt_desk, RIG_ACCOUNT, rig_text("heirs"));
    CHECK(kept != NULL);
    doomed_number = kept->number;
    breaks(peer);
    stop_and(spoil_will);
    CHECK(told("its will"));
    all_are_there();
    kept = mqtt_kept_find(plane->mqtt_desk, RIG_ACCOUNT, rig_text("heirs"));
    CHECK(kept != NULL && kept->will == NULL);
}

int main(void) {
    ALONE("a session whose record is damaged in both places is lost and told, and all others go on",
          one_session_is_lost);
    ALONE("an identifier whose record is damaged is in use all the same", an_identifier_is_known_by_its_key);
    ALONE("a record that is damaged in one place costs nothing", one_place_costs_nothing);
    ALONE("a session whose position is lost is lost and told, and all others go on", a_position_is_lost);
    ALONE("a will that is lost is told, and its session goes on", a_will_is_lost);
    return TEST_RESULT();
}
