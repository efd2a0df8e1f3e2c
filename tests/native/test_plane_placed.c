/* test_plane_placed.c: a stream of one of several servers: what other servers and leafs are told of it, and pulls that
 * come from another cluster. Whole servers: tests/interop/test_placed_streams.py.
 */
#include "stream_rig.h"

#include "gateway_rig.h"

static void open_placed(void) {
    plane_limits_t limits = rig_limits(rig_new_directory());
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_GATEWAYS | CLUSTERED_META;
    plane = rig_open_with(rig_directory, limits);
    say_who_we_are(plane, "C", "S1");
    named_account(RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    rig_admits_to = RIG_ACCOUNT;
}

static void make_stream(void) {
    stream_config_t config = rig_stream;
    config.flags |= STREAM_ALLOW_DIRECT;
    rig_put_stream(plane, config);
    rig_settle(plane);
    rig_put_consumer(plane, rig_consumer);
    rig_settle(plane);
}

static bool has(const char *heard, const char *line) {
    return strstr(heard, line) != NULL;
}

#define NEXT "$JS.API.CONSUMER.MSG.NEXT.S.C"

/* Leafs ask the server that they are linked with, which asks the one that has the stream. */
static void servers_are_told_and_leafs_are_not(void) {
    open_placed();
    peer_t *route = route_of("S2"), *gateway = inbound("D"), *leaf = leaf_of(0, "leafs");
    make_stream();
    peer_t *const servers[] = {route, gateway};
    for (int i = 0; i < 2; i++) {
        const char *heard = rig_heard(servers[i]);
        CHECK(has(heard, "RS+ A s.>\r\n"));
        CHECK(has(heard, "RS+ A " NEXT "\r\n"));
        CHECK(has(heard, "RS+ A $JS.API.DIRECT.GET.S\r\n"));
        CHECK(has(heard, "RS+ A $JS.ACK.S.C.*.*.*.*.*\r\n"));
    }
    const char *heard = rig_heard(leaf);
    CHECK(has(heard, "LS+ s.>\r\n"));
    CHECK(has(heard, "LS+ $JS.ACK.S.C.*.*.*.*.*\r\n"));
    CHECK(!has(heard, "MSG.NEXT") && !has(heard, "DIRECT.GET"));
    /* of another server's stream, also a leaf that comes later */
    rig_feed(plane, route, "RS+ A $JS.API.CONSUMER.MSG.NEXT.T.C\r\nRS+ A $JS.API.DIRECT.GET.T\r\nRS+ A t.>\r\n");
    RIG_HEARD("LS+ t.>\r\n", leaf);
    heard = rig_heard(rig_leaf(plane, 0, "later", NULL));
    CHECK(has(heard, "LS+ t.>\r\n") && has(heard, "LS+ s.>\r\n"));
    CHECK(!has(heard, "MSG.NEXT") && !has(heard, "DIRECT.GET"));
    rig_feed(plane, route, "RS- A $JS.API.CONSUMER.MSG.NEXT.T.C\r\nRS- A $JS.API.DIRECT.GET.T\r\nRS- A t.>\r\n");
    RIG_HEARD("LS- t.>\r\n", leaf);
    /* it ends as it began */
    rig_run(plane, (plane_command_t){.op = COMMAND_STREAM_REMOVE, .target = 1, .token = 902}, NULL);
    rig_settle(plane);
    heard = rig_heard(route);
    CHECK(has(heard, "RS- A " NEXT "\r\n") && has(heard, "RS- A $JS.API.DIRECT.GET.S\r\n"));
    rig_close_and_remove(plane);
}

static void publish_one(peer_t *client) {
    rig_feed(plane, client, "PUB s.a 1\r\nx\r\n");
    rig_settle(plane);
}

/* The interest in a pull's answers comes by another connection, before it or behind it. */
static void a_pull_of_another_cluster_is_answered_with_and_without_interest(void) {
    open_placed();
    make_stream();
    peer_t *client = client_of(RIG_ACCOUNT), *gateway = inbound("D"), *away = outbound("D");
    publish_one(client);
    rig_feed(plane, gateway, "RMSG A " NEXT " " FROM_D "inbox.1 1\r\n1\r\n");
    rig_settle(plane);
    CHECK(has(rig_heard(away), "RMSG A " FROM_D "inbox.1 "));
    rig_feed(plane, away, "RS+ A inbox.2\r\n");
    rig_feed(plane, gateway, "RMSG A " NEXT " " FROM_D "inbox.2 1\r\n1\r\n");
    rig_settle(plane);
    RIG_HEARD("", away); /* it waits */
    publish_one(client);
    rig_settle(plane);
    CHECK(has(rig_heard(away), "RMSG A inbox.2 "));
    /* Whoever asked has gone: the next message is for the next one. */
    rig_feed(plane, gateway, "RMSG A " NEXT " " FROM_D "inbox.2 1\r\n1\r\n");
    rig_feed(plane, away, "RS- A inbox.2\r\nRS+ A inbox.3\r\n");
    rig_feed(plane, gateway, "RMSG A " NEXT " " FROM_D "inbox.3 1\r\n1\r\n");
    publish_one(client);
    rig_settle(plane);
    const char *heard = rig_heard(away);
    CHECK(has(heard, "RMSG A inbox.3 ") && !has(heard, "inbox.2"));
    /* A cluster that no gateway leads to gets nothing, and the message stays. */
    rig_feed(plane, gateway, "RMSG A " NEXT " _GR_.zzzzzz.server.inbox.4 1\r\n1\r\n");
    publish_one(client);
    rig_settle(plane);
    RIG_HEARD("", away);
    rig_close_and_remove(plane);
}

int main(void) {
    RUN("servers are told of pulls, direct gets and acknowledgements, leafs only of the last",
        servers_are_told_and_leafs_are_not);
    RUN("a pull of another cluster is answered, also before its interest is heard of",
        a_pull_of_another_cluster_is_answered_with_and_without_interest);
    return TEST_RESULT();
}
