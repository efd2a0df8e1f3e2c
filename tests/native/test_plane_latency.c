/* test_plane_latency.c: what is measured of services, and that nothing is left of it afterwards. What the reference
 * tells is in tests/interop/test_latency.py; here it is about time, bounds and ends. */
#include "plane/latency.h"

#include "plane_rig.h"

#define E RIG_ACCOUNT
#define I 2u
#define MARK ".HUB12345.T"
#define ROUND_TRIP_NS 1000000

typedef struct wanted_import {
    uint32_t flags;
    uint32_t sampling;
    int64_t threshold_ns;
    const char *mark;
} wanted_import_t;

static status_t import_service(plane_t *plane, wanted_import_t wanted) {
    import_row_t row = {.account = E,
                        .kind = IMPORT_SERVICE,
                        .flags = wanted.flags,
                        .sampling = wanted.sampling,
                        .threshold_ns = wanted.threshold_ns};
    rig_strings_t strings = {.size = 0};
    for (const char *const *at = (const char *const[]){"svc", "local", "", "lat", wanted.mark, NULL}; *at != NULL; at++)
        rig_pack(&strings, *at);
    rig_run(
        plane,
        (plane_command_t){
            .op = COMMAND_IMPORTS, .account = I, .token = 7, .body = (const uint8_t *)&row, .body_size = sizeof(row)},
        &strings);
    core_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event));
    return (status_t)event.status;
}

static plane_t *open_measured(wanted_import_t wanted) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, I, 0, "");
    wanted.flags |= IMPORT_MEASURED;
    wanted.mark = MARK;
    CHECK_EQ_I64(STATUS_OK, import_service(plane, wanted));
    return plane;
}

static peer_t *client(plane_t *plane, uint32_t account) {
    rig_admits_to = account;
    peer_t *peer = rig_client(plane);
    peer->rtt_ns = ROUND_TRIP_NS;
    return peer;
}

/* The reply subject of the request that peer heard last. */
static const char *asked(peer_t *peer) {
    static char reply[REPLY_SUBJECT_MAX + 1];
    const char *at = strstr(rig_heard(peer), "_R_.");
    CHECK(at != NULL);
    size_t size = strcspn(at, " ");
    CHECK(size < sizeof(reply));
    memcpy(reply, at, size);
    reply[size] = 0;
    return reply;
}

static void answer(plane_t *plane, peer_t *peer, const char *reply) {
    char line[128];
    snprintf(line, sizeof(line), "PUB %s 2\r\nok\r\n", reply);
    rig_feed(plane, peer, line);
}

/* The next measurement; 0: there is none. */
static uint32_t told(plane_t *plane, latency_t *latency) {
    plane_event_t event;
    if (!rig_event(plane, EVENT_LATENCY, &event)) return 0;
    CHECK_EQ_U64(E, event.account);
    CHECK(bytes_equal(rig_text("lat"), bytes_of(event.subject, event.subject_size)));
    CHECK(event.payload_size > sizeof(*latency));
    memcpy(latency, event.payload, sizeof(*latency));
    CHECK_EQ_U64(event.payload_size, sizeof(*latency) + latency->requester_size + latency->responder_size);
    return event.code;
}

static uint32_t outstanding(plane_t *plane) {
    return account_find(plane, I)->imports->reply_count;
}

static void time_is_that_of_turns(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 100});
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    int64_t wall_ns = plane->now.wall_ns;
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    char reply[REPLY_SUBJECT_MAX + 1];
    snprintf(reply, sizeof(reply), "%s", asked(e));
    CHECK_EQ_U64(strlen(MARK) + REPLY_SUBJECT_SIZE, strlen(reply));
    CHECK(strstr(reply, MARK) != NULL);
    plane->now.mono_ns += 50 * NS_PER_MS;
    plane->now.wall_ns += 3600 * NS_PER_SECOND; /* a step of the clock is no time */
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    latency_t latency;
    CHECK_EQ_U64(200, told(plane, &latency));
    CHECK_EQ_I64(50 * NS_PER_MS - ROUND_TRIP_NS, latency.service_ns);
    CHECK_EQ_I64(50 * NS_PER_MS + ROUND_TRIP_NS, latency.total_ns);
    CHECK_EQ_I64(wall_ns - ROUND_TRIP_NS, latency.start_wall_ns);
    CHECK_EQ_U64(0, told(plane, &latency));
    CHECK_EQ_U64(0, outstanding(plane));
    rig_close(plane);
}

static void no_more_than_is_asked_for(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 0});
    peer_t *e = client(plane, E), *i = client(plane, I);
    latency_t latency;
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    const char *reply = asked(e);
    CHECK(strstr(reply, MARK) == NULL);
    answer(plane, e, reply);
    CHECK_EQ_U64(0, told(plane, &latency));
    rig_feed(plane, i, "HPUB local _I 19 19\r\nNATS/1.0\r\nB3: 1\r\n\r\n\r\n");
    answer(plane, e, asked(e));
    CHECK_EQ_U64(200, told(plane, &latency));
    rig_close(plane);
}

/* 408 whether it unsubscribes or leaves, 503 and 504 as nobody or nothing answers, 400 without a reply. */
static void every_end_is_told_once(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 100, .threshold_ns = 5 * NS_PER_SECOND});
    peer_t *i = client(plane, I);
    latency_t latency;
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    CHECK_EQ_U64(503, told(plane, &latency));
    CHECK_EQ_U64(0, latency.responder_size);
    peer_t *e = client(plane, E);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "PUB local 0\r\n\r\n");
    CHECK_EQ_U64(400, told(plane, &latency));
    rig_feed(plane, i, "PUB local _I 0\r\n\r\nUNSUB 1\r\n");
    plane->now.mono_ns += NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(408, told(plane, &latency));
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    plane->now.mono_ns += 6 * NS_PER_SECOND;
    core_settle(plane);
    CHECK_EQ_U64(504, told(plane, &latency));
    rig_feed(plane, i, "PUB local _I 0\r\n\r\n");
    peer_doom_silently(plane, i, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK_EQ_U64(408, told(plane, &latency));
    CHECK_EQ_U64(0, told(plane, &latency));
    CHECK_EQ_U64(0, outstanding(plane));
    rig_close(plane);
}

