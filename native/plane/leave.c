/* leave.c: a doomed connection goes: its subscriptions and its outstanding replies, in slices, then what speaks of it,
 * then itself. Likewise the subscriptions of one that introduces itself anew.
 *
 * Hundreds of thousands of subscriptions take a good part of a second. A turn removes SWEEP_MAX of them and the others
 * live on; nobody delivers to a connection that is doomed. Closing a socket whose queue in the kernel is full counts as
 * SWEEP_CLOSE of them. Not here: who is doomed, and why (peer.c).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/leftover.h"
#include "base/table.h"
#include "base/visits.h"
#include "exchange/exchange.h"
#include "net/conn.h"
#include "plane/backlog.h"
#include "plane/gateway.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/link_part.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "plane/throttle.h"
#include "plane/web.h"

#define BUCKETS_LOOKED 512u /* of a table of subscriptions, between two sweeps */
#define BUCKETS_COST 8u     /* when all of them are empty: they are next to each other in memory */

static void leave_lists(plane_t *plane, peer_t *peer) {
    output_forget(plane, peer);
    backlog_forget(plane, peer);
    for (peer_t **at = &plane->stalled; peer_waits(peer, WAITS_RECEIVER) && *at != NULL; at = &(*at)->next_stalled) {
        if (*at == peer) {
            *at = peer->next_stalled;
            break;
        }
    }
    for (peer_t **at = &plane->shedding; peer->introduction != NULL && *at != NULL; at = &(*at)->next_shedding) {
        if (*at == peer) {
            *at = peer->next_shedding;
            break;
        }
    }
    pressure_forget(plane, peer);
    throttle_forget(plane, peer);
    if (peer->previous != NULL) {
        peer->previous->next = peer->next;
    } else {
        plane->all_peers = peer->next;
    }
    if (peer->next != NULL) {
        peer->next->previous = peer->previous;
    }
    table_drop(&plane->peers, peer->id);
}

static void remember(const peer_t *peer) {
    account_past_t *past = &peer->account->past[peer->protocol->link ? 1 : 0];
    past->in_msgs += peer->in_msgs;
    past->out_msgs += peer->out_msgs;
    past->in_bytes += peer->in_bytes;
    past->out_bytes += peer->out_bytes;
    past->slow += peer->close_reason == CLOSE_SLOW;
}

static carried_t carried_by(const peer_t *peer) {
    tcp_look_t look;
    uint64_t wire = peer->link == NULL ? 0 : peer->link->window.wire;
    if (peer->link != NULL && tcp_look(peer->conn.fd, &look)) {
        wire = look.wire;
    }
    return (carried_t){.in_msgs = peer->in_msgs,
                       .out_msgs = peer->out_msgs,
                       .in_bytes = peer->in_bytes,
                       .out_bytes = peer->out_bytes,
                       .subscriptions = peer->subscriptions_at_end,
                       .rtt_ns = peer->rtt_ns,
                       .last_wall_ns = peer->last_wall_ns,
                       .wire = wire};
}

/* false: there is no memory for that. */
static bool tell_closed(plane_t *plane, const peer_t *peer, const carried_t *carried) {
    event_entry_t *entry =
        event_new(EVENT_CLOSED, BYTES_NONE, bytes_of(peer->rows_at_end.at, (uint32_t)peer->rows_at_end.size),
                  bytes_of(carried, sizeof(*carried)), peer->close_text);
    if (entry == NULL) {
        return false;
    }
    entry->event.target = peer->id;
    entry->event.code = peer->close_reason;
    peer_tell(plane, peer, entry);
    return true;
}

/* So control hears of each end, whatever memory there is: the event is made of the connection's own, without its rows
 * and its text. */
static void become_closed_event(plane_t *plane, peer_t *peer, const carried_t *carried) {
    _Static_assert(sizeof(peer_t) >= sizeof(event_entry_t) + sizeof(carried_t), "the event has room in it");
    uint64_t id = peer->id;
    uint32_t reason = peer->close_reason;
    event_entry_t *entry = event_in(peer, EVENT_CLOSED, bytes_of(carried, sizeof(*carried)));
    entry->event.target = id;
    entry->event.code = reason;
    event_post(&plane->exchange, entry);
}

static void server_left(plane_t *plane, peer_t *peer) {
    uint64_t server = peer->route != NULL ? peer->route->peer : peer->gateway->peer;
    if (peer->route != NULL) {
        routed_left(plane, peer);
    } else {
        gateway_left(plane, peer);
    }
    if (plane->mail_lost != NULL && server != 0) {
        plane->mail_lost(plane, server);
    }
}

