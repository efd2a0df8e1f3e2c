/* elect.c: elections: who may ask for votes, who gets them, and what a majority of them makes. */
#include "raft/raft.h"

#include "base/check.h"
#include "base/random.h"
#include "raft/private.h"

/* A leader hears itself: it steps down by itself when it hears no majority (raft_beat). */
bool raft_hears_leader(const raft_t *raft, int64_t now_ns) {
    if (!RULE(LIVE_LEADER)) return false;
    return raft->role == RAFT_LEADER || now_ns < raft->promise_ns;
}

/* A log is as new as ours when its last entry has a later term, or the same and is as far (5.4.1). */
static bool log_is_new(const raft_t *raft, const raft_message_t *message) {
    raft_term_t own = trail_last_term(&raft->trail);
    if (!RULE(NEWEST_LOG)) return true;
    return message->log_term > own || (message->log_term == own && message->index >= raft->trail.last);
}

static void request_votes(raft_t *raft, raft_outputs_t *out, raft_subject_t subject, uint64_t after, bool handover,
                          int64_t now_ns) {
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        const raft_member_t *member = &raft_members(raft)->at[i];
        if (!member->voter || same_disk(member->id, raft->self)) continue;
        raft_message_t *message = raft_say(raft, out, subject, member->id, after);
        message->term = raft->term + (subject == RAFT_PREVOTE ? 1 : 0);
        message->index = raft->trail.last;
        message->log_term = trail_last_term(&raft->trail);
        message->handover = handover;
        message->stamp_ns = now_ns;
    }
}

void raft_ask(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    bool other = raft->role != RAFT_ASKING || raft->leader.peer != 0;
    raft->role = RAFT_ASKING;
    raft->leader = (raft_disk_t){0};
    raft->votes = 0;
    raft->self_voted = true;
    raft->far = false;
    if (other) raft_tell_role(out);
    request_votes(raft, out, RAFT_PREVOTE, 0, false, now_ns);
    raft_count_votes(raft, out, now_ns);
}

void raft_stand(raft_t *raft, raft_outputs_t *out, bool handover, int64_t now_ns) {
    raft->role = RAFT_CANDIDATE;
    raft->term++;
    raft->vote = raft->self;
    raft->leader = (raft_disk_t){0};
    raft->votes = 0;
    raft_set_due(raft, now_ns);
    raft_save(raft, out);
    raft_tell_role(out);
    raft->vote_write = raft->write;
    raft->self_voted = !RULE(OWN_VOTE);
    request_votes(raft, out, RAFT_VOTE, RULE(OWN_VOTE) ? raft->vote_write : 0, handover, now_ns);
}

void raft_count_votes(raft_t *raft, raft_outputs_t *out, int64_t now_ns) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < raft_members(raft)->count; i++) {
        const raft_member_t *member = &raft_members(raft)->at[i];
        if (!member->voter) continue;
        bool own = same_disk(member->id, raft->self);
        count += (own ? raft->self_voted : (raft->votes >> i & 1u) != 0) ? 1 : 0;
    }
    if (count < raft_majority(raft)) return;
    if (raft->role == RAFT_ASKING) {
        raft_stand(raft, out, false, now_ns);
    } else {
        raft_lead(raft, out, now_ns);
    }
}

/* A candidate must find out by itself how far the others are: a vote counts in its time alone. */
static void note_trip(raft_t *raft, const raft_message_t *message, int64_t now_ns) {
    if (message->stamp_ns <= 0 || message->stamp_ns > now_ns || raft->role == RAFT_LEADER) return;
    uint8_t before = raft->patience;
    raft_adapt(raft, now_ns - message->stamp_ns, false);
    if (raft->patience != before) raft_set_due(raft, now_ns);
}

static void note_vote(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    uint32_t place = raft_place(raft, message->from);
    if (place == RAFT_MEMBERS_MAX || !message->granted) return;
    raft->votes |= 1u << place;
    raft_count_votes(raft, out, now_ns);
}

void raft_prevote(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    bool granted = message->term > raft->term && log_is_new(raft, message) && !raft_hears_leader(raft, now_ns);
    raft_message_t *answer = raft_say(raft, out, RAFT_PREVOTED, message->from, 0);
    answer->granted = granted;
    answer->stamp_ns = message->stamp_ns;
    if (granted) answer->term = message->term;
}

void raft_prevoted(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    if (raft->role == RAFT_ASKING) note_trip(raft, message, now_ns);
    if (raft->role == RAFT_ASKING && message->term == raft->term + 1) note_vote(raft, out, message, now_ns);
}

/* Two candidates of one term, of which neither may win: each asks again at some time soon, without waiting first. */
static void meet_candidate(raft_t *raft, const raft_message_t *message, int64_t now_ns) {
    if (raft->role != RAFT_CANDIDATE || raft_place(raft, message->from) == RAFT_MEMBERS_MAX) return;
    int64_t most_ns = raft_soon_ns(raft) != 0 ? raft_soon_ns(raft) : raft_election_ns(raft);
    int64_t soon_ns = now_ns + most_ns / 1024 * random_below(&raft->random, 1024);
    if (soon_ns < raft->due_ns) raft->due_ns = soon_ns;
}

void raft_vote(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    if (!message->handover && raft_hears_leader(raft, now_ns)) return;
    meet_candidate(raft, message, now_ns);
    bool free = raft->vote.peer == 0 || same_disk(raft->vote, message->from) || !RULE(ONE_VOTE);
    bool granted = free && raft->role != RAFT_LEADER && raft->leader.peer == 0 && log_is_new(raft, message);
    if (granted && raft->role != RAFT_FOLLOWER) raft_follow(raft, out, raft->term, (raft_disk_t){0}, now_ns);
    if (granted && !same_disk(raft->vote, message->from)) {
        raft->vote = message->from;
        raft_save(raft, out);
    }
    /* The vote waits for the disk; it may have been given, and its write be on the way still. */
    raft_message_t *answer =
        raft_say(raft, out, RAFT_VOTED, message->from, granted && RULE(VOTE_ON_DISK) ? raft->write : 0);
    answer->granted = granted;
    answer->stamp_ns = message->stamp_ns;
    if (granted) raft_set_due(raft, now_ns);
}

void raft_voted(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns) {
    if (raft->role == RAFT_CANDIDATE) note_trip(raft, message, now_ns);
    if (raft->role == RAFT_CANDIDATE) note_vote(raft, out, message, now_ns);
}
