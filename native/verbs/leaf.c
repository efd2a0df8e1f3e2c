/* leaf.c: the verbs of a leaf link, one function each. Reference: tests/wire/leaf.md.
 *
 * Until ADMIT_LEAF every line goes to control and reading waits. What does not live here: the handshake (control,
 * links/), what we tell the peer (plane/interest.c), what we send it (plane/publish.c).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "plane/protocol.h"
#include "plane/far.h"
#include "plane/import.h"
#include "plane/interest.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "plane/trace.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/trace_request.h"
#include "verbs/lines.h"
#include "verbs/verbs.h"
#include "wire/op.h"

static event_entry_t *leaf_event(const peer_t *peer, uint32_t kind, const op_t *op) {
    event_entry_t *entry = event_new(kind, BYTES_NONE, BYTES_NONE, BYTES_NONE, op->body);
    if (entry != NULL) {
        entry->event.target = peer->id;
        entry->event.code = (uint32_t)op->kind;
    }
    return entry;
}

static void verb_error(plane_t *plane, peer_t *peer, const op_t *op) {
    if (plane->now.mono_ns - peer->errors_ns >= NS_PER_SECOND) {
        peer->errors_ns = plane->now.mono_ns;
        peer->errors_told = 0;
    }
    event_entry_t *entry = peer->errors_told < LEAF_ERRORS_A_SECOND ? leaf_event(peer, EVENT_LEAF_ERR, op) : NULL;
    if (entry == NULL) {
        peer->errors_untold++;
        return;
    }
    entry->event.arg = peer->errors_untold;
    peer->errors_told++;
    peer->errors_untold = 0;
    event_post(&plane->exchange, entry);
}

static bool leaf_greet(plane_t *plane, peer_t *peer, const op_t *op) {
    if (op->kind == OP_PING) {
        peer_pong(plane, peer);
        return true;
    }
    if (op->kind == OP_PONG || op->kind == OP_OK) {
        return true;
    }
    event_entry_t *entry = leaf_event(peer, EVENT_LINE, op);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return false;
    }
    event_post(&plane->exchange, entry);
    peer_pause(plane, peer);
    return op->kind == OP_CONNECT || op->kind == OP_INFO || op->kind == OP_ERR;
}

static bool leaf_greets(plane_t *plane, peer_t *peer, uint8_t first) {
    if (first != 0 && strchr(peer->dialled ? "IiPp+-" : "CcIiPp", first) != NULL) {
        return true;
    }
    if (peer->dialled) {
        leaf_greet(plane, peer, &(op_t){.kind = OP_NONE});
    } else {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("Authorization Violation"));
    }
    return false;
}

/* Its account is known: it is told of interest from here on. */
static status_t leaf_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    (void)verdict;
    plane->stats.leafs++;
    plane->interest_changed = true;
    return interest_leaf_joined(plane, peer);
}

/* ---- interest ---------------------------------------------------------------------------------------------------- */

static void close_for(plane_t *plane, peer_t *peer, uint32_t reason, const char *before, bytes_t subject,
                      const char *after) {
    text_t text;
    text.size = 0;
    text_add_literal(&text, before);
    text_add_shown(&text, subject);
    text_add_literal(&text, after);
    peer_doom(plane, peer, reason, text_shown(&text));
}

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
        close_for(plane, peer, CLOSE_PERMISSION, "Permissions Violation for Subscription to \"", subject, "\"");
    }
    return false;
}

/* Who somebody is, only the server that he is connected to can tell: another one's answer could come first. */
static bool is_for_own_server(bytes_t subject) {
    return bytes_equal(subject, BYTES_LITERAL("$SYS.REQ.USER.INFO"));
}

/* `$JS.<domain>.API.` and what covers the creation of consumers. */
static bool is_consumer_api(bytes_t subject) {
    if (!bytes_starts(subject, BYTES_LITERAL("$JS."))) {
        return false;
    }
    bytes_t rest = bytes_of(subject.at + 4, subject.size - 4);
    const uint8_t *dot = memchr(rest.at, '.', rest.size);
    if (dot == NULL) {
        return false;
    }
    rest = bytes_of(dot, rest.size - (uint32_t)(dot - rest.at));
    return bytes_starts(rest, BYTES_LITERAL(".API.CONSUMER.")) || bytes_starts(rest, BYTES_LITERAL(".API.>"))
           || bytes_starts(rest, BYTES_LITERAL(".API.*."));
}

