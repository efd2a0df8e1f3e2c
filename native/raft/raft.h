/* raft.h: one member of one group that agrees on a log: Raft (Ongaro and Ousterhout 2014; Ongaro's thesis for changes
 * of members, pre-vote, transfer and leases).
 *
 * Members that are far from each other go slower: all times are doubled as often as the leader's `patience` says, which
 * follows the round trips of a majority. A candidate takes its own from how long the answers took.
 *
 *     leader   ENTRIES, patience ------> promises not to vote, and waits, for election_ns << patience; on its disk
 *              lease_ns << patience <--- TAKEN, entry_term: 1 + patience, for what was sent at its stamp
 *
 * Sans-IO and pure: no bytes of entries, no disk, no network, and no clock but the `now` of a call. A raft_t has a
 * fixed size and no pointers: a copy of it is the member at that moment, which the tests make use of.
 *
 *     raft_tick, raft_receive, raft_propose, ... --> raft_next, until it says false --> the caller writes and sends
 *          ^                                                                                   |
 *          '--- raft_persisted(write): everything up to that number is on the disk <-----------'
 *
 * Writes have numbers, in the order in which they must reach the disk. A message whose `after` is not 0 makes a
 * promise: it may leave when the write of that number is on the disk. After a crash the caller starts the member from
 * the disk: term, vote and log up to some write.
 *
 *              election time over                 a majority would vote            a majority has voted
 *     FOLLOWER -------------------> ASKING ------------------------> CANDIDATE ---------------------> LEADER
 *         ^     (pre-vote: nobody's term changes)                      |                                |
 *         '---- a leader of this term, or a higher term, is heard -----+---- no majority heard ---------'
 *
 * Rules that hold here, whatever the caller does:
 * - A leader counts only entries of its own term to commit (5.4.2), its own when they are on its disk.
 * - Its first entry is empty, and it changes no members before that one is committed; one change at a time.
 * - A leader that has not heard a majority for an election time is one no longer. A member that hears a leader grants
 *   no vote, nor does it for an election time after its start: its promise to a leader before that still holds.
 * - A leader counts on a member's promise for as long as that member said last that it promises, on its disk: patience.
 *   A promise is never shortened by a later one, holds behind a start, and is kept towards oneself, too.
 * - What stands for the beats of groups at rest renews the lease of those alone that it named when it was sent, and
 *   that the follower that answers still follows in that term.
 * - Who hears that the way to its leader has ended asks for votes as soon as its own promise is over, and not some time
 *   later. That ends no promise: the leader may be there and lead, and only its way be gone.
 * - A member is a disk: (peer, disk). The votes and acknowledgements of any other disk do not count. Requests for votes
 *   are answered to every disk all the same: a member that is behind may not know yet who has become one.
 */
#ifndef LEAFD_RAFT_RAFT_H
#define LEAFD_RAFT_RAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/message.h"
#include "raft/trail.h"

#define RAFT_OUTPUTS_MAX 32u
#define RAFT_WINDOW 4096u /* entries on their way to one member */
#define RAFT_NEAR 64u     /* a learner that lacks no more than so many entries may be promoted */
#define RAFT_WRITES_MAX 8u
#define RAFT_TERM_MAX (UINT64_MAX >> 8) /* messages that claim more are dropped: no sum of ours overflows */
#define RAFT_INDEX_MAX (UINT64_MAX >> 8)

typedef struct raft_times {
    int64_t election_ns; /* a follower that hears nothing waits so long, and up to twice as long */
    int64_t lease_ns;    /* less than election_ns by as much as clocks may differ in their rates */
    int64_t beat_ns;
    int64_t rest_ns; /* between the beats of a group in which all have all there is and answer soon; 0: beat_ns */
} raft_times_t;

typedef enum raft_role { RAFT_FOLLOWER = 0, RAFT_ASKING, RAFT_CANDIDATE, RAFT_LEADER } raft_role_t;

