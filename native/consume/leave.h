/* leave.h: what becomes of a consumer when messages leave its stream, one by one or all at once, and when a purge is
 * over: store_hooks_t, for each consumer. Called from inside the store: nothing here may write to it. Which messages
 * leave is the store's concern, and retention's (retention.c).
 */
#ifndef LEAFD_CONSUME_LEAVE_H
#define LEAFD_CONSUME_LEAVE_H

#include "consume/private.h"

void consumer_removed(consumer_t *consumer, uint64_t seq, bytes_t subject, uint64_t size);
void consumer_purged(consumer_t *consumer, bytes_t filter, uint64_t left);
uint64_t consumer_holds(const consumer_t *consumer);
void consumer_emptied(consumer_t *consumer);

#endif
