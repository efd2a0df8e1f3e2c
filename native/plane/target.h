/* target.h: what holds for each kind of target: one row a kind, read wherever kinds differ. A new kind is a new row.
 *
 *   order      when it gets a message: at once into a queue, gathered for a link, over to another account behind all
 *              of these, or inside, last, since it may publish in its turn (publish.c)
 *   told       whether links hear of its interest (interest.c): all of them, none; those that hear of what it stands
 *              for; all, or the one link that it names: by that one alone its messages can come; or none but the
 *              other servers, whose leafs do not hear of it either (interest_is_for_servers)
 *   withheld   the publications that it does not get: what was deferred (PUBLICATION_INSIDE) has been to all queues;
 *              what was imported as a stream is for subscriptions and streams; and neither that nor what we publish
 *              to a subject of somebody's choice is for JetStream itself: a reply that names $JS.API.STREAM.DELETE
 *              would do what its author may not
 *   take       inside: what it does with the message (internal_targets.c). One call through this column costs a
 *              publish into a stream less than 1 % more instructions than the switch that it replaced. Queues and
 *              links have none: publish.c calls their two ways directly, on the path of every message
 *   routed     whether routes hear of it, if links do at all: each server of a cluster has the same imports, mappings
 *              and API itself
 *   feeds      a message that it gets may be stored: it waits while a store lags (throttle.c)
 */
#ifndef LEAFD_PLANE_TARGET_H
#define LEAFD_PLANE_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "route/route.h"

typedef enum target_order { ORDER_QUEUE = 0, ORDER_LINK, ORDER_CROSS, ORDER_INSIDE } target_order_t;
typedef enum target_told {
    TOLD_NEVER = 0,
    TOLD_ALWAYS,
    TOLD_AS_ITS_ORIGIN,
    TOLD_TO_ITS_LINK,
    TOLD_TO_SERVERS
} target_told_t;

typedef struct target_traits {
    uint8_t order;    /* ORDER_* */
    uint8_t told;     /* TOLD_* */
    uint8_t withheld; /* PUBLICATION_* */
    void (*take)(plane_t *plane, const sink_t *sink, const publication_t *publication);
    bool feeds;
    bool subscription;  /* its owner is a subscription_t */
    bool peer;          /* a subscription of a connection, which has a queue that may be full */
    bool jetstream;     /* what comes there does something in JetStream: asks, acknowledges, pulls, gets */
    bool casts_shadows; /* wants what its account imports as streams (shadow.c) */
    bool routed;
} target_traits_t;

extern const target_traits_t target_traits[TARGET_KIND_COUNT];

static inline const target_traits_t *traits_of(const route_target_t *target) {
    return &target_traits[target->kind];
}

#endif
