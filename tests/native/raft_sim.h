/* raft_sim.h: a group of members in one process, in which everything happens by chance: messages are lost, repeated and
 * overtake each other, disks have any part of what was not synced yet after a crash, links break one way, clocks go at
 * rates of their own, members are added, promoted, removed, handed over to, put back empty.
 *
 *     sim_run(seed) --> NULL, or the invariant that did not hold
 *
 * After each step: one leader a term, what is committed is the same everywhere, is in the log of each new leader and on
 * the disks of a majority, leases do not overlap. At the end everything is healed, and the group must move again.
 * Shared by test_raft_sim.c and test_raft_rules.c, which takes the rules out one at a time.
 */
#ifndef LEAFD_TESTS_RAFT_SIM_H
#define LEAFD_TESTS_RAFT_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "raft/raft.h"
#include "raft_pairs.h"
#include "raft_world.h"

#define FAR 3 /* one of so many runs is with members that are far from each other */

static void node_persist(sim_t *sim, node_t *node, uint32_t count);
static void node_drain(sim_t *sim, node_t *node, raft_outputs_t *out);
static void alter_by(sim_t *sim, node_t *node);

/* One for all, since filling as many bytes with zeros for each call would take most of the time. */
static raft_outputs_t *no_outputs(sim_t *sim) {
    sim->out.queued = sim->out.taken = 0;
    return &sim->out;
}

static void node_start(sim_t *sim, node_t *node) {
    raft_start_t start = {.self = node->id,
                          .term = node->disk.term,
                          .vote = node->disk.vote,
                          .patience = node->disk.patience,
                          .commit = node->disk.base,
                          .times = sim_times,
                          .seed = random_next(&sim->random)};
    disk_start(&node->disk, &start);
    disk_copy(&node->now, &node->disk);
    node->commit = node->disk.base;
    node->write_count = 0;
    node->alive = true;
    raft_init(&node->raft, &start, clock_of(sim, node));
}

static void drop_writes(node_t *node, uint32_t from) {
    for (uint32_t i = from; i < node->write_count; i++) free(node->writes[i].entries);
    node->write_count = from;
}

static void node_crash(sim_t *sim, node_t *node) {
    uint32_t kept = chance(sim, node->write_count + 1);
    for (uint32_t i = 0; i < kept; i++) disk_do(&node->disk, &node->writes[i]);
    drop_writes(node, 0);
    node->alive = false;
    for (uint32_t i = 0; i < sim->bag_count;) { /* what waited for the disk never leaves */
        parcel_t *parcel = &sim->bag[i];
        if (parcel->after != 0 && parcel->message.from.peer == node->id.peer) {
            free(parcel->entries);
            *parcel = sim->bag[--sim->bag_count];
        } else {
            i++;
        }
    }
    sim->crashes++;
}

/* ---- what members do */

static void send_message(sim_t *sim, node_t *node, const raft_output_t *output) {
    parcel_t parcel = {.message = output->message, .after = output->after};
    uint32_t count = output->message.count;
    if (count > PART_MAX) {
        parcel.message.count = count = PART_MAX; /* the caller may send less; the rest counts as lost */
    }
    if (count != 0) {
        parcel.entries = malloc(sizeof(entry_t) * count);
        for (uint32_t i = 0; i < count; i++) parcel.entries[i] = node->now.log[output->message.index + 1 + i];
    }
    bag_put(sim, &parcel);
}

static void send_copy(sim_t *sim, node_t *node, raft_disk_t to) {
    raft_term_t term;
    if (!trail_term(&node->raft.trail, node->commit, &term)) return;
    parcel_t parcel = {.copy = true, .message = {.from = node->id, .to = to, .index = node->commit, .log_term = term}};
    parcel.config = node->now.base_config;
    for (raft_index_t i = node->now.base + 1; i <= node->commit; i++) {
        if (node->now.log[i].kind == RAFT_MEMBERS) parcel.config = node->now.log[i].config;
    }
    bag_put(sim, &parcel);
    sim->copies++;
}

