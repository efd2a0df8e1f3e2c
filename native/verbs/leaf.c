/* leaf.c: the verbs of a leaf link, one function each. Reference: tests/wire/leaf.md.
 *
 * Until ADMIT_LEAF every line goes to control and reading waits. Not here: the handshake (control,
 * links/), what we tell the peer (plane/interest.c), what we send it (plane/publish.c).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "plane/protocol.h"
#include "plane/gateway_reply.h"
#include "plane/interest.h"
#include "plane/link_part.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/subscription.h"
#include "text/subject.h"
#include "text/text.h"
#include "verbs/lines.h"
#include "verbs/links.h"
#include "verbs/verbs.h"
#include "wire/op.h"

/* Begins to tell the link of interest, as its account is known. */
static status_t leaf_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    plane->stats.leafs++;
    plane->interest_changed = true;
    window_beside(plane, peer, verdict->whole);
    return interest_leaf_joined(plane, peer, verdict->domain);
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

/* JetStream's own families are denied both ways between domains; a peer that asks all the same is not closed for it. */
static bool is_domain_family(bytes_t subject) {
    return bytes_starts(subject, BYTES_LITERAL("$JS.")) || bytes_starts(subject, BYTES_LITERAL("$KV."))
           || bytes_starts(subject, BYTES_LITERAL("$OBJ."));
}

static bool may_be_asked(plane_t *plane, peer_t *peer, bytes_t subject) {
    if (peer->permissions == NULL || bytes_starts(subject, BYTES_LITERAL("$LDS."))
        || bytes_starts(subject, BYTES_LITERAL("_GR_.")) || bytes_starts(subject, BYTES_LITERAL("$GR."))) {
        return true;
    }
    if (permissions_leaf_asked(peer->permissions, subject)) {
        return true;
    }
    if (!peer_is_hub(peer) && !subject_has_wildcard(subject) && !is_domain_family(subject)) {
        link_close(plane, peer, CLOSE_PERMISSION, "Permissions Violation for Subscription to \"", subject, "\"");
    }
    return false;
}

static void leaf_subscribe(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    if (peer->link->lds.size != 0 && bytes_equal(op->subject, peer->link->lds)) {
        link_close(plane, peer, CLOSE_LOOP, "Loop detected for leafnode account=\"", account->name,
                   "\". Delaying attempt to reconnect for 30s");
        return;
    }
    if (routed_is_own(op->subject) || !may_be_asked(plane, peer, op->subject)) {
        return;
    }
    uint32_t weight = op->queue.size == 0 || op->weight == 0 ? 1 : op->weight;
    subscription_t *one = subscription_find(peer->table, account, BYTES_NONE, op->subject, op->queue);
    if (one != NULL) {
        subscription_weigh(plane, one, weight);
        return;
    }
    if (peer->max_subscriptions != 0 && map_count(peer->table) - peer->dead_count >= peer->max_subscriptions) {
        peer_error(plane, peer, BYTES_LITERAL("maximum subscriptions exceeded"));
        return;
    }
    if (!subject_valid_pattern(op->subject)) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
        return;
    }
    status_t status = subscription_add(plane, account, &peer->table, TARGET_LEAF, peer, op->subject, op->queue,
                                       BYTES_NONE, weight, 0, &one);
    if (status == STATUS_OK) {
        interest_leaf_asks(plane, peer, op->subject);
        link_tell_reached(plane, peer, account, op->subject);
    }
    if (status == STATUS_NO_MEMORY) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a subscription"));
    } else if (status == STATUS_FULL) {
        peer_error(plane, peer, BYTES_LITERAL("maximum subscriptions exceeded"));
    } else if (status != STATUS_OK) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
    }
}

