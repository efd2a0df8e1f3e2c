/* visits.h: how much one turn of the plane does, in builds with a sanitizer; elsewhere nothing is counted.
 *
 *     visits    elements that a loop over what a peer can make large goes over, where the loop says so
 *     blocks    of code that ran, whatever they are: the compiler counts them (-fsanitize-coverage=trace-pc). The rig
 *               of the tests judges each step of each test by it, so that a loop that says nothing is seen, too
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
#define VISITS_AN_END_MAX 2048u /* of what merely is to go: a login waits for four or five turns */

#ifdef LEAF_COUNTS_VISITS
void visits_add(uint64_t elements);
uint64_t visits_take(void); /* of this thread since the last call */
uint64_t blocks_take(void); /* the same; 0 where the compiler does not count */
#else
static inline void visits_add(uint64_t elements) {
    (void)elements;
}
static inline uint64_t visits_take(void) {
    return 0;
}
static inline uint64_t blocks_take(void) {
    return 0;
}
#endif

#endif
