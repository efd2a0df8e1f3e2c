/* publish.c: one message to everybody who wants it.
 *
 *     match --> plain targets, one member of each queue group --> clients, control: at once, into their queues
 *                                                             --> links: gathered, one frame for each link
 *                                                             --> other accounts that import it or export a service
 *                                                             (cross.c) --> streams, consumers, ingest: last, they may
 *                                                             publish again
 *
 * Queue groups: a member here wins over members behind links; the choice is random, by weight between links. A message
 * that came over a link serves only the groups that it names (tests/wire/leaf.md). A message goes over a link
 * once, never back to where it came from nor to another link of the same cluster, nor from one hub of ours to another.
 *
 * Routes: what came by one goes on to no other, nor to a hub of ours, but for answers; what came from a hub goes to no
 * route. Members at other servers of the cluster are as good as those here, each of them (routed.c).
 *
 * Gateways: what came by one goes on to no other, what came by a route to none. A group that nobody has served here
 * goes to the nearest cluster with a member. An answer under its whole name (gateway_reply.h) goes by the gateway that
 * it names. Whether a message may go over a link, and its sending: links_out.h.
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/internal_targets.h"
#include "plane/links_out.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "plane/target.h"
#include "plane/trace.h"
#include "route/route.h"
#include "text/text.h"
#include "wire/emit.h"
#include "wire/op.h"

typedef struct internals {
    const sink_t *at[INTERNAL_TARGETS_MAX];
    uint32_t count;
} internals_t;

/* ---- clients and control ----------------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool subscription_takes(plane_t *plane, subscription_t *one,
                                                         const publication_t *publication, const message_t *shown) {
    const peer_t *peer = one->peer;
    bool allowed = (one->flags & SUBSCRIPTION_FILTERED) == 0
                   || permissions_deliver(peer->permissions, shown->subject, one->target.queue);
    return allowed && ((one->flags & SUBSCRIPTION_ASKS) == 0 || peer->protocol->takes(plane, one, publication, shown));
}

static bool deliver_client(plane_t *plane, subscription_t *one, const publication_t *publication,
                           const message_t *shown) {
    peer_t *peer = one->peer;
    if (LEAF_UNLIKELY(peer->state != PEER_ADMITTED || (one->flags & SUBSCRIPTION_DEAD) != 0)) {
        return false;
    }
    if (peer == publication->origin && (peer->flags & VERDICT_ECHO) == 0) {
        return false;
    }
    if (LEAF_UNLIKELY((one->flags & (SUBSCRIPTION_FILTERED | SUBSCRIPTION_ASKS)) != 0)
        && !subscription_takes(plane, one, publication, shown)) {
        return false;
    }
    outq_t *out = &peer->conn.out;
    status_t status = peer->protocol->emit(peer, out, one, shown);
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        peer_emit_failed(plane, peer, status);
        return false;
    }
    status = outq_end(out);
    peer_touch(plane, peer);
    uint64_t size = (uint64_t)shown->header.size + shown->payload.size;
    peer->out_msgs++;
    peer->out_bytes += size;
    plane->stats.out_msgs++;
    plane->stats.out_bytes += size;
    one->delivered++;
    if (LEAF_UNLIKELY(one->max != 0) && one->delivered >= one->max) {
        subscription_kill(plane, one);
    }
    if (LEAF_UNLIKELY(peer->permissions != NULL) && shown->reply.size != 0 && permissions_tracks(peer->permissions)) {
        permissions_track_reply(peer->permissions, shown->reply, plane->now.mono_ns);
    }
    if (LEAF_UNLIKELY(outq_pending(out) > plane->behind_bytes || outq_crowded(out)) && publication->origin != NULL
        && !output_unread(plane, peer)) {
        peer_stall(plane, publication->origin, out);
    }
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        peer_emit_failed(plane, peer, status);
    }
    return true;
}

static bool deliver_client_traced(plane_t *plane, subscription_t *one, const publication_t *publication,
                                  const message_t *shown) {
    const peer_t *peer = one->peer;
    uint32_t fault = TRACE_FAULT_NONE;
    if (peer->state != PEER_ADMITTED) {
        fault = TRACE_FAULT_CLIENT_CLOSED;
    } else if ((one->flags & SUBSCRIPTION_DEAD) != 0) {
        fault = TRACE_FAULT_SUBSCRIPTION_CLOSED;
    } else if (peer == publication->origin && (peer->flags & VERDICT_ECHO) == 0) {
        fault = TRACE_FAULT_NO_ECHO;
    } else if ((one->flags & SUBSCRIPTION_FILTERED) != 0
               && !permissions_deliver(peer->permissions, shown->subject, one->target.queue)) {
        fault = TRACE_FAULT_DENIED_IN;
    }
    trace_egress(plane, publication->trace, peer, one, fault, BYTES_NONE);
    return fault == TRACE_FAULT_NONE && (publication->trace->only || deliver_client(plane, one, publication, shown));
}

/* Is it none of control's business? The C side answers pulls and direct gets itself; without a target of their own
 * nobody does, and that is a 503. A server asks this one about streams by letters (meta/meta.h): what comes from it
 * otherwise is for somebody who listens here, and it has acted on it itself, or it has no JetStream (TARGET_GUESTS). */
