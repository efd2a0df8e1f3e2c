/* test_plane_guests.c: where requests of servers without JetStream come in (SUBSCRIBE_GUESTS): who is told of it, and
 * whose messages come. Who asks, and the answer, are control's (tests/interop/test_guests.py). */
#include "route_rig.h"

#include "plane/guests.h"

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

#define SHARE 64u

/* A request as a server hands it on, of that client. */
static void ask(peer_t *route, const char *account, uint32_t client, const char *more) {
    char header[256], line[512];
    int size =
        snprintf(header, sizeof(header),
                 "NATS/1.0\r\nMore: %s\r\nNats-Request-Info: {\"id\":%u,\"acc\":\"%s\",\"server\":\"s9\"}\r\n\r\n",
                 more, client, account);
    snprintf(line, sizeof(line), "HMSG A $JS.API.INFO + back group %d %d\r\n%sx\r\n", size, size + 1, header);
    rig_say(plane, route, line);
}

static uint64_t tokens[EXCHANGE_MESSAGES];

/* Control takes over what waits, and is done with none of it. */
static uint32_t take_over(void) {
    uint32_t taken = 0;
    plane_event_t event;
    while (exchange_poll(&plane->exchange, &event, 1) != 0) {
        if (event.kind == EVENT_MESSAGE) {
            CHECK_EQ_U64(GUESTS, event.target);
            tokens[taken++] = event.token;
        }
        exchange_release(&plane->exchange, 1);
    }
    return taken;
}

static peer_t *asked_by_route(void) {
    subscribe(GUESTS, SUBSCRIBE_GUESTS, "group");
    peer_t *route = routed();
    (void)take_over();
    return route;
}

/* More than a route's credit, and none of it is answered. */
static void one_that_floods_stops_nobody_else(void) {
    peer_t *route = asked_by_route();
    peer_t *client = client_of(RIG_ACCOUNT);
    rig_feed(plane, client, "SUB core 1\r\n");
    rig_heard(client);
    for (uint32_t i = 0; i < 1000; i++) ask(route, "A", 1, i % 2 == 0 ? "a" : "b");
    rig_turn(plane);
    CHECK(!peer_waits(route, WAITS_CONTROL));
    CHECK_EQ_U64(0, route->owed.messages);
    CHECK_EQ_U64(SHARE, take_over());
    CHECK_EQ_U64(1000 - SHARE, plane->exchange.dropped);
    rig_feed(plane, route, "RMSG A core 1\r\nx\r\n");
    RIG_HEARD("MSG core 1 1\r\nx\r\n", client);
    ask(route, "A", 2, "");
    rig_turn(plane);
    CHECK_EQ_U64(1, take_over());
    ask(route, "A", 1, "");
    rig_turn(plane);
    CHECK_EQ_U64(0, take_over());
}

static void what_is_answered_makes_room(void) {
    peer_t *route = asked_by_route();
    for (uint32_t i = 0; i < SHARE + 5; i++) ask(route, "A", 1, "");
    rig_turn(plane);
    CHECK_EQ_U64(SHARE, take_over());
    for (uint32_t i = 0; i < 3; i++) exchange_repay(&plane->exchange, tokens[i]);
    for (uint32_t i = 0; i < 5; i++) ask(route, "A", 1, "");
    rig_turn(plane);
    CHECK_EQ_U64(3, take_over());
    peer_doom(plane, route, CLOSE_CLIENT, BYTES_NONE); /* what it brought is owed until control is done with it */
    rig_turn(plane);
    CHECK_EQ_U64(SHARE, plane->guests.all.messages);
}

/* An account with any number of clients leaves some room to the next one, which is where another one finds it. */
static void an_account_leaves_room_for_others(void) {
    peer_t *route = asked_by_route();
    for (uint32_t i = 0; i < 2000; i++) ask(route, "A", i, "");
    rig_turn(plane);
    uint64_t first = take_over();
    CHECK_EQ_U64(512, first);
    for (uint32_t i = 0; i < 2000; i++) ask(route, "B", 5000 + i, "");
    rig_turn(plane);
    CHECK_EQ_U64(256, take_over());
    ask(route, "C", 1, "");
    rig_turn(plane);
    CHECK_EQ_U64(1, take_over());
}

static void its_bytes_are_bounded(void) {
    static guests_t guests;
    uint64_t most = 64u << 20;
    uint32_t one = guest_of(1, BYTES_NONE), taken = 0;
    for (; guest_room(&guests, one, most); taken++) guest_owes(&guests, one, 1u << 20);
    CHECK_EQ_U64(2, taken);
    for (uint32_t client = 0; client < GUEST_CLIENTS; client++) {
        uint32_t other = one / GUEST_CLIENTS * GUEST_CLIENTS + client;
        for (; guest_room(&guests, other, most); taken++) guest_owes(&guests, other, 1u << 20);
    }
    CHECK_EQ_U64(8, taken); /* a quarter of all is the guests', and half of that an account's */
}

static void promises(void) {
    RUN_CLUSTERED("routes hear of it when it comes and goes, and leaves do not", only_servers_hear_of_it);
    RUN_CLUSTERED("it gets what comes over routes, and the API of this server what its clients ask",
                  what_comes_over_routes_comes_there_and_what_comes_here_does_not);
    RUN_CLUSTERED("pulls and direct gets are not for it", pulls_and_direct_gets_do_not_come_there);
    RUN_CLUSTERED("a client that floods has a share, and its route is read on", one_that_floods_stops_nobody_else);
    RUN_CLUSTERED("a request that was answered makes room for another", what_is_answered_makes_room);
    RUN_CLUSTERED("the clients of an account leave room for others", an_account_leaves_room_for_others);
}

int main(void) {
    promises();
    RUN("a client's and an account's bytes are bounded, too", its_bytes_are_bounded);
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
