/* ring.h: a bounded ring of pointers between exactly one producer thread and one consumer thread, with an eventfd.
 *
 *        producer writes slots[tail % size], then tail+1 (release)
 *        consumer reads slots[head % size] after loading tail (acquire), then head+1 (release)
 *
 * The consumer sleeps on the eventfd; the producer writes to it only when the ring may have been empty, so a busy ring
 * costs no system calls. Ownership of what an entry points to travels with the entry.
 */
#ifndef LEAFD_BASE_RING_H
#define LEAFD_BASE_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ring ring_t;

/* size: entries, a power of two. NULL: no memory, or no eventfd. */
ring_t *ring_new(uint32_t size);
/* A ring that wakes its consumer by the eventfd of `other`, so that the consumer of both sleeps on one descriptor.
 * ring_clear of either clears both. */
ring_t *ring_new_beside(uint32_t size, const ring_t *other);
void ring_free(ring_t *ring); /* NULL is allowed; entries that are still in the ring are not released */

/* Producer: STATUS_FULL leaves the ring as it was. */
LEAF_MUST_USE status_t ring_push(ring_t *ring, void *entry);
/* Likewise, as one of several: *wake says afterwards whether the consumer has to be woken (ring_wake) for any. */
LEAF_MUST_USE status_t ring_push_one(ring_t *ring, void *entry, bool *wake);

/* Consumer: the oldest entry, or NULL when there is none. */
void *ring_pop(ring_t *ring);

/* Consumer: how many it can pop; after 0 the next push wakes it. */
uint32_t ring_ready(ring_t *ring);

uint32_t ring_count(const ring_t *ring); /* entries inside, exact for the calling side's own view */

/* The eventfd to poll for reading; the consumer calls ring_clear before it drains, so that no wake-up is lost. */
int ring_wake_fd(const ring_t *ring);
void ring_clear(ring_t *ring);
void ring_wake(ring_t *ring); /* producer: wake the consumer without an entry (stop requests) */

#endif
