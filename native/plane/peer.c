/* peer.c: one connection's life: greeting, verdict, admitted, doomed; its output, pings, deadlines and end.
 *
 *   GREETING --line--> WAITING --RESUME--> GREETING          ADMITTED --CONNECT again--> WAITING
 *                      WAITING --ADMIT---> ADMITTED          any --> DOOMED --sweep--> gone
 *
 * What does not live here: what the verbs mean (dispatch_*.c), sockets' reading (plane.c).
 */
#include <stdlib.h>

#include "plane/peer.h"

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/copies.h"
#include "base/status.h"
#include "net/conn.h"
#include "net/outq.h"
#include "plane/account.h"
#include "plane/dispatch.h"
#include "plane/exchange.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/refused.h"
#include "plane/table.h"
#include "route/route.h"
#include "wire/emit.h"
#include "wire/op.h"
#include "wire/parse.h"

peer_t *peer_find(plane_t *plane, uint64_t id) {
    peer_t *peer = table_find(&plane->peers, id);
    return peer == NULL || peer->state == PEER_DOOMED ? NULL : peer;
}

static uint64_t input_max(const plane_t *plane, uint32_t max_payload) {
    return (uint64_t)plane->limits.max_control_line * LEAF_CONTROL_LINE_FACTOR + max_payload + PEER_INPUT_SLACK;
}

/* Of a line before the login. Whom we dialled ourselves may send an INFO as long as later. */
static uint32_t greeting_line_max(const plane_t *plane, const peer_t *peer) {
    uint32_t line = plane->limits.max_control_line;
    if (peer->dialled) {
        return line * LEAF_CONTROL_LINE_FACTOR;
    }
    return line > GREETING_LINE_MIN ? line : GREETING_LINE_MIN;
}

static uint32_t admitted_line_max(const plane_t *plane, const peer_t *peer) {
    return peer->kind == CONN_LEAF ? plane->limits.max_control_line * LEAF_CONTROL_LINE_FACTOR
                                   : plane->limits.max_control_line;
}

/* What a stranger costs: one line, and what else came in the same read. */
static void expect_greeting(plane_t *plane, peer_t *peer) {
    uint32_t line = greeting_line_max(plane, peer);
    wire_parser_init(&peer->parser, peer->kind == CONN_LEAF ? WIRE_LEAF : WIRE_CLIENT, 0, line);
    peer->conn.read_max = line < CONN_SCRATCH_SIZE - GREETING_SLACK ? line + GREETING_SLACK : CONN_SCRATCH_SIZE;
}

peer_t *peer_new(plane_t *plane, int fd, uint32_t kind, uint64_t listener, bytes_t address) {
    peer_t *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return NULL;
    }
    peer->id = plane->next_peer;
    peer->queues = kind == CONN_LEAF ? calloc(OP_QUEUES_MAX, sizeof(*peer->queues)) : NULL;
    /* What control is told at the end is there from the beginning. */
    peer->farewell = event_new(EVENT_CLOSED, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    event_entry_t *entry = event_new(EVENT_OPENED, address, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if ((kind == CONN_LEAF && peer->queues == NULL) || peer->farewell == NULL || entry == NULL
        || table_put(&plane->peers, peer->id, peer) != STATUS_OK) {
        free(entry);
        free(peer->farewell);
        free(peer->queues);
        free(peer);
        return NULL;
    }
    plane->next_peer++;
    const plane_limits_t *limits = &plane->limits;
    uint64_t max_pending = kind == CONN_LEAF ? limits->max_pending * LEAF_PENDING_FACTOR : limits->max_pending;
    conn_shares_t shares = {.input = &plane->memory.input, .output = &plane->memory.output};
    conn_init(&peer->conn, fd, input_max(plane, limits->max_payload), max_pending, &shares, peer);
    peer->kind = kind;
    peer->dialled = listener == 0;
    peer->state = PEER_GREETING;
    expect_greeting(plane, peer);
    peer->start_wall_ns = plane->now.wall_ns;
    peer->last_wall_ns = plane->now.wall_ns;
    peer->last_input_ns = plane->now.mono_ns;
    peer->next_ping_ns = INT64_MAX;
    peer->next = plane->all_peers;
    if (peer->next != NULL) {
        peer->next->previous = peer;
    }
    plane->all_peers = peer;
    plane->stats.connections++;
    plane->stats.total_connections++;
    entry->event.target = peer->id;
    entry->event.code = kind;
    entry->event.arg = listener;
    event_post(&plane->exchange, entry);
    peer_want(plane, peer);
    return peer;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

static void bad_input_told(plane_t *plane, peer_t *peer, wire_error_t error, bytes_t input) {
    violation_t refusal = {.code = REFUSED_PROTOCOL,
                           .subject = bytes_of(input.at, input.size < SHOWN_BYTES ? input.size : SHOWN_BYTES)};
    if (error == WIRE_ERROR_MAX_PAYLOAD) {
        refusal = (violation_t){.code = REFUSED_PAYLOAD, .size = peer->parser.need};
    } else if (error == WIRE_ERROR_MAX_CONTROL_LINE) {
        refusal = (violation_t){.code = REFUSED_CONTROL_LINE};
    }
    peer_refused(plane, peer, &refusal);
}

static void bad_input(plane_t *plane, peer_t *peer, wire_error_t error, bytes_t input) {
    bad_input_told(plane, peer, error, input);
    switch (error) {
    case WIRE_ERROR_UNKNOWN_OPERATION:
        peer_doom(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("Unknown Protocol Operation"));
        break;
    case WIRE_ERROR_MAX_PAYLOAD: peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("Maximum Payload Violation")); break;
    case WIRE_ERROR_MAX_CONTROL_LINE:
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum control line exceeded"));
        break;
    case WIRE_ERROR_NONE:
    case WIRE_ERROR_SILENT:
    default: peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("malformed protocol line"));
    }
}

