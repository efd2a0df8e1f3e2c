/* output.c: see output.h.
 *
 *     touched --> its socket took not all of what it had: nothing, until the loop says that it takes more
 *             --> little waits: written at once; those first who have no more than OUTPUT_FEW, so that an answer to one
 *                 does not wait for what goes to a thousand
 *             --> much waits:   first | ... | last     OUTPUT_PIECE of the first, OUTPUT_TURN of all in one turn
 *
 * A message to many may be hundreds of megabytes of writes. So a peer with much waiting takes turns with others like
 * it, and a turn of the loop writes a bounded number of bytes for them; one with little waiting (answers, PONGs) is
 * written in each turn. Nobody is passed over: the line is first come, first served.
 *
 * A round is over when all of its members have been written what waited when they joined the line, or their sockets
 * took no more. Back-pressure: a publisher to a receiver that has much waiting pauses (peer_stall) until a round is
 * over, so that a publisher is no faster than its messages can be written. Many publishers may each have one
 * message on its way; when these come to a quarter of the share of output, further large messages are not acted on
 * yet (output_holds). So healthy receivers do not fill the share, and it is those that do not read who are closed
 * when it is full (memory.c). Nobody pauses for a client whose socket has taken nothing for OUTPUT_UNREAD_NS: that
 * would not help it, and others would wait for what the publisher has for them.
 *
 * The body of a large message goes out from where it was read (net/scratch.h), or, where that is not possible and it
 * goes to many, is made once: each queue refers to it. Small ones are copied: that costs less than keeping count of
 * them.
 */
#include "plane/output.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "net/conn.h"
#include "plane/backlog.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/protocol.h"
#include "plane/publication.h"
#include "plane/secure.h"

#define LAG_PART 4u /* of the share of output */
#define DELIVERY_LOW_WATER (256u * 1024u)
#define PACE_OVER_BYTES (256u * 1024u) /* a publisher that waits for a receiver goes on before its time is up */

/* ---- large messages ---------------------------------------------------------------------------------------------- */

static bool much_used(const plane_t *plane) {
    const share_t *share = &plane->memory.output;
    return share->used > share->limit / LAG_PART;
}

/* Header and payload, as they lie one behind the other in the input. */
static shared_t *lent_body(plane_t *plane, message_t *message) {
    bytes_t whole = message->payload;
    if (message->header.size != 0) {
        if (message->header.at + message->header.size != message->payload.at) {
            return NULL;
        }
        whole = bytes_of(message->header.at, message->header.size + message->payload.size);
    }
    return conn_scratch_lend(&plane->input, whole, &message->body_from);
}

static shared_t *made_body(plane_t *plane, const message_t *message) {
    shared_t *body;
    uint64_t size = (uint64_t)message->header.size + message->payload.size;
    if (size > UINT32_MAX || shared_new(&plane->memory.output, (uint32_t)size, &body) != STATUS_OK) {
        return NULL;
    }
    (void)bytes_write(bytes_write(body->at, message->header), message->payload);
    plane->output.lags = plane->output.lags || much_used(plane);
    return body;
}

shared_t *output_body(plane_t *plane, message_t *message, uint32_t receivers) {
    message->body_from = 0;
    message->body = receivers != 0 ? lent_body(plane, message) : NULL;
    if (message->body == NULL && receivers > 1) {
        message->body = made_body(plane, message);
    }
    return message->body;
}

status_t output_queue_body(outq_t *out, const message_t *message, bool headers) {
    uint32_t without = headers ? 0 : message->header.size;
    uint32_t size = message->header.size + message->payload.size - without;
    if (size != 0) {
        outq_share(out, message->body, message->body_from + without, size);
    }
    return buffer_append(&out->data, emit_body_end.at, emit_body_end.size);
}

