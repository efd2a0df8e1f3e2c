/* raft.c: a member's life: start, time, what each message is for, terms, writes and outputs. Elections are in elect.c,
 * a leader's log in replicate.c, a follower's in follow.c, changes of members in member.c, rest in rest.c.
 */
#include "raft/raft.h"

#include "base/check.h"
#include "base/random.h"
#include "raft/private.h"

/* The other founders have the group a moment later: a first one's tries are an eighth of a beat apart, then a quarter
 * and a half. */
#define FIRST_SOONER 3u
/* A member that has lost its leader's way asks in a part of an election's time, which is enough for two not to ask at
 * once where round trips are short, and again: the others' promises end by a beat later than its own, or sooner. */
#define SOON_PART 4
#define SOON_TRIES 8u
/* Where a round trip takes longer than an election's time, a beat that is lost once comes later than that. Its own
 * election would end no sooner, and the others are near enough to have one. */
#define FAR_DOUBLED 2u

raft_output_t *raft_put(raft_outputs_t *out, raft_action_t action) {
    check(out->queued < RAFT_OUTPUTS_MAX);
    raft_output_t *output = &out->queue[out->queued++];
    *output = (raft_output_t){.action = action};
    return output;
}

raft_message_t *raft_say(raft_t *raft, raft_outputs_t *out, raft_subject_t subject, raft_disk_t to, uint64_t after) {
    raft_output_t *output = raft_put(out, RAFT_SEND);
    output->to = to;
    output->after = after;
    output->message = (raft_message_t){.subject = subject, .from = raft->self, .to = to, .term = raft->term};
    return &output->message;
}

/* A write that what follows may depend on: with the last entry of the log as it will be then. */
void raft_note_write(raft_t *raft, uint64_t write) {
    uint32_t at = raft->writing_count == RAFT_WRITES_MAX ? RAFT_WRITES_MAX - 1 : raft->writing_count++;
    raft->writing[at] = (raft_writing_t){.write = write, .last = raft->trail.last};
}

void raft_save(raft_t *raft, raft_outputs_t *out) {
    raft_output_t *output = raft_put(out, RAFT_SAVE);
    output->term = raft->term;
    output->vote = raft->vote;
    output->patience = raft->kept;
    output->write = ++raft->write;
}

void raft_tell_role(raft_outputs_t *out) {
    (void)raft_put(out, RAFT_ROLE);
}

uint32_t raft_place(const raft_t *raft, raft_disk_t id) {
    const raft_config_t *members = raft_members(raft);
    for (uint32_t i = 0; i < members->count; i++) {
        if (same_disk(members->at[i].id, id)) return i;
        if (!RULE(MEMBERS_COUNT) && members->at[i].id.peer == id.peer) return i;
    }
    return RAFT_MEMBERS_MAX;
}

static bool votes_in(const raft_config_t *config, raft_disk_t id) {
    for (uint32_t i = 0; i < config->count; i++) {
        if (config->at[i].voter && same_disk(config->at[i].id, id)) return true;
    }
    return false;
}

/* A voter; or one whose removal is not committed yet: its log may be the only one that can be chosen, since the change
 * may be in no other (thesis, 4.2.2). It asks for votes without having one. */
bool raft_may_stand(const raft_t *raft) {
    if (votes_in(raft_members(raft), raft->self)) return true;
    return raft_members(raft)->index > raft->commit && votes_in(&raft->configs[0], raft->self) && RULE(REMOVED_STANDS);
}

uint32_t raft_majority(const raft_t *raft) {
    uint32_t voters = 0;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) voters += raft_members(raft)->at[i].voter ? 1 : 0;
    return voters / 2 + 1;
}