static bool answered_elsewhere(const publication_t *publication, bool guests) {
    bool far = publication->origin != NULL && publication->origin->server;
    return far != guests || interest_asks_stream(publication->message.subject);
}

/* Asked for templates alone: what was matched for this message is in the cache. */
static bool stream_takes(const publication_t *publication) {
    const route_match_t *match = route_match(publication->account->route, publication->message.subject);
    for (uint32_t i = 0; i < match->plain_count; i++) {
        if (match->plain[i]->kind == TARGET_STREAM) {
            return true;
        }
    }
    return false;
}

/* The number of the account that it was sent in: of a connection with a login its own, of a route the one that its line
 * names, which is the first that asks where it crossed imports; 0: inside. */
static uint32_t publication_sender(const publication_t *publication) {
    const peer_t *origin = publication->origin;
    if (origin == NULL) {
        return 0;
    }
    const account_t *sender = origin->account != NULL          ? origin->account
                              : publication->requester != NULL ? publication->requester->account
                                                               : publication->account;
    return sender->js.id;
}

/* Control acts on what it is asked, so it is asked under the subject that was judged, whatever subscribers see. */
static bool deliver_control(plane_t *plane, const subscription_t *one, const publication_t *publication) {
    const message_t *message = &publication->message;
    bool template = one->target.kind == TARGET_TEMPLATE;
    bool guests = one->target.kind == TARGET_GUESTS;
    if ((one->flags & SUBSCRIPTION_DEAD) != 0
        || ((guests || one->target.kind == TARGET_API) && answered_elsewhere(publication, guests))
        || (template && stream_takes(publication))) {
        return false;
    }
    peer_t *origin = publication->origin;
    uint32_t guest = guests ? guest_of(origin->id, message->header) : 0;
    if (guests ? !pressure_room_guest(plane, guest) : !pressure_room(plane, origin)) {
        return false;
    }
    event_entry_t *entry =
        event_new(EVENT_MESSAGE, message->subject, message->reply, message->header, message->payload);
    if (entry != NULL) {
        entry->event.target = one->id;
        entry->event.account = publication->account->js.id;
        entry->event.arg = origin == NULL ? 0 : origin->id;
        entry->event.arg2 = origin == NULL ? 0 : origin->kind;
        entry->event.code = publication_sender(publication);
        entry->alone = template || (one->flags & SUBSCRIPTION_ALONE) != 0;
    }
    /* Refused: nobody took it, which its sender is told as any other request without an answer. */
    return guests ? pressure_offer_guest(plane, guest, entry) : pressure_offer(plane, origin, entry);
}

/* ---- routing ----------------------------------------------------------------------------------------------------- */

/* Routing exists twice: with records of a trace and without, so that a message without one pays nothing for them. */
#define SPECIALIZED static inline __attribute__((always_inline))

typedef struct routing {
    plane_t *plane;
    publication_t *publication;
    message_t shown;
    internals_t internals;
    crossings_t crossings;
    uint32_t taken;
    chosen_t chosen;
} routing_t;

/* In a group the target is chosen by this; plain ones count when somebody at the other side took it. */
static bool offer_crossing(routing_t *routing, const route_target_t *target, const bytes_t *queue) {
    return cross_note(routing->plane, routing->publication, target, queue, &routing->crossings) && queue != NULL;
}