static void note_write(sim_t *sim, node_t *node, const raft_output_t *output, const raft_config_t *config) {
    if (node->write_count == WRITES_MAX) node_persist(sim, node, 0);
    write_op_t *op = &node->writes[node->write_count++];
    *op = (write_op_t){.action = output->action,
                       .number = output->write,
                       .term = output->term,
                       .vote = output->vote,
                       .patience = output->patience,
                       .from = output->from,
                       .upto = output->upto};
    op->config = config;
    if (output->action == RAFT_APPEND) {
        uint64_t count = output->upto - output->from + 1;
        op->entries = malloc(sizeof(entry_t) * count);
        for (uint64_t i = 0; i < count; i++) op->entries[i] = node->now.log[output->from + i];
    }
}

static bool on_disk(const sim_t *sim, raft_disk_t id, raft_index_t index, raft_term_t term) {
    for (uint32_t i = 0; i < NODES; i++) {
        const node_t *node = &sim->nodes[i];
        if (node->id.peer != id.peer || node->id.disk != id.disk) continue;
        if (node->disk.base >= index) return true;
        return node->disk.last >= index && node->disk.log[index].term == term;
    }
    return true; /* it was put away since: what it had is not known */
}

/* A leader has committed: a majority of the voters of its members has the entry on the disk. */
static void see_majority(sim_t *sim, const node_t *node, raft_index_t index) {
    const raft_config_t *members = raft_members(&node->raft);
    uint32_t voters = 0, having = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        if (!members->at[i].voter) continue;
        voters++;
        having += on_disk(sim, members->at[i].id, index, node->now.log[index].term) ? 1 : 0;
    }
    if (having <= voters / 2) broken(sim, "an entry is committed that is not on the disks of a majority");
}

static void see_commit(sim_t *sim, node_t *node, raft_index_t upto) {
    for (raft_index_t i = node->commit + 1; i <= upto && i <= node->now.last; i++) {
        const entry_t *own = &node->now.log[i];
        if (i <= sim->committed_last) {
            const entry_t *other = &sim->committed[i];
            if (other->term != own->term || other->value != own->value)
                broken(sim, "two entries are committed at one index");
            continue;
        }
        sim->committed[i] = *own;
        sim->committed_in[i] = node->raft.term;
        sim->committed_last = i;
        sim->commits++;
    }
    if (upto > node->now.last) broken(sim, "something is committed that is not in the log");
    if (node->raft.role == RAFT_LEADER && sim->fault == NULL) see_majority(sim, node, upto);
    node->commit = upto;
}

static void see_leader(sim_t *sim, node_t *node) {
    raft_term_t term = node->raft.term;
    if (node->raft.role != RAFT_LEADER || term >= TERMS_MAX) return;
    uint64_t own = node->id.disk;
    if (sim->leaders[term] == own) return;
    if (sim->leaders[term] != 0) broken(sim, "a term has two leaders");
    sim->leaders[term] = own;
    sim->elections++;
    for (raft_index_t i = node->now.base + 1; i <= sim->committed_last; i++) {
        if (sim->committed_in[i] >= term) continue; /* an older term's leader may come late */
        if (i > node->now.last || node->now.log[i].term != sim->committed[i].term) {
            broken(sim, "a leader lacks what is committed");
            return;
        }
    }
    if (sim->eager) alter_by(sim, node);
}

static void node_drain(sim_t *sim, node_t *node, raft_outputs_t *out) {
    raft_output_t output;
    while (sim->fault == NULL && raft_next(&node->raft, out, &output, clock_of(sim, node))) {
        switch (output.action) {
        case RAFT_SAVE:
            node->now.term = output.term;
            node->now.vote = output.vote;
            node->now.patience = output.patience;
            note_write(sim, node, &output, NULL);
            break;
        case RAFT_CUT:
            if (output.from < node->commit) broken(sim, "a member cuts off what it has committed");
            node->now.last = output.from;
            note_write(sim, node, &output, NULL);
            break;
        case RAFT_APPEND:
            for (raft_index_t i = output.from; i <= output.upto && node->raft.role == RAFT_LEADER; i++) {
                node->now.log[i] = (entry_t){.term = output.term, .kind = output.kind, .value = ++sim->values};
                if (output.kind == RAFT_MEMBERS) node->now.log[i].config = keep_config(sim, raft_members(&node->raft));
            }
            node->now.last = output.upto;
            note_write(sim, node, &output, NULL);
            break;
        case RAFT_RESET:
            node->now.base = node->now.last = node->commit = output.from;
            node->now.base_term = output.term;
            node->now.base_config = keep_config(sim, raft_members(&node->raft));
            note_write(sim, node, &output, node->now.base_config);
            break;
        case RAFT_SEND: send_message(sim, node, &output); break;
        case RAFT_COMMIT: see_commit(sim, node, output.upto); break;
        case RAFT_ROLE: break;
        case RAFT_COPY: send_copy(sim, node, output.to); break;
        }
    }
    see_leader(sim, node);
}

