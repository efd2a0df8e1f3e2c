/* test_raft_all_worlds.c: the worlds of test_raft_worlds.c to their ends. Under the sanitizers, which see their first
 * steps there, it would take three times as long: the core is compiled into this program once more, without them
 * (meson.build).
 */
#include "base/check.c"
#include "raft/elect.c"
#include "raft/follow.c"
#include "raft/member.c"
#include "raft/raft.c"
#include "raft/replicate.c"
#include "raft/rest.c"
#include "raft/trail.c"

#define STEPS_LEFT_OUT 0
#define main all_of_it
#include "test_raft_worlds.c"
#undef main

int main(void) {
    return all_of_it();
}
