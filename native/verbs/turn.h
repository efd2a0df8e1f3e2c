/* turn.h: how much one connection's input may do in a turn of the plane, whatever its protocol is.
 *
 * Not here: what is not to be acted on now because a store or a receiver lags (plane/throttle.h,
 * plane/output.h).
 */
#ifndef LEAFD_VERBS_TURN_H
#define LEAFD_VERBS_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "plane/peer.h"
#include "plane/plane.h"

#define INPUT_TIME_NS (2 * NS_PER_MS) /* of one connection in one turn, however costly its operations are */
#define INPUT_TIME_OPS 64u            /* so many of them between two looks at the clock */

/* The work of the plane so far, in units of about a third of a microsecond: four deliveries, a KB of output, a line of
 * interest for a link, or eight steps of looking for receivers, which are millions where a peer has thousands of deep
 * patterns. */
static inline uint64_t work_done(const plane_t *plane, const uint64_t *steps) {
    return (plane->stats.out_msgs >> 2) + (plane->stats.out_bytes >> 10) + plane->told + (*steps >> 3);
}

/* A few bytes of input may be many deliveries. The rest waits until others had their turn and what was made is written,
 * or until the receivers have caught up: a read's worth of input must not fill a queue that its reader had no chance to
 * empty. */
static inline void turn_yield(plane_t *plane, peer_t *peer) {
    peer->yielded = true;
    if (!peer_waits(peer, WAITS_RECEIVER)) {
        peer_again(plane, peer);
    }
}

/* Work is counted where much of it is usual; operations may be costly in other ways. The clock is first read after some
 * of them, since most inputs are short. */
static inline bool input_takes_long(const plane_t *plane, int64_t *start_ns) {
    if (!plane->threaded) {
        return false;
    }
    int64_t now_ns = clock_mono_ns();
    if (*start_ns == 0) {
        *start_ns = now_ns;
    }
    return now_ns - *start_ns > INPUT_TIME_NS;
}

/* The value of work_done at which the turn ends. The caller takes one off with each operation: the last bits say when
 * so many are over. */
static inline uint64_t turn_end(const plane_t *plane, const uint64_t *steps) {
    return (work_done(plane, steps) + (plane->input_work != 0 ? plane->input_work : INPUT_WORK_MAX))
           | (INPUT_TIME_OPS - 1);
}

static inline bool turn_is_over(const plane_t *plane, const uint64_t *steps, uint64_t until, int64_t *start_ns) {
    return work_done(plane, steps) >= until || (until % INPUT_TIME_OPS == 0 && input_takes_long(plane, start_ns));
}

#endif
