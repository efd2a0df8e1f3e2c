/* turn.h: how much one connection's input may do in a turn of the plane, whatever its protocol is.
 *
 * Not here: what is not to be acted on now because a store or a receiver lags (plane/throttle.h,
 * plane/output.h).
 */
#ifndef LEAFD_VERBS_TURN_H
#define LEAFD_VERBS_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/clock.h"
#include "plane/backlog.h"
#include "plane/peer.h"
#include "plane/plane.h"

#define INPUT_TIME_NS (2 * NS_PER_MS) /* of one connection in one turn, however costly its operations are */
#define INPUT_TIME_OPS 64u            /* so many of them between two looks at the clock, .. */
#define INPUT_TIME_WORK 256u          /* .. or so much of what they do: one may be a thousand deliveries */
#define INPUT_OP (INPUT_TIME_WORK / INPUT_TIME_OPS)

/* How far one input may go. */
typedef struct turn {
    const uint64_t *steps; /* of looking for receivers */
    uint64_t end;          /* work_done, when the turn is over .. */
    uint64_t look;         /* .. and when the clock is to be looked at; less with each operation */
    int64_t start_ns;      /* of the first look; 0: there was none */
} turn_t;

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
    backlog_yield(plane, peer);
    if (!peer_waits(peer, WAITS_RECEIVER)) {
        backlog_add(plane, peer);
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

static inline turn_t turn_begin(const plane_t *plane, const uint64_t *steps) {
    uint64_t done = work_done(plane, steps);
    return (turn_t){.steps = steps,
                    .end = done + (plane->input_work != 0 ? plane->input_work : INPUT_WORK_MAX),
                    .look = done + INPUT_TIME_WORK};
}

/* An operation is over: is the turn? */
static inline bool turn_is_over(const plane_t *plane, turn_t *turn) {
    uint64_t done = work_done(plane, turn->steps);
    turn->look -= INPUT_OP;
    if (LEAF_LIKELY(done < turn->look && done < turn->end)) {
        return false;
    }
    turn->look = done + INPUT_TIME_WORK;
    return done >= turn->end || input_takes_long(plane, &turn->start_ns);
}

#endif
