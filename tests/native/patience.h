/* patience.h: how long a test waits for another thread and for the disk before it gives up. Only what is broken makes a
 * test wait so long: a disk that many share takes seconds for what is done in microseconds else, and a number of rounds
 * is no time. */
#ifndef LEAFD_TESTS_PATIENCE_H
#define LEAFD_TESTS_PATIENCE_H

#include <stdbool.h>

#include "base/clock.h"

#define PATIENCE_NS (120 * NS_PER_SECOND)

/* for (int64_t until = 0; patient(&until);) ... */
static inline bool patient(int64_t *until) {
    int64_t now_ns = clock_mono_ns();
    *until = *until == 0 ? now_ns + PATIENCE_NS : *until;
    return now_ns < *until;
}

#endif
