/* test_plane_refused.c: what a client is refused is told to control, for the log, and a flood of it is a few lines. */
#include "plane_rig.h"

static void tells_what_it_refuses(void) {
    plane_t *plane = rig_open(NULL, "");
    const char *const lists[4] = {"ok.>", NULL, NULL, "no.>"};
    peer_t *a =
        rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS, .max_payload = 64, .max_subscriptions = 1}, lists);
    static const struct {
        const char *says;
        uint32_t code;
        const char *subject, *queue, *sid;
        uint64_t size;
    } rows[] = {
        {"PUB no 1\r\nx\r\n", REFUSED_PUBLISH, "no", "", "", 0},
        {"PUB ok.x $JS.ACK.x 1\r\nx\r\n", REFUSED_REPLY, "$JS.ACK.x", "", "", 0},
        {"PUB $NRG.x 1\r\nx\r\n", REFUSED_PUBLISH, "$NRG.x", "", "", 0},
        {"SUB no.x 7\r\n", REFUSED_SUBSCRIBE, "no.x", "", "7", 0},
        {"SUB no.x q 8\r\n", REFUSED_SUBSCRIBE, "no.x", "q", "8", 0},
        {"SUB a 1\r\nSUB b 2\r\n", REFUSED_SUBSCRIPTIONS, "", "", "", 0},
        {"PUB ok.x 100\r\n", REFUSED_PAYLOAD, "", "", "", 100},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        plane_event_t event;
        rig_say(plane, a, rows[i].says);
        CHECK(rig_event(plane, EVENT_REFUSED, &event));
        CHECK_EQ_U64(rows[i].code, event.code);
        CHECK_EQ_U64(a->id, event.target);
        CHECK_TEXT(rows[i].subject, event.subject, event.subject_size);
        CHECK_TEXT(rows[i].queue, event.reply, event.reply_size);
        CHECK_TEXT(rows[i].sid, event.payload, event.payload_size);
        CHECK_EQ_U64(rows[i].size, event.arg);
        CHECK(!rig_event(plane, EVENT_REFUSED, &event));
    }
    rig_close(plane);
}

static void tells_how_nonsense_begins(void) {
    static const char *const rows[] = {"FOO bar\r\n", "PUB x -1\r\n", "GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        plane_t *plane = rig_open(NULL, "");
        peer_t *a = rig_client(plane);
        plane_event_t event;
        rig_say(plane, a, rows[i]);
        CHECK(rig_event(plane, EVENT_REFUSED, &event));
        CHECK_EQ_U64(REFUSED_PROTOCOL, event.code);
        CHECK(event.subject_size <= SHOWN_BYTES && memcmp(event.subject, rows[i], event.subject_size) == 0);
        rig_close(plane);
    }
}

static void a_flood_of_refusals_is_a_few_lines(void) {
    plane_t *plane = rig_open(NULL, "");
    const char *const lists[4] = {"ok.>", NULL, NULL, NULL};
    peer_t *a = rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS}, lists);
    peer_t *b = rig_client_with(plane, (conn_verdict_t){.flags = RIG_FLAGS}, lists);
    plane_event_t event;
    uint32_t told = 0;
    for (int i = 0; i < 1000; i++) rig_feed(plane, a, "PUB no 1\r\nx\r\n");
    while (rig_event(plane, EVENT_REFUSED, &event)) told++;
    CHECK(told > 0 && told < 100);
    rig_say(plane, b, "PUB no 1\r\nx\r\n"); /* who is not in the flood is told of */
    CHECK(rig_event(plane, EVENT_REFUSED, &event));
    CHECK_EQ_U64(b->id, event.target);
    plane->now.mono_ns += 61 * NS_PER_SECOND;
    rig_say(plane, a, "PUB no 1\r\nx\r\n");
    CHECK(rig_event(plane, EVENT_REFUSED, &event));
    CHECK_EQ_U64(1000 - told, event.arg2);
    rig_close(plane);
}

int main(void) {
    RUN("control is told what a client was refused, and every part of it that the log shows", tells_what_it_refuses);
    RUN("of input that is no protocol, control is told how it begins, and no more", tells_how_nonsense_begins);
    RUN("a flood of refusals is a few lines, counts the rest, and hides no other client's",
        a_flood_of_refusals_is_a_few_lines);
    return TEST_RESULT();
}
