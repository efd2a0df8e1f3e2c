/* test_raft_worlds.c: every schedule of a small world: three members, a few elections, entries and crashes, where each
 * message comes in any order, or never. A world that was seen before is not looked at again, so the search ends.
 *
 *     what may happen next: a long time passes and one member asks for votes; a leader takes an entry; a leader's beat;
 *     a message comes; a member's writes reach the disk; a member crashes, with any part of its writes, and is back
 *
 * Invariants: one leader a term; a committed entry is the same everywhere, in the log of each new leader, and never cut
 * off. Leases need time, and changes of members more worlds than can be looked at: raft_sim.h.
 *
 * The sanitizers see the first steps of each world; test_raft_all_worlds.c goes to the end without them.
 */
#include <stdlib.h>

#include "raft/raft.h"

#include "test.h"

#define MEMBERS 3
#define LOG 6
#define BAG 10
#define WRITES 6
#define TERMS 8
#define MS INT64_C(1000000)
#define SEEN_BITS 23
#ifndef STEPS_LEFT_OUT
#define STEPS_LEFT_OUT 3 /* each makes it two to three times as many worlds */
#endif

static const raft_times_t times = {.election_ns = 1500 * MS, .lease_ns = 1200 * MS, .beat_ns = 200 * MS};

typedef struct entry {
    uint8_t term;
    uint8_t value;
} entry_t;

typedef struct disk {
    uint8_t term;
    uint8_t vote; /* member + 1 */
    uint8_t last;
    entry_t log[LOG];
} disk_t;

typedef struct write {
    uint64_t number;
    disk_t after; /* the disk with this write */
} write_t;

typedef struct parcel {
    raft_message_t message;
    uint64_t after;
    entry_t entries[LOG];
} parcel_t;

typedef struct world {
    raft_t raft[MEMBERS];
    int64_t now[MEMBERS];
    disk_t mine[MEMBERS]; /* as the member believes */
    disk_t disk[MEMBERS];
    write_t writes[MEMBERS][WRITES];
    uint8_t write_count[MEMBERS];
    uint8_t commit[MEMBERS];
    parcel_t bag[BAG];
    uint8_t bag_count;
    uint8_t elections, proposals, crashes, beats;
    uint8_t leader_of[TERMS];
    uint8_t committed_last;
    entry_t committed[LOG];
    uint8_t committed_in[LOG]; /* the term of who told first */
    uint8_t values;
} world_t;

typedef struct bounds {
    uint8_t elections, proposals, crashes, beats;
    uint32_t depth;
} bounds_t;

static uint64_t *seen;
static uint64_t worlds, full;
static uint8_t deepest_term;

static raft_disk_t id_of(uint32_t i) {
    return (raft_disk_t){.peer = i + 1, .disk = i + 1};
}

/* ---- a world's name */

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint64_t disk_name(uint64_t hash, const disk_t *disk) {
    hash = mixed(hash, disk->term | (uint64_t)disk->vote << 8 | (uint64_t)disk->last << 16);
    for (uint32_t i = 1; i <= disk->last; i++)
        hash = mixed(hash, disk->log[i].term | (uint64_t)disk->log[i].value << 8);
    return hash;
}

static uint64_t member_name(const world_t *world, uint32_t i, uint64_t hash) {
    const raft_t *raft = &world->raft[i];
    hash = mixed(hash,
                 raft->role | raft->term << 4 | raft->vote.peer << 12 | raft->leader.peer << 20 | raft->commit << 28);
    hash = mixed(hash, raft->firm | (uint64_t)raft->votes << 8 | (uint64_t)raft->self_voted << 16
                           | (uint64_t)(world->now[i] < raft->promise_ns) << 17 | raft->own_first << 20);
    hash = disk_name(disk_name(hash, &world->mine[i]), &world->disk[i]);
    for (uint32_t j = 0; j < world->write_count[i]; j++) hash = disk_name(hash, &world->writes[i][j].after);
    for (uint32_t j = 0; j < MEMBERS && raft->role == RAFT_LEADER; j++) {
        const raft_progress_t *progress = &raft->progress[j];
        hash = mixed(hash, progress->match | progress->next << 8 | (uint64_t)progress->pace << 16
                               | (uint64_t)progress->paused << 20 | (uint64_t)progress->beat << 21);
    }
    return hash;
}

