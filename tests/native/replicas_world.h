/* replicas_world.h: a stream that several servers keep (group/replica.h) in a world of the tests (groups_world.h), what
 * clients ask of it and hear, and what it is compared by, for the C tests of replicas.
 */
#ifndef LEAFD_TESTS_REPLICAS_WORLD_H
#define LEAFD_TESTS_REPLICAS_WORLD_H

#include "base/hash.h"
#include "group/replica.h"
#include "groups_acts.h"
#include "store/record.h"
#include "store/timeline.h"

#define OPS_MAX 4000
#define KEYS 6

typedef enum op_kind { ASK_PUBLISH = 0, ASK_SET, ASK_DELETE, ASK_PURGE } op_kind_t;

/* What a client asked for, and heard. */
typedef struct op {
    op_kind_t kind;
    int64_t asked_ns;
    int64_t heard_ns; /* 0: nothing; with `known` false: that it is not known */
    bool known;
    uint64_t number;   /* of the message: the same when it is tried again */
    uint64_t expected; /* ASK_SET */
    append_verdict_t verdict;
    uint64_t seq;
} op_t;

static op_t ops[OPS_MAX]; /* by token */
static uint64_t ops_count;
static replica_t *replicas[NODES_MAX];
static stream_config_t config;
static uint64_t digests[TOKENS_MAX];     /* by index; 0: not known */
static uint64_t sorts[TOKENS_MAX];       /* .. of what sort */
static uint64_t (*sort_of)(uint32_t at); /* of the state that a member has: only those of one sort are compared */
static uint64_t compared;
/* Of the streams of the next world: what one of them adds (replica_hooks_t.count), NULL: they are no counters. context:
 * the stream. */
static append_verdict_t (*counts)(void *context, const append_t *before, append_t *append);

/* ---- replicas as guests of the world ----------------------------------------------------------------------------- */

static inline void answered(void *context, uint64_t token, const replica_outcome_t *outcome) {
    (void)context;
    op_t *op = &ops[token];
    CHECK_EQ_I64(0, op->heard_ns);
    op->heard_ns = world.now.mono_ns;
    op->known = outcome != NULL;
    if (outcome != NULL) {
        op->verdict = outcome->appended.verdict;
        op->seq = outcome->appended.seq;
    }
}

static inline stream_config_t its_config(void) {
    return config;
}

static inline void opened(uint32_t at, uint32_t group, group_options_t *options) {
    store_stream_t *stream = world.node[at].stream[group];
    replicas[at] = replica_open(stream, (replica_hooks_t){.context = stream, .answered = answered, .count = counts});
    CHECK(replicas[at] != NULL);
    options->hooks.save = NULL;
    options->hooks.restore = NULL;
    replica_hook(replicas[at], &options->hooks);
}

static inline void joined(uint32_t at, uint32_t group) {
    replica_join(replicas[at], world.node[at].group[group]);
}

static inline void left(uint32_t at) {
    replica_close(replicas[at]);
    replicas[at] = NULL;
}

static inline void turn(uint32_t at) {
    uint64_t before = group_look(world.node[at].group[0], world.now).last;
    replica_turn(replicas[at], world.now);
    if (group_look(world.node[at].group[0], world.now).last != before) {
        groups_stir(world.node[at].groups, world.node[at].group[0]);
    }
}

/* The streams of the next world are replicas. */
static inline void guest_replicas(void) {
    guest = (struct guest){.config = its_config, .opened = opened, .joined = joined, .left = left, .turn = turn};
    memset(ops, 0, sizeof ops);
    memset(digests, 0, sizeof digests);
    ops_count = compared = 0;
}

static inline void begin_replicas(uint32_t nodes, uint64_t seed) {
    guest_replicas();
    world_begin(nodes, 1, seed);
    world_until(all_lead);
}

static inline uint32_t below(uint32_t n) {
    return random_below(&world.random, n);
}

/* ---- what a stream holds ----------------------------------------------------------------------------------------- */

/* As message_of has made it, also where all members have the same. */
static inline void check_payload(bytes_t payload) {
    for (uint32_t i = 8; payload.size > 16 && i < payload.size; i++) {
        CHECK(payload.at[i] == payload.at[7]);
    }
}

static inline uint64_t digest_of(uint32_t at) {
    store_stream_t *stream = world.node[at].stream[0];
    stream_state_t state = rig_state(stream);
    uint64_t numbers[] = {state.messages, state.bytes, state.first_seq, state.last_seq, state.subjects};
    uint64_t digest = hash_bytes((const uint8_t *)numbers, sizeof numbers) | 1;
    for (uint64_t seq = state.first_seq; seq != 0 && seq <= state.last_seq; seq++) {
        stored_message_t message;
        entry_outcome_t status = store_read(stream, seq, &message);
        CHECK(status == ENTRY_FOUND || status == ENTRY_NONE);
        if (status == ENTRY_FOUND) {
            digest = digest * 31 + message.seq * 7 + (uint64_t)message.ts;
            digest = digest * 31 + hash_bytes(message.subject.at, message.subject.size);
            digest = digest * 31 + hash_bytes(message.header.at, message.header.size);
            digest = digest * 31 + hash_bytes(message.payload.at, message.payload.size);
            check_payload(message.payload);
        }
    }
    bytes_t value = BYTES_NONE; /* how far its source has come */
    entry_outcome_t come =
        store_record_get(world.node[at].rig.store, RECORD_SOURCE, bytes_of((const uint8_t *)"\0\0\0\1o", 5), &value);
    CHECK(come != ENTRY_UNKNOWN);
    return (digest * 31 + (come == ENTRY_FOUND ? hash_bytes(value.at, value.size) : 0)) | 1;
}

