/* test_plane_route.c: routes, the connections to other servers of the cluster: what they are told, what crosses, what
 * never does. The bytes are those of nats-server (tests/wire/route.md). */
#include "plane/throttle.h"

#include "route_rig.h"

/* ---- what a route is told ---------------------------------------------------------------------------------------- */

static void told_of_clients(void) {
    peer_t *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT);
    rig_feed(plane, a, "SUB early 1\r\n");
    peer_t *route = route_new_one();
    RIG_HEARD("RS+ A early\r\nPING\r\n", route);
    rig_feed(plane, a, "SUB x 2\r\nSUB x 3\r\n");
    RIG_HEARD("RS+ A x\r\n", route);
    rig_feed(plane, b, "SUB x 1\r\n");
    RIG_HEARD("RS+ B x\r\n", route);
    rig_feed(plane, a, "UNSUB 2\r\n");
    RIG_HEARD("", route);
    rig_feed(plane, a, "UNSUB 3\r\n");
    RIG_HEARD("RS- A x\r\n", route);
    rig_feed(plane, a, "SUB q w 4\r\n");
    RIG_HEARD("RS+ A q w 1\r\n", route);
    rig_feed(plane, a, "SUB q w 5\r\n");
    RIG_HEARD("RS+ A q w 2\r\n", route);
    rig_feed(plane, a, "UNSUB 5\r\n");
    RIG_HEARD("RS+ A q w 1\r\n", route);
    rig_feed(plane, a, "UNSUB 4\r\n");
    RIG_HEARD("RS- A q w\r\n", route);
}

static void told_of_leafs_by_cluster(void) {
    peer_t *route = routed(), *one = leaf_of(0, "one"), *two = leaf_of(0, "two"), *mate = leaf_of(0, "one");
    peer_t *nameless = leaf_of(0, ""), *hub = leaf_of(VERDICT_SPOKE, "hub");
    rig_feed(plane, one, "LS+ x\r\nLS+ q w 3\r\n");
    RIG_HEARD("LS+ one A x\r\nLS+ one A q w 3\r\n", route);
    rig_feed(plane, mate, "LS+ x\r\nLS+ q w 2\r\n");
    RIG_HEARD("LS+ one A q w 5\r\n", route);
    rig_feed(plane, two, "LS+ x\r\n");
    RIG_HEARD("LS+ two A x\r\n", route);
    rig_feed(plane, nameless, "LS+ x\r\n");
    RIG_HEARD("RS+ A x\r\n", route);
    /* the other servers of this cluster have links to our hub of their own */
    rig_feed(plane, hub, "LS+ from.above\r\n");
    RIG_HEARD("", route);
    rig_feed(plane, one, "LS- x\r\n");
    RIG_HEARD("", route);
    rig_feed(plane, mate, "LS- x\r\n");
    RIG_HEARD("LS- one A x\r\n", route);
    rig_feed(plane, mate, "LS- q w\r\n");
    RIG_HEARD("LS+ one A q w 3\r\n", route);
    rig_feed(plane, nameless, "LS- x\r\n");
    RIG_HEARD("RS- A x\r\n", route);
}

static void old_peers_know_no_origin_in_unsub(void) {
    peer_t *route = route_with(0, (route_terms_t){.flags = 0}, NULL), *leaf = leaf_of(0, "one");
    rig_heard(route);
    rig_feed(plane, leaf, "LS+ x\r\nLS- x\r\n");
    RIG_HEARD("LS+ one A x\r\nLS- A x\r\n", route);
}

static void not_told_of_routes(void) {
    peer_t *one = routed(), *two = routed();
    rig_feed(plane, one, "RS+ A x\r\nRS+ A q w 2\r\nLS+ leafs A y\r\n");
    RIG_HEARD("", two);
    RIG_HEARD("", one);
    RIG_HEARD("PING\r\n", route_new_one());
}

static void not_told_of_what_each_server_has(void) {
    peer_t *route = routed();
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "$SYS.REQ.USER.INFO");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 70}, &strings);
    RIG_HEARD("", route);
    strings.size = 0;
    rig_pack(&strings, "$SYS.REQ.SERVER.PING");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 71}, &strings);
    RIG_HEARD("RS+ A $SYS.REQ.SERVER.PING\r\n", route);
}

