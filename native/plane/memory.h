/* memory.h: what the process may take beyond what it has at rest, shared out: the table of shares, and how large each
 * is.
 *
 * `memory_limit` of the configuration is divided by the table in memory.c; the parts come to the whole. A holder of
 * memory that clients can make grow draws on one share and has a bound from it, so that one kind of load cannot take
 * another's. A full share is back-pressure, or a documented refusal, or the end of the connection that holds most:
 * memory.c says which.
 *
 * Not in it: what the process has at rest (Python, its modules, thread stacks), definitions (accounts, subscriptions,
 * streams, consumers), memory streams (max_memory_store), pages of files, which the kernel takes back by itself.
 */
#ifndef LEAFD_PLANE_MEMORY_H
#define LEAFD_PLANE_MEMORY_H

#include "base/abi_types.h"
#include "base/holders.h"
#include "base/share.h"
#include "route/permissions.h"

/* queued: behind. Its producers pause (twice the work a message once it leaves the cache), and it gets no more from
 * consumers. Less while memory is short: plane->behind_bytes */
#define BEHIND_BYTES (1024u * 1024u)

typedef struct memory {
    share_t output;           /* waits to be written to connections */
    share_t input;            /* came from connections and is not acted on yet */
    holders_t replies;        /* ways back of imports' requests */
    holders_t allowed;        /* replies that allow_responses lets a connection send */
    permission_pool_t lists;  /* of what connections may do */
    share_t interest;         /* subscriptions of clients and links */
    int64_t interest_told_ns; /* when it was last said that it is full */
    uint64_t freeable_most;   /* what subscriptions and consumers had, since the system got back what they freed */
    uint64_t freeable_seen;   /* when that was last looked at */
    uint64_t oldest;          /* whose message was begun first, when last asked, and since when it is the one */
    int64_t oldest_since_ns;
    uint64_t oldest_bytes;   /* that it had sent then */
    int64_t oldest_begun_ns; /* and since when it is that in all */
    int64_t window_full_ns;  /* when there was no room for what is large last, and since when, if it goes on, .. */
    int64_t window_since_ns; /* .. each peer's window_bytes are from */
    int64_t full_ns;         /* when there was no room for what is small last, and since when, if it goes on */
    int64_t full_since_ns;
    int64_t looked_ns;         /* for peers that have begun something and are silent */
    int64_t stalled_looked_ns; /* .. something large */
} memory_t;

/* A share's bytes, by the limit. limit 0: no bound. */
uint64_t memory_share(uint64_t limit, uint32_t which);
/* Is there room for a subscription, or its shadow, of a connection that has `count` of them? If not, it is logged. */
bool memory_for_interest(plane_t *plane, uint64_t count, uint32_t cost);
void memory_open(plane_t *plane);
void memory_tick(plane_t *plane); /* once a tick */
/* Asked now and then: have subscriptions and consumers freed much since it was last true, and hardly one is freed any
 * more? */
bool memory_lies_free(plane_t *plane);

#endif
