/* test_raft_schedules.c: a hundred thousand schedules of test_raft_sim.c. The sanitizers, under which that one runs,
 * would take minutes for so many: the core is compiled into this program once more, without them (meson.build).
 */
#include "base/check.c"
#include "raft/elect.c"
#include "raft/follow.c"
#include "raft/member.c"
#include "raft/raft.c"
#include "raft/replicate.c"
#include "raft/trail.c"

#define SEEDS 100000
#define main some_schedules
#include "test_raft_sim.c"
#undef main

int main(void) {
    return some_schedules();
}
