/* routed.h: the other servers of this server's cluster: which accounts go by which connection, what each has been told
 * of interest, and which messages may go by them; and what inbound gateways (gateway.h) are told of interest, as it is
 * told from the same entries. Reference: tests/wire/route.md.
 *
 * A route is a peer without an account: each of its lines names one. What it asks for is subscriptions of TARGET_ROUTE,
 * of any account; what it asks for on behalf of leafs has the name of their cluster in `sid`.
 */
#ifndef LEAFD_PLANE_ROUTED_H
#define LEAFD_PLANE_ROUTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "route/permissions.h"
#include "route/route.h"

typedef struct wanted wanted_t; /* routed.c */

/* Other rights for a route, while what has been told is gone through for what they change. */
typedef enum routed_regrant {
    REGRANT_NONE = 0,
    REGRANT_OURS,   /* what we may ask the peer for */
    REGRANT_THEIRS, /* what the peer lets us ask for */
} routed_regrant_t;

/* The state of a route. Only routed.c writes it, but for `up` and `last`. */
struct route_link {
    account_t *only;     /* its lines name no account, but are all of this one; NULL: each names its own */
    account_t *last;     /* that the line before has named */
    uint32_t pool_size;  /* 0: every account goes by it */
    uint32_t pool_index; /* else those whose names say so, but for the ones that have connections of their own */
    bool unsub_origins;  /* its LS- name the origin, and ours may */
    bool up;             /* its first PONG has come */
    bool known;          /* which server is behind it: */
    uint8_t server[6];   /* as gateway_reply.h names it */
    uint64_t peer;       /* the server, as route_terms_t has it */
    bool lacks;          /* some of its interest was refused for memory */
    bool told_all;
    wanted_t *next; /* until then: it has been told of what is before this */
    routed_regrant_t regrant;
    wanted_t *again;       /* until it is over: entries from this one on are told by .. */
    permissions_t *before; /* .. these rights; or those by which the peer has judged them until now */
    peer_t *next_route, **at_route;
};

/* ---- in a cluster or not ----------------------------------------------------------------------------------------- */

LEAF_MUST_USE status_t routed_open(plane_t *plane);
void routed_close(plane_t *plane); /* all connections are gone, and all interest */
/* Tells other clusters of this cluster's interest in an account that is known now. */
void routed_appeared(plane_t *plane, account_t *account);

/* ---- interest ---------------------------------------------------------------------------------------------------- */

/* As interest_reserve and interest_change, of a target that links are told of. link: whose it is, NULL = nobody's. */
LEAF_MUST_USE status_t routed_reserve(plane_t *plane, account_t *account, const route_target_t *target,
                                      const peer_t *link, bytes_t subject, bytes_t queue);
void routed_change(plane_t *plane, account_t *account, const route_target_t *target, const peer_t *link,
                   uint32_t before, uint32_t after);
/* The weight that other servers ask for on behalf of leaves of that cluster, for which it need not be told. */
uint64_t routed_weight(const plane_t *plane, const account_t *account, bytes_t cluster, bytes_t subject, bytes_t queue);
/* The memory of an entry, for the cost of a subscription. */
uint32_t routed_cost(const plane_t *plane, bytes_t subject, bytes_t queue, bytes_t origin);
/* The servers that a client is connected to alone can tell who he is: another one's answer could come first. */
static inline bool routed_is_own(bytes_t subject) {
    return bytes_equal(subject, BYTES_LITERAL("$SYS.REQ.USER.INFO"));
}

/* ---- connections that come and go -------------------------------------------------------------------------------- */

/* Takes over link. STATUS_NO_MEMORY: it has not joined, and link is the peer's all the same. */
LEAF_MUST_USE status_t routed_joined(plane_t *plane, peer_t *peer, route_link_t *link);
/* OURS: the rights of the peer from now on; THEIRS: those by which it has refused interest until now. Takes permissions
 * over. STATUS_FULL: the last ones are still gone through, and nothing has changed. */
LEAF_MUST_USE status_t routed_regrant(plane_t *plane, peer_t *peer, routed_regrant_t which, permissions_t *permissions);
void routed_left(plane_t *plane, peer_t *peer); /* its subscriptions are gone already */
/* An inbound gateway that has just joined: its first slice. */
void routed_tell_gateway(plane_t *plane, peer_t *peer);
/* The route to the server that a `_GR_.` subject names by which that account goes; NULL: there is none. */
peer_t *routed_towards(const plane_t *plane, const account_t *account, bytes_t subject);
/* The route to that server by which that account goes, once it is up; NULL: there is none. */
peer_t *routed_to(const plane_t *plane, const account_t *account, uint64_t server);
/* Sends to each server that wants all under that very pattern itself, or one of its clients. Returns how many do;
 * publication NULL: that alone. */
uint32_t routed_wanting(plane_t *plane, const account_t *account, bytes_t pattern, const publication_t *publication);
void routed_tell(plane_t *plane); /* once a tick: the next slice for those that are new */

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The route acts on a line that speaks for that cluster of leafs; empty: for none. */
static inline void routed_speaks(peer_t *peer, bytes_t cluster) {
    peer->link->cluster = cluster;
}
/* From one link to another, none of them an outbound gateway, of which at least one is a server. */
static inline bool routed_may_pass(const peer_t *origin, const peer_t *peer, const publication_t *publication) {
    if (peer->route != NULL) {
        return origin->route == NULL && !peer_is_hub(origin);
    }
    return origin->route == NULL || !peer_is_hub(peer)
           || bytes_starts(publication->message.subject, BYTES_LITERAL("_R_."));
}
static inline bool routed_is_from(const publication_t *publication, bytes_t cluster) {
    return publication->origin != NULL && bytes_equal(link_cluster(publication->origin), cluster);
}
/* The share of a queue group's member in the draw. */
static inline uint32_t routed_share(const route_target_t *target) {
    if (target->kind == TARGET_ROUTE) {
        return ((const subscription_t *)target->owner)->sid_size == 0 ? target->weight : 0;
    }
    return target->kind == TARGET_LEAF || target->kind == TARGET_GATEWAY ? 0 : 1;
}

#endif
