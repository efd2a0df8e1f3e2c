/* visits.h: how many elements one turn of the plane goes over, in builds with a sanitizer; elsewhere nothing is
 * counted.
 *
 * A loop over what a peer can make large says visits_add(1) for each element. A turn may visit VISITS_A_TURN_MAX of
 * them, whatever ends in it; beyond that the loop has to go on in a later turn (leftover.h). The tests of ends
 * (tests/native/test_consume_ends.c) judge by it. What it does not count: the loops of the hot path, which have budgets
 * of their own.
 */
#ifndef LEAFD_BASE_VISITS_H
#define LEAFD_BASE_VISITS_H

#include <stdint.h>

#define VISITS_A_TURN_MAX 16384u

#ifdef LEAF_COUNTS_VISITS
void visits_add(uint64_t elements);
uint64_t visits_take(void); /* of this thread since the last call */
#else
static inline void visits_add(uint64_t elements) {
    (void)elements;
}
static inline uint64_t visits_take(void) {
    return 0;
}
#endif

#endif
