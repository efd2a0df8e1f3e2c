/* test_plane_gateway.c: gateways, the connections to other clusters: what they are told, what crosses, which way
 * answers take. The bytes are those of nats-server (tests/wire/gateway.md). */
#include "gateway_rig.h"

/* ---- what a gateway is told -------------------------------------------------------------------------------------- */

/* QQ== is base64 of A, Qg== of B. */
#define BEGUN_A                                                                                                        \
    "INFO {\"gateway\":\"C\",\"gateway_cmd\":2,\"gateway_cmd_payload\":\"QQ==\"}\r\n"                                  \
    "INFO {\"gateway\":\"C\",\"gateway_cmd\":3,\"gateway_cmd_payload\":\"QQ==\"}\r\n"
#define BEGUN_B                                                                                                        \
    "INFO {\"gateway\":\"C\",\"gateway_cmd\":2,\"gateway_cmd_payload\":\"Qg==\"}\r\n"                                  \
    "INFO {\"gateway\":\"C\",\"gateway_cmd\":3,\"gateway_cmd_payload\":\"Qg==\"}\r\n"

static void told_by_account(void) {
    peer_t *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT);
    rig_feed(plane, a, "SUB early 1\r\n");
    peer_t *gateway = gateway_new(0, "D"), *away = outbound("D");
    RIG_HEARD(BEGUN_A "RS+ A early\r\nPING\r\n", gateway);
    rig_feed(plane, a, "SUB x 2\r\nSUB x 3\r\nSUB q w 4\r\nSUB q w 5\r\n");
    RIG_HEARD("RS+ A x\r\nRS+ A q w 1\r\n", gateway);
    rig_feed(plane, b, "SUB x 1\r\n");
    RIG_HEARD(BEGUN_B "RS+ B x\r\n", gateway);
    rig_feed(plane, a, "UNSUB 2\r\nUNSUB 4\r\n");
    RIG_HEARD("", gateway);
    rig_feed(plane, a, "UNSUB 3\r\nUNSUB 5\r\n");
    const char *heard = rig_heard(gateway);
    CHECK(strstr(heard, "RS- A x\r\n") != NULL && strstr(heard, "RS- A q w\r\n") != NULL);
    CHECK_EQ_U64(strlen("RS- A x\r\nRS- A q w\r\n"), strlen(heard));
    RIG_HEARD("", away);
}

static void told_of_all_of_the_cluster(void) {
    peer_t *gateway = inbound("D"), *route = route_of("S2"), *a = client_of(RIG_ACCOUNT), *leaf = leaf_of(0, "leafs");
    peer_t *hub = leaf_of(VERDICT_SPOKE, "hub");
    rig_feed(plane, route, "RS+ A x\r\nLS+ leafs A y\r\nRS+ A q w 5\r\n");
    RIG_HEARD(BEGUN_A "RS+ A x\r\nRS+ A y\r\nRS+ A q w 1\r\n", gateway);
    rig_feed(plane, a, "SUB x 1\r\nSUB y 2\r\nSUB q w 3\r\n");
    rig_feed(plane, leaf, "LS+ x\r\nLS+ z\r\n");
    RIG_HEARD("RS+ A z\r\n", gateway);
    rig_feed(plane, hub, "LS+ above\r\n");
    RIG_HEARD("", gateway);
    rig_feed(plane, a, "UNSUB 1\r\nUNSUB 2\r\nUNSUB 3\r\n");
    rig_feed(plane, route, "RS- A x\r\n");
    RIG_HEARD("", gateway);
    rig_feed(plane, leaf, "LS- x\r\n");
    RIG_HEARD("RS- A x\r\n", gateway);
    rig_feed(plane, route, "RS- A q w\r\nLS- leafs A y\r\n");
    const char *heard = rig_heard(gateway);
    CHECK(strstr(heard, "RS- A q w\r\n") != NULL && strstr(heard, "RS- A y\r\n") != NULL);
}

static void not_told_of_other_clusters(void) {
    peer_t *gateway = inbound("D"), *away = outbound("E"), *route = route_of("S2");
    rig_feed(plane, away, "RS+ A x\r\nRS+ A q w 1\r\n");
    RIG_HEARD("", gateway);
    RIG_HEARD("", route);
    RIG_HEARD("PING\r\n", gateway_new(0, "D"));
}

static void leafs_are_told_of_gateways(void) {
    peer_t *away = outbound("D");
    rig_feed(plane, away, "RS+ A early\r\n");
    peer_t *leaf = rig_leaf(plane, 0, "leafs", NULL), *hub = rig_leaf(plane, VERDICT_SPOKE, "hub", NULL);
    const char *heard = rig_heard(leaf);
    CHECK(strstr(heard, "LS+ early\r\n") != NULL && strstr(heard, "LS+ _GR_.>\r\n") != NULL);
    CHECK(strstr(rig_heard(hub), "LS+ _GR_.>\r\n") != NULL);
    rig_feed(plane, away, "RS+ A x\r\nRS- A early\r\n");
    RIG_HEARD("LS+ x\r\nLS- early\r\n", leaf);
    RIG_HEARD("", hub);
}

#define MANY 5000u

