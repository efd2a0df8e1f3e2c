/* groups_world.h: several servers in one process, each with a store of its own and its groups (group/groups.h), joined
 * by a network of the test, for the C tests of groups of many members. Time is moved by hand. The threads of the stores
 * are real, and time stands still while one of them works: how busy the machine is changes nothing. A slow disk is one
 * that its server looks at seldom.
 *
 * An entry is the number of its proposal and becomes a message of the group's stream. What has to hold is looked at all
 * the while:
 *
 *     of one index, every server applies the same entry          (entries)
 *     there is never more than one leader with a lease           (look_at_leads)
 *     what was answered is in every log, once                    (world_agree)
 *     what was answered before another was proposed is before it (world_agree)
 */
#ifndef LEAFD_TESTS_GROUPS_WORLD_H
#define LEAFD_TESTS_GROUPS_WORLD_H

#include <malloc.h>

#include "base/random.h"
#include "group/groups.h"
#include "store/core.h"
#include "store_rig.h"
#include "unreserved.h"

#define NODES_MAX 5
#define GROUPS_MAX 3
#define PARCELS_MAX 4096
#define TOKENS_MAX 20000
#define STEP_NS (5 * NS_PER_MS)

typedef struct where {
    uint32_t node;
    uint32_t group;
} where_t;

typedef struct node {
    rig_t rig;
    groups_t *groups;
    group_t *group[GROUPS_MAX];
    store_stream_t *stream[GROUPS_MAX];
    where_t places[GROUPS_MAX]; /* contexts of the hooks */
    raft_disk_t id;
    bool up;
    bool refuses;      /* what an entry asks for has no room */
    uint32_t slow;     /* of so many turns one looks at the disk; 0: each */
    int64_t stands_ns; /* the process is stopped until then */
} node_t;

typedef struct parcel {
    int64_t due_ns;
    uint32_t from;
    uint32_t to;
    uint32_t size;
    uint8_t *bytes; /* NULL: no parcel */
} parcel_t;

typedef struct proposal {
    int64_t proposed_ns;
    int64_t answered_ns; /* 0: not, or it is not known */
    uint64_t applied_at; /* index, 0: nowhere yet */
    uint32_t group;
} proposal_t;

typedef struct world {
    uint64_t random;
    moment_t now;
    uint32_t nodes;
    uint32_t groups;
    node_t node[NODES_MAX];
    raft_config_t founders;
    parcel_t parcels[PARCELS_MAX];
    bool cut[NODES_MAX][NODES_MAX];
    uint32_t loss;                    /* of 1,000 frames */
    uint32_t twice;                   /* likewise */
    int64_t far_ns;                   /* on its way at least .. */
    int64_t late_ns;                  /* .. and so much more at most */
    uint32_t state_size;              /* of a copy, beside what it needs */
    uint64_t copies;                  /* that were taken */
    proposal_t proposals[TOKENS_MAX]; /* by token */
    uint64_t tokens;
    uint64_t answered;
    uint64_t lost;                            /* who led them leads no more: it is not known */
    uint64_t entries[GROUPS_MAX][TOKENS_MAX]; /* by index: the token that was applied first */
    uint64_t frames;
    uint64_t frame_bytes;
} world_t;

static world_t world;

/* What stands on the groups instead of messages of their own; each NULL: nothing does. Set before world_begin. */
static struct guest {
    stream_config_t (*config)(void);
    void (*opened)(uint32_t at, uint32_t group, group_options_t *options); /* its stream is */
    void (*joined)(uint32_t at, uint32_t group);                           /* its group is there */
    void (*left)(uint32_t at);
    void (*turn)(uint32_t at);
} guest;

/* ---- the network ------------------------------------------------------------------------------------------------- */

static inline bool world_reaches(void *context, uint64_t peer) {
    const node_t *node = context;
    return peer >= 1 && peer <= world.nodes && !world.cut[node->id.peer - 1][peer - 1];
}

static inline void world_post(uint32_t from, uint32_t to, bytes_t frame) {
    for (uint32_t i = 0; i < PARCELS_MAX; i++) {
        parcel_t *parcel = &world.parcels[i];
        if (parcel->bytes == NULL) {
            int64_t late_ns = world.far_ns + world.late_ns / 1024 * random_below(&world.random, 1024);
            *parcel = (parcel_t){.due_ns = world.now.mono_ns + late_ns, .from = from, .to = to, .size = frame.size};
            parcel->bytes = malloc(frame.size);
            if (parcel->bytes != NULL) { /* else it is lost */
                memcpy(parcel->bytes, frame.at, frame.size);
            }
            return;
        }
    }
}

