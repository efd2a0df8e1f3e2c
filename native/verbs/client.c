/* client.c: the verbs of a client, one function each. Texts: tests/wire/client.md.
 *
 * Not here: parsing (wire/), routing (plane/publish.c), verdicts on CONNECT (control).
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "plane/protocol.h"
#include "plane/gateway_reply.h"
#include "plane/mapping.h"
#include "plane/peer.h"
#include "route/permissions.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/refused.h"
#include "plane/subscription.h"
#include "plane/trace.h"
#include "route/route.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/trace_request.h"
#include "verbs/lines.h"
#include "verbs/verbs.h"
#include "wire/emit.h"
#include "wire/op.h"

/* ---- handshake --------------------------------------------------------------------------------------------------- */

_Static_assert((int)OP_CONNECT == LINE_CONNECT && (int)OP_INFO == LINE_INFO && (int)OP_ERR == LINE_ERR,
               "EVENT_LINE carries the parser's numbers");

static event_entry_t *line_entry(plane_t *plane, peer_t *peer, const op_t *op) {
    event_entry_t *entry = event_new(EVENT_LINE, BYTES_NONE, BYTES_NONE, BYTES_NONE, op->body);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return NULL;
    }
    entry->event.target = peer->id;
    entry->event.code = (uint32_t)op->kind;
    return entry;
}

static void line_event(plane_t *plane, peer_t *peer, const op_t *op) {
    event_entry_t *entry = line_entry(plane, peer, op);
    if (entry != NULL) {
        event_post(&plane->exchange, entry);
        peer_pause(plane, peer);
    }
}

static void introduce_again(plane_t *plane, peer_t *peer, const op_t *op) {
    event_entry_t *entry = line_entry(plane, peer, op);
    if (entry != NULL) {
        peer_shed(plane, peer, entry);
    }
}

/* CONNECT goes to control. Any other verb, too, but stays in the input: with no_auth_user it is run after the
 * verdict. */
static bool client_greet(plane_t *plane, peer_t *peer, const op_t *op) {
    if (op->kind == OP_CONNECT && peer->greeted && plane->admit_known != NULL
        && plane->admit_known(plane, peer, op->body, op->body)) {
        return true;
    }
    line_event(plane, peer, op);
    return op->kind == OP_CONNECT;
}

static bool client_greets(plane_t *plane, peer_t *peer, uint8_t first) {
    if (first == 'C' || first == 'c') {
        return true;
    }
    /* Control refuses it, or, where nobody has to log in, admits it; then the line is read under the rules of a
     * client. */
    client_greet(plane, peer, &(op_t){.kind = OP_NONE});
    return false;
}

static void client_ok(plane_t *plane, peer_t *peer) {
    if ((peer->flags & VERDICT_VERBOSE) != 0) {
        peer_send(plane, peer, emit_ok);
    }
}

/* ---- publish ----------------------------------------------------------------------------------------------------- */

static void client_violation(plane_t *plane, peer_t *peer, uint32_t code, const char *what, bytes_t subject) {
    peer_refused(plane, peer, &(violation_t){.code = code, .subject = subject});
    text_t text;
    text.size = 0;
    text_add_literal(&text, "Permissions Violation for ");
    text_add_literal(&text, what);
    text_add_literal(&text, " \"");
    text_add_shown(&text, subject);
    text_add_literal(&text, "\"");
    peer_error(plane, peer, text_shown(&text));
}

static bool reserved_reply(bytes_t reply) {
    if (reply.at[0] == '_') {
        return bytes_starts(reply, BYTES_LITERAL("_R_.")) || bytes_starts(reply, BYTES_LITERAL("_GR_."));
    }
    return bytes_starts(reply, BYTES_LITERAL("$JS.ACK.")) || bytes_starts(reply, BYTES_LITERAL("$GR."));
}

static bool reserved_subject(bytes_t subject) {
    return bytes_starts(subject, BYTES_LITERAL("_GR_.")) || bytes_starts(subject, BYTES_LITERAL("$NRG."))
           || bytes_starts(subject, BYTES_LITERAL("$GR."));
}