static void told_in_slices(void) {
    peer_t *a = client_of(RIG_ACCOUNT);
    char line[64];
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "SUB of.%u %u\r\n", i, i + 1);
        rig_feed(plane, a, line);
    }
    peer_t *gateway = gateway_asking(plane, 0, "D");
    CHECK(!gateway->gateway->told_all);
    const char *heard = rig_heard(gateway);
    CHECK(strstr(heard, BEGUN_A "RS+ A of.0\r\n") == heard && strstr(heard, "of.4999\r\n") == NULL);
    /* what ends before it was told is never told, what was told is taken back, what is new comes in its turn */
    rig_feed(plane, a, "UNSUB 1\r\nUNSUB 4999\r\nSUB late 9000\r\n");
    bool taken_back = false, told_late = false;
    uint32_t lines = 0;
    for (uint32_t turn = 0; turn < 100; turn++) {
        heard = rig_heard(gateway);
        taken_back = taken_back || strstr(heard, "RS- A of.0\r\n") != NULL;
        told_late = told_late || strstr(heard, "RS+ A late\r\n") != NULL;
        CHECK(strstr(heard, "of.4998\r\n") == NULL);
        for (const char *at = heard; (at = strstr(at, "RS+ A of.")) != NULL; at++) lines++;
        rig_turn(plane);
    }
    CHECK(gateway->gateway->told_all && taken_back && told_late);
    CHECK_EQ_U64(MANY - TELL_FIRST - 1, lines);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void messages_out(void) {
    peer_t *away = outbound("D"), *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT);
    rig_feed(plane, away, "RS+ A x\r\nRS+ A x w 1\r\nRS+ A only w 1\r\nRS+ A y\r\nA- A\r\nA+ A\r\n");
    rig_feed(plane, a, "PUB x 1\r\na\r\nPUB x r 1\r\nb\r\nPUB only 1\r\nc\r\nPUB y 0\r\n\r\nPUB none 1\r\nd\r\n");
    RIG_HEARD("RMSG A x | w 1\r\na\r\nRMSG A x + r w 1\r\nb\r\nRMSG A only | w 1\r\nc\r\nRMSG A y 0\r\n\r\n", away);
    rig_feed(plane, a, "HPUB y r 12 13\r\nNATS/1.0\r\n\r\nd\r\n");
    RIG_HEARD("HMSG A y r 12 13\r\nNATS/1.0\r\n\r\nd\r\n", away);
    rig_feed(plane, b, "PUB x 1\r\ne\r\n");
    RIG_HEARD("", away);
    rig_feed(plane, away, "RS- A x\r\nRS- A x w\r\nRS- A never\r\n");
    rig_feed(plane, a, "PUB x 1\r\nf\r\n");
    RIG_HEARD("", away);
}

static void a_peer_without_headers_gets_none(void) {
    peer_t *away = gateway_new(GATEWAY_OUTBOUND, "D"), *a = client_of(RIG_ACCOUNT);
    rig_heard(away);
    rig_feed(plane, away, "RS+ A y\r\n");
    rig_feed(plane, a, "HPUB y r 12 13\r\nNATS/1.0\r\n\r\nd\r\n");
    RIG_HEARD("RMSG A y r 1\r\nd\r\n", away);
}

static void messages_in(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *third = outbound("E"), *route = route_of("S2");
    peer_t *a = client_of(RIG_ACCOUNT), *b = client_of(OTHER_ACCOUNT), *leaf = leaf_of(0, "leafs"),
           *hub = leaf_of(VERDICT_SPOKE, "hub");
    rig_feed(plane, a, "SUB x 1\r\nSUB x w 2\r\n");
    rig_feed(plane, b, "SUB x 1\r\n");
    rig_feed(plane, leaf, "LS+ x\r\n");
    rig_feed(plane, hub, "LS+ x\r\n");
    rig_feed(plane, route, "RS+ A x\r\n");
    rig_feed(plane, away, "RS+ A x\r\n");
    rig_feed(plane, third, "RS+ A x\r\nRS+ A x w 1\r\n");
    rig_heard(gateway), rig_heard(route), rig_heard(leaf), rig_heard(hub), rig_heard(away), rig_heard(third);
    rig_feed(plane, gateway, "RMSG A x r 1\r\na\r\nRMSG A x | w 1\r\nb\r\nRMSG nobody x 1\r\nc\r\n");
    const char *heard = rig_heard(a);
    CHECK(strstr(heard, "MSG x 1 r 1\r\na\r\nMSG x 1 1\r\nb\r\nMSG x 2 1\r\nb\r\n") == heard);
    RIG_HEARD("RMSG A x r 1\r\na\r\nRMSG A x 1\r\nb\r\n", route);
    RIG_HEARD("LMSG x r 1\r\na\r\nLMSG x 1\r\nb\r\n", leaf);
    RIG_HEARD("LMSG x r 1\r\na\r\nLMSG x 1\r\nb\r\n", hub);
    RIG_HEARD("", away);
    RIG_HEARD("", third);
    RIG_HEARD("", gateway);
    RIG_HEARD("", b);
    /* nor does what came by a route: each server has gateways of its own */
    rig_feed(plane, route, "RMSG A x 1\r\nd\r\n");
    RIG_HEARD("", away);
    /* what leafs and our hub send does */
    rig_feed(plane, leaf, "LMSG x 1\r\ne\r\n");
    RIG_HEARD("RMSG A x 1\r\ne\r\n", away);
    rig_feed(plane, hub, "LMSG x 1\r\nf\r\n");
    RIG_HEARD("RMSG A x 1\r\nf\r\n", away);
}

