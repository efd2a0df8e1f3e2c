/* test_groups_alone.c: a member whose group lost its majority for good goes on alone under another name
 * (group/survivor.c): what its disk has of the log is carried out, and nothing that the others say, when they come
 * back, reaches it.
 */
#include "groups_acts.h"

#define ANOTHER 900u

static uint32_t stays;

static group_t *the_group(void) {
    return world.node[stays].group[0];
}

static bool goes_on(void) {
    return groups_alone(world.node[stays].groups, the_group(), ANOTHER, world.now) == STATUS_OK;
}

static bool is_alone(void) {
    return group_name(the_group()) == ANOTHER || goes_on();
}

static bool leads_alone(void) {
    return group_newest(the_group(), world.now);
}

/* Not the world's: its groups have the names that they began with. */
static void start_anew(void) {
    node_t *node = &world.node[stays];
    node->rig.now = world.now;
    rig_start(&node->rig);
    const groups_hooks_t hooks = {.context = node, .reaches = world_reaches, .deliver = world_deliver};
    CHECK_EQ_I64(STATUS_OK, groups_open(node->rig.store, stays + 1, hooks, &node->groups));
    node->stream[0] = rig_stream(&node->rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, groups_load(node->groups, world_options(stays, 0), world.now, &node->group[0]));
    node->up = true;
}

/* Entries that only this disk has: the others are gone before they hear of them. */
static void lose_the_others(bool leader_stays) {
    begin(3);
    propose_some(50, 100);
    world_until(all_answered);
    world_until(all_level);
    uint32_t leader = world_leader(0);
    stays = leader_stays ? leader : others_of(leader, 1);
    node_kill(others_of(stays, 1));
    node_kill(others_of(stays, 2));
}

static void members_and_name(void) {
    group_look_t look = group_look(the_group(), world.now);
    CHECK_EQ_U64(ANOTHER, look.name);
    CHECK_EQ_U64(1, look.count);
    CHECK(same_disk(look.members[0].member.id, world.node[stays].id));
    CHECK(look.members[0].member.voter);
    CHECK(groups_named(world.node[stays].groups, ANOTHER) == the_group());
    CHECK(groups_named(world.node[stays].groups, 500) == NULL);
}

static void a_follower_goes_on(void) {
    lose_the_others(false);
    world_until(goes_on);
    world_until(leads_alone);
    members_and_name();
    CHECK_EQ_U64(50, rig_state(world.node[stays].stream[0]).messages);
    CHECK(world_propose(stays, 0, 100));
    world_until(all_answered);
    CHECK_EQ_U64(51, rig_state(world.node[stays].stream[0]).messages);
    world_end();
}

/* What it had proposed before nobody has agreed on. It is carried out: somebody may have been answered. */
static void a_leaders_own_entries_are_carried_out(void) {
    lose_the_others(true);
    for (int i = 0; i < 5; i++) {
        CHECK(world_propose(stays, 0, 100));
    }
    world_pass(20 * NS_PER_MS);
    CHECK_EQ_U64(50, rig_state(world.node[stays].stream[0]).messages);
    CHECK(!goes_on()); /* it leads, as far as it knows */
    world_until(goes_on);
    world_until(leads_alone);
    CHECK_EQ_U64(55, rig_state(world.node[stays].stream[0]).messages);
    world_end();
}

/* They elect one of themselves, since they know of nothing, and take more; this one hears none of it. */
static void those_that_come_back_are_strangers(void) {
    lose_the_others(false);
    world_until(goes_on);
    world_until(leads_alone);
    world.node[stays].up = false; /* for the world's own judgement of leads: there are two groups now */
    node_start(others_of(stays, 1));
    node_start(others_of(stays, 2));
    world.node[stays].up = true;
    uint64_t unknown = groups_stats(world.node[stays].groups).unknown;
    raft_term_t term = group_look(the_group(), world.now).term;
    for (int i = 0; i < 200; i++) {
        world_carry();
        for (uint32_t at = 0; at < world.nodes; at++) node_turn(&world.node[at]);
        usleep(500);
        world.now.mono_ns += 20 * NS_PER_MS;
        world.now.wall_ns += 20 * NS_PER_MS;
    }
    CHECK(groups_stats(world.node[stays].groups).unknown > unknown);
    CHECK(group_newest(the_group(), world.now));
    CHECK_EQ_U64(term, group_look(the_group(), world.now).term);
    members_and_name();
    CHECK_EQ_U64(50, rig_state(world.node[stays].stream[0]).messages);
    world_end();
}

/* A kill after the change is on the disk finds the new group, and one before it the old one. */
static void a_kill_finds_one_group_or_the_other(void) {
    for (int steps = 0; steps < 4; steps++) {
        lose_the_others(false);
        world_until(goes_on);
        for (int i = 0; i < steps; i++) {
            world_step();
        }
        node_kill(stays);
        start_anew();
        group_look_t look = group_look(the_group(), world.now);
        CHECK(look.name == ANOTHER ? look.count == 1 : look.name == 500 && look.count == 3);
        CHECK(steps < 3 || look.name == ANOTHER);
        world_until(is_alone);
        world_until(leads_alone);
        members_and_name();
        CHECK_EQ_U64(50, rig_state(world.node[stays].stream[0]).messages);
        world_end();
    }
}

int main(void) {
    RUN("a follower goes on alone with all that was acknowledged", a_follower_goes_on);
    RUN("what a leader proposed and nobody agreed on is carried out", a_leaders_own_entries_are_carried_out);
    RUN("a majority of the old group that comes back is a group of strangers", those_that_come_back_are_strangers);
    RUN("a kill on the way finds the old group or the new one", a_kill_finds_one_group_or_the_other);
    return TEST_RESULT();
}
