/* timeline.h: streams that go by a time of their own: that of the log whose entries are applied to them (native/group).
 * Age and wall clock of such a stream stand still between two entries, so that all members come to the same, whenever
 * each of them applies an entry: what is a duplicate, what is too old, what a message's stamp is. A tick of the store
 * expires nothing of it.
 *
 *     store_stream_time     an entry's time; then store_append_timed, store_delete, store_purge
 *     store_stream_pass     what is due by then goes, in an order that follows from the stream alone
 *     store_stream_settle   what is over a limit goes, before the next entry
 *
 * Not here: schedules, which ask somebody what to do; and what of this is on the disk, which is the log's.
 */
#ifndef LEAFD_STORE_TIMELINE_H
#define LEAFD_STORE_TIMELINE_H

#include "store/append.h"

/* Whose time a stream goes by. */
typedef struct timeline { /* only timeline.c writes to it */
    bool own;             /* false: the store's */
    int64_t age;
    int64_t wall;
} timeline_t;

/* From now on the stream goes by this time; right behind store_stream_open. The age never goes backwards: what is
 * earlier changes nothing. The wall clock is the one that the entry's other times were read with, and may. */
void store_stream_time(store_stream_t *stream, int64_t age, int64_t wall);
int64_t store_stream_age(const store_stream_t *stream);
int64_t store_stream_wall(const store_stream_t *stream);
/* Takes out what is due by the stream's time. STATUS_AGAIN: not all of it yet, in a later turn the rest. */
LEAF_MUST_USE status_t store_stream_pass(store_stream_t *stream);
/* Takes out what is over a limit. STATUS_AGAIN likewise. */
LEAF_MUST_USE status_t store_stream_settle(store_stream_t *stream);
/* The age at which something is due next; INT64_MAX: nothing is. What is not known yet is due now. */
int64_t store_stream_due(store_stream_t *stream);

/* Is there no room for such a message in any store, ever, behind so many others that are stored with it? The numbers of
 * a stream end, as a purge may make them do. */
bool store_stream_never_fits(const store_stream_t *stream, const append_t *append, uint64_t before);

#endif
