/* links_out.h: a message and one link: a leaf link, a route, an outbound gateway. Whether it may go over it, that it
 * was chosen for it, and its sending.
 *
 * Not here: who wants a message (publish.c), how it is written (verbs/), which interest a link is told
 * of (interest.c, routed.c).
 */
#ifndef LEAFD_PLANE_LINKS_OUT_H
#define LEAFD_PLANE_LINKS_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "plane/gateway_reply.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "route/permissions.h"
#include "wire/op.h"

/* ---- which links take a message ---------------------------------------------------------------------------------- */

/* True if the link's rights let the publication leave. The rights of a route are about interest alone. */
static inline bool link_may_leave(const peer_t *peer, const publication_t *publication) {
    if (peer->permissions == NULL || peer->route != NULL) {
        return true;
    }
    bytes_t subject = publication->message.subject;
    subject = LEAF_UNLIKELY(gateway_is_reply(subject)) ? gateway_bare(subject) : subject;
    return permissions_leaf_out(peer->permissions, subject)
           && ((publication->flags & PUBLICATION_IMPORTED) == 0
               || !permissions_leaf_withholds(peer->permissions, publication->exported));
}

/* An answer under its whole name goes by no interest. */
static inline bool link_gateway_takes(const peer_t *origin, const publication_t *publication) {
    bool passes = origin == NULL || !origin->server || (publication->flags & PUBLICATION_BACK) != 0;
    return passes && !gateway_is_reply(publication->message.subject);
}

/* Whatever it asks for. */
static inline bool link_takes_all(const peer_t *peer, const publication_t *publication) {
    const peer_t *origin = publication->origin;
    if (peer->state != PEER_ADMITTED || peer == origin || (publication->flags & PUBLICATION_INSIDE) != 0) {
        return false;
    }
    if (LEAF_UNLIKELY((publication->flags & PUBLICATION_OWN) != 0)) {
        return peer->route != NULL;
    }
    if (LEAF_UNLIKELY(peer->gateway != NULL)) {
        return link_gateway_takes(origin, publication);
    }
    if (origin != NULL && origin->protocol->link) {
        if (origin->link->cluster.size != 0 && bytes_equal(origin->link->cluster, link_cluster(peer))) {
            return false;
        }
        if (LEAF_UNLIKELY(origin->server | peer->server)) {
            return routed_may_pass(origin, peer, publication) && link_may_leave(peer, publication);
        }
        if ((origin->flags & peer->flags & VERDICT_SPOKE) != 0) {
            return false;
        }
    }
    return link_may_leave(peer, publication);
}

/* True if the subscription, which may be for a cluster of leaves, takes the publication: none goes back to the cluster
 * that it came from. */
static inline bool link_takes(const subscription_t *one, const publication_t *publication) {
    return link_takes_all(one->peer, publication)
           && (LEAF_LIKELY(one->sid_size == 0) || !routed_is_from(publication, bytes_of(one->sid, one->sid_size)));
}

/* ---- choosing links for a message -------------------------------------------------------------------------------- */

/* The links that one message goes to, in the room that publish_reserve_links made. */
typedef struct chosen {
    peer_t **at;
    uint32_t count;
    uint32_t room;
    uint64_t number; /* of the message: links that have it are among them */
} chosen_t;

/* Member by member: a struct that is read in larger pieces than it was just written in is waited for. */
static inline void links_choose(const plane_t *plane, chosen_t *chosen) {
    chosen->at = plane->links_room;
    chosen->count = 0;
    chosen->room = plane->links_room_max;
    chosen->number = plane->publication;
}

static inline void link_choose(chosen_t *chosen, peer_t *peer, const bytes_t *queue) {
    if (peer->publication != chosen->number) {
        peer->publication = chosen->number;
        peer->queue_count = 0;
        check(chosen->count < chosen->room);
        chosen->at[chosen->count++] = peer;
    }
    if (queue != NULL && peer->queue_count < OP_QUEUES_MAX) {
        peer->link->queues[peer->queue_count++] = *queue;
    }
}
/* An answer under its whole name chooses the gateway that it names. */
void link_choose_named(plane_t *plane, const publication_t *publication, chosen_t *chosen);

/* ---- sending over the links that were chosen --------------------------------------------------------------------- */

void link_send(plane_t *plane, peer_t *peer, const publication_t *publication);
void link_send_traced(plane_t *plane, peer_t *peer, const publication_t *publication);
/* Tells the trace of a publication that the link's rights are why it was not chosen. */
void link_denied_traced(plane_t *plane, const peer_t *peer, const publication_t *publication);

#endif
