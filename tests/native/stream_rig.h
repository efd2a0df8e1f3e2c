/* stream_rig.h: plane_rig.h with a store in a directory of its own, and streams and consumers for it. The journal's
 * thread is real, so what waits for the disk is waited for. */
#ifndef LEAFD_TESTS_STREAM_RIG_H
#define LEAFD_TESTS_STREAM_RIG_H

#include "patience.h"
#include "plane_rig.h"
#include "store/commit.h"

/* Without limits. */
static const stream_config_t rig_stream = {
    .account = RIG_ACCOUNT, .max_msg_size = -1, .max_msgs = -1, .max_bytes = -1, .max_msgs_per_subject = -1};
/* As the official clients make one for pulls. */
static const consumer_config_t rig_consumer = {.account = RIG_ACCOUNT,
                                               .ack_policy = ACK_EXPLICIT,
                                               .max_deliver = -1,
                                               .ack_wait_ns = 30 * NS_PER_SECOND,
                                               .max_ack_pending = 1000,
                                               .max_waiting = 512};
/* Strings of a stream S on s.>, and of a consumer C of all of it. */
static const char *const rig_stream_strings[] = {"S", "{\"name\":\"S\"}", "", "", "", "", "", "s.>"};
static const char *const rig_consumer_strings[] = {"C", "{}", "", "", "", ""};

static char rig_directory[64];

static inline const char *rig_new_directory(void) {
    directory_make(rig_directory, sizeof(rig_directory));
    return rig_directory;
}

static inline plane_t *rig_open_fresh(const char *domain) {
    return rig_open(rig_new_directory(), domain);
}

static inline plane_t *rig_open_again(const char *domain) {
    return rig_open(rig_directory, domain);
}

static inline void rig_close_and_remove(plane_t *plane) {
    rig_close(plane);
    directory_remove(rig_directory);
}

/* Time goes on for jobs that pause, since they could not read something. */
static inline void rig_pass_pauses(plane_t *plane) {
    int64_t pause_ns = plane->js.jobs_due_ns == INT64_MAX ? 0 : plane->js.jobs_due_ns - plane->now.mono_ns;
    plane->now.mono_ns += pause_ns > 0 ? pause_ns : 0;
    plane->now.wall_ns += pause_ns > 0 ? pause_ns : 0;
}

/* Until no work is left, and everything that was promised is on disk. */
static inline void rig_settle(plane_t *plane) {
    for (int64_t until = 0; patient(&until);) {
        rig_pass_pauses(plane);
        rig_turn(plane);
        const store_t *store = plane->js.stores[STORE_FILE];
        if (plane->js.job_count == 0 && plane->js.held[STORE_FILE].count == 0 && store_batch_empty(store)
            && store_durable(store) + 1 == store_batch(store))
            return;
        usleep(200);
    }
    FAIL("the journal does not answer");
}

static inline void rig_run_with(plane_t *plane, plane_command_t command, const void *body, uint32_t size,
                                const char *const parts[], uint32_t count) {
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < count; i++) rig_pack(&strings, parts[i]);
    command.account = RIG_ACCOUNT;
    command.body = body;
    command.body_size = size;
    rig_run(plane, command, &strings);
}

/* Number 1: the stream of rig_stream_strings. */
static inline void rig_put_stream(plane_t *plane, stream_config_t config) {
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PUT, .target = 1, .token = 900}, &config, sizeof(config),
                 rig_stream_strings, 8);
}

/* Number 1 of stream 1: the consumer of rig_consumer_strings. */
static inline void rig_put_consumer(plane_t *plane, consumer_config_t config) {
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 1, .token = 901}, &config,
                 sizeof(config), rig_consumer_strings, 6);
}

static inline void rig_get_message(plane_t *plane, uint64_t token, uint64_t sequence) {
    message_query_t query = {.sequence = sequence};
    rig_strings_t subject = {.size = 0};
    rig_pack(&subject, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_MESSAGE_GET,
                              .target = 1,
                              .token = token,
                              .body = (const uint8_t *)&query,
                              .body_size = sizeof(query)},
            &subject);
}

#endif
