/* message.h: one stored message: found and read, replaced or taken out when it is over a limit, has outlived its time
 * or is due. Nobody outside native/store includes this.
 */
#ifndef LEAFD_STORE_MESSAGE_H
#define LEAFD_STORE_MESSAGE_H

#include "store/core.h"

/* ---- read.c ------------------------------------------------------------------------------------------------------ */
struct message_row {
    uint64_t seq;
    message_record_t message;
    bool sound; /* its checksum was looked at and held, or its structure holds where that was enough; else all that is
                   known is the sequence. Who finds one that is not says so (store_corrupt) */
};
/* Finds the message stored at seq, GONE links too. verify: look at the checksum. */
LEAF_MUST_USE read_outcome_t message_find(store_stream_t *stream, uint64_t seq, bool verify, message_row_t *found);
/* The same for its stamp and its link alone: of a large one, the checksum is not looked at. */
LEAF_MUST_USE read_outcome_t message_link(store_stream_t *stream, uint64_t seq, message_row_t *found);
/* The first one alive at or after *from, up to upto. SEEK_MORE with *from moved on when *budget steps (over deleted
 * ones, too) were not enough. */
LEAF_MUST_USE seek_outcome_t message_next_some(store_stream_t *stream, uint64_t *from, uint64_t upto, bool verify,
                                               uint32_t *budget, message_row_t *found);
/* The last one alive at or below *from, likewise. */
LEAF_MUST_USE seek_outcome_t message_back_some(store_stream_t *stream, uint64_t *from, uint32_t *budget,
                                               message_row_t *found);
/* The one before `message` on its subject that still lives; floor: do not go below. SEEK_NONE: there is none, or damage
 * broke the chain. SEEK_MORE: it is farther than that many steps, and found is the deleted one that they lead to. */
LEAF_MUST_USE seek_outcome_t message_chain(store_stream_t *stream, const message_record_t *message, uint64_t floor,
                                           uint32_t *steps, message_row_t *found);
/* The first record at or after from, up to upto, whose stamp can be read; also that of a deleted message: its link
 * keeps it. READ_UNKNOWN: or more damaged ones than the budget lie before it. */
LEAF_MUST_USE read_outcome_t message_stamp(store_stream_t *stream, uint64_t from, uint64_t upto, uint32_t *budget,
                                           message_row_t *found);
/* What message_find said of a row, and what the row says of its bytes. */
static inline entry_outcome_t message_judge(read_outcome_t outcome, const message_row_t *found) {
    switch (outcome) {
    case READ_UNKNOWN: return ENTRY_UNKNOWN;
    case READ_NONE: return ENTRY_NONE;
    case READ_FOUND: break;
    }
    return found->sound ? ENTRY_FOUND : ENTRY_DAMAGED;
}
/* For a caller that can use no other. */
static inline bool message_usable(read_outcome_t outcome, const message_row_t *found) {
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return false;
    case READ_FOUND: break;
    }
    return found->sound;
}

void read_filled(store_stream_t *stream); /* a message is where none was */
void read_forget(store_t *store);         /* LMDB's cursor stands nowhere: its snapshot is another one */

/* ---- scan.c ------------------------------------------------------------------------------------------------------ */
void message_row_out(const message_row_t *found, stored_message_t *out);
/* store_next, with what is left of the budget. */
LEAF_MUST_USE seek_outcome_t next_counted(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto,
                                          uint32_t *budget, stored_message_t *out);

/* ---- limits.c ---------------------------------------------------------------------------------------------------- */
#define REMOVAL_NEED 2048 /* of one message, in the batch: a GONE link, a changed head, a touched stream */
#define LIMIT_OWN 64      /* steps of a message for its subject's limit (own, below) */
#define LIMIT_OWN_GROUP 8 /* of one in a group */
#define LIMIT_OWN_REST 8  /* for the stream's limits: each is a removal, as a rule */
/* what one look at every stream removes or fires, of all streams together: */
#define LOOK_STEPS 1024
#define LOOK_STEPS_SCHEDULE 16 /* about two milliseconds; the rest has its turn behind others' messages */
/* Takes one message out: head, counts, op, hook. oldest: none of its subject is older. *steps: less what it takes
 * beyond one, over deleted ones and for a subject that was not cached. STATUS_AGAIN: not in this turn, since very many
 * deleted ones lie between it and the one before it on its subject; each call goes over some of them. Any other but
 * STATUS_OK: what has to be known for it could not be read, and nothing was done. */
LEAF_MUST_USE status_t message_remove(store_stream_t *stream, const message_row_t *found, bool oldest, uint32_t *steps);
/* Enforces what is over; stops for lack of room or of steps (over_limit stays set). Subjects are held to their limit by
 * each message; those that have more than the next one may take out go to limits_note_surplus. */