static void groups_stay_in_the_cluster(void) {
    peer_t *near = outbound("D"), *far = outbound("E"), *a = client_of(RIG_ACCOUNT), *b = client_of(RIG_ACCOUNT);
    peer_t *route = route_of("S2");
    far->rtt_ns = 2000, near->rtt_ns = 1000;
    rig_feed(plane, far, "RS+ A q w 1\r\nRS+ A q v 1\r\nRS+ A q\r\n");
    rig_feed(plane, near, "RS+ A q w 1\r\n");
    rig_feed(plane, b, "PUB q 1\r\na\r\n");
    RIG_HEARD("RMSG A q | w 1\r\na\r\n", near);
    RIG_HEARD("RMSG A q | v 1\r\na\r\n", far);
    near->rtt_ns = 3000;
    rig_feed(plane, b, "PUB q 1\r\nb\r\n");
    RIG_HEARD("", near);
    const char *heard = rig_heard(far);
    CHECK(strcmp(heard, "RMSG A q | w v 1\r\nb\r\n") == 0 || strcmp(heard, "RMSG A q | v w 1\r\nb\r\n") == 0);
    rig_feed(plane, route, "RS+ A q w 1\r\n");
    rig_feed(plane, a, "SUB q v 1\r\n");
    for (uint32_t i = 0; i < 20; i++) rig_feed(plane, b, "PUB q 1\r\nc\r\n");
    RIG_HEARD("", near);
    CHECK(strstr(rig_heard(far), "|") == NULL);
    CHECK(strstr(rig_heard(route), "RMSG A q | w 1\r\nc\r\n") != NULL);
}