/* The first `count` writes reach the disk; 0: all. */
static void node_persist(sim_t *sim, node_t *node, uint32_t count) {
    if (count == 0 || count > node->write_count) count = node->write_count;
    if (count == 0) return;
    uint64_t number = node->writes[count - 1].number;
    for (uint32_t i = 0; i < count; i++) {
        disk_do(&node->disk, &node->writes[i]);
        free(node->writes[i].entries);
    }
    memmove(node->writes, node->writes + count, sizeof(write_op_t) * (node->write_count - count));
    node->write_count -= count;
    for (uint32_t i = 0; i < sim->bag_count; i++) {
        parcel_t *parcel = &sim->bag[i];
        if (parcel->message.from.peer == node->id.peer && parcel->after != 0 && parcel->after <= number)
            parcel->after = 0;
    }
}

static void persist_and_tell(sim_t *sim, node_t *node, uint32_t count) {
    raft_outputs_t *out = no_outputs(sim);
    if (node->write_count == 0) return;
    if (count == 0 || count > node->write_count) count = node->write_count;
    uint64_t number = node->writes[count - 1].number;
    node_persist(sim, node, count);
    raft_persisted(&node->raft, out, number, clock_of(sim, node));
    node_drain(sim, node, out);
}

static void deliver_copy(sim_t *sim, node_t *node, const parcel_t *parcel) {
    raft_outputs_t *out = no_outputs(sim);
    if (parcel->message.to.disk != node->id.disk) return;
    (void)raft_copied(&node->raft, out, parcel->message.index, parcel->message.log_term, parcel->config);
    node_drain(sim, node, out);
}

static void deliver(sim_t *sim, const parcel_t *parcel) {
    node_t *node = node_of(sim, parcel->message.to), *from = node_of(sim, parcel->message.from);
    raft_outputs_t *out = no_outputs(sim);
    raft_message_t message = parcel->message;
    raft_config_t configs[2];
    if (node == NULL || !node->alive || from == NULL) return;
    if (!sim->calm && sim->cut[from - sim->nodes][node - sim->nodes]) return;
    if (parcel->copy) {
        deliver_copy(sim, node, parcel);
        return;
    }
    if (message.subject == RAFT_PAIR || message.subject == RAFT_PAIRED) {
        deliver_pair(sim, node, &message);
        return;
    }
    for (uint32_t i = 0; i < message.count; i++) {
        raft_index_t index = message.index + 1 + i;
        if (parcel->entries[i].kind != RAFT_MEMBERS) continue;
        if (message.config_count == 2) configs[0] = configs[1];
        if (message.config_count < 2) message.config_count++;
        configs[message.config_count - 1] = *parcel->entries[i].config;
        configs[message.config_count - 1].index = index;
    }
    message.configs = configs;
    raft_receive(&node->raft, out, &message, clock_of(sim, node));
    /* The bytes of what the member has taken lie where its log has them before they are written. */
    for (uint32_t i = 0; i < out->queued; i++) {
        const raft_output_t *output = &out->queue[i];
        if (output->action != RAFT_APPEND || node->raft.role == RAFT_LEADER) continue;
        for (raft_index_t j = output->from; j <= output->upto; j++)
            node->now.log[j] = parcel->entries[j - message.index - 1];
    }
    node_drain(sim, node, out);
}

static void deliver_one(sim_t *sim) {
    /* Those that came lately come first more often than not. */
    if (sim->bag_count == 0) return;
    uint32_t at = chance(sim, 3) == 0 ? chance(sim, sim->bag_count) : sim->bag_count - 1;
    parcel_t parcel = sim->bag[at];
    if (parcel.after != 0) { /* it waits for the disk: mostly the next thing to come */
        node_t *from = node_of(sim, parcel.message.from);
        if (chance(sim, 3) == 0 && from->alive) persist_and_tell(sim, from, 0);
        return;
    }
    if (parcel.ripe > sim->time && !sim->calm) return;
    uint32_t fate = sim->calm ? 99 : chance(sim, 100);
    if (fate < (parcel.copy ? 50u : 4u)) { /* again later */
        deliver(sim, &parcel);
        return;
    }
    sim->bag[at] = sim->bag[--sim->bag_count];
    if (fate >= 4 + sim->loss) deliver(sim, &parcel);
    free(parcel.entries);
}

