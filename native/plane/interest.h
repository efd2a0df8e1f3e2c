/* interest.h: what leaf links are told of interest in an account, and how far each has been told.
 */
#ifndef LEAFD_PLANE_INTEREST_H
#define LEAFD_PLANE_INTEREST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "route/route.h"
#include "text/aim.h"

typedef struct peer peer_t;
typedef struct account account_t;
typedef struct interest interest_t;

#define TELL_MAX 4096u  /* interests that new links are told of in one turn */
#define TELL_FIRST 256u /* of them, what one link is told of when it joins */

/* A link's: how far it has been told, and what links of its cluster have asked for together. Only interest.c reads and
 * writes it. */
typedef struct hearing {
    bool told_all;
    bool leads_on;       /* other domains than its own are behind it, as far as is known */
    aim_t aim;           /* its own domain */
    uint64_t told_below; /* of entries, those whose place in the map is below this */
    uint64_t cluster;    /* hash of its cluster's name, 0 = it has none */
    uint64_t mates_look; /* number of the look that the weight is of */
    uint64_t mates_weight;
    struct peer *next_mate;     /* ring of links with the same cluster; NULL = alone */
    struct peer *next_newcomer; /* in plane->newcomers until told_all */
} hearing_t;

/* Room for what interest_change tells, asked before anything changes: a target that links are not told of gets nothing,
 * silently. What is reserved and not used costs an empty entry. */
LEAF_MUST_USE status_t interest_reserve(account_t *account, bytes_t subject, bytes_t queue);
/* A route's line speaks for that cluster of leafs, which need not be told; empty: for none. */
void interest_speaks(peer_t *route, bytes_t cluster);
/* A target's weight changed from `before` to `after` (0 = not there). origin: the link it came from, NULL = local. From
 * 0: reserved. */
void interest_change(plane_t *plane, account_t *account, bytes_t subject, bytes_t queue, peer_t *origin,
                     uint32_t before, uint32_t after);
/* that JetStream is served under its domain's name */
LEAF_MUST_USE status_t interest_announce_domain(plane_t *plane, account_t *account);
void interest_withdraw_domain(plane_t *plane, account_t *account);
/* From now on the account's subscriptions are counted for links that come later. Those that are there already are
 * counted in this turn, so it is called while there are few. STATUS_NO_MEMORY: the first link asks for it again. */
LEAF_MUST_USE status_t interest_expect_links(plane_t *plane, account_t *account);
/* The first burst. domain: that at its other end, as conn_verdict_t has it. STATUS_NO_MEMORY: it has not joined. */
LEAF_MUST_USE status_t interest_leaf_joined(plane_t *plane, peer_t *peer, uint64_t domain);
/* It has told us of its own interest. Where other domains are behind it, it hears from now on of what is for them. */
void interest_leaf_asks(plane_t *plane, peer_t *peer, bytes_t pattern);
void interest_tell(plane_t *plane); /* once a tick: the next slice for new links */
void interest_leaf_left(plane_t *plane, peer_t *peer);
void interest_free(interest_t *interest);
bool interest_is_announced(const route_target_t *target);
/* Pulls and direct gets, which are answered by the server that has the stream. */
static inline bool interest_asks_stream(bytes_t subject) {
    return bytes_starts(subject, BYTES_LITERAL("$JS.API.CONSUMER.MSG.NEXT."))
           || bytes_starts(subject, BYTES_LITERAL("$JS.API.DIRECT.GET."));
}
/* Is it told to the other servers alone, and to no leaf? */
bool interest_is_for_servers(const plane_t *plane, const route_target_t *target);
/* A target of which only that link is told comes, or goes. */
void interest_tell_link(plane_t *plane, uint64_t link, bytes_t subject, bytes_t queue, uint32_t weight);

#endif
