/* loop.h: a thin layer over epoll: which descriptors are ready. Level-triggered: what is not handled in this tick is
 * reported again in the next one, so a tick may stop anywhere. Timers are the caller's: it passes how long it may
 * sleep.
 *
 * One tick of the plane looks like this:
 *     count = loop_wait(loop, sleep_ns, ready, LOOP_READY_MAX);
 *     for each ready: tag is the listener's: listener_accept(); a ring's: ring_clear(), drain; a connection's:
 *         LOOP_WRITE: conn_flush();  LOOP_READ: conn_read(), parse and act, conn_keep(); see conn_ready()
 *     at the end of the tick, for each connection that got something queued: conn_flush()
 */
#ifndef LEAFD_NET_LOOP_H
#define LEAFD_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define LOOP_READY_MAX 256

#define LOOP_READ 1u
#define LOOP_WRITE 2u
#define LOOP_ERROR 4u /* error or hang-up: reported whether asked for or not; a read tells which */

/* Input that a transport holds and epoll does not know of. Reported as LOOP_READ in each tick while it is in, as a
 * descriptor is that stays readable. */
typedef struct loop_buffered {
    void *tag;
    struct loop_buffered *next; /* a ring of all that are in; NULL = not in */
    struct loop_buffered *previous;
} loop_buffered_t;

typedef struct loop {
    int epoll_fd;
    uint32_t buffered_count;
    loop_buffered_t *buffered; /* the next one to be reported */
} loop_t;

typedef struct loop_ready {
    void *tag;
    uint32_t events; /* LOOP_* */
} loop_ready_t;

LEAF_MUST_USE status_t loop_open(loop_t *loop);
void loop_close(loop_t *loop);

/* tag comes back in loop_ready_t; it has to outlive the registration. */
LEAF_MUST_USE status_t loop_add(loop_t *loop, int fd, uint32_t events, void *tag);
LEAF_MUST_USE status_t loop_change(loop_t *loop, int fd, uint32_t events, void *tag);
void loop_remove(loop_t *loop, int fd);
/* Puts it in or takes it out; again in, or again out, changes nothing. It has to stay where it is while it is in. */
void loop_buffered(loop_t *loop, loop_buffered_t *buffered, bool in);

/* Sleeps until something is ready (not at all while something is buffered) or sleep_ns passed (0 = only look, negative
 * = no limit; above a millisecond rounded up to whole ones). Returns how many, at most max and LOOP_READY_MAX. */
uint32_t loop_wait(loop_t *loop, int64_t sleep_ns, loop_ready_t *ready, uint32_t max);

#endif
