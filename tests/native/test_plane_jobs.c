/* test_plane_jobs.c: work on a stream that takes more than one step: it is answered once, completely, while others are
 * served between the steps; and nothing is left of it when its stream, its client or the plane ends in the middle
 * (AddressSanitizer looks for leaks).
 */
#include "stream_rig.h"

#define MESSAGES 24000u
#define SUBJECTS 12000u
#define COMMANDS 5u

/* Messages on s.0 .. s.11999, twice around; one of a kind: s.rare, behind the first third. */
static plane_t *open_filled(void) {
    plane_t *plane = rig_open_small(rig_new_directory(), "", 16 << 20, 0);
    stream_config_t config = rig_stream;
    config.flags = STREAM_ALLOW_DIRECT | STREAM_ALLOW_ROLLUP;
    rig_put_stream(plane, config);
    peer_t *a = rig_client(plane);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        char line[64];
        if (i == MESSAGES / 3) {
            snprintf(line, sizeof(line), "PUB s.rare 1\r\nx\r\n");
        } else {
            snprintf(line, sizeof(line), "PUB s.%u 1\r\nx\r\n", i % SUBJECTS);
        }
        rig_say(plane, a, line);
        if (i % 4000 == 3999) rig_settle(plane);
    }
    rig_settle(plane);
    peer_doom(plane, a, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    plane_event_t event;
    while (rig_event(plane, EVENT_DONE, &event)) {
    }
    return plane;
}

/* One of each that asks through a command; tokens 1 .. COMMANDS. */
static void command_all(plane_t *plane) {
    const char *filter[] = {"s.*"};
    const char *none[] = {"s.none.*"};
    const char *consumer[] = {"C", "{}", "", "", "", "", "s.*"};
    consumer_config_t config = {.account = RIG_ACCOUNT,
                                .flags = CONSUMER_MEMORY,
                                .ack_policy = ACK_EXPLICIT,
                                .max_deliver = -1,
                                .deliver_policy = DELIVER_BY_START_SEQUENCE,
                                .opt_start_seq = MESSAGES / 2,
                                .max_ack_pending = 10,
                                .ack_wait_ns = 30 * NS_PER_SECOND,
                                .max_waiting = 10};
    message_query_t query = {.sequence = 1, .mode = QUERY_NEXT_BY_SUBJECT};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_STATE, .target = 1, .token = 1}, NULL, 0, filter, 1);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_MESSAGE_GET, .target = 1, .token = 2}, &query, sizeof(query),
                 none, 1);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = 7, .token = 3}, &config,
                 sizeof(config), consumer, 7);
    query.mode = QUERY_LAST_BY_SUBJECT;
    rig_run_with(plane, (plane_command_t){.op = COMMAND_MESSAGE_GET, .target = 1, .token = 4}, &query, sizeof(query),
                 none, 1);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_PURGE, .target = 1, .token = 5, .arg2 = 3}, NULL, 0,
                 none, 1);
}

static void check_commands(plane_t *plane) {
    bool done[COMMANDS + 1] = {false};
    plane_event_t event;
    while (rig_event(plane, EVENT_DONE, &event)) {
        if (event.token == 0 || event.token > COMMANDS) continue;
        CHECK(!done[event.token]);
        done[event.token] = true;
        CHECK_EQ_I64(event.token == 2 || event.token == 4 ? STATUS_NOT_FOUND : STATUS_OK, event.status);
        if (event.token == 1) {
            stream_state_t state;
            memcpy(&state, event.payload, sizeof(state));
            CHECK_EQ_U64(SUBJECTS + 1, state.subjects_matched);
            CHECK(event.payload_size > sizeof(state) + SUBJECTS * 15);
        } else if (event.token == 3) {
            consumer_state_t state;
            memcpy(&state, event.payload, sizeof(state));
            CHECK_EQ_U64(MESSAGES - MESSAGES / 2 + 1, state.pending);
        } else if (event.token == 5) {
            CHECK_EQ_U64(0, event.arg);
        }
    }
    for (uint32_t i = 1; i <= COMMANDS; i++) CHECK(done[i]);
}

static void publish_request(plane_t *plane, peer_t *peer, const char *subject, const char *body) {
    char line[256];
    snprintf(line, sizeof(line), "PUB %s _I.1 %zu\r\n%s\r\n", subject, strlen(body), body);
    rig_say(plane, peer, line);
}

static void direct_all(plane_t *plane, peer_t *peer) {
    publish_request(plane, peer, "$JS.API.DIRECT.GET.S", "{\"next_by_subj\":\"s.none.*\",\"seq\":1}");
    publish_request(plane, peer, "$JS.API.DIRECT.GET.S", "{\"last_by_subj\":\"s.none.*\"}");
    publish_request(plane, peer, "$JS.API.DIRECT.GET.S", "{\"next_by_subj\":\"s.*\",\"seq\":12001,\"batch\":1}");
    publish_request(plane, peer, "$JS.API.DIRECT.GET.S",
                    "{\"multi_last\":[\"s.*.none\",\"s.rare\"],\"up_to_seq\":20000}");
    publish_request(plane, peer, "$JS.API.DIRECT.GET.S", "{\"multi_last\":[\"s.*\"]}");
}

