/* groups_acts.h: what the C tests of groups do with a world of them (groups_world.h): proposals, cuts, members.
 */
#ifndef LEAFD_TESTS_GROUPS_ACTS_H
#define LEAFD_TESTS_GROUPS_ACTS_H

#include "groups_world.h"

static uint32_t killed;

static inline bool nothing_to_apply(void *context, raft_index_t index, bytes_t bytes) {
    (void)context;
    (void)index;
    (void)bytes;
    return true;
}

static inline bool lead_elsewhere(void) {
    uint32_t leader = world_leader(0);
    return leader != world.nodes && leader != killed;
}

static inline bool all_answered(void) {
    return world.answered + world.lost == world.tokens;
}

static inline uint32_t others_of(uint32_t at, uint32_t nth) {
    return (at + nth) % world.nodes;
}

static inline void cut_off(uint32_t at) {
    for (uint32_t other = 0; other < world.nodes; other++) {
        world.cut[at][other] = world.cut[other][at] = other != at;
    }
}

static inline void begin(uint32_t nodes) {
    world_begin(nodes, 1, 11 + nodes);
    world_until(all_lead);
}

static inline void propose_some(uint32_t count, uint32_t size) {
    int64_t until_ns = world.now.mono_ns + 60 * NS_PER_SECOND;
    while (count > 0) {
        uint32_t leader = world_leader(0);
        if (leader != world.nodes && world_propose(leader, 0, size)) {
            count--;
        } else {
            if (world.now.mono_ns > until_ns) {
                world_show();
                FAIL("%u more are not taken", count);
            }
            world_step();
        }
    }
}

/* Three founders, and the others wait until a leader lets them in. */
static inline void begin_with_others(uint32_t nodes, uint64_t seed) {
    world_begin(nodes, 0, seed);
    world.groups = 1;
    world.founders.count = 3;
    for (uint32_t at = 0; at < nodes; at++) {
        node_down(at);
        raft_config_t founders = world.founders;
        world.founders.count = at < 3 ? 3 : 0;
        node_begin(at);
        world.founders = founders;
    }
}

static inline bool change(raft_change_t what, uint32_t at) {
    uint32_t leader = world_leader(0);
    if (leader == world.nodes || !group_alter(world.node[leader].group[0], what, world.node[at].id, world.now)) {
        return false;
    }
    groups_stir(world.node[leader].groups, world.node[leader].group[0]);
    return true;
}

static inline void change_until(raft_change_t what, uint32_t at) {
    int64_t until_ns = world.now.mono_ns + 20 * NS_PER_SECOND;
    while (!change(what, at)) {
        CHECK(world.now.mono_ns < until_ns);
        world_step();
    }
}

#endif