static uint64_t parcel_name(const parcel_t *parcel) {
    const raft_message_t *m = &parcel->message;
    uint64_t hash = mixed(7, m->subject | m->from.peer << 4 | m->to.peer << 8 | m->term << 12 | m->index << 20
                                 | m->log_term << 28 | (uint64_t)m->count << 36 | m->entry_term << 44);
    hash = mixed(hash, m->granted | (uint64_t)m->handover << 1 | m->commit << 2 | m->refused << 10
                           | (uint64_t)(parcel->after != 0) << 20);
    for (uint32_t i = 0; i < m->count; i++)
        hash = mixed(hash, parcel->entries[i].term | parcel->entries[i].value << 8u);
    return hash;
}

static uint64_t world_name(const world_t *world) {
    uint64_t hash = 1, bag = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) hash = member_name(world, i, hash);
    for (uint32_t i = 0; i < world->bag_count; i++) bag += parcel_name(&world->bag[i]); /* in no order */
    hash = mixed(hash, bag);
    hash = mixed(hash, world->elections | (uint64_t)world->proposals << 8 | (uint64_t)world->crashes << 16
                           | (uint64_t)world->beats << 24);
    for (uint32_t i = 1; i <= world->committed_last; i++) {
        hash = mixed(hash, world->committed[i].term | world->committed[i].value << 8u);
    }
    return hash == 0 ? 1 : hash;
}

/* false: it was seen with as many steps to go. */
static bool is_new(uint64_t name, uint32_t left) {
    uint64_t mask = (UINT64_C(1) << SEEN_BITS) - 1;
    name = (name & ~UINT64_C(63)) | 64 | (left & 63u);
    for (uint64_t at = name >> 6 & mask, tried = 0;; at = (at + 1) & mask, tried++) {
        if (tried > 64) {
            full++;
            return true;
        }
        if (seen[at] == 0) {
            seen[at] = name;
            return true;
        }
        if (seen[at] >> 6 != name >> 6) continue;
        if ((seen[at] & 63u) >= (name & 63u)) return false;
        seen[at] = name;
        return true;
    }
}

/* ---- what members do */

static void note_write(world_t *world, uint32_t i, uint64_t number) {
    CHECK(world->write_count[i] < WRITES);
    world->writes[i][world->write_count[i]++] = (write_t){.number = number, .after = world->mine[i]};
}

static void send(world_t *world, uint32_t i, const raft_output_t *output) {
    parcel_t parcel = {.message = output->message, .after = output->after};
    for (uint32_t j = 0; j < output->message.count; j++)
        parcel.entries[j] = world->mine[i].log[output->message.index + 1 + j];
    uint64_t name = parcel_name(&parcel);
    for (uint32_t j = 0; j < world->bag_count; j++) {
        if (parcel_name(&world->bag[j]) == name) return; /* it is on its way already */
    }
    if (world->bag_count == BAG) { /* lost, as it may be: the oldest */
        memmove(world->bag, world->bag + 1, sizeof(parcel_t) * (BAG - 1));
        world->bag_count--;
    }
    world->bag[world->bag_count++] = parcel;
}

static void see_commit(world_t *world, uint32_t i, uint64_t upto) {
    CHECK(upto <= world->mine[i].last);
    for (uint64_t at = world->commit[i] + 1u; at <= upto; at++) {
        entry_t own = world->mine[i].log[at];
        if (at <= world->committed_last) {
            CHECK_EQ_U64(world->committed[at].term, own.term);
            CHECK_EQ_U64(world->committed[at].value, own.value);
        } else {
            world->committed[at] = own;
            world->committed_in[at] = (uint8_t)world->raft[i].term;
            world->committed_last = (uint8_t)at;
        }
    }
    world->commit[i] = (uint8_t)upto;
}

static void see_leader(world_t *world, uint32_t i) {
    uint64_t term = world->raft[i].term;
    if (world->raft[i].role != RAFT_LEADER || term >= TERMS || world->leader_of[term] == i + 1) return;
    CHECK_EQ_U64(0, world->leader_of[term]);
    world->leader_of[term] = (uint8_t)(i + 1);
    deepest_term = term > deepest_term ? (uint8_t)term : deepest_term;
    for (uint32_t at = 1; at <= world->committed_last; at++) { /* an older term's leader may come late */
        if (world->committed_in[at] >= term) continue;
        CHECK(at <= world->mine[i].last);
        CHECK_EQ_U64(world->committed[at].term, world->mine[i].log[at].term);
    }
}

