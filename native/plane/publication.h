/* publication.h: one message on its way to all who want it.
 *
 * Targets that may publish in their turn (streams, consumers, ingest) run after all others of a message. What JetStream
 * itself publishes reaches them at the next tick only (plane->deferred), so that no consumer and no reader of the store
 * is entered twice.
 */
#ifndef LEAFD_PLANE_PUBLICATION_H
#define LEAFD_PLANE_PUBLICATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "plane/account.h"
#include "plane/judge.h"
#include "wire/emit.h"

typedef struct peer peer_t;
typedef struct trace trace_t; /* trace.h */

#define INTERNAL_TARGETS_MAX 64u

/* Each has a bit of its own, which the order shows; a target withholds by the low eight. */
#define PUBLICATION_OWN (1u << 0) /* an answer to what was asked for a client of MQTT, here (with INSIDE) or there */
#define PUBLICATION_FROM_LINK (1u << 1) /* queue members only of the groups that it names */
#define PUBLICATION_DEFER (1u << 2)     /* out of JetStream: into JetStream only at the next tick */
#define PUBLICATION_INSIDE (1u << 3)    /* that next tick: everybody else has had it */
#define PUBLICATION_SERVICE (1u << 4)   /* came through a service import: no stream imports */
#define PUBLICATION_IMPORTED (1u << 5)  /* came through a stream import: subscriptions and streams only */
/* we publish it, to a subject that somebody named whose right to publish there nobody looked at (a reply, a deliver
 * subject): never to JetStream's own subjects */
#define PUBLICATION_UNJUDGED (1u << 6)
#define PUBLICATION_SHARED (1u << 7) /* the first service import that it came through shares who asks */
#define PUBLICATION_PLACED (1u << 8) /* who asks is told with its server */
#define PUBLICATION_ANSWER (1u << 9) /* its reply is the whole name of an answer to another cluster (gateway_reply.h) */
/* an answer to one of ours, by its bare name: also gateways have it, though it came over one */
#define PUBLICATION_BACK (1u << 10)
#define PUBLICATION_TELLS (1u << 11) /* tell says who wants to hear of streams that keep it */
/* a stream has it on disk, and sessions of MQTT have it from their stream with QoS 1 */
#define PUBLICATION_REPUBLISHED (1u << 12)
/* shown is what judge_shown() says of copied, and is found out when somebody sees it: a copy's own messages are seen by
 * nobody else */
#define PUBLICATION_NAMED (1u << 13)
#define PUBLICATION_WITHOUT (1u << 14) /* to no member of the groups that it names as left out */
/* between servers: no route or gateway takes a message to PUBLICATION_MAIL_SUBJECTS or PUBLICATION_CARRIED_SUBJECTS
 * without it */
#define PUBLICATION_MAIL (1u << 15)
#define PUBLICATION_BULK (1u << 16) /* one of many that belong together: a slow link sends them last (lanes.h) */
#define PUBLICATION_ONCE (1u << 17) /* nobody is expected to publish to its subject again (route_match_once) */

/* The first requester of a message that came through service imports. It lies where the first of them was crossed. */
typedef struct requester {
    const account_t *account;
    bytes_t reply; /* of a fast batch's message: its own, which says where in the batch it is; else empty */
} requester_t;

/* The place where each stream that keeps a message answers, and how many will. */
typedef struct tell {
    bytes_t at;
    uint32_t streams;
    uint32_t mark; /* of the message, for streams of other servers; 0: none is asked */
} tell_t;

/* The subjects on which JetStream answers this server. Messages of others there reach nobody who would believe them.
 * What anybody else publishes there reaches nobody who would believe it. */
#define PUBLICATION_OWN_SUBJECTS BYTES_LITERAL("$MQTT.A.")
/* Those on which it answers another server of the cluster, which routes alone take (verbs/mqtt_far.c). */
#define PUBLICATION_FAR_SUBJECTS BYTES_LITERAL("$MQTT.F.")

