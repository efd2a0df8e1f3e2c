/* test_replicas_schedules.c: schedules of a stream that three servers keep (group/replica.h): each is asked about at
 * every member by the log's time, done by its leader alone, and takes place once, whatever is killed, stopped or cut
 * off meanwhile. Who gets a copy of the stream has them, too.
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_schedules
 */
#include "replicas_acts.h"

#define RIPE_MAX 64u
#define PLANS_MAX 400u

typedef struct ripe {
    uint64_t seq;
    int64_t due_ts;
} ripe_t;

static ripe_t ripe[NODES_MAX][RIPE_MAX]; /* of each server, since its start */
static uint32_t ripe_count[NODES_MAX];
static uint64_t plans;                 /* schedules that were asked for; their numbers are 1 .. */
static uint64_t plan_token[PLANS_MAX]; /* .. and their tokens */
static uint64_t known;                 /* that were heard of, in all worlds */
static bool again;                     /* each has a next time, twice */

static store_due_t on_due(void *context, store_stream_t *stream, uint64_t seq, int64_t due_ts) {
    uint32_t at = (uint32_t)((const node_t *)context - world.node);
    (void)stream;
    if (ripe_count[at] < RIPE_MAX) {
        ripe[at][ripe_count[at]++] = (ripe_t){.seq = seq, .due_ts = due_ts};
    }
    return STORE_DUE_LATER;
}

/* A message that ends the schedule whose subject it has as its header. */
static bool on_ends(void *context, const append_t *append) {
    (void)context;
    return append->header.size > 0 && append->header.at[0] == 'p';
}

static bool on_end(void *context, const append_t *append) {
    stored_message_t last;
    store_stream_t *stream = context;
    if (below(8) == 0) {
        return false; /* not now */
    }
    status_t status = entry_status(store_last_by_subject(stream, append->header, UINT64_MAX, &last));
    status = status == STATUS_OK ? store_delete(stream, last.seq) : status;
    return status == STATUS_OK || status == STATUS_NOT_FOUND;
}

static void opened_with_schedules(uint32_t at, uint32_t group, group_options_t *options) {
    node_t *node = &world.node[at];
    store_stream_t *stream = node->stream[group];
    ripe_count[at] = 0;
    store_set_hooks(node->rig.store, (store_hooks_t){.due = on_due, .due_context = node});
    replicas[at] = replica_open(
        stream, (replica_hooks_t){.context = stream, .answered = answered, .ends = on_ends, .end = on_end});
    CHECK(replicas[at] != NULL);
    options->hooks.save = NULL;
    options->hooks.restore = NULL;
    replica_hook(replicas[at], &options->hooks);
}

/* What the leader makes of it: "t.<number>", with the time that it was meant for. */
static void fire(uint32_t at, const ripe_t *one) {
    node_t *node = &world.node[at];
    stored_message_t schedule;
    uint8_t payload[8];
    uint8_t subject[24];
    entry_outcome_t status = store_read(node->stream[0], one->seq, &schedule);
    if (status != ENTRY_FOUND) {
        CHECK(status != ENTRY_UNKNOWN);
        return;
    }
    append_t append = {.subject = bytes_of(subject, schedule.subject.size), .payload = bytes_of(payload, 8)};
    memcpy(subject, schedule.subject.at, schedule.subject.size);
    subject[0] = 't';
    store_be64(payload, (uint64_t)one->due_ts);
    append.rollup = below(4) == 0 ? 1 : 0;
    append.expires_ts = below(9) == 0 ? world.now.wall_ns + 1000 * NS_PER_SECOND : 0;
    int64_t first = (int64_t)load_be64(schedule.payload.at);
    bool more = again && one->due_ts < first + 2 * NS_PER_SECOND;
    replica_fired_t fired = {.seq = one->seq, .due_ts = one->due_ts, .next_ts = more ? one->due_ts + NS_PER_SECOND : 0};
    if (replica_fire(replicas[at], &fired, &append, world.now) == STATUS_OK) {
        groups_stir(node->groups, node->group[0]);
    }
}

static void turn_and_fire(uint32_t at) {
    for (uint32_t i = 0; i < ripe_count[at]; i++) {
        fire(at, &ripe[at][i]);
    }
    ripe_count[at] = 0;
    turn(at);
}

static void begin_schedules(uint64_t seed) {
    config = rig_config();
    guest_replicas();
    guest.opened = opened_with_schedules;
    guest.turn = turn_and_fire;
    plans = 0;
    world_begin(3, 1, seed);
    world_until(all_lead);
}

/* One that is asked for once, whether or not somebody hears of it. */
static void plan(int64_t in_ns) {
    char subject[24];
    uint8_t payload[8];
    if (plans + 1 >= PLANS_MAX) {
        return;
    }
    snprintf(subject, sizeof subject, "p.%llu", (unsigned long long)plans + 1);
    append_t append = {.subject = text(subject), .payload = bytes_of(payload, 8), .rollup = 1};
    append.due_ts = world.now.wall_ns + in_ns;
    store_be64(payload, (uint64_t)append.due_ts);
    if (ask(ASK_PUBLISH, &append, 0, plans + 1)) {
        plan_token[++plans] = ops_count;
    }
}

static void plan_taken(int64_t in_ns) {
    uint64_t before = plans;
    while (plans == before) {
        plan(in_ns);
        world_step();
    }
}

