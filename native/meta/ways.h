/* ways.h: by which link a letter or a frame leaves for another server of the group, and whom a link may speak for.
 *
 *     $LR.<to>            between two servers with a link: the sender is whom the link leads to
 *     $LR.<to>.<from>     handed on by a server in between, which had it from <from>, or from one that named <from>
 *
 *     A1 ----gateway----> B2 ---route---> B1      A1 has no gateway to B1
 *     A1 -route-> A2 -gateway-> B2 -route-> B1    and none into cluster B at all
 *
 * What came by a route is handed on over a gateway alone, and what came by a gateway over a route to its addressee
 * alone. So no letter takes more than three links, and none comes back. Which servers there are in other clusters, and
 * which server of this one reaches them, control knows (leafd/cluster/neighbours.py): a table that it sets whole.
 *
 * A link speaks for the server that it leads to. A gateway speaks for others of its cluster, too, and a route for
 * servers of other clusters: each for such as the table has. So no server can speak for one of its own cluster to a
 * third one there, nor for one of a cluster that is not its own over a gateway.
 *
 * Not here: what letters say, how they are queued (meta.c).
 */
#ifndef LEAFD_META_WAYS_H
#define LEAFD_META_WAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "plane/plane.h"

#define WAYS_MAX 256u

typedef struct account account_t;

typedef struct ways {
    meta_way_t at[WAYS_MAX];
    uint32_t count;
} ways_t;

/* STATUS_FULL: nothing has changed. */
LEAF_MUST_USE status_t ways_set(ways_t *ways, const uint8_t *body, uint32_t count);
/* The link for what this server says; NULL: there is none that takes it now. */
peer_t *ways_to(const ways_t *ways, const plane_t *plane, const account_t *account, uint64_t server);
/* The link by which what came by `from` is handed on; NULL: it is not. */
peer_t *ways_onward(const ways_t *ways, const plane_t *plane, const account_t *account, const peer_t *from,
                    uint64_t server);
bool ways_speaks(const ways_t *ways, const peer_t *link, uint64_t server);
/* The server that a route or a gateway leads to; 0: one whose letters are not believed. */
uint64_t ways_server(const peer_t *link);

#endif
