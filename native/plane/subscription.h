/* subscription.h: who may want a message: a subscription of a connection or of control, and a sink, which is a target
 * inside (a stream's subject, a consumer's verbs, an ingest, an import).
 *
 * Routing never removes one: it is marked SUBSCRIPTION_DEAD and swept at the end of the tick, so that a match stays
 * valid while it is walked.
 */
#ifndef LEAFD_PLANE_SUBSCRIPTION_H
#define LEAFD_PLANE_SUBSCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/status.h"
#include "route/route.h"

typedef struct peer peer_t;
typedef struct account account_t;
typedef struct shadow shadow_t;
typedef struct sink sink_t;

typedef enum target_kind {
    TARGET_CLIENT = 0,
    TARGET_LEAF,
    TARGET_ROUTE,
    TARGET_GATEWAY, /* from TARGET_LEAF to here: links */
    TARGET_CONTROL,
    TARGET_API,      /* control's, where JetStream's requests come in: SUBSCRIBE_API */
    TARGET_GUESTS,   /* control's, where those of servers without it come in: SUBSCRIBE_GUESTS */
    TARGET_TEMPLATE, /* control's, for what no stream takes: SUBSCRIBE_TEMPLATE */
    TARGET_STREAM,
    TARGET_ACK,
    TARGET_FLOW,
    TARGET_NEXT,
    TARGET_DIRECT,
    TARGET_INGEST,
    TARGET_SERVICE,  /* an import's, in the importing account */
    TARGET_REPLY,    /* _R_.<six>.>, in an account whose services are asked */
    TARGET_MEASURED, /* the reply of a request that a server at the other end of a link measures */
    TARGET_MQTT,     /* where clients of MQTT get what JetStream answers .. */
    TARGET_MQTT_FAR, /* .. at another server of the cluster */
    TARGET_SHADOW,   /* of another account's subscription, in the exporting one */
    TARGET_KIND_COUNT,
} target_kind_t;

#define SUBSCRIPTION_DEAD 1u     /* swept at the end of the tick */
#define SUBSCRIPTION_ALONE 4u    /* SUBSCRIBE_ALONE */
#define SUBSCRIPTION_FILTERED 2u /* its wildcards overlap a deny: look at every delivery */
#define SUBSCRIPTION_ASKS 8u     /* its protocol says of every delivery whether it gets it (protocol.h, takes) */
#define SUBSCRIPTION_OWN 256u    /* from this bit on the flags are its protocol's */

/* A subscription of a client, a link or control. Owned by its peer's table, control's by the plane's. */
typedef struct subscription {
    route_target_t target; /* first: a target's address is its subscription's */
    peer_t *peer;          /* NULL for control */
    account_t *account;
    map_link_t link; /* in its table: clients' by sid, others' by subject and queue */
    struct subscription *next_dead;
    shadow_t *shadows; /* where its account imports streams */
    uint64_t id;       /* control: the caller's id; MQTT: its identifier, 0 = none */
    union {
        uint64_t max;  /* clients: deliveries until it ends; 0 = no limit */
        uint64_t only; /* control: the only link that is told of it; 0 = all are */
    };
    uint64_t delivered;
    uint32_t flags;
    uint32_t cost; /* of memory, about; control's: 0 */
    uint32_t sid_size;
    uint32_t born; /* gateway_reply.h: when */
    uint8_t sid[]; /* clients: their own name for it; routes: the cluster of leafs that it is for, or nothing */
} subscription_t;

/* A target inside: a stream's subject, a consumer's verbs, an ingest. Owned by what it belongs to. */
struct sink {
    route_target_t target; /* first */
    account_t *account;
    shadow_t *shadows;
    uint64_t link;           /* the only link that is told of it; 0 = all are, or none, by kind */
    void *object;            /* stream_t, consumer_binding_t, ingest_t, import_t, by kind */
    sink_t *next, *previous; /* of its account, if it casts shadows */
    uint32_t born;           /* as of a subscription */
    bool in;
};

static inline subscription_t *subscription_at(map_link_t *link) {
    return link == NULL ? NULL : MAP_ENTRY(link, subscription_t, link);
}

/* The memory of a subscription. At most, about: with a node of its own for each token, though it may share them with
 * others, and as if links were told of it, since a link may come. */
uint32_t subscription_cost(bytes_t subject, bytes_t queue, bytes_t sid);
uint64_t subscription_hash(bytes_t first, bytes_t second);
subscription_t *subscription_find_sid(const map_t *table, bytes_t sid);
/* A link's; origin: empty but for routes. */
subscription_t *subscription_find(const map_t *table, const account_t *account, bytes_t origin, bytes_t subject,
                                  bytes_t queue);
/* Makes, routes and (unless local) announces a subscription; table NULL for control. STATUS_FULL: what peers ask for
 * has all of its share of memory. */
LEAF_MUST_USE status_t subscription_add(plane_t *plane, account_t *account, map_t **table, target_kind_t kind,
                                        peer_t *peer, bytes_t subject, bytes_t queue, bytes_t sid, uint32_t weight,
                                        uint32_t flags, subscription_t **out);
/* One of control's of which only that link is told. */
LEAF_MUST_USE status_t subscription_add_for(plane_t *plane, account_t *account, uint64_t link, bytes_t subject,
                                            bytes_t queue, uint32_t flags, subscription_t **out);
void subscription_weigh(plane_t *plane, subscription_t *one, uint32_t weight); /* a link's that has another weight */
void subscription_kill(plane_t *plane, subscription_t *subscription);          /* at the end of the tick */
void subscription_sweep(plane_t *plane);
/* Adds those of a chain that live, as subscription_row_t and texts. */
LEAF_MUST_USE status_t subscription_rows(buffer_t *rows, map_link_t *chain);
LEAF_MUST_USE status_t sink_add(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind, bytes_t subject,
                                uint64_t link, void *object);
/* One of a queue group. */
LEAF_MUST_USE status_t sink_add_grouped(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind,
                                        bytes_t subject, bytes_t queue, void *object);
void sink_remove(plane_t *plane, sink_t *sink);

#endif
