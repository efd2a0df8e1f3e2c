/* test_groups_copies.c: a member that lacks entries which no log has any more gets a copy of the state (group/copy.c):
 * one that was away for long, one that had no room, a new one. What they are there in the end: groups_world.h.
 */
#include "groups_acts.h"

/* Beyond a quarter of the budget nothing is kept. Who lacks it gets a copy of what came of it, and the log behind it.
 */
static void too_long_away(void) {
    begin(3);
    uint32_t leader = world_leader(0);
    uint32_t away = others_of(leader, 1);
    node_kill(away);
    propose_some(100, 4000);
    world_until(all_answered);
    world_pass(6 * NS_PER_SECOND);
    leader = world_leader(0);
    CHECK(group_look(world.node[leader].group[0], world.now).floor > 0);
    node_start(away);
    world.node[away].refuses = true; /* it has no room yet */
    world_pass(4 * NS_PER_SECOND);
    leader = world_leader(0);
    group_look_t look = group_look(world.node[leader].group[0], world.now);
    CHECK(look.members[away].copies);
    CHECK(!look.members[others_of(away, 1)].copies && !look.members[others_of(away, 2)].copies);
    CHECK(look.members[away].lag > 0);
    CHECK_EQ_U64(0, group_applied(world.node[away].group[0]) / 100);
    propose_some(10, 8);
    world_until(all_answered);
    CHECK_EQ_U64(110, world.answered + world.lost);
    CHECK_EQ_U64(0, world.copies);
    world.node[away].refuses = false;
    world_until(all_level);
    CHECK_EQ_U64(1, world.copies);
    CHECK_EQ_U64(0, rig_state(world.node[away].stream[0]).messages);
    propose_some(10, 8);
    /* What it has by a copy it has after a kill, and it may lead. */
    node_kill(away);
    node_start(away);
    world_until(all_level);
    node_kill(others_of(away, 1));
    world_until(all_lead);
    propose_some(10, 8);
    world_agree();
    CHECK_EQ_U64(1, world.copies);
    CHECK_EQ_U64(20, rig_state(world.node[away].stream[0]).messages);
    world_end();
}

/* A server that comes when the log's beginning is gone; its copy is as large as a batch takes. */
static void new_member_gets_a_copy(void) {
    begin_with_others(4, 29);
    world.state_size = 200000;
    world_until(all_lead);
    propose_some(600, 100);
    world_until(all_answered);
    world_pass(7 * NS_PER_SECOND);
    CHECK(group_look(world.node[world_leader(0)].group[0], world.now).floor > 500);
    change_until(RAFT_LEARN, 3);
    propose_some(50, 100); /* behind what the copy has */
    world.loss = 300;
    change_until(RAFT_PROMOTE, 3);
    world.loss = 0;
    CHECK(world.copies >= 1);
    world_agree();
    CHECK_EQ_U64(4, group_look(world.node[3].group[0], world.now).count);
    world_end();
}

/* A server whose store has no room applies later, and the others do not wait for it. */
static void room_at_one(void) {
    begin(3);
    uint32_t full = others_of(world_leader(0), 1);
    world.node[full].refuses = true;
    propose_some(1500, 200); /* more than a ledger may take: 256 KiB */
    world_until(all_answered);
    CHECK_EQ_U64(1500, world.answered + world.lost);
    CHECK_EQ_U64(0, rig_state(world.node[full].stream[0]).messages);
    CHECK_EQ_I64(GROUP_WAITS, group_state(world.node[full].group[0]));
    /* Of what it has no room for it is sent no more than one message takes with each beat. */
    uint64_t bytes = world.frame_bytes;
    world_pass(2 * NS_PER_SECOND);
    CHECK(group_look(world.node[world_leader(0)].group[0], world.now).members[full].lag > 200);
    CHECK(world.frame_bytes - bytes <= 11 * (RAFT_ENTRIES_MAX * UINT64_C(220) + 4096));
    world.node[full].refuses = false;
    world_pass(3 * NS_PER_SECOND);
    world_agree();
    world_end();
}

/* A member that goes on, but later than a second, holds up nobody for longer than that. */
static void slow_at_one(void) {
    begin(3);
    uint32_t leader = world_leader(0);
    uint32_t slow = others_of(leader, 1);
    world.node[slow].slow = 400;
    int64_t began_ns = world.now.mono_ns;
    int64_t since_ns = began_ns;
    int64_t longest_ns = 0;
    while (world.now.mono_ns - began_ns < 10 * NS_PER_SECOND) {
        uint64_t before = world.answered;
        for (int i = 0; i < 2 && world_propose(leader, 0, 4000); i++) {
        }
        world_step();
        since_ns = world.answered != before ? world.now.mono_ns : since_ns;
        int64_t waits_ns = world.now.mono_ns - since_ns;
        longest_ns = waits_ns > longest_ns ? waits_ns : longest_ns;
    }
    CHECK(longest_ns < 3 * NS_PER_SECOND / 2);
    CHECK(world.answered > 1000);
    world.node[slow].slow = 0;
    world_until(all_level);
    world_agree();
    world_end();
}

static uint32_t leaders[2];

static bool led_apart(void) {
    uint32_t first = world_leader(0);
    uint32_t second = world_leader(1);
    if (first == world.nodes || second == world.nodes) {
        return false;
    }
    if (first == second) {
        (void)group_transfer(world.node[first].group[1], world.node[others_of(first, 1)].id, world.now);
        groups_stir(world.node[first].groups, world.node[first].group[1]);
    }
    leaders[0] = first;
    leaders[1] = second;
    return first != second;
}

/* Each of two servers fills its ledger with what it leads before it hears of the other. Each has room for the other's
 * all the same, or nothing would be committed until the third is back. */
static void two_leaders_fill_their_ledgers(void) {
    world_begin(3, 2, 17);
    world_until(led_apart);
    node_kill(3 - leaders[0] - leaders[1]);
    for (int round = 0; round < 2; round++) {
        world.cut[leaders[0]][leaders[1]] = world.cut[leaders[1]][leaders[0]] = true;
        for (int steps = 0; steps < 20; steps++) {
            for (uint32_t group = 0; group < 2; group++) {
                while (world_propose(leaders[group], group, 4000)) {
                }
            }
            world_step();
        }
        memset(world.cut, 0, sizeof world.cut);
        world_until(all_answered);
        world_pass(6 * NS_PER_SECOND); /* entries are not kept for the third */
        world_until(led_apart);
    }
    CHECK(world.answered >= 100);
    world_agree();
    world_end();
}

int main(void) {
    RUN("what a member lacks is not kept beyond a quarter of the budget: it gets a copy", too_long_away);
    RUN("a member that comes when the log's beginning is gone gets a copy, and the log behind it",
        new_member_gets_a_copy);
    RUN("a member without room applies later, and the others do not wait", room_at_one);
    RUN("a member that is a second behind holds up nobody for longer", slow_at_one);
    RUN("two leaders fill their ledgers at once while the third is away, and go on", two_leaders_fill_their_ledgers);
    return TEST_RESULT();
}