static node_t *some_leader(sim_t *sim) {
    uint32_t from = chance(sim, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        node_t *node = &sim->nodes[(from + i) % NODES];
        if (node->alive && node->raft.role == RAFT_LEADER) return node;
    }
    return NULL;
}

static bool has_room(const node_t *node) {
    return node->raft.trail.last + PART_MAX < LOG_MAX;
}

static void sim_propose(sim_t *sim) {
    raft_outputs_t *out = no_outputs(sim);
    raft_index_t index;
    node_t *node = some_leader(sim);
    if (node == NULL || !has_room(node)) return;
    if (raft_propose(&node->raft, out, 1 + chance(sim, 3), &index)) node_drain(sim, node, out);
}

/* Somebody, and what may be done with it: most changes by chance would be refused. */
static void alter_by(sim_t *sim, node_t *node) {
    raft_outputs_t *out = no_outputs(sim);
    const raft_config_t *members = raft_members(&node->raft);
    raft_disk_t id = sim->nodes[chance(sim, NODES)].id;
    if (!has_room(node)) return;
    if (chance(sim, 6) == 0)
        id = members->at[chance(sim, members->count)].id; /* perhaps a disk that is gone for good */
    for (uint32_t i = 0; i < members->count && chance(sim, 3) == 0; i++) {
        if (!members->at[i].voter) id = members->at[i].id; /* a learner is there to be promoted */
    }
    uint32_t voters = 0, place = raft_place_of(members, id);
    for (uint32_t i = 0; i < members->count; i++) voters += members->at[i].voter ? 1 : 0;
    raft_change_t change = place == members->count ? RAFT_LEARN : members->at[place].voter ? RAFT_REMOVE : RAFT_PROMOTE;
    if (change == RAFT_PROMOTE && chance(sim, 8) == 0) change = RAFT_REMOVE;
    if (change == RAFT_REMOVE && voters <= 2 && chance(sim, 8) != 0) return;
    if (raft_alter(&node->raft, out, change, id)) sim->changes++;
    node_drain(sim, node, out);
}

static void sim_alter(sim_t *sim) {
    node_t *node = some_leader(sim);
    if (node != NULL) alter_by(sim, node);
}

static void sim_transfer(sim_t *sim) {
    node_t *node = some_leader(sim);
    if (node != NULL) (void)raft_transfer(&node->raft, sim->nodes[chance(sim, NODES)].id, clock_of(sim, node));
}

static void compact(sim_t *sim, node_t *node) {
    raft_index_t upto = node->commit;
    if (upto <= node->now.base || node->write_count != 0 || upto > node->disk.last) return;
    upto -= chance(sim, (uint32_t)(upto - node->now.base));
    raft_term_t term;
    if (!trail_term(&node->raft.trail, upto, &term)) return;
    const raft_config_t *config = node->now.base_config;
    for (raft_index_t i = node->now.base + 1; i <= upto; i++) {
        if (node->now.log[i].kind == RAFT_MEMBERS) config = node->now.log[i].config;
    }
    raft_compact(&node->raft, upto);
    node->now.base = node->disk.base = upto;
    node->now.base_term = node->disk.base_term = term;
    node->now.base_config = node->disk.base_config = config;
}

static void wipe(sim_t *sim, node_t *node) {
    if (sim->wiped != 0) return;
    sim->wiped++;
    if (node->alive) node_crash(sim, node);
    node->id.disk = ++sim->disks;
    disk_new(&node->disk);
    node_start(sim, node);
}

static void see_leases(sim_t *sim) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        const node_t *node = &sim->nodes[i];
        if (node->alive && node->raft.role == RAFT_LEADER) { /* as it asks first: this is done at each step */
            bool leased = raft_leased(&node->raft, clock_of(sim, node));
            count += leased ? 1 : 0;
            sim->patient += leased && node->raft.patience > 0 ? 1 : 0;
        }
    }
    sim->leases += count;
    if (count > 1) broken(sim, "two leaders have a lease at once");
}

