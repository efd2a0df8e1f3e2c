/* rest.c: see rest.h. */
#include "raft/rest.h"

#include "raft/private.h"

static bool rests_still(const raft_t *raft, const raft_progress_t *progress) {
    return progress->rest != 0 && progress->rest == raft->trail.last && progress->match == progress->rest;
}

bool raft_rest_begins(raft_t *raft, uint32_t place, int64_t now_ns) {
    raft_progress_t *progress = &raft->progress[place];
    raft_index_t last = raft->trail.last;
    uint8_t promised = progress->promised == 0 ? 1 : progress->promised;
    if (promised != 1u + raft->patience && RULE(REST_PATIENCE)) return false;
    if (raft->times.rest_ns == 0 || progress->pace != RAFT_FLOWING || raft->commit != last || progress->match != last
        || progress->committed != last || progress->tight)
        return false;
    if (!rests_still(raft, progress)) {
        progress->rest = last;
        progress->rest_ns = now_ns;
    }
    return true;
}

void raft_rest_ends(raft_progress_t *progress) {
    progress->rest = 0;
    progress->committed = 0;
}

void raft_rest_heard(raft_t *raft, const raft_message_t *message) {
    if (message->index != raft->trail.last || raft->commit != raft->trail.last) return; /* only a liar says it rests */
    raft->rest = message->index;
    raft->rest_term = message->term;
}

bool raft_rests(const raft_t *raft, uint32_t place, int64_t *since_ns) {
    const raft_progress_t *progress = &raft->progress[place];
    if (raft->role != RAFT_LEADER || same_disk(raft_members(raft)->at[place].id, raft->self)) return false;
    *since_ns = progress->rest_ns;
    return rests_still(raft, progress);
}

bool raft_rests_under(const raft_t *raft, raft_disk_t leader) {
    if (raft->rest == 0 || raft->rest != raft->trail.last) return false;
    if (!RULE(REST_FOLLOWS)) return true;
    return raft->role == RAFT_FOLLOWER && same_disk(raft->leader, leader) && raft->term == raft->rest_term;
}

void raft_hear(raft_t *raft, int64_t now_ns) {
    raft->heard_ns = now_ns;
    raft_promise(raft, now_ns);
    raft_set_due(raft, now_ns);
}

/* Has every other member answered lately, so that its next answer is not overdue yet? */
static bool all_rest(const raft_t *raft, int64_t until_ns, int64_t now_ns) {
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        const raft_progress_t *progress = &raft->progress[i];
        if (same_disk(raft_members(raft)->at[i].id, raft->self)) continue;
        if (!rests_still(raft, progress) || now_ns - progress->heard_ns > until_ns - now_ns) return false;
    }
    return raft->successor.peer == 0 && raft_may_stand(raft);
}

bool raft_confirm(raft_t *raft, raft_disk_t member, int64_t stamp_ns, int64_t until_ns, int64_t now_ns) {
    uint32_t place = raft_place(raft, member);
    int64_t since_ns;
    if (place == RAFT_MEMBERS_MAX || !raft_rests(raft, place, &since_ns)) return false;
    if (since_ns > stamp_ns && RULE(REST_SINCE)) return false;
    raft_progress_t *progress = &raft->progress[place];
    progress->heard_ns = now_ns;
    progress->silent = false;
    raft_note_promise(raft, progress, stamp_ns, progress->promised);
    if (now_ns > stamp_ns) raft_note_trip(raft, progress, now_ns - stamp_ns);
    if (raft_measure(raft, now_ns)) {
        raft->due_ns = raft_next_beat(raft->times.beat_ns, now_ns);
        return true;
    }
    if (until_ns > raft->due_ns && all_rest(raft, until_ns, now_ns)) raft->due_ns = until_ns;
    return false;
}

void raft_disturb(raft_t *raft, raft_disk_t other, int64_t stamp_ns, int64_t now_ns) {
    uint32_t place = raft_place(raft, other);
    int64_t since_ns;
    if (raft->role != RAFT_LEADER) {
        if (same_disk(raft->leader, other)) raft->rest = 0;
        return;
    }
    if (place == RAFT_MEMBERS_MAX || !raft_rests(raft, place, &since_ns) || since_ns > stamp_ns) return;
    raft->progress[place].rest = 0;
    int64_t due_ns = raft_next_beat(raft->times.beat_ns, now_ns);
    if (due_ns < raft->due_ns) raft->due_ns = due_ns;
}
