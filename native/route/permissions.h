/* permissions.h: which subjects a connection may publish and subscribe to.
 */
#ifndef LEAFD_ROUTE_PERMISSIONS_H
#define LEAFD_ROUTE_PERMISSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/holders.h"
#include "base/leftover.h"
#include "base/map.h"
#include "base/status.h"

typedef struct permissions permissions_t;

/* The lists of all connections, each set of them once. All zero at first. */
typedef struct permission_pool {
    map_t *sets; /* NULL while there are none */
} permission_pool_t;

#define PERMISSION_LISTS 5u

typedef struct permission_lists {
    const bytes_t *at[PERMISSION_LISTS]; /* pub allow, pub deny, sub allow, sub deny, mapped deny */
    uint32_t count[PERMISSION_LISTS];
} permission_lists_t;

/* *out stays NULL when nothing is restricted and no replies are to be tracked. replies: where those are counted that
 * its owner may send; when it is full, the oldest of somebody goes. pool: where its lists are. */
LEAF_MUST_USE status_t permissions_new(const permission_lists_t *lists, uint32_t response_max, int64_t response_ttl_ns,
                                       holders_t *replies, permission_pool_t *pool, permissions_t **out);
void permissions_free(permissions_t *permissions);
/* The same in steps: its owner has others now, and it may remember thousands of replies. */
void permissions_leave(permissions_t *permissions, leftovers_t *leftovers);
/* Forgets replies that the owner may still send, as many as the budget has; true: none is left. */
LEAF_MUST_USE bool permissions_forget_some(permissions_t *permissions, uint32_t *budget);
bool permissions_publish(permissions_t *permissions, bytes_t subject, int64_t mono_ns);
bool permissions_subscribe(const permissions_t *permissions, bytes_t subject, bytes_t queue, bool *filtered);
bool permissions_deliver(const permissions_t *permissions, bytes_t subject, bytes_t queue); /* if filtered */
bool permissions_hear(const permissions_t *permissions, bytes_t subject); /* whatever it was that was subscribed to */
bool permissions_tracks(const permissions_t *permissions);
void permissions_track_reply(permissions_t *permissions, bytes_t reply, int64_t mono_ns);
bool permissions_leaf_out(const permissions_t *permissions, bytes_t subject);       /* may be sent over the link */
bool permissions_leaf_withholds(const permissions_t *permissions, bytes_t subject); /* is it denied by name */
bool permissions_leaf_in(const permissions_t *permissions, bytes_t subject);        /* may come in */
/* may come in, whatever is denied because both ends have it of their own */
bool permissions_leaf_grants(const permissions_t *permissions, bytes_t subject);
/* may be where a mapping sends what came in */
bool permissions_leaf_to(const permissions_t *permissions, bytes_t subject);
bool permissions_leaf_ask(const permissions_t *permissions, bytes_t subject); /* may we send LS+ */
/* Judges the interest of a route: may it be told that we want it (import), may the peer be sent it (export)? */
bool permissions_route_import(const permissions_t *permissions, bytes_t subject);
bool permissions_route_export(const permissions_t *permissions, bytes_t subject);
bool permissions_leaf_asked(const permissions_t *permissions, bytes_t subject); /* may the peer ask for it */

#endif
