/* conn.h: the life of one connection of any kind: descriptor, input that is not whole yet, queue of output.
 *
 * Input: a read goes into the scratch buffer of the thread, so that an idle connection owns no input memory. What the
 * parser did not use is copied into `rest`, and comes first in the next input. A message larger than the scratch buffer
 * is read into `rest` directly, which grows with what has arrived, never with what was announced.
 *
 *     status = conn_read(conn, loop, scratch, parser.need, &input);      input = rest + what was read
 *     while (wire_parse(&parser, bytes left of input) == WIRE_OP) { ...; used += ...; }
 *     status = conn_keep(conn, input, used);
 *
 * A connection that waits for a verdict is not read (conn_want); what it had sent already stays in rest; conn_rest()
 * returns it once the verdict is there.
 *
 * Slices of an op point into input: they are gone after conn_keep. Not here: protocol, accounts, and
 * how bytes get from the socket and to it (transport.h).
 */
#ifndef LEAFD_NET_CONN_H
#define LEAFD_NET_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "net/loop.h"
#include "net/outq.h"
#include "net/scratch.h"
#include "net/transport.h"

typedef struct conn {
    int fd;
    uint32_t wanted;          /* LOOP_* the loop was told */
    uint32_t transport_wants; /* the transport's part of it */
    uint32_t read_max;        /* bytes in rest and one read together, unless one op alone is longer than that */
    bool registered;          /* the loop knows the descriptor */
    bool reading;             /* what conn_want asked for last */
    bool writing;             /* output waits for the socket */
    bool resets;              /* conn_close ends it with a reset */
    bool drained;             /* the peer has ended it, and all that it sent was read */
    buffer_t rest;
    uint64_t rest_used; /* bytes at its front that were acted on; the next read removes them */
    outq_t out;
    uint64_t bytes_in;
    uint64_t bytes_out;
    void *tag; /* registered with the loop */
    const transport_t *transport;
    void *transport_state;
    loop_buffered_t buffered; /* tells the loop of what the transport holds */
} conn_t;

/* The shares in which a connection's memory is counted; NULL: none. */
typedef struct conn_shares {
    share_t *input;
    share_t *output;
} conn_shares_t;

/* Takes over a non-blocking socket, with transport_socket; fd -1: a connection without a descriptor, for a transport
 * that needs none. input_max: the largest op, max_control_line + max_payload and a margin. read_max is
 * CONN_SCRATCH_SIZE; the caller may lower it (not below what rest holds) for a peer that may not send much yet. */
void conn_init(conn_t *conn, int fd, uint64_t input_max, uint64_t max_pending, const conn_shares_t *shares, void *tag);
/* Puts another transport in place of the present one, or on top of it: from here on state is the connection's, and what
 * the present one keeps is the new one's. conn_flush then lets it begin.
 * STATUS_AGAIN: output waits that is to go out by the present one: flush first. STATUS_INVALID: input came by the
 * present one that nobody has acted on; it must not pass for input of the new one (an attacker may have put plain text
 * in front of a handshake). In both cases nothing has changed. */
LEAF_MUST_USE status_t conn_switch(conn_t *conn, const transport_t *transport, void *state);
/* Puts another transport on top of the present one: what that holds is input of the new one, whose state knows both.
 * STATUS_AGAIN, nothing has changed: output waits that is to go out by the present one. */
LEAF_MUST_USE status_t conn_stack(conn_t *conn, const transport_t *transport, void *state);
/* Puts another transport on top of the present one, which it knows, at once: what waits to be sent goes through it. */
void conn_cover(conn_t *conn, const transport_t *transport, void *state);
/* Leaves the loop and closes the descriptor. Nothing is flushed: call conn_flush first when the peer is to get what is
 * queued. Input that was not read is discarded before the close, because TCP would answer it with a reset, which may
 * destroy what was just sent; after the peer's end there is none. A connection that `resets` is one whose peer is to
 * see a reset all the same, behind what has reached it; only one without TLS or WebSocket, whose own ends matter more.
 */
void conn_close(conn_t *conn, loop_t *loop);

/* Reads once. need: wire_parser_t.need, a hint of how much is missing. STATUS_OK: *input is rest and the new bytes,
 * valid until conn_keep; STATUS_AGAIN: nothing came; STATUS_CLOSED: the peer is gone; STATUS_FULL: input_max or
 * read_max reached without a whole op; STATUS_NO_MEMORY: nothing was read, since the memory for it is not there now. */
LEAF_MUST_USE status_t conn_read(conn_t *conn, loop_t *loop, conn_scratch_t *scratch, uint32_t need, bytes_t *input);
/* Bytes that came and are not read yet; a system call. */
uint64_t conn_arrived(const conn_t *conn);
/* The bytes in rest without reading, e.g. when reading goes on after a verdict. when reading goes on after a verdict.
 * Empty when there is none. */
bytes_t conn_rest(const conn_t *conn);
/* The first `used` bytes of input were acted on; the others are kept. */
LEAF_MUST_USE status_t conn_keep(conn_t *conn, bytes_t input, uint32_t used);

/* The work for an event of the loop: LOOP_READ for conn_read, LOOP_WRITE for conn_flush. Both when the transport waited
 * for it: only it knows for the sake of which. */
static inline uint32_t conn_ready(const conn_t *conn, uint32_t events) {
    return (events & conn->transport_wants) != 0 ? events | LOOP_READ | LOOP_WRITE : events;
}

/* Writes what the queue holds, at most `room` bytes (not 0): one writev in the usual case. STATUS_OK: all gone;
 * STATUS_AGAIN: a backlog stays and the loop is told to report when the socket takes more; STATUS_CLOSED: the peer is
 * gone. Where `room` was the reason to stop (STATUS_AGAIN, conn->writing is false), the loop reports nothing and the
 * caller goes on later. */
LEAF_MUST_USE status_t conn_flush(conn_t *conn, loop_t *loop, uint64_t room, int64_t mono_ns);

/* Whether input of this connection is read. Registers it on first use. Where it is not, the loop may report input once
 * more, which is what conn_unasked is for. */
LEAF_MUST_USE status_t conn_want(conn_t *conn, loop_t *loop, bool reading);
/* The loop reported input that nobody reads now: it does not again until conn_want asks for it. */
LEAF_MUST_USE status_t conn_unasked(conn_t *conn, loop_t *loop);

/* About once a second: gives back memory that the connection does not use. */
void conn_idle(conn_t *conn);

#endif