static void leaf_unsubscribe(plane_t *plane, peer_t *peer, const account_t *account, const op_t *op) {
    subscription_t *one = subscription_find(peer->table, account, BYTES_NONE, op->subject, op->queue);
    if (one != NULL) {
        subscription_kill(plane, one);
        ingest_unwanted(&plane->js, peer->id, op->subject);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void leaf_refuse(plane_t *plane, peer_t *peer, bytes_t subject) {
    if (!peer_is_hub(peer) && !is_domain_family(subject)) {
        link_close(plane, peer, CLOSE_PERMISSION, "Permissions Violation for Publish to \"", subject, "\"");
    }
}

/* Answers and acknowledgements need nobody's leave, as in the reference; but what a link's rights deny by name, here
 * also an acknowledgement is: it may be that of somebody else's message. */
static bool may_come_in(plane_t *plane, peer_t *peer, bytes_t named) {
    /* an answer to another cluster is judged by its name there */
    bytes_t subject = LEAF_UNLIKELY(gateway_is_reply(named)) ? gateway_bare(named) : named;
    if (peer->permissions == NULL || permissions_leaf_in(peer->permissions, subject)
        || bytes_starts(subject, BYTES_LITERAL("_R_."))
        || (bytes_starts(subject, BYTES_LITERAL("$JS.ACK.")) && permissions_leaf_to(peer->permissions, subject))) {
        return true;
    }
    leaf_refuse(plane, peer, subject);
    return false;
}

/* As in the reference the link's rights speak of the subject on the wire. What they deny is denied under another name,
 * too. */
static __attribute__((noinline)) void take_in_mapped(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    text_t out;
    bytes_t subject = mapped_subject(plane, account, op->subject, &out);
    if (peer->permissions != NULL && subject.at != op->subject.at && !permissions_leaf_to(peer->permissions, subject)) {
        leaf_refuse(plane, peer, subject);
        return;
    }
    if (subject.at != op->subject.at && bytes_starts(subject, BYTES_LITERAL("$JS.API.DIRECT."))) {
        /* The leaf knows only the domain's name for it. Any of several servers may answer here. */
        op_t asked = *op;
        asked.queues[0] = BYTES_LITERAL(JS_DIRECT_GROUP);
        asked.queue_count = 1;
        link_take_in(plane, peer, account, &asked, subject);
    } else if (subject.size != 0) {
        link_take_in(plane, peer, account, op, subject);
    }
}

/* A nats-server sends a message of QoS 1 or 2 of its devices a second time, for the sessions of MQTT that it takes for
 * its own. Ours have had the first one, like everybody; both would be QoS 2 twice. */
static bool is_second_copy(const plane_t *plane, bytes_t subject) {
    return subject.at[0] == '$' && plane->mqtt.flags != 0 && bytes_starts(subject, BYTES_LITERAL("$MQTT.msgs."));
}

static void verb_message(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    uint64_t size = (uint64_t)op->header.size + op->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.link_in_msgs++; /* stats_publish adds them to the others */
    plane->stats.link_in_bytes += size;
    if (!may_come_in(plane, peer, op->subject) || LEAF_UNLIKELY(is_second_copy(plane, op->subject))) {
        return;
    }
    if (LEAF_UNLIKELY(may_be_mapped(account, op->subject))) {
        take_in_mapped(plane, peer, account, op);
    } else {
        link_take_in(plane, peer, account, op, op->subject);
    }
}

/* ---- dispatch by verb -------------------------------------------------------------------------------------------- */

static bool leaf_dispatch(plane_t *plane, peer_t *peer, const op_t *op) {
    account_t *account = peer->account;
    switch (op->kind) {
    case OP_LEAF_MSG:
    case OP_LEAF_HMSG: verb_message(plane, peer, account, op); break;
    case OP_LEAF_SUB: leaf_subscribe(plane, peer, account, op); break;
    case OP_LEAF_UNSUB: leaf_unsubscribe(plane, peer, account, op); break;
    case OP_PING: peer_pong(plane, peer); break;
    case OP_PONG: peer_ponged(plane, peer); break;
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

#define QUALITY BYTES_LITERAL("NATS/1.0\r\nNmqtt-Pub:")

/* A message of QoS 1 or 2 of a device. A nats-server withholds it from subscribers that asked for such a QoS, since
 * they are to have it out of its own stream, where it is not. So over a link it says QoS 0, which it has there. What a
 * stream delivers is that stream's, as it is. */
static bool has_quality(const message_t *message) {
    bytes_t header = message->header;
    return header.size > QUALITY.size && header.at[QUALITY.size] != '0' && bytes_starts(header, QUALITY)
           && !bytes_starts(message->reply, BYTES_LITERAL("$JS.ACK."));
}

static status_t emit_without_quality(peer_t *peer, outq_t *out, const message_t *message, bool headers) {
    status_t status = emit_leaf_message(&out->data, message, peer->link->queues, peer->queue_count, headers);
    if (status == STATUS_OK && headers) {
        uint64_t behind = (uint64_t)message->header.size + message->payload.size + 2; /* and the end of the line */
        check(out->data.size >= behind);
        out->data.at[out->data.size - behind + QUALITY.size] = '0';
    }
    return status;
}

static status_t leaf_emit(peer_t *peer, outq_t *out, const publication_t *publication, bytes_t shown) {
    message_t message = publication->message;
    text_t reply;
    if (!link_names(&message, shown, &reply)) {
        return STATUS_INVALID;
    }
    bool headers = (peer->flags & VERDICT_HEADERS) != 0;
    if (LEAF_UNLIKELY(message.header.size != 0 && has_quality(&publication->message))) {
        return emit_without_quality(peer, out, &message, headers);
    }
    if (LEAF_LIKELY(message.body == NULL)) {
        return emit_leaf_message(&out->data, &message, peer->link->queues, peer->queue_count, headers);
    }
    status_t status = outq_share_room(out, emit_leaf_line_size(&message, peer->link->queues, peer->queue_count));
    if (status == STATUS_OK) {
        status = emit_leaf_line(&out->data, &message, peer->link->queues, peer->queue_count, headers);
    }
    return status == STATUS_OK ? output_queue_body(out, &message, headers) : status;
}

const protocol_t protocol_leaf = {
    LINK_PROTOCOL,     .emit_link = leaf_emit,   .admit = COMMAND_ADMIT_LEAF, .admitted = leaf_admitted,
    .wire = WIRE_LEAF, .dispatch = leaf_dispatch};
