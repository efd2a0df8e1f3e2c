/* test_ring.c: the ring between two threads: order, bounds, and no lost wake-up. Run under ThreadSanitizer too. */
#include "base/ring.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "test.h"

#define ENTRIES 200000u

static void *entry_of(uintptr_t number) {
    return (void *)number;
}

static bool wakes(const ring_t *ring) {
    struct pollfd waiting = {.fd = ring_wake_fd(ring), .events = POLLIN};
    return poll(&waiting, 1, 0) == 1;
}

static void keeps_order_and_bound(void) {
    ring_t *ring = ring_new(4);
    CHECK(ring != NULL);
    CHECK(ring_pop(ring) == NULL);
    for (uintptr_t lap = 0; lap < 10; lap++) {
        for (uintptr_t i = 1; i <= 4; i++) {
            CHECK_EQ_I64(STATUS_OK, ring_push(ring, entry_of(lap * 4 + i)));
        }
        CHECK_EQ_I64(STATUS_FULL, ring_push(ring, entry_of(999)));
        CHECK_EQ_U64(4, ring_count(ring));
        for (uintptr_t i = 1; i <= 4; i++) {
            CHECK(ring_pop(ring) == entry_of(lap * 4 + i));
        }
        CHECK(ring_pop(ring) == NULL);
        CHECK_EQ_U64(0, ring_count(ring));
    }
    ring_free(ring);
}

static void wakes_only_from_empty(void) {
    ring_t *ring = ring_new(8);
    CHECK(ring != NULL);
    CHECK(!wakes(ring));
    CHECK_EQ_I64(STATUS_OK, ring_push(ring, entry_of(1)));
    CHECK(wakes(ring));
    ring_clear(ring);
    CHECK_EQ_I64(STATUS_OK, ring_push(ring, entry_of(2)));
    CHECK(!wakes(ring));
    CHECK(ring_pop(ring) == entry_of(1));
    CHECK(ring_pop(ring) == entry_of(2));
    CHECK(ring_pop(ring) == NULL);
    CHECK_EQ_I64(STATUS_OK, ring_push(ring, entry_of(3)));
    CHECK(wakes(ring));
    ring_clear(ring);
    CHECK(!wakes(ring));
    ring_wake(ring);
    CHECK(wakes(ring));
    ring_free(ring);
}

static void *produce(void *argument) {
    ring_t *ring = argument;
    for (uintptr_t i = 1; i <= ENTRIES; i++) {
        while (ring_push(ring, entry_of(i)) == STATUS_FULL) {
            sched_yield();
        }
    }
    return NULL;
}

static void two_threads_lose_nothing(void) {
    ring_t *ring = ring_new(64);
    CHECK(ring != NULL);
    pthread_t producer;
    CHECK(pthread_create(&producer, NULL, produce, ring) == 0);
    uintptr_t expected = 1;
    while (expected <= ENTRIES) {
        /* A lost wake-up shows as this poll running out of time. */
        struct pollfd waiting = {.fd = ring_wake_fd(ring), .events = POLLIN};
        CHECK(poll(&waiting, 1, 20000) == 1);
        ring_clear(ring);
        void *entry;
        while ((entry = ring_pop(ring)) != NULL) {
            CHECK(entry == entry_of(expected));
            expected++;
        }
    }
    CHECK(pthread_join(producer, NULL) == 0);
    CHECK_EQ_U64(0, ring_count(ring));
    ring_free(ring);
}

static void free_of_nothing_is_fine(void) {
    ring_free(NULL);
    CHECK(true);
}

int main(void) {
    RUN("entries come out in the order they went in, and a full ring refuses without harm", keeps_order_and_bound);
    RUN("the consumer is woken by the first entry into an empty ring and by nothing in between", wakes_only_from_empty);
    RUN("between two threads every entry arrives once, in order, and no wake-up is lost", two_threads_lose_nothing);
    RUN("freeing no ring does nothing", free_of_nothing_is_fine);
    return TEST_RESULT();
}