static void peer_free(plane_t *plane, peer_t *peer) {
    visits_add(SWEEP_PEER);
    if (peer->account != NULL) {
        remember(peer);
    }
    if (LEAF_UNLIKELY(peer->route != NULL || peer->gateway != NULL)) {
        server_left(plane, peer);
    } else if (peer->account != NULL && peer->protocol->link) {
        interest_leaf_left(plane, peer);
        plane->stats.leafs--;
    } else if (peer->account != NULL) {
        peer->account->client_count--;
    }
    plane->drained = plane->drained || peer->full;
    if (LEAF_UNLIKELY(peer->protocol->left != NULL)) {
        peer->protocol->left(plane, peer);
    }
    leave_lists(plane, peer);
    if (!peer->silent) {
        peer_flush(plane, peer);
    }
    const carried_t carried = carried_by(peer);
    bool told = peer->carried || tell_closed(plane, peer, &carried);
    free(peer->introduction);
    web_farewell(peer);
    if (peer->link != NULL && peer->link->window.measured) {
        tcp_expect_end(peer->conn.fd, window_patience_ns(&peer->link->window));
    }
    conn_close(&peer->conn, &plane->loop);
    map_free(&peer->table);
    permissions_free(peer->permissions);
    if (peer->link != NULL) {
        bytes_release(&peer->link->cluster);
        bytes_release(&peer->link->lds);
        free(peer->link);
    }
    buffer_free(&peer->rows_at_end);
    peer_undescribe(peer);
    bytes_release(&peer->author);
    bytes_release(&peer->after_pong);
    bytes_release(&peer->close_text);
    bytes_release(&peer->behind);
    bytes_release(&peer->host);
    plane->stats.connections -= !peer->carried;
    plane->carried -= peer->carried;
    plane->links -= (uint32_t)peer->protocol->link;
    if (told) {
        free(peer);
    } else {
        become_closed_event(plane, peer, &carried);
    }
}

/* As many of its subscriptions as one turn takes, going on where the turn before stopped; they are no interest of
 * anybody's from the moment it was doomed. */
static bool drop_some_subscriptions(plane_t *plane, peer_t *peer, uint32_t *budget) {
    while (map_count(peer->table) != 0 && *budget != 0) {
        if (peer->sweep_at >= MAP_END) {
            peer->sweep_at = 0;
        }
        uint32_t before = *budget;
        for (uint32_t i = 0; i < BUCKETS_LOOKED && peer->sweep_at < MAP_END && *budget != 0; i++) {
            map_link_t *link = map_at(peer->table, peer->sweep_at);
            for (; link != NULL && *budget != 0; link = link->next) {
                visits_add(1);
                subscription_kill(plane, subscription_at(link));
                (*budget)--;
            }
            peer->sweep_at = link == NULL ? map_beyond(peer->table, peer->sweep_at) : peer->sweep_at;
        }
        if (*budget == before && leftover_pay(budget, BUCKETS_COST)) {
            visits_add(BUCKETS_COST);
        }
        subscription_sweep(plane);
    }
    return map_count(peer->table) == 0;
}

void peer_shed(plane_t *plane, peer_t *peer, event_entry_t *entry) {
    peer->introduction = entry;
    peer->next_shedding = plane->shedding;
    plane->shedding = peer;
    plane->more = true;
    peer_pause(plane, peer);
}

static void shed_some(plane_t *plane) {
    for (peer_t **at = &plane->shedding; *at != NULL && plane->sweep_left != 0;) {
        peer_t *peer = *at;
        if (peer->state == PEER_DOOMED || !drop_some_subscriptions(plane, peer, &plane->sweep_left)) {
            at = &peer->next_shedding;
            continue;
        }
        *at = peer->next_shedding;
        event_post(&plane->exchange, peer->introduction);
        peer->introduction = NULL;
    }
    plane->more = plane->more || plane->shedding != NULL;
}

void peer_sweep_begin(plane_t *plane) {
    plane->sweep_left = SWEEP_MAX;
    shed_some(plane);
    leftovers_step(&plane->leftovers, plane, &plane->sweep_left);
    plane->more = plane->more || leftovers_wait(&plane->leftovers);
    replies_expire_some(plane, &plane->sweep_left);
    gateway_replies_expire_some(plane, &plane->sweep_left);
}

static bool peer_has_left(plane_t *plane, peer_t *peer) {
    visits_add(1);
    return drop_some_subscriptions(plane, peer, &plane->sweep_left)
           && replies_forget_some(plane, peer, &plane->sweep_left)
           && permissions_forget_some(peer->permissions, &plane->sweep_left);
}

static void queue_to_leave(plane_t *plane) {
    while (plane->doomed != NULL) {
        peer_t *peer = plane->doomed;
        plane->doomed = peer->next_doomed;
        peer->next_doomed = NULL;
        *(plane->leaving == NULL ? &plane->leaving : &plane->leaving_last->next_doomed) = peer;
        plane->leaving_last = peer;
    }
}

/* Those whose turn has not come are not even looked at: of thousands that leave at once that would be a walk over all
 * in each turn. */
void peer_sweep(plane_t *plane) {
    queue_to_leave(plane);
    while (plane->leaving != NULL && plane->sweep_left != 0 && peer_has_left(plane, plane->leaving)) {
        peer_t *peer = plane->leaving;
        plane->leaving = peer->next_doomed;
        uint32_t cost = peer->conn.writing ? SWEEP_CLOSE : SWEEP_PEER;
        plane->sweep_left -= cost < plane->sweep_left ? cost : plane->sweep_left;
        peer_free(plane, peer);
    }
    plane->more = plane->more || plane->leaving != NULL;
}
