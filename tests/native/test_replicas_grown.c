/* test_replicas_grown.c: a stream that one server had alone becomes one of a group (replica_grown), which begins with
 * what is there: whoever is let in gets a copy of it first, and votes only then. All have the same from then on, and
 * what was too old, too much or a duplicate for the one is so for all.
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_grown
 */
#include "group/replica_private.h"
#include "replicas_acts.h"

static bool growing; /* the group is about to be made, by the first server alone */

static void opened_alone(uint32_t at, uint32_t group, group_options_t *options) {
    static uint8_t note[REPLICA_NOTE_SIZE];
    opened(at, group, options);
    if (growing && at == 0) {
        options->grown = true;
        options->note = replica_grown(replicas[at], note, world.now);
    }
}

/* The first server has had it for a while. */
static void begin_alone(uint64_t seed) {
    config = config_drawn(seed);
    guest_replicas();
    guest.opened = opened_alone;
    world_begin(3, 0, seed);
    node_t *node = &world.node[0];
    store_stream_t *stream = rig_stream(&node->rig, 1, config);
    for (uint64_t number = 1; number <= 60; number++) {
        char id[24];
        char subject[8];
        uint8_t payload[8];
        append_t append = message_of(number, id, payload, subject);
        append_verdict_t verdict = rig_append(&node->rig, stream, &append).verdict;
        CHECK(verdict == APPEND_STORED || config.discard == 1);
        rig_pass(&node->rig, below(60) * NS_PER_MS);
    }
    rig_sync(&node->rig);
    CHECK(rig_state(stream).messages > 0);
    world.now = node->rig.now;
    node_kill(0);
    world.groups = 1;
    growing = true;
    world.founders = (raft_config_t){.count = 1, .at = {{.id = node->id, .voter = true}}};
    node_start(0);
    growing = false;
    world.founders.count = 0;
    for (uint32_t at = 1; at < world.nodes; at++) {
        node_down(at);
        node_begin(at);
    }
}

/* The first one, or any, dies and comes back. */
static void harm_one(void) {
    uint32_t at = below(4) == 0 ? below(world.nodes) : 0;
    if (world.node[at].up) {
        node_kill(at);
    }
    world_pass(below(50) * STEP_NS);
    if (!world.node[at].up) {
        node_start(at);
    }
}

/* A change that its leader had not on the disk when it died is asked for again. */
static void let_in(uint32_t at, uint32_t harms) {
    for (uint32_t steps = 0; !change(RAFT_PROMOTE, at); steps++) {
        CHECK(steps < 20000);
        (void)change(RAFT_LEARN, at);
        if (harms > 0 && below(60) == 0) {
            harm_one();
            harms--;
        }
        if (below(4) == 0 && ops_count + 2 < OPS_MAX) {
            client_of_anything();
        }
        world_step();
    }
}

static void becomes_three(uint32_t harms) {
    uint64_t seed;
    for (uint64_t left = seeds(5, &seed); left > 0; left--, seed++) {
        begin_alone(seed);
        uint64_t before = digest_of(0);
        CHECK(before != 1);
        let_in(1, harms);
        if (harms == 0) {
            CHECK_EQ_U64(1, replicas[1]->copier.copied); /* it votes, and has all of it */
        }
        let_in(2, harms);
        replicas_agree();
        for (uint32_t steps = 0; steps < 300; steps++) {
            if (below(3) == 0 && ops_count + 2 < OPS_MAX) {
                client_of_anything(); /* of ids that the first one had alone, too */
            }
            world_step();
        }
        replicas_agree();
        CHECK_EQ_U64(3, group_look(world.node[0].group[0], world.now).count);
        world_end();
    }
}

static void becomes_three_well(void) {
    becomes_three(0);
}

static void becomes_three_with_kills(void) {
    becomes_three(8);
}

/* Right behind the first batch, or before it is on the disk. */
static void begins_again(void) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        begin_alone(seed);
        uint64_t first = rig_state(world.node[0].stream[0]).last_seq;
        growing = true; /* if the group is not on the disk, it is made anew */
        world_pass(below(4) * STEP_NS);
        node_kill(0);
        world.founders = (raft_config_t){.count = 1, .at = {{.id = world.node[0].id, .voter = true}}};
        node_start(0);
        growing = false;
        world.founders.count = 0;
        CHECK_EQ_U64(first, rig_state(world.node[0].stream[0]).last_seq);
        CHECK_EQ_U64(1, group_floor(world.node[0].group[0]));
        let_in(1, 0);
        world_until(all_heard);
        world_end();
    }
}

int main(void) {
    RUN("a server's own stream is kept by three, who have what it had", becomes_three_well);
    RUN("the same while servers are killed", becomes_three_with_kills);
    RUN("a server that dies as it begins the group begins it once", begins_again);
    return TEST_RESULT();
}
