/* test_groups_faults_memory.c: groups of three servers while a read of LMDB or an allocation fails, or some in a row,
 * at each place: nothing that was answered is lost, all come to the same log once it works again, and a group that
 * cannot be loaded is not made anew.
 */
#include "groups_faults.h"

static void propose_some(uint32_t count) {
    for (uint32_t tries = 0; count > 0 && tries < 200; tries++) {
        uint32_t leader = world_leader(0);
        if (leader != world.nodes && world_propose(leader, 0, 8 + count)) {
            count--;
        } else {
            world_step();
        }
    }
}

/* One is away, and what it lacks has come into LMDB at the others. */
static uint32_t begin(void) {
    world_begin(3, 1, 77);
    world_until(all_lead);
    uint32_t away = (world_leader(0) + 1) % 3;
    node_kill(away);
    propose_some(60);
    world_pass(7 * NS_PER_SECOND);
    CHECK_EQ_U64(60, world.answered);
    return away;
}

static unsigned run_with(fault_t fault, unsigned n) {
    uint32_t away = begin();
    node_start(away);
    world.node[world_leader(0)].stands_ns = world.now.mono_ns + 4 * NS_PER_SECOND; /* another one is elected */
    fail_from(fault, n);
    world_pass(4 * NS_PER_SECOND);
    propose_some(20);
    world_pass(NS_PER_SECOND);
    unsigned places = counted(fault);
    heal();
    world_agree();
    CHECK(world.answered >= 60);
    world_end();
    return places;
}

static unsigned load_with(fault_t fault, unsigned n) {
    uint32_t at = begin();
    node_t *node = &world.node[at];
    groups_hooks_t hooks = {.context = node, .reaches = world_reaches, .deliver = world_deliver};
    node->rig.now = world.now;
    rig_start(&node->rig);
    node->stream[0] = rig_stream(&node->rig, 1, rig_config());
    fail_from(fault, n);
    status_t status = groups_open(node->rig.store, at + 1, hooks, &node->groups);
    if (status == STATUS_OK) {
        status = groups_load(node->groups, world_options(at, 0), world.now, &node->group[0]);
        CHECK_EQ_I64(status == STATUS_OK, node->group[0] != NULL);
        if (status != STATUS_OK) {
            CHECK(groups_make(node->groups, world_options(at, 0), world.now, &node->group[0]) != STATUS_OK);
        }
    }
    unsigned places = counted(fault);
    heal();
    if (node->groups == NULL) {
        CHECK_EQ_I64(STATUS_OK, groups_open(node->rig.store, at + 1, hooks, &node->groups));
    }
    if (status != STATUS_OK) {
        CHECK_EQ_I64(STATUS_EXISTS, groups_make(node->groups, world_options(at, 0), world.now, &node->group[0]));
        CHECK_EQ_I64(STATUS_OK, groups_load(node->groups, world_options(at, 0), world.now, &node->group[0]));
    }
    node->up = true;
    world_agree();
    world_end();
    return places;
}

static void while_they_run(void) {
    at_each_place(run_with, 2);
}

static void while_they_load(void) {
    at_each_place(load_with, 4);
}

int main(void) {
    RUN("while a read or an allocation fails, nothing that was answered is lost, and all go on", while_they_run);
    RUN("a group that cannot be loaded is not made anew", while_they_load);
    return TEST_RESULT();
}
