/* failing_place.h: which place fails in a scene that is played again and again: the n-th read of LMDB, or the n-th
 * allocation. A scene that is played without a fault says how many places there are (counted()).
 *
 * Not here: what a scene is, and which places are tried (each test); faults in a store's own threads (store_faults.h).
 */
#ifndef LEAFD_TESTS_FAILING_PLACE_H
#define LEAFD_TESTS_FAILING_PLACE_H

#include "failing_allocator.h"
#include "failing_reads.h"

typedef enum fault { READ, ALLOCATION, FAULTS } fault_t;

static const char *const fault_names[] = {"read", "allocation"};
static fault_t fault;
static unsigned failing_at;

#define PLACE_CHECK(scene_name, condition)                                                                             \
    do {                                                                                                               \
        if (!(condition)) FAIL("%s, %s %u fails: %s", scene_name, fault_names[fault], failing_at, #condition);         \
    } while (0)

static inline void fail_from(unsigned n, unsigned times) {
    failing_at = n;
    if (fault == READ) {
        failing_reads((failing_reads_t){.from = n, .times = times, .error = EIO});
    } else {
        failing_allocations((failing_allocations_t){.from = n, .times = times});
    }
}

static inline unsigned counted(void) {
    return fault == READ ? failing_reads_count() : (unsigned)failing_allocations_count();
}

static inline void heal(void) {
    failing_reads((failing_reads_t){0});
    failing_allocations((failing_allocations_t){0});
}

#endif
