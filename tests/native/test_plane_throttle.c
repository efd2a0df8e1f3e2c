/* test_plane_throttle.c: who publishes into streams while the store lags waits: nothing is refused for it, nobody is
 * closed for it, and who feeds no stream goes on. The journal's thread is real, so loops wait for it. */
#include "stream_rig.h"

#define PUBLISHERS 100u
#define PAYLOAD 60000u

static plane_t *plane;
static char line[PAYLOAD + 100];

static void start(void) {
    plane = rig_open_small(rig_new_directory(), "", 2 << 20, UINT64_C(32) << 20);
    rig_put_stream(plane, rig_stream);
    core_settle(plane);
}

static void make_line(uint32_t size) {
    int head = snprintf(line, sizeof line, "PUB s.1 acks %u\r\n", size);
    memset(line + head, 'x', size);
    memcpy(line + head + size, "\r\n", 3);
}

static uint32_t count(const char *text, const char *what) {
    uint32_t found = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++) found++;
    return found;
}

/* As the driver's turns, until so many answers came. */
static void answers_come(peer_t *listener, uint32_t expected) {
    uint32_t stored = 0;
    for (int i = 0; i < 20000 && stored < expected; i++) {
        core_backlog(plane);
        core_settle(plane);
        const char *heard = rig_heard(listener);
        CHECK_EQ_U64(0, count(heard, "\"error\""));
        stored += count(heard, "\"seq\"");
        usleep(200);
    }
    CHECK_EQ_U64(expected, stored);
}

static void first_messages_of_many(void) {
    start();
    peer_t *listener = rig_client(plane);
    rig_feed(plane, listener, "SUB acks 1\r\n");
    make_line(PAYLOAD);
    peer_t *publishers[PUBLISHERS];
    for (uint32_t i = 0; i < PUBLISHERS; i++) publishers[i] = rig_client(plane);
    for (uint32_t i = 0; i < PUBLISHERS; i++) rig_say(plane, publishers[i], line);
    answers_come(listener, PUBLISHERS);
    for (uint32_t i = 0; i < PUBLISHERS; i++) CHECK(publishers[i]->state == PEER_ADMITTED);
    rig_close_and_remove(plane);
}

static void one_fills_it_others_follow(void) {
    start();
    peer_t *listener = rig_client(plane);
    rig_feed(plane, listener, "SUB acks 1\r\n");
    peer_t *first = rig_client(plane), *second = rig_client(plane);
    make_line(PAYLOAD);
    rig_say(plane, second, line);
    for (uint32_t i = 0; i < PUBLISHERS && !peer_waits(first, WAITS_STORE); i++) rig_say(plane, first, line);
    CHECK(peer_waits(first, WAITS_STORE));
    rig_say(plane, second, line);
    CHECK_EQ_U64(1, second->in_msgs); /* the second one waits: nothing of it was acted on */
    answers_come(listener, (uint32_t)(first->in_msgs + 2));
    rig_close_and_remove(plane);
}

static void others_go_on(void) {
    start();
    peer_t *listener = rig_client(plane), *first = rig_client(plane), *other = rig_client(plane);
    rig_feed(plane, listener, "SUB plain 1\r\n");
    (void)rig_heard(listener);
    make_line(PAYLOAD);
    for (uint32_t i = 0; i < PUBLISHERS && !peer_waits(first, WAITS_STORE); i++) rig_say(plane, first, line);
    CHECK(peer_waits(first, WAITS_STORE));
    rig_say(plane, other, "PUB plain 1\r\nx\r\n");
    RIG_HEARD("MSG plain 1 1\r\nx\r\n", listener);
    CHECK(!peer_waits(other, WAITS_STORE));
    rig_close_and_remove(plane);
}

/* Many small ones under names of their own: what closing the batch will write counts as used. */
static void names_without_end(void) {
    start();
    peer_t *listener = rig_client(plane);
    rig_feed(plane, listener, "SUB acks 1\r\n");
    peer_t *publisher = rig_client(plane);
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(line, sizeof line, "PUB s.%u acks 1\r\nx\r\n", i);
        rig_say(plane, publisher, line);
        if (peer_waits(publisher, WAITS_STORE)) break;
    }
    answers_come(listener, (uint32_t)publisher->in_msgs);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("of many clients that publish for the first time while the store lags, none is refused",
        first_messages_of_many);
    RUN("who publishes when another has filled the ring waits", one_fills_it_others_follow);
    RUN("who publishes into no stream goes on while the store lags", others_go_on);
    RUN("messages of many subjects are slowed down before what closing their batch writes has no room",
        names_without_end);
    return TEST_RESULT();
}
