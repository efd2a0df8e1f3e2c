/* shim.c: a member of native/raft behind calls that a Rust program can make: numbers and flat structs, no members of
 * raft_t. Only for the groups of src/main.rs.
 */
#include <stdlib.h>

#include "raft/private.h"

#define MS INT64_C(1000000)

/* With -DRAFT_RULES the rule of that number is taken out: the groups have to find it missing. */
#ifdef RAFT_RULES
raft_rule_t raft_without;

__attribute__((constructor)) static void take_rule_out(void) {
    const char *rule = getenv("LEAFD_RAFT_WITHOUT");
    raft_without = rule == NULL ? RULE_NONE : (raft_rule_t)atoi(rule);
}
#endif

typedef struct shim {
    raft_t raft;
    raft_outputs_t out;
} shim_t;

/* A member with the log base+1.. of these terms. voters: a bit for each peer, the first is 1. */
shim_t *shim_start(uint64_t peer, uint64_t voters, uint64_t term, uint64_t vote, uint64_t base, uint64_t base_term,
                   const uint64_t *terms, uint64_t count, uint64_t seed, int64_t now) {
    shim_t *shim = calloc(1, sizeof *shim);
    raft_start_t start = {.self = {peer, peer}, .term = term, .commit = base, .seed = seed};
    start.times = (raft_times_t){.election_ns = 1500 * MS, .lease_ns = 1200 * MS, .beat_ns = 200 * MS};
    if (vote != 0) start.vote = (raft_disk_t){vote, vote};
    for (uint64_t i = 1; i <= RAFT_MEMBERS_MAX; i++) {
        if ((voters >> i & 1u) == 0) continue;
        start.configs[1].at[start.configs[1].count++] = (raft_member_t){.id = {i, i}, .voter = true};
    }
    start.configs[0] = start.configs[1];
    trail_init(&start.trail, base, base_term);
    for (uint64_t i = 0; i < count; i++) {
        if (!trail_append(&start.trail, 1, terms[i])) abort();
    }
    raft_init(&shim->raft, &start, now);
    return shim;
}

void shim_end(shim_t *shim) {
    free(shim);
}

void shim_tick(shim_t *shim, int64_t now) {
    raft_tick(&shim->raft, &shim->out, now);
}

void shim_receive(shim_t *shim, const raft_message_t *message, int64_t now) {
    raft_receive(&shim->raft, &shim->out, message, now);
}

void shim_persisted(shim_t *shim, uint64_t write, int64_t now) {
    raft_persisted(&shim->raft, &shim->out, write, now);
}

bool shim_propose(shim_t *shim, uint32_t count) {
    raft_index_t index;
    return raft_propose(&shim->raft, &shim->out, count, &index);
}

void shim_transfer(shim_t *shim, uint64_t to, int64_t now) {
    (void)raft_transfer(&shim->raft, (raft_disk_t){to, to}, now);
}

bool shim_copied(shim_t *shim, uint64_t index, uint64_t term) {
    raft_config_t config = *raft_members(&shim->raft);
    config.index = 0;
    return raft_copied(&shim->raft, &shim->out, index, term, &config);
}

void shim_compact(shim_t *shim, uint64_t index) {
    raft_compact(&shim->raft, index);
}

bool shim_next(shim_t *shim, raft_output_t *next, int64_t now) {
    return raft_next(&shim->raft, &shim->out, next, now);
}

bool shim_leads(const shim_t *shim) {
    return shim->raft.role == RAFT_LEADER;
}

uint64_t shim_term(const shim_t *shim) {
    return shim->raft.term;
}

uint64_t shim_commit(const shim_t *shim) {
    return shim->raft.commit;
}
