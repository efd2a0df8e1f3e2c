/* pull.h: the pull requests that wait at a consumer.
 */
#ifndef LEAFD_CONSUME_PULL_H
#define LEAFD_CONSUME_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "consume/line.h"
#include "consume/priority.h"

#define DEFAULT_MAX_WAITING 512
#define LOOK_ALWAYS 16 /* requests that are checked for lost interest at each occasion */
#define LOOK_MOST 1024 /* and so many after a pause, which covers most queues whole */
#define LOOK_REST_NS (5 * NS_PER_MS)
#define WANTED_MAX (INT64_C(1) << 40)

/* The waiting requests, served in the order of the line. */
typedef struct requests {
    pull_line_t line;
    uint32_t count;
    uint32_t no_wait;      /* how many of them are no_wait */
    uint32_t full;         /* how many sleep because their receivers said DELIVERED_FULL in this turn */
    int64_t wakes_at;      /* so many unacknowledged messages wake the first that sleeps for want of them; 0 = none */
    int64_t wanted;        /* messages, all requests together */
    request_t *looked;     /* the check of their interest goes on here, NULL = at the first */
    request_t *judged;     /* the look at their times goes on here, while judge_left > 0 */
    uint32_t judge_left;   /* and so many are still to be looked at */
    int64_t later_ns;      /* due_ns, once that look is over */
    uint64_t steps;        /* requests considered by pull_next, so that a test may count them */
    int64_t look_after_ns; /* at many of them not before */
    int64_t timed_ns;      /* last look at the times of all of them */
    int64_t due_ns;        /* no request expires or needs a heartbeat before */
} requests_t;

/* What clients ask of a consumer that is pulled. */
typedef struct pull {
    requests_t requests;
    pin_t pin;
} pull_t;

/* Room for its requests, if it has none yet. */
LEAF_MUST_USE status_t pull_begin(consumer_t *consumer);
void pull_end(consumer_t *consumer); /* gives it back, when no request is left */
void pull_on_time(consumer_t *consumer);
void pull_end_of_stream(consumer_t *consumer);
/* The consumer has none from then on; of very many the rest is told and freed in later turns. */
void pull_drop_all(consumer_t *consumer, bytes_t status, bool with_pending);
void pull_free(consumer_t *consumer);                  /* likewise, without a status */
void pull_drop_without_interest(consumer_t *consumer); /* a part of a long queue at a time */
bool pull_awaited(consumer_t *consumer);               /* somebody listens to a request */
/* The request to serve with that message; finishes those that it does not fit. NULL: none. */
request_t *pull_next(consumer_t *consumer, const offer_t *offer);
void pull_served(consumer_t *consumer, request_t *request, uint64_t size); /* it got the message */
void pull_lost(consumer_t *consumer, request_t *request);                  /* nobody listens to it */
void pull_full(consumer_t *consumer, request_t *request);                  /* its receiver is full */
void pull_awaken(consumer_t *consumer);                                    /* all may be served again */

/* One of them has another place in the line than it had: a look at all of them takes one step more. */
static inline void pull_joined(requests_t *requests) {
    requests->judge_left += requests->judge_left > 0;
}

#endif
