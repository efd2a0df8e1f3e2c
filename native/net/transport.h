/* transport.h: what stands between a socket and the bytes of a connection.
 *
 *     socket  <-->  transport: receive, send  <-->  conn.c: rest, queue  <-->  protocol
 *
 * The plain socket is one (transport_socket). TLS, WebSocket frames and a PROXY header are further ones, each a file
 * of its own here; one that stands on another keeps the other and its state in its own state. A connection begins with
 * the plain socket and may be given another one later, after its INFO for TLS (conn_switch).
 *
 * A transport reads and writes the descriptor, but never registers it: conn.c asks what it needs after each call and
 * tells the loop.
 *   pending  input that the transport holds already, such as the remainder of a decrypted record: epoll does not know
 *            of it, so the loop reports the connection as long as something is pending and the core reads it.
 *   wanted   what the transport waits for, whether the core reads and writes or not: a handshake that has to read
 *            before anything can be written, a record that is not written to its end. When that is there, send is
 *            called, with nothing to send if need be, and uses it; otherwise the loop would report it for ever.
 *
 * Not here: input that is not a whole operation yet, output that waits (conn.h, outq.h).
 */
#ifndef LEAFD_NET_TRANSPORT_H
#define LEAFD_NET_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/status.h"

typedef struct transport {
    /* Never waits. STATUS_OK: *got is 1 to room; STATUS_AGAIN: nothing is there; STATUS_CLOSED: the peer is gone, or
     * what it sent cannot be understood. */
    status_t (*receive)(void *state, int fd, uint8_t *to, size_t room, size_t *got);
    /* Never waits. STATUS_OK: *taken bytes of iov are the transport's or the socket's now, perhaps none; count 0: only
     * what the transport has to do itself. STATUS_CLOSED: the peer is gone. */
    status_t (*send)(void *state, int fd, const struct iovec *iov, int count, size_t *taken);
    size_t (*pending)(const void *state);
    uint32_t (*wanted)(const void *state); /* LOOP_READ, LOOP_WRITE */
    void (*close)(void *state, int fd);    /* says goodbye without waiting, frees the state; fd stays open */
} transport_t;

extern const transport_t transport_socket; /* no state */

#endif
