/* replica.h: a stream that a group of servers keeps, at one of them: what clients ask for becomes entries of the log of
 * the group, and entries become changes of the stream, the same at every member. Which stream, whose requests, and what
 * is answered to them is for its owner to say.
 *
 *     replica_publish --> entry: what is asked for, and the time --> committed --> replica_apply --> store_append_timed
 *          |                                                                            |
 *          '-- token ---------------------------- hooks.answered(token, verdict) <------'   at the leader
 *
 *     entry     0 version 1  1 what  2 age 8  10 wall 8  18 ..
 *     APPEND    18 flags 2, for each flag its number (8 bytes each, in the order of replica_entry.c), then subject 2,
 *               message id 2, expected message id 2, expected subject 2, source 2, header 4 (each its size, then its
 *               bytes), payload
 *     DELETE    18 sequence 8
 *     PURGE     18 below 8  26 keep 8  34 filter
 *     TIME      nothing: what is due by then goes
 *     CHANGES   writes to the records of the stream's consumers and sessions (changes.h)
 *     DEFINE    the stream's definition, for control to read
 *     FIRE      a schedule: its sequence 8, the time that is over 8, the next one 8 (0: none); then what an APPEND has,
 *               the message that it makes, or nothing
 *     NOTED     the size of changes 4, those changes (changes.h), then what an APPEND has
 *     FAST      the size of words 4, those words, which are its owner's (hooks.followed), then what an APPEND has
 *     BATCH     for each message its size 4, the place in the batch of the one before it on its subject 4 (1: the first
 *               one; 0: there is none), and then what an APPEND has
 *
 * - Nothing is decided before the entry is applied: a duplicate, a wrong expectation and a limit are verdicts of the
 *   log, the same at all members.
 * - Time is the log's (store/timeline.h). A leader goes on from the age that it has applied, by the time for which it
 *   has heard of a leader since, and by the time that passes here: so no clock's step and no other member's clock
 *   changes an age, and a log at rest loses nothing of it when its leader dies. Time without a leader does not count.
 * - For a reason of this server's own (room, an account's limit, a page that cannot be read) nothing is refused: it
 *   waits, and the member applies nothing until it can. What was done of an entry by then may be done again.
 * - A batch is one entry, so it is agreed on as a whole, and stored in one batch of the journal. It is judged when it
 *   is applied: the first of its messages that is refused has all of it refused.
 * - A rollup goes out in steps. That its message is stored is on the disk with that message, as a note with how far the
 *   log is applied, so that a start goes on behind it: the age 8, wall 8, index 8 and sequence 8 of that one, or zeros.
 * - A member that lacks what no log has any more gets a copy of the stream, in parts (replica_copy.c). Until it is
 *   whole the member applies nothing and takes no entries, and a start knows of it by the note.
 * - An entry of a version or kind that is not known stops the member where it is (replica_stuck): it guesses nothing.
 * - What a source brings has its position at the origin with it, also where nothing is stored of it: a duplicate, or
 *   what has no room in any stream.
 * - Where a stream discards what is new, a source's message also says how far its source has to have come, and is
 *   refused if that is not so (APPEND_OUT_OF_ORDER). So nothing is stored behind what was refused, and nothing twice.
 * - A counter's entry has what is added. Each member adds it to what its stream has then (hooks.count).
 * - Consumers are their leader's. What it would store of them it collects (replica_change), and proposes what there is
 *   once a tick, or at once where a client waits for it. The next leader has the records.
 *
 * - A definition is applied when the owner of the replica has the stream like that (replica_defined), and nothing is
 *   until then. So limits are the same at all members for each entry. For the same reason a copy begins with it.
 *
 * - A schedule that is due asks its owner, at each member, with TIME, and again a second later. The leader proposes
 *   what it does (FIRE), with its next time: clocks, zones and rights are one server's. It does that once, since its
 *   time is another one then. One that has no next time goes with the message that it made, and stays without one.
 */
#ifndef LEAFD_GROUP_REPLICA_H
#define LEAFD_GROUP_REPLICA_H

#include "group/group.h"
#include "store/append.h"
#include "store/record.h"

typedef struct replica replica_t;

/* What came of an entry. Slices are valid until the hook returns. */
typedef struct replica_outcome {
    raft_index_t index;
    appended_t appended; /* of a publish */
    bool found;          /* of a delete */
    uint64_t purged;     /* of a purge: by this member, since its start */
} replica_outcome_t;

typedef struct replica_hooks {
    void *context;
    /* Once for each token. NULL: it is not known what becomes of it, since this server leads no more. */
    void (*answered)(void *context, uint64_t token, const replica_outcome_t *outcome);
    /* The stream is to be like that: replica_defined when it is. false: no room, it is asked again. NULL: it is at
     * once. */
    bool (*define)(void *context, bytes_t definition);
    void (*news)(void *context); /* it may have something to do: replica_turn. NULL: it has a turn each time */
    /* Of a stream of counters: makes of what is to be added what is stored, valid until it is called again. before: the
     * message of the batch before it on its subject, if there is one. Any verdict but APPEND_STORED is that of the
     * message. NULL: it has none. */
    append_verdict_t (*count)(void *context, const append_t *before, append_t *append);
    /* Stores a message with store_append_timed, and may look at what came of it; grouped: one of a batch, with
     * store_group_append. NULL: that alone. */
    appended_t (*append)(void *context, const append_t *append, bool grouped);
    /* Does a schedule end with that message? Then, once it is stored: it ends; false: not yet, it is asked again. NULL:
     * the stream has none. */
    bool (*ends)(void *context, const append_t *append);
    bool (*end)(void *context, const append_t *append);
    /* What became of a message with words (replica_publish_fast) that nobody here waits for. NULL: it has none. */
    void (*followed)(void *context, bytes_t words, const appended_t *appended);
} replica_hooks_t;

