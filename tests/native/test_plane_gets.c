/* test_plane_gets.c: one message asked for by the API and by a direct get: what is answered, and when. */
#include "stream_rig.h"

static plane_t *open_with_stream(void) {
    plane_t *plane = rig_open_fresh("");
    stream_config_t config = rig_stream;
    config.flags |= STREAM_ALLOW_DIRECT;
    rig_put_stream(plane, config);
    rig_settle(plane);
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_DONE, &event)); /* of the stream */
    return plane;
}

/* Asked for while its batch is open: the state counts it already. */
static void get_early(void) {
    static const char *const asked[] = {"{\"seq\":1}", "{\"next_by_subj\":\"s.a\"}",
                                        "{\"next_by_subj\":\"s.*\",\"seq\":1}", "{\"last_by_subj\":\"s.a\"}"};
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        plane_t *plane = open_with_stream();
        peer_t *a = rig_client(plane);
        rig_feed(plane, a, "SUB _I.> 1\r\n");
        rig_say(plane, a, "PUB s.a 1\r\nx\r\n");
        uint64_t batch = store_batch(plane->js.stores[STORE_FILE]);
        char line[200];
        snprintf(line, sizeof(line), "PUB $JS.API.DIRECT.GET.S _I.1 %zu\r\n%s\r\n", strlen(asked[i]), asked[i]);
        rig_say(plane, a, line);
        rig_get_message(plane, 4, 1);
        plane_event_t event;
        CHECK(!rig_event(plane, EVENT_DONE, &event));
        const char *heard = rig_heard(a);
        while (heard[0] == 0) {
            core_settle(plane);
            heard = rig_heard(a);
        }
        CHECK(store_durable(plane->js.stores[STORE_FILE]) >= batch);
        CHECK(strstr(heard, "Nats-Sequence: 1\r\n") != NULL);
        rig_settle(plane);
        CHECK(rig_event(plane, EVENT_DONE, &event));
        CHECK_TEXT("s.a", event.subject, event.subject_size);
        CHECK_TEXT("x", event.payload, event.payload_size);
        rig_close_and_remove(plane);
    }
}

static void get_unasked(void) {
    plane_t *plane = open_with_stream();
    rig_feed(plane, rig_client(plane), "PUB s.a 1\r\nx\r\n");
    rig_get_message(plane, 0, 1);
    plane_event_t event;
    CHECK(!rig_event(plane, EVENT_DONE, &event));
    rig_get_message(plane, 4, 1);
    rig_settle(plane);
    CHECK(rig_event(plane, EVENT_DONE, &event));
    CHECK_EQ_U64(4, event.token);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("a message that is stored and not on disk yet is waited for, and never said not to be there", get_early);
    RUN("a message that nobody asked for is no answer", get_unasked);
    return TEST_RESULT();
}