static void told_only_of_what_it_carries(void) {
    named_account(POOLED, ACCOUNT_PINNED, "SYS");
    /* FNV-1a of "A" is 0xc40bf6cc, of "B" 0xc70bfb85. */
    peer_t *two[2] = {route_with(0, (route_terms_t){.pool_size = 2, .pool_index = 0}, NULL),
                      route_with(0, (route_terms_t){.pool_size = 2, .pool_index = 1}, NULL)};
    peer_t *alone = route_with(0, (route_terms_t){.pool_size = 0}, NULL);
    peer_t *pinned = route_with(POOLED, (route_terms_t){.pool_size = 2}, NULL);
    RIG_HEARD("PING\r\n", two[0]);
    RIG_HEARD("PING\r\n", two[1]);
    RIG_HEARD("PING\r\n", alone);
    RIG_HEARD("PING\r\n", pinned);
    rig_feed(plane, client_of(RIG_ACCOUNT), "SUB x 1\r\n");
    rig_feed(plane, client_of(OTHER_ACCOUNT), "SUB y 1\r\n");
    rig_feed(plane, client_of(POOLED), "SUB z 1\r\nSUB z w 2\r\n");
    RIG_HEARD("RS+ A x\r\n", two[0]);
    RIG_HEARD("RS+ B y\r\n", two[1]);
    RIG_HEARD("RS+ A x\r\nRS+ B y\r\nRS+ SYS z\r\nRS+ SYS z w 1\r\n", alone);
    RIG_HEARD("RS+ z\r\nRS+ z w 1\r\n", pinned);
}

static void told_by_its_import(void) {
    const char *lists[4] = {"in.>", "in.secret", "out.>", "out.secret"};
    peer_t *route = route_with(0, (route_terms_t){.flags = 0}, lists), *a = client_of(RIG_ACCOUNT);
    rig_heard(route);
    rig_feed(plane, a, "SUB in.x 1\r\nSUB in.secret 2\r\nSUB out.x 3\r\nSUB > 4\r\n");
    RIG_HEARD("RS+ A in.x\r\n", route);
    rig_feed(plane, route, "RS+ A out.x\r\nRS+ A out.secret\r\nRS+ A in.x\r\nRS+ A >\r\n");
    rig_feed(plane, a, "PUB out.x 1\r\na\r\nPUB out.secret 1\r\nb\r\nPUB in.y 1\r\nc\r\n");
    RIG_HEARD("RMSG A out.x 1\r\na\r\n", route);
}

#define MANY 10000u

static void told_in_slices(void) {
    peer_t *a = client_of(RIG_ACCOUNT);
    char line[64];
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "SUB of.%u %u\r\n", i, i + 1);
        rig_feed(plane, a, line);
    }
    peer_t *route = rig_peer(plane, CONN_ROUTE, "test:6222");
    rig_say(plane, route, "CONNECT {}\r\n");
    route_terms_t terms = {.flags = 0};
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 4; i++) rig_pack(&strings, "");
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT_ROUTE,
                              .target = route->id,
                              .body = (const uint8_t *)&terms,
                              .body_size = sizeof(terms)},
            &strings);
    CHECK(!route->route->told_all);
    const char *heard = rig_heard(route);
    CHECK(strstr(heard, "RS+ A of.0\r\n") != NULL && strstr(heard, "of.9999\r\n") == NULL);
    /* what ends before it was told is never told, what was told is taken back, what is new comes in its turn */
    rig_feed(plane, a, "UNSUB 1\r\nUNSUB 9999\r\nSUB late 20000\r\n");
    bool taken_back = false, told_late = false;
    uint32_t lines = 0;
    for (uint32_t turn = 0; turn < 100; turn++) {
        heard = rig_heard(route);
        taken_back = taken_back || strstr(heard, "RS- A of.0\r\n") != NULL;
        told_late = told_late || strstr(heard, "RS+ A late\r\n") != NULL;
        CHECK(strstr(heard, "of.9998\r\n") == NULL);
        for (const char *at = heard; (at = strstr(at, "RS+ A of.")) != NULL; at++) lines++;
        rig_turn(plane);
    }
    CHECK(route->route->told_all && taken_back && told_late);
    CHECK_EQ_U64(MANY - TELL_FIRST - 1, lines);
}

/* ---- other rights ------------------------------------------------------------------------------------------------ */