typedef enum raft_kind {
    RAFT_DATA = 0, /* the caller's */
    RAFT_EMPTY,    /* the first of a leader */
    RAFT_MEMBERS,
} raft_kind_t;

typedef enum raft_action {
    RAFT_SAVE = 1, /* write term, vote and patience, as `write` */
    RAFT_CUT,      /* remove the entries behind from, as `write` */
    RAFT_APPEND,   /* write the entries from..upto of `kind`, as `write`; of MEMBERS: raft_members() */
    RAFT_RESET,    /* begin the log anew behind from, whose term is `term`, as `write`: raft_copied() */
    RAFT_SEND,     /* message; ENTRIES with the bytes of index+1.. index+count. after: see above */
    RAFT_COMMIT,   /* entries up to upto may be applied */
    RAFT_ROLE,     /* role, term and leader as they are now */
    RAFT_COPY,     /* `to` needs entries that the log has no longer: a copy of the state is to be sent */
} raft_action_t;

typedef struct raft_output {
    raft_action_t action;
    raft_kind_t kind;
    uint64_t write;
    uint64_t after;
    raft_index_t from;
    raft_index_t upto;
    raft_term_t term;
    raft_disk_t vote;
    uint8_t patience; /* SAVE: with term and vote */
    raft_disk_t to;
    raft_message_t message;
} raft_output_t;

/* The outputs of one call; any number of groups may share it, one after the other. */
typedef struct raft_outputs {
    uint32_t queued;
    uint32_t taken;
    raft_output_t queue[RAFT_OUTPUTS_MAX];
} raft_outputs_t;

typedef enum raft_pace { RAFT_PROBING = 0, RAFT_FLOWING, RAFT_COPYING } raft_pace_t;

/* A leader's view of a member. */
typedef struct raft_progress {
    raft_index_t match;     /* it has all up to there */
    raft_index_t next;      /* it is sent from there */
    int64_t heard_ns;       /* by our clock when its answer came */
    int64_t stamp_ns;       /* by our clock when what it has answered was sent */
    int64_t match_ns;       /* by our clock when that was first heard */
    int64_t until_ns;       /* by our clock: it votes for nobody before, as it has promised */
    int64_t trip_ns;        /* from ENTRIES to TAKEN, as of the last beats; 0: not known */
    int64_t last_ns;        /* the last of these alone */
    int64_t quickest_ns;    /* since the last beat; 0: none */
    raft_index_t committed; /* it says so */
    raft_index_t rest;      /* the log's last when it was told that it rests; another one, or 0: it does not */
    int64_t rest_ns;        /* by our clock when it was first told */
    raft_pace_t pace;
    uint8_t promised; /* TAKEN's entry_term */
    bool paused;      /* a probe is on its way, .. */
    bool probed;      /* .. and it has entries: they are not sent again before anything is answered */
    bool beat;        /* it is to hear of us now */
    bool handed;      /* HANDOVER was sent lately */
    bool silent;      /* for an election's time */
    bool tight;       /* it said so last */
} raft_progress_t;

typedef struct raft_writing {
    uint64_t write;
    raft_index_t last; /* of the log then */
} raft_writing_t;

typedef struct raft {
    raft_times_t times;
    raft_disk_t self;
    uint64_t random;
    raft_role_t role;
    raft_term_t term;
    raft_disk_t vote;
    raft_disk_t leader;
    int64_t heard_ns;   /* of a leader; of the start */
    uint8_t patience;   /* how often its times are doubled: a leader's own, or the one that it was told .. */
    uint8_t kept;       /* .. and the one on its disk, which no promise of it exceeds that may hold still */
    int64_t promise_ns; /* before that it votes for nobody */
    int64_t due_ns;     /* an election, or a leader's next beat */
    uint8_t soon;       /* the way to its leader has ended: so many requests for votes come soon, each after its time */
    bool far;           /* it was told so by its leader */
    raft_index_t commit;
    raft_index_t own_first; /* a leader's first entry */
    raft_term_t rest_term;  /* a follower's: it was told that it rests in that term .. */
    raft_index_t rest;      /* .. with that as the log's last; 0: it was not */
    trail_t trail;
    raft_config_t configs[2]; /* the members before, and now */
    raft_progress_t progress[RAFT_MEMBERS_MAX];
    uint32_t votes; /* by place among the members */
    bool self_voted;
    bool first;          /* raft_start_t's */
    uint32_t tries;      /* .. has asked so often */
    uint64_t write;      /* the last number */
    uint64_t vote_write; /* a candidate's own vote */
    raft_index_t firm;   /* the log up to there is on the disk */
    uint32_t writing_count;
    raft_writing_t writing[RAFT_WRITES_MAX];
    raft_disk_t successor; /* that a leader hands over to */
    int64_t handover_ns;
    bool handed; /* HANDOVER was sent in this term: it may arrive late, so there is no lease any more */
} raft_t;

