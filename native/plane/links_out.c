/* links_out.c: see links_out.h; and what goes over links without the search for other receivers: publish_untold(),
 * publish_over_link(), publish_answer().
 */
#include <stdlib.h>

#include "plane/links_out.h"

#include "base/status.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/gateway.h"
#include "plane/output.h"
#include "plane/trace.h"
#include "plane/vouch.h"
#include "route/route.h"
#include "wire/emit.h"

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* The next server judges the name anew. One that its sender may not publish to goes on only to a copy of ours or of
 * theirs, which no client subscribes to. */
static bytes_t link_name(plane_t *plane, const publication_t *publication) {
    bytes_t subject = publication->message.subject;
    bool copy = bytes_starts(subject, BYTES_LITERAL("$JS.M.")) || bytes_starts(subject, BYTES_LITERAL("$JS.S."));
    return copy ? publication->copied : judge_shown(plane, publication).name;
}

void link_send(plane_t *plane, peer_t *peer, const publication_t *publication) {
    publication_t vouched;
    if (LEAF_UNLIKELY(peer->server) && publication->message.header.size != 0 && vouch_concerns(peer, publication)) {
        vouched = *publication;
        if (!vouch_for(plane, &vouched)) {
            return; /* as if the link were gone */
        }
        publication = &vouched;
    }
    if (LEAF_UNLIKELY(peer->lanes != NULL)) {
        output_line_up(plane, peer, publication, link_name(plane, publication));
        return;
    }
    const message_t *message = &publication->message;
    outq_t *out = &peer->conn.out;
    status_t status = peer->protocol->emit_link(peer, out, publication, link_name(plane, publication));
    if (status == STATUS_INVALID) {
        return; /* this link does not get it */
    }
    if (status == STATUS_OK) {
        status = outq_end(out);
        output_sent(plane, peer, message);
        if (LEAF_UNLIKELY(outq_pending(out) > plane->behind_bytes || outq_crowded(out))
            && publication->origin != NULL) {
            peer_stall(plane, publication->origin, out);
        }
    }
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

/* A trace goes on over the link, also one without delivery, if there is somebody who understands it. */
void link_send_traced(plane_t *plane, peer_t *peer, const publication_t *publication) {
    trace_t *trace = publication->trace;
    bool knows = (peer->flags & VERDICT_TRACES) != 0;
    if (!knows && trace->only) {
        trace_egress(plane, trace, peer, NULL, TRACE_FAULT_ONLY_UNKNOWN, BYTES_NONE);
        return;
    }
    publication_t forwarded = *publication;
    bytes_t hop = BYTES_NONE;
    forwarded.message.header = trace_link_header(trace, publication->message.header, &hop);
    if (forwarded.message.header.size == 0) {
        return; /* no memory: as if the link were gone */
    }
    link_send(plane, peer, &forwarded);
    trace_egress(plane, trace, peer, NULL, knows ? TRACE_FAULT_NONE : TRACE_FAULT_UNKNOWN, hop);
}

void link_denied_traced(plane_t *plane, const peer_t *peer, const publication_t *publication) {
    if (peer->state == PEER_ADMITTED && peer != publication->origin && !link_may_leave(peer, publication)) {
        trace_egress(plane, publication->trace, peer, NULL, TRACE_FAULT_DENIED_OUT, BYTES_NONE);
    }
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

status_t publish_reserve_links(plane_t *plane, uint32_t count) {
    plane->leafs_most = count > plane->leafs_most ? count : plane->leafs_most;
    count = plane->leafs_most + plane->route_count + plane->outbound_count;
    if (plane->links_room_max < count) {
        uint32_t max = count * 2;
        peer_t **grown = realloc(plane->links_room, (size_t)max * sizeof(peer_t *));
        if (grown == NULL) {
            return STATUS_NO_MEMORY;
        }
        plane->links_room = grown;
        plane->links_room_max = max;
    }
    return STATUS_OK;
}

void link_choose_named(plane_t *plane, const publication_t *publication, chosen_t *chosen) {
    const peer_t *origin = publication->origin;
    bytes_t subject = publication->message.subject;
    if (plane->outbound_count == 0 || (origin != NULL && origin->server) || !gateway_is_reply(subject)
        || (publication->flags & PUBLICATION_INSIDE) != 0) {
        return;
    }
    peer_t *peer = gateway_towards(plane, subject);
    if (peer != NULL && peer->state == PEER_ADMITTED) {
        link_choose(chosen, peer, NULL);
    }
}

/* ---- messages that go over links alone --------------------------------------------------------------------------- */

void publish_over_link(plane_t *plane, peer_t *peer, const publication_t *publication) {
    peer->queue_count = 0;
    link_send(plane, peer, publication);
}

uint32_t publish_untold(plane_t *plane, peer_t *peer, const publication_t *publication) {
    if (peer == NULL || !peer->protocol->link || peer->account != publication->account
        || !link_takes_all(peer, publication)) {
        return 0;
    }
    publish_over_link(plane, peer, publication);
    return 1;
}

uint32_t publish_answer(plane_t *plane, const publication_t *publication) {
    plane->publication++;
    chosen_t chosen;
    links_choose(plane, &chosen);
    const route_match_t *match = route_match(publication->account->route, publication->message.subject);
    for (uint32_t i = 0; i < match->plain_count; i++) {
        const subscription_t *one = match->plain[i]->owner;
        if (match->plain[i]->kind == TARGET_LEAF && (one->flags & SUBSCRIPTION_DEAD) == 0 && peer_is_hub(one->peer)
            && link_takes(one, publication)) {
            link_choose(&chosen, one->peer, NULL);
        }
    }
    link_choose_named(plane, publication, &chosen);
    for (uint32_t i = 0; i < chosen.count; i++) {
        link_send(plane, chosen.at[i], publication);
    }
    return chosen.count;
}