static void regrant(peer_t *route, uint64_t refused, const char *const lists[4]) {
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 4; i++) {
        if (lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    rig_run(plane, (plane_command_t){.op = COMMAND_ROUTE_RIGHTS, .target = route->id, .token = 1, .arg = refused},
            &strings);
    rig_turn(plane);
}

/* nats-server sends INFO, which is control's here, and then the same lines */
static void told_of_what_its_import_changes(void) {
    const char *lists[4] = {NULL, "kept.>", NULL, NULL}, *others[4] = {NULL, "late.>", NULL, NULL}, *none[4] = {NULL};
    peer_t *route = route_with(0, (route_terms_t){.flags = 0}, lists), *a = client_of(RIG_ACCOUNT);
    rig_heard(route);
    rig_feed(plane, a, "SUB kept.x 1\r\nSUB kept.q w 2\r\nSUB kept.q w 3\r\nSUB late.x 4\r\nSUB both 5\r\n");
    RIG_HEARD("RS+ A late.x\r\nRS+ A both\r\n", route);
    regrant(route, 0, others);
    RIG_HEARD("RS+ A kept.x\r\nRS+ A kept.q w 2\r\nRS- A late.x\r\n", route);
    rig_feed(plane, a, "UNSUB 3\r\nUNSUB 4\r\n");
    rig_feed(plane, a, "SUB late.y 6\r\nSUB kept.y 7\r\n");
    RIG_HEARD("RS+ A kept.q w 1\r\nRS+ A kept.y\r\n", route);
    regrant(route, 0, none);
    RIG_HEARD("RS+ A late.y\r\n", route);
    CHECK(route->permissions == NULL && route->route->before == NULL && route->state == PEER_ADMITTED);
}

static void its_interest_goes_with_its_export(void) {
    const char *denies[4] = {NULL, NULL, NULL, "out.>"}, *none[4] = {NULL};
    peer_t *route = routed(), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, route, "RS+ A out.x\r\nRS+ A out.q w 2\r\nLS+ leafs A out.y\r\nRS+ A kept\r\n");
    regrant(route, 0, denies);
    CHECK_EQ_U64(1, map_count(route->table) - route->dead_count);
    rig_feed(plane, a, "PUB out.x 1\r\na\r\nPUB out.q 1\r\nb\r\nPUB out.y 1\r\nc\r\nPUB kept 1\r\nd\r\n");
    RIG_HEARD("RMSG A kept 1\r\nd\r\n", route);
    regrant(route, 0, none);
    rig_feed(plane, route, "RS+ A out.x\r\n");
    rig_feed(plane, a, "PUB out.x 1\r\ne\r\n");
    RIG_HEARD("RMSG A out.x 1\r\ne\r\n", route);
}

static void told_again_of_what_the_peer_refused(void) {
    const char *lists[4] = {NULL, "kept.>", NULL, NULL}, *refused[4] = {NULL, NULL, NULL, "out.>"}, *none[4] = {NULL};
    peer_t *route = route_with(0, (route_terms_t){.flags = 0}, lists), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB out.x 1\r\nSUB in.x 2\r\nSUB kept.x 3\r\nSUB out.y 4\r\nUNSUB 4\r\n");
    rig_feed(plane, route, "RS+ A in.y\r\n");
    rig_heard(route);
    regrant(route, 1, refused);
    RIG_HEARD("RS+ A out.x\r\n", route);
    regrant(route, 1, none);
    RIG_HEARD("", route);
    CHECK(!permissions_route_import(route->permissions, BYTES_LITERAL("kept.x")));
    CHECK_EQ_U64(1, map_count(route->table));
}

static uint32_t lines_with(const char *heard, const char *what) {
    uint32_t count = 0;
    for (const char *at = heard; (at = strstr(at, what)) != NULL; at++) count++;
    return count;
}

static status_t last_status(void) {
    plane_event_t event;
    status_t status = STATUS_NOT_FOUND;
    while (rig_event(plane, EVENT_DONE, &event)) status = (status_t)event.status;
    return status;
}

