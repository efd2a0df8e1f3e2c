/* protocol.h: what the bytes of a connection mean, and how a message is put on the wire for it.
 *
 *     protocol_client   verbs/client.c      protocol_leaf   verbs/leaf.c      protocol_http   plane/web.c
 *     protocol_route    verbs/route.c       protocol_gateway   verbs/gateway.c      protocol_mqtt   verbs/mqtt.c
 *
 * What does not depend on the protocol (states, queues, limits, deadlines, the end) stays in peer.c; what carries the
 * bytes is the transport (net/transport.h).
 *
 * The account belongs to the operation, not to the peer: the functions behind dispatch take it as an argument, what
 * they make carries it (publication_t, subscription_t), and a table of subscriptions tells accounts apart. A client and
 * a leaf link have one account, that of the login, and pass peer->account. A route has none (peer->account is NULL):
 * each of its lines names one.
 */
#ifndef LEAFD_PLANE_PROTOCOL_H
#define LEAFD_PLANE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "net/outq.h"
#include "plane/pressure.h"
#include "plane/subscription.h"
#include "wire/emit.h"
#include "wire/op.h"
#include "wire/parse.h"

typedef struct peer peer_t;
typedef struct publication publication_t;

typedef struct protocol {
    /* Acts on as much of input as it can, in any state of the peer; returns how much it used. */
    uint32_t (*input)(plane_t *plane, peer_t *peer, bytes_t input);
    /* A whole message for one of the peer's subscriptions, into out, its queue. */
    status_t (*emit)(peer_t *peer, outq_t *out, const subscription_t *one, const message_t *message);
    /* Links get it once for all their subscriptions, with the groups in its link part; out: the peer's queue or a lane
     * before it. shown: what the message's subject is to be for its last receiver, empty = the same. STATUS_INVALID: it
     * cannot be said in this protocol, and nothing was queued. */
    status_t (*emit_link)(peer_t *peer, outq_t *out, const publication_t *publication, bytes_t shown);
    status_t (*ping)(buffer_t *out);
    status_t (*refuse)(buffer_t *out, bytes_t text); /* why it is refused, or closed */

    /* Another server is behind it: it is told of interest, gets each message once with the groups that it is for, and
     * may send headers without asking. Otherwise it is one of the account's clients, and counted so. */
    bool link;
    uint32_t control_line_factor; /* of max_control_line, after the login */
    uint32_t pending_factor;      /* of max_pending: many may wait behind it */
    int64_t first_ping_ns;        /* after the login */
    const credit_t *credit;       /* what its peers may ask of control */
    uint32_t admit;               /* COMMAND_* that lets its peers in */
    /* Whose account an operation is of: NULL where it is always that of the login, peer->account. */
    account_t *(*account)(plane_t *plane, peer_t *peer, const op_t *op);
    /* The verdict as control gave it (an ADMIT's body and strings), before it is admitted and when its rights have
     * changed; NULL: nobody asks. */
    void (*judged)(plane_t *plane, peer_t *peer, bytes_t body, bytes_t strings);
    /* The login is done: what comes first. STATUS_NO_MEMORY: it cannot stay. */
    status_t (*admitted)(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict);

    uint32_t greeting_max; /* bytes of the first operation; 0: of a line, as the limits say */
    /* The rest may be NULL. What is said before it is closed, in place of refuse. */
    void (*farewell)(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
    /* In place of pings: it is time to see whether it lives, and to say when next (peer->next_ping_ns). */
    void (*beat)(plane_t *plane, peer_t *peer);
    /* Tells, for a subscription with SUBSCRIPTION_ASKS, before emit: does it get the message? */
    bool (*takes)(plane_t *plane, subscription_t *one, const publication_t *publication, const message_t *shown);
    /* Its queue has the room that peer->refills waits for. What comes is for the next turn. */
    void (*drained)(plane_t *plane, peer_t *peer);
    void (*left)(plane_t *plane, peer_t *peer); /* it goes, and its subscriptions have gone */
    /* The bytes that wait for it beside its queue, counted in the share of output: the buffer, whose memory may be
     * taken when it has been closed for being slow. */
    buffer_t *(*waiting)(const peer_t *peer);

    /* The wire's kind, where input is lines_input. */
    wire_kind_t wire;
    /* Can a line that begins so be one before the login? Decided by its first byte: nobody unknown makes us wait for a
     * payload. false: the peer waits for a verdict or is doomed. */
    bool (*greets)(plane_t *plane, peer_t *peer, uint8_t first);
    /* Before the login. false: the op was not consumed (it waits for a verdict) or the peer is doomed. */
    bool (*greet)(plane_t *plane, peer_t *peer, const op_t *op);
    /* After it. false: the peer is doomed. */
    bool (*dispatch)(plane_t *plane, peer_t *peer, const op_t *op);
} protocol_t;

extern const protocol_t protocol_http; /* web.c: what comes before WebSocket */

/* NULL: of none that is known. */
account_t *operation_account(plane_t *plane, peer_t *peer, const op_t *op);

#endif
