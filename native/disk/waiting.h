/* waiting.h: how the store's threads wake each other (eventfds) and wait. */
#ifndef LEAFD_DISK_WAITING_H
#define LEAFD_DISK_WAITING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

void thread_wake(int fd);
/* Sleeps until woken; timeout_ms < 0: for good. false: the time is up. */
bool thread_sleep(int fd, int timeout_ms);
int64_t thread_elapsed_ns(void);
/* Waits out a refusal: news do not shorten it, only the end does. */
void thread_back_off(int fd, const _Atomic bool *stop, int ms);

#endif
