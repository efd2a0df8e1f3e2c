/* failing_allocator.h: an allocator in front of the real one, of which a test makes one or some calls fail. Counts
 * either the calls of the thread that asks for it alone, so that the n-th call is the same one in each run, or those of
 * all other threads. Allocations of liblmdb itself do not fail here.
 *
 *     failing_allocations((failing_allocations_t){.from = 3, .times = 1})    the third allocation from now on fails
 *     failing_allocations((failing_allocations_t){0})                        they work again
 *
 * failing_allocations_count() says how many there were since: a test goes on until its n-th was not reached.
 *
 * Of a test whose name ends in _memory the calls come here: it is linked with --wrap (tests/native/meson.build).
 */
#ifndef LEAFD_TESTS_FAILING_ALLOCATOR_H
#define LEAFD_TESTS_FAILING_ALLOCATOR_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct failing_allocations {
    uint64_t from; /* 0: none fails */
    uint64_t times;
    bool others; /* of all threads but the test's */
} failing_allocations_t;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
int __real_posix_memalign(void **to, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
int __wrap_posix_memalign(void **to, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

static _Thread_local bool failing_tests_thread;
static atomic_uint_fast64_t failing_from, failing_times, failing_counted;
static atomic_bool failing_others;

static inline void failing_allocations(failing_allocations_t now) {
    failing_tests_thread = true;
    atomic_store(&failing_from, 0); /* none fails between the next lines */
    atomic_store(&failing_others, now.others);
    atomic_store(&failing_times, now.times);
    atomic_store(&failing_counted, 0);
    atomic_store(&failing_from, now.from);
}

static inline uint64_t failing_allocations_count(void) {
    return atomic_load(&failing_counted);
}

static inline bool failing_allocation(void) {
    if (failing_tests_thread == atomic_load(&failing_others)) {
        return false;
    }
    uint64_t number = atomic_fetch_add(&failing_counted, 1) + 1, from = atomic_load(&failing_from);
    return from != 0 && number >= from && number - from < atomic_load(&failing_times);
}

void *__wrap_malloc(size_t size) {
    return failing_allocation() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
    return failing_allocation() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size) {
    return failing_allocation() ? NULL : __real_realloc(at, size);
}

int __wrap_posix_memalign(void **to, size_t alignment, size_t size) {
    return failing_allocation() ? ENOMEM : __real_posix_memalign(to, alignment, size);
}

char *__wrap_strdup(const char *text) {
    return failing_allocation() ? NULL : __real_strdup(text);
}

#endif