static void drain(world_t *world, uint32_t i, raft_outputs_t *out) {
    raft_output_t output;
    disk_t *mine = &world->mine[i];
    while (raft_next(&world->raft[i], out, &output, world->now[i])) {
        if (output.action == RAFT_SAVE) {
            mine->term = (uint8_t)output.term;
            mine->vote = (uint8_t)output.vote.peer;
        } else if (output.action == RAFT_CUT) {
            CHECK(output.from >= world->commit[i]);
            mine->last = (uint8_t)output.from;
        } else if (output.action == RAFT_APPEND) {
            for (uint64_t at = output.from; at <= output.upto && world->raft[i].role == RAFT_LEADER; at++) {
                mine->log[at] = (entry_t){.term = (uint8_t)output.term, .value = ++world->values};
            }
            mine->last = (uint8_t)output.upto;
        } else if (output.action == RAFT_SEND) {
            send(world, i, &output);
        } else if (output.action == RAFT_COMMIT) {
            see_commit(world, i, output.upto);
        }
        if (output.write != 0) note_write(world, i, output.write);
    }
    see_leader(world, i);
}

static void persist(world_t *world, uint32_t i) {
    raft_outputs_t out = {0};
    uint32_t count = world->write_count[i];
    uint64_t number = world->writes[i][count - 1].number;
    world->disk[i] = world->writes[i][count - 1].after;
    world->write_count[i] = 0;
    for (uint32_t j = 0; j < world->bag_count; j++) {
        if (world->bag[j].message.from.peer == i + 1 && world->bag[j].after <= number) world->bag[j].after = 0;
    }
    raft_persisted(&world->raft[i], &out, number, world->now[i]);
    drain(world, i, &out);
}

static void begin(world_t *world, uint32_t i) {
    raft_config_t config = {.count = MEMBERS};
    raft_start_t start = {.self = id_of(i), .term = world->disk[i].term, .times = times, .seed = 7};
    for (uint32_t j = 0; j < MEMBERS; j++) config.at[j] = (raft_member_t){.id = id_of(j), .voter = true};
    start.configs[0] = start.configs[1] = config;
    if (world->disk[i].vote != 0) start.vote = id_of(world->disk[i].vote - 1u);
    for (uint32_t at = 1; at <= world->disk[i].last; at++)
        (void)trail_append(&start.trail, 1, world->disk[i].log[at].term);
    world->mine[i] = world->disk[i];
    world->commit[i] = 0;
    raft_init(&world->raft[i], &start, world->now[i]);
}

/* With its first `kept` writes. */
static void crash(world_t *world, uint32_t i, uint32_t kept) {
    if (kept != 0) world->disk[i] = world->writes[i][kept - 1].after;
    world->write_count[i] = 0;
    world->crashes++;
    for (uint32_t j = 0; j < world->bag_count;) {
        if (world->bag[j].message.from.peer == i + 1 && world->bag[j].after != 0) {
            world->bag[j] = world->bag[--world->bag_count];
        } else {
            j++;
        }
    }
    begin(world, i);
}

static void deliver(world_t *world, uint32_t at) {
    raft_outputs_t out = {0};
    parcel_t parcel = world->bag[at];
    uint32_t to = (uint32_t)parcel.message.to.peer - 1;
    world->bag[at] = world->bag[--world->bag_count];
    raft_receive(&world->raft[to], &out, &parcel.message, world->now[to]);
    for (uint32_t i = 0; i < out.queued; i++) {
        const raft_output_t *output = &out.queue[i];
        if (output->action != RAFT_APPEND || world->raft[to].role == RAFT_LEADER) continue;
        for (uint64_t j = output->from; j <= output->upto; j++) {
            world->mine[to].log[j] = parcel.entries[j - parcel.message.index - 1];
        }
    }
    drain(world, to, &out);
}

/* A time in which nobody hears a leader; then that member asks for votes, the quickest of all. */
static void elect(world_t *world, uint32_t i) {
    raft_outputs_t out = {0};
    world->elections++;
    for (uint32_t j = 0; j < MEMBERS; j++) world->now[j] += 4000 * MS;
    raft_tick(&world->raft[i], &out, world->now[i]);
    drain(world, i, &out);
}

static void propose(world_t *world, uint32_t i) {
    raft_outputs_t out = {0};
    raft_index_t index;
    world->proposals++;
    if (raft_propose(&world->raft[i], &out, 1, &index)) drain(world, i, &out);
}

