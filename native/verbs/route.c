/* route.c: the verbs of a route, the connection to another server of the cluster, one function each. Reference:
 * tests/wire/route.md.
 *
 * Until ADMIT_ROUTE every line goes to control and reading waits. A line names its account, and where it speaks for
 * leafs their cluster. One hop: what comes goes to clients, streams and leafs here, never to another route.
 *
 *     RS+ RS- LS+ LS-      subscriptions of TARGET_ROUTE in that account      plane/account.c
 *     RMSG HMSG LMSG       a publication in that account                      plane/publish.c
 *
 * Not here: the handshake and gossip (control, links/), what we tell the peer (plane/routed.c), what we
 * send it (plane/publish.c).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "plane/account.h"
#include "plane/gateway_reply.h"
#include "plane/named.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "route/permissions.h"
#include "route/route.h"
#include "text/subject.h"
#include "text/text.h"
#include "verbs/lines.h"
#include "verbs/links.h"
#include "verbs/verbs.h"
#include "wire/emit.h"
#include "wire/op.h"

static account_t *route_account(plane_t *plane, peer_t *peer, const op_t *op) {
    route_link_t *link = peer->route;
    return link->only != NULL ? link->only : named_account_again(plane, &link->last, op->account);
}

/* The route hears our interest before the PONG that tells it that it may begin; our PING asks whether it has let us in.
 */
static status_t route_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    (void)verdict;
    plane->interest_changed = true;
    peer_ping(plane, peer);
    return STATUS_OK;
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

static void route_subscribe(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    if (routed_is_own(op->subject)
        || (peer->permissions != NULL && !permissions_route_export(peer->permissions, op->subject))) {
        return;
    }
    uint32_t weight = op->queue.size == 0 || op->weight == 0 ? 1 : op->weight;
    subscription_t *one = subscription_find(peer->table, account, op->origin, op->subject, op->queue);
    if (one != NULL) {
        subscription_weigh(plane, one, weight);
        return;
    }
    if (!subject_valid_pattern(op->subject)) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
        return;
    }
    status_t status = subscription_add(plane, account, &peer->table, TARGET_ROUTE, peer, op->subject, op->queue,
                                       op->origin, weight, 0, &one);
    if (status == STATUS_OK) {
        link_tell_reached(plane, peer, account, op->subject); /* a leaf has come to that server */
    } else if (status == STATUS_NO_MEMORY) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a subscription"));
    } else if (status == STATUS_FULL) {
        plane->lacking = peer->route->lacks = true; /* an -ERR would end the connection, and begin it anew at once */
    } else if (status != STATUS_OK) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
    }
}

static void route_unsubscribe(plane_t *plane, peer_t *peer, const account_t *account, const op_t *op) {
    subscription_t *one = subscription_find(peer->table, account, op->origin, op->subject, op->queue);
    if (one != NULL) {
        subscription_kill(plane, one);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The cost of looking for receivers is counted as told lines are: lines_input knows no account to ask for it. */
#define STEPS_A_LINE 8u

static void route_message(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    uint64_t before = *route_steps(account->route);
    if (LEAF_UNLIKELY(gateway_is_reply(op->subject))) {
        link_take_in_back(plane, peer, account, op);
        return;
    }
    if (LEAF_UNLIKELY(plane->meta != NULL) && bytes_starts(op->subject, PUBLICATION_MAIL_SUBJECTS)) {
        plane->mail(plane, peer, account, op->subject, op->payload);
        return;
    }
    if (LEAF_UNLIKELY(bytes_starts(op->subject, PUBLICATION_CARRIED_SUBJECTS))
        && mqtt_carry_take_in(plane, peer, account, op)) {
        return;
    }
    if (LEAF_UNLIKELY(bytes_starts(op->subject, BYTES_LITERAL("$MQTT.")))
        && mqtt_far_take_in(plane, peer, account, op)) {
        return;
    }
    tell_t tell = {.streams = 0};
    bool told = LEAF_UNLIKELY(peer->link->noted.mark != 0) && mqtt_far_noted(peer, op, &tell);
    routed_speaks(peer, op->origin);
    link_take_in_told(plane, peer, account, op, op->subject, told ? &tell : NULL);
    routed_speaks(peer, BYTES_NONE);
    plane->told += (*route_steps(account->route) - before) / STEPS_A_LINE;
}

static void route_takes_message(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    uint64_t size = (uint64_t)op->header.size + op->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.link_in_msgs++; /* stats_publish adds them to the others */
    plane->stats.link_in_bytes += size;
    if (account != NULL && (account->flags & ACCOUNT_EXPECTED) == 0) {
        route_message(plane, peer, account, op);
    }
}

/* ---- dispatch by verb -------------------------------------------------------------------------------------------- */

static void route_takes_pong(plane_t *plane, peer_t *peer) {
    peer_ponged(plane, peer);
    if (!peer->route->up) {
        peer->route->up = pressure_offer(plane, peer, link_event(peer, EVENT_LEAF_INFO, &(op_t){.kind = OP_PONG}));
        mqtt_route_came(plane);
    }
}

static bool route_dispatch(plane_t *plane, peer_t *peer, const op_t *op) {
    account_t *account;
    switch (op->kind) {
    case OP_ROUTE_MSG: route_takes_message(plane, peer, route_account(plane, peer, op), op); break;
    case OP_ROUTE_SUB:
        account = peer->route->only != NULL ? peer->route->only
                                            : named_account_wanted(plane, &peer->route->last, op->account);
        if (account != NULL) {
            route_subscribe(plane, peer, account, op);
        }
        break;
    case OP_ROUTE_UNSUB:
        account = route_account(plane, peer, op);
        if (account != NULL) {
            route_unsubscribe(plane, peer, account, op);
        }
        break;
    case OP_PING: peer_pong(plane, peer); break;
    case OP_PONG: route_takes_pong(plane, peer); break;
    case OP_ERR: link_error(plane, peer, op); break;
    case OP_INFO: (void)pressure_offer(plane, peer, link_event(peer, EVENT_LEAF_INFO, op)); break;
    case OP_OK:
    case OP_CONNECT: break;
    /* Of another protocol: wire/parse.c makes none of those. */
    default: peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Unknown Protocol Operation")); return false;
    }
    return true;
}

/* ---- the protocol ------------------------------------------------------------------------------------------------ */

/* A message of a leaf is told with its cluster, so that it does not come back to it. */
static status_t route_emit(peer_t *peer, outq_t *out, const publication_t *publication, bytes_t shown) {
    message_t message = publication->message;
    text_t reply;
    if (!link_names(&message, shown, &reply) || link_is_forged_mail(&message, publication)) {
        return STATUS_INVALID;
    }
    route_names_t names = {.origin = link_cluster(publication->origin),
                           .account = peer->route->only != NULL ? BYTES_NONE : publication->account->name};
    return link_queue_message(peer, out, &message, &names, &publication->message, true);
}

const protocol_t protocol_route = {LINK_PROTOCOL,
                                   .emit_link = route_emit,
                                   .admit = COMMAND_ADMIT_ROUTE,
                                   .account = route_account,
                                   .admitted = route_admitted,
                                   .left = mqtt_route_left,
                                   .wire = WIRE_ROUTE,
                                   .dispatch = route_dispatch};