static uint32_t occurrences(const char *text, const char *part) {
    uint32_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) count++;
    return count;
}

static void answered_whole(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    peer_t *b = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    command_all(plane);
    direct_all(plane, a);
    CHECK(plane->js.job_count >= 5);
    uint32_t pongs = 0;
    while (plane->js.job_count > 0) {
        CHECK_EQ_I64(0, core_sleep_ns(plane)); /* or plane->more was taken by the driver: there is work */
        rig_feed(plane, b, "PING\r\n");
        RIG_HEARD("PONG\r\n", b);
        pongs++;
    }
    CHECK(pongs >= 5);
    rig_settle(plane);
    check_commands(plane);
    const char *heard = rig_heard(a);
    CHECK_EQ_U64(2, occurrences(heard, "404 Message Not Found"));
    CHECK_EQ_U64(1, occurrences(heard, "413 Too Many Results"));
    CHECK_EQ_U64(2, occurrences(heard, "204 EOB"));
    /* of the batch: with its one message, and at its end */
    CHECK_EQ_U64(2, occurrences(heard, "Nats-Num-Pending: 11999\r\n"));
    CHECK_EQ_U64(1, occurrences(heard, "Nats-Sequence: 8001\r\n"));
    CHECK_EQ_U64(1, occurrences(heard, "Nats-UpTo-Sequence: 20000\r\n"));
    rig_close_and_remove(plane);
}

/* Who reads a stream in many parts would have the rest counted with each of them. */
static void uncounted_at_once(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    publish_request(plane, a, "$JS.API.DIRECT.GET.S",
                    "{\"next_by_subj\":\"s.*\",\"seq\":1,\"batch\":2,\"uncounted\":true}");
    CHECK_EQ_U64(0, plane->js.job_count);
    const char *heard = rig_heard(a);
    CHECK_EQ_U64(3, occurrences(heard, "Nats-Num-Pending: 1\r\n"));
    CHECK_EQ_U64(1, occurrences(heard, "204 EOB\r\nNats-Num-Pending: 1\r\nNats-Last-Sequence: 2\r\n"));
    publish_request(plane, a, "$JS.API.DIRECT.GET.S",
                    "{\"next_by_subj\":\"s.*\",\"seq\":23999,\"batch\":10,\"uncounted\":true}");
    heard = rig_heard(a);
    CHECK_EQ_U64(1, occurrences(heard, "204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 24000\r\n"));
    rig_close_and_remove(plane);
}

static void stream_goes(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    command_all(plane);
    direct_all(plane, a);
    rig_say(plane, a, "HPUB s.1 _I.roll 30 31\r\nNATS/1.0\r\nNats-Rollup: all\r\n\r\nx\r\n");
    core_settle(plane);
    CHECK(plane->js.job_count >= 5);
    rig_run_with(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1, .token = 50}, NULL, 0, NULL, 0);
    CHECK_EQ_U64(0, plane->js.job_count);
    rig_settle(plane);
    uint32_t gone = 0, answered = 0;
    plane_event_t event;
    while (rig_event(plane, EVENT_DONE, &event)) {
        gone += event.token <= COMMANDS && event.status == STATUS_NOT_FOUND;
        answered += event.token <= COMMANDS;
    }
    CHECK_EQ_U64(COMMANDS, answered);
    CHECK(gone >= 3);
    rig_close_and_remove(plane);
}

static void client_goes(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    direct_all(plane, a);
    CHECK(plane->js.job_count >= 3);
    peer_doom(plane, a, CLOSE_CLIENT, BYTES_NONE);
    rig_settle(plane);
    CHECK_EQ_U64(0, plane->js.job_count);
    rig_close_and_remove(plane);
}

static void plane_goes(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    command_all(plane);
    direct_all(plane, a);
    CHECK(plane->js.job_count >= 5);
    rig_close_and_remove(plane);
}

static uint64_t messages_of(plane_t *plane) {
    plane_stats_t stats = {0};
    store_stats(plane->js.stores[STORE_FILE], &stats);
    return stats.store_messages;
}

static void rollup_is_whole(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    rig_say(plane, a, "HPUB s.1 _I.1 30 31\r\nNATS/1.0\r\nNats-Rollup: all\r\n\r\nx\r\n");
    CHECK(messages_of(plane) > 10000);
    const char *heard = "";
    for (int i = 0; i < 20000 && heard[0] == 0; i++) {
        core_settle(plane);
        heard = rig_heard(a);
        usleep(100);
    }
    CHECK_TEXT("MSG _I.1 1 26\r\n{\"stream\":\"S\",\"seq\":24001}\r\n", heard, strlen(heard));
    CHECK_EQ_U64(1, messages_of(plane));
    rig_close_and_remove(plane);
}

