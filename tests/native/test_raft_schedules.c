/* test_raft_schedules.c: 100,000 schedules of test_raft_sim.c. The sanitizers, under which that one runs, would take
 * minutes for so many: the core is compiled into this program once more, without them (meson.build).
 *
 * Of the rules in test_raft_rules.c, the one that is missed least is found missing by schedule 7,483.
 * LEAFD_RAFT_SCHEDULES=n runs n of them.
 */
#include <stdlib.h>

#include "base/check.c"
#include "raft/elect.c"
#include "raft/follow.c"
#include "raft/member.c"
#include "raft/raft.c"
#include "raft/replicate.c"
#include "raft/rest.c"
#include "raft/trail.c"

#define SEEDS 100000
#define main some_schedules
#include "test_raft_sim.c"
#undef main

int main(void) {
    const char *many = getenv("LEAFD_RAFT_SCHEDULES");
    if (many != NULL && setenv("LEAFD_RAFT_SEEDS", many, 1) != 0) return 1;
    return some_schedules();
}
