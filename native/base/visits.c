/* visits.c: see visits.h. */
#include "base/visits.h"

#ifdef LEAF_COUNTS_VISITS

static _Thread_local uint64_t visited;

void visits_add(uint64_t elements) {
    visited += elements;
}

uint64_t visits_take(void) {
    uint64_t taken = visited;
    visited = 0;
    return taken;
}

#endif
