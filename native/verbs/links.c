/* links.c: see links.h. Not here: what the lines of each mean (leaf.c, route.c, gateway.c).
 */
#include "verbs/links.h"

#include <string.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "exchange/exchange.h"
#include "plane/gateway.h"
#include "plane/link_part.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/routed.h"
#include "plane/trace.h"
#include "text/text.h"
#include "text/tokens.h"
#include "wire/emit.h"
#include "wire/op.h"

event_entry_t *link_event(const peer_t *peer, uint32_t kind, const op_t *op) {
    event_entry_t *entry = event_new(kind, BYTES_NONE, BYTES_NONE, BYTES_NONE, op->body);
    if (entry != NULL) {
        entry->event.target = peer->id;
        entry->event.code = (uint32_t)op->kind;
    }
    return entry;
}

void link_error(plane_t *plane, peer_t *peer, const op_t *op) {
    if (plane->now.mono_ns - peer->link->errors_ns >= NS_PER_SECOND) {
        peer->link->errors_ns = plane->now.mono_ns;
        peer->link->errors_told = 0;
    }
    event_entry_t *entry = peer->link->errors_told < LEAF_ERRORS_A_SECOND ? link_event(peer, EVENT_LEAF_ERR, op) : NULL;
    if (entry == NULL) {
        peer->link->errors_untold++;
        return;
    }
    entry->event.arg = peer->link->errors_untold;
    peer->link->errors_told++;
    peer->link->errors_untold = 0;
    event_post(&plane->exchange, entry);
}

bool link_greet(plane_t *plane, peer_t *peer, const op_t *op) {
    peer->named = peer->named || op->kind == OP_CONNECT;
    if (op->kind == OP_PING) {
        peer_pong(plane, peer);
        return true;
    }
    if (op->kind == OP_PONG || op->kind == OP_OK) {
        return true;
    }
    event_entry_t *entry = link_event(peer, EVENT_LINE, op);
    if (entry == NULL) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for a login"));
        return false;
    }
    event_post(&plane->exchange, entry);
    peer_pause(plane, peer);
    return op->kind == OP_CONNECT || op->kind == OP_INFO || op->kind == OP_ERR;
}

/* Nothing comes before the CONNECT of a peer that has dialled this server, not even PING, but for a leaf's INFO. */
bool link_greets(plane_t *plane, peer_t *peer, uint8_t first) {
    const char *accepted = peer->named ? "CcIiPp" : "CcIi";
    if (first != 0 && strchr(peer->dialled ? "IiPp+-" : accepted, first) != NULL) {
        return true;
    }
    if (peer->dialled) {
        link_greet(plane, peer, &(op_t){.kind = OP_NONE});
    } else {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("Authorization Violation"));
    }
    return false;
}

void link_close(plane_t *plane, peer_t *peer, uint32_t reason, const char *before, bytes_t subject, const char *after) {
    text_t text;
    text.size = 0;
    text_add_literal(&text, before);
    text_add_shown(&text, subject);
    text_add_literal(&text, after);
    peer_doom(plane, peer, reason, text_shown(&text));
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* "<ack subject>@<stored subject>": names may hold '@', so the first one behind the 8th dot counts. */
bytes_t link_split(bytes_t reply, bytes_t *ack) {
    uint32_t dots = 0;
    const uint8_t *from = reply.at, *end = reply.at + reply.size;
    while (from != end) {
        const uint8_t *at = memchr(from, '@', (size_t)(end - from));
        if (at == NULL) {
            break;
        }
        dots += tokens_count_dots(from, at);
        if (dots >= 8) {
            *ack = bytes_of(reply.at, (uint32_t)(at - reply.at));
            return bytes_of(at + 1, (uint32_t)(end - at - 1));
        }
        from = at + 1;
    }
    return BYTES_NONE;
}

bytes_t link_answer_named(bytes_t reply, publication_t *publication) {
    bytes_t ack, named = link_stored_subject(gateway_bare(reply), &ack);
    publication->message.reply = bytes_of(reply.at, GATEWAY_PREFIX_SIZE + ack.size);
    publication->flags |= PUBLICATION_ANSWER;
    return named;
}

/* The way goes on to the server that asked, if a route leads there; else a subscription here has it. */
void link_take_in_back(plane_t *plane, peer_t *peer, account_t *account, const op_t *op) {
    bytes_t bare = gateway_bare(op->subject);
    publication_t publication = {
        .account = account,
        .message = {.subject = op->subject, .reply = op->reply, .header = op->header, .payload = op->payload},
        .origin = peer};
    if (plane->gateways == NULL || !gateway_is_own_cluster(plane, op->subject)) {
        return;
    }
    peer_t *route = peer->gateway == NULL || gateway_is_own_server(plane, op->subject)
                        ? NULL
                        : routed_towards(plane, account, op->subject);
    if (route != NULL && route->state == PEER_ADMITTED) {
        publish_over_link(plane, route, &publication);
        return;
    }
    publication.message.subject = bare;
    publication.flags = bytes_starts(bare, BYTES_LITERAL("_R_.")) ? 0 : PUBLICATION_BACK;
    link_take_reply(op->reply, &publication);
    (void)publish(plane, &publication);
}

/* A message whose header may ask for a trace. One with a destination that the link may not send to is dropped. */
void link_take_in_traced(plane_t *plane, peer_t *peer, const op_t *op, publication_t *publication) {
    trace_t *trace;
    switch (trace_begin(plane, peer, publication->account, op, &trace, &publication->message.header)) {
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

status_t link_queue_message(peer_t *peer, outq_t *out, const message_t *message, const route_names_t *names,
                            const message_t *body, bool headers) {
    if (LEAF_LIKELY(message->body == NULL)) {
        return emit_route_message(&out->data, message, names, peer->link->queues, peer->queue_count);
    }
    status_t status = outq_share_room(out, emit_route_line_size(message, names, peer->link->queues, peer->queue_count));
    if (status == STATUS_OK) {
        status = emit_route_line(&out->data, message, names, peer->link->queues, peer->queue_count);
    }
    return status == STATUS_OK ? output_queue_body(out, body, headers) : status;
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

void link_tell_reached(plane_t *plane, peer_t *peer, const account_t *account, bytes_t subject) {
    if ((account->flags & ACCOUNT_JETSTREAM) == 0 || !is_consumer_api(subject) || !pressure_room(plane, peer)) {
        return;
    }
    event_entry_t *entry = event_new(EVENT_REACHED, subject, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry != NULL) {
        entry->event.account = account->js.id;
    }
    (void)pressure_offer(plane, peer, entry);
}
