/* raft_rig.h: one member of a group, or some, by hand, for the C tests of native/raft: a clock that is set, a network
 * that delivers at once but for cut members, disks that are as quick unless they are held.
 */
#ifndef LEAFD_TESTS_RAFT_RIG_H
#define LEAFD_TESTS_RAFT_RIG_H

#include "raft/raft.h"

#include "test.h"

#define MS INT64_C(1000000)
#define THREE 3
#define BAG_MAX 4096

static raft_times_t times = {.election_ns = 1500 * MS, .lease_ns = 1200 * MS, .beat_ns = 200 * MS};

typedef struct rig {
    int64_t now;
    uint32_t count;
    raft_t raft[5];
    bool cut[5];
    bool held[5]; /* its disk writes nothing */
    uint64_t written[5];
    raft_index_t committed[5];
    raft_disk_t copy_for;
    uint32_t entries_sent, messages_sent;
    raft_message_t bag[BAG_MAX];
    uint64_t after[BAG_MAX];
    uint32_t bag_count;
    raft_config_t last_config; /* of the last change, as its entry would carry it */
} rig_t;

static rig_t rig;
static raft_outputs_t outputs;

static inline raft_disk_t disk_of(uint32_t i) {
    return (raft_disk_t){.peer = i + 1, .disk = 100 + i};
}

static inline void start(uint32_t count, uint32_t voters) {
    raft_config_t config = {.count = voters};
    memset(&rig, 0, sizeof rig);
    rig.count = count;
    for (uint32_t i = 0; i < voters; i++) config.at[i] = (raft_member_t){.id = disk_of(i), .voter = true};
    for (uint32_t i = 0; i < count; i++) {
        raft_start_t begin = {.self = disk_of(i), .times = times, .seed = 7 + i};
        if (i < voters) begin.configs[0] = begin.configs[1] = config;
        raft_init(&rig.raft[i], &begin, rig.now);
    }
}

static inline void drain(uint32_t i) {
    raft_output_t output;
    raft_t *raft = &rig.raft[i];
    while (raft_next(raft, &outputs, &output, rig.now)) {
        if (output.write != 0) rig.written[i] = output.write;
        if (output.action == RAFT_COMMIT) rig.committed[i] = output.upto;
        if (output.action == RAFT_APPEND && output.kind == RAFT_MEMBERS) rig.last_config = *raft_members(raft);
        if (output.action == RAFT_COPY) rig.copy_for = output.to;
        if (output.action != RAFT_SEND) continue;
        rig.messages_sent++;
        rig.entries_sent += output.message.count;
        CHECK(rig.bag_count < BAG_MAX);
        rig.after[rig.bag_count] = output.after;
        rig.bag[rig.bag_count++] = output.message;
    }
}

static inline void persist(uint32_t i) {
    if (rig.held[i]) return;
    raft_persisted(&rig.raft[i], &outputs, rig.written[i], rig.now);
    drain(i);
}

/* Delivers what is under way. false: nothing was. */
static inline bool settle_once(void) {
    for (uint32_t i = 0; i < rig.count; i++) persist(i);
    uint32_t count = rig.bag_count, kept = 0, gone = 0;
    for (uint32_t at = 0; at < count; at++) {
        raft_message_t message = rig.bag[at];
        uint32_t from = (uint32_t)message.from.peer - 1, to = (uint32_t)message.to.peer - 1;
        if (rig.held[from] && rig.after[at] != 0) {
            rig.after[kept] = rig.after[at];
            rig.bag[kept++] = message;
            continue;
        }
        gone++;
        if (rig.cut[from] || rig.cut[to] || to >= rig.count) continue;
        raft_config_t config = rig.last_config;
        bool has = message.count != 0 && config.index > message.index && config.index <= message.index + message.count;
        message.config_count = has ? 1 : 0;
        message.configs = &config;
        raft_receive(&rig.raft[to], &outputs, &message, rig.now);
        drain(to);
    }
    memmove(rig.bag + kept, rig.bag + count, sizeof rig.bag[0] * (rig.bag_count - count));
    memmove(rig.after + kept, rig.after + count, sizeof rig.after[0] * (rig.bag_count - count));
    rig.bag_count -= count - kept;
    return gone != 0;
}

/* .. until nothing is. */
static inline void settle(void) {
    for (uint32_t round = 0; round < 2000; round++) {
        if (!settle_once()) return;
    }
    FAIL("messages without end");
}

static inline void pass(int64_t ns) {
    for (int64_t end = rig.now + ns; rig.now < end;) {
        rig.now += 50 * MS;
        for (uint32_t i = 0; i < rig.count; i++) {
            raft_tick(&rig.raft[i], &outputs, rig.now);
            drain(i);
        }
        settle();
    }
}

static inline uint32_t leader(void) {
    uint32_t found = rig.count;
    for (uint32_t i = 0; i < rig.count; i++) {
        if (!rig.cut[i] && rig.raft[i].role == RAFT_LEADER) found = i;
    }
    CHECK(found < rig.count);
    return found;
}

static inline raft_index_t propose(uint32_t i, uint32_t count) {
    raft_index_t index = 0;
    CHECK(raft_propose(&rig.raft[i], &outputs, count, &index));
    drain(i);
    return index;
}

static inline void lead_three(void) {
    start(THREE, THREE);
    pass(5000 * MS);
    (void)leader();
}

#endif
