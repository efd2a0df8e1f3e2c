/* gaps.c: see gaps.h. */
#include "store/gaps.h"

uint64_t gaps_over(const gaps_t *gaps, uint64_t seq) {
    for (uint32_t i = 0; i < gaps->count; i++) {
        if (seq >= gaps->at[i].from && seq <= gaps->at[i].to) {
            return gaps->at[i].to + 1;
        }
    }
    return seq;
}

uint64_t gaps_back(const gaps_t *gaps, uint64_t seq) {
    for (uint32_t i = 0; i < gaps->count; i++) {
        if (seq >= gaps->at[i].from && seq <= gaps->at[i].to) {
            return gaps->at[i].from - 1;
        }
    }
    return seq;
}

static uint64_t gap_size(gap_t gap) {
    return gap.to - gap.from;
}

void gaps_learn(gaps_t *gaps, uint64_t from, uint64_t to, uint64_t floor) {
    gap_t wide = {.from = from, .to = to};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gaps->count; i++) {
        gap_t gap = gaps->at[i];
        if (gap.to + 1 >= wide.from && gap.from <= wide.to + 1) {
            wide.from = gap.from < wide.from ? gap.from : wide.from;
            wide.to = gap.to > wide.to ? gap.to : wide.to;
        } else if (gap.to >= floor) {
            gaps->at[kept++] = gap;
        }
    }
    gaps->count = kept;
    if (kept < GAPS_MAX) {
        gaps->at[gaps->count++] = wide;
        return;
    }
    uint32_t shortest = 0;
    for (uint32_t i = 1; i < kept; i++) {
        shortest = gap_size(gaps->at[i]) < gap_size(gaps->at[shortest]) ? i : shortest;
    }
    if (gap_size(gaps->at[shortest]) < gap_size(wide)) {
        gaps->at[shortest] = wide;
    }
}