/* What a schedule does: its message's sequence, which of its times, and the next one (wall ns, 0: none). */
typedef struct replica_fired {
    uint64_t seq;
    int64_t due_ts;
    int64_t next_ts;
} replica_fired_t;

#define REPLICA_TOKEN_MAX (UINT64_MAX - 2) /* of a caller's tokens */

/* Right behind store_stream_open, before any tick. NULL: no memory. */
replica_t *replica_open(store_stream_t *stream, replica_hooks_t hooks);
/* The hooks of the group that is to be made or loaded for it; then the group itself, before any turn of it. */
void replica_hook(replica_t *replica, group_hooks_t *hooks);
void replica_join(replica_t *replica, group_t *group);
/* A stream that is there, and went by the store's time, goes by that of its log from now on: what the group that is to
 * be made for it begins with. */
#define REPLICA_NOTE_SIZE 32u
bytes_t replica_grown(replica_t *replica, uint8_t note[REPLICA_NOTE_SIZE], moment_t now);
/* Before its stream is closed. */
void replica_close(replica_t *replica);

/* STATUS_OK: the token is answered once. STATUS_AGAIN: it does not lead, does not know all yet, or has no room: later,
 * or elsewhere. STATUS_INVALID: it never takes such a one. */
LEAF_MUST_USE status_t replica_publish(replica_t *replica, const append_t *append, uint64_t token, moment_t now);
/* The same with puts of new records (changes_add), which each member has with the message, and not where that is
 * refused. */
LEAF_MUST_USE status_t replica_publish_noted(replica_t *replica, const append_t *append, bytes_t changes,
                                             uint64_t token, moment_t now);
/* The same with words that each member's owner is told when the message is applied. */
LEAF_MUST_USE status_t replica_publish_fast(replica_t *replica, const append_t *append, bytes_t words, uint64_t token,
                                            moment_t now);
/* The age of the stream's time, which a leader goes on from. */
int64_t replica_age(replica_t *replica, moment_t now);
/* The same in two steps: as bytes, which are kept while there is no room. One of a source without a subject is its
 * position alone. STATUS_INVALID: it never takes such a one. */
LEAF_MUST_USE status_t replica_pack(const replica_t *replica, const append_t *append, buffer_t *packed);
LEAF_MUST_USE status_t replica_publish_packed(replica_t *replica, bytes_t packed, uint64_t token, moment_t now);
/* A batch: each message goes behind what is packed already. before: the place in the batch of the one before it on its
 * subject, from 1 on; 0: there is none. */
LEAF_MUST_USE status_t replica_pack_batched(const replica_t *replica, const append_t *append, uint32_t before,
                                            buffer_t *packed);
LEAF_MUST_USE status_t replica_publish_batch(replica_t *replica, bytes_t packed, uint64_t token, moment_t now);
LEAF_MUST_USE status_t replica_delete(replica_t *replica, uint64_t seq, uint64_t token, moment_t now);
LEAF_MUST_USE status_t replica_purge(replica_t *replica, bytes_t filter, uint64_t below_seq, uint64_t keep,
                                     uint64_t token, moment_t now);
/* append NULL: it makes no message. Nobody waits for it. */
LEAF_MUST_USE status_t replica_fire(replica_t *replica, const replica_fired_t *fired, const append_t *append,
                                    moment_t now);
LEAF_MUST_USE status_t replica_define(replica_t *replica, bytes_t definition, uint64_t token, moment_t now);
/* The stream is like that, as hooks.define was told, perhaps. */
void replica_defined(replica_t *replica, bytes_t definition);
/* A write to the records of one of the stream's consumers, for the next proposal. STATUS_FULL, STATUS_AGAIN: later. */
LEAF_MUST_USE status_t replica_change(replica_t *replica, const record_change_t *change);
/* Likewise the removal of a message that no consumer needs any more. */
LEAF_MUST_USE status_t replica_remove(replica_t *replica, uint64_t seq);
/* How many entries of a leader's log it has not applied yet. */
uint64_t replica_coming(const replica_t *replica);
/* Proposes the writes that there are; without a token nobody waits for them. STATUS_AGAIN: they are kept. */
LEAF_MUST_USE status_t replica_propose_changes(replica_t *replica, uint64_t token, moment_t now);
#define REPLICA_NO_TOKEN (UINT64_MAX - 1)
bool replica_changes(const replica_t *replica); /* there are some */
/* It leads no more: the next leader begins with what was committed. */
void replica_forget_changes(replica_t *replica);
/* A leader's: says what time it is when something is due by it. After its group's turns. */
void replica_turn(replica_t *replica, moment_t now);
/* mono ns of the next turn that does something by itself, INT64_MAX: none does. */
int64_t replica_deadline(replica_t *replica, moment_t now);
/* It has half of a copy: what there is of the stream is the state of no moment. */
bool replica_half(const replica_t *replica);
/* It has met an entry that it does not understand. */
bool replica_stuck(const replica_t *replica);

#endif