int64_t raft_of_majority(const raft_t *raft, int64_t own, int64_t (*number)(const raft_progress_t *progress)) {
    int64_t sorted[RAFT_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        if (!raft_members(raft)->at[i].voter) continue;
        int64_t one = same_disk(raft_members(raft)->at[i].id, raft->self) ? own : number(&raft->progress[i]);
        uint32_t at = count++;
        while (at > 0 && sorted[at - 1] < one) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = one;
    }
    return count == 0 ? INT64_MIN : sorted[raft_majority(raft) - 1];
}

void raft_commit_upto(raft_t *raft, raft_outputs_t *out, raft_index_t index) {
    if (index <= raft->commit) return;
    raft->commit = index;
    raft_put(out, RAFT_COMMIT)->upto = index;
}

/* The next election, at random so that two members seldom ask at once. */
void raft_set_due(raft_t *raft, int64_t now_ns) {
    uint32_t more = random_below(&raft->random, 1024);
    if (raft->first && raft->term == 0) {
        uint32_t sooner = raft->tries < FIRST_SOONER ? FIRST_SOONER - raft->tries : 0;
        raft->due_ns = now_ns + (raft->times.beat_ns >> sooner);
        return;
    }
    if (raft_soon_ns(raft) != 0) {
        int64_t from_ns = raft->promise_ns > now_ns ? raft->promise_ns : now_ns;
        raft->due_ns = from_ns + raft_soon_ns(raft) / 1024 * more;
        return;
    }
    uint32_t doubled = raft->patience + (raft->far ? FAR_DOUBLED : 0u);
    int64_t wait_ns = raft->times.election_ns << (doubled < RAFT_PATIENCE_MAX ? doubled : RAFT_PATIENCE_MAX);
    raft->due_ns = now_ns + wait_ns + wait_ns / 1024 * more;
    if (raft->due_ns < raft->promise_ns && RULE(PROMISE_SELF)) raft->due_ns = raft->promise_ns;
}

int64_t raft_soon_ns(const raft_t *raft) {
    return raft->soon > 0 && raft->patience == 0 ? raft->times.election_ns / SOON_PART : 0;
}

int64_t raft_election_ns(const raft_t *raft) {
    return raft->times.election_ns << raft->patience;
}

void raft_adapt(raft_t *raft, int64_t trip_ns, bool down) {
    while (raft->patience < RAFT_PATIENCE_MAX && trip_ns > raft_election_ns(raft) / TRIPS_IN_ELECTION) raft->patience++;
    if (down && raft->patience > 0 && trip_ns < raft_election_ns(raft) / SHORTER_PART) raft->patience--;
}

/* The disk has the longest that holds: it forgets one when a shorter one lasts as long. */
void raft_promise(raft_t *raft, int64_t now_ns) {
    int64_t until_ns = now_ns + raft_election_ns(raft);
    if (until_ns >= raft->promise_ns || !RULE(PROMISE_LASTS)) raft->promise_ns = until_ns;
    raft->soon = 0;
}

bool raft_lost(raft_t *raft, uint64_t peer, int64_t now_ns) {
    int64_t before_ns = raft->due_ns;
    if (raft->role != RAFT_FOLLOWER || peer == 0 || raft->leader.peer != peer) return false;
    if (!RULE(PROMISE_LOST)) raft->promise_ns = now_ns;
    raft->soon = SOON_TRIES;
    raft_set_due(raft, now_ns);
    if (raft->due_ns > before_ns) raft->due_ns = before_ns;
    return raft->due_ns < before_ns;
}

/* A follower of that term from now on; leader: none as long as it is not known. */
void raft_follow(raft_t *raft, raft_outputs_t *out, raft_term_t term, raft_disk_t leader, int64_t now_ns) {
    check(term >= raft->term);
    bool other = raft->role != RAFT_FOLLOWER || term != raft->term || !same_disk(raft->leader, leader);
    raft->role = RAFT_FOLLOWER;
    raft->leader = leader;
    raft->soon = 0;
    raft->successor = (raft_disk_t){0};
    if (term > raft->term) {
        raft->term = term;
        raft->vote = (raft_disk_t){0};
        raft_save(raft, out);
    }
    raft_set_due(raft, now_ns);
    if (other) raft_tell_role(out);
}