static bool may_publish(plane_t *plane, peer_t *peer, const op_t *op, bytes_t subject) {
    bool special = subject.at[0] == '_' || subject.at[0] == '$';
    if (LEAF_UNLIKELY(special) && reserved_subject(subject)) {
        client_violation(plane, peer, REFUSED_PUBLISH, "Publish to", subject);
        return false;
    }
    if (LEAF_UNLIKELY(peer->permissions != NULL)
        && !permissions_publish(peer->permissions, subject, plane->now.mono_ns)) {
        client_violation(plane, peer, REFUSED_PUBLISH, "Publish to", subject);
        return false;
    }
    if (op->reply.size != 0 && (op->reply.at[0] == '_' || op->reply.at[0] == '$') && reserved_reply(op->reply)) {
        client_violation(plane, peer, REFUSED_REPLY, "Publish with Reply of", op->reply);
        return false;
    }
    return true;
}

/* Says 503 (no responders) to the asker, if a plain subscription of its own would get the reply. */
static void no_responders(plane_t *plane, peer_t *peer, account_t *account, bytes_t subject, bytes_t reply) {
    const route_match_t *match = route_match(account->route, reply);
    subscription_t *one = NULL;
    for (uint32_t i = 0; i < match->plain_count && one == NULL; i++) {
        if (match->plain[i]->kind == TARGET_CLIENT && ((subscription_t *)match->plain[i]->owner)->peer == peer) {
            one = match->plain[i]->owner;
        }
    }
    if (one == NULL || (one->flags & SUBSCRIPTION_DEAD) != 0) {
        return;
    }
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0 503\r\nNats-Subject: ");
    text_add(&header, subject);
    text_add_literal(&header, "\r\n\r\n");
    if (text_is_over(&header)) {
        return; /* a subject too long to name: silence rather than a message that looks like an answer */
    }
    message_t message = {.subject = reply, .header = text_bytes(&header)};
    status_t status = emit_client_message(&peer->conn.out.data, &message, bytes_of(one->sid, one->sid_size), true);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
        return;
    }
    peer_emitted(plane, peer);
    if (one->max != 0 && ++one->delivered >= one->max) {
        subscription_kill(plane, one);
    }
}

static void unanswered(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject,
                       uint32_t taken) {
    if (taken == 0 && op->reply.size != 0 && (peer->flags & VERDICT_NO_RESPONDERS) != 0
        && (peer->flags & VERDICT_HEADERS) != 0) {
        no_responders(plane, peer, account, subject, op->reply);
    }
}

/* A message whose header may ask for a trace. */
static __attribute__((noinline)) void publish_with_trace(plane_t *plane, peer_t *peer, account_t *account,
                                                         const op_t *op, bytes_t subject) {
    publication_t publication = {
        .account = account,
        .message = {.subject = subject, .reply = op->reply, .header = op->header, .payload = op->payload},
        .origin = peer};
    uint32_t taken = 0;
    trace_t *trace;
    switch (trace_begin(plane, peer, account, op, &trace, &publication.message.header)) {
    case TRACE_DENIED: client_violation(plane, peer, REFUSED_PUBLISH, "Publish to", trace->destination); return;
    case TRACE_SKIP: return;
    case TRACE_ON:
        publication.trace = trace;
        if (!bytes_equal(op->subject, subject)) {
            trace_mapped(plane, trace, subject);
        }
        taken = publish_traced(plane, &publication);
        trace_end(plane, trace);
        break;
    case TRACE_NONE:
    case TRACE_MUTED:
    default: taken = publish(plane, &publication);
    }
    unanswered(plane, peer, account, op, subject, taken);
}

/* Tells the trace of a message that may not go to its subject. */
static __attribute__((noinline)) void trace_not_published(plane_t *plane, peer_t *peer, account_t *account,
                                                          const op_t *op, bytes_t subject) {
    trace_t *trace;
    bytes_t header;
    if (trace_begin(plane, peer, account, op, &trace, &header) != TRACE_ON) {
        return;
    }
    text_t why = {0};
    text_add_literal(&why, "Permissions Violation for Publish to \"");
    text_add_shown(&why, subject);
    text_add_literal(&why, "\"");
    trace_refused(plane, trace, text_shown(&why));
    trace_end(plane, trace);
}