static void a_gateway_is_an_answerer(void) {
    peer_t *away = outbound("D"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB inbox 1\r\nPUB x inbox 1\r\na\r\n");
    RIG_HEARD("HMSG inbox 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: x\r\n\r\n\r\n", a);
    rig_feed(plane, away, "RS+ A x\r\n");
    rig_feed(plane, a, "PUB x inbox 1\r\na\r\n");
    RIG_HEARD("", a);
    peer_doom_silently(plane, away, CLOSE_CLIENT, BYTES_NONE);
    core_settle(plane);
    rig_feed(plane, a, "PUB x inbox 1\r\na\r\n");
    RIG_HEARD("HMSG inbox 1 33 33\r\nNATS/1.0 503\r\nNats-Subject: x\r\n\r\n\r\n", a);
    CHECK(plane->gateways->outbound == NULL);
    CHECK_EQ_U64(0, plane->outbound_count);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void replies_are_named_while_they_are_young(void) {
    peer_t *away = outbound("D"), *a = client_of(RIG_ACCOUNT), *b = client_of(RIG_ACCOUNT);
    rig_feed(plane, away, "RS+ A x\r\nRS+ A x w 1\r\n");
    rig_feed(plane, a, "SUB inbox.* 1\r\nPUB x inbox.1 1\r\na\r\nPUB x elsewhere 1\r\nb\r\n");
    RIG_HEARD("RMSG A x + " OWN "inbox.1 w 1\r\na\r\nRMSG A x + elsewhere w 1\r\nb\r\n", away);
    time_passes(1900 * NS_PER_MS);
    rig_feed(plane, a, "PUB x inbox.2 1\r\nc\r\n");
    RIG_HEARD("RMSG A x + " OWN "inbox.2 w 1\r\nc\r\n", away);
    time_passes(200 * NS_PER_MS);
    rig_feed(plane, a, "PUB x inbox.3 1\r\nd\r\n");
    RIG_HEARD("RMSG A x + inbox.3 w 1\r\nd\r\n", away);
    /* that another one is new does not matter */
    rig_feed(plane, b, "SUB other 1\r\n");
    rig_feed(plane, a, "PUB x inbox.4 1\r\ne\r\n");
    RIG_HEARD("RMSG A x + inbox.4 w 1\r\ne\r\n", away);
    rig_feed(plane, b, "SUB inbox.5 w 2\r\n");
    rig_feed(plane, a, "PUB x inbox.5 1\r\nf\r\n");
    RIG_HEARD("RMSG A x + " OWN "inbox.5 w 1\r\nf\r\n", away);
}

/* Interest takes as long as a round trip, and a few more where a packet is lost. */
static void far_away_they_are_young_for_longer(void) {
    peer_t *away = gateway_new(GATEWAY_OUTBOUND | GATEWAY_HEADERS, "D"), *near = inbound("E");
    peer_t *a = client_of(RIG_ACCOUNT);
    time_passes(2 * NS_PER_SECOND);
    rig_feed(plane, away, "PONG\r\nRS+ A x\r\n");
    time_passes(8 * NS_PER_SECOND);
    rig_feed(plane, a, "SUB inbox.* 1\r\n");
    time_passes(7900 * NS_PER_MS), rig_heard(away);
    rig_feed(plane, a, "PUB x inbox.1 1\r\na\r\n");
    RIG_HEARD("RMSG A x " OWN "inbox.1 1\r\na\r\n", away);
    time_passes(200 * NS_PER_MS), rig_heard(away);
    rig_feed(plane, a, "PUB x inbox.2 1\r\nb\r\n");
    RIG_HEARD("RMSG A x inbox.2 1\r\nb\r\n", away);
    /* The answer of a client by its bare name leads back for as long. */
    rig_feed(plane, a, "SUB y 2\r\n");
    rig_feed(plane, near, "RMSG A y " FROM_D "inbox 1\r\nc\r\n");
    time_passes(7900 * NS_PER_MS), rig_heard(away);
    rig_feed(plane, a, "PUB inbox 1\r\nd\r\n");
    RIG_HEARD("RMSG A " FROM_D "inbox 1\r\nd\r\n", away);
    time_passes(200 * NS_PER_MS), rig_heard(away);
    rig_feed(plane, a, "PUB inbox 1\r\ne\r\n");
    RIG_HEARD("", away);
    peer_doom(plane, away, CLOSE_CLIENT, BYTES_NONE), rig_turn(plane);
    CHECK_EQ_I64(0, plane->gateways->far_ns);
}

/* It is told of our subscriptions from then on, and may be asked before it knows. */
static void all_are_young_to_a_gateway_that_has_just_come(void) {
    peer_t *away = outbound("D"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, away, "RS+ A x\r\n");
    rig_feed(plane, a, "SUB inbox 1\r\n");
    time_passes(60 * NS_PER_SECOND);
    rig_heard(away);
    rig_feed(plane, a, "PUB x inbox 1\r\na\r\nPUB x else 1\r\nb\r\n");
    RIG_HEARD("RMSG A x inbox 1\r\na\r\nRMSG A x else 1\r\nb\r\n", away);
    peer_t *back = gateway_new(GATEWAY_HEADERS, "D"); /* its PONG is on its way */
    time_passes(1 * NS_PER_SECOND);
    rig_feed(plane, a, "PUB x inbox 1\r\nc\r\nPUB x else 1\r\nd\r\n");
    RIG_HEARD("RMSG A x " OWN "inbox 1\r\nc\r\nRMSG A x else 1\r\nd\r\n", away);
    rig_feed(plane, back, "PONG\r\n");
    time_passes(3900 * NS_PER_MS);
    rig_feed(plane, a, "PUB x inbox 1\r\ne\r\n");
    RIG_HEARD("RMSG A x " OWN "inbox 1\r\ne\r\n", away);
    time_passes(200 * NS_PER_MS);
    rig_feed(plane, a, "PUB x inbox 1\r\nf\r\n");
    RIG_HEARD("RMSG A x inbox 1\r\nf\r\n", away);
    peer_t *mute = gateway_new(GATEWAY_HEADERS, "E");
    peer_doom(plane, mute, CLOSE_CLIENT, BYTES_NONE), rig_turn(plane);
    CHECK_EQ_U64(0, plane->gateways->unheard);
}

static void answers_come_back(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *a = client_of(RIG_ACCOUNT), *route = route_of("S2");
    rig_feed(plane, a, "SUB inbox 1\r\nSUB > w 2\r\n");
    rig_heard(route), rig_heard(gateway);
    rig_feed(plane, gateway, "RMSG A " OWN "inbox 1\r\na\r\n");
    const char *heard = rig_heard(a);
    CHECK(strstr(heard, "MSG inbox 1 1\r\na\r\n") != NULL && strstr(heard, "MSG inbox 2 1\r\na\r\n") != NULL);
    /* of another cluster: nobody's; of another server: by the route to it, as it is */
    rig_feed(plane, gateway, "RMSG A _GR_.zzzzzz." OWN_SERVER ".inbox 1\r\nb\r\n");
    rig_feed(plane, gateway, "HMSG A _GR_." OWN_CLUSTER "." SERVER_2 ".inbox r 12 13\r\nNATS/1.0\r\n\r\nc\r\n");
    RIG_HEARD("", a);
    RIG_HEARD("HMSG A _GR_." OWN_CLUSTER "." SERVER_2 ".inbox r 12 13\r\nNATS/1.0\r\n\r\nc\r\n", route);
    /* no route leads there */
    rig_feed(plane, gateway, "RMSG A _GR_." OWN_CLUSTER ".zzzzzz.inbox 1\r\nd\r\n");
    CHECK(strstr(rig_heard(a), "MSG inbox 1 1\r\nd\r\n") != NULL);
    /* by a route, from the server that has the gateway */
    rig_feed(plane, route, "RMSG A " OWN "inbox 1\r\ne\r\n");
    CHECK(strstr(rig_heard(a), "MSG inbox 1 1\r\ne\r\n") != NULL);
    /* whoever listens in other clusters has it, too */
    rig_feed(plane, away, "RS+ A inbox\r\nRS+ A _R_.x\r\n");
    rig_feed(plane, gateway, "RMSG A " OWN "inbox 1\r\nf\r\nRMSG A " OWN "_R_.x 1\r\ng\r\n");
    RIG_HEARD("RMSG A inbox 1\r\nf\r\n", away);
    /* too short for one: a subject as any other */
    rig_feed(plane, gateway, "RMSG A _GR_.short 1\r\nh\r\n");
    RIG_HEARD("", away);
}

static void clients_answer_by_the_bare_name(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *third = outbound("E"), *a = client_of(RIG_ACCOUNT);
    peer_t *b = client_of(OTHER_ACCOUNT), *listener = client_of(RIG_ACCOUNT), *hub = leaf_of(VERDICT_SPOKE, "hub");
    rig_feed(plane, a, "SUB x 1\r\n");
    rig_feed(plane, listener, "SUB > 1\r\nSUB inbox 2\r\n");
    rig_feed(plane, third, "RS+ A >\r\n");
    rig_feed(plane, hub, "LS+ _GR_.>\r\n");
    rig_heard(gateway), rig_heard(hub);
    rig_feed(plane, gateway, "RMSG A x " FROM_D "inbox 1\r\na\r\n");
    RIG_HEARD("MSG x 1 inbox 1\r\na\r\n", a);
    rig_heard(listener);
    rig_feed(plane, a, "PUB inbox back 1\r\nb\r\nPUB inbox 1\r\nc\r\n");
    RIG_HEARD("RMSG A " FROM_D "inbox " OWN "back 1\r\nb\r\nRMSG A " FROM_D "inbox 1\r\nc\r\n", away);
    RIG_HEARD("LMSG " FROM_D "inbox back 1\r\nb\r\nLMSG " FROM_D "inbox 1\r\nc\r\n", hub);
    RIG_HEARD("", third);
    RIG_HEARD("", listener);
    rig_feed(plane, b, "PUB inbox 1\r\nd\r\n");
    RIG_HEARD("", away);
    /* for two seconds; a client may not say the whole name itself */
    time_passes(2 * NS_PER_SECOND);
    rig_feed(plane, a, "PUB inbox 1\r\ne\r\nPUB " FROM_D "inbox 1\r\nf\r\n");
    RIG_HEARD("", away);
    CHECK(strstr(rig_heard(a), "-ERR 'Permissions Violation for Publish to \"" FROM_D "inbox\"'") != NULL);
    CHECK_EQ_U64(0, plane->memory.replies.share.used);
}

static void a_delivery_has_its_name_behind_both(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB to 1\r\n");
    rig_heard(gateway);
    rig_feed(plane, gateway, "RMSG A to " FROM_D "$JS.ACK.s.c.1.2.3.4.5@orders.1 1\r\na\r\n");
    RIG_HEARD("MSG orders.1 1 $JS.ACK.s.c.1.2.3.4.5 1\r\na\r\n", a);
    rig_feed(plane, a, "PUB $JS.ACK.s.c.1.2.3.4.5 4\r\n+ACK\r\n");
    RIG_HEARD("RMSG A " FROM_D "$JS.ACK.s.c.1.2.3.4.5 4\r\n+ACK\r\n", away);
}

/* Whoever asked has the way back as its subject: what a stream delivers comes by it, and by the route to its server. */
static void a_delivery_by_a_way_back_has_its_name(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *a = client_of(RIG_ACCOUNT), *route = route_of("S2");
    rig_feed(plane, a, "SUB inbox 1\r\n");
    rig_heard(gateway), rig_heard(route);
    rig_feed(plane, gateway, "RMSG A " OWN "inbox $JS.ACK.s.c.1.2.3.4.5@orders.1 1\r\na\r\n");
    RIG_HEARD("MSG orders.1 1 $JS.ACK.s.c.1.2.3.4.5 1\r\na\r\n", a);
    rig_feed(plane, route, "RMSG A " OWN "inbox $JS.ACK.s.c.1.2.3.4.5@orders.2 1\r\nb\r\n");
    RIG_HEARD("MSG orders.2 1 $JS.ACK.s.c.1.2.3.4.5 1\r\nb\r\n", a);
    /* of another server of this cluster, and of whoever listens in the other cluster: as it came */
    rig_feed(plane, gateway,
             "RMSG A _GR_." OWN_CLUSTER "." SERVER_2 ".inbox $JS.ACK.s.c.1.2.3.4.5@orders.3 1\r\nc\r\n");
    RIG_HEARD("RMSG A _GR_." OWN_CLUSTER "." SERVER_2 ".inbox $JS.ACK.s.c.1.2.3.4.5@orders.3 1\r\nc\r\n", route);
    rig_feed(plane, away, "RS+ A inbox\r\n");
    rig_feed(plane, gateway, "RMSG A " OWN "inbox $JS.ACK.s.c.1.2.3.4.5@orders.4 1\r\nd\r\n");
    RIG_HEARD("RMSG A inbox $JS.ACK.s.c.1.2.3.4.5@orders.4 1\r\nd\r\n", away);
    RIG_HEARD("MSG orders.4 1 $JS.ACK.s.c.1.2.3.4.5 1\r\nd\r\n", a);
    /* the acknowledgement has a way of its own */
    rig_feed(plane, gateway, "RMSG A " OWN "inbox " FROM_D "$JS.ACK.s.c.1.2.3.4.5@orders.5 1\r\ne\r\n");
    RIG_HEARD("MSG orders.5 1 $JS.ACK.s.c.1.2.3.4.5 1\r\ne\r\n", a);
    rig_heard(away);
    rig_feed(plane, a, "PUB $JS.ACK.s.c.1.2.3.4.5 4\r\n+ACK\r\n");
    RIG_HEARD("RMSG A " FROM_D "$JS.ACK.s.c.1.2.3.4.5 4\r\n+ACK\r\n", away);
}

static void leafs_answer_by_the_whole_name(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *leaf = leaf_of(0, "leafs"), *route = route_of("S2");
    rig_feed(plane, leaf, "LS+ x\r\n");
    rig_heard(gateway), rig_heard(route);
    rig_feed(plane, gateway, "RMSG A x " FROM_D "inbox 1\r\na\r\n");
    RIG_HEARD("LMSG x " FROM_D "inbox 1\r\na\r\n", leaf);
    rig_feed(plane, leaf, "LMSG " FROM_D "inbox 1\r\nb\r\n");
    RIG_HEARD("RMSG A " FROM_D "inbox 1\r\nb\r\n", away);
    RIG_HEARD("", route);
    /* by a route */
    rig_feed(plane, route, "RMSG A x " FROM_D "inbox.2 1\r\nc\r\n");
    RIG_HEARD("LMSG x " FROM_D "inbox.2 1\r\nc\r\n", leaf);
}

static void control_answers_by_the_whole_name(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D");
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, "service");
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_SUBSCRIBE, .account = RIG_ACCOUNT, .target = 70}, &strings);
    rig_feed(plane, gateway, "RMSG A service " FROM_D "inbox 1\r\na\r\n");
    plane_event_t event;
    CHECK(rig_event(plane, EVENT_MESSAGE, &event));
    CHECK_TEXT(FROM_D "inbox", (const char *)event.reply, event.reply_size);
    CHECK_EQ_U64(CONN_GATEWAY, event.arg2);
    strings.size = 0;
    rig_pack(&strings, FROM_D "inbox");
    rig_pack(&strings, "");
    rig_pack(&strings, "");
    rig_run(
        plane,
        (plane_command_t){.op = COMMAND_PUBLISH, .account = RIG_ACCOUNT, .body = (const uint8_t *)"b", .body_size = 1},
        &strings);
    rig_turn(plane);
    RIG_HEARD("RMSG A " FROM_D "inbox 1\r\nb\r\n", away);
}

