/* account.h: an account: its subjects, and what belongs to them.
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

/* Not known yet, but other servers ask for its subjects: routed.h. Of the flags, the one that control never sets. */
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
    js_account_t js; /* first: JetStream knows the account by it. Its number, too */
    uint32_t flags;
    uint32_t mark; /* its own for good; its number is 0 while it is expected */
    bytes_t name;  /* own copies */
    bytes_t domain;
    bytes_t domain_prefix; /* "$JS.<domain>.API." or empty */
    map_link_t named;      /* named.c: in the map of names */
    uint32_t pool_hash;    /* likewise: says by which connection of a pool it goes */
    route_t *route;
    mapping_t *mappings;  /* NULL: messages go where they are published to */
    uint32_t diverts;     /* why they may not: 1 for the mappings, 1 for each answer of gateway_reply.c */
    interest_t *interest; /* NULL until the first leaf link */
    peer_t *leafs;        /* its links: interest.c */
    peer_t *isolated;     /* those that are not told what other links want */
    uint32_t leaf_count;
    uint32_t born; /* gateway_reply.h: when the newest subscription was made */
    uint64_t client_count;
    account_past_t past[2];  /* clients, links */
    bool domain_announced;   /* interest.c: links are told of the domain's subjects */
    owed_t owed;             /* by its peers: pressure.c */
    bytes_t trace;           /* where messages of outside traces are told of; empty: nowhere. Own copy */
    uint32_t trace_sampling; /* percent of them; 0 = all */
    import_t *imports;       /* NULL for most */
    sink_t *sinks;           /* those that cast shadows */
    sink_t replies;          /* in once somebody asked a service of its through an import */
    uint8_t reply_prefix[REPLY_PREFIX_SIZE];
};

account_t *account_find(plane_t *plane, uint32_t id);
LEAF_MUST_USE status_t account_put(plane_t *plane, uint32_t id, uint32_t flags, bytes_t name, bytes_t domain);
/* One that nobody knows but routed.c, whose names it is in. NULL: no memory. */
account_t *account_expect(plane_t *plane, bytes_t name);
LEAF_MUST_USE status_t account_trace(account_t *account, bytes_t destination, uint32_t sampling);
void account_free(account_t *account);

#endif
