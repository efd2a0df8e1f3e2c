/* account.h: an account: its subjects, and what belongs to them.
 *
 * Not here: who may log in to it (control decides that, agent/leafd/auth), its streams and consumers (jetstream/).
 */
#ifndef LEAFD_PLANE_ACCOUNT_H
#define LEAFD_PLANE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "jetstream/host.h"
#include "plane/subscription.h"
#include "route/route.h"

/* The flag of an account that this server does not know, for whose subjects other servers ask (routed.h). Control never
 * sets it. */
#define ACCOUNT_EXPECTED (UINT32_C(1) << 31)
#define REPLY_PREFIX_SIZE 11u /* _R_.<six>. */

typedef struct import import_t;
typedef struct interest interest_t; /* interest.c */
typedef struct mapping mapping_t;   /* mapping.c */

/* The traffic of those connections of an account, of one kind, that have gone. */
typedef struct account_past {
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes;
    uint64_t out_bytes;
    uint64_t slow; /* how many of them were slow consumers */
} account_past_t;

struct account {
    js_account_t js; /* with the account's number. The first member: JetStream knows the account by it */
    uint32_t flags;
    uint32_t mark; /* of this account for good, also while it is expected and its number is 0 */
    bytes_t name;  /* own copy, as the next one */
    bytes_t domain;
    bytes_t domain_prefix; /* "$JS.<domain>.API." or empty */
    map_link_t named;      /* named.c: in the map of names */
    uint32_t pool_hash;    /* likewise: says by which connection of a pool it goes */
    route_t *route;
    mapping_t *mappings;  /* NULL: messages go where they are published to */
    uint32_t diverts;     /* reasons to send them elsewhere: 1 for the mappings, 1 for each answer of gateway_reply.c */
    interest_t *interest; /* NULL until the first leaf link */
    peer_t *leafs;        /* its leaf links: interest.c */
    peer_t *isolated;     /* those that are not told what other links want */
    uint32_t leaf_count;
    uint32_t born; /* gateway_reply.h: when the newest subscription was made */
    uint64_t client_count;
    account_past_t past[2];  /* clients, links */
    bool domain_announced;   /* interest.c: links are told of the domain's subjects */
    owed_t owed;             /* by its peers: pressure.c */
    bytes_t trace;           /* where messages of outside traces are told of; empty: nowhere. Own copy */
    uint32_t trace_sampling; /* the percentage of them that is traced; 0 = all */
    import_t *imports;       /* NULL for most */
    sink_t *sinks;           /* sinks that cast shadows */
    sink_t replies;          /* among the sinks from the first request on that came through an import */
    uint8_t reply_prefix[REPLY_PREFIX_SIZE];
};

account_t *account_find(plane_t *plane, uint32_t id);
LEAF_MUST_USE status_t account_put(plane_t *plane, uint32_t id, uint32_t flags, bytes_t name, bytes_t domain);
/* Makes an account that only other servers know yet; routed.c finds it by its name. NULL: no memory. */
account_t *account_expect(plane_t *plane, bytes_t name);
LEAF_MUST_USE status_t account_trace(account_t *account, bytes_t destination, uint32_t sampling);
void account_free(account_t *account);

#endif