/* Mirrors and sources wait for it. Where control has no room, they ask at their own pace. */
static void tell_reached(plane_t *plane, peer_t *peer, const account_t *account, bytes_t subject) {
    if ((account->flags & ACCOUNT_JETSTREAM) == 0 || !is_consumer_api(subject) || !pressure_room(plane, peer)) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_REACHED, subject, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry != NULL) {
        entry->event.account = account->js.id;
    }
    (void)pressure_offer(plane, peer, entry);
}

static void leaf_subscribe(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    if (peer->lds.size != 0 && bytes_equal(op->subject, peer->lds)) {
        close_for(plane, peer, CLOSE_LOOP, "Loop detected for leafnode account=\"", account->name,
                  "\". Delaying attempt to reconnect for 30s");
        return;
    }
    if (is_for_own_server(op->subject) || !may_be_asked(plane, peer, op->subject)) {
        return;
    }
    uint32_t weight = op->queue.size == 0 || op->weight == 0 ? 1 : op->weight;
    subscription_t *one = subscription_find_subject(peer->table, op->subject, op->queue);
    if (one != NULL) {
        uint32_t before = one->target.weight;
        one->target.weight = weight;
        interest_change(plane, account, op->subject, op->queue, peer, before, weight);
        shadows_weigh(plane, one);
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
        tell_reached(plane, peer, account, op->subject);
    }
    if (status == STATUS_NO_MEMORY) {
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a subscription"));
    } else if (status == STATUS_FULL) {
        peer_error(plane, peer, BYTES_LITERAL("maximum subscriptions exceeded"));
    } else if (status != STATUS_OK) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
    }
}

