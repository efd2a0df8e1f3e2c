/* test_plane_guests.c: where requests of servers without JetStream come in (SUBSCRIBE_GUESTS): who is told of it, and
 * whose messages come. Who asks, and the answer, are control's (tests/interop/test_guests.py). */
#include "route_rig.h"

#define GUESTS 78u
#define OWN 79u

static void subscribe(uint64_t id, uint64_t flags, const char *queue) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$JS.API.>");
    rig_pack(&strings, queue);
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = id, .arg = flags},
            &strings);
}

static void only_servers_hear_of_it(void) {
    peer_t *before = routed();
    peer_t *leaf = leaf_of(0, "edge");
    subscribe(GUESTS, SUBSCRIBE_GUESTS, "group");
    rig_turn(plane);
    RIG_HEARD("RS+ A $JS.API.> group 1\r\n", before);
    RIG_HEARD("", leaf);
    peer_t *later = route_new_one();
    CHECK(strstr(rig_heard(later), "RS+ A $JS.API.> group 1\r\n") != NULL);
    rig_run(plane, (plane_command_t){.op = COMMAND_UNSUBSCRIBE, .account = RIG_ACCOUNT, .target = GUESTS}, NULL);
    rig_turn(plane);
    RIG_HEARD("RS- A $JS.API.> group\r\n", before);
}

static void what_comes_over_routes_comes_there_and_what_comes_here_does_not(void) {
    subscribe(OWN, SUBSCRIBE_API, "");
    subscribe(GUESTS, SUBSCRIBE_GUESTS, "group");
    peer_t *route = routed();
    peer_t *client = client_of(RIG_ACCOUNT);
    plane_event_t event;
    rig_feed(plane, route, "RMSG A $JS.API.INFO + back another 1\r\nx\r\n");
    CHECK(!rig_event(plane, EVENT_MESSAGE, &event));
    rig_feed(plane, route, "RMSG A $JS.API.INFO + back group 1\r\nx\r\n");
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_EQ_U64(GUESTS, event.target);
    CHECK_EQ_U64(CONN_ROUTE, event.arg2);
    rig_feed(plane, client, "PUB $JS.API.INFO back 1\r\nx\r\n");
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_EQ_U64(OWN, event.target);
    CHECK(!rig_event(plane, EVENT_MESSAGE, &event));
}

/* The server that has the stream hears of these itself. */
static void pulls_and_direct_gets_do_not_come_there(void) {
    subscribe(GUESTS, SUBSCRIBE_GUESTS, "group");
    peer_t *route = routed();
    plane_event_t event;
    rig_feed(plane, route, "RMSG A $JS.API.CONSUMER.MSG.NEXT.S.C + back group 1\r\nx\r\n");
    rig_feed(plane, route, "RMSG A $JS.API.DIRECT.GET.S + back group 1\r\nx\r\n");
    CHECK(!rig_event(plane, EVENT_MESSAGE, &event));
    rig_feed(plane, route, "RMSG A $JS.API.CONSUMER.INFO.S.C + back group 1\r\nx\r\n");
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
}

static void promises(void) {
    RUN_CLUSTERED("routes hear of it when it comes and goes, and leaves do not", only_servers_hear_of_it);
    RUN_CLUSTERED("it gets what comes over routes, and the API of this server what its clients ask",
                  what_comes_over_routes_comes_there_and_what_comes_here_does_not);
    RUN_CLUSTERED("pulls and direct gets are not for it", pulls_and_direct_gets_do_not_come_there);
}

int main(void) {
    promises();
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
