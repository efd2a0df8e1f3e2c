/* listen.h: taking connections off a listening socket, a bounded number in a tick, also when descriptors run out.
 *
 * When the process has no descriptor left, a spare one is given up to take the connection and close it at once:
 * otherwise it would stay in the backlog and epoll would report it for ever.
 */
#ifndef LEAFD_NET_LISTEN_H
#define LEAFD_NET_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define LISTEN_ACCEPT_MAX 64 /* a tick */
#define LISTEN_PEER_SIZE 64

typedef struct listener {
    int fd;
    int spare_fd;
    bool inherited;   /* it had the options of a connection before it was given to us, so each accepted one has them */
    uint64_t refused; /* connections closed for want of descriptors */
} listener_t;

/* Takes over a listening socket (makes it non-blocking). Address reuse was set where it was bound. */
LEAF_MUST_USE status_t listener_open(listener_t *listener, int fd);
void listener_close(listener_t *listener);

/* The next connection: non-blocking, close-on-exec, no delay; peer as "host:port" ("[v6]:port"). STATUS_AGAIN: none
 * waits; STATUS_FULL: no descriptors, one connection was refused (go on calling); STATUS_IO: the listener itself is
 * broken. */
LEAF_MUST_USE status_t listener_accept(listener_t *listener, int *fd, char peer[LISTEN_PEER_SIZE]);

/* For a socket that came another way (dialled by control): the same options, and its peer. */
LEAF_MUST_USE status_t listen_adopt(int fd, char peer[LISTEN_PEER_SIZE]);

#endif
