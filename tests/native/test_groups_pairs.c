/* test_groups_pairs.c: many groups of three servers at rest, for which one beat a pair of servers stands
 * (native/group/pairs.c): what it costs, and that it ends and begins where groups do something, servers die and frames
 * are lost. That there is never more than one leader with a lease is looked at all the while (groups_world.h).
 */
#include "groups_acts.h"

/* How many messages the frames of that time have. */
static uint64_t beats_in(int64_t ns) {
    uint64_t frames = world.frames;
    uint64_t bytes = world.frame_bytes;
    world_pass(ns);
    return (world.frame_bytes - bytes - (world.frames - frames) * FRAME_HEAD) / FRAME_MESSAGE_HEAD;
}

#define MANY 1000u

static uint32_t many_leads(void) {
    uint32_t leads = 0;
    for (uint32_t at = 0; at < world.nodes; at++) {
        for (const group_t *group = NULL; (group = groups_next(world.node[at].groups, group)) != NULL;) {
            leads += group_look(group, world.now).leased;
        }
    }
    return leads;
}

static bool many_lead(void) {
    return many_leads() == MANY;
}

/* A thousand groups are led, and what they say while nothing happens is a few bytes a pair of servers. */
static void many_groups(void) {
    world_begin(3, 0, 5);
    for (uint32_t i = 0; i < MANY; i++) {
        for (uint32_t at = 0; at < 3; at++) {
            group_t *group;
            group_options_t options = world_options(at, 0);
            options.number = i + 1;
            options.name = (i * UINT64_C(0x9e3779b97f4a7c15)) | 1;
            options.hooks.apply = nothing_to_apply;
            options.hooks.save = NULL;
            status_t status = groups_make(world.node[at].groups, options, world.now, &group);
            while (status == STATUS_FULL) {
                node_turn(&world.node[at]);
                status = groups_make(world.node[at].groups, options, world.now, &group);
            }
            CHECK_EQ_I64(STATUS_OK, status);
        }
    }
    world_until(many_lead);
    CHECK_EQ_U64(MANY, groups_stats(world.node[0].groups).groups);
    world_pass(5 * NS_PER_SECOND);
    uint64_t frames = world.frames;
    uint64_t bytes = world.frame_bytes;
    uint64_t at_rest = beats_in(6 * NS_PER_SECOND);
    CHECK_EQ_U64(MANY, many_leads());
    /* Each 600 ms each server asks both others, and is answered by them: of eight shelves, in a frame for each. */
    CHECK(at_rest >= UINT64_C(9) * 6 * 2 * 8);
    CHECK(at_rest <= UINT64_C(11) * 6 * 2 * 8);
    CHECK(world.frames - frames <= UINT64_C(11) * 6 * 2);
    CHECK_EQ_U64(world.frame_bytes - bytes, at_rest * FRAME_MESSAGE_HEAD + (world.frames - frames) * FRAME_HEAD);
    world_end();
}

static void three_groups(uint64_t seed) {
    world_begin(3, 3, seed);
    world_until(all_lead);
    world_pass(5 * NS_PER_SECOND);
}

static uint64_t terms(void) {
    uint64_t sum = 0;
    for (uint32_t group = 0; group < world.groups; group++) {
        sum += group_look(world.node[0].group[group], world.now).term;
    }
    return sum;
}

/* While one of them is written to, the others rest on. */
static void one_of_them_is_written_to(void) {
    three_groups(23);
    uint64_t before = terms();
    for (int second = 0; second < 30; second++) {
        propose_some(1, 8);
        world_pass(NS_PER_SECOND);
        CHECK(all_lead());
    }
    CHECK_EQ_U64(30, world.answered);
    CHECK_EQ_U64(before, terms());
    world_agree();
    world_end();
}

