/* lines.c: input of the protocols whose operations are lines of text (client, leaf link): the loop around the parser,
 * before the login and after it, and how much of it one turn may be.
 *
 * Not here: what the operations do (client.c, leaf.c), how they are written (wire/parse.c).
 */
#include "verbs/lines.h"

#include <string.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "plane/account.h"
#include "exchange/exchange.h"
#include "plane/output.h"
#include "plane/peer.h"
#include "plane/plane.h"
#include "plane/pressure.h"
#include "plane/protocol.h"
#include "plane/refused.h"
#include "plane/throttle.h"
#include "route/route.h"
#include "verbs/turn.h"
#include "wire/emit.h"
#include "wire/op.h"
#include "wire/parse.h"

#define TRACE_BYTES_MAX 256u

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
    case WIRE_ERROR_MAX_PAYLOAD:
        /* The payload is still on its way: nats-server leaves it unread, and clients tell the reset from an end. */
        peer->conn.resets = true;
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("Maximum Payload Violation"));
        break;
    case WIRE_ERROR_MAX_CONTROL_LINE:
        peer_doom(plane, peer, CLOSE_LIMIT, BYTES_LITERAL("maximum control line exceeded"));
        break;
    case WIRE_ERROR_NONE:
    case WIRE_ERROR_SILENT:
    default: peer_doom_silently(plane, peer, CLOSE_PROTOCOL, BYTES_LITERAL("malformed protocol line"));
    }
}

static void trace_line(plane_t *plane, peer_t *peer, bytes_t input) {
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

static inline bool carries_message(const op_t *op) {
    return op->kind == OP_PUB || op->kind == OP_HPUB || op->kind == OP_LEAF_MSG || op->kind == OP_LEAF_HMSG
           || op->kind == OP_ROUTE_MSG;
}

static __attribute__((noinline)) void trace_op(plane_t *plane, peer_t *peer, bytes_t input, const op_t *op) {
    trace_line(plane, peer, input);
    if (!carries_message(op) || op->header.size + op->payload.size == 0) {
        return;
    }
    uint32_t most = plane->limits.trace, header = op->header.size < most ? op->header.size : most;
    uint32_t body = op->payload.size < most - header ? op->payload.size : most - header;
    event_entry_t *entry =
        event_new(EVENT_TRACE, BYTES_NONE, bytes_of(op->payload.at, body), bytes_of(op->header.at, header), BYTES_NONE);
    if (entry != NULL) {
        entry->event.target = peer->id;
        entry->event.arg = op->header.size;
        entry->event.arg2 = op->payload.size;
    }
    (void)pressure_offer(plane, peer, entry);
}

/* The operation that input begins with. false: none that is whole, or none at all, and the peer is doomed. */
static inline bool first_operation(plane_t *plane, peer_t *peer, bytes_t input, op_t *op, uint32_t *taken) {
    wire_error_t error = WIRE_ERROR_NONE;
    *taken = 0;
    wire_verdict_t verdict = wire_parse(&peer->parser, input, op, taken, &error);
    if (LEAF_UNLIKELY(verdict == WIRE_BAD)) {
        bad_input(plane, peer, error, input);
    }
    return verdict == WIRE_OP;
}

static uint32_t greeting_input(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0;
    op_t op;
    while (peer->state == PEER_GREETING && used < input.size && peer->protocol->greets(plane, peer, input.at[used])) {
        uint32_t taken;
        if (!first_operation(plane, peer, bytes_after(input, used), &op, &taken)) {
            break;
        }
        if (plane->limits.trace != 0) {
            trace_op(plane, peer, bytes_of(input.at + used, taken), &op);
        }
        if (!peer->protocol->greet(plane, peer, &op)) {
            break;
        }
        used += taken;
    }
    return used;
}

static bool changes_interest(const op_t *op) {
    return op->kind == OP_SUB || op->kind == OP_UNSUB || op->kind == OP_LEAF_SUB || op->kind == OP_LEAF_UNSUB
           || op->kind == OP_ROUTE_SUB || op->kind == OP_ROUTE_UNSUB;
}

static uint32_t admitted_input(plane_t *plane, peer_t *peer, bytes_t input) {
    uint32_t used = 0, changes = 0;
    op_t op;
    static const uint64_t none = 0;
    const uint64_t *steps = LEAF_LIKELY(peer->account != NULL) ? route_steps(peer->account->route) : &none;
    turn_t turn = turn_begin(plane, steps);
    while (peer->state == PEER_ADMITTED && (peer->waits & (WAITS_CONTROL | WAITS_STORE)) == 0) {
        uint32_t taken;
        if (!first_operation(plane, peer, bytes_after(input, used), &op, &taken)) {
            break;
        }
        if (LEAF_UNLIKELY(plane->throttling | plane->output.lags)
            && ((plane->output.lags && output_holds(plane, peer, &op)) || throttle_holds(plane, peer, &op))) {
            break;
        }
        if (LEAF_UNLIKELY(plane->limits.trace != 0)) {
            trace_op(plane, peer, bytes_of(input.at + used, taken), &op);
        }
        if (!peer->protocol->dispatch(plane, peer, &op)) {
            break;
        }
        used += taken;
        changes += changes_interest(&op);
        if (LEAF_UNLIKELY(changes == INPUT_CHANGES_MAX || turn_is_over(plane, &turn))) {
            turn_yield(plane, peer);
            break;
        }
    }
    return used;
}

uint32_t lines_input(plane_t *plane, peer_t *peer, bytes_t input) {
    return LEAF_LIKELY(peer->state == PEER_ADMITTED) ? admitted_input(plane, peer, input)
                                                     : greeting_input(plane, peer, input);
}

status_t lines_ping(buffer_t *out) {
    return buffer_append(out, emit_ping.at, emit_ping.size);
}