/* The first who sees the name behind the subject has it judged. */
static __attribute__((noinline)) void show_name(routing_t *routing) {
    publication_t *publication = routing->publication;
    publication->shown = judge_shown(routing->plane, publication);
    publication->flags &= ~PUBLICATION_NAMED;
    if (publication->shown.name.size != 0) {
        routing->shown.subject = publication->shown.name;
    }
}

SPECIALIZED bool offer_local(routing_t *routing, route_target_t *target, const bool traced) {
    uint32_t flags = routing->publication->flags;
    if (LEAF_LIKELY(target->kind == TARGET_CLIENT)) {
        if (LEAF_UNLIKELY((flags & PUBLICATION_NAMED) != 0)) {
            show_name(routing);
        }
        return (flags & (PUBLICATION_INSIDE | PUBLICATION_OWN)) == 0
               && (traced ? deliver_client_traced(routing->plane, target->owner, routing->publication, &routing->shown)
                          : deliver_client(routing->plane, target->owner, routing->publication, &routing->shown));
    }
    const target_traits_t *traits = traits_of(target);
    if (LEAF_UNLIKELY((flags & traits->withheld) != 0)) {
        return false;
    }
    switch ((target_order_t)traits->order) {
    case ORDER_QUEUE:
        if (traced && routing->publication->trace->only) {
            return true;
        }
        return deliver_control(routing->plane, target->owner, routing->publication);
    case ORDER_CROSS: return offer_crossing(routing, target, NULL);
    case ORDER_INSIDE:
        if (routing->internals.count == INTERNAL_TARGETS_MAX) {
            return false;
        }
        routing->internals.at[routing->internals.count++] = target->owner;
        return true;
    case ORDER_LINK:
    default: return false;
    }
}

static bool group_is_named(const publication_t *publication, bytes_t queue) {
    if (LEAF_LIKELY((publication->flags & (PUBLICATION_FROM_LINK | PUBLICATION_WITHOUT)) == 0)) {
        return true;
    }
    for (uint32_t i = 0; i < publication->without_count; i++) {
        if (bytes_equal(publication->without[i], queue)) {
            return false;
        }
    }
    if ((publication->flags & PUBLICATION_FROM_LINK) == 0) {
        return true;
    }
    for (uint32_t i = 0; i < publication->queue_count; i++) {
        if (bytes_equal(publication->queues[i], queue)) {
            return true;
        }
    }
    return false;
}

/* In our cluster; those in others come later. */
static bool is_behind_link(const route_target_t *target) {
    return traits_of(target)->order == ORDER_LINK && target->kind != TARGET_GATEWAY;
}

static bool offer_group_to_leafs(routing_t *routing, const route_group_t *group) {
    plane_t *plane = routing->plane;
    uint64_t total = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const route_target_t *target = group->members[i];
        if (is_behind_link(target) && link_takes(target->owner, routing->publication)) {
            total += target->weight;
        }
    }
    if (total == 0) {
        return false;
    }
    uint64_t pick = random_below(&plane->random, total > UINT32_MAX ? UINT32_MAX : (uint32_t)total);
    for (uint32_t i = 0; i < group->count; i++) {
        const route_target_t *target = group->members[i];
        const subscription_t *one = target->owner;
        if (!is_behind_link(target) || !link_takes(one, routing->publication)) {
            continue;
        }
        if (pick < target->weight) {
            link_choose(&routing->chosen, one->peer, &group->queue);
            return true;
        }
        pick -= target->weight;
    }
    return false;
}

/* Members in importing accounts are as near as those here, unless they are behind a link there. */
SPECIALIZED bool offer_member(routing_t *routing, const route_group_t *group, route_target_t *target, bool behind_links,
                              const bool traced) {
    if (LEAF_LIKELY(target->kind != TARGET_SHADOW)) {
        return !behind_links && offer_local(routing, target, traced);
    }
    bool announced;
    peer_t *leaf;
    shadow_interest(target, &announced, &leaf);
    return (leaf != NULL) == behind_links && offer_crossing(routing, target, &group->queue);
}

/* Each member at another server of the cluster is as good as one here; those behind leafs, there or here, only count
 * when there is nobody else. As in the reference the draw says where the search begins. */
static __attribute__((noinline)) uint32_t group_start(plane_t *plane, const route_group_t *group) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        total += routed_share(group->members[i]);
    }
    uint64_t pick = total < 2 ? 0 : random_below(&plane->random, total > UINT32_MAX ? UINT32_MAX : (uint32_t)total);
    uint32_t start = 0;
    for (uint32_t share; (share = routed_share(group->members[start])) <= pick && start + 1 < group->count; start++) {
        pick -= share;
    }
    return start;
}

