/* bound.h: how many messages may wait for one of those consumers whose receivers come and go (CONSUMER_ATTENDED),
 * beside what is in flight: beyond that it passes over the oldest, which leave the stream when nobody else wants them.
 */
#ifndef LEAFD_CONSUME_BOUND_H
#define LEAFD_CONSUME_BOUND_H

#include "consume/private.h"

/* One more waits for it. */
static inline void bound_appended(consumer_t *consumer) {
    uint32_t most = consumer->consume->waiting_most;
    if (LEAF_UNLIKELY(most != 0) && consumer->left > most && (consumer->setup.config.flags & CONSUMER_ATTENDED) != 0) {
        consumer_arm(consumer, consumer->consume->now.mono_ns);
    }
}
void bound_on_time(consumer_t *consumer);
void bound_changed(consume_t *consume); /* looks at all that it concerns */

#endif
