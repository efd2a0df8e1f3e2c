/* pull.h: the pull requests that wait at a consumer.
 */
#ifndef LEAFD_CONSUME_PULL_H
#define LEAFD_CONSUME_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "consume/consume.h"

#define DEFAULT_MAX_WAITING 512
#define LOOK_ALWAYS 16 /* requests that are checked for lost interest at each occasion */
#define LOOK_MOST 1024 /* and so many after a pause, which covers most queues whole */
#define LOOK_REST_NS (5 * NS_PER_MS)
#define WANTED_MAX (INT64_C(1) << 40)

typedef struct request request_t;
struct request {
    request_t *next, *before;             /* in the ring */
    request_t *next_awake, *before_awake; /* unless full */
    int64_t expires_ns;                   /* mono, NEVER */
    int64_t heartbeat_ns;
    int64_t heartbeat_due_ns; /* mono, NEVER */
    int64_t left;             /* messages still wanted */
    int64_t bytes_left;       /* 0 = no limit was asked for */
    uint64_t delivered;
    bool no_wait;
    bool full; /* its receiver said DELIVERED_FULL in this turn */
    uint32_t reply_size;
    uint8_t reply[];
};

/* The waiting requests, in a ring; the next to be served is the head. Those whose receivers are not full are in a
 * second ring, so that one of them among many full ones is found at once. */
typedef struct requests {
    request_t *head;
    request_t *awake; /* the first of these at the head or behind it */
    uint32_t count;
    uint32_t no_wait;      /* how many of them are no_wait */
    int64_t wanted;        /* messages, all requests together */
    request_t *looked;     /* the check of their interest goes on here, NULL = at the head */
    uint64_t steps;        /* requests considered by pull_next, so that a test may count them */
    int64_t look_after_ns; /* at many of them not before */
    int64_t timed_ns;      /* last look at the times of all of them */
    int64_t due_ns;        /* no request expires or needs a heartbeat before */
} requests_t;

void pull_on_time(consumer_t *consumer);
void pull_end_of_stream(consumer_t *consumer);
void pull_free(consumer_t *consumer); /* without a status */
void pull_drop_all(consumer_t *consumer, bytes_t status, bool with_pending);
void pull_drop_without_interest(consumer_t *consumer); /* a part of a long queue at a time */
bool pull_awaited(consumer_t *consumer);               /* somebody listens to a request */
/* The request to serve with a message of that size; finishes those that it does not fit. NULL: none. */
request_t *pull_next(consumer_t *consumer, uint64_t size);
void pull_served(consumer_t *consumer, uint64_t size); /* the head request got it */
void pull_lost(consumer_t *consumer);                  /* nobody listens to the head request */
void pull_full(consumer_t *consumer);                  /* the head's receiver is full */

#endif