static void beat(world_t *world, uint32_t i) {
    raft_outputs_t out = {0};
    world->beats++;
    world->now[i] = world->raft[i].due_ns > world->now[i] ? world->raft[i].due_ns : world->now[i];
    raft_tick(&world->raft[i], &out, world->now[i]);
    drain(world, i, &out);
}

/* ---- all of it */

static void search(const world_t *world, const bounds_t *bounds, uint32_t left);

static void search_member(const world_t *world, const bounds_t *bounds, uint32_t left, uint32_t i) {
    world_t next;
    if (world->write_count[i] != 0) {
        next = *world;
        persist(&next, i);
        search(&next, bounds, left - 1);
    }
    if (world->raft[i].role == RAFT_LEADER && world->mine[i].last < LOG - 2) {
        if (world->proposals < bounds->proposals) {
            next = *world;
            propose(&next, i);
            search(&next, bounds, left - 1);
        }
        if (world->beats < bounds->beats) {
            next = *world;
            beat(&next, i);
            search(&next, bounds, left - 1);
        }
    }
    if (world->elections < bounds->elections && world->raft[i].role != RAFT_LEADER && world->mine[i].last < LOG - 2) {
        next = *world;
        elect(&next, i);
        search(&next, bounds, left - 1);
    }
    for (uint32_t kept = 0; kept <= world->write_count[i] && world->crashes < bounds->crashes; kept++) {
        next = *world;
        crash(&next, i, kept);
        search(&next, bounds, left - 1);
    }
}

static void search(const world_t *world, const bounds_t *bounds, uint32_t left) {
    if (left == 0 || !is_new(world_name(world), left)) return;
    worlds++;
    for (uint32_t i = 0; i < MEMBERS; i++) search_member(world, bounds, left, i);
    for (uint32_t at = 0; at < world->bag_count; at++) {
        if (world->bag[at].after != 0) continue;
        world_t next = *world;
        deliver(&next, at);
        search(&next, bounds, left - 1);
    }
}

/* Member 0 leads, and all have its first entry: which of the three that is makes no difference. */
static void lead(world_t *world) {
    elect(world, 0);
    world->elections = 0;
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (world->write_count[i] != 0) persist(world, i);
        }
        if (world->bag_count != 0) deliver(world, 0);
    }
    CHECK_EQ_U64(RAFT_LEADER, world->raft[0].role);
    CHECK_EQ_U64(1, world->committed_last);
    world->bag_count = 0;
}

static void look_at_all(const char *name, bool led, bounds_t bounds) {
    static world_t first;
    memset(&first, 0, sizeof first);
    memset(seen, 0, sizeof(uint64_t) << SEEN_BITS);
    worlds = full = 0;
    deepest_term = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) begin(&first, i);
    if (led) lead(&first);
    search(&first, &bounds, bounds.depth - STEPS_LEFT_OUT);
    printf("  %s: %" PRIu64 " worlds, terms up to %u\n", name, worlds, deepest_term);
    (void)fflush(stdout);
    CHECK_EQ_U64(0, full);
    CHECK(worlds > 1000);
}

static void elections_alone(void) {
    look_at_all("two elections", false, (bounds_t){.elections = 2, .depth = 16});
    CHECK(deepest_term >= 2);
}

static void entries_and_a_crash(void) {
    look_at_all("a leader, two entries, a crash", true, (bounds_t){.proposals = 2, .crashes = 1, .depth = 14});
}

static void a_new_leader(void) {
    look_at_all("a leader, an entry, an election, a crash", true,
                (bounds_t){.elections = 1, .proposals = 1, .crashes = 1, .depth = 17});
    CHECK(deepest_term >= 2);
}

static void new_leaders(void) {
    look_at_all("a leader, an entry, two elections", true, (bounds_t){.elections = 2, .proposals = 1, .depth = 16});
    CHECK(deepest_term >= 3);
}

int main(void) {
    seen = malloc(sizeof(uint64_t) << SEEN_BITS);
    if (seen == NULL) return 1;
    RUN("no schedule of two elections breaks an invariant", elections_alone);
    RUN("none of entries and a crash does", entries_and_a_crash);
    RUN("none in which a leader is followed by another does", a_new_leader);
    RUN("none in which two more are elected does", new_leaders);
    free(seen);
    return TEST_RESULT();
}