void raft_init(raft_t *raft, const raft_start_t *start, int64_t now_ns) {
    check(start->seed != 0);
    check(start->self.peer != 0);
    check(start->times.lease_ns < start->times.election_ns);
    check(start->commit >= start->trail.base);
    check(start->commit <= start->trail.last);
    check(start->patience <= RAFT_PATIENCE_MAX);
    *raft = (raft_t){.times = start->times, .self = start->self, .random = start->seed, .term = start->term};
    raft->vote = start->vote;
    raft->trail = start->trail;
    raft->configs[0] = start->configs[0];
    raft->configs[1] = start->configs[1];
    raft->commit = start->commit;
    raft->firm = start->trail.last;
    check(!start->fresh || (start->trail.count == 0 && start->term == start->trail.base_term));
    raft->first = start->first && start->fresh;
    raft->patience = RULE(PROMISE_STARTS) ? start->patience : 0;
    raft->kept = start->patience;
    raft->heard_ns = RULE(QUIET_START) && !start->fresh ? now_ns : now_ns - raft_election_ns(raft);
    raft->promise_ns = raft->heard_ns + raft_election_ns(raft);
    raft_set_due(raft, now_ns);
    if (raft->first) {
        raft->due_ns = now_ns;
    }
}

void raft_tick(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    check(out->queued == 0);
    if (now_ns < raft->due_ns) return;
    if (raft->role == RAFT_LEADER) {
        raft_beat(raft, out, now_ns);
        return;
    }
    if (raft_may_stand(raft) && raft->trail.count < TRAIL_RUNS_MAX) raft_ask(raft, out, now_ns);
    if (raft->soon > 0) raft->soon--;
    raft_set_due(raft, now_ns);
    raft->tries += raft->tries < FIRST_SOONER;
}

/* An older term: its sender is to learn of ours, so that a leader of it steps down. */
static void answer_old(raft_t *raft, raft_outputs_t *out, const raft_message_t *message) {
    if (message->subject == RAFT_ENTRIES) {
        (void)raft_say(raft, out, RAFT_TAKEN, message->from, 0);
    } else if (message->subject == RAFT_PREVOTE) {
        (void)raft_say(raft, out, RAFT_PREVOTED, message->from, 0);
    }
}

/* A newer term. false: the message does not count. */
static bool join_term(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    switch (message->subject) {
    case RAFT_PREVOTE: return true;
    case RAFT_PREVOTED:
        if (message->granted) return true;
        break;
    case RAFT_VOTE:
        if (!message->handover && raft_hears_leader(raft, now_ns)) return false;
        break;
    case RAFT_ENTRIES: raft_follow(raft, out, message->term, message->from, now_ns); return true;
    case RAFT_VOTED:
    case RAFT_TAKEN: break;
    case RAFT_HANDOVER:
    case RAFT_STATE:
    case RAFT_PAIR:
    case RAFT_PAIRED: return false;
    }
    raft_follow(raft, out, message->term, (raft_disk_t){0}, now_ns);
    return true;
}

