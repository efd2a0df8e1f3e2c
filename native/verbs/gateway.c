/* gateway.c: the verbs of a gateway, the connection to a server of another cluster. Reference: tests/wire/gateway.md.
 *
 * Until ADMIT_GATEWAY every line goes to control and reading waits. Each line names its account.
 *
 *     outbound    RS+ RS-      subscriptions of TARGET_GATEWAY in that account        plane/account.c
 *                 A+ A-        of peers that may also send what nobody asked for: we do not, so they say nothing
 *                 INFO         gossip, for control; that an account's interest begins, or is whole: nothing
 *     inbound     RMSG HMSG    a publication in that account                          plane/publish.c
 *
 * Not here: the handshake and gossip (control, links/), what we tell the peer (plane/routed.c), what we
 * send it (plane/publish.c), the names of replies (plane/gateway_reply.c).
 */
#include "plane/gateway.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "plane/account.h"
#include "plane/named.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "route/route.h"
#include "text/subject.h"
#include "text/text.h"
#include "verbs/lines.h"
#include "verbs/links.h"
#include "verbs/verbs.h"
#include "wire/emit.h"
#include "wire/op.h"

static account_t *gateway_account(plane_t *plane, peer_t *peer, const op_t *op) {
    return named_account_again(plane, &peer->gateway->last, op->account);
}

/* As of a route: our PING asks whether it has let us in. */
static status_t gateway_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    (void)verdict;
    plane->interest_changed = true;
    peer_ping(plane, peer);
    return STATUS_OK;
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

/* The weight of a group is not told between clusters: it is always 1. */
static void gateway_subscribe(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    if (routed_is_own(op->subject)
        || subscription_find(peer->table, account, BYTES_NONE, op->subject, op->queue) != NULL) {
        return;
    }
    if (!subject_valid_pattern(op->subject)) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
        return;
    }
    subscription_t *one;
    status_t status = subscription_add(plane, account, &peer->table, TARGET_GATEWAY, peer, op->subject, op->queue,
                                       BYTES_NONE, 1, 0, &one);
    if (status == STATUS_OK) {
        link_tell_reached(plane, peer, account, op->subject); /* a leaf has come to that cluster */
    } else if (status == STATUS_NO_MEMORY) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a subscription"));
    } else if (status == STATUS_FULL) {
        plane->lacking = peer->gateway->lacks = true; /* as of a route */
    } else if (status != STATUS_OK) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
    }
}

static void gateway_unsubscribe(plane_t *plane, peer_t *peer, const account_t *account, const op_t *op) {
    subscription_t *one = subscription_find(peer->table, account, BYTES_NONE, op->subject, op->queue);
    if (one != NULL) {
        subscription_kill(plane, one);
    }
}

/* false: interest came where messages are to come, or the other way round. */
static bool gateway_interest(plane_t *plane, peer_t *peer, const op_t *op) {
    if (!peer->gateway->outbound) {
        return false;
    }
    account_t *account = op->kind == OP_ACCOUNT     ? NULL
                         : op->kind == OP_ROUTE_SUB ? named_account_wanted(plane, &peer->gateway->last, op->account)
                                                    : gateway_account(plane, peer, op);
    if (account != NULL && op->kind == OP_ROUTE_SUB) {
        gateway_subscribe(plane, peer, account, op);
    } else if (account != NULL) {
        gateway_unsubscribe(plane, peer, account, op);
    }
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The cost of looking for receivers is counted as told lines are: lines_input knows no account to ask for it. */
#define STEPS_A_LINE 8u

static bool gateway_message(plane_t *plane, peer_t *peer, const op_t *op) {
    if (peer->gateway->outbound) {
        return false;
    }
    account_t *account = gateway_account(plane, peer, op);
    uint64_t size = (uint64_t)op->header.size + op->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.link_in_msgs++; /* stats_publish adds them to the others */
    plane->stats.link_in_bytes += size;
    if (account == NULL || (account->flags & ACCOUNT_EXPECTED) != 0) {
        return true;
    }
    uint64_t before = *route_steps(account->route);
    if (LEAF_UNLIKELY(gateway_is_reply(op->subject))) {
        link_take_in_back(plane, peer, account, op);
    } else if (LEAF_UNLIKELY(plane->meta != NULL) && bytes_starts(op->subject, PUBLICATION_MAIL_SUBJECTS)) {
        plane->mail(plane, peer, account, op->subject, op->payload);
    } else {
        link_take_in(plane, peer, account, op, op->subject);
    }
    plane->told += (*route_steps(account->route) - before) / STEPS_A_LINE;
    return true;
}

/* ---- dispatch by verb -------------------------------------------------------------------------------------------- */

static void gateway_takes_pong(plane_t *plane, peer_t *peer) {
    peer_ponged(plane, peer);
    gateway_answered(plane, peer);
    if (!peer->gateway->up) {
        peer->gateway->up = pressure_offer(plane, peer, link_event(peer, EVENT_LEAF_INFO, &(op_t){.kind = OP_PONG}));
    }
}

/* Two for each account of the peer's, which are none of control's business. */
static bool is_account_command(bytes_t body) {
    static const char *const commands[] = {"\"gateway_cmd\":2,", "\"gateway_cmd\":3,"};
    for (uint32_t i = 0; i < 2; i++) {
        if (memmem(body.at, body.size, commands[i], strlen(commands[i])) != NULL) {
            return true;
        }
    }
    return false;
}

static void gateway_info(plane_t *plane, peer_t *peer, const op_t *op) {
    if (!peer->gateway->outbound || !is_account_command(op->body)) {
        (void)pressure_offer(plane, peer, link_event(peer, EVENT_LEAF_INFO, op));
    }
}

static bool gateway_dispatch(plane_t *plane, peer_t *peer, const op_t *op) {
    bool known = true;
    switch (op->kind) {
    case OP_ROUTE_MSG: known = gateway_message(plane, peer, op); break;
    case OP_ROUTE_SUB:
    case OP_ROUTE_UNSUB:
    case OP_ACCOUNT: known = gateway_interest(plane, peer, op); break;
    case OP_PING: peer_pong(plane, peer); break;
    case OP_PONG: gateway_takes_pong(plane, peer); break;
    case OP_ERR: link_error(plane, peer, op); break;
    case OP_INFO: gateway_info(plane, peer, op); break;
    case OP_OK:
    case OP_CONNECT: break;
    /* Of another protocol: wire/parse.c makes none of those. */
    default: known = false;
    }
    if (!known) {
        peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Unknown Protocol Operation"));
    }
    return known;
}

/* ---- the protocol ------------------------------------------------------------------------------------------------ */

static status_t gateway_emit(peer_t *peer, outq_t *out, const publication_t *publication, bytes_t shown) {
    message_t message = publication->message;
    text_t whole, reply;
    bool headers = (peer->flags & VERDICT_HEADERS) != 0;
    message.reply = gateway_reply(peer->gateway->plane, publication->account, message.reply, &whole);
    message.header = headers ? message.header : BYTES_NONE;
    if (!link_names(&message, shown, &reply) || link_is_forged_mail(&message, publication)) {
        return STATUS_INVALID;
    }
    route_names_t names = {.account = publication->account->name};
    return link_queue_message(peer, out, &message, &names, &publication->message, headers);
}

const protocol_t protocol_gateway = {LINK_PROTOCOL,
                                     .emit_link = gateway_emit,
                                     .admit = COMMAND_ADMIT_GATEWAY,
                                     .account = gateway_account,
                                     .admitted = gateway_admitted,
                                     .wire = WIRE_GATEWAY,
                                     .dispatch = gateway_dispatch};
