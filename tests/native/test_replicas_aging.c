/* test_replicas_aging.c: a stream of three servers whose messages age, by its max_age or by a time to live of their
 * own, while servers are killed, stopped and cut off, and wall clocks step by hours: no message goes before its time,
 * and some time after the last one none is left at any member.
 *
 *     LEAFD_REPLICAS_SEEDS=500 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_aging
 */
#include "replicas_acts.h"
#include "store/timeline.h"

#define AGE_NS (6 * NS_PER_SECOND)
#define LIFE_NS (2 * NS_PER_SECOND)
#define STEPS 1500u

static int64_t ahead_ns[3];         /* of each server's wall clock */
static int64_t life_of_ns[OPS_MAX]; /* by token */

static moment_t now_at(uint32_t at) {
    moment_t now = world.now;
    now.wall_ns += ahead_ns[at];
    return now;
}

static void aging_turn(uint32_t at) {
    uint64_t before = group_look(world.node[at].group[0], world.now).last;
    replica_turn(replicas[at], now_at(at));
    if (group_look(world.node[at].group[0], world.now).last != before) {
        groups_stir(world.node[at].groups, world.node[at].group[0]);
    }
}

static void publish_one(void) {
    char id[24], subject[8];
    uint8_t payload[8];
    uint32_t at = below(3);
    node_t *node = &world.node[at];
    uint64_t token = ops_count + 1;
    if (!node->up || node->stands_ns > world.now.mono_ns || token + 1 >= OPS_MAX) {
        return;
    }
    bool own = below(2) == 0;
    append_t append = message_of(token, id, payload, subject);
    append.expires_ts = own ? now_at(at).wall_ns + LIFE_NS : 0;
    ops[token] = (op_t){.kind = ASK_PUBLISH, .asked_ns = world.now.mono_ns, .number = token};
    life_of_ns[token] = own ? LIFE_NS : AGE_NS;
    ops_count = token;
    if (replica_publish(replicas[at], &append, token, now_at(at)) != STATUS_OK) {
        ops_count--;
        return;
    }
    groups_stir(node->groups, node->group[0]);
}

/* Who leads with a lease has all that was stored and whose time has not come. */
static void none_went_early(void) {
    uint32_t at = world_leader(0);
    if (at == world.nodes || !group_newest(world.node[at].group[0], world.now)) {
        return;
    }
    for (uint64_t token = ops_count; token > 0 && token + 100 > ops_count; token--) {
        const op_t *op = &ops[token];
        bool lives = op->known && op->verdict == APPEND_STORED && op->asked_ns + life_of_ns[token] > world.now.mono_ns;
        stored_message_t message;
        CHECK(!lives || store_read(world.node[at].stream[0], op->seq, &message) == ENTRY_FOUND);
    }
}

static void step_clocks(void) {
    static const int64_t steps_s[] = {-400 * 86400, -7200, -3, 0, 0, 3, 7200, 30 * 86400};
    ahead_ns[below(3)] = steps_s[below(sizeof steps_s / sizeof *steps_s)] * NS_PER_SECOND;
}

static bool all_are_empty(void) {
    for (uint32_t at = 0; at < 3; at++) {
        if (rig_state(world.node[at].stream[0]).messages != 0) {
            return false;
        }
    }
    return all_level();
}

static void live_and_age(uint64_t seed) {
    config = rig_config();
    config.max_age_ns = AGE_NS;
    config.marker_ttl_ns = seed % 4 == 0 ? NS_PER_SECOND : 0;
    memset(ahead_ns, 0, sizeof ahead_ns);
    begin_replicas(3, seed);
    guest.turn = aging_turn;
    for (uint32_t step = 0; step < STEPS; step++) {
        if (below(3) == 0) {
            publish_one();
        }
        if (below(100) == 0) {
            step_clocks();
        }
        if (below(60) == 0) {
            harm_some();
        }
        world_step();
        if (step % 16 == 0) {
            none_went_early();
            compare_digests();
        }
    }
    if (seed % 2 == 0) { /* also when all of them are killed at its end */
        for (uint32_t at = 0; at < 3; at++) {
            if (world.node[at].up) {
                node_kill(at);
            }
        }
    }
    world_heal();
    memset(ahead_ns, 0, sizeof ahead_ns);
    world_until(all_level);
    world_pass(AGE_NS + 4 * NS_PER_SECOND);
    world_until(all_are_empty);
    world_end();
}

static void none_early_none_left(void) {
    uint64_t first;
    uint64_t count = seeds(6, &first);
    for (uint64_t seed = first; seed < first + count; seed++) {
        live_and_age(seed);
    }
}

int main(void) {
    RUN("messages that age go at all members, none before its time, whatever befalls servers and their clocks",
        none_early_none_left);
    return TEST_RESULT();
}