/* How many messages of that subject there are, and that no time is among them twice. */
static uint32_t made_of(uint64_t number) {
    char subject[24];
    store_stream_t *stream = world.node[0].stream[0];
    stream_state_t state = rig_state(stream);
    int64_t times[8] = {0};
    uint32_t count = 0;
    snprintf(subject, sizeof subject, "t.%llu", (unsigned long long)number);
    for (uint64_t seq = state.first_seq; seq != 0 && seq <= state.last_seq; seq++) {
        stored_message_t message;
        entry_outcome_t status = store_read(stream, seq, &message);
        CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
        if (status == ENTRY_FOUND && bytes_equal(message.subject, text(subject))) {
            for (uint32_t i = 0; i < count; i++) {
                CHECK(times[i] != (int64_t)load_be64(message.payload.at));
            }
            CHECK(count < 8);
            times[count++] = (int64_t)load_be64(message.payload.at);
        }
    }
    return count;
}

static bool is_there(uint64_t number) {
    char subject[24];
    stored_message_t last;
    snprintf(subject, sizeof subject, "p.%llu", (unsigned long long)number);
    entry_outcome_t status = store_last_by_subject(world.node[0].stream[0], text(subject), UINT64_MAX, &last);
    CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
    return status == ENTRY_FOUND;
}

/* The times that a member has for its schedules. */
static bool add_time(void *context, bytes_t key, bytes_t value) {
    uint64_t *digest = context;
    *digest = *digest * 31 + hash_bytes(key.at, key.size);
    *digest = *digest * 31 + hash_bytes(value.at, value.size);
    return true;
}

static uint64_t times_of(uint32_t at) {
    uint64_t digest = 1;
    CHECK_EQ_I64(LIST_WHOLE,
                 store_record_each(world.node[at].rig.store, RECORD_SCHEDULE, bytes_of((const uint8_t *)"\0\0\0\1", 4),
                                   BYTES_NONE, add_time, &digest));
    return digest;
}

static void same_times(void) {
    for (uint32_t at = 1; at < world.nodes; at++) {
        CHECK_EQ_U64(times_of(0), times_of(at));
    }
}

static bool is_heard(uint64_t number) {
    const op_t *op = &ops[plan_token[number]];
    return op->heard_ns != 0 && op->known && op->verdict == APPEND_STORED;
}

static void harmed_world(uint64_t seed) {
    begin_schedules(seed);
    for (uint32_t step = 0; step < 2500; step++) {
        if (below(12) == 0) {
            plan(below(4000) * NS_PER_MS);
        }
        if (below(120) == 0) {
            harm_some();
        }
        world_step();
        if (step % 50 == 0) {
            compare_digests();
        }
    }
    replicas_agree();
    world_pass(12 * NS_PER_SECOND);
    replicas_agree();
    same_times();
    for (uint64_t number = 1; number <= plans; number++) {
        uint32_t made = made_of(number);
        CHECK(!is_there(number));
        CHECK(made <= (again ? 3u : 1u));
        CHECK(made > 0 || !is_heard(number));
        known += is_heard(number);
    }
    world_end();
}

static void fires_once(void) {
    uint64_t first;
    uint64_t count = seeds(4, &first);
    for (uint64_t seed = first; seed < first + count; seed++) {
        again = seed % 2 == 0;
        harmed_world(seed);
    }
    again = false;
    CHECK(known > 10);
}

static void copied(void) {
    begin_schedules(3);
    for (uint32_t i = 0; i < 20; i++) {
        plan_taken((i < 10 ? 1 : 120) * NS_PER_SECOND);
    }
    world_until(all_heard);
    uint32_t away = one_but(world_leader(0));
    leave_behind(away);
    node_start(away);
    replicas_agree();
    same_times();
    for (uint64_t number = 1; number <= 10; number++) {
        CHECK_EQ_U64(1, made_of(number));
        CHECK(is_there(number + 10));
    }
    for (uint32_t i = 0; i < 7; i++) {
        world_pass(20 * NS_PER_SECOND);
    }
    replicas_agree();
    for (uint64_t number = 11; number <= plans; number++) {
        CHECK_EQ_U64(1, made_of(number));
        CHECK(!is_there(number));
    }
    world_end();
}

static void ended(void) {
    begin_schedules(5);
    for (uint32_t i = 0; i < 30; i++) {
        plan_taken(3000 * NS_PER_SECOND);
    }
    world_until(all_heard);
    uint64_t before = rig_state(world.node[0].stream[0]).messages;
    uint64_t asked = ops_count;
    for (uint64_t number = 1; number <= plans; number++) {
        char subject[24];
        snprintf(subject, sizeof subject, "p.%llu", (unsigned long long)number);
        append_t append = {.subject = text("e"), .header = text(subject), .rollup = number % 3 == 0 ? 1 : 0};
        append_t batch[] = {{.subject = text("x")}, append};
        while (!(number % 2 == 0 ? ask(ASK_PUBLISH, &append, 0, number) : ask_batch(batch, 2, number))) {
            world_step();
        }
        world_pass(below(100) * NS_PER_MS);
    }
    world_until(all_heard);
    CHECK_EQ_U64(asked + plans, ops_count);
    replicas_agree();
    same_times();
    uint64_t stored = 0;
    for (uint64_t number = 1; number <= plans; number++) {
        CHECK(!is_there(number));
        stored += ops[asked + number].verdict == APPEND_STORED;
    }
    CHECK_EQ_U64(plans, stored);
    CHECK(rig_state(world.node[0].stream[0]).messages < before + 2 * plans);
    world_end();
}

int main(void) {
    RUN("a schedule fires once for each of its times, whatever is killed, stopped or cut off", fires_once);
    RUN("who gets a copy has its schedules with their times, and they fire", copied);
    RUN("a message that ends a schedule is stored once, and the schedule is gone at all members", ended);
    return TEST_RESULT();
}
