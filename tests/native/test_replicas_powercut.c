/* test_replicas_powercut.c: a stream of three servers, one of which loses its power at any write and comes back with
 * what its disk may have been left with, while the others go on, or are killed in the same moment: what clients heard
 * is one history, and the stream is the same at all members.
 *
 *     LEAFD_POWER_CUTS=2000 LEAFD_POWER_SEED=7 build/dev/tests/native/test_replicas_powercut
 */
#include "groups_powercut.h"
#include "replicas_acts.h"

#define CUTS_A_WORLD 6

static void work(void (*client)(void), uint32_t steps) {
    for (; steps > 0; steps--) {
        if (drawn_below(3) == 0 && ops_count + 2 < OPS_MAX) {
            client();
        }
        world_step();
        if (steps % 32 == 0) {
            compare_digests();
        }
    }
}

static void live(void (*client)(void), uint32_t cuts) {
    begin_replicas(3, powercut_next(&chance) | 1);
    world.late_ns = drawn_below(30) * NS_PER_MS;
    for (uint32_t i = 0; i < cuts; i++) {
        uint32_t at = drawn_below(3) == 0 ? drawn_below(3) : world_leader(0) % 3;
        if (world.node[at].up) {
            node_kill(at);
        }
        powercut_record(world.node[at].rig.directory);
        node_start(at);
        work(client, 20 + drawn_below(300));
        bool all = drawn_below(3) == 0;
        for (uint32_t other = 0; other < 3; other++) {
            if (other != at && all) {
                node_kill(other);
            }
        }
        cut_power(at);
        work(client, all ? 0 : drawn_below(300));
        for (uint32_t other = 0; other < 3; other++) {
            if (!world.node[other].up) {
                node_start(other);
            }
        }
        work(client, drawn_below(200));
    }
    replicas_agree();
}

static uint32_t cuts_wanted(uint32_t usual) {
    const char *cuts = getenv("LEAFD_POWER_CUTS");
    const char *seed = getenv("LEAFD_POWER_SEED");
    chance.state = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    return cuts != NULL ? (uint32_t)strtoul(cuts, NULL, 10) / 10 : usual;
}

static void one_history(void) {
    uint64_t heard = 0;
    for (uint32_t left = cuts_wanted(12); left > 0; left -= left < CUTS_A_WORLD ? left : CUTS_A_WORLD) {
        config = rig_config();
        live(client_of_register, CUTS_A_WORLD);
        history_agrees();
        for (uint64_t token = 1; token <= ops_count; token++) {
            heard += ops[token].known && ops[token].verdict == APPEND_STORED;
        }
        world_end();
    }
    CHECK(heard > 10);
}

static void one_stream(void) {
    uint64_t nth = 0;
    for (uint32_t left = cuts_wanted(18); left > 0; left -= left < CUTS_A_WORLD ? left : CUTS_A_WORLD) {
        config = config_drawn(++nth);
        live(client_of_anything, CUTS_A_WORLD);
        world_end();
    }
}

int main(void) {
    RUN("after power cuts of one, or of one while all are killed, what clients heard is one history", one_history);
    RUN("after power cuts a stream is the same at all members: limits, ages, purges, deletes, rollups", one_stream);
    return TEST_RESULT();
}
