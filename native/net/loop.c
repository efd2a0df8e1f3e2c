/* loop.c: see loop.h. epoll_wait's resolution of a millisecond is mostly enough: whatever has to be faster
 * (acknowledgements, deliveries) wakes the loop through a descriptor. Shorter sleeps are poll's, of epoll's descriptor
 * (epoll_pwait2 is younger than the oldest systems that this runs on). */
#include "net/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

status_t loop_open(loop_t *loop) {
    *loop = (loop_t){.epoll_fd = -1};
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->epoll_fd >= 0 ? STATUS_OK : STATUS_IO;
}

void loop_close(loop_t *loop) {
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    loop->epoll_fd = -1;
}

static status_t loop_control(loop_t *loop, int operation, int fd, uint32_t events, void *tag) {
    struct epoll_event event = {.events = ((events & LOOP_READ) != 0 ? (uint32_t)EPOLLIN : 0u)
                                          | ((events & LOOP_WRITE) != 0 ? (uint32_t)EPOLLOUT : 0u),
                                .data.ptr = tag};
    if (epoll_ctl(loop->epoll_fd, operation, fd, &event) == 0) {
        return STATUS_OK;
    }
    return errno == ENOMEM || errno == ENOSPC ? STATUS_NO_MEMORY : STATUS_INVALID;
}

status_t loop_add(loop_t *loop, int fd, uint32_t events, void *tag) {
    return loop_control(loop, EPOLL_CTL_ADD, fd, events, tag);
}

status_t loop_change(loop_t *loop, int fd, uint32_t events, void *tag) {
    return loop_control(loop, EPOLL_CTL_MOD, fd, events, tag);
}

void loop_remove(loop_t *loop, int fd) {
    /* The descriptor is gone already: that is what the caller wants. */
    status_t status = loop_control(loop, EPOLL_CTL_DEL, fd, 0, NULL);
    (void)status;
}

void loop_buffered(loop_t *loop, loop_buffered_t *buffered, bool in) {
    if (in == (buffered->next != NULL)) {
        return;
    }
    loop_buffered_t *first = loop->buffered;
    if (in) {
        buffered->next = first != NULL ? first : buffered;
        buffered->previous = first != NULL ? first->previous : buffered;
        buffered->previous->next = buffered;
        buffered->next->previous = buffered;
        loop->buffered = first != NULL ? first : buffered;
        loop->buffered_count++;
        return;
    }
    buffered->previous->next = buffered->next;
    buffered->next->previous = buffered->previous;
    if (first == buffered) {
        loop->buffered = buffered->next != buffered ? buffered->next : NULL;
    }
    buffered->next = buffered->previous = NULL;
    loop->buffered_count--;
}

/* At most half of the room: descriptors have theirs, too. A reported one is the last of the next time. */
static uint32_t report_buffered(loop_t *loop, loop_ready_t *ready, uint32_t max) {
    uint32_t most = max - max / 2;
    uint32_t count = loop->buffered_count < most ? loop->buffered_count : most;
    for (uint32_t i = 0; i < count; i++) {
        ready[i] = (loop_ready_t){.tag = loop->buffered->tag, .events = LOOP_READ};
        loop->buffered = loop->buffered->next;
    }
    return count;
}

static int sleep_milliseconds(int64_t sleep_ns) {
    if (sleep_ns < 0) {
        return -1;
    }
    int64_t ms = sleep_ns / NS_PER_MS + (sleep_ns % NS_PER_MS != 0);
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void sleep_shortly(const loop_t *loop, int64_t sleep_ns) {
    struct pollfd poller = {.fd = loop->epoll_fd, .events = POLLIN};
    struct timespec time = {.tv_nsec = (long)sleep_ns};
    (void)!ppoll(&poller, 1, &time, NULL);
}

uint32_t loop_wait(loop_t *loop, int64_t sleep_ns, loop_ready_t *ready, uint32_t max) {
    struct epoll_event events[LOOP_READY_MAX];
    check(max > 0);
    uint32_t buffered = report_buffered(loop, ready, max < LOOP_READY_MAX ? max : LOOP_READY_MAX);
    uint32_t room = (max < LOOP_READY_MAX ? max : LOOP_READY_MAX) - buffered;
    if (room == 0) {
        return buffered;
    }
    ready += buffered;
    if (buffered == 0 && sleep_ns > 0 && sleep_ns < NS_PER_MS) {
        sleep_shortly(loop, sleep_ns);
        sleep_ns = 0;
    }
    int count = epoll_wait(loop->epoll_fd, events, (int)room, buffered != 0 ? 0 : sleep_milliseconds(sleep_ns));
    if (count < 0) {
        check(errno == EINTR);
        return buffered;
    }
    for (int i = 0; i < count; i++) {
        uint32_t from = events[i].events;
        ready[i].tag = events[i].data.ptr;
        ready[i].events = ((from & (uint32_t)EPOLLIN) != 0 ? LOOP_READ : 0u)
                          | ((from & (uint32_t)EPOLLOUT) != 0 ? LOOP_WRITE : 0u)
                          | ((from & (uint32_t)(EPOLLERR | EPOLLHUP)) != 0 ? LOOP_ERROR : 0u);
    }
    return buffered + (uint32_t)count;
}