static void regranted_in_slices(void) {
    const char *denies[4] = {NULL, "of.>", NULL, NULL}, *none[4] = {NULL};
    peer_t *a = client_of(RIG_ACCOUNT), *route = routed();
    char line[64];
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "SUB of.%u %u\r\n", i, i + 1);
        rig_feed(plane, a, line);
        rig_heard(route);
    }
    regrant(route, 0, denies);
    const char *heard = rig_heard(route);
    CHECK(strstr(heard, "RS- A of.0\r\n") != NULL && strstr(heard, "of.9999\r\n") == NULL);
    uint32_t ended = lines_with(heard, "RS- A of."), begun = 0;
    CHECK(ended > TELL_FIRST && ended < MANY);
    /* another change has to wait; what is behind is told by the rights before until it is reached */
    regrant(route, 0, none);
    CHECK_EQ_I64(STATUS_FULL, last_status());
    CHECK(route->state == PEER_ADMITTED);
    rig_feed(plane, a, "UNSUB 10000\r\nSUB of.late 20000\r\nSUB other 20001\r\n");
    for (uint32_t turn = 0; turn < 100; turn++) {
        heard = rig_heard(route);
        ended += lines_with(heard, "RS- A of.");
        begun += lines_with(heard, "RS+ A ");
        rig_turn(plane);
    }
    CHECK(route->route->again == NULL && route->route->before == NULL);
    CHECK_EQ_U64(2, begun);
    CHECK_EQ_U64(MANY + 1, ended);
    regrant(route, 0, none);
    CHECK_EQ_I64(STATUS_OK, last_status());
    /* one that goes meanwhile leaves nothing behind */
    CHECK(route->route->again != NULL);
    peer_doom_silently(plane, route, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    CHECK(plane->routes == NULL);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void messages_out(void) {
    peer_t *route = routed(), *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT);
    rig_feed(plane, route, "RS+ A x\r\nRS+ A x w 2\r\nRS+ A only w 1\r\nRS+ A >\r\n");
    rig_feed(plane, a, "PUB x 1\r\na\r\n");
    RIG_HEARD("RMSG A x | w 1\r\na\r\n", route);
    rig_feed(plane, a, "PUB x r 1\r\nb\r\n");
    RIG_HEARD("RMSG A x + r w 1\r\nb\r\n", route);
    rig_feed(plane, a, "PUB y r 1\r\nc\r\nPUB z 0\r\n\r\n");
    RIG_HEARD("RMSG A y r 1\r\nc\r\nRMSG A z 0\r\n\r\n", route);
    rig_feed(plane, a, "HPUB y r 12 13\r\nNATS/1.0\r\n\r\nd\r\n");
    RIG_HEARD("HMSG A y r 12 13\r\nNATS/1.0\r\n\r\nd\r\n", route);
    rig_feed(plane, b, "PUB x 1\r\ne\r\n");
    RIG_HEARD("", route);
}

static void messages_of_one_account(void) {
    named_account(POOLED, ACCOUNT_PINNED, "SYS");
    peer_t *route = route_with(POOLED, (route_terms_t){.flags = ROUTE_UNSUB_ORIGIN}, NULL), *a = client_of(POOLED);
    rig_heard(route);
    rig_feed(plane, route, "RS+ x\r\nRS+ q w 1\r\nLS+ leafs y\r\nLS- leafs y\r\n");
    rig_feed(plane, a, "SUB back 1\r\nPUB x r 1\r\na\r\nPUB q 1\r\nb\r\nPUB y 1\r\nc\r\n");
    RIG_HEARD("RS+ back\r\nRMSG x r 1\r\na\r\nRMSG q | w 1\r\nb\r\n", route);
    rig_feed(plane, route,
             "RMSG back 1\r\na\r\nHMSG back r 12 13\r\nNATS/1.0\r\n\r\nb\r\nLMSG leafs back 0 1\r\nc\r\n");
    RIG_HEARD("MSG back 1 1\r\na\r\nHMSG back 1 r 12 13\r\nNATS/1.0\r\n\r\nb\r\nMSG back 1 1\r\nc\r\n", a);
}

static void messages_in(void) {
    peer_t *route = routed(), *other = routed(), *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT);
    rig_feed(plane, a, "SUB x 1\r\nSUB x w 2\r\nSUB x v 3\r\n");
    rig_feed(plane, b, "SUB x 1\r\n");
    rig_feed(plane, other, "RS+ A x\r\nRS+ A x w 5\r\n");
    rig_heard(route);
    rig_heard(other);
    rig_feed(plane, route, "RMSG A x 1\r\na\r\n");
    RIG_HEARD("MSG x 1 1\r\na\r\n", a);
    rig_feed(plane, route, "RMSG A x r 1\r\nb\r\nRMSG A x | w 1\r\nc\r\nRMSG A x + r v w 1\r\nd\r\n");
    const char *heard = rig_heard(a);
    CHECK(strstr(heard, "MSG x 1 r 1\r\nb\r\nMSG x 1 1\r\nc\r\nMSG x 2 1\r\nc\r\nMSG x 1 r 1\r\nd\r\n") == heard);
    CHECK(strstr(heard, "MSG x 2 r 1\r\nd\r\n") != NULL && strstr(heard, "MSG x 3 r 1\r\nd\r\n") != NULL);
    rig_feed(plane, route, "HMSG A x 12 13\r\nNATS/1.0\r\n\r\ne\r\nLMSG leafs A x r 12 13\r\nNATS/1.0\r\n\r\nf\r\n");
    RIG_HEARD("HMSG x 1 12 13\r\nNATS/1.0\r\n\r\ne\r\nHMSG x 1 r 12 13\r\nNATS/1.0\r\n\r\nf\r\n", a);
    RIG_HEARD("", b);
    rig_feed(plane, route, "RMSG B x 1\r\ng\r\nRMSG nobody x 1\r\nh\r\nRS+ nobody x\r\nRS- nobody x\r\n");
    RIG_HEARD("MSG x 1 1\r\ng\r\n", b);
    /* one hop */
    RIG_HEARD("", other);
    RIG_HEARD("", route);
}