static inline void world_deliver(void *context, uint64_t peer, bytes_t frame) {
    const node_t *node = context;
    uint32_t from = (uint32_t)node->id.peer - 1;
    world.frames++;
    world.frame_bytes += frame.size;
    if (random_below(&world.random, 1000) >= world.loss) {
        world_post(from, (uint32_t)peer - 1, frame);
    }
    if (random_below(&world.random, 1000) < world.twice) {
        world_post(from, (uint32_t)peer - 1, frame);
    }
}

static inline void world_forget(parcel_t *parcel) {
    free(parcel->bytes);
    parcel->bytes = NULL;
}

static inline void world_carry(void) {
    for (uint32_t i = 0; i < PARCELS_MAX; i++) {
        parcel_t *parcel = &world.parcels[i];
        node_t *node = &world.node[parcel->to];
        if (parcel->bytes == NULL || parcel->due_ns > world.now.mono_ns || node->stands_ns > world.now.mono_ns) {
            continue;
        }
        if (node->up && !world.cut[parcel->from][parcel->to]) {
            groups_receive(node->groups, parcel->from + 1, bytes_of(parcel->bytes, parcel->size), world.now);
        }
        world_forget(parcel);
    }
}

/* ---- what entries do --------------------------------------------------------------------------------------------- */

static inline bool world_apply(void *context, raft_index_t index, bytes_t bytes) {
    const where_t *place = context;
    node_t *node = &world.node[place->node];
    if (node->refuses) {
        return false;
    }
    CHECK(index < TOKENS_MAX);
    uint64_t token = load_be64(bytes.at);
    uint64_t *entry = &world.entries[place->group][index];
    CHECK(*entry == 0 || *entry == token);
    CHECK(world.proposals[token].applied_at == 0 || world.proposals[token].applied_at == index);
    append_t append = {.subject = text("s"), .payload = bytes};
    if (store_append(node->stream[place->group], &append, world.now).verdict != APPEND_STORED) {
        return false;
    }
    *entry = token;
    world.proposals[token].applied_at = index;
    return true;
}

