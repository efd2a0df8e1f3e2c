/* emit.h: messages to bytes. Each function appends one whole frame to a buffer or leaves it as it was (STATUS_FULL).
 * A frame's size can be asked first (the *_size functions bound it), so queues can refuse before they copy. */
#ifndef LEAFD_WIRE_EMIT_H
#define LEAFD_WIRE_EMIT_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/shared.h"
#include "base/status.h"

typedef struct message {
    bytes_t subject;
    bytes_t reply;  /* may be empty */
    bytes_t header; /* whole block, may be empty */
    bytes_t payload;
    shared_t *body; /* has header and payload once more, in one piece that queues may share; NULL: they are copied */
    uint32_t body_from; /* where in it */
} message_t;

/* Member by member, and so at once, though the message has just been written: what the compiler makes of an assignment
 * reads each text's place and size in one piece, and waits until the two have reached the cache. */
static inline void message_copy(message_t *to, const message_t *from) {
    to->subject = bytes_of(from->subject.at, from->subject.size);
    to->reply = bytes_of(from->reply.at, from->reply.size);
    to->header = bytes_of(from->header.at, from->header.size);
    to->payload = bytes_of(from->payload.at, from->payload.size);
    to->body = from->body;
    to->body_from = from->body_from;
}

/* MSG or HMSG for a client subscription. A receiver without header support gets MSG without the header bytes. */
LEAF_MUST_USE status_t emit_client_message(buffer_t *out, const message_t *message, bytes_t sid, bool headers);
/* LMSG or HMSG for a leaf link; queues: groups of which the receiver must serve one member each. */
LEAF_MUST_USE status_t emit_leaf_message(buffer_t *out, const message_t *message, const bytes_t *queues,
                                         uint32_t queue_count, bool headers);
/* The first line of these frames alone, where the body (header and payload, then emit_body_end) gets into the queue in
 * another way; and what it needs at most, the CRLF behind the body included. */
uint64_t emit_client_line_size(const message_t *message, bytes_t sid);
LEAF_MUST_USE status_t emit_client_line(buffer_t *out, const message_t *message, bytes_t sid, bool headers);
uint64_t emit_leaf_line_size(const message_t *message, const bytes_t *queues, uint32_t queue_count);
LEAF_MUST_USE status_t emit_leaf_line(buffer_t *out, const message_t *message, const bytes_t *queues,
                                      uint32_t queue_count, bool headers);
LEAF_MUST_USE status_t emit_leaf_sub(buffer_t *out, bytes_t subject, bytes_t queue, uint32_t weight);
LEAF_MUST_USE status_t emit_leaf_unsub(buffer_t *out, bytes_t subject, bytes_t queue);

/* ---- routes ------------------------------------------------------------------------------------------------------ */

/* The words of a route's line before its subject. */
typedef struct route_names {
    bytes_t origin;  /* the cluster of leafs that the line speaks for; empty: of none */
    bytes_t account; /* empty: the connection is of one account alone */
} route_names_t;

/* RMSG, HMSG or, with an origin, LMSG; the line alone, and what it needs at most, as for leafs. */
LEAF_MUST_USE status_t emit_route_message(buffer_t *out, const message_t *message, const route_names_t *names,
                                          const bytes_t *queues, uint32_t queue_count);
uint64_t emit_route_line_size(const message_t *message, const route_names_t *names, const bytes_t *queues,
                              uint32_t queue_count);
LEAF_MUST_USE status_t emit_route_line(buffer_t *out, const message_t *message, const route_names_t *names,
                                       const bytes_t *queues, uint32_t queue_count);
/* RS+ and RS-, or LS+ and LS-; origin: whether LS- names it. */
LEAF_MUST_USE status_t emit_route_sub(buffer_t *out, const route_names_t *names, bytes_t subject, bytes_t queue,
                                      uint32_t weight);
LEAF_MUST_USE status_t emit_route_unsub(buffer_t *out, const route_names_t *names, bool origin, bytes_t subject,
                                        bytes_t queue);

LEAF_MUST_USE status_t emit_err(buffer_t *out, bytes_t text); /* -ERR 'text' */
/* Constant frames: BYTES_LITERAL("PING\r\n") and so on. */
extern const bytes_t emit_ping, emit_pong, emit_ok, emit_body_end;

#endif