/* true: a route has it for the group. */
static bool offer_group_to_route(routing_t *routing, const route_group_t *group, const route_target_t *target) {
    const subscription_t *one = target->owner;
    if (one->sid_size != 0 || !link_takes_all(one->peer, routing->publication)) {
        return false;
    }
    link_choose(&routing->chosen, one->peer, &group->queue);
    return true;
}

/* To the nearest cluster with a member. */
static void offer_group_to_gateways(routing_t *routing, const route_group_t *group) {
    peer_t *nearest = NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        const subscription_t *one = group->members[i]->owner;
        if (group->members[i]->kind == TARGET_GATEWAY && (one->flags & SUBSCRIPTION_DEAD) == 0
            && link_takes(one, routing->publication) && (nearest == NULL || one->peer->rtt_ns < nearest->rtt_ns)) {
            nearest = one->peer;
        }
    }
    if (nearest != NULL) {
        link_choose(&routing->chosen, nearest, &group->queue);
    }
}

/* routed: there may be routes and gateways, and the message has not come by a route. */
SPECIALIZED void offer_group(routing_t *routing, const route_group_t *group, const bool traced, const bool routed) {
    uint32_t start = group->count < 2 ? 0
                     : routed         ? group_start(routing->plane, group)
                                      : random_below(&routing->plane->random, group->count);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t at = start + i < group->count ? start + i : start + i - group->count;
        if (routed && group->members[at]->kind == TARGET_ROUTE) {
            if (offer_group_to_route(routing, group, group->members[at])) {
                return;
            }
            continue;
        }
        if (offer_member(routing, group, group->members[at], false, traced)) {
            routing->taken++;
            return;
        }
    }
    if (offer_group_to_leafs(routing, group)) {
        return;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (offer_member(routing, group, group->members[i], true, traced)) {
            routing->taken++;
            return;
        }
    }
    if (routed) {
        offer_group_to_gateways(routing, group);
    }
}

/* To the groups, where there may be other servers; and what goes to one of them without being asked for. */
static __attribute__((noinline)) void offer_groups_routed(routing_t *routing, const route_match_t *match, bool traced) {
    for (uint32_t i = 0; i < match->group_count; i++) {
        const route_group_t *group = &match->groups[i];
        if (!group_is_named(routing->publication, group->queue)) {
            continue;
        }
        if (traced) {
            offer_group(routing, group, true, true);
        } else {
            offer_group(routing, group, false, true);
        }
    }
    link_choose_named(routing->plane, routing->publication, &routing->chosen);
}

SPECIALIZED void route_to_all(routing_t *routing, account_t *account, const bool traced) {
    plane_t *plane = routing->plane;
    const publication_t *publication = routing->publication;
    const route_match_t *match = (publication->flags & PUBLICATION_ONCE) != 0
                                     ? route_match_once(account->route, publication->message.subject)
                                     : route_match(account->route, publication->message.subject);
    if (LEAF_UNLIKELY(route_match_failed(match))) {
        if (publication->origin != NULL) {
            peer_doom(plane, publication->origin, CLOSE_LIMIT, BYTES_LITERAL("no memory for a message"));
        }
        return;
    }
    plane->publication++;
    links_choose(plane, &routing->chosen);
    for (uint32_t i = 0; i < match->plain_count; i++) {
        route_target_t *target = match->plain[i];
        if (LEAF_LIKELY(target->kind < TARGET_LEAF || target->kind > TARGET_GATEWAY)) {
            routing->taken += offer_local(routing, target, traced);
            continue;
        }
        const subscription_t *one = target->owner;
        if ((one->flags & SUBSCRIPTION_DEAD) == 0 && link_takes(one, publication)) {
            link_choose(&routing->chosen, one->peer, NULL);
        } else if (traced) {
            link_denied_traced(plane, one->peer, publication);
        }
    }
    if (LEAF_UNLIKELY(plane->routed != NULL) && (publication->origin == NULL || publication->origin->route == NULL)) {
        offer_groups_routed(routing, match, traced);
    } else {
        for (uint32_t i = 0; i < match->group_count; i++) {
            if (group_is_named(publication, match->groups[i].queue)) {
                offer_group(routing, &match->groups[i], traced, false);
            }
        }
    }
    for (uint32_t i = 0; i < routing->chosen.count; i++) {
        if (traced) {
            link_send_traced(plane, routing->chosen.at[i], publication);
        } else {
            link_send(plane, routing->chosen.at[i], publication);
        }
    }
    routing->taken += routing->chosen.count;
    if (LEAF_UNLIKELY(routing->crossings.any)) {
        if ((publication->flags & PUBLICATION_NAMED) != 0) {
            show_name(routing);
        }
        routing->taken += cross(plane, publication, &routing->crossings);
    }
}

