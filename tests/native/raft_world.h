/* raft_world.h: what simulated members of a group have around them: clocks, a network's bag of messages, and disks with
 * the log as it is after each write, and after a crash. What happens to them: raft_sim.h.
 */
#ifndef LEAFD_TESTS_RAFT_WORLD_H
#define LEAFD_TESTS_RAFT_WORLD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "raft/raft.h"

#define NODES 6
#define PARCELS_MAX 160
#define WRITES_MAX 96
#define TERMS_MAX 4096
#define PART_MAX 48 /* entries in a message of the test */
#define MS INT64_C(1000000)
#define DRIFT_MAX 50 /* thousandths: clocks differ by at most a tenth */
#define LOG_MAX 1024
#define CONFIGS_MAX 2048

typedef struct entry {
    raft_term_t term;
    uint64_t value;
    raft_kind_t kind;
    const raft_config_t *config; /* of kind RAFT_MEMBERS: one of the simulation's, see keep_config() */
} entry_t;

/* What a disk has. The entries up to base are in the state, with the members there. */
typedef struct disk {
    raft_term_t term;
    raft_disk_t vote;
    uint8_t patience;
    raft_index_t base;
    raft_term_t base_term;
    const raft_config_t *base_config;
    raft_index_t last;
    entry_t *log; /* by index */
} disk_t;

typedef struct write_op {
    raft_action_t action;
    uint64_t number;
    raft_term_t term;
    raft_disk_t vote;
    uint8_t patience;
    raft_index_t from, upto;
    const raft_config_t *config;
    entry_t *entries;
} write_op_t;

typedef struct parcel {
    raft_message_t message;
    uint64_t after; /* of the sender's writes; 0: has left */
    int64_t ripe;   /* it is there at that time */
    bool copy;
    const raft_config_t *config;
    entry_t *entries;
} parcel_t;

typedef struct node {
    raft_t raft;
    raft_disk_t id;
    bool alive;
    disk_t now;  /* as the member believes */
    disk_t disk; /* as it is after a crash */
    write_op_t writes[WRITES_MAX];
    uint32_t write_count;
    raft_index_t commit;
    int64_t rate; /* thousandths of the true clock */
    int64_t offset;
} node_t;

typedef struct sim {
    uint64_t random;
    int64_t time;
    node_t nodes[NODES];
    parcel_t bag[PARCELS_MAX];
    uint32_t bag_count;
    bool cut[NODES][NODES];
    entry_t committed[LOG_MAX];
    raft_term_t committed_in[LOG_MAX]; /* the term of who told first */
    raft_index_t committed_last;
    uint64_t leaders[TERMS_MAX];
    uint64_t values;
    uint64_t disks;
    uint32_t wiped;
    bool calm;
    const char *fault;
    uint32_t loss;    /* of a hundred messages */
    uint32_t unrest;  /* of 16: how often links break and members crash */
    uint32_t hurry;   /* of 16: how long the steps of time are */
    uint32_t writing; /* of 16: how quick the disks are */
    bool quiet;       /* little is proposed: groups come to rest */
    bool far;         /* members are at times so far from each other that they go slower */
    int64_t delay;    /* .. as far, one way */
    bool eager;       /* new leaders change members at once, if they may */
    raft_outputs_t out;
    raft_config_t configs[CONFIGS_MAX];
    uint32_t config_count;
    uint64_t elections, commits, changes, copies, crashes, leases, heard, patient, lost;
    int64_t watched; /* of the time: it went on by no more than 60 ms at once, so that members saw it pass */
} sim_t;

static const raft_times_t sim_times = {
    .election_ns = 1500 * MS, .lease_ns = 1200 * MS, .beat_ns = 200 * MS, .rest_ns = 600 * MS};

static uint32_t chance(sim_t *sim, uint32_t limit) {
    return random_below(&sim->random, limit);
}

static int64_t clock_of(const sim_t *sim, const node_t *node) {
    return node->offset + sim->time / 1000 * node->rate;
}

static void broken(sim_t *sim, const char *invariant) {
    if (sim->fault == NULL) sim->fault = invariant;
}

static node_t *node_of(sim_t *sim, raft_disk_t id) {
    for (uint32_t i = 0; i < NODES; i++) {
        if (sim->nodes[i].id.peer == id.peer) return &sim->nodes[i];
    }
    return NULL;
}

static void bag_put(sim_t *sim, const parcel_t *parcel) {
    uint32_t at = sim->bag_count;
    if (at == PARCELS_MAX) {
        at = chance(sim, PARCELS_MAX);
        free(sim->bag[at].entries);
    } else {
        sim->bag_count++;
    }
    sim->bag[at] = *parcel;
    sim->bag[at].ripe = sim->time + sim->delay;
}

static const raft_config_t no_members;

/* Entries and messages point to their members, since most have none, and copying them would take most of the time. */
static const raft_config_t *keep_config(sim_t *sim, const raft_config_t *config) {
    if (sim->config_count == CONFIGS_MAX) {
        broken(sim, "a run of the test has more changes of members than it has room for");
        return &no_members;
    }
    sim->configs[sim->config_count] = *config;
    return &sim->configs[sim->config_count++];
}

static void disk_new(disk_t *disk) {
    entry_t *log = disk->log;
    *disk = (disk_t){.log = log, .base_config = &no_members};
}

static void disk_copy(disk_t *to, const disk_t *from) {
    entry_t *log = to->log;
    memcpy(log, from->log, sizeof(entry_t) * LOG_MAX);
    *to = *from;
    to->log = log;
}

static void disk_do(disk_t *disk, const write_op_t *op) {
    switch (op->action) {
    case RAFT_SAVE:
        disk->term = op->term;
        disk->vote = op->vote;
        disk->patience = op->patience;
        return;
    case RAFT_CUT: disk->last = op->from < disk->last ? op->from : disk->last; return;
    case RAFT_APPEND:
        for (raft_index_t i = op->from; i <= op->upto; i++) disk->log[i] = op->entries[i - op->from];
        disk->last = op->upto;
        return;
    case RAFT_RESET:
        disk->base = disk->last = op->from;
        disk->base_term = op->term;
        disk->base_config = op->config;
        return;
    default: return;
    }
}

/* The trail and the last two changes of members of a log. */
static void disk_start(const disk_t *disk, raft_start_t *start) {
    trail_init(&start->trail, disk->base, disk->base_term);
    start->configs[0] = start->configs[1] = *disk->base_config;
    for (raft_index_t i = disk->base + 1; i <= disk->last; i++) {
        (void)trail_append(&start->trail, 1, disk->log[i].term);
        if (disk->log[i].kind != RAFT_MEMBERS) continue;
        start->configs[0] = start->configs[1];
        start->configs[1] = *disk->log[i].config;
    }
}

static uint32_t raft_place_of(const raft_config_t *members, raft_disk_t id) {
    uint32_t i = 0;
    while (i < members->count && (members->at[i].id.peer != id.peer || members->at[i].id.disk != id.disk)) i++;
    return i;
}

#endif
