/* clock.h: the two times of the daemon, always passed in, never asked for inside a sans-IO room.
 *
 * mono_ns  elapsed time since an arbitrary start (CLOCK_BOOTTIME): age limits, ack waits, back-offs, heartbeats
 * wall_ns  Unix time in nanoseconds (CLOCK_REALTIME), for stamps that people read; may step in either direction
 */
#ifndef LEAFD_BASE_CLOCK_H
#define LEAFD_BASE_CLOCK_H

#include <stdint.h>

typedef struct moment {
    int64_t mono_ns;
    int64_t wall_ns;
} moment_t;

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* Reads both clocks. Only drivers (plane/threads, net/loop) and tests call this. */
moment_t clock_now(void);

/* Reads mono_ns alone, for a driver that measures how long it takes itself. */
int64_t clock_mono_ns(void);

#endif
