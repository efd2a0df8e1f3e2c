/* retention.h: which messages a stream lets go because all of its consumers are done with them, as its retention has it
 * (store/retention.h). Inside the room alone: consumers tell it what was acknowledged.
 */
#ifndef LEAFD_CONSUME_RETENTION_H
#define LEAFD_CONSUME_RETENTION_H

#include "consume/private.h"

bool retention_by_interest(const group_t *group);
/* Can one more message be acknowledged, also if its removal has to wait? Before each of those below. */
bool retention_ready(const consumer_t *consumer);
/* Tells that the consumer is done with the message: remove it if no other consumer needs it. Writes to the store. */
void retention_acked_range(consumer_t *consumer, uint64_t from, uint64_t upto);
void retention_release(consumer_t *consumer, uint64_t seq);
/* Likewise of one in an acknowledged range, which its sweep would keep: the filters do not match it any more. */
void retention_cleared(consumer_t *consumer, uint64_t seq);
void retention_sweep(group_t *group, uint64_t from, uint64_t upto, int64_t after_ns);
/* Likewise of all from that one on, if the stream is of interest. */
void retention_judge(group_t *group, uint64_t from);
void retention_tick(consume_t *consume, bool *again);
int64_t retention_deadline(const consume_t *consume);
/* Takes up what an earlier run left. On STATUS_NO_MEMORY the group is of no use. */
LEAF_MUST_USE status_t retention_load(group_t *group);
void retention_flush(group_t *group);
/* After a crash the removals that are left would still be known, so acknowledgements may become durable. */
bool retention_recorded(const group_t *group);
void retention_forget(group_t *group);

#endif