static void among_leafs(void) {
    peer_t *route = routed(), *one = leaf_of(0, "one"), *two = leaf_of(0, "two"), *hub = leaf_of(VERDICT_SPOKE, "hub");
    rig_feed(plane, one, "LS+ x\r\n");
    rig_feed(plane, two, "LS+ x\r\n");
    rig_feed(plane, hub, "LS+ x\r\nLS+ _R_.>\r\n");
    rig_feed(plane, route, "RS+ A x\r\nRS+ A up\r\nLS+ one A z\r\n");
    rig_heard(route), rig_heard(one), rig_heard(two), rig_heard(hub);
    /* of a leaf: with its cluster, and not back to it */
    rig_feed(plane, one, "LMSG x 1\r\na\r\nLMSG z 1\r\nb\r\n");
    RIG_HEARD("LMSG one A x 0 1\r\na\r\n", route);
    RIG_HEARD("LMSG x 1\r\na\r\n", two);
    RIG_HEARD("LMSG x 1\r\na\r\n", hub);
    rig_feed(plane, two, "HMSG z r 12 13\r\nNATS/1.0\r\n\r\nc\r\n");
    RIG_HEARD("LMSG two A z r 12 13\r\nNATS/1.0\r\n\r\nc\r\n", route);
    /* of a route: to leafs of other clusters, to our hub only answers */
    rig_feed(plane, route, "LMSG one A x 0 1\r\nd\r\nRMSG A x 1\r\ne\r\nRMSG A _R_.a.b 1\r\nf\r\n");
    RIG_HEARD("LMSG x 1\r\ne\r\n", one);
    RIG_HEARD("LMSG x 1\r\nd\r\nLMSG x 1\r\ne\r\n", two);
    RIG_HEARD("LMSG _R_.a.b 1\r\nf\r\n", hub);
    /* of our hub: to no route */
    rig_feed(plane, hub, "LMSG x 1\r\ng\r\nLMSG up 1\r\nh\r\n");
    RIG_HEARD("", route);
    RIG_HEARD("LMSG x 1\r\ng\r\n", one);
}

