/* window.h: how much a leaf link may have under way, by what it has proven to carry.
 *
 *     peer's queue  --room-->  kernel: unsent, unacknowledged  -->  the peer's kernel
 *     |<- a quarter   ->|      |<-------- one window -------->|
 *
 * The kernel takes megabytes for a link that carries kilobytes a second, and whatever is in its queue is minutes old
 * when it arrives: a command waits behind it, a copy's answers come too late, and all of it is lost with the
 * connection. So a link that is far or slow is given no more than about twice what it has under way at its rate
 * (bandwidth x round trip), beginning with WINDOW_FIRST; the consumers behind it stop when a quarter of a window waits
 * here. A link that is near or fast has no window: nothing is asked or counted for it.
 *
 * The rate is that of the bytes that the peer's kernel acknowledged while something waited. It is also what tells a
 * slow link from a dead one.
 *
 * window_learn is a pure function of what was seen; window.c asks the kernel.
 */
#ifndef LEAFD_PLANE_WINDOW_H
#define LEAFD_PLANE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/tcp.h"

typedef struct plane plane_t;
typedef struct peer peer_t;

#define WINDOW_FIRST (16u * 1024u)
#define WINDOW_MIN (4u * 1024u)
#define WINDOW_MAX (1024u * 1024u)       /* a link that needs more needs none */
#define WINDOW_NEAR_NS (5 * NS_PER_MS)   /* a round trip below this is near: no window, unless it turns out slow */
#define WINDOW_SLOW (256u * 1024u)       /* bytes a second of a near one below which it is slow */
#define WINDOW_LOOK_NS (100 * NS_PER_MS) /* between two looks, at least; and at least a round trip */
#define WINDOW_WAIT_MIN_NS (5 * NS_PER_MS)
#define WINDOW_WAIT_MAX_NS (100 * NS_PER_MS)
#define WINDOW_WAITS_MIN (2u * 1024u)
#define WINDOW_PIECE 1024u                      /* less room than this is none, so that packets are full */
#define WINDOW_PATIENCE_NS (45 * NS_PER_SECOND) /* a link of which nothing is heard or acknowledged for so long .. */
#define WINDOW_AGAIN_NS (5 * NS_PER_SECOND)     /* what is lost is sent again at least so often, .. */
#define WINDOW_AGAIN_TRIPS 3                    /* .. or after so many round trips, if that is longer */
#define WINDOW_HEARD_TRIPS 4                    /* so many may a message wait behind others */
#define WINDOW_PATIENCE_TRIPS 12                /* .. and for so many round trips is dead */

typedef struct window {
    bool measured; /* it is TCP */
    bool narrow;   /* it has a window */
    bool proven;   /* the rate was seen under load */
    bool busy;     /* something waited at the last look */
    bool waits;    /* in plane->narrows */
    uint64_t bytes;
    uint64_t rate; /* bytes a second */
    uint64_t acked;
    int64_t looked_ns;
    int64_t progress_ns; /* when something was acknowledged, or nothing had to be */
    int64_t round_trip_ns;
    int64_t round_trip_min_ns;
} window_t;

/* ---- pure -------------------------------------------------------------------------------------------------------- */

void window_begin(window_t *window, const tcp_look_t *look, int64_t mono_ns);
/* waiting: something waits here or in the kernel. */
void window_learn(window_t *window, const tcp_look_t *look, bool waiting, int64_t mono_ns);
int64_t window_patience_ns(const window_t *window);
/* Nothing was acknowledged for so long that the link is dead. */
bool window_dead(const window_t *window, int64_t write_deadline_ns, int64_t mono_ns);

/* So much may wait here before consumers stop: enough for the time until the next look at the socket. */
static inline uint64_t window_most(const window_t *window) {
    uint64_t quarter = window->bytes / 4;
    return quarter > WINDOW_WAITS_MIN ? quarter : WINDOW_WAITS_MIN;
}

/* ---- of a link --------------------------------------------------------------------------------------------------- */

void window_admitted(plane_t *plane, peer_t *peer);
void window_chores(plane_t *plane, peer_t *peer);
/* Of a narrow one: how many bytes its socket may be given now; 0: none, and it is flushed again when it is time. */
uint64_t window_room(plane_t *plane, peer_t *peer);
/* It was given all that it may have, and more waits. */
void window_wait(plane_t *plane, peer_t *peer);
void window_turn(plane_t *plane); /* those whose time has come are flushed */
void window_forget(plane_t *plane, peer_t *peer);

#endif
