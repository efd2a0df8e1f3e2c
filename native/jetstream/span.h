/* span.h: how many messages another server may have on its way to a copy here, which that acknowledges.
 *
 *     origin    | taken, acknowledged | on the way: at most `size` |  waits there
 *               `---------------------^ acked                      ^ acked + size
 *
 * A leafd sends no more over its link than that carries. A nats-server gives its own link two megabytes of a consumer
 * at once, and with compression a megabyte of them is one block, of which nothing can be read before all of it has
 * arrived: minutes of a slow link, and never where the link is there for a minute at a time. So of such a server a
 * consumer is asked for that has to wait (max_ack_pending) for what is acknowledged here when it is on disk.
 *
 * The bound counts messages, whose size and whose link nobody knows beforehand. It is found by time: from the moment
 * when room was made for a message until that is here passes a round trip, and what the link takes for all that is
 * before it. Less than three round trips: the bound is what limits, and a larger one is wanted. Many: all of it waits
 * in the origin's queue. The consumer has to be made anew for it, which is done when nothing is on its way.
 *
 * In an outage nothing comes. It never makes the bound larger, by the clock, and never smaller, by the time in which
 * the link brought something. Pure: who acknowledges and who is told is ingest.c's.
 */
#ifndef LEAFD_JETSTREAM_SPAN_H
#define LEAFD_JETSTREAM_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SPAN_MIN 4u
#define SPAN_MAX (64u * 1024u)
#define SPAN_PART 4u /* a part of so many of the bound is acknowledged at once */
#define SPAN_SHORT_TRIPS 3
#define SPAN_LONG_TRIPS 10 /* .. and SPAN_LONG_NS: it is too large */
#define SPAN_LONG_NS (15 * NS_PER_SECOND)
#define SPAN_STEP 2u                      /* so much larger it becomes; .. */
#define SPAN_LEAP 4u                      /* .. if the link took no time at all. And so much smaller, at most */
#define SPAN_LOST_NS (30 * NS_PER_SECOND) /* an acknowledgement has made no room for so long: it did not arrive */

/* Now, by the clock, and for how long the link has brought something, ever. */
typedef struct span_time {
    int64_t mono_ns;
    int64_t heard_ns;
} span_time_t;

typedef enum span_step {
    SPAN_WAIT = 0,
    SPAN_ACK,    /* what was taken is to be acknowledged */
    SPAN_CHANGE, /* nothing is on its way: the consumer may be made anew, with `wanted` */
} span_step_t;

typedef struct span {
    uint32_t size;    /* 0: there is no such bound */
    uint32_t wanted;  /* what it should be */
    uint64_t acked;   /* the consumer's sequence that was acknowledged last, .. */
    int64_t acked_ns; /* .. and when, in time that the link brought something */
    uint64_t awaited; /* the message whose time is taken, 0: none, .. */
    span_time_t room; /* .. from when there was room for it */
    int64_t took_ns;  /* when anything came last */
    bool level;       /* nothing waited at the origin behind what came last: the next one's time tells nothing */
} span_t;

/* So many wait at the origin. */
void span_begin(span_t *span, uint32_t size, uint64_t pending, span_time_t now);
/* The consumer's message of that sequence was taken, and so many wait at the origin behind it. trip_ns: the link's
 * round trip, 0: not known. */
span_step_t span_took(span_t *span, uint64_t seq, uint64_t pending, int64_t trip_ns, span_time_t now);
/* Notes that the messages up to seq are acknowledged now. */
void span_acked(span_t *span, uint64_t seq, span_time_t now);
/* Something waits at the origin, and is let on its way as soon as it hears of what was acknowledged. */
static inline bool span_waits(const span_t *span) {
    return span->size != 0 && !span->level;
}
/* Nothing came for long after that: an acknowledgement was lost, or none arrives. */
bool span_stuck(const span_t *span, int64_t heard_ns);
/* The span for the next consumer. Where nothing at all came of this one, not all that was let on its way gets through
 * in one piece. */
uint32_t span_next(const span_t *span, uint64_t seq, int64_t heard_ns);

#endif
