/* private.h: a member, for the files of this room that carry out its group's decisions. */
#ifndef LEAFD_GROUP_PRIVATE_H
#define LEAFD_GROUP_PRIVATE_H

#include "base/buffer.h"
#include "group/group.h"

#define WRITES_MAX 16u
#define HELD_MAX 24u /* requests for votes to all members, and answers in each batch that is on its way */

_Static_assert(HELD_MAX >= 2 * RAFT_MEMBERS_MAX, "an election's requests find room");

typedef struct waiting {
    raft_index_t index;
    uint64_t token;
} waiting_t;

/* Raft's writes up to one are in a batch. */
typedef struct writing {
    uint64_t write;
    uint64_t batch;
} writing_t;

/* A message that may leave when its batch is on the disk. */
typedef struct held {
    uint64_t batch;
    raft_message_t message;
} held_t;

/* A leader's: the copy that a member has got last. */
typedef struct copying {
    raft_disk_t to; /* peer 0: none */
    raft_index_t upto;
    int64_t held_ns; /* mono, until when the log is kept from there on */
    int64_t due_ns;  /* of the next one, if this one does not arrive .. */
    int64_t wait_ns; /* .. within this time */
} copying_t;

struct group {
    store_t *store;
    ledger_t *ledger;
    group_hooks_t hooks;
    group_state_t state;
    raft_outputs_t *out;
    raft_t raft;
    raft_index_t committed;
    raft_index_t told; /* what its leader had committed when it last said so; 0: it has not, or lacks the log for it */
    raft_index_t everybody;                /* all members have the log up to there, or it is not kept for them */
    raft_index_t wanted[RAFT_MEMBERS_MAX]; /* a leader's: what each is to have next, .. */
    int64_t wanted_ns[RAFT_MEMBERS_MAX];   /* .. which was the log's last then; 0: not known yet */
    copying_t copying[RAFT_MEMBERS_MAX];   /* by place, as these two */
    raft_config_t members;                 /* at what is applied */
    bytes_t proposed;
    raft_index_t received_from; /* the first of these entries */
    bytes_t received;           /* of the message that raft is asked about */
    bool shortened;             /* that message had more of them */
    bool half;                  /* its state is that of no index */
    bool deaf;                  /* its log is carried out without the others: survivor.c */
    bool news;                  /* for its owner */
    bool was_current;           /* .. which knows that it is */
    int64_t led_wall_ns;        /* since when it leads, 0: it does not; for reports */
    buffer_t applying; /* an entry's bytes, while what it asks for is written; a copy, while it is put into a frame */
    waiting_t *waiting;
    uint64_t waiting_room;
    uint64_t waiting_first;
    uint64_t waiting_count; /* those before waiting_first included */
    uint32_t writing_count;
    writing_t writing[WRITES_MAX];
    uint32_t held_count;
    held_t held[HELD_MAX];
};

static inline bool group_is_self(const group_t *group, raft_disk_t id) {
    return same_disk(id, group->raft.self);
}

/* waiting.c */
/* Room for one more. STATUS_FULL: too many wait. */
LEAF_MUST_USE status_t waiting_reserve(group_t *group);
void answer_upto(group_t *group, raft_index_t index, bool applied);

/* copy.c */
/* Sends the state to each member that lacks entries which are gone; a leader's. */
void copy_turn(group_t *group, moment_t now);
/* Does that member get a copy, or need one? */
bool copy_goes(const group_t *group, uint32_t place);
/* The state up to where it has got it by a copy that may still arrive; RAFT_INDEX_MAX: there is none. */
raft_index_t copy_sent(const group_t *group, uint32_t place);
/* A copy of its leader's. What it has no room for is lost, as on a network. */
void copy_take(group_t *group, const frame_message_t *received, moment_t now);

/* carry.c */
/* An entry that its log has. false: it cannot be read now, and the group stands still. */
bool group_entry(group_t *group, raft_index_t index, ledger_entry_t *entry);
/* Its owner hears what a turn has changed. */
void tell_news(group_t *group);
/* Does what raft has asked for in its last call. */
void carry_out_all(group_t *group, moment_t now);
/* The same, but what is to be sent goes with the next carry_out_all. */
void carry_out_writes(group_t *group);
/* Sends what was held for batches that are on the disk now. */
void send_held(group_t *group);

#endif
