/* test_groups_powercut.c: groups of three servers, one of which loses its power at any write and comes back with what
 * its disk may have been left with (powercut.h), while the others go on, or are killed in the same moment.
 *
 *     what was answered is in all logs, once and in order (groups_world.h); nobody votes twice in a term
 *
 *     LEAFD_POWER_CUTS=20000 LEAFD_POWER_SEED=7 build/dev/tests/native/test_groups_powercut
 */
#include "groups_world.h"
#include "powercut.h"

#define CUTS_A_WORLD 8

static powercut_chance_t chance;

static uint32_t below(uint32_t n) {
    return (uint32_t)(powercut_next(&chance) % n);
}

static void work(uint32_t steps) {
    for (; steps > 0; steps--) {
        uint32_t group = below(world.groups);
        for (uint32_t count = below(6) == 0 ? below(30) : below(4); count > 0; count--) {
            (void)world_propose(below(world.nodes), group, 8 + below(world.state_size));
        }
        world_step();
    }
}

/* The power of one goes; what its disk is left with is what it starts from. */
static void cut_power(uint32_t at) {
    node_t *node = &world.node[at];
    char image[96];
    node_down(at);
    pthread_mutex_lock(&powercut.lock);
    powercut.on = false; /* what closing does is not part of it: the cut was before */
    uint64_t cut = powercut.count;
    pthread_mutex_unlock(&powercut.lock);
    snprintf(image, sizeof image, "%s/%u", node->rig.root, ++node->rig.generation);
    CHECK(mkdir(image, 0700) == 0);
    store_close(node->rig.store);
    node->rig.store = NULL;
    powercut_image(cut, (powercut_plan_t)below(PLAN_COUNT), &chance, image);
    rig_remove_directory(node->rig.directory);
    memcpy(node->rig.directory, image, sizeof image);
}

static void live(uint32_t cuts) {
    world_begin(3, GROUPS_MAX, powercut_next(&chance) | 1);
    world.late_ns = below(30) * NS_PER_MS;
    world.state_size = below(3) == 0 ? 4000 : 200; /* the large ones are not kept for who is away: it gets copies */
    world_until(all_lead);
    for (uint32_t i = 0; i < cuts; i++) {
        uint32_t at = below(3) == 0 ? below(3) : world_leader(below(GROUPS_MAX)) % 3;
        if (world.node[at].up) {
            node_kill(at);
        }
        powercut_record(world.node[at].rig.directory);
        node_start(at);
        work(20 + below(400));
        bool all = below(3) == 0;
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
        work(all ? 0 : below(300));
        for (uint32_t other = 0; other < 3; other++) {
            if (!world.node[other].up) {
                node_start(other);
            }
        }
        work(below(300));
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
