/* test_plane_named.c: accounts that other servers name before they are known here, and interest that there was no
 * memory for: what routes and gateways have asked for is there as soon as it can be. */
#include "route_rig.h"

static void ends(peer_t *peer) {
    peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_NONE);
    rig_turn(plane);
}

/* ---- accounts that are not known yet ----------------------------------------------------------------------------- */

static void an_account_that_comes_later_has_its_interest(void) {
    peer_t *route = routed();
    rig_feed(plane, route,
             "RS+ Later x\r\nRS+ Later gone\r\nRS+ Later q w 3\r\nLS+ far Later leafs\r\nRS- Later gone\r\n");
    rig_feed(plane, route, "RMSG Later x 2\r\nhi\r\n");
    RIG_HEARD("", route);
    named_account(9, 0, "Later");
    peer_t *client = client_of(9);
    rig_feed(plane, client, "PUB x 1\r\na\r\nPUB gone 1\r\nb\r\nPUB q 1\r\nc\r\nPUB leafs 1\r\nd\r\n");
    RIG_HEARD("RMSG Later x 1\r\na\r\nRMSG Later q | w 1\r\nc\r\nRMSG Later leafs 1\r\nd\r\n", route);
    rig_feed(plane, route, "RS- Later x\r\n");
    rig_feed(plane, client, "PUB x 1\r\na\r\nSUB mine 1\r\n");
    RIG_HEARD("RS+ Later mine\r\n", route);
    rig_feed(plane, route, "RMSG Later mine 2\r\nhi\r\n");
    RIG_HEARD("MSG mine 1 2\r\nhi\r\n", client);
}

static void nothing_is_left_of_what_was_expected(void) {
    uint64_t before = plane->memory.interest.used;
    peer_t *route = routed(), *other = routed();
    rig_feed(plane, route, "RS+ Later x\r\n");
    rig_feed(plane, other, "RS+ Later x\r\nRS+ Later y\r\n");
    ends(route);
    ends(other);
    CHECK(plane->memory.interest.used > before); /* the name alone */
    named_account(9, 0, "Later");
    CHECK_EQ_U64(before, plane->memory.interest.used);
    RIG_HEARD("PING\r\n", route_new_one());
}

/* A peer that names more accounts than a server has takes no more than a share. */
static void so_many_are_expected_at_a_time(void) {
    peer_t *route = routed(), *other;
    char line[64];
    for (uint32_t i = 0; i < 3000; i++) {
        (void)snprintf(line, sizeof line, "RS+ n%u x\r\n", i);
        rig_feed(plane, route, line);
    }
    CHECK_EQ_U64(1024, plane->stats.subscriptions);
    CHECK(route->state == PEER_ADMITTED);
    ends(route);
    CHECK_EQ_U64(0, plane->stats.subscriptions);
    other = routed(); /* those that nobody asks for any more make room */
    rig_feed(plane, other, "RS+ Later x\r\n");
    named_account(9, 0, "Later");
    rig_feed(plane, client_of(9), "PUB x 1\r\na\r\n");
    RIG_HEARD("RMSG Later x 1\r\na\r\n", other);
}

/* ---- interest that there is no memory for ------------------------------------------------------------------------ */

static void refused_interest_is_asked_for_again(void) {
    peer_t *route = routed();
    plane->memory.interest.limit = 1 << 20;
    peer_t *holder = client_of(RIG_ACCOUNT);
    char line[64];
    uint32_t held = 0;
    for (; plane->memory.interest.used + 2048 < plane->memory.interest.limit; held++) {
        (void)snprintf(line, sizeof line, "SUB h.%u %u\r\n", held, held + 1);
        rig_feed(plane, holder, line);
    }
    rig_heard(route);
    uint32_t before = (uint32_t)plane->stats.subscriptions;
    for (uint32_t i = 0; i < 300; i++) {
        (void)snprintf(line, sizeof line, "RS+ A r.%u\r\n", i);
        rig_feed(plane, route, line);
    }
    CHECK(plane->stats.subscriptions < before + 300);
    CHECK(route->state == PEER_ADMITTED);
    RIG_HEARD("", route); /* a server would end the connection for an -ERR, and begin it again at once */
    rig_turn(plane);
    CHECK(route->state == PEER_ADMITTED);
    ends(holder);
    rig_turn(plane);
    CHECK(plane->routes == NULL); /* whoever dialled does so again, and is told everything */
    route = routed();
    for (uint32_t i = 0; i < 300; i++) {
        (void)snprintf(line, sizeof line, "RS+ A r.%u\r\n", i);
        rig_feed(plane, route, line);
    }
    CHECK_EQ_U64(300, plane->stats.subscriptions);
    rig_turn(plane);
    CHECK(plane->routes == route);
}

int main(void) {
    RUN_CLUSTERED("an account that comes later has its interest", an_account_that_comes_later_has_its_interest);
    RUN_CLUSTERED("nothing is left of what was expected", nothing_is_left_of_what_was_expected);
    RUN_CLUSTERED("so many accounts are expected at a time", so_many_are_expected_at_a_time);
    RUN_CLUSTERED("interest that was refused for memory is asked for again", refused_interest_is_asked_for_again);
    return TEST_RESULT();
}