static inline bool may_be_traced(const account_t *account, const op_t *op) {
    return LEAF_UNLIKELY(op->header.size != 0) && trace_request_likely(op->header, account->trace.size != 0);
}

/* subject: the one that the account's mappings and the domain's name make of the client's; permissions judge it. */
static inline void publish_to(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject) {
    if (!may_publish(plane, peer, op, subject)) {
        if (may_be_traced(account, op)) {
            trace_not_published(plane, peer, account, op, subject);
        }
        return;
    }
    client_ok(plane, peer);
    if (LEAF_UNLIKELY(may_be_traced(account, op))) {
        publish_with_trace(plane, peer, account, op, subject);
        return;
    }
    publication_t publication = {
        .account = account,
        .message = {.subject = subject, .reply = op->reply, .header = op->header, .payload = op->payload},
        .origin = peer};
    unanswered(plane, peer, account, op, subject, publish(plane, &publication));
}

/* Sends a reply back to the cluster that has asked. The client's permissions judge the reply as the client knows it. */
static void publish_back(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject,
                         bytes_t whole) {
    if (!may_publish(plane, peer, op, subject)) {
        return;
    }
    client_ok(plane, peer);
    const publication_t publication = {
        .account = account,
        .message = {.subject = whole, .reply = op->reply, .header = op->header, .payload = op->payload},
        .origin = peer};
    (void)publish_answer(plane, &publication);
}

static __attribute__((noinline)) void publish_mapped(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    text_t out;
    bytes_t subject = mapped_subject(plane, account, op->subject, &out);
    bytes_t whole = gateway_reply_whole(plane, account, subject);
    if (LEAF_UNLIKELY(whole.size != 0)) {
        publish_back(plane, peer, account, op, subject, whole);
        return;
    }
    if (subject.size != 0) {
        publish_to(plane, peer, account, op, subject);
        return;
    }
    client_ok(plane, peer);
    if (op->reply.size != 0 && (peer->flags & VERDICT_NO_RESPONDERS) != 0 && (peer->flags & VERDICT_HEADERS) != 0) {
        no_responders(plane, peer, account, subject, op->reply);
    }
}

static void verb_publish(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    uint64_t size = (uint64_t)op->header.size + op->payload.size;
    peer->in_msgs++;
    peer->in_bytes += size;
    plane->stats.in_msgs++;
    plane->stats.in_bytes += size;
    if (LEAF_UNLIKELY((peer->flags & VERDICT_PEDANTIC) != 0) && !subject_valid_literal(op->subject)) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Publish Subject"));
    }
    if (LEAF_UNLIKELY(may_be_mapped(account, op->subject))) {
        publish_mapped(plane, peer, account, op);
    } else {
        publish_to(plane, peer, account, op, op->subject);
    }
}

/* ---- subscribe --------------------------------------------------------------------------------------------------- */

static void subscribe_violation(plane_t *plane, peer_t *peer, const op_t *op) {
    bytes_t subject = op->subject;
    bytes_t queue = op->queue;
    peer_refused(plane, peer,
                 &(violation_t){.code = REFUSED_SUBSCRIBE, .subject = subject, .queue = queue, .sid = op->sid});
    text_t text;
    text.size = 0;
    text_add_literal(&text, "Permissions Violation for Subscription to \"");
    text_add_shown(&text, subject);
    text_add_literal(&text, "\"");
    if (queue.size != 0) {
        text_add_literal(&text, " using queue \"");
        text_add_shown(&text, queue);
        text_add_literal(&text, "\"");
    }
    peer_error(plane, peer, text_shown(&text));
}

static void too_many_subscriptions(plane_t *plane, peer_t *peer) {
    peer_refused(plane, peer, &(violation_t){.code = REFUSED_SUBSCRIPTIONS});
    peer_error(plane, peer, BYTES_LITERAL("maximum subscriptions exceeded"));
}