static void leaf_unsubscribe(plane_t *plane, peer_t *peer, const op_t *op) {
    subscription_t *one = subscription_find_subject(peer->table, op->subject, op->queue);
    if (one != NULL) {
        subscription_kill(plane, one);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void leaf_refuse(plane_t *plane, peer_t *peer, bytes_t subject) {
    if (!peer_is_hub(peer) && !is_domain_family(subject)) {
        close_for(plane, peer, CLOSE_PERMISSION, "Permissions Violation for Publish to \"", subject, "\"");
    }
}

/* Answers and acknowledgements need nobody's leave, as in the reference; but what a link's rights deny by name, here
 * also an acknowledgement is: it may be that of somebody else's message. */
static bool may_come_in(plane_t *plane, peer_t *peer, bytes_t subject) {
    if (peer->permissions == NULL || permissions_leaf_in(peer->permissions, subject)
        || bytes_starts(subject, BYTES_LITERAL("_R_."))
        || (bytes_starts(subject, BYTES_LITERAL("$JS.ACK.")) && permissions_leaf_to(peer->permissions, subject))) {
        return true;
    }
    leaf_refuse(plane, peer, subject);
    return false;
}

/* "<ack subject>@<stored subject>": names may hold '@', so the first one behind the 8th dot counts. */
static bytes_t split_stored_subject(bytes_t reply, bytes_t *ack) {
    *ack = reply;
    if (!bytes_starts(reply, BYTES_LITERAL("$JS.ACK."))) {
        return BYTES_NONE;
    }
    uint32_t dots = 0;
    for (uint32_t i = 0; i < reply.size; i++) {
        dots += reply.at[i] == '.';
        if (dots >= 8 && reply.at[i] == '@') {
            *ack = bytes_of(reply.at, i);
            return bytes_of(reply.at + i + 1, reply.size - i - 1);
        }
    }
    return BYTES_NONE;
}

/* The peer chose this name. A copy stores it, because its owner asked the peer for it, and the store looks whether it
 * is a subject. */
static __attribute__((noinline)) void name_delivery(plane_t *plane, const peer_t *peer, bytes_t named,
                                                    publication_t *publication) {
    publication->copied = named;
    publication->shown = judge_shown(plane, peer, named);
}

/* A message whose header may ask for a trace. One with a destination that the link may not send to is dropped. */
static __attribute__((noinline)) void take_in_traced(plane_t *plane, peer_t *peer, const op_t *op,
                                                     publication_t *publication) {
    trace_t *trace;
    switch (trace_begin(plane, peer, op, &trace, &publication->message.header)) {
    case TRACE_DENIED:
    case TRACE_SKIP: return;
    case TRACE_ON:
        publication->trace = trace;
        if (!bytes_equal(op->subject, publication->message.subject)) {
            trace_mapped(plane, trace, publication->message.subject);
        }
        (void)publish_traced(plane, publication);
        trace_end(plane, trace);
        return;
    case TRACE_NONE:
    case TRACE_MUTED:
    default: (void)publish(plane, publication);
    }
}

/* subject: where it goes. */
static inline void leaf_take_in(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject) {
    publication_t publication = {.account = account,
                                 .message = {.subject = subject, .header = op->header, .payload = op->payload},
                                 .origin = peer,
                                 .queues = op->queues,
                                 .queue_count = op->queue_count,
                                 .flags = PUBLICATION_FROM_LEAF};
    bytes_t named = split_stored_subject(op->reply, &publication.message.reply);
    if (LEAF_UNLIKELY(named.size != 0)) {
        name_delivery(plane, peer, named, &publication);
    }
    if (LEAF_UNLIKELY(op->header.size != 0) && trace_request_likely(op->header, account->trace.size != 0)) {
        take_in_traced(plane, peer, op, &publication);
        return;
    }
    bool measured = LEAF_UNLIKELY((account->flags & ACCOUNT_SERVES) != 0) && far_is_marked(op->reply);
    if (publish(plane, &publication) != 0 && LEAF_UNLIKELY(measured)) {
        far_begin(plane, account, op->reply);
    }
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
    if (subject.size != 0) {
        leaf_take_in(plane, peer, account, op, subject);
    }
}

static void verb_message(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    uint64_t size = (uint64_t)op->header.size + op->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.link_in_msgs++; /* stats_publish adds them to the others */
    plane->stats.link_in_bytes += size;
    if (!may_come_in(plane, peer, op->subject)) {
        return;
    }
    if (LEAF_UNLIKELY(may_be_mapped(account, op->subject))) {
        take_in_mapped(plane, peer, account, op);
    } else {
        leaf_take_in(plane, peer, account, op, op->subject);
    }
}

/* ---- the switch -------------------------------------------------------------------------------------------------- */

static bool leaf_dispatch(plane_t *plane, peer_t *peer, const op_t *op) {
    account_t *account = peer->account;
    switch (op->kind) {
    case OP_LEAF_MSG:
    case OP_LEAF_HMSG: verb_message(plane, peer, account, op); break;
    case OP_LEAF_SUB: leaf_subscribe(plane, peer, account, op); break;
    case OP_LEAF_UNSUB: leaf_unsubscribe(plane, peer, op); break;
    case OP_PING: peer_pong(plane, peer); break;
    case OP_PONG: peer_ponged(plane, peer); break;
    case OP_ERR: verb_error(plane, peer, op); break;
    case OP_INFO: (void)pressure_offer(plane, peer, leaf_event(peer, EVENT_LEAF_INFO, op)); break;
    case OP_OK:
    case OP_CONNECT: break;
    case OP_NONE:
    case OP_PUB:
    case OP_HPUB:
    case OP_SUB:
    case OP_UNSUB:
    case OP_KIND_COUNT:
    default: peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Unknown Protocol Operation")); return false;
    }
    return true;
}

/* ---- the protocol ------------------------------------------------------------------------------------------------ */

static status_t leaf_emit(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *routed,
                          bytes_t shown) {
    (void)one;
    message_t message = *routed;
    text_t reply;
    /* A delivery keeps its routing subject on the wire and carries the stored one behind the ack subject. */
    if (shown.size != 0 && message.reply.size != 0) {
        reply.size = 0;
        text_add(&reply, message.reply);
        text_add_literal(&reply, "@");
        text_add(&reply, shown);
        message.reply = text_bytes(&reply);
        if (message.reply.size == 0) {
            return STATUS_INVALID; /* both subjects together are longer than a line */
        }
    }
    bool headers = (peer->flags & VERDICT_HEADERS) != 0;
    if (LEAF_LIKELY(message.body == NULL)) {
        return emit_leaf_message(&out->data, &message, peer->queues, peer->queue_count, headers);
    }
    status_t status = outq_share_room(out, emit_leaf_line_size(&message, peer->queues, peer->queue_count));
    if (status == STATUS_OK) {
        status = emit_leaf_line(&out->data, &message, peer->queues, peer->queue_count, headers);
    }
    return status == STATUS_OK ? output_queue_body(out, &message, headers) : status;
}

const protocol_t protocol_leaf = {.input = lines_input,
                                  .emit = leaf_emit,
                                  .ping = lines_ping,
                                  .refuse = emit_err,
                                  .link = true,
                                  .control_line_factor = LEAF_CONTROL_LINE_FACTOR,
                                  .pending_factor = LEAF_PENDING_FACTOR,
                                  .first_ping_ns = FIRST_LEAF_PING_NS,
                                  .credit = &credit_link,
                                  .admit = COMMAND_ADMIT_LEAF,
                                  .admitted = leaf_admitted,
                                  .wire = WIRE_LEAF,
                                  .greets = leaf_greets,
                                  .greet = leaf_greet,
                                  .dispatch = leaf_dispatch};
