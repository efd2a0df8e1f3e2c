/* gateway.h: other clusters: this server's name for them, which connections there are, which messages go by them.
 * Reference: tests/wire/gateway.md.
 *
 *     outbound   we dialled: our messages go by it, and the peer says what its cluster wants: subscriptions of
 *                TARGET_GATEWAY, of any account
 *     inbound    it dialled: its messages come, and it is told what our cluster wants (routed.c)
 *
 * A gateway is a peer without an account, as a route is: each of its lines names one.
 */
#ifndef LEAFD_PLANE_GATEWAY_H
#define LEAFD_PLANE_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "base/table.h"
#include "plane/account.h"
#include "plane/gateway_reply.h"
#include "plane/peer.h"
#include "plane/publication.h"
#include "plane/routed.h"

/* The state of a gateway. Only gateway.c writes it, but for `up`, `last` and what routed.c has told. */
struct gateway_link {
    plane_t *plane;
    bool outbound;
    bool heard;                         /* its first PONG has come, .. */
    bool up;                            /* .. and control knows; verbs/gateway.c */
    uint8_t cluster[GATEWAY_HASH_SIZE]; /* of its name */
    account_t *last;                    /* that the line before has named */
    uint64_t peer;                      /* the server, as gateway_terms_t has it */
    bool lacks;                         /* outbound: some of its interest was refused for memory */
    bool told_all;                      /* inbound: routed.c, as of a route */
    wanted_t *next;                     /* likewise */
    table_t begun;                      /* inbound: accounts, by mark, that it knows it is told of */
    peer_t *next_gateway, **at_gateway;
};

struct gateways {
    bytes_t name;                        /* of our cluster, own copy; empty: not known yet */
    uint8_t prefix[GATEWAY_PREFIX_SIZE]; /* of replies that lead back to this server */
    peer_t *outbound, *inbound;
    uint32_t unheard; /* have joined, and no PONG of theirs has come; */
    int64_t met_ns;   /* until then one that has come since may not have all interest of ours, nor we all of its */
    int64_t far_ns;   /* the longest round trip of theirs */
};

LEAF_MUST_USE status_t gateways_open(plane_t *plane);
void gateways_close(plane_t *plane); /* all connections are gone */
/* Sets this server's names for other clusters. STATUS_INVALID: no gateways were announced at the start. */
LEAF_MUST_USE status_t gateways_name(plane_t *plane, bytes_t cluster, bytes_t server);

/* Takes over link, whose `outbound` is set. STATUS_NO_MEMORY: it is not told anything, and is to be closed. */
LEAF_MUST_USE status_t gateway_joined(plane_t *plane, peer_t *peer, gateway_link_t *link, bytes_t cluster);
void gateway_left(plane_t *plane, peer_t *peer); /* its subscriptions are gone already */
/* A PONG of it has come: its round trip is another one. */
void gateway_answered(plane_t *plane, const peer_t *peer);
/* Before an inbound one is told of an account's interest for the first time: it takes none of an account that it does
 * not know to be told of. */
LEAF_MUST_USE status_t gateway_begin(peer_t *peer, const account_t *account);

/* The outbound one to the cluster that a `_GR_.` subject names; NULL: there is none. */
peer_t *gateway_towards(const plane_t *plane, bytes_t subject);
/* The outbound one that leads to that server itself, once it is up; NULL: there is none. */
peer_t *gateway_to(const plane_t *plane, uint64_t server);
/* Any outbound one that is up, to a server of that cluster whose letters are believed (meta/ways.h). cluster: hash8 of
 * its name. */
peer_t *gateway_into(const plane_t *plane, uint64_t cluster);
bool gateway_is_into(const peer_t *gateway, uint64_t cluster);
/* Is the server that the subject names this one? Empty: it is another cluster's. */
bool gateway_is_own_cluster(const plane_t *plane, bytes_t subject);
bool gateway_is_own_server(const plane_t *plane, bytes_t subject);

#endif