static void trace(plane_t *plane, peer_t *peer, bytes_t input) {
    const uint8_t *end = memchr(input.at, '\r', input.size < TRACE_BYTES_MAX ? input.size : TRACE_BYTES_MAX);
    bytes_t line = bytes_of(input.at, end != NULL                    ? (uint32_t)(end - input.at)
                                      : input.size < TRACE_BYTES_MAX ? input.size
                                                                     : TRACE_BYTES_MAX);
    event_entry_t *entry = event_new(EVENT_TRACE, BYTES_NONE, BYTES_NONE, BYTES_NONE, line);
    if (entry != NULL) {
        entry->event.target = peer->id;
    }
    (void)pressure_offer(plane, peer, entry);
}

static bool is_one_of(uint8_t first, const char *letters) {
    return strchr(letters, first) != NULL && first != 0;
}

/* Can the line that begins so be one of a greeting? Decided by its first byte: nobody unknown makes us wait for a
 * payload. */
static bool greets(plane_t *plane, peer_t *peer, uint8_t first) {
    if (peer->kind == CONN_CLIENT) {
        if (is_one_of(first, "Cc")) {
            return true;
        }
        /* Control refuses it, or, where nobody has to log in, admits it; then the line is read under the rules of a
         * client. */
        greet_client(plane, peer, &(op_t){.kind = OP_NONE});
        return false;
    }
    if (is_one_of(first, peer->dialled ? "IiPp+-" : "CcIiPp")) {
        return true;
    }
    if (peer->dialled) {
        greet_leaf(plane, peer, &(op_t){.kind = OP_NONE});
    } else {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("Authorization Violation"));
    }
    return false;
}

static uint32_t greeting_input(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0;
    op_t op;
    while (peer->state == PEER_GREETING && used < input.size && greets(plane, peer, input.at[used])) {
        wire_error_t error = WIRE_ERROR_NONE;
        uint32_t taken = 0;
        wire_verdict_t verdict =
            wire_parse(&peer->parser, bytes_of(input.at + used, input.size - used), &op, &taken, &error);
        if (verdict == WIRE_MORE) {
            break;
        }
        if (verdict == WIRE_BAD) {
            bad_input(plane, peer, error, bytes_of(input.at + used, input.size - used));
            break;
        }
        if (plane->limits.trace != 0) {
            trace(plane, peer, bytes_of(input.at + used, taken));
        }
        if (!(peer->kind == CONN_CLIENT ? greet_client(plane, peer, &op) : greet_leaf(plane, peer, &op))) {
            break;
        }
        used += taken;
    }
    return used;
}

/* What the plane did so far, about a third of a microsecond each: four deliveries, a KB of output, a line of interest
 * for a link, or eight steps of looking for who wants a subject, which are millions where somebody has thousands of
 * deep patterns. */
static uint64_t work_done(const plane_t *plane, const uint64_t *steps) {
    return (plane->stats.out_msgs >> 2) + (plane->stats.out_bytes >> 10) + plane->told + (*steps >> 3);
}