static void client_subscribe(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    bool filtered = false;
    if (peer->permissions != NULL && !permissions_subscribe(peer->permissions, op->subject, op->queue, &filtered)) {
        subscribe_violation(plane, peer, op);
        return;
    }
    if (peer->max_subscriptions != 0 && map_count(peer->table) - peer->dead_count >= peer->max_subscriptions) {
        too_many_subscriptions(plane, peer);
        return;
    }
    if (!subject_valid_pattern(op->subject)) {
        peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
        return;
    }
    if (subscription_find_sid(peer->table, op->sid) == NULL) {
        subscription_t *one;
        status_t status = subscription_add(plane, account, &peer->table, TARGET_CLIENT, peer, op->subject, op->queue,
                                           op->sid, 1, filtered ? SUBSCRIPTION_FILTERED : 0, &one);
        if (status == STATUS_NO_MEMORY) {
            peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a subscription"));
            return;
        }
        if (status == STATUS_FULL) {
            too_many_subscriptions(plane, peer);
            return;
        }
        if (status != STATUS_OK) {
            peer_error(plane, peer, BYTES_LITERAL("Invalid Subject"));
            return;
        }
    }
    client_ok(plane, peer);
}

static void client_unsubscribe(plane_t *plane, peer_t *peer, const op_t *op) {
    peer->drains = true;
    subscription_t *one = subscription_find_sid(peer->table, op->sid);
    if (one != NULL) {
        one->max = op->max;
        if (op->max == 0 || one->delivered >= op->max) {
            subscription_kill(plane, one);
        }
    }
    client_ok(plane, peer);
}

/* ---- dispatch by verb -------------------------------------------------------------------------------------------- */

static bool client_dispatch(plane_t *plane, peer_t *peer, const op_t *op) {
    account_t *account = peer->account;
    switch (op->kind) {
    case OP_PUB:
    case OP_HPUB: verb_publish(plane, peer, account, op); break;
    case OP_SUB: client_subscribe(plane, peer, account, op); break;
    case OP_UNSUB: client_unsubscribe(plane, peer, op); break;
    case OP_PING: peer_pong(plane, peer); break;
    case OP_PONG: peer_ponged(plane, peer); break;
    case OP_CONNECT:
        /* A second CONNECT is legal: the subscriptions end, and control decides anew. */
        introduce_again(plane, peer, op);
        break;
    case OP_ERR: peer_doom_silently(plane, peer, CLOSE_CLIENT, op->body); return false;
    case OP_OK:
    case OP_INFO: break;
    /* A verb of another protocol, of which wire/parse.c makes none for a client. */
    default: peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Unknown Protocol Operation")); return false;
    }
    return true;
}

/* ---- the protocol ------------------------------------------------------------------------------------------------ */

static status_t client_admitted(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    if ((verdict->flags & VERDICT_VERBOSE) != 0 && (verdict->flags & VERDICT_IMPLICIT) == 0) {
        peer_send(plane, peer, emit_ok);
    }
    return STATUS_OK;
}

static __attribute__((noinline)) status_t emit_shared(const peer_t *peer, outq_t *out, const subscription_t *one,
                                                      const message_t *message) {
    bytes_t sid = bytes_of(one->sid, one->sid_size);
    bool headers = (peer->flags & VERDICT_HEADERS) != 0;
    status_t status = outq_share_room(out, emit_client_line_size(message, sid));
    if (status == STATUS_OK) {
        status = emit_client_line(&out->data, message, sid, headers);
    }
    return status == STATUS_OK ? output_queue_body(out, message, headers) : status;
}

static status_t client_emit(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message) {
    if (LEAF_UNLIKELY(message->body != NULL)) {
        return emit_shared(peer, out, one, message);
    }
    return emit_client_message(&out->data, message, bytes_of(one->sid, one->sid_size),
                               (peer->flags & VERDICT_HEADERS) != 0);
}

const protocol_t protocol_client = {.input = lines_input,
                                    .emit = client_emit,
                                    .ping = lines_ping,
                                    .refuse = emit_err,
                                    .link = false,
                                    .control_line_factor = 1,
                                    .pending_factor = 1,
                                    .first_ping_ns = FIRST_PING_NS,
                                    .credit = &credit_client,
                                    .admit = COMMAND_ADMIT,
                                    .admitted = client_admitted,
                                    .wire = WIRE_CLIENT,
                                    .greets = client_greets,
                                    .greet = client_greet,
                                    .dispatch = client_dispatch};
