/* route_rig.h: a plane that is a member of a cluster, with the accounts A and B, and who connects to it.
 */
#ifndef LEAFD_TESTS_ROUTE_RIG_H
#define LEAFD_TESTS_ROUTE_RIG_H

#include "plane_rig.h"

#include "plane/routed.h"

#define OTHER_ACCOUNT 2u
#define POOLED 3u

static plane_t *plane;
static void (*promise)(void);

static inline void named_account(uint32_t id, uint32_t flags, const char *name) {
    rig_strings_t strings = {.size = 0};
    rig_pack(&strings, name);
    rig_pack(&strings, "");
    rig_run(plane, (plane_command_t){.op = COMMAND_ACCOUNT, .account = id, .arg = flags}, &strings);
}

static inline void in_a_cluster(void) {
    plane_limits_t limits = rig_limits(NULL);
    limits.clustered = CLUSTERED_ROUTES;
    plane = rig_open_with(NULL, limits);
    named_account(RIG_ACCOUNT, 0, "A");
    named_account(OTHER_ACCOUNT, 0, "B");
    promise();
    rig_admits_to = RIG_ACCOUNT;
    rig_close(plane);
}

#define RUN_CLUSTERED(text, function)                                                                                  \
    do {                                                                                                               \
        promise = function;                                                                                            \
        RUN(text, in_a_cluster);                                                                                       \
    } while (0)

/* lists: import allow, import deny, export allow, export deny. */
static inline peer_t *route_with(uint32_t account, route_terms_t terms, const char *const lists[4]) {
    peer_t *peer = rig_peer(plane, CONN_ROUTE, "test:6222");
    CHECK(peer != NULL);
    rig_say(plane, peer, "CONNECT {}\r\n");
    CHECK(peer->state == PEER_WAITING);
    rig_strings_t strings = {.size = 0};
    for (uint32_t i = 0; i < 4; i++) {
        if (lists != NULL && lists[i] != NULL) rig_pack(&strings, lists[i]);
        rig_pack(&strings, "");
    }
    rig_run(plane,
            (plane_command_t){.op = COMMAND_ADMIT_ROUTE,
                              .account = account,
                              .target = peer->id,
                              .body = (const uint8_t *)&terms,
                              .body_size = sizeof(terms)},
            &strings);
    CHECK(peer->state == PEER_ADMITTED);
    rig_turn(plane);
    return peer;
}

static inline peer_t *route_new_one(void) {
    return route_with(0, (route_terms_t){.flags = ROUTE_UNSUB_ORIGIN}, NULL);
}

/* One that was told what is wanted so far, and its PING; neither is of interest. */
static inline peer_t *routed(void) {
    peer_t *peer = route_new_one();
    rig_heard(peer);
    return peer;
}

static inline peer_t *client_of(uint32_t account) {
    rig_admits_to = account;
    peer_t *peer = rig_client(plane);
    rig_admits_to = RIG_ACCOUNT;
    return peer;
}

static inline peer_t *leaf_of(uint32_t flags, const char *cluster) {
    peer_t *peer = rig_leaf(plane, flags, cluster, NULL);
    rig_heard(peer);
    return peer;
}

#endif
