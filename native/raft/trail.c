/* trail.c: see trail.h. */
#include "raft/trail.h"

#include <string.h>

#include "base/check.h"

void trail_init(trail_t *trail, raft_index_t base, raft_term_t base_term) {
    *trail = (trail_t){.base = base, .base_term = base_term, .last = base};
}

/* The run of an entry that the log has. */
static uint32_t run_of(const trail_t *trail, raft_index_t index) {
    uint32_t at = trail->count;
    check(index > trail->base);
    check(index <= trail->last);
    while (at > 0 && trail->runs[at - 1].first > index) at--;
    check(at > 0);
    return at - 1;
}

bool trail_term(const trail_t *trail, raft_index_t index, raft_term_t *term) {
    if (index == trail->base) {
        *term = trail->base_term;
        return true;
    }
    if (index < trail->base || index > trail->last) return false;
    *term = trail->runs[run_of(trail, index)].term;
    return true;
}

raft_term_t trail_last_term(const trail_t *trail) {
    return trail->count == 0 ? trail->base_term : trail->runs[trail->count - 1].term;
}

raft_index_t trail_run_end(const trail_t *trail, raft_index_t index) {
    uint32_t at = run_of(trail, index);
    return at + 1 < trail->count ? trail->runs[at + 1].first - 1 : trail->last;
}

raft_index_t trail_conflict(const trail_t *trail, raft_index_t from, raft_index_t upto, raft_term_t term) {
    while (from <= upto) {
        uint32_t at = run_of(trail, from);
        if (trail->runs[at].term != term) return from;
        from = trail_run_end(trail, from) + 1;
    }
    return 0;
}

raft_index_t trail_before(const trail_t *trail, raft_index_t index, raft_term_t term) {
    if (index > trail->last) index = trail->last;
    while (index > trail->base) {
        uint32_t at = run_of(trail, index);
        if (trail->runs[at].term <= term) break;
        index = trail->runs[at].first - 1;
    }
    return index;
}

bool trail_append(trail_t *trail, uint64_t count, raft_term_t term) {
    check(count > 0);
    check(term >= trail_last_term(trail));
    if (trail->count == 0 || trail->runs[trail->count - 1].term != term) {
        if (trail->count == TRAIL_RUNS_MAX) return false;
        trail->runs[trail->count++] = (trail_run_t){.first = trail->last + 1, .term = term};
    }
    trail->last += count;
    return true;
}

void trail_cut(trail_t *trail, raft_index_t index) {
    check(index >= trail->base);
    if (index >= trail->last) return;
    trail->last = index;
    while (trail->count > 0 && trail->runs[trail->count - 1].first > index) trail->count--;
}

void trail_compact(trail_t *trail, raft_index_t index) {
    raft_term_t term;
    if (index <= trail->base) return;
    check(trail_term(trail, index, &term));
    uint32_t gone = 0;
    while (gone < trail->count && trail_run_end(trail, trail->runs[gone].first) <= index) gone++;
    memmove(trail->runs, trail->runs + gone, (size_t)(trail->count - gone) * sizeof trail->runs[0]);
    trail->count -= gone;
    trail->base = index;
    trail->base_term = term;
    if (trail->count > 0 && trail->runs[0].first <= index) trail->runs[0].first = index + 1;
}
