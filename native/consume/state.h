/* state.h: the bytes of a consumer in the store. All numbers are big-endian; the store adds its checksum.
 *
 * RECORD_CONSUMER_STATE, key = stream id (4), consumer id (4):
 *
 *      0  version (1)  given (7), see copy.h
 *      8  delivered consumer sequence        16  delivered stream sequence
 *     24  floor consumer sequence            32  floor stream sequence
 *     40  wall ns of the last delivery       48  wall ns of the last ack
 *     56  settled                            64  resume of "last per subject", 0 = none
 *     72
 *
 * Of version 2, which only a consumer has whose copy has passed over messages (copy.h), it goes on:
 *
 *     72  passed from                        80  passed up to
 *     88
 *
 * RECORD_CONSUMER_PENDING, key = stream id (4), consumer id (4), stream sequence (8):
 *
 *      0  consumer sequence                   8  wall ns when it is due again
 *     16  length of that wait, ns            24  deliveries (4)   28  flags (4): 1 = exhausted
 *     32
 *
 * `settled` keeps the number of records small: of all messages up to it, exactly those with a pending record are
 * unacknowledged (or exhausted); those above it count as never delivered. An ack must be durable, a delivery need not
 * be (after a crash it is repeated). So a flush raises settled only to the highest acknowledged sequence, and a message
 * that is delivered and acknowledged in order never gets a record at all. What is in flight for longer is settled after
 * SETTLE_NS and at a stop; of very many rows the first are settled earlier. Some are written with each flush, so that
 * none has all of them to write but those below an acknowledged one.
 *
 * Of a consumer that acknowledges all before a message, records at or below the floor that are not exhausted are of
 * messages that are acknowledged: they are removed in steps, and loading removes what a crash left.
 *
 * The wall clock may step between two runs: the wait that is left is cut to [0, length of the wait].
 *
 * A sweep that was not finished (retention.c) is a RECORD_CONSUMER_STATE with consumer id SWEEP_ID: from (8), upto (8),
 * then the sequences of those in it that go although no filter matches them, ascending (8 each).
 */
#ifndef LEAFD_CONSUME_STATE_H
#define LEAFD_CONSUME_STATE_H

#include "consume/private.h"

#define STATE_VERSION 1
#define STATE_SIZE 72
#define STATE_VERSION_PASSED 2
#define STATE_SIZE_PASSED 88
#define STATE_PENDING_SIZE 32
#define STATE_PENDING_EXHAUSTED 1
#define SWEEP_ID UINT32_MAX
#define SWEEP_SIZE 16
#define OWED_MAX 4096u

bool state_lasts(const store_stream_t *stream); /* a start finds what is written of its consumers */
bool state_kept(const consumer_t *consumer);
bool consumer_sound(const consumer_t *consumer); /* do its positions fit together, as at the end of every turn? */
void state_dirty(consumer_t *consumer);          /* acks: into the open batch */
void state_settle(consumer_t *consumer);         /* what was delivered until now, with the next flushes */
void state_lazy(consumer_t *consumer);           /* deliveries: within SETTLE_NS */
void state_row_changed(consumer_t *consumer, uint32_t row); /* a stored row: delivered again, put off */
/* The message has left the store, which is calling us now: its record goes with the next flush. false: no memory to
 * remember it. */
bool state_orphan(consumer_t *consumer, uint64_t seq);
void state_row_gone(consumer_t *consumer, uint32_t row); /* before pending_remove */
bool state_flush(consumer_t *consumer);
bool state_flush_orphans(consume_t *consume);
void state_drop_orphans(consume_t *consume, uint32_t stream_id); /* the next load removes them */
LEAF_MUST_USE status_t state_load(consumer_t *consumer, bool *found);
void state_delete(consumer_t *consumer, bool definition_too);

LEAF_MUST_USE entry_outcome_t sweep_read(group_t *group, uint64_t *from, uint64_t *upto, bytes_t *owed);
void sweep_write(group_t *group);
void sweep_delete(group_t *group);

#endif