/* A leaf of a cluster that has gateways has none itself. */
static void a_leaf_of_a_cluster_answers_too(void) {
    plane_t *lone = rig_open(NULL, "");
    peer_t *hub = rig_leaf(lone, VERDICT_SPOKE, "hub", NULL), *client = rig_client(lone);
    rig_feed(lone, client, "SUB x 1\r\n");
    rig_feed(lone, hub, "LS+ _GR_.>\r\n");
    rig_heard(hub);
    rig_feed(lone, hub, "LMSG x " FROM_D "inbox 1\r\na\r\n");
    RIG_HEARD("MSG x 1 inbox 1\r\na\r\n", client);
    rig_feed(lone, client, "PUB inbox 1\r\nb\r\n");
    RIG_HEARD("LMSG " FROM_D "inbox 1\r\nb\r\n", hub);
    rig_close(lone);
}

#define FLOOD 200000u

/* A server that lies may say any reply. What nobody listens to is not answered, so its reply is not kept either, and
 * whoever publishes to that name reaches those who listen here. */
static void whole_names_that_nobody_can_answer_are_not_kept(void) {
    peer_t *gateway = inbound("D"), *away = outbound("D"), *route = route_of("S2"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB inbox 1\r\nSUB q work 2\r\n");
    rig_heard(gateway), rig_heard(route);
    peer_t *const liars[] = {gateway, route};
    for (uint32_t i = 0; i < 2; i++) {
        rig_feed(plane, liars[i], "RMSG A nobody " FROM_D "inbox 1\r\na\r\n");
        rig_feed(plane, liars[i], "RMSG A q + " FROM_D "inbox other 1\r\na\r\n");
        rig_feed(plane, liars[i], "RMSG A " OWN "nobody " FROM_D "inbox 1\r\na\r\n");
        rig_feed(plane, a, "PUB inbox 1\r\nb\r\n");
        RIG_HEARD("MSG inbox 1 1\r\nb\r\n", a);
        RIG_HEARD("", away);
        CHECK_EQ_U64(0, plane->memory.replies.share.used);
    }
    rig_feed(plane, route, "RMSG A q + " FROM_D "inbox work 1\r\nc\r\n");
    rig_heard(a);
    rig_feed(plane, a, "PUB inbox 1\r\nd\r\n");
    RIG_HEARD("RMSG A " FROM_D "inbox 1\r\nd\r\n", away);
    CHECK(plane->memory.replies.share.used != 0);
}

static void whole_names_have_a_share(void) {
    peer_t *gateway = inbound("D"), *a = client_of(RIG_ACCOUNT);
    rig_feed(plane, a, "SUB x 1\r\n");
    char line[128];
    for (uint32_t i = 0; i < FLOOD; i++) {
        snprintf(line, sizeof line, "RMSG A x " FROM_D "inbox.%u 1\r\na\r\n", i);
        rig_say(plane, gateway, line);
        if (i % 100 == 0) {
            rig_turn(plane);
            rig_heard(a);
        }
    }
    CHECK(plane->memory.replies.share.used <= plane->memory.replies.share.limit);
    time_passes(2 * NS_PER_SECOND);
    for (uint32_t i = 0; i < 100; i++) rig_turn(plane);
    CHECK_EQ_U64(0, plane->memory.replies.share.used);
}

/* ---- its life ---------------------------------------------------------------------------------------------------- */

/* A leaf has come to the other cluster: mirrors and sources here wait for its domain. */
static void apis_in_reach(void) {
    rig_account(plane, RIG_ACCOUNT, ACCOUNT_JETSTREAM, "A");
    peer_t *away = outbound("D");
    plane_event_t event;
    rig_feed(plane, away, "RS+ A $JS.box.API.STREAM.>\r\nRS+ B $JS.box.API.>\r\n");
    CHECK(!rig_event(plane, EVENT_REACHED, &event));
    rig_feed(plane, away, "RS+ A $JS.box.API.>\r\n");
    CHECK(rig_event(plane, EVENT_REACHED, &event) && event.account == RIG_ACCOUNT);
    CHECK_TEXT("$JS.box.API.>", (const char *)event.subject, event.subject_size);
    rig_feed(plane, away, "RS+ A $JS.box.API.>\r\n");
    CHECK(!rig_event(plane, EVENT_REACHED, &event)); /* it is there already */
    rig_feed(plane, away, "RS- A $JS.box.API.>\r\nRS+ A $JS.box.API.>\r\n");
    CHECK(rig_event(plane, EVENT_REACHED, &event));
}

static void control_hears_of_it(void) {
    peer_t *away = outbound("D");
    plane_event_t event;
    rig_feed(plane, away, "PONG\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_INFO, &event));
    CHECK_EQ_U64(away->id, event.target);
    CHECK_EQ_U64(0, event.payload_size);
    rig_feed(plane, away,
             "PONG\r\nINFO {\"gateway\":\"D\",\"gateway_cmd\":2,\"gateway_cmd_payload\":\"QQ==\"}\r\n"
             "INFO {\"gateway\":\"D\",\"gateway_cmd\":3,\"gateway_cmd_payload\":\"QQ==\"}\r\n"
             "INFO {\"gateway\":\"E\",\"gateway_cmd\":1}\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_INFO, &event));
    CHECK_TEXT("{\"gateway\":\"E\",\"gateway_cmd\":1}", (const char *)event.payload, event.payload_size);
    rig_feed(plane, away, "-ERR 'No'\r\n");
    CHECK(rig_event(plane, EVENT_LEAF_ERR, &event));
    rig_feed(plane, away, "PING\r\n");
    RIG_HEARD("PONG\r\n", away);
}

static void refused(void) {
    plane_t *lone = rig_open(NULL, "");
    CHECK(gateway_asking(lone, 0, "D")->state == PEER_DOOMED);
    say_who_we_are(lone, "C", "S1");
    CHECK(gateway_asking(lone, 0, "D")->state == PEER_DOOMED);
    rig_close(lone);
}

static void refused_without_names(void) {
    CHECK(gateway_asking(plane, 0, "")->state == PEER_DOOMED);
}

static void ends_by_what_is_no_line(void) {
    static const char *const bad[] = {"RS+ A\r\n",     "RS+ A x q\r\n",       "RS- A x q 1\r\n",
                                      "LS+ o A x\r\n", "RMSG A x 1\r\na\r\n", "A+\r\n",
                                      "A- A B\r\n",    "PUB x 1\r\na\r\n",    "LMSG o A x 0 1\r\na\r\n"};
    static const char *const bad_in[] = {
        "RS+ A x\r\n",          "RS- A x\r\n",     "A+ A\r\n", "RMSG A x\r\n", "LMSG o A x 0 1\r\na\r\n",
        "RMSG A x 9999999\r\n", "HMSG A x 3 1\r\n"};
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + sizeof(bad_in) / sizeof(bad_in[0]); i++) {
        uint32_t out = sizeof(bad) / sizeof(bad[0]);
        peer_t *peer = i < out ? outbound("D") : inbound("D");
        rig_say(plane, peer, i < out ? bad[i] : bad_in[i - out]);
        if (peer->state != PEER_DOOMED) fprintf(stderr, "  %s", i < out ? bad[i] : bad_in[i - out]);
        CHECK(peer->state == PEER_DOOMED);
        rig_turn(plane);
    }
}

static void a_slow_one_holds_up_nobody(void) {
    peer_t *slow = outbound("D"), *a = client_of(RIG_ACCOUNT), *b = client_of(RIG_ACCOUNT);
    rig_feed(plane, slow, "RS+ A x\r\n");
    rig_feed(plane, b, "SUB x 1\r\n");
    static char line[70000];
    int head = snprintf(line, sizeof line, "PUB x 60000\r\n");
    memset(line + head, 'x', 60000);
    snprintf(line + head + 60000, sizeof line - (size_t)head - 60000, "\r\n");
    uint32_t got = 0;
    for (uint32_t i = 0; i < 200; i++) {
        rig_feed(plane, a, line);
        got += strstr(rig_heard(b), "MSG x 1 60000") != NULL;
    }
    CHECK_EQ_U64(200, got);
    CHECK(plane->gateways->outbound == NULL); /* its queue is bounded: it has been closed */
    CHECK_EQ_U64(1, plane->stats.slow_consumers);
}

static bool closed_by(uint32_t kind, const char *first) {
    peer_t *peer = rig_peer(plane, kind, "test:1");
    CHECK(peer != NULL);
    rig_say(plane, peer, first);
    if (peer->state == PEER_DOOMED) {
        RIG_HEARD("-ERR 'Authorization Violation'\r\n", peer);
    }
    return peer->state == PEER_DOOMED;
}

static void nothing_comes_before_connect(void) {
    static const uint32_t kinds[] = {CONN_LEAF, CONN_ROUTE, CONN_GATEWAY};
    static const char *const first[] = {"PING\r\n", "PONG\r\n", "ping\r\n", "+OK\r\n", "-ERR 'x'\r\n", "LS+ x\r\n"};
    for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint32_t j = 0; j < sizeof(first) / sizeof(first[0]); j++) {
            CHECK(closed_by(kinds[i], first[j]));
        }
        peer_t *peer = rig_peer(plane, kinds[i], "test:2");
        rig_say(plane, peer, "CONNECT {}\r\n");
        CHECK(peer->state == PEER_WAITING); /* control hears of CONNECT, and has to say who goes on */
        rig_run(plane, (plane_command_t){.op = COMMAND_RESUME, .target = peer->id}, NULL);
        rig_feed(plane, peer, "PING\r\n");
        RIG_HEARD("PONG\r\n", peer);
        CHECK(peer->state == PEER_GREETING);
    }
}

