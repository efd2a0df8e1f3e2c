/* budget.c: see budget.h. */
#include "plane/budget.h"

#include <stddef.h>

static uint64_t until(const budget_t *budget, lane_rank_t rank) {
    const uint64_t ranks[LANE_RANKS] = {budget->urgent, budget->high, budget->normal, budget->low};
    return ranks[rank];
}

lane_rank_t budget_lowest(const budget_t *budget, uint64_t wire) {
    lane_rank_t lowest = LANE_LOW;
    while (budget != NULL && lowest != LANE_NONE && wire >= until(budget, lowest)) {
        lowest = lowest == LANE_URGENT ? LANE_NONE : (lane_rank_t)(lowest - 1);
    }
    return lowest;
}

uint64_t budget_room(const budget_t *budget, uint64_t wire) {
    lane_rank_t lowest = budget_lowest(budget, wire);
    if (budget == NULL || lowest == LANE_NONE || until(budget, lowest) == UINT64_MAX) {
        return UINT64_MAX;
    }
    return until(budget, lowest) - wire;
}
