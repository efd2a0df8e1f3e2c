/* test_plane_mqtt_reads.c: a read of LMDB that fails, or some in a row, at each place of a start with sessions of MQTT
 * and of what their clients do then (mqtt_world.h). Who is not let in comes again. Once all reads work, the clients
 * come back with what they knew, and each message of QoS 2 was taken once, and each of QoS 1 at least once.
 */
#include "failing_reads.h"
#include "mqtt_world.h"

#define TRIES 40u
#define BEFORE 8u /* messages that are sent before the start */

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

/* As control does: until the stream is there. */
static void begin_stream(void) {
    static const char *const parts[] = {"$MQTT_msgs", "{}", "", "", "", "", "", "$MQTT.msgs.>"};
    stream_config_t config = rig_stream;
    plane_event_t event;
    config.retention = 1;
    config.flags = STREAM_ALLOW_TTL;
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        const plane_command_t put = {.op = COMMAND_STREAM_PUT, .target = MESSAGES_STREAM, .arg = 1, .token = 900};
        rig_run_with(plane, put, &config, sizeof config, parts, 8);
        settle();
        while (rig_event(plane, EVENT_DONE, &event)) {
            if (event.token != 900) continue;
            CHECK(event.status != STATUS_NOT_FOUND);
            if (event.status == STATUS_OK) return;
        }
        pass(1);
    }
    FAIL("the stream is not there");
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
    begin_stream();
    go_on_with_failing_reads();
    unsigned reads = failing_reads_count();
    failing_reads((failing_reads_t){0});
    core_shutdown(plane);
    rig_close(plane); /* what cannot be read for long lets nobody in until the next start */
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

int main(void) {
    RUN("whichever read fails, QoS 2 is taken once and QoS 1 at least once, and sessions are as they were",
        at_each_place);
    return TEST_RESULT();
}
