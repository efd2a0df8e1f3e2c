/* keeping.h: what a protocol keeps on disk for its clients, in a stream of its own: records of that stream, and for
 * each client that is to have its messages a consumer, which control never hears of. Where several servers keep the
 * stream all of that is at the one that leads, and each write is an entry of its log (jetstream/replicated.h).
 *
 *     records    kind, key behind the stream's number      in the same batches as the stream's messages
 *     consumer   number, subjects, receiver                its deliveries come to the receiver (js_host_t, receive)
 *     hold       a message that leaves when all of that is on disk, or at a majority
 *
 * Not here: what the records say, who the clients are (verbs/).
 */
#ifndef LEAFD_PLANE_KEEPING_H
#define LEAFD_PLANE_KEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "jetstream/stream.h"
#include "plane/plane.h"
#include "store/record.h"

#define KEEPING_KEY_MAX 32u /* of a record, without the stream's number */

LEAF_MUST_USE status_t keeping_put(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t key, bytes_t value);
/* all: those whose keys begin so. */
LEAF_MUST_USE status_t keeping_drop(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t key, bool all);
/* In key order, behind `after` (empty: all). The keys that it gets are without the stream's number. */
LEAF_MUST_USE list_outcome_t keeping_each(plane_t *plane, const stream_t *stream, uint32_t kind, bytes_t after,
                                          const record_visit_t *visit);
/* Damage took what the client with that number had in the stream, in both places: says so. */
void keeping_tell_lost(const plane_t *plane, const stream_t *stream, uint32_t number, const char *what);
/* The same of a shared stream, in one entry with the message that is published to it next, or not at all; keeping_sent
 * when that was. Where one server keeps the stream alone what is written in a tick is in one batch. */
LEAF_MUST_USE status_t keeping_ride(const stream_t *stream, uint32_t kind, bytes_t key, bytes_t value);
void keeping_sent(const stream_t *stream);
/* To that subject of the stream's account, when what was written until now is on disk, or at a majority. */
LEAF_MUST_USE status_t keeping_hold(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t payload);
/* Likewise when what is in this server's open batch is on its disk. */
LEAF_MUST_USE status_t keeping_hold_here(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t payload);
int64_t keeping_age_ns(plane_t *plane, const stream_t *stream); /* now on the store's own clock, or the log's */
bool keeping_shared(const stream_t *stream);                    /* several servers keep it */
/* The consumers of a stream that is led here are there (js_host_t, led). */
void keeping_made(plane_t *plane, const stream_t *stream);
uint64_t keeping_last(const stream_t *stream); /* the sequence of its last message */
/* Which of its messages may have been delivered with no note on the disk that they were: those up to that sequence.
 * Asked where consumers are loaded. 0: none, since the server stopped in order. */
uint64_t keeping_doubtful(const plane_t *plane, const stream_t *stream);
uint64_t keeping_bytes(const stream_t *stream); /* of all its messages */
/* Visits the receiver of each consumer that wants that subject, NULL if it is none of these; false from visit ends
 * it. */
void keeping_wanted(plane_t *plane, const stream_t *stream, bytes_t subject,
                    bool (*visit)(void *context, void *receiver), void *context);

typedef struct keeping_consumer {
    uint32_t number;
    bytes_t *subjects; /* put into another order */
    uint32_t subject_count;
    uint32_t max_ack_pending;
    void *receiver;
} keeping_consumer_t;

/* *binding: NULL at first; a new one begins behind the last message, or, loading, where it was. Of one that is there
 * the subjects are changed. */
LEAF_MUST_USE status_t keeping_consume(plane_t *plane, stream_t *stream, const keeping_consumer_t *wanted, bool loading,
                                       consumer_binding_t **binding);
void keeping_bound(plane_t *plane); /* what may wait for one of these is said anew; it gives up the oldest */
/* What is on the disk of a consumer with that number, which is not there. */
LEAF_MUST_USE status_t keeping_forget_consumer(plane_t *plane, const stream_t *stream, uint32_t number);
void keeping_end(plane_t *plane, consumer_binding_t **binding); /* with what it knows; fine if there is none */
/* The receiver is there, and gets again what it has not acknowledged; ack_wait_ns 0: then, and not before. */
void keeping_attend(plane_t *plane, const consumer_binding_t *binding, uint32_t max_ack_pending, int64_t ack_wait_ns);
void keeping_leave(plane_t *plane, const consumer_binding_t *binding);
/* Delivers one that is under way. */
void keeping_again(plane_t *plane, const consumer_binding_t *binding, uint64_t seq);
void keeping_go_on(plane_t *plane, const consumer_binding_t *binding); /* its receiver has room again */
void keeping_acknowledge(plane_t *plane, const consumer_binding_t *binding, uint64_t seq);

#endif