/* The number of receivers: none, one, or many. */
static uint32_t count_receivers(const route_match_t *match) {
    uint32_t count = match->group_count;
    for (uint32_t i = 0; i < match->plain_count && count < 2; i++) {
        const target_traits_t *traits = traits_of(match->plain[i]);
        count += traits->peer || traits->order == ORDER_CROSS;
    }
    return count;
}

/* The body of a large message is one for all queues, unless it came with one. */
static __attribute__((noinline)) shared_t *share_body(routing_t *routing, const account_t *account) {
    message_t *message = &routing->publication->message;
    if (message->body != NULL) {
        return NULL;
    }
    uint32_t receivers = count_receivers(route_match(account->route, message->subject));
    routing->shown.body = output_body(routing->plane, message, receivers);
    routing->shown.body_from = message->body_from;
    return message->body;
}

static inline void routing_begin(routing_t *routing, plane_t *plane, publication_t *publication) {
    routing->plane = plane;
    routing->publication = publication;
    message_copy(&routing->shown, &publication->message);
    routing->internals.count = 0;
    routing->crossings.any = false;
    routing->taken = 0;
    if (publication->shown.name.size != 0) {
        routing->shown.subject = publication->shown.name;
    }
    if (LEAF_UNLIKELY((publication->flags & PUBLICATION_ANSWER) != 0)) {
        routing->shown.reply = gateway_bare(publication->message.reply);
    }
}

/* Only now is it known that somebody may answer: a peer that asks nobody is to fill no memory with its replies, nor
 * push out those of others. */
static inline void routing_end(const routing_t *routing) {
    const publication_t *publication = routing->publication;
    if (LEAF_UNLIKELY((publication->flags & PUBLICATION_ANSWER) != 0) && routing->taken != 0) {
        gateway_reply_seen(routing->plane, publication->account, publication->message.reply);
    }
}

uint32_t publish_traced(plane_t *plane, publication_t *publication) {
    routing_t routing;
    routing_begin(&routing, plane, publication);
    route_to_all(&routing, publication->account, true);
    routing_end(&routing);
    for (uint32_t i = 0; i < routing.internals.count; i++) {
        inside_traced(plane, routing.internals.at[i], publication);
    }
    return routing.taken;
}

uint32_t publish(plane_t *plane, publication_t *publication) {
    routing_t routing;
    routing_begin(&routing, plane, publication);
    uint64_t size = (uint64_t)publication->message.header.size + publication->message.payload.size;
    shared_t *body = LEAF_LIKELY(size < BODY_SHARED_MIN) ? NULL : share_body(&routing, publication->account);
    route_to_all(&routing, publication->account, false);
    routing_end(&routing);
    if (LEAF_UNLIKELY(body != NULL)) {
        publication->message.body = NULL;
        shared_release(body);
    }
    if ((publication->flags & PUBLICATION_DEFER) != 0) {
        if (routing.internals.count != 0) {
            publish_later(plane, publication);
        }
        return routing.taken;
    }
    for (uint32_t i = 0; i < routing.internals.count; i++) {
        const sink_t *sink = routing.internals.at[i];
        if (sink->in) { /* one before it may have ended it */
            traits_of(&sink->target)->take(plane, sink, publication);
        }
    }
    return routing.taken;
}

/* What has no headers is a PubAck or an answer like it, to an inbox of its own: a status has some, and so have messages
 * of which many go to one. */
uint32_t publish_inside(plane_t *plane, account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                        bytes_t payload) {
    uint32_t once = header.size == 0 ? PUBLICATION_ONCE : 0;
    publication_t publication = {.account = account,
                                 .message = {.subject = subject, .reply = reply, .header = header, .payload = payload},
                                 .flags = PUBLICATION_DEFER | PUBLICATION_UNJUDGED | once | publication_own(subject)};
    return publish(plane, &publication);
}
