/* deliver.h: a consumer's turn, and what it delivers again: when, and why.
 */
#ifndef LEAFD_CONSUME_DELIVER_H
#define LEAFD_CONSUME_DELIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "consume/private.h"

typedef enum turn { TURN_MORE, TURN_IDLE, TURN_LATER, TURN_BLOCKED } turn_t;
turn_t consumer_run(consumer_t *consumer, uint32_t *budget);
void consumer_expire(consumer_t *consumer);                /* ack waits that passed */
void consumer_deliver_again(consumer_t *consumer);         /* all that is pending, at once */
void consumer_exhaust(consumer_t *consumer, uint32_t row); /* used up its deliveries */
bool consumer_has_demand(const consumer_t *consumer);

/* One of its pending messages expires by then. */
static inline void consumer_expires_by(consumer_t *consumer, int64_t due_ns) {
    consumer->expiry_due_ns = earlier(consumer->expiry_due_ns, due_ns);
    consumer->expiry_later_ns = earlier(consumer->expiry_later_ns, due_ns);
}
/* All of them are other ones, or have other times: the next look is at that time, from the first on. */
static inline void consumer_expires_anew(consumer_t *consumer, int64_t due_ns) {
    consumer->expiry_due_ns = due_ns;
    consumer->expiring = false;
}

/* left: FLOW_LEFT_UNKNOWN for a status. */
static inline flow_t consumer_flow(const consumer_t *consumer, uint64_t left) {
    const consumer_setup_t *setup = &consumer->setup;
    return (flow_t){.id = (uint64_t)setup->stream_id << 32 | setup->id, .stream = setup->stream_name, .left = left};
}

#endif
