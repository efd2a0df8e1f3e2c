/* clock.c: the only place that asks the operating system for the time. */
#include "base/clock.h"

#include <time.h>

#include "base/check.h"

static int64_t read_clock(clockid_t which) {
    struct timespec at;
    check(clock_gettime(which, &at) == 0);
    return (int64_t)at.tv_sec * NS_PER_SECOND + (int64_t)at.tv_nsec;
}

int64_t clock_mono_ns(void) {
    return read_clock(CLOCK_BOOTTIME);
}

moment_t clock_now(void) {
    /* BOOTTIME and not MONOTONIC: a box that slept has aged its messages while it slept. */
    return (moment_t){.mono_ns = read_clock(CLOCK_BOOTTIME), .wall_ns = read_clock(CLOCK_REALTIME)};
}
