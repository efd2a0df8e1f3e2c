/* ring.c: see ring.h for the picture. Each side keeps its own copy of the other side's index and reloads it only when
 * the copy says full (producer) or empty (consumer), so a busy ring moves a cache line between the processors once a
 * batch.
 *
 * No lost wake-up, by the order of four sequentially consistent operations:
 *     producer: exchange tail, then load head          (saw the ring empty before its entry: wake)
 *     consumer: exchange head, then load tail          (the last look before it says "empty")
 * One of the two comes first in the single order; the other side then sees it. Exchanges and not fences, because
 * ThreadSanitizer does not understand fences.
 */
#include "base/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

#define CACHE_LINE 64

struct ring {
    void **slots;
    uint32_t mask;
    int wake_fd;
    /* producer's line */
    _Alignas(CACHE_LINE) _Atomic uint32_t tail;
    uint32_t head_seen;
    /* consumer's line */
    _Alignas(CACHE_LINE) _Atomic uint32_t head;
    uint32_t tail_seen;
};

static ring_t *ring_make(uint32_t size, int wake_fd) {
    check(size > 0);
    check((size & (size - 1)) == 0);
    ring_t *ring = NULL;
    if (wake_fd < 0) {
        return NULL;
    }
    if (posix_memalign((void **)&ring, CACHE_LINE, sizeof *ring) != 0) {
        close(wake_fd);
        return NULL;
    }
    memset(ring, 0, sizeof *ring);
    ring->mask = size - 1;
    ring->wake_fd = wake_fd;
    ring->slots = calloc(size, sizeof *ring->slots);
    if (ring->slots == NULL) {
        ring_free(ring);
        return NULL;
    }
    return ring;
}

ring_t *ring_new(uint32_t size) {
    return ring_make(size, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

ring_t *ring_new_beside(uint32_t size, const ring_t *other) {
    return ring_make(size, fcntl(other->wake_fd, F_DUPFD_CLOEXEC, 0));
}

void ring_free(ring_t *ring) {
    if (ring == NULL) {
        return;
    }
    if (ring->wake_fd >= 0) {
        close(ring->wake_fd);
    }
    free(ring->slots);
    free(ring);
}

status_t ring_push_one(ring_t *ring, void *entry, bool *wake) {
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen > ring->mask) {
            return STATUS_FULL;
        }
    }
    ring->slots[tail & ring->mask] = entry;
    atomic_exchange_explicit(&ring->tail, tail + 1, memory_order_seq_cst);
    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_seq_cst);
    *wake = *wake || ring->head_seen == tail;
    return STATUS_OK;
}

status_t ring_push(ring_t *ring, void *entry) {
    bool wake = false;
    status_t status = ring_push_one(ring, entry, &wake);
    if (wake) {
        ring_wake(ring);
    }
    return status;
}

uint32_t ring_ready(ring_t *ring) {
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        atomic_exchange_explicit(&ring->head, head, memory_order_seq_cst);
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_seq_cst);
    }
    return ring->tail_seen - head;
}

void *ring_pop(ring_t *ring) {
    if (ring_ready(ring) == 0) {
        return NULL;
    }
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    void *entry = ring->slots[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return entry;
}

uint32_t ring_count(const ring_t *ring) {
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
}

int ring_wake_fd(const ring_t *ring) {
    return ring->wake_fd;
}

void ring_clear(ring_t *ring) {
    uint64_t count;
    ssize_t got = read(ring->wake_fd, &count, sizeof count);
    check(got == (ssize_t)sizeof count || errno == EAGAIN || errno == EINTR);
}

void ring_wake(ring_t *ring) {
    uint64_t one = 1;
    ssize_t put = write(ring->wake_fd, &one, sizeof one);
    /* EAGAIN: the counter is at its top, so the consumer has a wake-up waiting already. */
    check(put == (ssize_t)sizeof one || errno == EAGAIN || errno == EINTR);
}