static void leafs_are_told_of_routes(void) {
    peer_t *route = routed();
    rig_feed(plane, route, "RS+ A early\r\nLS+ one A own\r\nRS+ A q w 2\r\n");
    peer_t *one = rig_leaf(plane, 0, "one", NULL), *two = rig_leaf(plane, 0, "two", NULL);
    const char *heard = rig_heard(one);
    CHECK(strstr(heard, "LS+ early\r\n") != NULL && strstr(heard, "LS+ q w 2\r\n") != NULL);
    CHECK(strstr(heard, "own") == NULL || strstr(heard, "$LDS.own") != NULL);
    CHECK(strstr(heard, "LS+ own\r\n") == NULL);
    CHECK(strstr(rig_heard(two), "LS+ own\r\n") != NULL);
    peer_t *hub = rig_leaf(plane, VERDICT_SPOKE, "hub", NULL),
           *alone = rig_leaf(plane, VERDICT_ISOLATED, "three", NULL);
    RIG_HEARD("LS+ $LDS.own\r\n", hub);
    heard = rig_heard(alone);
    CHECK(strstr(heard, "LS+ early\r\n") != NULL && strstr(heard, "LS+ own\r\n") == NULL);
    rig_heard(route);
    rig_feed(plane, route, "RS+ A x\r\nLS+ two A x\r\nRS+ A q w 3\r\nRS- A early\r\n");
    RIG_HEARD("LS+ x\r\nLS+ q w 3\r\nLS- early\r\n", one);
    RIG_HEARD("LS+ x\r\nLS+ q w 3\r\nLS- early\r\n", two);
    RIG_HEARD("LS+ x\r\nLS+ q w 3\r\nLS- early\r\n", alone);
    RIG_HEARD("", hub);
    /* only what its own cluster asks for elsewhere is left */
    rig_feed(plane, route, "RS- A x\r\n");
    RIG_HEARD("", one);
    RIG_HEARD("LS- x\r\n", two);
    RIG_HEARD("LS- x\r\n", alone);
    /* an isolated one never hears of what leafs of other servers want */
    rig_feed(plane, route, "LS+ four A y\r\n");
    RIG_HEARD("LS+ y\r\n", one);
    RIG_HEARD("", alone);
    heard = rig_heard(rig_leaf(plane, VERDICT_ISOLATED, "late", NULL));
    CHECK(strstr(heard, "LS+ y\r\n") == NULL && strstr(heard, "LS+ q w 3\r\n") != NULL);
    rig_feed(plane, route, "RS+ A y\r\nLS- four A y\r\nRS- A y\r\n");
    RIG_HEARD("LS+ y\r\nLS- y\r\n", alone);
    rig_heard(one);
    peer_doom_silently(plane, route, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    heard = rig_heard(two);
    CHECK(strstr(heard, "LS- own\r\n") != NULL && strstr(heard, "LS- q w\r\n") != NULL);
    CHECK(strstr(rig_heard(one), "LS- x\r\n") != NULL);
}

static void nothing_is_left_of_one_that_goes(void) {
    peer_t *route = routed(), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, route, "RS+ A x\r\nRS+ A q w 2\r\nLS+ one A y\r\n");
    peer_doom_silently(plane, route, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    rig_feed(plane, a, "SUB inbox 1\r\nPUB x inbox 1\r\na\r\n");
    RIG_HEARD("HMSG inbox 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: x\r\n\r\n\r\n", a);
    CHECK(plane->routes == NULL);
    CHECK_EQ_U64(0, plane->route_count);
}

static void a_route_is_an_answerer(void) {
    peer_t *route = routed(), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB inbox 1\r\n");
    rig_feed(plane, route, "RS+ A x\r\n");
    rig_heard(route);
    rig_feed(plane, a, "PUB x inbox 1\r\na\r\n");
    RIG_HEARD("RMSG A x inbox 1\r\na\r\n", route);
    RIG_HEARD("", a);
    rig_feed(plane, route, "RMSG A inbox 1\r\nb\r\n");
    RIG_HEARD("MSG inbox 1 1\r\nb\r\n", a);
}

/* ---- queue groups ------------------------------------------------------------------------------------------------ */

#define DRAWS 3000u

static uint32_t heard_times(peer_t *peer, const char *what) {
    return lines_with(rig_heard(peer), what);
}

static void groups_by_weight(void) {
    peer_t *one = routed(), *two = routed(), *a = client_of(RIG_ACCOUNT), *b = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB q w 1\r\n");
    rig_feed(plane, one, "RS+ A q w 2\r\n");
    rig_feed(plane, two, "RS+ A q w 3\r\n");
    rig_heard(one), rig_heard(two);
    uint32_t here = 0, first = 0, second = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        rig_feed(plane, b, "PUB q 1\r\nx\r\n");
        here += heard_times(a, "MSG q 1 1");
        first += heard_times(one, "RMSG A q | w 1");
        second += heard_times(two, "RMSG A q | w 1");
    }
    /* 1 : 2 : 3, each within six standard deviations */
    CHECK_EQ_U64(DRAWS, here + first + second);
    CHECK(here > 377 && here < 623 && first > 845 && first < 1155 && second > 1336 && second < 1664);
    /* of a route: here, always */
    rig_feed(plane, one, "RMSG A q | w 1\r\ny\r\n");
    RIG_HEARD("MSG q 1 1\r\ny\r\n", a);
    RIG_HEARD("", two);
}