void limits_enforce(store_stream_t *stream, uint32_t *steps);
/* Subjects with messages from there on may have too many: the ticks see to it, after a kill as well. */
void limits_note_surplus(store_stream_t *stream, uint64_t from);
void limits_load_surplus(store_stream_t *stream); /* at a start: goes on with that */
/* own: steps that this call may make whatever others made in this tick. */
void limits_subject(store_stream_t *stream, bytes_t subject, uint32_t own);
void limits_appended(store_stream_t *stream, uint32_t own); /* limits_enforce, likewise */
/* subject_oldest, and the next look goes on from where this one came to. */
LEAF_MUST_USE seek_outcome_t oldest_sought(store_stream_t *stream, head_entry_t *entry, uint32_t *steps,
                                           message_row_t *found);
/* Would a look for the subject's oldest message end in this turn? If not it comes closer: false, ask again later. */
bool oldest_in_reach(store_stream_t *stream, head_entry_t *entry);
/* head.first becomes its sequence. SEEK_MORE: it is above head.first, farther than that many steps. */
LEAF_MUST_USE seek_outcome_t subject_oldest(store_stream_t *stream, head_t *head, bytes_t subject, uint32_t *steps,
                                            message_row_t *found);

/* ---- expire.c ---------------------------------------------------------------------------------------------------- */
/* Removes expired messages, as long as there are steps. false: something is due, but not now: there is no room, or it
 * is not known. */
bool limits_expire(store_stream_t *stream, int64_t age_now, uint32_t *steps);
int64_t limits_deadline(store_stream_t *stream);       /* on the age clock */
int64_t limits_deadline_known(store_stream_t *stream); /* likewise, and looks for it */
void heads_let_go(store_t *store);                     /* of subjects.c: those that were kept for a group of appends */
/* As limits_expire, in an order that follows from the stream alone: max_age first, then by (expires, seq). false: there
 * is more, or no room. */
bool limits_expire_in_order(store_stream_t *stream, int64_t age_now, uint32_t *steps);

void expire_open(store_stream_t *stream);                 /* looks from the first message on */
void expire_filled(store_stream_t *stream, uint64_t seq); /* there is one more, in front of others */
void expire_look_again(store_stream_t *stream);           /* what LMDB has next is not known any more */
LEAF_MUST_USE status_t expire_reserve(store_stream_t *stream, uint64_t times);
/* Into LMDB's index by time, and into the heap, which has room. */
void expiry_write(store_stream_t *stream, int64_t expires, uint64_t seq);
void expiry_adopt(store_stream_t *stream, expiry_t entry); /* into the heap alone */
void expire_forget(store_stream_t *stream);                /* all messages go: no time of theirs counts */
void expire_free(store_stream_t *stream);
void expire_rotate(store_stream_t *stream); /* a checkpoint begins, .. */
void expire_drop(store_stream_t *stream);   /* .. and is there */

/* ---- markers.c --------------------------------------------------------------------------------------------------- */
/* The message has outlived its time: it goes, or a delete marker takes its place. STATUS_FULL: no room for that now;
 * any other but STATUS_OK: as message_remove. */
LEAF_MUST_USE status_t marker_or_remove(store_stream_t *stream, const message_row_t *found, uint32_t *steps);

/* ---- schedules.c ------------------------------------------------------------------------------------------------- */
#define SCHEDULE_NEED 160 /* an entry, a record */
void schedule_write(store_stream_t *stream, uint64_t seq, int64_t due_ts, int64_t wall_now);
void schedule_forget(store_stream_t *stream, uint64_t seq); /* its message goes */
void schedules_forget(store_stream_t *stream);              /* all messages go */
/* The entry (due on the age clock) has come up. false: no room now, or it is not known whether it is in force. */
LEAF_MUST_USE bool schedule_due(store_stream_t *stream, uint64_t seq, int64_t due);

/* ---- append.c ---------------------------------------------------------------------------------------------------- */
/* A message of the store's own takes the place of the last one of its subject, whatever the limits say. But for
 * STATUS_OK nothing was done. */
LEAF_MUST_USE status_t append_instead(store_stream_t *stream, const message_row_t *found, bytes_t header,
                                      int64_t ttl_ns, uint32_t *steps);

/* ---- walk.c ------------------------------------------------------------------------------------------------------ */
/* Was the subject examined already (as one that is there, or as none)? */
bool walk_passed(const store_walk_t *walk, bytes_t subject);

/* ---- tally.c ----------------------------------------------------------------------------------------------------- */
void tallies_appended(store_stream_t *stream, uint64_t seq, bytes_t subject);
void tallies_removed(store_stream_t *stream, const message_row_t *found);
void tallies_emptied(store_stream_t *stream);

#endif
