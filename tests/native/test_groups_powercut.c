/* test_groups_powercut.c: groups of three servers, one of which loses its power at any write and comes back with what
 * its disk may have been left with (powercut.h), while the others go on, or are killed in the same moment.
 *
 *     what was answered is in all logs, once and in order (groups_world.h); nobody votes twice in a term
 *
 *     LEAFD_POWER_CUTS=20000 LEAFD_POWER_SEED=7 build/dev/tests/native/test_groups_powercut
 */
#include "groups_powercut.h"

#define CUTS_A_WORLD 8

static void work(uint32_t steps) {
    for (; steps > 0; steps--) {
        uint32_t group = drawn_below(world.groups);
        for (uint32_t count = drawn_below(6) == 0 ? drawn_below(30) : drawn_below(4); count > 0; count--) {
            (void)world_propose(drawn_below(world.nodes), group, 8 + drawn_below(world.state_size));
        }
        world_step();
    }
}

static void live(uint32_t cuts) {
    world_begin(3, GROUPS_MAX, powercut_next(&chance) | 1);
    world.late_ns = drawn_below(30) * NS_PER_MS;
    world.state_size =
        drawn_below(3) == 0 ? 4000 : 200; /* the large ones are not kept for who is away: it gets copies */
    world_until(all_lead);
    for (uint32_t i = 0; i < cuts; i++) {
        uint32_t at = drawn_below(3) == 0 ? drawn_below(3) : world_leader(drawn_below(GROUPS_MAX)) % 3;
        if (world.node[at].up) {
            node_kill(at);
        }
        powercut_record(world.node[at].rig.directory);
        node_start(at);
        work(20 + drawn_below(400));
        bool all = drawn_below(3) == 0;
        for (uint32_t other = 0; other < 3; other++) {
            if (other != at && all) {
                node_kill(other);
            }
        }
        cut_power(at);
        if (!all && world.state_size > 1000) {
            work(200);
            world_pass(6 * NS_PER_SECOND);
        }
        work(all ? 0 : drawn_below(300));
        for (uint32_t other = 0; other < 3; other++) {
            if (!world.node[other].up) {
                node_start(other);
            }
        }
        work(drawn_below(300));
    }
    CHECK(world.answered > 0);
    world_agree();
    world_end();
}

static void lives(void) {
    const char *cuts = getenv("LEAFD_POWER_CUTS");
    const char *seed = getenv("LEAFD_POWER_SEED");
    uint32_t left = cuts != NULL ? (uint32_t)strtoul(cuts, NULL, 10) / 4 : 48;
    chance.state = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    uint64_t copies = 0;
    while (left > 0) {
        uint32_t some = left < CUTS_A_WORLD ? left : CUTS_A_WORLD;
        live(some);
        copies += world.copies;
        left -= some;
    }
    CHECK(copies > 0);
    if (cuts != NULL) {
        printf("%llu copies\n", (unsigned long long)copies);
    }
}

int main(void) {
    RUN("after a power cut of one, or of it while all are killed, what was answered is in all logs", lives);
    return TEST_RESULT();
}