/* As callers do: a copy may be lost. */
static void send_copies_again(sim_t *sim, node_t *node) {
    const raft_t *raft = &node->raft;
    for (uint32_t i = 0; raft->role == RAFT_LEADER && i < raft_members(raft)->count; i++) {
        if (raft->progress[i].pace == RAFT_COPYING) send_copy(sim, node, raft_members(raft)->at[i].id);
    }
}

static void tick_all(sim_t *sim) {
    for (uint32_t i = 0; i < NODES && sim->fault == NULL; i++) {
        raft_outputs_t *out = no_outputs(sim);
        node_t *node = &sim->nodes[i];
        if (!node->alive || (!sim->calm && chance(sim, 16) == 0)) continue; /* a pause */
        if (!has_room(node)) continue;
        raft_tick(&node->raft, out, clock_of(sim, node));
        node_drain(sim, node, out);
        if (chance(sim, 8) == 0) send_pairs(sim, node);
        if (sim->calm && chance(sim, 8) == 0) send_copies_again(sim, node);
    }
}

static void break_links(sim_t *sim) {
    uint32_t how = chance(sim, 7);
    memset(sim->cut, 0, sizeof sim->cut);
    if (how == 0) return;
    if (how > 4) { /* two who do not hear each other, and one who hears both */
        uint32_t one = chance(sim, NODES), other = chance(sim, NODES);
        sim->cut[one][other] = sim->cut[other][one] = true;
        return;
    }
    uint32_t side = chance(sim, 1u << NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        for (uint32_t j = 0; j < NODES; j++) {
            bool apart = (side >> i & 1u) != (side >> j & 1u);
            sim->cut[i][j] = how < 3 ? apart : how == 3 ? apart && (side >> i & 1u) != 0 : chance(sim, 5) == 0;
        }
    }
}

/* A connection ends, and with it the last way to its leader, as far as the member knows: the leader may be there. */
static void lose_way(sim_t *sim, node_t *node) {
    if (node->alive && raft_lost(&node->raft, node->raft.leader.peer, clock_of(sim, node))) sim->lost++;
}

/* Something rare, more often in some runs than in others. */
static void trouble(sim_t *sim, node_t *node) {
    uint32_t what = chance(sim, 100);
    if (what < 22)
        node->alive ? node_crash(sim, node) : node_start(sim, node);
    else if (what < 44)
        break_links(sim);
    else if (what < 60) { /* the leader is what a run is about */
        node_t *leader = some_leader(sim);
        if (leader != NULL) node_crash(sim, leader);
    } else if (what < 96)
        sim_transfer(sim);
    else
        wipe(sim, node);
}

/* A time without a leader, and then one that is quicker than the others. */
static void hasten(sim_t *sim, node_t *node) {
    raft_outputs_t *out = no_outputs(sim);
    if (chance(sim, 2) == 0) break_links(sim);
    sim->time += 3200 * MS;
    if (!node->alive || !has_room(node)) return;
    raft_tick(&node->raft, out, clock_of(sim, node));
    node_drain(sim, node, out);
}

static void step(sim_t *sim) {
    uint32_t what = chance(sim, 1000);
    node_t *node = &sim->nodes[chance(sim, NODES)];
    if (sim->far && chance(sim, 500) == 0) sim->delay = (int64_t)chance(sim, 5) * 450 * MS;
    if (chance(sim, 50) == 0) lose_way(sim, node);
    if (sim->eager && chance(sim, 30) == 0)
        hasten(sim, node);
    else if (what < 560)
        deliver_one(sim);
    else if (what < 700) {
        if (node->alive && chance(sim, 16) < sim->writing)
            persist_and_tell(sim, node, 1 + chance(sim, node->write_count + 1));
    } else if (what < 820) {
        int64_t time =
            (chance(sim, 16) < sim->hurry ? 1200 : 60) * MS; /* (first: a seed is one schedule in each build) */
        int64_t passed = time / (1 + chance(sim, 4)) * (sim->far ? 3 : 1);
        sim->time += passed;
        sim->watched += passed <= 60 * MS ? passed : 0;
        tick_all(sim);
    } else if (what < 915) {
        if (!sim->quiet || chance(sim, 32) == 0) sim_propose(sim);
    } else if (what < 940) {
        if (!sim->quiet || chance(sim, 8) == 0) sim_alter(sim);
    } else if (what < 962) {
        if (chance(sim, 16) < sim->unrest) trouble(sim, node);
    } else if (what < 985) {
        if (!node->alive) node_start(sim, node);
    } else if (node->alive)
        compact(sim, node);
    see_leases(sim);
}