/* Each is over with its first step, and so never was a job that waits. */
static void quick_ones_share_the_tick(void) {
    plane_t *plane = open_filled();
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    for (uint32_t i = 0; i < 300; i++)
        publish_request(plane, a, "$JS.API.DIRECT.GET.S", "{\"multi_last\":[\"s.*\",\"s.>\"],\"batch\":1000}");
    uint32_t answered = 0, ticks = 0, most = 0;
    for (; answered < 300 && ticks < 1000; ticks++) {
        core_settle(plane);
        uint32_t now = occurrences(rig_heard(a), "413 Too Many Results");
        most = now > most ? now : most;
        answered += now;
    }
    CHECK_EQ_U64(300, answered);
    CHECK(most <= 20);
    rig_close_and_remove(plane);
}

/* The answer to CONSUMERS_STATE for these consumers of stream 1: how many it tells of. */
static uint32_t states_of(plane_t *plane, const uint32_t *ids, uint32_t count, consumer_state_t *states) {
    consumer_place_t places[8];
    CHECK(count <= 8);
    for (uint32_t i = 0; i < count; i++) places[i] = (consumer_place_t){.stream = 1, .consumer = ids[i]};
    rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMERS_STATE, .token = 90}, places,
                 count * (uint32_t)sizeof(*places), NULL, 0);
    plane_event_t event;
    do {
        CHECK(rig_event(plane, EVENT_DONE, &event));
    } while (event.token != 90);
    CHECK_EQ_I64(STATUS_OK, event.status);
    CHECK(event.payload_size <= count * sizeof(*states));
    memcpy(states, event.payload, event.payload_size);
    return event.payload_size / (uint32_t)sizeof(*states);
}

static void consumers_told_together(void) {
    plane_t *plane = open_filled();
    consumer_state_t states[8];
    static const uint32_t ids[] = {7, 8};
    command_all(plane); /* consumer 7, whose messages are to be counted */
    CHECK_EQ_U64(2, states_of(plane, ids, 2, states));
    CHECK_EQ_U64(STATE_UNKNOWN, states[0].push_bound);
    CHECK_EQ_U64(STATE_UNKNOWN, states[1].push_bound);
    rig_settle(plane);
    CHECK_EQ_U64(2, states_of(plane, ids, 2, states));
    CHECK_EQ_U64(0, states[0].push_bound);
    CHECK_EQ_U64(MESSAGES - MESSAGES / 2 + 1, states[0].pending);
    CHECK_EQ_U64(STATE_UNKNOWN, states[1].push_bound);
    rig_close_and_remove(plane);
}

static void consumers_with_many_requests(void) {
    plane_t *plane = rig_open_fresh("");
    rig_put_stream(plane, rig_stream);
    peer_t *a = rig_client(plane);
    rig_feed(plane, a, "SUB _I.> 1\r\n");
    consumer_config_t config = rig_consumer;
    config.max_waiting = 1100;
    for (uint32_t id = 1; id <= 6; id++) {
        char name[8], line[64];
        snprintf(name, sizeof(name), "C%u", id);
        const char *strings[] = {name, "{}", "", "", "", ""};
        rig_run_with(plane, (plane_command_t){.op = COMMAND_CONSUMER_PUT, .target = 1, .arg = id, .token = id}, &config,
                     sizeof(config), strings, 6);
        rig_settle(plane);
        for (uint32_t i = 0; i < 1100; i++) {
            snprintf(line, sizeof(line), "PUB $JS.API.CONSUMER.MSG.NEXT.S.C%u _I.1 0\r\n\r\n", id);
            rig_say(plane, a, line);
        }
        rig_settle(plane);
    }
    consumer_state_t states[8];
    static const uint32_t ids[] = {1, 2, 3, 4, 5, 6};
    CHECK_EQ_U64(4, states_of(plane, ids, 6, states));
    for (uint32_t i = 0; i < 4; i++) CHECK_EQ_U64(1100, states[i].waiting);
    CHECK_EQ_U64(2, states_of(plane, ids + 4, 2, states));
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("consumers are told of together, but for those whose messages are counted and those that are not there",
        consumers_told_together);
    RUN("one answer tells of as many consumers as a turn has time for", consumers_with_many_requests);
    RUN("long work is answered once and whole, and others are served between its steps", answered_whole);
    RUN("a part of a stream whose rest is not counted is answered at once", uncounted_at_once);
    RUN("when the stream goes, its jobs go, and their commands are told", stream_goes);
    RUN("when the client goes, its jobs end unheard", client_goes);
    RUN("when the plane goes, its jobs go", plane_goes);
    RUN("requests that are each quickly answered share the tick's time, however many come at once",
        quick_ones_share_the_tick);
    RUN("a rollup is acknowledged when all that it rolls up is gone", rollup_is_whole);
    return TEST_RESULT();
}
