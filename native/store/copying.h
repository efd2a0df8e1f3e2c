/* copying.h: a stream of one store made like that of another one, as it was when a log had been applied up to an index
 * (ledger.h): for a member of a group whose log lacks what no other one has any more. Parts of bytes go from the sender
 * to the receiver; how they travel, and which index, is the caller's.
 *
 *     sender      store_give_begin: a snapshot of LMDB between two checkpoints --> store_give, part after part
 *     receiver    store_take, part after part --> whole --> store_take_end, with the note that it is applied, in one
 *                 batch
 *
 *     definition 'D'  size 4; then the stream's definition, as control reads it. It comes first
 *     run        'R'  from 8  upto 8              the sender has messages at each of these sequences, and the receiver
 *                                                 too
 *     message    'M'  seq 8  ts 8  born 8  flags 1  sizes: id 2, subject 2, header 4, payload 4; then these
 *     id         'I'  seq 8  born 8  size 2  id   of a message that is gone, and may still be a duplicate's first
 *     record     'C'  kind 1  sizes: key 2, value 4; then these    of a consumer, schedule, session or source; its key
 *                                                                  behind the stream
 *     expiry     'X'  expires 8  seq 8
 *     end        'E'  size 2  numbers (log.h, without their checksum)  size 2  what the ledger's owner noted
 *
 * - Messages do not change, so a receiver keeps those that it has, up to the last one: the sender names by runs which
 *   of them it has, and what is in no run goes. A copy that was cut off is begun anew, and brings what is still
 *   missing.
 * - Between the first part and the end the receiver's stream is as it was at no index. Its owner has to note that
 *   before.
 * - What the sender cannot read, a damaged message among it, ends the copy (STATUS_IO, STATUS_CORRUPT): it is never
 *   taken for "not there". The receiver holds what it has against the sender's numbers at the end.
 *
 * - Records of consumers, schedules, sessions and sources are all sent: the receiver's own go before. A sealed store
 *   gives the positions of sources as they are by then: the entries behind the copy say the same.
 *
 * Not here: streams in memory.
 */
#ifndef LEAFD_STORE_COPYING_H
#define LEAFD_STORE_COPYING_H

#include "base/buffer.h"
#include "store/store.h"

/* Kinds of records: those of a stream's consumers, schedules and sessions, then the positions of its sources. */
#define COPIED_KINDS 10
extern const uint8_t copied_kinds[COPIED_KINDS];

typedef struct giving giving_t;

/* group: the ledger's number. have_seq: the last sequence that the receiver has. *index: what the copy is the state
 * after. STATUS_AGAIN: a checkpoint is under way. */
LEAF_MUST_USE status_t store_give_begin(store_stream_t *stream, uint32_t group, uint64_t have_seq, giving_t **out,
                                        uint64_t *index);
/* Some more records, of about `most` bytes in all, or one that is larger. *all: the end is among them. */
LEAF_MUST_USE status_t store_give(giving_t *giving, uint32_t most, buffer_t *to, bool *all);
void store_give_end(giving_t *giving);

/* What a receiver knows between two parts. Begun with zeros but for have_seq. */
typedef struct taking {
    uint64_t have_seq;  /* as it was asked with */
    uint64_t clean_seq; /* up to there nothing is there that the sender has not */
    bool cleaned;       /* up to have_seq */
    bool defines;       /* store_take stands before the definition, which its caller takes .. */
    bool defined;       /* .. and says so */
    bytes_t definition; /* a slice of that part */
    bool whole;         /* the end was read .. */
    bytes_t numbers;    /* .. which are slices of that part */
    bytes_t note;
} taking_t;

/* Takes records from the front of *part. STATUS_AGAIN: the rest in a later turn, or, where it `defines`, when the
 * stream is as taking->definition says, and `defined` is true. STATUS_CORRUPT: these are no records. */
LEAF_MUST_USE status_t store_take(store_stream_t *stream, taking_t *taking, bytes_t *part);
/* The numbers go into the open batch. STATUS_CORRUPT: what came is not what they count, and nothing was done.
 * STATUS_FULL: later. */
LEAF_MUST_USE status_t store_take_end(store_stream_t *stream, const taking_t *taking);

#endif