/* A few bytes of input may be many deliveries. The rest waits until others had their turn and what was made is written,
 * or until the receivers have caught up: a read's worth of input must not fill a queue that its reader had no chance to
 * empty. */
static void yield(plane_t *plane, peer_t *peer) {
    peer->yielded = true;
    if (peer->stalled_until_ns == 0) {
        peer_again(plane, peer);
    }
}

/* Work is counted where much of it is usual; operations may be costly in other ways. The clock is first read after some
 * of them, since most inputs are short. */
static bool takes_long(const plane_t *plane, int64_t *start_ns) {
    if (!plane->threaded) {
        return false;
    }
    int64_t now_ns = clock_mono_ns();
    if (*start_ns == 0) {
        *start_ns = now_ns;
    }
    return now_ns - *start_ns > INPUT_TIME_NS;
}

static uint32_t admitted_input(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0;
    int64_t start_ns = 0;
    op_t op;
    const uint64_t *steps = route_steps(peer->account->route);
    /* One less with each operation: its last bits say when so many are over. */
    uint64_t until = (work_done(plane, steps) + (plane->input_work != 0 ? plane->input_work : INPUT_WORK_MAX))
                     | (INPUT_TIME_OPS - 1);
    while (peer->state == PEER_ADMITTED && !(peer->held_back | peer->throttled)) {
        wire_error_t error = WIRE_ERROR_NONE;
        uint32_t taken = 0;
        wire_verdict_t verdict =
            wire_parse(&peer->parser, bytes_of(input.at + used, input.size - used), &op, &taken, &error);
        if (verdict == WIRE_MORE) {
            break;
        }
        if (LEAF_UNLIKELY(verdict == WIRE_BAD)) {
            bad_input(plane, peer, error, bytes_of(input.at + used, input.size - used));
            break;
        }
        if (LEAF_UNLIKELY(plane->limits.trace != 0)) {
            trace(plane, peer, bytes_of(input.at + used, taken));
        }
        if (!(peer->kind == CONN_CLIENT ? dispatch_client(plane, peer, &op) : dispatch_leaf(plane, peer, &op))) {
            break;
        }
        used += taken;
        if (LEAF_UNLIKELY(work_done(plane, steps) >= until
                          || (until-- % INPUT_TIME_OPS == 0 && takes_long(plane, &start_ns)))) {
            yield(plane, peer);
            break;
        }
    }
    return used;
}

uint32_t peer_input(plane_t *plane, peer_t *peer, bytes_t input) {
    peer->last_input_ns = plane->now.mono_ns;
    peer->last_wall_ns = plane->now.wall_ns;
    if (LEAF_UNLIKELY(plane->throttling) && core_waits(plane, peer)) {
        return 0;
    }
    return LEAF_LIKELY(peer->state == PEER_ADMITTED) ? admitted_input(plane, peer, input)
                                                     : greeting_input(plane, peer, input);
}

void peer_act(plane_t *plane, peer_t *peer, bytes_t input) {
    bool waited = input.at == conn_rest(&peer->conn).at;
    uint32_t used = peer_input(plane, peer, input);
    if (used != 0 || !waited) {
        peer->input_since_ns = plane->now.mono_ns;
    }
    if (conn_keep(&peer->conn, input, used) != STATUS_OK) {
        peer_doom_silently(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("no memory for input"));
    }
}

void peer_pause(plane_t *plane, peer_t *peer) {
    peer->state = PEER_WAITING;
    peer_want(plane, peer);
}

void peer_again(plane_t *plane, peer_t *peer) {
    if (!peer->again) {
        peer->again = true;
        peer->next_again = plane->again;
        plane->again = peer;
        plane->more = true;
    }
    peer_want(plane, peer);
}

void peer_resume(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_WAITING) {
        peer->state = PEER_GREETING;
        peer_again(plane, peer);
    }
}

void peer_limit(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict) {
    peer->flags = verdict->flags;
    peer->max_subscriptions = verdict->max_subscriptions;
    peer->expires_wall_ns = verdict->expires_wall_ns;
    peer->parser.max_payload = verdict->max_payload != 0 ? verdict->max_payload : plane->limits.max_payload;
    peer->parser.headers = peer->kind == CONN_LEAF || (verdict->flags & VERDICT_HEADERS) != 0;
    uint64_t room = input_max(plane, peer->parser.max_payload);
    if (peer->conn.rest.max < room) {
        peer->conn.rest.max = room;
    }
}

