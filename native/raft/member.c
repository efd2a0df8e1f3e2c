/* member.c: changes of members, and handing over. A change is an entry that counts from the moment it is in the log;
 * one at a time, and by one voter, so that a majority before and one after it always share a member.
 */
#include "raft/raft.h"

#include "base/check.h"
#include "raft/private.h"

static uint32_t voters_of(const raft_config_t *config) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->count; i++) count += config->at[i].voter ? 1 : 0;
    return count;
}

/* The members with the change. false: they do not allow it. */
static bool config_changed(const raft_t *raft, raft_change_t change, raft_disk_t id, raft_config_t *config) {
    uint32_t place = raft_place(raft, id);
    *config = *raft_members(raft);
    switch (change) {
    case RAFT_LEARN:
        if (place != RAFT_MEMBERS_MAX || config->count == RAFT_MEMBERS_MAX || id.peer == 0) return false;
        config->at[config->count++] = (raft_member_t){.id = id};
        return true;
    case RAFT_PROMOTE:
        if (place == RAFT_MEMBERS_MAX || config->at[place].voter) return false;
        if (raft->progress[place].match + RAFT_NEAR < raft->trail.last) return false;
        config->at[place].voter = true;
        return true;
    case RAFT_REMOVE:
        if (place == RAFT_MEMBERS_MAX || (config->at[place].voter && voters_of(config) == 1)) return false;
        config->count--;
        for (uint32_t i = place; i < config->count; i++) config->at[i] = config->at[i + 1];
        return true;
    }
    return false;
}

bool raft_alter(raft_t *raft, raft_outputs_t *out, raft_change_t change, raft_disk_t id) {
    raft_config_t config;
    check(out->queued == 0);
    if (raft->role != RAFT_LEADER || raft->successor.peer != 0) return false;
    if (raft->commit < raft->own_first && RULE(CHANGE_BEHIND)) return false;
    if (raft_members(raft)->index > raft->commit && RULE(ONE_CHANGE)) return false;
    if (!config_changed(raft, change, id, &config)) return false;
    if (!raft_append_own(raft, out, RAFT_MEMBERS, 1)) return false;
    config.index = raft->trail.last;
    raft_progress_t before[RAFT_MEMBERS_MAX];
    for (uint32_t i = 0; i < RAFT_MEMBERS_MAX; i++) before[i] = raft->progress[i];
    raft_config_t old = *raft_members(raft);
    raft->configs[0] = old;
    raft->configs[1] = config;
    for (uint32_t i = 0; i < config.count; i++) {
        raft_progress_t *progress = &raft->progress[i];
        *progress = (raft_progress_t){
            .next = raft->trail.last, .stamp_ns = INT64_MIN, .match_ns = INT64_MIN, .until_ns = INT64_MIN};
        for (uint32_t j = 0; j < old.count; j++) {
            if (same_disk(old.at[j].id, config.at[i].id)) *progress = before[j];
        }
    }
    raft_advance(raft, out);
    return true;
}

bool raft_transfer(raft_t *raft, raft_disk_t to, int64_t now_ns) {
    uint32_t place = raft_place(raft, to);
    if (raft->role != RAFT_LEADER || raft->successor.peer != 0 || same_disk(to, raft->self)) return false;
    if (place == RAFT_MEMBERS_MAX || !raft_members(raft)->at[place].voter) return false;
    raft->successor = to;
    raft->handover_ns = now_ns + raft_election_ns(raft);
    raft->progress[place].handed = false;
    raft->due_ns = now_ns; /* the next beat begins it */
    return true;
}
