/* trail.h: the term of each entry of a log, without the entries: runs of entries of one term.
 *
 *     base   runs[0]         runs[1]              last
 *      |     |  term 3 ...   |  term 5 ...          |
 *      7     8               40                     61
 *
 * The entries up to base are gone from the log (they are applied, and in no log any more); base_term is base's. Not
 * here: entries, which are the caller's, and what follows from a term (elect.c, follow.c, replicate.c).
 */
#ifndef LEAFD_RAFT_TRAIL_H
#define LEAFD_RAFT_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t raft_index_t; /* 0: before the first entry */
typedef uint64_t raft_term_t;  /* 0: before the first term */

/* The terms that a log holds at once. Each leader adds one, and what is committed is taken away from the front: to
 * reach it, so many leaders in a row have to commit nothing. */
#define TRAIL_RUNS_MAX 64u

typedef struct trail_run {
    raft_index_t first;
    raft_term_t term;
} trail_run_t;

typedef struct trail {
    raft_index_t base;
    raft_term_t base_term;
    raft_index_t last;
    uint32_t count;
    trail_run_t runs[TRAIL_RUNS_MAX];
} trail_t;

/* An empty log behind an entry. */
void trail_init(trail_t *trail, raft_index_t base, raft_term_t base_term);
/* false: the log has no such entry, or not any more. */
bool trail_term(const trail_t *trail, raft_index_t index, raft_term_t *term);
raft_term_t trail_last_term(const trail_t *trail);
/* The last entry of the run that has `index`, which the log has. */
raft_index_t trail_run_end(const trail_t *trail, raft_index_t index);
/* The first entry from `from` to `upto`, all in the log, whose term is another; 0: none. */
raft_index_t trail_conflict(const trail_t *trail, raft_index_t from, raft_index_t upto, raft_term_t term);
/* The newest index up to `index` at which an entry of `term` or less may stand: the leader of that term looks there. */
raft_index_t trail_before(const trail_t *trail, raft_index_t index, raft_term_t term);
/* False, and nothing changed: entries of one more term have no room. */
bool trail_append(trail_t *trail, uint64_t count, raft_term_t term);
/* Removes the entries behind index. */
void trail_cut(trail_t *trail, raft_index_t index);
/* Removes the entries up to index. */
void trail_compact(trail_t *trail, raft_index_t index);

#endif
