/* bound.h: how many messages, and how many bytes of them, may wait for one of those consumers whose receivers come and
 * go (CONSUMER_ATTENDED), beside what is in flight: beyond that it passes over the oldest, which leave the stream when
 * nobody else wants them. The newest one stays, whatever its size.
 *
 *     left     how many wait, exactly
 *     weight   bytes of their subjects, headers and payloads; rough (weight_rough): at most so many
 *
 * Where it is not known what waited before (after a start, with other filters), the weight is all that the stream has.
 * Only where that is too much are the messages read which wait, and their bytes added up (weighing). From then on it is
 * exact, like `left`, with what the store says of each message.
 */
#ifndef LEAFD_CONSUME_BOUND_H
#define LEAFD_CONSUME_BOUND_H

#include "consume/private.h"

static inline uint64_t bound_size(const stored_message_t *message) {
    return (uint64_t)message->subject.size + message->header.size + message->payload.size;
}

/* Of a message that is weighed already: it comes, or goes. */
void bound_weighed(const consumer_t *consumer, uint64_t seq, uint64_t size, bool in);
void bound_counted(consumer_t *consumer); /* how many are left is known from here on */
void bound_forget(consumer_t *consumer);  /* not any more */

static inline void bound_nothing(consumer_t *consumer) { /* no message is left */
    if (LEAF_UNLIKELY(consumer->weighing != NULL)) bound_forget(consumer);
    consumer->weight = 0;
    consumer->weight_rough = false;
}

static inline bool bound_exceeded(const consumer_t *consumer) {
    const consume_t *consume = consumer->consume;
    return (consume->waiting_most != 0 && consumer->left > consume->waiting_most)
           || (consume->weight_most != 0 && consumer->weight > consume->weight_most && consumer->left > 1);
}

/* One more waits for it. */
static inline void bound_appended(consumer_t *consumer, uint64_t seq, uint64_t size) {
    consumer->weight += size;
    if (LEAF_UNLIKELY(consumer->weighing != NULL)) bound_weighed(consumer, seq, size, true);
    if (LEAF_UNLIKELY(bound_exceeded(consumer)) && (consumer->setup.config.flags & CONSUMER_ATTENDED) != 0) {
        consumer_arm(consumer, consumer->consume->now.mono_ns);
    }
}

/* One waits no longer, and is not counted as left: it is delivered, passed over, or was removed. */
static inline void bound_went(consumer_t *consumer, uint64_t seq, uint64_t size) {
    consumer->weight -= size < consumer->weight ? size : consumer->weight;
    if (LEAF_UNLIKELY(consumer->weighing != NULL)) bound_weighed(consumer, seq, size, false);
    if (consumer->left == 0) bound_nothing(consumer);
}

void bound_on_time(consumer_t *consumer);
void bound_changed(consume_t *consume); /* looks at all that it concerns */

#endif
