/* links.h: what leaf links, routes and gateways do alike: their lines before the login, their errors, what came over
 * one on its way to its receivers.
 */
#ifndef LEAFD_VERBS_LINKS_H
#define LEAFD_VERBS_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "exchange/exchange.h"
#include "plane/account.h"
#include "plane/remote_services.h"
#include "plane/gateway_reply.h"
#include "plane/peer.h"
#include "plane/pressure.h"
#include "plane/publication.h"
#include "plane/vouch.h"
#include "text/text.h"
#include "text/trace_request.h"
#include "verbs/lines.h"
#include "wire/emit.h"
#include "wire/op.h"

event_entry_t *link_event(const peer_t *peer, uint32_t kind, const op_t *op); /* NULL: no memory */
void link_error(plane_t *plane, peer_t *peer, const op_t *op);                /* -ERR has come */
/* The peer asks for a subject. Mirrors and sources wait for `$JS.<domain>.API.` and what covers the creation of
 * consumers: control is told. Where it has no room, they ask at their own pace. */
void link_tell_reached(plane_t *plane, peer_t *peer, const account_t *account, bytes_t subject);
bool link_greets(plane_t *plane, peer_t *peer, uint8_t first);
bool link_greet(plane_t *plane, peer_t *peer, const op_t *op);
void link_close(plane_t *plane, peer_t *peer, uint32_t reason, const char *before, bytes_t subject, const char *after);

/* The members of a protocol_t that the three have alike. */
#define LINK_PROTOCOL                                                                                                  \
    .input = lines_input, .ping = lines_ping, .refuse = emit_err, .link = true,                                        \
    .control_line_factor = LEAF_CONTROL_LINE_FACTOR, .pending_factor = LEAF_PENDING_FACTOR,                            \
    .first_ping_ns = FIRST_LEAF_PING_NS, .credit = &credit_link, .greets = link_greets, .greet = link_greet

/* ---- messages over a link ---------------------------------------------------------------------------------------- */

/* A delivery keeps its routing subject on the wire and carries the stored one, if there is one, behind the ack subject.
 * false: both together are longer than a line. */
static inline bool link_names(message_t *message, bytes_t stored, text_t *reply) {
    if (LEAF_LIKELY(stored.size == 0 || message->reply.size == 0)) {
        return true;
    }
    reply->size = 0;
    text_add(reply, message->reply);
    text_add_literal(reply, "@");
    text_add(reply, stored);
    message->reply = text_bytes(reply);
    return message->reply.size != 0;
}

/* Is it under the name of a letter between servers, and none that this server has written? message: as the other server
 * would see it. */
static inline bool link_is_forged_mail(const message_t *message, const publication_t *publication) {
    return LEAF_UNLIKELY(bytes_starts(message->subject, PUBLICATION_MAIL_SUBJECTS)
                         || bytes_starts(message->subject, PUBLICATION_CARRIED_SUBJECTS))
           && (publication->flags & PUBLICATION_MAIL) == 0;
}

/* ---- what comes over it ------------------------------------------------------------------------------------------ */

/* "<ack subject>@<stored subject>" into both; empty: the reply has only the first. */
bytes_t link_split(bytes_t reply, bytes_t *ack);
static inline bytes_t link_stored_subject(bytes_t reply, bytes_t *ack) {
    *ack = reply;
    return bytes_starts(reply, BYTES_LITERAL("$JS.ACK.")) ? link_split(reply, ack) : BYTES_NONE;
}
void link_take_in_traced(plane_t *plane, peer_t *peer, const op_t *op, publication_t *publication);
/* The name behind a reply that leads back to another cluster, as link_stored_subject(). */
bytes_t link_answer_named(bytes_t reply, publication_t *publication);
/* A message of a server whose subject is a whole name of gateway_reply.h: to whom it names. */
void link_take_in_back(plane_t *plane, peer_t *peer, account_t *account, const op_t *op);

/* RMSG and its like into a server's queue, with the groups in peer->link->queues. body: the message whose header and
 * payload are shared where they are (output.h); headers: whether they go along. */
LEAF_MUST_USE status_t link_queue_message(peer_t *peer, outq_t *out, const message_t *message,
                                          const route_names_t *names, const message_t *body, bool headers);

/* The reply that receivers here see: no way back to another cluster in front of it, no name of a delivery behind it. */
static inline void link_take_reply(bytes_t reply, publication_t *publication) {
    bytes_t named = LEAF_UNLIKELY(gateway_is_reply(reply)) ? link_answer_named(reply, publication)
                                                           : link_stored_subject(reply, &publication->message.reply);
    if (LEAF_UNLIKELY(named.size != 0)) {
        /* The peer chose it. A copy stores it, because its owner asked the peer for it, and the store looks whether it
         * is a subject. */
        publication->copied = named;
        publication->flags |= PUBLICATION_NAMED;
    }
}

/* subject: where it goes; tell: where it is said that streams keep it, NULL: nowhere. */
static inline void link_take_in_told(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject,
                                     tell_t *tell) {
    publication_t publication = {.account = account,
                                 .message = {.subject = subject, .header = op->header, .payload = op->payload},
                                 .origin = peer,
                                 .queues = op->queues,
                                 .queue_count = op->queue_count,
                                 .flags = PUBLICATION_FROM_LINK | (tell != NULL ? PUBLICATION_TELLS : 0u),
                                 .tell = tell};
    op_t bare;
    if (LEAF_UNLIKELY(op->header.size != 0) && bytes_starts(op->header, VOUCH_LINE)) {
        bare = *op;
        if (!vouch_take(plane, peer, &publication, &bare)) {
            return; /* no memory: as if it had not come */
        }
        op = &bare;
    }
    link_take_reply(op->reply, &publication);
    if (LEAF_UNLIKELY(op->header.size != 0) && tell == NULL
        && trace_request_likely(op->header, account->trace.size != 0)) {
        link_take_in_traced(plane, peer, op, &publication);
        return;
    }
    bool measured = LEAF_UNLIKELY((account->flags & ACCOUNT_SERVES) != 0) && far_is_marked(op->reply);
    if (publish(plane, &publication) != 0 && LEAF_UNLIKELY(measured)) {
        far_begin(plane, account, op->reply);
    }
}

static inline void link_take_in(plane_t *plane, peer_t *peer, account_t *account, const op_t *op, bytes_t subject) {
    link_take_in_told(plane, peer, account, op, subject, NULL);
}

#endif
