/* gateway_reply.h: answers to requests that came from another cluster.
 *
 * Interest travels by another connection than requests, so a request may arrive before anybody there knows that its
 * reply is listened to. For as long as the subscription is young, its reply is sent under a name that says the way:
 *
 *     _GR_.<cluster>.<server>.<reply>       six letters and digits each: the first of hash8() of cluster and server id
 *
 * Clients see the bare reply and publish to it; for as long as the youth of a subscription it leads back by the whole
 * name. Leafs, routes and control see the whole name. So does a leaf of a cluster that has gateways, which has none
 * itself.
 *
 * Youth is two seconds, as in the reference, or four round trips of the gateway that is farthest away: a lost packet
 * costs as much. A gateway that has just come may know of no subscription of ours, so all are young until it has
 * answered, and for four of its round trips.
 */
#ifndef LEAFD_PLANE_GATEWAY_REPLY_H
#define LEAFD_PLANE_GATEWAY_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "plane/account.h"
#include "plane/plane.h"
#include "text/text.h"

#define GATEWAY_HASH_SIZE 6u
#define GATEWAY_CLUSTER_AT 5u                                          /* behind "_GR_." */
#define GATEWAY_SERVER_AT (GATEWAY_CLUSTER_AT + GATEWAY_HASH_SIZE + 1) /* and a dot */
#define GATEWAY_PREFIX_SIZE (GATEWAY_SERVER_AT + GATEWAY_HASH_SIZE + 1)
#define GATEWAY_YOUNG_NS (2 * NS_PER_SECOND)
#define GATEWAY_YOUNG_TRIPS 4
#define GATEWAY_YOUNG_MAX_NS (30 * NS_PER_SECOND)
#define GATEWAY_TICK_SHIFT 20 /* what `born` counts in: a millisecond, about */

/* Is it a reply by its whole name? */
static inline bool gateway_is_reply(bytes_t subject) {
    return subject.size > GATEWAY_PREFIX_SIZE && memcmp(subject.at, "_GR_.", 5) == 0;
}
static inline bytes_t gateway_bare(bytes_t reply) {
    return bytes_of(reply.at + GATEWAY_PREFIX_SIZE, reply.size - GATEWAY_PREFIX_SIZE);
}
/* The age of a subscription that is made now. After 52 days an old one may be taken for a young one, which only makes
 * the name of its reply longer. */
static inline uint32_t gateway_born(const plane_t *plane) {
    return (uint32_t)((uint64_t)plane->now.mono_ns >> GATEWAY_TICK_SHIFT);
}

/* ---- requests of this cluster's clients -------------------------------------------------------------------------- */

/* The name of a reply on its way to another cluster: in out where it has to say the way. */
bytes_t gateway_reply(plane_t *plane, const account_t *account, bytes_t reply, text_t *out);

/* ---- requests of others ------------------------------------------------------------------------------------------ */

/* A message with that whole name as its reply has somebody who may answer it, but has not left yet. Without memory for
 * it, answers go by their bare name. */
void gateway_reply_seen(plane_t *plane, account_t *account, bytes_t whole);
/* The whole name that a client's publication leads to; empty: it is no such answer. Lives until the next call here. */
bytes_t gateway_reply_whole(const plane_t *plane, const account_t *account, bytes_t subject);
void gateway_replies_expire_some(plane_t *plane, uint32_t *budget); /* in each turn */
void gateway_replies_free(plane_t *plane);

#endif