static void promises(void) {
    RUN_AMONG("a server that dials is closed for whatever it says before its CONNECT", nothing_comes_before_connect);
    RUN_AMONG("a gateway is told of each account that it is told all, then of what our cluster wants", told_by_account);
    RUN_AMONG("that is what clients, leafs and other servers want together", told_of_all_of_the_cluster);
    RUN_AMONG("it is not told of what other clusters want", not_told_of_other_clusters);
    RUN_AMONG("leafs are told of what other clusters want", leafs_are_told_of_gateways);
    RUN_AMONG("messages go to clusters that asked for them, once, with their groups", messages_out);
    RUN_AMONG("a peer that takes no headers gets the payload alone", a_peer_without_headers_gets_none);
    RUN_AMONG("what comes by a gateway goes to clients, leafs and routes, and to no gateway", messages_in);
    RUN_AMONG("a group is served in its cluster, or by the nearest other one", groups_stay_in_the_cluster);
    RUN_AMONG("who asks over a gateway has an answerer", a_gateway_is_an_answerer);
    RUN_AMONG("the reply of a request says the way while its subscription is young",
              replies_are_named_while_they_are_young);
    RUN_AMONG("which is longer where a gateway is far", far_away_they_are_young_for_longer);
    RUN_AMONG("and all are to one that has just come", all_are_young_to_a_gateway_that_has_just_come);
    RUN_AMONG("an answer with the way goes to who asked, or on to the server that did", answers_come_back);
    RUN_AMONG("clients answer by the bare name for two seconds", clients_answer_by_the_bare_name);
    RUN_AMONG("a consumer's delivery keeps its name and its acknowledgement", a_delivery_has_its_name_behind_both);
    RUN_AMONG("so does one that comes back to who asked for it", a_delivery_by_a_way_back_has_its_name);
    RUN_AMONG("leafs answer by the whole name", leafs_answer_by_the_whole_name);
    RUN_AMONG("control answers by the whole name", control_answers_by_the_whole_name);
    RUN("a leaf of a cluster with gateways answers over its hub", a_leaf_of_a_cluster_answers_too);
    RUN_AMONG("control hears of its first PONG, of gossip and of errors", control_hears_of_it);
    RUN_AMONG("control hears of a domain's API that has come into reach of another cluster", apis_in_reach);
    RUN_AMONG("it ends by what is no line of a gateway, or of that direction", ends_by_what_is_no_line);
}

int main(void) {
    promises();
    RUN_AMONG("a gateway hears of much in slices, and of changes meanwhile", told_in_slices);
    RUN_AMONG("a reply that nobody can answer is not kept", whole_names_that_nobody_can_answer_are_not_kept);
    RUN_AMONG("the ways of answers have a share of memory", whole_names_have_a_share);
    RUN_AMONG("a slow gateway is closed and holds up nobody", a_slow_one_holds_up_nobody);
    RUN("a server that knows no other clusters refuses gateways", refused);
    RUN_AMONG("a gateway without a name is refused", refused_without_names);
    RIG_BYTE_BY_BYTE(promises);
    return TEST_RESULT();
}
