/* found_seqs.c: see found_seqs.h. Sorting only when the array is full keeps the cost of one sequence low, also where
 * filters overlap and each is found many times. */
#include "jetstream/found_seqs.h"

#include <stdlib.h>

static int numbers_order(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

bool found_seqs_settle(found_seqs_t *found) {
    qsort(found->seqs, found->count, sizeof(*found->seqs), numbers_order);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < found->count; i++) {
        if (distinct == 0 || found->seqs[i] != found->seqs[distinct - 1]) {
            found->seqs[distinct++] = found->seqs[i];
        }
    }
    found->count = distinct;
    return distinct <= FOUND_SEQS_MAX;
}

bool found_seqs_add(found_seqs_t *found, uint64_t seq) {
    if (found->count == 2 * FOUND_SEQS_MAX && !found_seqs_settle(found)) {
        return false;
    }
    found->seqs[found->count++] = seq;
    return true;
}

uint32_t found_seqs_below(const found_seqs_t *found, uint64_t seq) {
    uint32_t below = 0;
    while (below < found->count && found->seqs[below] < seq) {
        below++;
    }
    return below;
}
