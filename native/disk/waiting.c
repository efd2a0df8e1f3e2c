/* waiting.c: see waiting.h. */
#include "disk/waiting.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

void thread_wake(int fd) {
    uint64_t one = 1;
    ssize_t put = write(fd, &one, sizeof one);
    check(put == (ssize_t)sizeof one || errno == EAGAIN || errno == EINTR);
}

/* Sleeps until woken; timeout_ms < 0: for good. false: the time is up. */
bool thread_sleep(int fd, int timeout_ms) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int woken = poll(&poller, 1, timeout_ms);
    if (woken > 0) {
        uint64_t count;
        ssize_t got = read(fd, &count, sizeof count);
        check(got == (ssize_t)sizeof count || errno == EAGAIN || errno == EINTR);
    }
    return woken != 0;
}

int64_t thread_elapsed_ns(void) {
    struct timespec at;
    check(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Waits out a refusal: news do not shorten it, only the end does. */
void thread_back_off(int fd, const _Atomic bool *stop, int ms) {
    int64_t until = thread_elapsed_ns() + (int64_t)ms * 1000000;
    for (int64_t left = until - thread_elapsed_ns(); left > 0; left = until - thread_elapsed_ns()) {
        if (atomic_load_explicit(stop, memory_order_acquire)) {
            return;
        }
        thread_sleep(fd, (int)(left / 1000000) + 1);
    }
}