/* Who starts again knows of no rest, and says so. */
static void starts_again(void) {
    three_groups(29);
    uint64_t at_rest = beats_in(6 * NS_PER_SECOND);
    for (uint32_t at = 0; at < 3; at++) {
        node_kill(at);
        world_pass(300 * NS_PER_MS);
        node_start(at);
        world_until(all_lead);
        world_pass(8 * NS_PER_SECOND);
        CHECK(all_lead());
        CHECK(beats_in(6 * NS_PER_SECOND) <= at_rest + 12 * 6);
    }
    world_agree();
    world_end();
}

/* Answers that take long are asked for more often, as beats are. */
static void long_way(void) {
    three_groups(31);
    world.late_ns = 700 * NS_PER_MS;
    uint64_t before = terms();
    world_pass(10 * NS_PER_SECOND);
    for (int step = 0; step < 4000; step++) {
        world_step();
        CHECK(all_lead());
    }
    CHECK_EQ_U64(before, terms());
    world_end();
}

/* No answer of a member that is farther away than a lease is in time for one: it is asked no more often for that, since
 * its line may carry little. */
static void very_long_way(void) {
    three_groups(41);
    uint64_t before = terms(), at_rest = beats_in(6 * NS_PER_SECOND);
    for (; world.far_ns < NS_PER_SECOND; world.far_ns += 100 * NS_PER_MS) {
        world_pass(4 * NS_PER_SECOND);
    }
    world_pass(12 * NS_PER_SECOND);
    CHECK(beats_in(6 * NS_PER_SECOND) <= at_rest + 12);
    CHECK_EQ_U64(before, terms());
    world.far_ns = 0;
    world_pass(8 * NS_PER_SECOND);
    CHECK(all_lead());
    world_end();
}

/* How long a checkpoint of one of the servers has waited for entries to go. */
static int64_t checkpoint_waited(void) {
    int64_t longest = 0;
    for (uint32_t at = 0; at < world.nodes; at++) {
        int64_t until = world.node[at].rig.store->linger.until;
        int64_t waited = until != 0 ? world.now.mono_ns - (until - LINGER_NS) : 0;
        longest = waited > longest ? waited : longest;
    }
    return longest;
}

/* Entries of groups at rest lie before the boundary of a checkpoint that another one's bring about, and go as soon as
 * those. */
static void checkpoint_at_rest(void) {
    three_groups(21);
    for (int round = 0; round < 8; round++) {
        for (uint32_t group = 1; group < 3; group++) {
            CHECK(world_propose(world_leader(group), group, 8));
        }
        world_until(all_answered);
        world_pass(1500 * NS_PER_MS);
        for (int i = 0; i < 20; i++) { /* a checkpoint's worth, in blocks of the journal */
            propose_some(1, 40);
            world_until(all_answered);
            CHECK(checkpoint_waited() <= 100 * NS_PER_MS);
        }
    }
    for (uint32_t at = 0; at < world.nodes; at++) {
        CHECK(world.node[at].rig.store->linger.count > 0);
    }
    world_agree();
    world_end();
}

/* Frames are lost, come twice, and overtake each other: tallies differ, and all goes on. */
static void lossy_way(void) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        three_groups(seed * 37);
        world.loss = 150;
        world.twice = 150;
        world.late_ns = 300 * NS_PER_MS;
        for (int round = 0; round < 20; round++) {
            propose_some(1, 8);
            world_pass(3 * NS_PER_SECOND);
        }
        world_agree();
        CHECK(world.answered + world.lost == 20);
        world_end();
    }
}

int main(void) {
    RUN("a thousand groups at rest share one beat a pair of servers", many_groups);
    RUN("while one group is written to, the others rest and keep their leaders", one_of_them_is_written_to);
    RUN("a checkpoint waits for the entries of groups at rest, and they go", checkpoint_at_rest);
    RUN("a server that starts again is beaten group by group until all rest", starts_again);
    RUN("over a long way leases are kept", long_way);
    RUN("a member that no lease can count on is beaten as seldom as a near one", very_long_way);
    RUN("over a lossy way there is one log, and one lease at most", lossy_way);
    return TEST_RESULT();
}
