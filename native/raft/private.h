/* private.h: the parts of a member that the files of this room share. */
#ifndef LEAFD_RAFT_PRIVATE_H
#define LEAFD_RAFT_PRIVATE_H

#include "raft/raft.h"

/* One to ask, one to be elected, one for what is late. */
#define TRIPS_IN_ELECTION 3
/* A way that is shorter than this part of an election's time asks for half of it. */
#define SHORTER_PART 8

/* Tests take one rule out at a time, to see that their invariants find it missing (tests/native/test_raft_rules.c). */
#ifdef RAFT_RULES
typedef enum raft_rule {
    RULE_NONE = 0,
    RULE_OWN_TERM,        /* only entries of the own term are counted */
    RULE_VOTE_ON_DISK,    /* a vote is given when it is on the disk */
    RULE_ENTRIES_ON_DISK, /* entries are acknowledged when they are on the disk */
    RULE_OWN_ON_DISK,     /* a leader's own entries count when they are on its disk */
    RULE_OWN_VOTE,        /* a candidate's own vote likewise */
    RULE_NEWEST_LOG,      /* a vote is for a log that is as new */
    RULE_ONE_VOTE,        /* one vote a term */
    RULE_FITTING,         /* the entry before those of a message has to fit */
    RULE_CUT_CONFLICT,    /* only entries that differ are removed */
    RULE_COMMIT_FITTING,  /* a follower commits what it knows to be the leader's */
    RULE_ONE_CHANGE,      /* one change of members at a time */
    RULE_CHANGE_BEHIND,   /* and behind an entry of the own term */
    RULE_CHANGE_BACK,     /* members go back with the entry that changed them */
    RULE_LIVE_LEADER,     /* a member that hears a leader grants no vote */
    RULE_QUIET_START,     /* nor who has just started */
    RULE_QUORUM,          /* a lease is from a majority */
    RULE_NO_LEASE_BEHIND, /* nor is there one behind a handover, which may arrive late */
    RULE_REMOVED_STANDS,  /* whose removal is not committed may be elected */
    RULE_COPY_KEEPS,      /* a copy takes away nothing that fits */
    RULE_MEMBERS_COUNT,   /* only members count */
    RULE_REST_SINCE,      /* an answer is for what was named when it was asked for */
    RULE_REST_FOLLOWS,    /* and from a member that follows still */
    RULE_REST_PATIENCE,   /* and for as long as it was named to promise */
    RULE_LEASE_PROMISED,  /* a lease is for as long as was promised, not as was asked for */
    RULE_PROMISE_LASTS,   /* a promise is not shortened by a later one */
    RULE_PROMISE_STARTS,  /* nor by a start */
    RULE_PROMISE_ON_DISK, /* nor forgotten on the disk while it holds */
    RULE_PROMISE_SELF,    /* and is kept towards oneself */
    RULE_PROMISE_LOST,    /* and when the way to the leader has ended */
    RULES,
} raft_rule_t;
extern raft_rule_t raft_without;
#define RULE(name) (raft_without != RULE_##name)
#else
#define RULE(name) true
#endif

/* raft.c */
raft_output_t *raft_put(raft_outputs_t *out, raft_action_t action);
raft_message_t *raft_say(raft_t *raft, raft_outputs_t *out, raft_subject_t subject, raft_disk_t to, uint64_t after);
void raft_save(raft_t *raft, raft_outputs_t *out);
void raft_note_write(raft_t *raft, uint64_t write);
void raft_tell_role(raft_outputs_t *out);
void raft_set_due(raft_t *raft, int64_t now_ns);
/* A member without its leader's way asks within so long after its promise; 0: it has the way, or members are far. */
int64_t raft_soon_ns(const raft_t *raft);
/* How far that is: answers took so long. Times become longer at once, shorter by `down` alone, a step at a time. */
void raft_adapt(raft_t *raft, int64_t trip_ns, bool down);
/* No vote from now on, for as long as its leader has told. */
void raft_promise(raft_t *raft, int64_t now_ns);
/* The place of a disk among the members; RAFT_MEMBERS_MAX: none. */
uint32_t raft_place(const raft_t *raft, raft_disk_t id);
bool raft_may_stand(const raft_t *raft);
/* How many votes are a majority; 0 members: none ever. */
uint32_t raft_majority(const raft_t *raft);
/* The number of which a majority of voters has at least as much. own: of self, if it is a voter. */
int64_t raft_of_majority(const raft_t *raft, int64_t own, int64_t (*number)(const raft_progress_t *progress));
void raft_commit_upto(raft_t *raft, raft_outputs_t *out, raft_index_t index);
void raft_follow(raft_t *raft, raft_outputs_t *out, raft_term_t term, raft_disk_t leader, int64_t now_ns);

/* elect.c */
bool raft_hears_leader(const raft_t *raft, int64_t now_ns);
void raft_ask(raft_t *raft, raft_outputs_t *out, int64_t now_ns);
void raft_stand(raft_t *raft, raft_outputs_t *out, bool handover, int64_t now_ns);
void raft_count_votes(raft_t *raft, raft_outputs_t *out, int64_t now_ns);
void raft_prevote(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);
void raft_prevoted(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);
void raft_vote(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);
void raft_voted(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);

/* replicate.c */
void raft_lead(raft_t *raft, raft_outputs_t *out, int64_t now_ns);
bool raft_append_own(raft_t *raft, raft_outputs_t *out, raft_kind_t kind, uint32_t count);
void raft_taken(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);
void raft_advance(raft_t *raft, raft_outputs_t *out);
void raft_beat(raft_t *raft, raft_outputs_t *out, int64_t now_ns);
bool raft_send_next(raft_t *raft, raft_outputs_t *out, int64_t now_ns);

/* A majority's round trips may ask for other times. true: they are other ones, of which no member has been told. */
bool raft_measure(raft_t *raft, int64_t now_ns);
/* Another round trip of that member. */
void raft_note_trip(const raft_t *raft, raft_progress_t *progress, int64_t trip_ns);
/* What was sent at that moment, a member has answered, and promised for that long. */
void raft_note_promise(raft_t *raft, raft_progress_t *progress, int64_t stamp_ns, uint64_t promised);

/* rest.c */
/* A beat to that member is about to leave: does it say that the member rests? */
bool raft_rest_begins(raft_t *raft, uint32_t place, int64_t now_ns);
/* Nothing was heard of it for long: it may have started again, as an earlier version. */
void raft_rest_ends(raft_progress_t *progress);
/* A beat of its leader's has said so. */
void raft_rest_heard(raft_t *raft, const raft_message_t *message);

/* follow.c */
void raft_entries(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);

#endif
