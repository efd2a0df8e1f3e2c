/* message.h: what members of a group say to each other, and who they are. When they say it, and what it does: raft.h.
 * As bytes: frame.h.
 */
#ifndef LEAFD_RAFT_MESSAGE_H
#define LEAFD_RAFT_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/trail.h"

#define RAFT_MEMBERS_MAX 9u
#define RAFT_ENTRIES_MAX 256u /* in one message */
#define RAFT_PATIENCE_MAX 3u  /* 12 s for an election of 1.5 s: three round trips of two seconds one way */

typedef struct raft_disk {
    uint64_t peer; /* 0: none */
    uint64_t disk;
} raft_disk_t;

static inline bool same_disk(raft_disk_t a, raft_disk_t b) {
    return a.peer == b.peer && a.disk == b.disk;
}

typedef struct raft_member {
    raft_disk_t id;
    bool voter; /* false: a learner, which gets the log and does not count */
} raft_member_t;

/* The members from an entry on. */
typedef struct raft_config {
    raft_index_t index;
    uint32_t count;
    raft_member_t at[RAFT_MEMBERS_MAX];
} raft_config_t;

typedef enum raft_subject {
    RAFT_PREVOTE = 1, /* index, log_term: the candidate's last entry; term: the one that it would begin; stamp_ns */
    RAFT_PREVOTED,    /* granted; stamp_ns: of PREVOTE, 0 of an earlier version */
    RAFT_VOTE,        /* as PREVOTE; handover: its leader wants it */
    RAFT_VOTED,       /* as PREVOTED */
    RAFT_ENTRIES,     /* index, log_term: the entry before them; count entries of entry_term; commit; stamp_ns */
    /* granted: has all up to index; commit: has committed that. Else: `refused` did not fit, index, of log_term
     * there, may. stamp_ns: of ENTRIES. entry_term: 1 + the patience that it promises; 0: of an earlier version, which
     * knows of none */
    RAFT_TAKEN,
    RAFT_HANDOVER, /* begin an election now */
    RAFT_STATE,    /* a copy of the state up to index, of log_term: the caller's, which calls raft_copied() */
    RAFT_PAIR,     /* the caller's, in place of the beats of many groups: rest.h */
    RAFT_PAIRED,   /* .. and the answer to that */
} raft_subject_t;

typedef struct raft_message {
    raft_subject_t subject;
    raft_disk_t from;
    raft_disk_t to;
    raft_term_t term;
    raft_index_t index;
    raft_term_t log_term;
    raft_term_t entry_term;
    uint32_t count;
    uint8_t patience; /* ENTRIES: how often times are doubled; to those alone that know of it */
    bool far;         /* ENTRIES: to a member farther away than the majority: it need not ask for votes so soon */
    bool granted;
    bool handover;
    bool rests; /* ENTRIES: what stands for the beats of many groups speaks for this one, too: rest.h */
    bool full;  /* TAKEN: it had no room for more of them, which the caller says: more come with the next beat */
    bool tight; /* TAKEN: nothing more is to be proposed that needs room to be applied, which the caller says */
    raft_index_t commit;
    raft_index_t refused;
    int64_t stamp_ns;
    /* Received ENTRIES: the members of the last entries of kind RAFT_MEMBERS among them, at most two, ascending. */
    uint32_t config_count;
    const raft_config_t *configs;
} raft_message_t;

#endif