static inline void world_answer(void *context, uint64_t token, bool applied) {
    (void)context;
    CHECK(world.proposals[token].answered_ns == 0);
    if (applied) {
        CHECK(world.proposals[token].applied_at != 0);
        world.proposals[token].answered_ns = world.now.mono_ns;
        world.answered++;
    } else {
        world.lost++;
    }
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* A state is how many messages there are. Who takes a copy does not get them, but notes which it lacks: a record of
 * pairs, the last one that it has or lacks before, and the last one of the copy. */
#define RECORD_LACKING 60
#define LACKING_SIZE 16

static inline uint64_t lacking(const where_t *place, uint8_t key[4], bytes_t *pairs) {
    const node_t *node = &world.node[place->node];
    uint64_t messages = 0;
    store_be32(key, place->group + 1);
    status_t status = entry_status(store_record_get(node->rig.store, RECORD_LACKING, bytes_of(key, 4), pairs));
    if (status == STATUS_NOT_FOUND) {
        *pairs = BYTES_NONE;
    } else if (status != STATUS_OK) {
        return UINT64_MAX;
    }
    for (uint32_t at = 0; at < pairs->size; at += LACKING_SIZE) {
        messages += load_be64(pairs->at + at + 8) - load_be64(pairs->at + at);
    }
    return messages;
}

static inline bool world_save(void *context, buffer_t *to) {
    const where_t *place = context;
    uint8_t count[8];
    bytes_t pairs = BYTES_NONE;
    uint64_t lacks = lacking(place, count, &pairs);
    if (lacks == UINT64_MAX) {
        return false;
    }
    store_be64(count, lacks + rig_state(world.node[place->node].stream[place->group]).messages);
    bool saved = buffer_append(to, count, sizeof count) == STATUS_OK;
    for (uint32_t size = 0; saved && size < world.state_size; size += sizeof count) {
        saved = buffer_append(to, count, sizeof count) == STATUS_OK;
    }
    return saved;
}

static inline bool world_restore(void *context, raft_index_t index, bytes_t state) {
    const where_t *place = context;
    const node_t *node = &world.node[place->node];
    uint8_t value[4096];
    uint8_t key[4];
    bytes_t pairs = BYTES_NONE;
    uint64_t lacks = node->refuses ? UINT64_MAX : lacking(place, key, &pairs);
    uint64_t count = 0;
    if (lacks == UINT64_MAX) {
        return false;
    }
    for (uint64_t i = 1; i <= index; i++) {
        count += world.entries[place->group][i] != 0;
    }
    CHECK_EQ_U64(count, load_be64(state.at));
    CHECK(state.size >= world.state_size);
    CHECK(pairs.size + LACKING_SIZE <= sizeof value);
    uint8_t *end = bytes_write(value, pairs);
    store_be64(end, lacks + rig_state(node->stream[place->group]).messages);
    store_be64(end + 8, count);
    pairs = bytes_of(value, pairs.size + LACKING_SIZE);
    bool restored = store_record_put(node->rig.store, RECORD_LACKING, bytes_of(key, 4), pairs) == STATUS_OK;
    world.copies += restored;
    return restored;
}

static inline bool is_lacking(bytes_t pairs, uint64_t message) {
    for (uint32_t at = 0; at < pairs.size; at += LACKING_SIZE) {
        if (load_be64(pairs.at + at) < message && message <= load_be64(pairs.at + at + 8)) {
            return true;
        }
    }
    return false;
}

/* Entries of `size` bytes, at least 8. */
static inline bool world_propose(uint32_t at, uint32_t group, uint32_t size) {
    static uint8_t bytes[1 << 16];
    node_t *node = &world.node[at];
    CHECK(world.tokens + 1 < TOKENS_MAX);
    CHECK(size >= 8 && size <= sizeof bytes);
    if (!node->up || node->stands_ns > world.now.mono_ns) {
        return false;
    }
    uint64_t token = world.tokens + 1;
    store_be64(bytes, token);
    world.proposals[token] = (proposal_t){.proposed_ns = world.now.mono_ns, .group = group};
    if (group_propose(node->group[group], bytes_of(bytes, size), token) != STATUS_OK) {
        return false;
    }
    groups_stir(node->groups, node->group[group]);
    world.tokens = token;
    return true;
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

static inline group_options_t world_options(uint32_t at, uint32_t group) {
    node_t *node = &world.node[at];
    node->places[group] = (where_t){.node = at, .group = group};
    return (group_options_t){.number = group + 1,
                             .name = 500 + group,
                             .founders = &world.founders,
                             .times = {.election_ns = 1500 * NS_PER_MS,
                                       .lease_ns = 1200 * NS_PER_MS,
                                       .beat_ns = 200 * NS_PER_MS,
                                       .rest_ns = 600 * NS_PER_MS},
                             .seed = random_next(&world.random) | 1,
                             .hooks = {.context = &node->places[group],
                                       .apply = world_apply,
                                       .save = world_save,
                                       .restore = world_restore,
                                       .answer = world_answer}};
}

/* Its store is open: the groups that it has, or has to have. */
static inline void node_begin(uint32_t at) {
    node_t *node = &world.node[at];
    groups_hooks_t hooks = {.context = node, .reaches = world_reaches, .deliver = world_deliver};
    CHECK_EQ_I64(STATUS_OK, groups_open(node->rig.store, at + 1, hooks, &node->groups));
    for (uint32_t group = 0; group < world.groups; group++) {
        stream_config_t config = guest.config != NULL ? guest.config() : rig_config();
        node->stream[group] = rig_stream(&node->rig, group + 1, config);
        group_options_t options = world_options(at, group);
        if (guest.opened != NULL) {
            guest.opened(at, group, &options);
        }
        status_t status = groups_load(node->groups, options, world.now, &node->group[group]);
        if (status == STATUS_OK && node->group[group] == NULL) {
            status = groups_make(node->groups, options, world.now, &node->group[group]);
        }
        if (guest.joined != NULL) {
            guest.joined(at, group);
        }
        CHECK_EQ_I64(STATUS_OK, status);
        CHECK_EQ_U64(500 + group, group_name(node->group[group]));
    }
    CHECK(groups_self(node->groups).disk == node->id.disk);
    node->up = true;
}

static inline void node_start(uint32_t at) {
    world.node[at].rig.now = world.now;
    rig_start(&world.node[at].rig);
    node_begin(at);
}

static inline void node_down(uint32_t at) {
    node_t *node = &world.node[at];
    if (guest.left != NULL) {
        guest.left(at);
    }
    groups_close(node->groups);
    node->groups = NULL;
    node->up = false;
    node->stands_ns = 0;
}

/* kill -9 */
static inline void node_kill(uint32_t at) {
    node_down(at);
    rig_kill(&world.node[at].rig);
}

static inline void world_begin(uint32_t nodes, uint32_t groups, uint64_t seed) {
    memset(&world, 0, sizeof world);
    malloc_trim(0); /* the C library's first one, before the threads of several stores may both begin it */
    world.random = seed;
    world.nodes = nodes;
    world.groups = groups;
    world.now = (moment_t){.mono_ns = NS_PER_SECOND, .wall_ns = RIG_START};
    for (uint32_t at = 0; at < nodes; at++) {
        node_t *node = &world.node[at];
        node->rig = (rig_t){.in_memory = true, .options = {.ledgers = true, .max_bytes = 1 << 28}};
        rig_open(&node->rig);
        node->id.peer = at + 1;
        CHECK(store_ledger_disk(node->rig.store, &node->id.disk));
        world.founders.at[world.founders.count++] = (raft_member_t){.id = node->id, .voter = true};
    }
    for (uint32_t at = 0; at < nodes; at++) {
        node_begin(at);
    }
}

static inline void world_end(void) {
    for (uint32_t i = 0; i < PARCELS_MAX; i++) {
        world_forget(&world.parcels[i]);
    }
    for (uint32_t at = 0; at < world.nodes; at++) {
        node_down(at);
        rig_close(&world.node[at].rig);
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static inline void look_at_leads(void) {
    for (uint32_t group = 0; group < world.groups; group++) {
        uint32_t leased = 0;
        for (uint32_t at = 0; at < world.nodes; at++) {
            const node_t *node = &world.node[at];
            leased += node->up && group_look(node->group[group], world.now).leased;
        }
        CHECK(leased <= 1);
    }
}

/* As the plane: the groups, the store, the groups. */
static inline void node_turn(node_t *node) {
    node->rig.now = world.now;
    groups_turn(node->groups, world.now);
    if (node->slow == 0 || random_below(&world.random, node->slow) == 0) {
        store_tick(node->rig.store, world.now);
    }
    groups_turn(node->groups, world.now);
    while (store_advanced_next(node->rig.store) != NULL) {
    }
}

static inline void world_show(void) {
    for (uint32_t group = 0; group < world.groups; group++) {
        for (uint32_t at = 0; at < world.nodes; at++) {
            const node_t *node = &world.node[at];
            group_look_t look = {0};
            if (node->up) {
                look = group_look(node->group[group], world.now);
            }
            fprintf(
                stderr,
                "  group %u at %u: %s role %d state %d term %llu last %llu committed %llu applied %llu floor %llu\n",
                group, at, node->up ? "up" : "down", (int)look.role, (int)look.state, (unsigned long long)look.term,
                (unsigned long long)look.last, (unsigned long long)look.committed, (unsigned long long)look.applied,
                (unsigned long long)look.floor);
        }
    }
}

/* Are its threads at work on something that they can end without us? */
static inline bool disk_works(const store_t *store) {
    const pipeline_t *pipeline = &store->pipeline;
    const keeper_t *keeper = &store->keeper;
    bool writes = pipeline->durable != pipeline->flight_number && atomic_load(&keeper->durable) < pipeline->flight_end;
    bool checkpoint =
        pipeline->boundary != 0 && pipeline->boundary_sent && atomic_load(&keeper->checkpointed) < pipeline->boundary;
    bool fails = atomic_load(&keeper->journal_trouble) != STATUS_OK || atomic_load(&keeper->keeper_trouble) != STATUS_OK
                 || atomic_load(&keeper->parked);
    return (writes || checkpoint) && !fails;
}

static inline void world_step(void) {
    world_carry();
    for (uint32_t at = 0; at < world.nodes; at++) {
        node_t *node = &world.node[at];
        if (node->up && node->stands_ns <= world.now.mono_ns) {
            node_turn(node);
            if (guest.turn != NULL) {
                guest.turn(at);
            }
        }
    }
    look_at_leads();
    for (uint32_t at = 0; at < world.nodes; at++) {
        const store_t *store = world.node[at].up ? world.node[at].rig.store : NULL;
        for (int64_t until = 0; store != NULL && disk_works(store);) {
            CHECK(patient(&until));
            struct pollfd poller = {.fd = store_wake_fd(store), .events = POLLIN};
            poll(&poller, 1, 1); /* its news may be older than what is waited for */
        }
    }
    world.now.mono_ns += STEP_NS;
    world.now.wall_ns += STEP_NS;
}

static inline void world_pass(int64_t ns) {
    for (int64_t until_ns = world.now.mono_ns + ns; world.now.mono_ns < until_ns;) {
        world_step();
    }
}

/* nodes: no leader with a lease. */
static inline uint32_t world_leader(uint32_t group) {
    for (uint32_t at = 0; at < world.nodes; at++) {
        if (world.node[at].up && group_look(world.node[at].group[group], world.now).leased) {
            return at;
        }
    }
    return world.nodes;
}

/* What does not come to it in a minute does not come to it. Disks are real and time is not: a copy waits for a
 * checkpoint, in which a quick machine passes minutes. */
static inline void world_until(bool (*done)(void)) {
    int64_t until_ns = world.now.mono_ns + 60 * NS_PER_SECOND;
    for (int64_t until = 0; world.now.mono_ns < until_ns || patient(&until);) {
        if (done()) {
            return;
        }
        world_step();
    }
    world_show();
    FAIL("the groups do not come to it");
}

static inline bool all_lead(void) {
    for (uint32_t group = 0; group < world.groups; group++) {
        if (world_leader(group) == world.nodes) {
            return false;
        }
    }
    return true;
}

static inline bool all_level(void) {
    for (uint32_t group = 0; group < world.groups; group++) {
        uint32_t leader = world_leader(group);
        if (leader == world.nodes) {
            return false;
        }
        raft_index_t last = group_look(world.node[leader].group[group], world.now).last;
        for (uint32_t at = 0; at < world.nodes; at++) {
            if (world.node[at].up && group_applied(world.node[at].group[group]) != last) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the end of a history ---------------------------------------------------------------------------------------- */

static inline void world_heal(void) {
    memset(world.cut, 0, sizeof world.cut);
    world.loss = world.twice = 0;
    world.far_ns = world.late_ns = 0;
    for (uint32_t at = 0; at < world.nodes; at++) {
        world.node[at].stands_ns = 0;
        world.node[at].refuses = false;
        world.node[at].slow = 0;
        if (!world.node[at].up) {
            node_start(at);
        }
    }
}

static inline void node_agrees(const node_t *node, uint32_t group) {
    uint64_t seq = 0;
    uint64_t nth = 0;
    uint8_t key[4];
    bytes_t pairs = BYTES_NONE;
    CHECK(lacking(&node->places[group], key, &pairs) != UINT64_MAX);
    uint8_t kept[4096];
    CHECK(pairs.size <= sizeof kept);
    pairs = bytes_of(kept, (uint32_t)(bytes_write(kept, pairs) - kept)); /* reads of messages follow */
    for (uint64_t index = 1; index < TOKENS_MAX; index++) {
        stored_message_t message;
        uint64_t token = world.entries[group][index];
        if (token == 0 || is_lacking(pairs, ++nth)) {
            continue;
        }
        CHECK_EQ_I64(ENTRY_FOUND, store_read(node->stream[group], ++seq, &message));
        CHECK_EQ_U64(token, load_be64(message.payload.at));
    }
    CHECK_EQ_U64(seq, rig_state(node->stream[group]).messages);
}

/* Orders and the clock agree: whatever was answered before another was proposed comes before it. */
static inline void order_agrees(uint32_t group) {
    uint64_t latest = 0; /* of the proposals so far by index, when the latest was made */
    for (uint64_t index = 1; index < TOKENS_MAX; index++) {
        const proposal_t *proposal = &world.proposals[world.entries[group][index]];
        if (world.entries[group][index] == 0) {
            continue;
        }
        CHECK(proposal->answered_ns == 0 || (uint64_t)proposal->answered_ns >= latest);
        latest = (uint64_t)proposal->proposed_ns > latest ? (uint64_t)proposal->proposed_ns : latest;
    }
}

/* Everything is well again, all servers come to the same, and that is what was answered. */
static inline void world_agree(void) {
    world_heal();
    world_until(all_level);
    for (uint64_t token = 1; token <= world.tokens; token++) {
        const proposal_t *proposal = &world.proposals[token];
        CHECK(proposal->answered_ns == 0 || world.entries[proposal->group][proposal->applied_at] == token);
    }
    for (uint32_t group = 0; group < world.groups; group++) {
        order_agrees(group);
        for (uint32_t at = 0; at < world.nodes; at++) {
            node_agrees(&world.node[at], group);
        }
    }
}

#endif
