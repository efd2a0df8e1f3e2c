/* plane_reads.h: a plane on a store of its own of which a read of LMDB fails, at one place after the other. What is
 * refused meanwhile is asked again, as control and clients do. Scenes: test_plane_reads.c, test_plane_scenes_reads.c.
 */
#ifndef LEAFD_TESTS_PLANE_READS_H
#define LEAFD_TESTS_PLANE_READS_H

#include <time.h>

#include "failing_reads.h"
#include "stream_rig.h"

#define TRIES 60
#define CI_STRIDE 9 /* every so many places, from a drawn one on, unless LEAFD_TEST_STRIDE says otherwise */

static plane_t *plane;
static peer_t *client;
static stream_config_t config;
static consumer_config_t reader;
static const char *const *reader_strings = rig_consumer_strings;
static unsigned failing_at;
static bool told;
static void (*listen_to)(const char *heard); /* each of what the client hears, once */

#define READS_CHECK(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) FAIL("read %u fails: %s", failing_at, #condition);                                           \
    } while (0)

static inline void pass(int64_t ns) {
    plane->now.mono_ns += ns;
    plane->now.wall_ns += ns;
    rig_turn(plane);
}

/* A turn, and time goes on while the plane would sleep. */
static inline void sleep_a_turn(void) {
    int64_t sleeps_ns = core_sleep_ns(plane);
    plane->more = false; /* as the driver does */
    pass(sleeps_ns < NS_PER_MS ? sleeps_ns : NS_PER_MS);
}

static inline void again(unsigned *tries) {
    READS_CHECK(++*tries < TRIES);
    told = true;
    if (plane != NULL) pass(10 * NS_PER_MS);
}

static inline const char *hear(void) {
    const char *heard = rig_heard(client);
    if (listen_to != NULL) listen_to(heard);
    return heard;
}

static inline void say(const char *line) {
    rig_feed(plane, client, line);
}

/* Until it is answered by what is expected; a refusal is followed by another try. */
static inline void insist(const char *line, const char *expected) {
    unsigned tries = 0;
    say(line);
    for (unsigned turns = 0;; turns++) {
        const char *heard = hear();
        bool refused = strstr(heard, "error") != NULL;
        if (!refused && strstr(heard, expected) != NULL) return;
        if (refused) {
            again(&tries);
            say(line);
        }
        READS_CHECK(turns < 20000);
        sleep_a_turn();
        usleep(50);
    }
}

/* The answer of that command; of other events alarms are remembered. */
static inline plane_event_t answer(uint64_t token) {
    plane_event_t event = {0};
    for (int64_t until = 0; patient(&until); usleep(50)) {
        while (exchange_poll(&plane->exchange, &event, 1) != 0) {
            told |= event.kind == EVENT_ALARM;
            if (event.kind == EVENT_DONE && event.token == token) return event;
            exchange_release(&plane->exchange, 1);
        }
        sleep_a_turn();
    }
    FAIL("read %u fails: a command has no answer", failing_at);
    return event;
}

static inline int32_t answered(uint64_t token) {
    int32_t status = answer(token).status;
    exchange_release(&plane->exchange, 1);
    return status;
}

static inline void put_stream(bool loading) {
    unsigned tries = 0;
    for (;;) {
        rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 1, .token = 1, .arg = loading},
                     &config, sizeof config, rig_stream_strings, 8);
        int32_t status = answered(1);
        READS_CHECK(status != STATUS_NOT_FOUND);
        if (status == STATUS_OK) break;
        again(&tries);
    }
}

static inline void put_consumer(bool loading) {
    unsigned tries = 0;
    for (;;) {
        rig_run_with(
            plane,
            (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 1, .token = 2, .arg2 = loading ? 1 : 0},
            &reader, sizeof reader, reader_strings, 6);
        int32_t status = answered(2);
        READS_CHECK(status != STATUS_NOT_FOUND);
        if (status == STATUS_OK) break;
        again(&tries);
    }
}

static inline void start(void) {
    plane = NULL;
    for (unsigned tries = 0; plane == NULL;) {
        plane_t *made = calloc(1, sizeof *made);
        CHECK(made != NULL);
        made->now = clock_now();
        plane_limits_t limits = rig_limits(rig_directory);
        char reason[PLANE_REASON_SIZE] = "";
        if (core_open(made, &limits, rig_directory, NULL, reason) == STATUS_OK) {
            plane = made;
            break;
        }
        READS_CHECK(reason[0] != 0);
        core_close(made);
        free(made);
        again(&tries);
    }
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "");
}

static inline void join(void) {
    client = rig_client(plane);
    say("SUB _I.> 1\r\n");
}

/* Where a scene begins, and how far apart its places are. */
static inline unsigned stride(void) {
    return getenv("LEAFD_TEST_STRIDE") != NULL ? test_stride() : CI_STRIDE;
}

static inline unsigned first_place(void) {
    return 1 + (unsigned)time(NULL) % stride();
}

#endif
