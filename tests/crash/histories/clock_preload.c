/* clock_preload.c: for LD_PRELOAD: the wall clock of one process, which steps. The file that LEAFD_CLOCK names has by
 * how many nanoseconds it is ahead: 8 bytes, in this machine's order. They are read at each look at the clock. Clocks
 * of elapsed time are what they are. Not here: when it steps (tests/crash/histories/cluster.py).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile int64_t *ahead_ns;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void clock_begin(void) {
    const char *path = getenv("LEAFD_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead_ns, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        abort(); /* a test that believes in steps is not to go on without them */
    }
    ahead_ns = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (real_gettime == NULL) {
        real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int status = real_gettime(clock, now);
    if (status == 0 && ahead_ns != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * SECOND_NS + now->tv_nsec + *ahead_ns;
        *now = (struct timespec){.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};
    }
    return status;
}

time_t time(time_t *out) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec read;
    int status = clock_gettime(CLOCK_REALTIME, &read);
    *now = (struct timeval){.tv_sec = read.tv_sec, .tv_usec = read.tv_nsec / 1000};
    return status;
}
