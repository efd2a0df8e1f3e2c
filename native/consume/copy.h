/* copy.h: how far the copy of a stream is that acknowledges by flow control, as it says itself: a mirror or a source.
 *
 * A store that was put back from an old copy of itself knows its streams as they were then, and gives out again the
 * sequences that a copy elsewhere has of the newer one. A copy that looks at nothing but these passes over what is new,
 * and acknowledges it: it left the work queue, and nobody had stored it. So such a copy is asked how far it is before
 * it is given anything, each time that it comes. None has more of this store than it was given: what it has beyond that
 * is of another one. The consumer then goes on behind that, and what it passes stays in the stream.
 *
 *     the consumer is loaded, or its copy was away --> unsure --asked: flow control--> the copy's answer --> delivers
 *                                                        |
 *                                                        `-- no answer within COPY_WAIT_NS ----------------> delivers
 *
 * A leafd's source takes from a store that was put back (Leafd-Copy): it is given everything, and asked once. It says
 * what it took last (Leafd-Last-Taken). Where that is more than the stream had at this start, what has come since is
 * new to it: it is told behind which sequence that is (Leafd-New-Behind), and is given nothing before it says that it
 * stands there, which it does when its disk has that. So their stamps do not matter, and clocks may be wrong:
 *
 *     unsure --asked--> Leafd-Last-Taken: 40 --Leafd-New-Behind: 10--> Leafd-Last-Taken: 10 --> delivers
 *
 * What came before this start it may have, if the old copy was made while it was away: there it goes by stamps, as an
 * older leafd does, which does not say what it took. A mirror cannot take other messages at its sequences: it is no
 * such copy, and says what it has.
 *
 * given_upto is on the disk while the copy is away, so that a store that was put back and started several times since
 * keeps it. While the copy is there the disk says 0, which is "up to the stream's end": deliveries are written late.
 *
 * Not here: streams that several servers keep. A disk of theirs that was put back is copied from the others.
 */
#ifndef LEAFD_CONSUME_COPY_H
#define LEAFD_CONSUME_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "consume/consume.h"

/* So long a copy has for its answer whose acknowledgements remove messages. Of any other one it is as at a start. */
#define COPY_WAIT_NS (60 * NS_PER_SECOND)
#define COPY_STORED_MAX ((UINT64_C(1) << 56) - 1) /* seven bytes of the consumer's state */

typedef struct told {
    bool asked;        /* there is such a copy, and the consumer asks it */
    bool unsure;       /* it has not said yet how far it is */
    bool answering;    /* the answer to the consumer's creation or reset goes first */
    bool notices;      /* it said that it takes from a store that was put back */
    bool tells;        /* what it is asked says behind which sequence all is new to it */
    bool known;        /* given_upto is from the disk */
    uint64_t began_at; /* the stream's end at this start */
    uint64_t given_upto;
    uint64_t passed_from, passed_upto; /* below the floor and not acknowledged; upto 0: none */
    uint64_t acked_before; /* of a work queue: up to here when it was set back, and perhaps not removed yet */
} told_t;

void copy_load(consumer_t *consumer, uint64_t stored);                     /* as copy_stored gave it */
uint64_t copy_stored(const consumer_t *consumer);                          /* at most COPY_STORED_MAX */
void copy_load_passed(consumer_t *consumer, uint64_t from, uint64_t upto); /* while the stream may have any of it */
void copy_begins(consumer_t *consumer, bool loaded);
void copy_there(consumer_t *consumer);    /* its receiver is there now */
void copy_gone(consumer_t *consumer);     /* it is away */
void copy_set_back(consumer_t *consumer); /* before the consumer's positions move */
/* Whether a heartbeat is to ask it, if nothing else has. */
bool copy_is_waited_for(const consumer_t *consumer);
/* Whether the consumer has to wait for what its copy says. If so, the copy is asked. */
bool copy_is_asked(consumer_t *consumer);
/* What is said to it where it is asked: a header's line, or nothing. */
#define COPY_SAID_MAX 64u
void copy_says(const consumer_t *consumer, char to[COPY_SAID_MAX]);
/* An answer to flow control, and what it says of the stream's sequence and the consumer's. */
void copy_answers(consumer_t *consumer, bytes_t header, uint64_t seq, uint64_t consumer_seq);

#endif