void peer_admit(plane_t *plane, peer_t *peer, account_t *account, const conn_verdict_t *verdict) {
    if (peer->account != NULL && peer->kind == CONN_CLIENT && peer->account != account) {
        peer->account->client_count--;
        peer->account = NULL;
    }
    if (peer->account == NULL && peer->kind == CONN_CLIENT) {
        account->client_count++;
    }
    peer->account = account;
    peer->parser.max_control_line = admitted_line_max(plane, peer);
    peer->conn.read_max = CONN_SCRATCH_SIZE;
    peer_limit(plane, peer, verdict);
    peer->state = PEER_ADMITTED;
    if (peer->rtt_ns == 0 && peer->kind == CONN_CLIENT) {
        /* Until a PONG tells better, as in the reference: the time that the handshake took. */
        int64_t took = plane->now.wall_ns - peer->start_wall_ns;
        peer->rtt_ns = took > 1000 ? took : 1000;
    }
    peer->next_ping_ns = plane->now.mono_ns + (peer->kind == CONN_LEAF ? FIRST_LEAF_PING_NS : FIRST_PING_NS);
    peer_again(plane, peer);
}

void peer_want(plane_t *plane, peer_t *peer) {
    if (!plane->threaded || peer->conn.fd < 0) {
        return;
    }
    bool reading = (peer->state == PEER_GREETING || peer->state == PEER_ADMITTED) && !peer->throttled
                   && !peer->held_back && peer->stalled_until_ns == 0;
    if (reading != peer->reading || !peer->conn.registered) {
        peer->reading = reading;
        if (conn_want(&peer->conn, &plane->loop, reading) != STATUS_OK) {
            peer_doom_silently(plane, peer, CLOSE_WRITE, BYTES_LITERAL("cannot watch the connection"));
        }
    }
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

void peer_emit_failed(plane_t *plane, peer_t *peer, status_t status) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    if (status == STATUS_FULL) {
        plane->stats.slow_consumers++;
        event_entry_t *entry =
            event_new(EVENT_ALARM, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_LITERAL("slow consumer: pending bytes"));
        if (entry != NULL) {
            entry->event.code = ALARM_SLOW;
            entry->event.target = peer->id;
        }
        event_post(&plane->exchange, entry);
        outq_free(&peer->conn.out); /* nothing of it is sent any more, and others may need the memory now */
    }
    peer_doom_silently(plane, peer, status == STATUS_FULL ? CLOSE_SLOW : CLOSE_WRITE,
                       BYTES_LITERAL("Slow Consumer (Pending Bytes)"));
}

