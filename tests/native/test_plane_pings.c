/* test_plane_pings.c: how long a leaf link may say nothing: which end pings, and when it is dead. What its socket tells
 * is test_window.c's. */
#include "plane/link_part.h"
#include "plane_rig.h"

/* Each promise has a plane of its own. */
static plane_t *plane;
static void (*promise)(void);

static void on_a_plane(void) {
    plane = rig_open(NULL, "");
    plane->limits.ping_interval_ns = 120 * NS_PER_SECOND;
    promise();
    rig_close(plane);
}

#define RUN_LINKED(text, function)                                                                                     \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, on_a_plane);                                                                                         \
    } while (0)

/* A link that was told what is wanted so far; that is not of interest. */
static peer_t *joined(const char *cluster) {
    peer_t *peer = rig_leaf(plane, 0, cluster, NULL);
    rig_heard(peer);
    return peer;
}

/* Seconds go by, one by one, in which the link says nothing. */
static void silent_for(int64_t seconds) {
    for (int64_t i = 0; i < seconds; i++) {
        plane->now.mono_ns += NS_PER_SECOND;
        core_settle(plane);
    }
}

static void quiet_links_are_pinged(void) {
    peer_t *leaf = joined("l");
    silent_for(2);
    RIG_HEARD("PING\r\n", leaf);
    rig_feed(plane, leaf, "PONG\r\n");
    silent_for(13);
    RIG_HEARD("", leaf);
    silent_for(2);
    RIG_HEARD("PING\r\n", leaf);
    rig_feed(plane, leaf, "PONG\r\n");
    silent_for(10);
    rig_feed(plane, leaf, "PING\r\n"); /* one of the other end serves both */
    RIG_HEARD("PONG\r\n", leaf);
    silent_for(13);
    RIG_HEARD("", leaf);
    silent_for(42);
    plane_event_t event;
    CHECK(!rig_event(plane, EVENT_CLOSED, &event));
    silent_for(3);
    CHECK(rig_event(plane, EVENT_CLOSED, &event));
    CHECK_EQ_U64(CLOSE_STALE, event.code);
}

/* Nothing comes, while what is sent arrives: after an outage the other kernel waits for as long again. */
static void a_slow_link_that_acknowledges_is_given_longer(void) {
    peer_t *leaf = joined("l");
    leaf->link->window = (window_t){.measured = true, .narrow = true};
    plane_event_t event;
    for (int second = 0; second < 95; second++) {
        leaf->link->window.progress_ns = leaf->link->window.alive_ns = plane->now.mono_ns;
        silent_for(1);
        CHECK(!rig_event(plane, EVENT_CLOSED, &event));
    }
    silent_for(10);
    CHECK(rig_event(plane, EVENT_CLOSED, &event));
    CHECK_EQ_U64(CLOSE_STALE, event.code);
}

/* The end that dialled has the shorter patience, and its ping is the other end's sign of life before that would ping,
 * however long it takes. */
static void the_end_that_dialled_pings(void) {
    peer_t *hub = joined("h"), *leaf = joined("l");
    hub->dialled = true;
    leaf->link->window.round_trip_ns = 3 * NS_PER_SECOND;
    silent_for(2);
    rig_feed(plane, hub, "PONG\r\n");
    rig_feed(plane, leaf, "PONG\r\n");
    rig_heard(hub);
    rig_heard(leaf);
    silent_for(14);
    RIG_HEARD("PING\r\n", hub);
    silent_for(2);
    RIG_HEARD("", leaf);
    rig_feed(plane, leaf, "PING\r\n"); /* after 13 seconds and a round trip */
    RIG_HEARD("PONG\r\n", leaf);
    silent_for(16);
    RIG_HEARD("", leaf);
    silent_for(2);
    RIG_HEARD("PING\r\n", leaf);
}

/* It is read all the time, and its PONG waits behind other things. */
static void late_answers_end_no_link(void) {
    peer_t *leaf = joined("l");
    for (int i = 0; i < 20; i++) {
        silent_for(16);
        rig_feed(plane, leaf, "LMSG nobody 1\r\nx\r\n");
    }
    plane_event_t event;
    CHECK(!rig_event(plane, EVENT_CLOSED, &event));
}

int main(void) {
    RUN_LINKED("a link that says nothing is pinged, by one end, and closed within a minute", quiet_links_are_pinged);
    RUN_LINKED("a slow link that acknowledges what it is sent is given longer",
               a_slow_link_that_acknowledges_is_given_longer);
    RUN_LINKED("the end that dialled a link pings it, the other one if that does not", the_end_that_dialled_pings);
    RUN_LINKED("a link by which anything comes is not closed for an answer that is late", late_answers_end_no_link);
    return TEST_RESULT();
}
