/* replica_private.h: a stream of a group at one of its servers, for the files that make it: replica.c, which has the
 * entries, replica_batch.c, which has those of several messages, replica_fire.c, which has schedules, and
 * replica_copy.c, which has the copies.
 */
#ifndef LEAFD_GROUP_REPLICA_PRIVATE_H
#define LEAFD_GROUP_REPLICA_PRIVATE_H

#include "group/replica.h"
#include "group/replica_entry.h"
#include "store/copying.h"

/* What is on the disk with how far the log is applied, REPLICA_NOTE_SIZE bytes: age 8, wall clock 8, index and sequence
 * of the append whose rollup or schedule is not at its end 8 each (0: none). One byte more: the state is that of no
 * index, since a copy is coming. */
#define REPLICA_HALF_SIZE 33u

_Static_assert(REPLICA_HALF_SIZE <= LEDGER_NOTE_MAX, "the note finds room");

#define COPY_PARTS 2u /* of a copy, on their way at once */

/* Copies, of which one at a time is made and one is taken. Only replica_copy.c writes to it, but for `half`. */
typedef struct copier {
    /* a leader's */
    giving_t *giving; /* NULL: none */
    raft_disk_t to;
    uint64_t giving_id;
    uint32_t giving_part; /* the next one that is given .. */
    uint32_t ahead;       /* .. of which so many may be on their way beside the one that is asked for */
    uint32_t part_size;
    int64_t given_ns[COPY_PARTS]; /* mono, by number: when those that are on their way were given */
    raft_index_t giving_index;
    int64_t begun_ns;
    int64_t used_ns;
    /* of one who needs a copy */
    uint32_t copied;  /* so often, since the start */
    uint32_t spoiled; /* so many in a row, whose records contradict themselves or what is here */
    bool half;        /* .. of whose state there is a part already */
    bool asking;
    bool pending;     /* a part is to be taken in */
    uint32_t unheard; /* asks for a new one since the last word of one */
    uint64_t id;      /* 0: it asks for a new one */
    uint32_t part;
    int64_t offered_ns; /* mono, until when its leader's word counts that it needs one */
    int64_t retry_ns;   /* of a part that is pending */
    int64_t ask_ns;     /* it asks then, or again */
    uint64_t have_seq;
    group_said_t said;
    taking_t taking;
    buffer_t bytes;    /* of the part .. */
    uint64_t at;       /* .. and how many were taken in */
    bool next_there;   /* the part behind it has come, too */
    group_said_t next; /* without its bytes: */
    buffer_t next_bytes;
} copier_t;

struct replica {
    store_stream_t *stream;
    group_t *group;
    replica_hooks_t hooks;
    copier_t copier;
    bool stuck;
    bool timing; /* a TIME entry is on its way */
    int64_t timed_ns;
    bool leads; /* .. and this is the age from which it went on, when */
    int64_t lead_age;
    int64_t lead_ns;
    int64_t led_ns;     /* when it was last seen to lead */
    int64_t applied_ns; /* when a leader was last known, as the last entry was applied */
    buffer_t writing;
    buffer_t changes;       /* of consumers' records, not proposed yet */
    replica_outcome_t last; /* of the entry that was applied last */
    /* The append or batch whose rollup is not at its end, 0: none; its sequence, or that of the batch's first. */
    raft_index_t rolling;
    uint64_t rolling_seq;
    bool batch_waits; /* for room that it has asked the store for */
    uint32_t rolled;  /* of a batch: so many of its messages have no rollup to do any more */
    /* A purge or rollup that goes on. */
    raft_index_t purging; /* 0: none */
    uint64_t purged;
    store_purge_t purge;
    uint64_t defining; /* the hash of the definition that its owner was told of, 0: none .. */
    bool defined;      /* .. and the stream is like that */
};

/* replica.c */
/* How many bytes the body of such a message has, and its numbers; 0: it never takes such a one. Then whether it ever
 * takes an entry with such a body. */
uint64_t replica_fits(const replica_t *replica, const append_t *append, entry_numbers_t *numbers);
bool replica_takes(const replica_t *replica, uint64_t body_size);
/* An entry's time, or a copy's, becomes the stream's. */
void replica_time(replica_t *replica, int64_t age, int64_t wall);
/* Has this server a reason of its own not to store it now? */
bool replica_own_reason(append_verdict_t verdict);
/* To its end. false: it waits, and what has gone is gone. */
bool replica_purging(replica_t *replica, raft_index_t index, bytes_t filter, uint64_t below_seq, uint64_t keep,
                     uint64_t left);

/* A message as the hooks store it. */
appended_t replica_append(replica_t *replica, const append_t *append);
/* The rollup of the message that is in the stream (rolling). false: it waits. */
LEAF_MUST_USE bool replica_roll(replica_t *replica, raft_index_t index, const append_t *append);

/* replica_fire.c */
#define REPLICA_FIRE_HEAD 24u
/* Does a schedule end with that message? Then: it ends, if one does; false: not yet. */
bool replica_ends(const replica_t *replica, const append_t *append);
LEAF_MUST_USE bool replica_end(const replica_t *replica, const append_t *append);
/* What was judged last is in the stream. */
bool replica_took_place(const replica_t *replica);
/* STATUS_AGAIN: it waits. STATUS_INVALID: it is no copy. */
LEAF_MUST_USE status_t replica_apply_fire(replica_t *replica, raft_index_t index, bytes_t body);

/* replica_batch.c */
/* STATUS_AGAIN: it waits. STATUS_INVALID: it is no batch. */
LEAF_MUST_USE status_t replica_apply_batch(replica_t *replica, raft_index_t index, bytes_t body);
void replica_batch_end(replica_t *replica);

/* replica_note.c */
void replica_note(replica_t *replica);

/* replica_source.c */
/* How far its source has come, where no message says it. false: later. */
bool replica_source_came(const replica_t *replica, const append_t *append);
/* READ_NONE: what its source had before it is not here. */
LEAF_MUST_USE read_outcome_t replica_source_goes_on(const replica_t *replica, const append_t *append);
/* Goes on as a note says. false: the bytes are no note. */
bool replica_noted(replica_t *replica, bytes_t note);

/* false: not yet, or there is no room to ask for it. */
bool replica_is_defined(replica_t *replica, bytes_t definition);

/* replica_copy.c */
void copier_begin(replica_t *replica);
void copier_end(replica_t *replica);
void copier_offer(void *context, raft_disk_t to, moment_t now);
void copier_hear(void *context, const group_said_t *said, moment_t now);
void copier_turn(replica_t *replica, moment_t now);
int64_t copier_deadline(const replica_t *replica, moment_t now);

#endif
