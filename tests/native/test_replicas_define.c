/* test_replicas_define.c: the definition of a stream that three servers keep changes (group/replica.h): each member
 * goes on with it behind the same entry, whenever its owner has made the stream like that, whatever is killed
 * meanwhile; and who gets a copy has the definition before the messages.
 *
 *     LEAFD_REPLICAS_SEEDS=1000 LEAFD_REPLICAS_SEED=7 build/dev/tests/native/test_replicas_define
 */
#include "replicas_acts.h"
#include "store/record.h"

#define TOLD_MAX 64u

/* What each server's owner was told, and has not made yet. */
static char told[NODES_MAX][TOLD_MAX];
static uint32_t told_size[NODES_MAX];
static uint32_t defined; /* so often */

static const uint8_t record_key[4] = {0, 0, 0, 1};

static stream_config_t config_in(bytes_t definition) {
    char at[TOLD_MAX];
    long long msgs, of_subject;
    CHECK(definition.size < sizeof at);
    memcpy(at, definition.at, definition.size);
    at[definition.size] = 0;
    CHECK_EQ_I64(2, sscanf(at, "%lld %lld", &msgs, &of_subject));
    stream_config_t found = rig_config();
    found.max_msgs = msgs;
    found.max_msgs_per_subject = of_subject;
    return found;
}

static bytes_t record_of(uint32_t at) {
    bytes_t value = BYTES_NONE;
    status_t status = entry_status(
        store_record_get(world.node[at].rig.store, RECORD_STREAM, bytes_of(record_key, sizeof record_key), &value));
    CHECK(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return status == STATUS_OK ? value : BYTES_NONE;
}

static bool define(void *context, bytes_t definition) {
    const node_t *node = context;
    uint32_t at = (uint32_t)(node - world.node);
    if (below(8) == 0) {
        return false; /* no room, this time */
    }
    CHECK_EQ_I64(STATUS_OK,
                 store_record_put(node->rig.store, RECORD_STREAM, bytes_of(record_key, sizeof record_key), definition));
    CHECK(definition.size < TOLD_MAX);
    memcpy(told[at], definition.at, definition.size);
    told_size[at] = definition.size;
    return true;
}

static void make(uint32_t at, bytes_t definition) {
    const stream_config_t wanted = config_in(definition);
    store_stream_configure(world.node[at].stream[0], &wanted, world.now);
}

/* As control does at a start: the record says what the stream is like. */
static void opened_as_recorded(uint32_t at, uint32_t group, group_options_t *options) {
    store_stream_t *stream = world.node[at].stream[group];
    replicas[at] =
        replica_open(stream, (replica_hooks_t){.context = &world.node[at], .answered = answered, .define = define});
    CHECK(replicas[at] != NULL);
    options->hooks.save = NULL;
    options->hooks.restore = NULL;
    replica_hook(replicas[at], &options->hooks);
    told_size[at] = 0;
    if (record_of(at).size > 0) {
        make(at, record_of(at));
    }
}

static void turn_and_make(uint32_t at) {
    bytes_t definition = bytes_of((const uint8_t *)told[at], told_size[at]);
    if (definition.size > 0 && below(5) == 0) {
        make(at, definition);
        told_size[at] = 0;
        defined++;
        replica_defined(replicas[at], definition);
        groups_stir(world.node[at].groups, world.node[at].group[0]);
    }
    turn(at);
}

/* A server that died before the entry was noted as applied has its limits already when it starts again, and nothing
 * else of it. */
static uint64_t sort_by_record(uint32_t at) {
    bytes_t record = record_of(at);
    return record.size > 0 ? hash_bytes(record.at, record.size) : 0;
}

static void begin_defined(uint64_t seed) {
    config = rig_config(); /* as a stream without limits is opened, before the record is read */
    guest_replicas();
    guest.opened = opened_as_recorded;
    guest.turn = turn_and_make;
    sort_of = sort_by_record;
    world_begin(3, 1, seed);
    world_until(all_lead);
}

static bool ask_define(void) {
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    char definition[TOLD_MAX];
    uint64_t token = ops_count + 1;
    if (!node->up || node->stands_ns > world.now.mono_ns || token >= OPS_MAX) {
        return false;
    }
    snprintf(definition, sizeof definition, "%u %u", 5 + below(60), 1 + below(12));
    ops[token] = (op_t){.kind = ASK_PURGE, .asked_ns = world.now.mono_ns};
    ops_count = token;
    if (replica_define(replicas[at], text(definition), token, world.now) != STATUS_OK) {
        ops_count--;
        return false;
    }
    groups_stir(node->groups, node->group[0]);
    return true;
}

static void client(void) {
    if (below(12) == 0) {
        (void)ask_define();
    } else {
        client_of_anything();
    }
}

static void same_records(void) {
    for (uint32_t at = 1; at < world.nodes; at++) {
        CHECK(bytes_equal(record_of(0), record_of(at)));
    }
}

static void at_one_index(void) {
    uint64_t seed;
    defined = 0;
    for (uint64_t left = seeds(5, &seed); left > 0; left--, seed++) {
        begin_defined(seed * 6007 + 1);
        live_rounds(client, 10);
        same_records();
        world_end();
    }
    CHECK(compared > 10);
    CHECK(defined > 10);
}

static void before_the_copy(void) {
    uint64_t seed;
    for (uint64_t left = seeds(3, &seed); left > 0; left--, seed++) {
        begin_defined(seed * 8009 + 3);
        world_until(ask_define);
        publish_large(30);
        world_until(all_level);
        uint32_t away = (world_leader(0) + 1 + below(2)) % 3;
        char before[TOLD_MAX] = {0};
        memcpy(before, record_of(away).at, record_of(away).size);
        leave_behind(away);
        world_until(ask_define);
        publish_large(20);
        node_start(away);
        replicas_agree();
        same_records();
        CHECK(!bytes_equal(text(before), record_of(away)));
        world_end();
    }
}

int main(void) {
    RUN("each member has a new definition from the same entry on, whatever is killed, stopped or cut off",
        at_one_index);
    RUN("who gets a copy has the definition that the others have", before_the_copy);
    return TEST_RESULT();
}
