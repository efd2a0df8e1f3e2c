/* push.h: what a push consumer keeps of its receivers: their interest, its heartbeats, flow control and rate.
 */
#ifndef LEAFD_CONSUME_PUSH_H
#define LEAFD_CONSUME_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "consume/consume.h"
#include "consume/copy.h"

#define FLOW_WINDOW_MIN (2 << 20)
#define FLOW_WINDOW_MAX (32 << 20)
#define RATE_BURST_DEFAULT (1 << 20)
#define FLOW_ID_SIZE 4
/* A mirror or source is asked how far it is after so many bytes, but not more often; */
#define TOLD_BYTES (16 << 10)
#define TOLD_NS NS_PER_SECOND
/* .. once no more comes, after so few; and whatever is left after so long. An answer costs what a message does. */
#define TOLD_LEAST_BYTES (4 << 10)
#define TOLD_LATE_NS (60 * NS_PER_SECOND)
/* A copy whose messages wait for its link has heartbeats so far apart at least: what is on its way shows that the
 * consumer is there. On a link of 10 kbit/s one each second is a seventh of all. A nats-server gives up after 10 s. */
#define QUEUED_NS (3 * NS_PER_SECOND)

typedef struct push {
    bool active;   /* there is interest in the deliver subject */
    bool attended; /* of CONSUMER_ATTENDED: its receiver is there, which stands for that interest */
    bool copied;   /* a mirror or source uses it, which sets it back whenever it begins .. */
    bool set_back; /* .. and has done so since there is interest, or for the interest to come */
    told_t told;   /* how far the copy is that acknowledges here (copy.h) */
    int64_t heartbeat_due_ns;
    bool put_off;        /* the heartbeat that is due, to QUEUED_NS */
    int64_t spared_ns;   /* between heartbeats, as its copy at the other end of a link wants them; 0: as configured */
    int64_t window;      /* of flow control, bytes */
    int64_t outstanding; /* bytes since the last answered request */
    int64_t covered;     /* outstanding bytes that the open request covers */
    uint8_t flow_id[FLOW_ID_SIZE];
    bool flow_open; /* a request is not answered yet */
    int64_t flow_asked_ns;
    uint64_t taken;          /* of a mirror or source: up to here it has stored all, as it said; */
    uint64_t taken_delivery; /* the consumer sequence of that */
    int64_t tokens;          /* rate limit, bytes */
    int64_t tokens_at_ns;
} push_t;

void push_flow_request(consumer_t *consumer);
void push_start(consumer_t *consumer);
bool push_wanted(const consumer_t *consumer); /* does anybody subscribe to its deliver subject? */
void push_review(consumer_t *consumer);       /* is there interest? */
void push_on_time(consumer_t *consumer);
void push_sent(consumer_t *consumer, uint64_t size);
/* Counts a message as delivered: the heartbeat is due later. */
void push_counted(consumer_t *consumer);
bool push_window_open(const consumer_t *consumer);
/* 0: send it now; otherwise how many ns to wait. */
int64_t push_rate_wait(consumer_t *consumer, uint64_t size);
/* Heartbeats so seldom until its receivers have gone: instead they are told when it is removed. */
void push_spare(consumer_t *consumer, int64_t interval_ns);
void push_removed(consumer_t *consumer);
void push_set_back(consumer_t *consumer);
void consumer_hold(consumer_t *consumer); /* until consumer_begin, or for some seconds */
/* Nats-Last-Consumer, Nats-Last-Stream; also Nats-Consumer-Stalled while a flow control request is open. */
void idle_heartbeat(consumer_t *consumer, bytes_t to);

#endif