/* A member as its disk has it. A new member has zeros, and no members but for the first group's. */
typedef struct raft_start {
    raft_disk_t self;
    raft_term_t term;
    raft_disk_t vote;
    uint8_t patience;
    trail_t trail;
    raft_config_t configs[2];
    raft_index_t commit; /* at least trail.base */
    raft_times_t times;
    uint64_t seed; /* not 0 */
    /* This disk has never been a member before: it has heard no leader that could count on it, so it need not be quiet
     * for a while, as a member that starts again is. */
    bool fresh;
    bool first; /* .. and it asks for votes at once, and again within a beat, until somebody has led */
} raft_start_t;

typedef enum raft_change { RAFT_LEARN = 1, RAFT_PROMOTE, RAFT_REMOVE } raft_change_t;

void raft_init(raft_t *raft, const raft_start_t *start, int64_t now_ns);
/* `out` is empty before each of these: raft_next() said false. */
void raft_tick(raft_t *raft, raft_outputs_t *out, int64_t now_ns);
void raft_receive(raft_t *raft, raft_outputs_t *out, const raft_message_t *message, int64_t now_ns);
void raft_persisted(raft_t *raft, raft_outputs_t *out, uint64_t write, int64_t now_ns);
/* A leader's new entries of the caller: `count` from *index on. false: not a leader, or it hands over or is removed. */
bool raft_propose(raft_t *raft, raft_outputs_t *out, uint32_t count, raft_index_t *index);
/* false: not a leader, another change is under way, or the members do not allow it. */
bool raft_alter(raft_t *raft, raft_outputs_t *out, raft_change_t change, raft_disk_t id);
/* Hands over to a voter. false: not a leader, or `to` is no other voter. */
bool raft_transfer(raft_t *raft, raft_disk_t to, int64_t now_ns);
/* A follower got a copy of the state up to index. false: its own log leads there, and the copy is not needed. */
bool raft_copied(raft_t *raft, raft_outputs_t *out, raft_index_t index, raft_term_t term, const raft_config_t *config);
/* The last way to that server has ended: its process has, perhaps. false: nothing comes sooner for that. */
bool raft_lost(raft_t *raft, uint64_t peer, int64_t now_ns);
/* The entries up to index, which are committed, are gone from the caller's log. */
void raft_compact(raft_t *raft, raft_index_t index);
bool raft_next(raft_t *raft, raft_outputs_t *out, raft_output_t *next, int64_t now_ns);
/* The same without the entries that are to be sent: those of several proposals go together with the next raft_next. */
bool raft_next_write(raft_outputs_t *out, raft_output_t *next);
/* A leader's: would a majority have to apply what is proposed now without room for it? Whether the leader itself has
 * room is for the caller to know. */
bool raft_lacks_room(const raft_t *raft);
/* An election's time, as far as the members are from each other. */
int64_t raft_election_ns(const raft_t *raft);
/* True for a leader beside which there can be no other at this moment: its committed entries are all there are. */
bool raft_leased(const raft_t *raft, int64_t now_ns);

static inline const raft_config_t *raft_members(const raft_t *raft) {
    return &raft->configs[1];
}

#endif