void peer_emitted(plane_t *plane, peer_t *peer) {
    status_t status = outq_end(&peer->conn.out);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

/* In order behind what is queued. */
void peer_send(plane_t *plane, peer_t *peer, bytes_t frame) {
    status_t status = outq_ordered(&peer->conn.out, frame);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

/* A control frame: in order as long as the peer keeps up, in front of what it is behind with otherwise. */
void peer_send_urgent(plane_t *plane, peer_t *peer, bytes_t frame) {
    status_t status = outq_urgent(&peer->conn.out, frame);
    peer_touch(plane, peer);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
    }
}

void peer_error(plane_t *plane, peer_t *peer, bytes_t text) {
    status_t status = emit_err(outq_urgent_place(&peer->conn.out), text);
    if (status != STATUS_OK) {
        peer_emit_failed(plane, peer, status);
        return;
    }
    peer_emitted(plane, peer);
}

void peer_pong(plane_t *plane, peer_t *peer) {
    /* Who drains a subscription takes the PONG for the end of its messages. */
    void (*send)(plane_t *, peer_t *, bytes_t) = peer->drains ? peer_send : peer_send_urgent;
    peer->drains = false;
    send(plane, peer, emit_pong);
    if (peer->after_pong.size != 0) {
        send(plane, peer, peer->after_pong);
        bytes_release(&peer->after_pong);
    }
}

void peer_ponged(plane_t *plane, peer_t *peer) {
    if (peer->pings_out != 0) {
        peer->rtt_ns = plane->now.mono_ns - peer->ping_sent_ns;
    }
    peer->pings_out = 0;
}

void peer_flush(plane_t *plane, peer_t *peer) {
    if (!plane->threaded || peer->conn.fd < 0) {
        return;
    }
    status_t status = conn_flush(&peer->conn, &plane->loop, plane->now.mono_ns);
    if (status != STATUS_OK && status != STATUS_AGAIN && peer->state != PEER_DOOMED) {
        peer_doom_silently(plane, peer, CLOSE_CLIENT, BYTES_LITERAL("Client Closed"));
    }
    if (plane->stalled != NULL && outq_pending(&peer->conn.out) < PACE_OVER_BYTES) {
        plane->pace_over = true;
        plane->more = true;
    }
    if (peer->full && outq_pending(&peer->conn.out) < DELIVERY_LOW_WATER) {
        peer->full = false;
        plane->drained = true;
        plane->more = true;
    }
}

static void pause_for(plane_t *plane, peer_t *peer, int64_t pause_ns) {
    if (peer->stalled_until_ns == 0) {
        peer->stalled_until_ns = plane->now.mono_ns + pause_ns;
        peer->next_stalled = plane->stalled;
        plane->stalled = peer;
        peer_want(plane, peer);
    }
}

/* Who publishes faster than a receiver reads gets a breath less: long ones so that the receiver is not cut off for a
 * burst, and before that short ones, so that what is queued stays small and in the processor's cache. */
void peer_stall(plane_t *plane, peer_t *producer, const outq_t *receiver) {
    pause_for(plane, producer, outq_crowded(receiver) ? STALL_NS : PACE_NS);
}

void peer_wait(plane_t *plane, peer_t *peer) {
    pause_for(plane, peer, STALL_NS);
}

void peer_unstall(plane_t *plane) {
    int64_t until = plane->now.mono_ns + (plane->pace_over ? PACE_NS : 0);
    plane->pace_over = false;
    for (peer_t **at = &plane->stalled; *at != NULL;) {
        peer_t *peer = *at;
        if (peer->stalled_until_ns > until) {
            at = &peer->next_stalled;
            continue;
        }
        *at = peer->next_stalled;
        peer->stalled_until_ns = 0;
        if (peer->yielded) {
            peer_again(plane, peer);
        } else {
            peer_want(plane, peer);
        }
    }
}

/* ---- chores ------------------------------------------------------------------------------------------------------ */

static void ping(plane_t *plane, peer_t *peer) {
    const plane_limits_t *limits = &plane->limits;
    int64_t now = plane->now.mono_ns;
    bool first = peer->ping_sent_ns == 0;
    peer->next_ping_ns = now + limits->ping_interval_ns;
    /* Who sent something lately is alive, and whom we do not read cannot say so; the first ping measures the round trip
     * all the same. */
    if (!first && (peer->held_back || now - peer->last_input_ns < limits->ping_interval_ns)) {
        return;
    }
    if (peer->pings_out + 1 > limits->ping_max) {
        plane->stats.stale_connections++;
        peer_doom(plane, peer, CLOSE_STALE, BYTES_LITERAL("Stale Connection"));
        return;
    }
    peer->pings_out++;
    peer->ping_sent_ns = now;
    peer_send_urgent(plane, peer, emit_ping);
}

void peer_chores(plane_t *plane, peer_t *peer) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    pressure_chores(plane, peer);
    if (outq_stalled(&peer->conn.out, plane->now.mono_ns, plane->limits.write_deadline_ns)) {
        peer_emit_failed(plane, peer, STATUS_FULL);
        return;
    }
    if (peer->state == PEER_ADMITTED && plane->now.mono_ns >= peer->next_ping_ns) {
        ping(plane, peer);
    }
    if (peer->expires_wall_ns != 0 && plane->now.wall_ns >= peer->expires_wall_ns) {
        peer_doom(plane, peer, CLOSE_AUTHENTICATION, BYTES_LITERAL("User Authentication Expired"));
    }
    conn_idle(&peer->conn);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void doom(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    peer->state = PEER_DOOMED;
    peer->close_reason = reason;
    peer->close_text = bytes_copy(text);
    peer->next_doomed = plane->doomed;
    plane->doomed = peer;
    plane->more = true;
    peer_want(plane, peer);
}

void peer_doom(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    if (peer->state == PEER_DOOMED) {
        return;
    }
    if (text.size != 0) {
        if (emit_err(outq_urgent_place(&peer->conn.out), text) == STATUS_OK) {
            status_t status = outq_end(&peer->conn.out);
            (void)status; /* it is closed anyway */
        }
    }
    doom(plane, peer, reason, text);
}

void peer_doom_silently(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text) {
    if (peer->state != PEER_DOOMED) {
        peer->silent = true;
        doom(plane, peer, reason, text);
    }
}
