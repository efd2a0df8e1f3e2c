/* groups_faults.h: reads of LMDB and allocations that fail, one or some in a row, at each place of what servers of a
 * world of groups (groups_world.h) do, for the C tests of groups.
 */
#ifndef LEAFD_TESTS_GROUPS_FAULTS_H
#define LEAFD_TESTS_GROUPS_FAULTS_H

#include "failing_allocator.h"
#include "failing_reads.h"
#include "groups_world.h"

#define PLACES_MAX 100000

typedef struct fault {
    bool reads; /* else allocations */
    unsigned times;
} fault_t;

static const fault_t faults[] = {{true, 1}, {true, 40}, {false, 1}, {false, 25}};

static inline void fail_from(fault_t fault, unsigned n) {
    if (fault.reads) {
        failing_reads((failing_reads_t){.from = n, .times = fault.times, .error = EIO});
    } else {
        failing_allocations((failing_allocations_t){.from = n, .times = fault.times});
    }
}

static inline unsigned counted(fault_t fault) {
    return fault.reads ? failing_reads_count() : (unsigned)failing_allocations_count();
}

static inline void heal(void) {
    failing_reads((failing_reads_t){0});
    failing_allocations((failing_allocations_t){0});
}

/* Every place at first, then fewer: what is far behind does the same again. */
static inline void at_each_place(unsigned (*run)(fault_t fault, unsigned n), unsigned thin) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        unsigned n = 1;
        while (run(faults[i], n) >= n) {
            n += 1 + n / thin;
            CHECK(n < PLACES_MAX);
        }
        CHECK(n > 1);
    }
}

#endif