/* Of all that have applied what they know to be committed, and have nothing left to take out. */
static inline void compare_digests(void) {
    for (uint32_t at = 0; at < world.nodes; at++) {
        const node_t *node = &world.node[at];
        if (!node->up) {
            continue;
        }
        group_look_t look = group_look(node->group[0], world.now);
        CHECK(!replica_stuck(replicas[at]));
        CHECK(look.last < TOKENS_MAX);
        if (look.applied != look.committed || store_stream_settle(node->stream[0]) != STATUS_OK) {
            continue;
        }
        uint64_t digest = digest_of(at);
        uint64_t sort = sort_of != NULL ? sort_of(at) : 0;
        if (digests[look.applied] != 0 && sorts[look.applied] == sort) {
            CHECK_EQ_U64(digests[look.applied], digest);
            compared++;
        }
        digests[look.applied] = digest;
        sorts[look.applied] = sort;
    }
}

static inline bool all_heard(void) {
    for (uint64_t token = 1; token <= ops_count; token++) {
        if (ops[token].heard_ns == 0) {
            return false;
        }
    }
    return true;
}

/* ---- what clients do --------------------------------------------------------------------------------------------- */

/* Whoever leads now takes it, or nobody. */
static inline bool ask(op_kind_t kind, const append_t *append, uint64_t seq, uint64_t number) {
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    status_t status = STATUS_AGAIN;
    uint64_t token = ops_count + 1;
    CHECK(token < OPS_MAX);
    if (!node->up || node->stands_ns > world.now.mono_ns) {
        return false;
    }
    ops[token] = (op_t){.kind = kind, .asked_ns = world.now.mono_ns, .number = number};
    ops[token].expected = kind == ASK_SET ? append->expected_last_seq : 0;
    ops_count = token;
    switch (kind) {
    case ASK_PUBLISH:
    case ASK_SET: status = replica_publish(replicas[at], append, token, world.now); break;
    case ASK_DELETE: status = replica_delete(replicas[at], seq, token, world.now); break;
    case ASK_PURGE: status = replica_purge(replicas[at], append->subject, seq, number, token, world.now); break;
    }
    if (status != STATUS_OK) {
        CHECK_EQ_I64(STATUS_AGAIN, status);
        ops_count--;
        return false;
    }
    groups_stir(node->groups, node->group[0]);
    return true;
}

#define BATCH_MAX 12
#define PAYLOAD_MAX 72

/* A batch of these, each on a subject of its own or of those before. */
static inline bool ask_batch(const append_t *messages, uint32_t count, uint64_t number) {
    static uint8_t bytes[1u << 16];
    uint32_t at = below(world.nodes);
    node_t *node = &world.node[at];
    uint64_t token = ops_count + 1;
    buffer_t packed;
    CHECK(token < OPS_MAX && count <= BATCH_MAX);
    if (!node->up || node->stands_ns > world.now.mono_ns) {
        return false;
    }
    buffer_init(&packed, UINT32_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = i;
        while (before > 0 && !bytes_equal(messages[before - 1].subject, messages[i].subject)) {
            before--;
        }
        status_t status = replica_pack_batched(replicas[at], &messages[i], before, &packed);
        if (status == STATUS_NO_MEMORY) { /* where allocations fail, its client asks for nothing */
            buffer_free(&packed);
            return false;
        }
        CHECK_EQ_I64(STATUS_OK, status);
    }
    CHECK(packed.size <= sizeof bytes);
    memcpy(bytes, packed.at, packed.size);
    bytes_t packed_bytes = bytes_of(bytes, (uint32_t)packed.size);
    buffer_free(&packed);
    ops[token] = (op_t){.kind = ASK_PUBLISH, .asked_ns = world.now.mono_ns, .number = number};
    ops_count = token;
    if (replica_publish_batch(replicas[at], packed_bytes, token, world.now) != STATUS_OK) {
        ops_count--;
        return false;
    }
    groups_stir(node->groups, node->group[0]);
    return true;
}

/* A message of that number, on one of a few subjects, with its number as its id. Two of three are so large that a
 * member's store has their bytes once, as the entry's, and some of these have a header. */
static inline append_t message_of(uint64_t number, char id[24], uint8_t payload[8], char subject[8]) {
    static uint8_t large[2 * BATCH_MAX][PAYLOAD_MAX]; /* as many as are used at a time */
    uint32_t size = 8 + (uint32_t)(number % 3) * ((PAYLOAD_MAX - 8) / 2);
    uint8_t *at = size == 8 ? payload : large[number % (2 * BATCH_MAX)];
    snprintf(id, 24, "n%llu", (unsigned long long)number);
    snprintf(subject, 8, "s.%u", (unsigned)(number % KEYS));
    memset(at, (int)(number & 0xff), size);
    store_be64(at, number);
    return (append_t){.subject = text(subject),
                      .msg_id = text(id),
                      .header = number % 5 == 0 ? text("NATS/1.0\r\na: b\r\n\r\n") : BYTES_NONE,
                      .payload = bytes_of(at, size)};
}

#endif