static void groups_behind_leafs_come_last(void) {
    peer_t *route = routed(), *leaf = leaf_of(0, "one"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, leaf, "LS+ q w 9\r\n");
    rig_feed(plane, route, "LS+ two A q w 9\r\nRS+ A q w 1\r\n");
    rig_heard(route), rig_heard(leaf);
    for (uint32_t i = 0; i < 50; i++) rig_feed(plane, a, "PUB q 1\r\nx\r\n");
    RIG_HEARD("", leaf);
    CHECK_EQ_U64(50, heard_times(route, "RMSG A q | w 1"));
    rig_feed(plane, route, "RS- A q w\r\n");
    rig_heard(leaf);
    uint32_t there = 0, behind = 0;
    for (uint32_t i = 0; i < 200; i++) {
        rig_feed(plane, a, "PUB q 1\r\nx\r\n");
        there += heard_times(route, "RMSG A q | w 1");
        behind += heard_times(leaf, "LMSG q | w 1");
    }
    CHECK_EQ_U64(200, there + behind);
    CHECK(there > 50 && behind > 50);
    /* never back to the cluster that it came from */
    rig_heard(leaf_of(0, "two"));
    rig_feed(plane, route, "LMSG one A q | w 0 1\r\ny\r\n");
    RIG_HEARD("", leaf);
}

/* ---- its life ---------------------------------------------------------------------------------------------------- */

static void control_hears_of_it(void) {
    peer_t *route = routed();
    plane_event_t event;
    rig_feed(plane, route, "PONG\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_INFO, &event));
    CHECK_EQ_U64(route->id, event.target);
    CHECK_EQ_U64(0, event.payload_size);
    rig_feed(plane, route, "PONG\r\nINFO {\"a\":1}\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_INFO, &event));
    CHECK_EQ_U64(7, event.payload_size);
    rig_feed(plane, route, "-ERR 'No'\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_ERR, &event));
    rig_feed(plane, route, "PING\r\n");
    RIG_HEARD("PONG\r\n", route);
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "services.>");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = OTHER_ACCOUNT, .target = 77}, &strings);
    rig_feed(plane, route, "RMSG B services.ping back 1\r\nx\r\n");
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_EQ_U64(77, event.target);
    CHECK_EQ_U64(OTHER_ACCOUNT, event.account);
    CHECK_EQ_U64(route->id, event.arg);
    CHECK_EQ_U64(CONN_ROUTE, event.arg2);
    CHECK_EQ_U64(OTHER_ACCOUNT, event.code);
}

/* A leaf has come to that server: mirrors and sources here wait for its domain, or began to ask before it went. */
static void apis_in_reach(void) {
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    peer_t *route = routed();
    plane_event_t event;
    rig_feed(plane, route, "RS+ A $JS.box.API.STREAM.>\r\nRS+ A box.API.>\r\nRS+ B $JS.box.API.>\r\n");
    CHECK(!rig_event(plane, EVENT_REACHED, &event));
    static const char *const lines[] = {"RS+ A $JS.one.API.>\r\n", "LS+ two A $JS.two.API.>\r\n"};
    static const char *const told[] = {"$JS.one.API.>", "$JS.two.API.>"};
    for (uint32_t i = 0; i < 2; i++) {
        rig_feed(plane, route, lines[i]);
        CHECK(rig_event(plane, EVENT_REACHED, &event) && event.account == RIG_ACCOUNT);
        CHECK_TEXT(told[i], (const char *)event.subject, event.subject_size);
        rig_feed(plane, route, lines[i]);
        CHECK(!rig_event(plane, EVENT_REACHED, &event)); /* it is there already */
    }
    rig_feed(plane, route, "RS- A $JS.one.API.>\r\nRS+ A $JS.one.API.>\r\n");
    CHECK(rig_event(plane, EVENT_REACHED, &event));
}

static void refused_without_a_cluster(void) {
    plane_t *lone = rig_open(NULL, "");
    peer_t *peer = rig_peer(lone, CONN_ROUTE, "test:6222");
    rig_say(lone, peer, "CONNECT {}\r\n");
    route_terms_t terms = {.flags = 0};
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 4; i++) rig_pack(&strings, "");
    rig_run(
        lone,
        (plane_command_t){
            .op = COMMAND_ADMIT_ROUTE, .target = peer->id, .body = (const uint8_t *)&terms, .body_size = sizeof(terms)},
        &strings);
    CHECK(peer->state == PEER_DOOMED);
    rig_close(lone);
}

static void ends_by_what_is_no_line(void) {
    static const char *const bad[] = {
        "RS+ A\r\n",          "RS+ A x q\r\n",    "RS- A x q 1\r\n", "LS+ o A\r\n",           "RMSG A 1\r\n",
        "RMSG A x r q 1\r\n", "LMSG o A x 1\r\n", "PUB x 1\r\n",     "RMSG A x 99999999\r\n", "HMSG A x 3 1\r\n"};
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        peer_t *route = routed();
        rig_say(plane, route, bad[i]);
        if (route->state != PEER_DOOMED) fprintf(stderr, "  %s", bad[i]);
        CHECK(route->state == PEER_DOOMED);
        rig_turn(plane);
    }
}

