/* test_plane_mqtt_reads.c: a read of LMDB that fails, or some in a row, at each place of a start with sessions of MQTT
 * and of what their clients do then (mqtt_world.h). Who is not let in comes again. Once all reads work, the clients
 * come back with what they knew, and each message of QoS 2 was taken once, and each of QoS 1 at least once. Reads that
 * fail for minutes: nobody is told that there is no session.
 */
#include <limits.h>

#include "failing_reads.h"
#include "mqtt_world.h"

#define TRIES 40u
#define TURNS 150u /* more than reads are tried before a client hears of it */
#define BEFORE 8u  /* messages that are sent before the start */

/* Sessions, messages and identifiers in flight are in LMDB. */
static void prepare(void) {
    world = fresh_world;
    (void)rig_new_directory();
    begin_anew(0);
    come();
    subscribe_all();
    for (uint32_t i = 0; i < BEFORE; i++) {
        does(MARK_SENT, PUBLISHER, i, 0);
        publishes(i, false);
        if (i % 3 == 0) {
            goes_on();
        }
    }
    settle(); /* the others are under way */
    pass(21);
    core_shutdown(plane);
    rig_close(plane);
    memset(client_ids, 0, sizeof client_ids);
}

/* What pauses is not waited for. */
static void turns(void) {
    for (uint32_t i = 0; i < TURNS; i++) {
        rig_pass_pauses(plane);
        core_backlog(plane);
        rig_turn(plane);
    }
}

/* As control does: until the stream is there. false: it is not. */
static bool begin_stream(void (*wait)(void)) {
    static const char *const parts[] = {"$MQTT_msgs", "{}", "", "", "", "", "", "$MQTT.msgs.>"};
    stream_config_t config = rig_stream;
    plane_event_t event;
    config.retention = 1;
    config.flags = STREAM_ALLOW_TTL;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        const plane_command_t put = {.op = COMMAND_STREAM_PUT, .target = MESSAGES_STREAM, .arg = 1, .token = 900};
        rig_run_with(plane, put, &config, sizeof config, parts, 8);
        wait();
        while (rig_event(plane, EVENT_DONE, &event)) {
            if (event.token != 900) continue;
            CHECK(event.status != STATUS_NOT_FOUND);
            if (event.status == STATUS_OK) return true;
        }
        plane->now.mono_ns += SECOND;
    }
    return false;
}

/* false: somebody was not let in, or was sent away. */
static bool all_come(void) {
    bool all = true;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        all = (is_here(i) || comes(i)) && all;
    }
    return all;
}

static void go_on_with_failing_reads(void) {
    (void)all_come();
    goes_on();
    for (uint32_t i = BEFORE; i < MESSAGES; i++) {
        pass(1);
        (void)all_come();
        if (is_here(PUBLISHER)) {
            does(MARK_SENT, PUBLISHER, i, 0);
            publishes(i, false);
        }
        goes_on();
    }
}

/* Returns how many reads there were. */
static unsigned run(unsigned n, unsigned times, int error) {
    prepare();
    plane = rig_open_small(rig_directory, "", JOURNAL, 0);
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    failing_reads((failing_reads_t){.from = n, .times = times, .error = error});
    CHECK(begin_stream(settle));
    go_on_with_failing_reads();
    unsigned reads = failing_reads_count();
    failing_reads((failing_reads_t){0});
    core_shutdown(plane);
    rig_close(plane);
    memset(client_ids, 0, sizeof client_ids);
    begin_anew(1);
    come_back();
    for (uint32_t i = 0; i < 3; i++) {
        pass(31);
        goes_on();
    }
    check_end("read", n);
    rig_close_and_remove(plane);
    return reads;
}

static void at_each_place(void) {
    unsigned most = run(0, 0, 0);
    CHECK(most > 10);
    for (unsigned n = 1; n <= most; n += test_stride()) {
        (void)run(n, 1, EIO);
    }
    for (unsigned n = 1; n <= most; n += 5 * test_stride()) {
        (void)run(n, 7, n % 2 == 0 ? ENOMEM : MDB_CORRUPTED);
    }
    printf("        %u reads\n", most);
}

/* What CONNACK says: its flags and its reason. */
static uint32_t connack_for(const char *connect) {
    peer_t *peer = peer_new(plane, -1, CONN_MQTT, 1, rig_text("test:1"));
    CHECK(peer != NULL);
    mqtt_say(plane, peer, connect);
    mqtt_judge(plane, peer, "given", NULL);
    size_t size = rig_take_queue(&peer->conn.out);
    const uint8_t *heard = (const uint8_t *)rig_out;
    CHECK(size >= 4 && heard[0] == 0x20);
    return load_be16(heard + 2);
}

/* From the n-th read of a start on the disk gives nothing, for minutes. Returns whether the stream was there by then
 * and its sessions were not. */
static bool given_up(unsigned n) {
    prepare();
    plane = rig_open_small(rig_directory, "", JOURNAL, 0);
    mqtt_limit(plane, MQTT_RIG_LIMITS);
    failing_reads((failing_reads_t){.from = n, .times = UINT_MAX / 2, .error = EIO});
    bool there = begin_stream(turns);
    const mqtt_desk_t *desk = plane->mqtt_desk;
    const mqtt_account_t *keeper = desk == NULL ? NULL : table_find(&desk->accounts, RIG_ACCOUNT);
    return there && keeper != NULL && keeper->unreadable;
}

/* Whoever has a session, or wants one, would throw away its own part of it on the word that there is none. */
static void nobody_hears_that_there_is_none(void) {
    unsigned most = run(0, 0, 0), found = 0;
    for (unsigned n = 1; n <= most; n++) {
        if (given_up(n)) {
            found++;
            CHECK_EQ_U64(0x0003, connack_for("10 0d 0004'MQTT' 04 00 0000 0001'B'"));
            CHECK_EQ_U64(0x0088, connack_for("10 13 0004'MQTT' 05 00 0000 05 11 0000003c 0001'B'"));
            CHECK_EQ_U64(0x0088, connack_for("10 13 0004'MQTT' 05 02 0000 05 11 0000003c 0001'B'"));
            CHECK_EQ_U64(0x0088, connack_for("10 0e 0004'MQTT' 05 00 0000 00 0001'B'"));
            CHECK_EQ_U64(0x0000, connack_for("10 0d 0004'MQTT' 04 02 0000 0001'x'"));
            failing_reads((failing_reads_t){0});
            pass(2);
            come_back(); /* without another start */
            goes_on();
            check_end("read", n);
        }
        failing_reads((failing_reads_t){0});
        rig_close_and_remove(plane);
        memset(client_ids, 0, sizeof client_ids);
    }
    CHECK(found > 0);
    printf("        %u of %u places\n", found, most);
}

int main(void) {
    RUN("whichever read fails, QoS 2 is taken once and QoS 1 at least once, and sessions are as they were",
        at_each_place);
    RUN("while sessions cannot be read nobody hears that there is none, and once they can all are as they were",
        nobody_hears_that_there_is_none);
    return TEST_RESULT();
}
