/* gateway_rig.h: a plane that is a server S1 of a cluster C, with the accounts A and B, and who connects to it: other
 * clusters, servers of its own, clients and leafs.
 */
#ifndef LEAFD_TESTS_GATEWAY_RIG_H
#define LEAFD_TESTS_GATEWAY_RIG_H

#include "plane_rig.h"

#include "plane/gateway.h"

/* Behind the headers: it has a name that theirs would hide. */
#include "route_rig.h"

/* The first six of the names' SHA-256, each modulo 62 one of 0-9A-Za-z: of the cluster C and the server S1 (ours), of
 * the clusters D and E, of the server S2. */
#define OWN_CLUSTER "jZ6RvV"
#define OWN_SERVER "sQnRv2"
#define CLUSTER_D "1vR9Ah"
#define CLUSTER_E "jxLe3f"
#define SERVER_2 "n2ha8V"
#define OWN "_GR_." OWN_CLUSTER "." OWN_SERVER "."
#define FROM_D "_GR_." CLUSTER_D ".server."

static inline void say_who_we_are(plane_t *to, const char *cluster, const char *server) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, cluster);
    rig_pack(&strings, server);
    rig_run(to, (plane_command_t){.op = COMMAND_GATEWAY}, &strings);
}

static inline void among_clusters(void) {
    plane_limits_t limits = rig_limits(NULL);
    limits.memory_limit = 64 << 20;
    limits.clustered = CLUSTERED_ROUTES | CLUSTERED_GATEWAYS;
    plane = rig_open_with(NULL, limits);
    say_who_we_are(plane, "C", "S1");
    named_account(RIG_ACCOUNT, 0, "A");
    named_account(OTHER_ACCOUNT, 0, "B");
    promise();
    rig_admits_to = RIG_ACCOUNT;
    rig_close(plane);
}

#define RUN_AMONG(text, function)                                                                                      \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, among_clusters);                                                                                     \
    } while (0)

static inline peer_t *gateway_asking(plane_t *to, uint32_t flags, const char *cluster) {
    peer_t *peer = rig_peer(to, CONN_GATEWAY, "test:7222");
    CHECK(peer != NULL);
    rig_say(to, peer, "CONNECT {}\r\n");
    CHECK(peer->state == PEER_WAITING);
    gateway_terms_t terms = {.flags = flags};
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, cluster);
    rig_run(to,
            (plane_command_t){.op = COMMAND_ADMIT_GATEWAY,
                              .target = peer->id,
                              .body = (const uint8_t *)&terms,
                              .body_size = sizeof(terms)},
            &strings);
    return peer;
}

static inline peer_t *gateway_new(uint32_t flags, const char *cluster) {
    peer_t *peer = gateway_asking(plane, flags, cluster);
    CHECK(peer->state == PEER_ADMITTED);
    rig_turn(plane);
    return peer;
}

/* Each has had its PING and answered it at once, and has heard what there was to tell. */
static inline peer_t *inbound(const char *cluster) {
    peer_t *peer = gateway_new(GATEWAY_HEADERS, cluster);
    rig_heard(peer);
    rig_feed(plane, peer, "PONG\r\n");
    return peer;
}

static inline peer_t *outbound(const char *cluster) {
    peer_t *peer = gateway_new(GATEWAY_OUTBOUND | GATEWAY_HEADERS, cluster);
    rig_heard(peer);
    rig_feed(plane, peer, "PONG\r\n");
    return peer;
}

static inline peer_t *route_of(const char *server) {
    peer_t *peer = rig_peer(plane, CONN_ROUTE, "test:6222");
    rig_say(plane, peer, "CONNECT {}\r\n");
    route_terms_t terms = {.flags = ROUTE_UNSUB_ORIGIN};
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 4; i++) rig_pack(&strings, "");
    rig_pack(&strings, server);
    rig_run(
        plane,
        (plane_command_t){
            .op = COMMAND_ADMIT_ROUTE, .target = peer->id, .body = (const uint8_t *)&terms, .body_size = sizeof(terms)},
        &strings);
    CHECK(peer->state == PEER_ADMITTED);
    rig_turn(plane);
    rig_heard(peer);
    return peer;
}

static inline void time_passes(int64_t ns) {
    plane->now.mono_ns += ns;
    plane->now.wall_ns += ns;
    rig_turn(plane);
}

#endif