static void sim_begin(sim_t *sim) {
    uint32_t first = 3 + chance(sim, 3);
    sim->loss = chance(sim, 3) == 0 ? 30 : 8;
    sim->unrest = 1 + chance(sim, 16);
    sim->hurry = chance(sim, 8);
    sim->eager = chance(sim, 3) == 0;
    sim->quiet = chance(sim, 3) == 0;
    if (sim->quiet) {
        sim->loss = 2;
        sim->unrest = 1;
        sim->hurry = 0;
    }
    sim->writing = sim->quiet ? 16 : 1 + chance(sim, 16);
    raft_config_t config = {.count = first};
    for (uint32_t i = 0; i < NODES; i++) {
        node_t *node = &sim->nodes[i];
        node->id = (raft_disk_t){.peer = i + 1, .disk = ++sim->disks};
        node->rate = 1000 - DRIFT_MAX + chance(sim, 2 * DRIFT_MAX + 1);
        node->offset = (int64_t)chance(sim, 1000000) * MS;
        node->now.base_config = node->disk.base_config = &no_members;
        node->now.log = calloc(LOG_MAX, sizeof(entry_t));
        node->disk.log = calloc(LOG_MAX, sizeof(entry_t));
        if (i < first) config.at[i] = (raft_member_t){.id = node->id, .voter = true};
    }
    const raft_config_t *kept = keep_config(sim, &config);
    for (uint32_t i = 0; i < NODES; i++) {
        if (i < first) sim->nodes[i].disk.base_config = kept;
        node_start(sim, &sim->nodes[i]);
    }
}

static void sim_end(sim_t *sim) {
    for (uint32_t i = 0; i < sim->bag_count; i++) free(sim->bag[i].entries);
    for (uint32_t i = 0; i < NODES; i++) {
        drop_writes(&sim->nodes[i], 0);
        free(sim->nodes[i].now.log);
        free(sim->nodes[i].disk.log);
    }
}

/* The newest members that are committed or lead: do enough of their voters exist still? */
static bool may_move(const sim_t *sim) {
    const node_t *newest = NULL;
    for (uint32_t i = 0; i < NODES; i++) {
        const node_t *node = &sim->nodes[i];
        if (newest == NULL || raft_members(&node->raft)->index > raft_members(&newest->raft)->index) newest = node;
    }
    const raft_config_t *members = raft_members(&newest->raft);
    uint32_t voters = 0, there = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        if (!members->at[i].voter) continue;
        voters++;
        for (uint32_t j = 0; j < NODES; j++) there += members->at[i].id.disk == sim->nodes[j].id.disk ? 1 : 0;
        if (sim->wiped != 0) return false; /* a change that counts may be one that nobody here knows */
    }
    return there > voters / 2;
}

/* Links, disks and members are well: within a minute of their time an entry is committed. */
static void see_moving(sim_t *sim) {
    sim->calm = true;
    for (uint32_t i = 0; i < NODES; i++) {
        if (!sim->nodes[i].alive) node_start(sim, &sim->nodes[i]);
    }
    if (!may_move(sim)) return;
    uint64_t before = sim->commits;
    for (uint32_t round = 0; round < 1200 && sim->fault == NULL; round++) {
        sim->time += 50 * MS;
        tick_all(sim);
        if (round % 8 == 0) sim_propose(sim);
        for (uint32_t i = 0; i < 60 && sim->fault == NULL; i++) {
            deliver_one(sim);
            persist_and_tell(sim, &sim->nodes[i % NODES], 0);
        }
        if (sim->commits > before + 2) return;
        for (uint32_t i = 0; i < NODES; i++) {
            if (!has_room(&sim->nodes[i])) return;
        }
    }
    broken(sim, "a group that is well does not move");
}

static const char *sim_run(sim_t *sim, uint64_t seed, uint32_t steps) {
    memset(sim, 0, sizeof *sim);
    sim->random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (uint32_t i = 0; i < 4; i++) (void)random_next(&sim->random);
    sim_begin(sim);
    sim->far = seed % FAR == 0;
    for (uint32_t i = 0; i < steps && sim->fault == NULL; i++) step(sim);
    if (sim->fault == NULL) see_moving(sim);
    sim_end(sim);
    return sim->fault;
}

#endif