/* The reference sees the UNSUB; we look between whiles, and the threshold may pass before we do. */
static void who_left_was_not_met_with_silence(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 100, .threshold_ns = CHORES_INTERVAL_NS});
    peer_t *e = client(plane, E), *i = client(plane, I);
    latency_t latency;
    rig_feed(plane, e, "SUB svc 1\r\n");
    plane->now.mono_ns += CHORES_INTERVAL_NS;
    core_settle(plane);
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\nUNSUB 1\r\n");
    plane->now.mono_ns += CHORES_INTERVAL_NS + NS_PER_MS;
    core_settle(plane);
    CHECK_EQ_U64(408, told(plane, &latency));
    CHECK_EQ_U64(0, told(plane, &latency));
    CHECK_EQ_U64(0, outstanding(plane));
    rig_close(plane);
}

static void a_reload_may_end_it(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 100});
    peer_t *e = client(plane, E), *i = client(plane, I);
    latency_t latency;
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\nPUB local _I 0\r\n\r\n");
    const char *reply = asked(e);
    CHECK_EQ_I64(STATUS_OK, import_service(plane, (wanted_import_t){.mark = ""}));
    answer(plane, e, reply);
    RIG_HEARD("MSG _I 1 2\r\nok\r\n", i);
    CHECK_EQ_U64(0, told(plane, &latency));
    rig_feed(plane, i, "PUB local _I 0\r\n\r\n");
    CHECK_EQ_U64(REPLY_SUBJECT_SIZE, strlen(asked(e)));
    CHECK_EQ_I64(STATUS_INVALID,
                 import_service(plane, (wanted_import_t){.flags = IMPORT_MEASURED, .mark = "longer than sixteen"}));
    rig_close(plane);
}

static void requests_without_end_have_a_bound(void) {
    plane_t *plane = open_measured((wanted_import_t){.sampling = 100});
    peer_t *e = client(plane, E), *i = client(plane, I);
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, i, "SUB _I 1\r\n");
    for (uint32_t n = 0; n < REPLIES_PER_IMPORT_MAX + 10; n++) {
        rig_feed(plane, i, "PUB local _I 0\r\n\r\n");
        if (n % 64 == 0) rig_heard(e);
    }
    CHECK_EQ_U64(REPLIES_PER_IMPORT_MAX, outstanding(plane));
    rig_close(plane);
}

static bool far_told(plane_t *plane, uint64_t *took_ns) {
    plane_event_t event;
    bool found = rig_event(plane, EVENT_LATENCY_FAR, &event);
    *took_ns = found ? event.arg : 0;
    return found;
}

static void others_are_told_what_they_measure(void) {
    plane_t *plane = rig_open(NULL, "");
    rig_account(plane, E, ACCOUNT_SERVES, "");
    rig_admits_to = E;
    peer_t *leaf = rig_leaf(plane, RIG_FLAGS, "hub", NULL), *e = client(plane, E);
    uint64_t took_ns;
    rig_feed(plane, e, "SUB svc 1\r\n");
    rig_feed(plane, leaf, "LMSG svc _R_.aaaaaa.bbbbbb" MARK " 0\r\n\r\n");
    plane->now.mono_ns += 50 * NS_PER_MS;
    answer(plane, e, "_R_.aaaaaa.bbbbbb" MARK);
    CHECK(far_told(plane, &took_ns));
    CHECK_EQ_U64(50 * NS_PER_MS, took_ns);
    answer(plane, e, "_R_.aaaaaa.bbbbbb" MARK);
    CHECK(!far_told(plane, &took_ns));
    rig_feed(plane, leaf, "LMSG svc _R_.aaaaaa.bbbbbb 0\r\n\r\nLMSG nobody _R_.aaaaaa.bbbbbb" MARK " 0\r\n\r\n");
    answer(plane, e, "_R_.aaaaaa.bbbbbb" MARK);
    CHECK(!far_told(plane, &took_ns));
    for (uint32_t n = 0; n < 10000; n++) { /* without answers: a bound, and nothing is left */
        char line[80];
        snprintf(line, sizeof(line), "LMSG svc _R_.aaaaaa.b%05u" MARK " 0\r\n\r\n", n);
        rig_feed(plane, leaf, line);
        if (n % 64 == 0) rig_heard(e);
    }
    plane->now.mono_ns += 3600 * NS_PER_SECOND;
    core_settle(plane);
    answer(plane, e, "_R_.aaaaaa.b09999" MARK);
    CHECK(!far_told(plane, &took_ns));
    rig_close(plane);
}

int main(void) {
    RUN("a service's time is that between turns, without the responder's round trip, whatever the wall clock does",
        time_is_that_of_turns);
    RUN("where headers decide, other requests cost nothing and look like any", no_more_than_is_asked_for);
    RUN("every end of a request is told, and told once", every_end_is_told_once);
    RUN("a requester that no longer listens has left, also when the threshold passes before that is noticed",
        who_left_was_not_met_with_silence);
    RUN("what is no longer measured is not told, and its answers still arrive", a_reload_may_end_it);
    RUN("requests that nobody answers stay within the import's bound", requests_without_end_have_a_bound);
    RUN("a server at the other end of a link hears once what a service here took of what it measures",
        others_are_told_what_they_measure);
    return TEST_RESULT();
}