#define PUBLICATION_MAIL_SUBJECTS BYTES_LITERAL("$LR.")
/* Likewise of what a client says whose session another server has, and what it is told (verbs/mqtt_carry.h). */
#define PUBLICATION_CARRIED_SUBJECTS BYTES_LITERAL("$LC.")

typedef struct publication {
    account_t *account;
    message_t message; /* subject = what is routed */
    /* Two more names that a consumer's delivery may have; empty = that of the message. Neither is routed, judged as
     * the message's own, or stored by a stream that listens to its subject: packaging/doc/promises.md. */
    judged_t shown;               /* what subscribers see: the sender may publish there, too */
    bytes_t copied;               /* in the stream that it is delivered from: for copies of that stream alone */
    bytes_t exported;             /* PUBLICATION_IMPORTED: its name where it came from */
    peer_t *origin;               /* NULL = inside */
    const requester_t *requester; /* NULL: it came through no service import */
    const bytes_t *queues;
    uint32_t queue_count;
    uint32_t without_count;
    const bytes_t *without; /* with PUBLICATION_WITHOUT: groups */
    uint32_t flags;
    bytes_t author;              /* with vouched_in: whose schedule it is (vouch.h) */
    const account_t *vouched_in; /* .. in that account; NULL: no server says so */
    trace_t *trace;              /* NULL: nobody asked what becomes of it */
    tell_t *tell;                /* with PUBLICATION_TELLS */
} publication_t;

/* Room for so many leaf links of an account, or as many as were asked for, all routes and gateways: asked before one
 * joins. */
LEAF_MUST_USE status_t publish_reserve_links(plane_t *plane, uint32_t count);
/* The flags of what we publish to that subject, beside others. */
static inline uint32_t publication_own(bytes_t subject) {
    return bytes_starts(subject, PUBLICATION_OWN_SUBJECTS)   ? PUBLICATION_INSIDE | PUBLICATION_OWN
           : bytes_starts(subject, PUBLICATION_FAR_SUBJECTS) ? PUBLICATION_OWN
                                                             : 0u;
}
/* Routes one message; returns how many targets took it (a leaf link counts as one). */
uint32_t publish(plane_t *plane, publication_t *publication);
/* The same, of a publication with a trace: what becomes of it is recorded, and nobody here gets one that is only
 * traced. */
uint32_t publish_traced(plane_t *plane, publication_t *publication);
/* From inside: an ack, a reply, a status; its targets inside have it at the next tick. */
/* Over that link, if its rights allow it, though the other end has not said that it wants it. Returns 1 or 0. */
uint32_t publish_untold(plane_t *plane, peer_t *peer, const publication_t *publication);
/* A client's answer, under its whole name (gateway_reply.h): over our hubs, and over the gateway that it names. */
uint32_t publish_answer(plane_t *plane, const publication_t *publication);
/* Over that link, whatever its interest. */
void publish_over_link(plane_t *plane, peer_t *peer, const publication_t *publication);
uint32_t publish_inside(plane_t *plane, account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                        bytes_t payload);

/* ---- delivery.c -------------------------------------------------------------------------------------------------- */

/* To one receiver of a subscription to `to`, out of a stream. */
delivered_t publish_delivery(plane_t *plane, account_t *account, const delivery_t *delivery);
void publish_later(plane_t *plane, const publication_t *publication); /* to its targets inside, at the next tick */
void publish_deferred(plane_t *plane);                                /* what waits there now */

/* ---- cross.c ----------------------------------------------------------------------------------------------------- */

/* The receivers that a publication would have, so that a full receiver stops a consumer before anything is sent; looks
 * through imports. */
delivered_t look_at_receivers(plane_t *plane, account_t *account, bytes_t subject, bytes_t group);
bool account_interest(plane_t *plane, account_t *account, bytes_t subject, bytes_t group);
/* Does anybody but JetStream itself have that very subject, without wildcards? A push consumer delivers only then. */
bool account_exact_interest(const account_t *account, bytes_t subject, bytes_t group);

#endif