void raft_receive(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    check(out->queued == 0);
    if (!same_disk(message->to, raft->self) && RULE(MEMBERS_COUNT)) return;
    if (message->term > RAFT_TERM_MAX || message->index > RAFT_INDEX_MAX) return;
    bool answers =
        message->subject == RAFT_PREVOTED || message->subject == RAFT_VOTED || message->subject == RAFT_TAKEN;
    if (answers && raft_place(raft, message->from) == RAFT_MEMBERS_MAX) return;
    if (message->term < raft->term) {
        answer_old(raft, out, message);
        return;
    }
    if (message->term > raft->term && !join_term(raft, out, message, now_ns)) return;
    switch (message->subject) {
    case RAFT_PREVOTE: raft_prevote(raft, out, message, now_ns); return;
    case RAFT_PREVOTED: raft_prevoted(raft, out, message, now_ns); return;
    case RAFT_VOTE: raft_vote(raft, out, message, now_ns); return;
    case RAFT_VOTED: raft_voted(raft, out, message, now_ns); return;
    case RAFT_ENTRIES: raft_entries(raft, out, message, now_ns); return;
    case RAFT_TAKEN: raft_taken(raft, out, message, now_ns); return;
    case RAFT_HANDOVER:
        if (raft->role == RAFT_FOLLOWER && raft_may_stand(raft)) raft_stand(raft, out, true, now_ns);
        return;
    case RAFT_STATE:
    case RAFT_PAIR:
    case RAFT_PAIRED: return;
    }
}

void raft_persisted(raft_t *raft, raft_outputs_t *out, uint64_t write, int64_t now_ns) {
    check(out->queued == 0);
    uint32_t done = 0;
    while (done < raft->writing_count && raft->writing[done].write <= write) raft->firm = raft->writing[done++].last;
    for (uint32_t i = done; i < raft->writing_count; i++) raft->writing[i - done] = raft->writing[i];
    raft->writing_count -= done;
    if (raft->role == RAFT_CANDIDATE && !raft->self_voted && write >= raft->vote_write) {
        raft->self_voted = true;
        raft_count_votes(raft, out, now_ns);
    }
    if (raft->role == RAFT_LEADER) raft_advance(raft, out);
}

bool raft_next_write(raft_outputs_t *out, raft_output_t *next) {
    if (out->taken == out->queued) {
        out->taken = out->queued = 0;
        return false;
    }
    *next = out->queue[out->taken++];
    return true;
}

bool raft_next(raft_t *raft, raft_outputs_t *out, raft_output_t *next, int64_t now_ns) {
    if (raft_next_write(out, next)) return true;
    return raft->role == RAFT_LEADER && raft_send_next(raft, out, now_ns) && raft_next_write(out, next);
}

bool raft_propose(raft_t *raft, raft_outputs_t *out, uint32_t count, raft_index_t *index) {
    check(out->queued == 0);
    if (raft->role != RAFT_LEADER || raft->successor.peer != 0 || !raft_may_stand(raft)) return false;
    *index = raft->trail.last + 1;
    return raft_append_own(raft, out, RAFT_DATA, count);
}

void raft_compact(raft_t *raft, raft_index_t index) {
    check(index <= raft->commit);
    trail_compact(&raft->trail, index);
}

bool raft_copied(raft_t *raft, raft_outputs_t *out, raft_index_t index, raft_term_t term, const raft_config_t *config) {
    check(out->queued == 0);
    check(config->index <= index);
    if (raft->role == RAFT_LEADER || index <= raft->commit) return false;
    raft_term_t own;
    if (trail_term(&raft->trail, index, &own) && own == term && RULE(COPY_KEEPS)) {
        raft_commit_upto(raft, out, index); /* it came late: what is behind it may be acknowledged */
        return false;
    }
    trail_init(&raft->trail, index, term);
    raft->configs[0] = *config;
    raft->configs[1] = *config;
    raft->commit = index;
    if (raft->firm > index) raft->firm = index;
    for (uint32_t i = 0; i < raft->writing_count; i++) {
        if (raft->writing[i].last > index) raft->writing[i].last = index;
    }
    raft_output_t *output = raft_put(out, RAFT_RESET);
    output->from = index;
    output->term = term;
    output->write = ++raft->write;
    raft_note_write(raft, output->write);
    if (raft->leader.peer == 0) return true;
    /* The leader need not ask first; as its own clock is not known here, this is no part of its lease. */
    raft_message_t *answer = raft_say(raft, out, RAFT_TAKEN, raft->leader, raft->write);
    answer->granted = true;
    answer->index = index;
    return true;
}
