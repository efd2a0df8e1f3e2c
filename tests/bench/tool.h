/* tool.h: what each program of the bench does in the same way: it gives up with a line that says why, and reads the
 * clock. Not here: connections (load/client.h, boxes/boxes.h). */
#ifndef LEAFD_BENCH_TOOL_H
#define LEAFD_BENCH_TOOL_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Noreturn static inline __attribute__((format(printf, 1, 2))) void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* Of the monotonic clock. */
static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