bool output_holds(plane_t *plane, peer_t *peer, const op_t *op) {
    switch (op->kind) {
    case OP_PUB:
    case OP_HPUB:
    case OP_LEAF_MSG:
    case OP_LEAF_HMSG:
    case OP_ROUTE_MSG: break;
    default: return false;
    }
    if ((uint64_t)op->header.size + op->payload.size < BODY_SHARED_MIN) {
        return false;
    }
    backlog_yield(plane, peer);
    peer_wait(plane, peer);
    return true;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

void output_sent(plane_t *plane, peer_t *peer, const message_t *message) {
    uint64_t size = (uint64_t)message->header.size + message->payload.size;
    peer_touch(plane, peer);
    peer->out_msgs++;
    peer->out_bytes += size;
    plane->stats.out_msgs++;
    plane->stats.out_bytes += size;
    plane->stats.link_out_msgs++;
    plane->stats.link_out_bytes += size;
}

void output_line_up(plane_t *plane, peer_t *peer, const publication_t *publication, bytes_t name) {
    const message_t *message = &publication->message;
    lane_use_t use = {.subject = message->subject,
                      .flow = plane->flow,
                      .answer = publication->origin == NULL && (publication->flags & PUBLICATION_UNJUDGED) != 0,
                      .bulk = (publication->flags & PUBLICATION_BULK) != 0,
                      .size = (uint64_t)message->header.size + message->payload.size};
    lane_t *lane = lanes_lane(peer->lanes, peer->precedence, &use);
    if (lane == NULL) {
        window_dropped(plane, peer);
        return;
    }
    status_t status = peer->protocol->emit_link(peer, lane_out(lane), publication, name);
    lane_end(peer->lanes, lane, status);
    if (status == STATUS_OK) {
        output_sent(plane, peer, message);
        window_pace(plane, peer, publication->origin);
    }
}

/* ---- who is written ---------------------------------------------------------------------------------------------- */

/* true: it stopped because of the room. */
static bool flush_some(plane_t *plane, peer_t *peer, uint64_t room) {
    if ((!plane->threaded || peer->conn.fd < 0) && !peer->carried) {
        return false;
    }
    bool lanes = peer->lanes != NULL;
    if (LEAF_UNLIKELY(lanes)) {
        uint64_t most = window_room(plane, peer);
        if (most == 0) {
            window_wait(plane, peer);
            return false;
        }
        room = most < room ? most : room;
    }
    status_t status = conn_flush(&peer->conn, &plane->loop, room, plane->now.mono_ns);
    if (LEAF_UNLIKELY(peer->secure_until_ns != 0)) {
        secure_look(plane, peer);
    }
    if (status != STATUS_OK && status != STATUS_AGAIN && peer->state != PEER_DOOMED) {
        peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
    }
    uint64_t waiting = outq_pending(&peer->conn.out);
    if (plane->stalled != NULL && waiting < PACE_OVER_BYTES) {
        plane->pace_over = true;
        plane->more = true;
    }
    if (LEAF_UNLIKELY(plane->carried_wait) && peer->route != NULL && waiting < DELIVERY_LOW_WATER) {
        plane->carried_wait = false;
        plane->carried_go = plane->more = true;
    }
    if (LEAF_UNLIKELY(lanes)) {
        window_given(plane, peer);
        return false;
    }
    if (peer->full && waiting < DELIVERY_LOW_WATER) {
        peer->full = false;
        plane->drained = true;
        plane->more = true;
    }
    if (LEAF_UNLIKELY(peer->refills) && waiting <= OUTPUT_REFILL) {
        peer->refills = false;
        peer->protocol->drained(plane, peer);
    }
    return status == STATUS_AGAIN && waiting != 0 && !peer->conn.writing;
}

void peer_flush(plane_t *plane, peer_t *peer) {
    (void)flush_some(plane, peer, UINT64_MAX);
}

static void append(output_t *output, peer_t *peer) {
    peer->dirty = true; /* as long as it is in the line */
    peer->next_dirty = NULL;
    *(output->first == NULL ? &output->first : &output->last->next_dirty) = peer;
    output->last = peer;
}

/* Puts a peer into the next round, with the output that waits for it now. */
static void join(output_t *output, peer_t *peer) {
    peer->line_round = output->round + 1;
    peer->line_until = peer->conn.bytes_out + outq_pending(&peer->conn.out);
    output->young++;
    append(output, peer);
}

/* No longer of its round; it may join the line anew. */
static void step_out(output_t *output, const peer_t *peer) {
    *(peer->line_round == output->round ? &output->old : &output->young) -= 1;
}

/* The first of the line has its turn. Returns what that cost. */
static uint64_t serve_first(plane_t *plane) {
    output_t *output = &plane->output;
    peer_t *peer = output->first;
    output->first = peer->next_dirty;
    peer->dirty = false;
    uint64_t before = peer->conn.bytes_out;
    bool more = flush_some(plane, peer, output->room < OUTPUT_PIECE ? output->room : OUTPUT_PIECE);
    uint64_t after = peer->conn.bytes_out;
    if (!more) {
        step_out(output, peer);
    } else if (after < peer->line_until) {
        append(output, peer);
    } else {
        step_out(output, peer);
        join(output, peer);
    }
    return after - before + OUTPUT_CALL;
}

void output_turn(plane_t *plane) {
    plane->output.room = OUTPUT_TURN;
    plane->output.began_ns = 0;
}

/* True if a flush takes long: the cost of a megabyte differs much, as the kernel may have to look for memory. */
static bool takes_long(output_t *output) {
    int64_t now_ns = clock_mono_ns();
    if (output->began_ns == 0) {
        output->began_ns = now_ns;
    }
    return now_ns - output->began_ns > OUTPUT_TIME_NS;
}

/* Its socket took not all of what it was given: the loop says when it takes more (output_ready). */
static bool socket_full(const peer_t *peer) {
    return peer->conn.writing && peer->lanes == NULL;
}

/* Writes those who were touched and have few bytes waiting; returns the others. */
static peer_t *write_few(plane_t *plane) {
    peer_t *others = NULL;
    while (plane->dirty != NULL) {
        peer_t *peer = plane->dirty;
        plane->dirty = peer->next_dirty;
        if (outq_pending(&peer->conn.out) > OUTPUT_FEW && !socket_full(peer)) {
            peer->next_dirty = others; /* it stays dirty: nobody else is to list it */
            others = peer;
            continue;
        }
        peer->dirty = false;
        if (LEAF_LIKELY(!socket_full(peer))) {
            peer_flush(plane, peer);
        }
    }
    return others;
}

void output_flush(plane_t *plane) {
    output_t *output = &plane->output;
    for (peer_t *peer = write_few(plane), *next; peer != NULL; peer = next) {
        next = peer->next_dirty;
        peer->dirty = false;
        if (plane->threaded && outq_pending(&peer->conn.out) > OUTPUT_BULK) {
            join(output, peer);
        } else {
            peer_flush(plane, peer);
        }
    }
    while (output->first != NULL && output->room != 0 && !takes_long(output)) {
        uint64_t cost = serve_first(plane);
        output->room -= cost < output->room ? cost : output->room;
    }
}

void output_end(plane_t *plane) {
    output_t *output = &plane->output;
    output->under_way = true;
    if (output->old == 0) {
        output->round++;
        output->old = output->young;
        output->young = 0;
        /* Between two rounds the producers go on. */
        output->under_way = output->old != 0 && !output->running;
        output->running = output->old != 0;
    }
    output->lags = output->first != NULL && much_used(plane);
    plane->more = plane->more || output->first != NULL;
}

void output_ready(plane_t *plane, peer_t *peer) {
    peer->conn.writing = false;
    if (outq_pending(&peer->conn.out) <= OUTPUT_BULK) {
        peer_flush(plane, peer);
    } else {
        peer_touch(plane, peer);
    }
}

bool output_unread(const plane_t *plane, const peer_t *peer) {
    const outq_t *out = &peer->conn.out;
    return LEAF_UNLIKELY(outq_pending(out) > plane->behind_bytes) && peer->conn.writing
           && plane->now.mono_ns - out->blocked_since_ns > OUTPUT_UNREAD_NS;
}

void output_forget(plane_t *plane, peer_t *peer) {
    window_forget(plane, peer);
    lanes_free(peer->lanes);
    precedence_free(peer->precedence);
    free(peer->budget);
    peer->budget = NULL;
    peer->lanes = NULL;
    peer->precedence = NULL;
    output_t *output = &plane->output;
    for (peer_t **at = &plane->dirty; peer->dirty && *at != NULL; at = &(*at)->next_dirty) {
        if (*at == peer) {
            *at = peer->next_dirty;
            peer->dirty = false;
            return;
        }
    }
    peer_t *before = NULL;
    for (peer_t **at = &output->first; peer->dirty && *at != NULL; at = &before->next_dirty) {
        if (*at == peer) {
            *at = peer->next_dirty;
            output->last = output->last == peer ? before : output->last;
            step_out(output, peer);
            peer->dirty = false;
            return;
        }
        before = *at;
    }
}