static void a_slow_one_holds_up_nobody(void) {
    peer_t *slow = routed(), *a = client_of(RIG_ACCOUNT), *b = client_of(RIG_ACCOUNT);
    rig_feed(plane, slow, "RS+ A x\r\n");
    rig_feed(plane, b, "SUB x 1\r\n");
    rig_heard(slow);
    static char line[70000];
    int head = snprintf(line, sizeof line, "PUB x 60000\r\n");
    memset(line + head, 'x', 60000);
    snprintf(line + head + 60000, sizeof line - (size_t)head - 60000, "\r\n");
    uint32_t got = 0;
    for (uint32_t i = 0; i < 200; i++) {
        rig_feed(plane, a, line);
        got += heard_times(b, "MSG x 1 60000");
    }
    CHECK_EQ_U64(200, got);
    CHECK(plane->routes == NULL); /* its queue is bounded: it has been closed */
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
}

/* Each operation is looked at then, and the account of one that has none is whatever was there before. */
static void what_has_no_account_while_the_store_lags(void) {
    peer_t *route = routed();
    op_t op = {.account = bytes_of((const uint8_t *)(uintptr_t)1, 264)};
    plane->throttling = true;
    for (op.kind = OP_NONE; op.kind < OP_PUB; op.kind++) CHECK(!throttle_holds(plane, route, &op));
    rig_heard(route);
    rig_feed(plane, route, "PING\r\n");
    RIG_HEARD("PONG\r\n", route);
}

static void promises(void) {
    RUN_CLUSTERED("a route is told of what clients want, in each account", told_of_clients);
    RUN_CLUSTERED("and of what leafs want, by their cluster", told_of_leafs_by_cluster);
    RUN_CLUSTERED("an older server is told the end of that without the cluster", old_peers_know_no_origin_in_unsub);
    RUN_CLUSTERED("it is not told of what other routes want", not_told_of_routes);
    RUN_CLUSTERED("nor of what every server has itself", not_told_of_what_each_server_has);
    RUN_CLUSTERED("it is told of the accounts that it carries", told_only_of_what_it_carries);
    RUN_CLUSTERED("import says what it is told, export what it may ask for", told_by_its_import);
    RUN_CLUSTERED("another import is told by what it changes", told_of_what_its_import_changes);
    RUN_CLUSTERED("another export ends what the peer may no longer ask for", its_interest_goes_with_its_export);
    RUN_CLUSTERED("a peer that takes more is told again of what it refused", told_again_of_what_the_peer_refused);
    RUN_CLUSTERED("thousands are gone through in slices", regranted_in_slices);
    RUN_CLUSTERED("messages go out once, with their groups", messages_out);
    RUN_CLUSTERED("lines of a route for one account do not name it", messages_of_one_account);
    RUN_CLUSTERED("what comes by a route goes to clients, and to no other route", messages_in);
    RUN_CLUSTERED("leafs get it, and nothing that comes from their own cluster", among_leafs);
    RUN_CLUSTERED("leafs are told of what routes want", leafs_are_told_of_routes);
    RUN_CLUSTERED("nothing is left of a route that goes", nothing_is_left_of_one_that_goes);
    RUN_CLUSTERED("who asks over a route has an answerer", a_route_is_an_answerer);
    RUN_CLUSTERED("groups that are behind leafs come last", groups_behind_leafs_come_last);
    RUN_CLUSTERED("control hears of its first PONG, its INFO, its errors and its requests", control_hears_of_it);
    RUN_CLUSTERED("control hears of a domain's API that has come into reach of another server", apis_in_reach);
    RUN_CLUSTERED("what has no account is taken while the store lags", what_has_no_account_while_the_store_lags);
    RUN_CLUSTERED("it ends by what is no line of a route", ends_by_what_is_no_line);
}

int main(void) {
    promises();
    RUN_CLUSTERED("a route hears of much in slices, and of changes meanwhile", told_in_slices);
    RUN_CLUSTERED("queue groups are drawn by weight, here and elsewhere", groups_by_weight);
    RUN_CLUSTERED("a slow route is closed and holds up nobody", a_slow_one_holds_up_nobody);
    RUN("a server without a cluster refuses routes", refused_without_a_cluster);
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
