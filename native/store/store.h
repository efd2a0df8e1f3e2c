/* store.h: what the plane and the consumers may ask of the store. Streams, their messages, small durable records, one
 * open batch.
 *
 * Theory. The plane thread calls everything here; the store owns two threads of its own (journal, keeper), reached by
 * rings. Each change goes into the OPEN BATCH as key/value effects and is visible to reads of this thread at once (the
 * overlay), but "durable" and visible to consumers only when its batch has come back from the journal:
 *
 *      append, delete, record_put ...          open batch N
 *      store_tick                              journal idle? batch N --> journal thread (one write, one fdatasync)
 *      store_tick (later)                      N durable: store_durable() == N, store_advanced_next() names streams
 *      keeper thread                           applies durable batches to LMDB; its commit is a checkpoint, which takes
 *                                              them out of the overlay
 *
 * What waits for durability (acks, API replies) is kept by plane/ under the number that store_batch() gave then.
 *
 * Changes that find no room in the ring of batches say STATUS_FULL (appends: APPEND_NO_SPACE) and have done nothing.
 * Publishers are refused while an eighth of the ring is left: deletions and records meet that when the disk fails long.
 *
 * Two stores may live in a process (file and memory streams): the memory one has no journal; its batches are durable at
 * once. Times come in as moment_t; the store asks no clock. A stamp never runs backwards within a stream.
 */
#ifndef LEAFD_STORE_STORE_H
#define LEAFD_STORE_STORE_H

#include <stdbool.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/outcome.h"
#include "base/status.h"
#include "store/allowance.h"
#include "text/filters.h"

typedef struct store store_t;
typedef struct store_stream store_stream_t;
typedef enum store_due { STORE_DUE_LATER = 0, STORE_DUE_DONE, STORE_DUE_ASKED } store_due_t;

struct sealer; /* disk/sealer.h */

typedef struct store_options {
    const char *directory;    /* made when missing (0700); holds the journal, the LMDB environment and a lock file */
    uint64_t max_bytes;       /* of messages; the map is this plus index overhead plus a reserve for deletions */
    uint64_t journal_size;    /* 0 = as sizes.h chooses; ignored for a memory store */
    uint64_t ring_max;        /* memory of the batches' ring; a new journal is no larger. 0 = no bound */
    uint64_t message_max;     /* store_room says that there is room for one so large */
    uint64_t heads_max;       /* memory of the cache of subject heads, 0 = no bound */
    uint64_t changed_max;     /* memory of LMDB's pages that a checkpoint changes, 0 = no bound */
    int64_t checkpoint_ns;    /* a change waits no longer for its checkpoint, 0 = as is usual */
    uint64_t pack_from;       /* a compressed stream's first dictionary comes so many bytes later, 0 = as many as pay */
    int64_t sync_interval_ns; /* 0 = durable before acknowledged */
    bool lossy;               /* data.mdb has lost messages: replay counts anew what the journal says of streams */
    bool ledgers;             /* groups of servers keep their logs here: ledger.h. Not in a memory store */
    bool memory;              /* environment on tmpfs, no journal, no sync, emptied at open */
    const plane_keys_t *keys; /* NULL = not encrypted; only store_open looks. A memory store is not */
    histogram_t *took;        /* HISTOGRAMS of how long the disk took, which the threads add to; NULL = none */
    const struct sealer *sealer; /* for tests, in place of keys; the caller's, until store_close */
} store_options_t;

/* Called by the store, on the plane thread, inside append/delete/purge/expire: consumers keep exact counts with it. */
typedef struct store_hooks {
    void *context;
    /* It came, perhaps not durable yet; or left: deleted, purged, expired, evicted. size: subject, header, payload. */
    void (*appended)(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size);
    void (*removed)(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size);
    /* A schedule is due (due_ts: when it was meant to be). What it does to the stream is in one batch with the end of
     * this time. DONE, perhaps with a new one (store_schedule); LATER: in a second; ASKED: very soon, somebody was. */
    store_due_t (*due)(void *context, store_stream_t *stream, uint64_t seq, int64_t due_ts);
    void *due_context;
    /* A purge or rollup of what matches `filter` (empty: all) is over: `left` is the first that stays, or would be. */
    void (*purged)(void *context, store_stream_t *stream, bytes_t filter, uint64_t left);
    uint64_t (*holds)(void *context, store_stream_t *stream); /* so many messages it has to be told of one by one */
    void (*emptied)(void *context, store_stream_t *stream);   /* all left at once, without `removed` */
} store_hooks_t;
void store_set_hooks(store_t *store, store_hooks_t hooks);

/* ---- tick -------------------------------------------------------------------------------------------------------- */

/* Hands the open batch over when the journal is idle, takes completions and checkpoints, expires what is due (a bounded
 * amount), renews the read snapshot. Slices and views given out before become invalid. */
void store_tick(store_t *store, moment_t now);
int store_wake_fd(const store_t *store);           /* readable when a completion waits (-1: memory store) */
int64_t store_next_deadline(const store_t *store); /* mono ns of the next expiry or checkpoint, INT64_MAX = none */
bool store_gathers(const store_t *store);          /* the open batch waits for more, until that deadline at most */
uint64_t store_batch(const store_t *store);        /* number of the open batch */
bool store_batch_empty(const store_t *store);
uint64_t store_durable(const store_t *store); /* every batch up to this number is on disk */
uint64_t store_unknown(const store_t *store); /* questions without an answer: where it has grown, ask later */
void store_note_waiting(store_t *store);      /* a consumer gets no further before what it could not read just now */
bool store_room(const store_t *store);        /* false: the journal lags; stop reading from publishers */
/* Streams whose visible end moved since the last call to this; NULL when no more. */
store_stream_t *store_advanced_next(store_t *store);

typedef struct store_alarm {
    uint32_t code; /* ALARM_* of abi.h */
    uint32_t stream;
    uint64_t seq;
    uint64_t upto; /* of ALARM_HOLE .. */
    bool certain;  /* .. likewise: fill.h */
    char text[256];
} store_alarm_t;
/* false: none left. Bounded; when it overflows the newest are counted in stats, not kept. */
bool store_alarm_next(store_t *store, store_alarm_t *alarm);
bool store_was_closed(const store_t *store); /* before this start, in order: it has all that was known by then */
void store_stats(const store_t *store, plane_stats_t *stats); /* fills in the store's members, adds to what is there */

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* New or stored: an id with stored state gets that state back; otherwise empty at config->first_seq. */
LEAF_MUST_USE status_t store_stream_open(store_t *store, uint32_t id, const stream_config_t *config, moment_t now,
                                         store_stream_t **out);
/* May a new stream have this number? STATUS_EXISTS: there is something of one that had it, whose definition was lost,
 * perhaps; nobody else may be given its messages. Others: it cannot be read, and nothing may be made. */
LEAF_MUST_USE status_t store_stream_unused(store_t *store, uint32_t id);
/* New limits; what is over them goes at once, in bounded steps of store_tick when it is much. */
void store_stream_configure(store_stream_t *stream, const stream_config_t *config, moment_t now);
/* Everything of the stream goes: messages, heads, dedupe ids, records with its id as prefix. The handle is dead after
 * it. */
LEAF_MUST_USE status_t store_stream_remove(store_stream_t *stream);
/* From now on the stream's bytes are the allowance's: right behind store_stream_open. The allowance lives as long as
 * the store. */
void store_stream_charge(store_stream_t *stream, allowance_t *allowance);
/* Another limit, UINT64_MAX = none. What is above it refuses what comes. elsewhere: of other stores. */
void store_allow(store_t *store, allowance_t *allowance, uint64_t limit, uint64_t elsewhere);
/* An allowance whose level is another one since it was last told; NULL when there are no more. */
allowance_t *store_allowance_next(store_t *store);
/* Is a message of such parts refused for lack of allowance? */
bool store_stream_lacks(store_stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload);
/* Stops a stream because a consumer's state contradicts itself: nothing is stored in the stream or removed from it any
 * more until the store is opened again, and an alarm says so. */
void store_stream_stop(store_stream_t *stream, uint32_t consumer);
/* For tests, at any time: do all sums and each stream's numbers hold, by going over every stream? */
bool store_sound(store_t *store);
int64_t store_age(const store_t *store); /* now on its own clock, which goes on over restarts (disk/clockwork.h) */
uint32_t store_stream_id(const store_stream_t *stream);
store_t *store_stream_store(const store_stream_t *stream);
const stream_config_t *store_stream_config(const store_stream_t *stream);
/* Counters now (open batch included). deleted_count and subjects are exact. */
void store_stream_state(const store_stream_t *stream, stream_state_t *out);
uint64_t store_stream_bytes(const store_stream_t *stream); /* of these; never reads the disk */
/* Is first_seq that of the first message? Behind very many deleted ones the next is looked for in steps, by ticks. */
bool store_first_settled(const store_stream_t *stream);
uint64_t store_stream_visible(const store_stream_t *stream); /* last sequence that is durable, or applied of a log */
void store_stream_set_owner(store_stream_t *stream, void *owner); /* plane's pointer back */
void *store_stream_owner(const store_stream_t *stream);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* STATUS_NOT_FOUND (any: fine); STATUS_FULL: no room, later; STATUS_AGAIN: it is to be called again */
LEAF_MUST_USE status_t store_delete(store_stream_t *stream, uint64_t seq);
LEAF_MUST_USE status_t store_delete_any(store_stream_t *stream, uint64_t seq);
/* A purge, begun with zeros behind `keep`. It takes what is there at its first step; with `keep`, what is older than
 * the newest `keep` at its last. */
typedef struct store_purge {
    bytes_t filter;     /* the caller's, until the end; empty = all */
    uint64_t below_seq; /* 0 = no bound */
    uint64_t keep;
    uint64_t left; /* as the hook `purged` is told; 0 = it is looked for */
    bool begun;
    bool looking; /* what goes has gone */
    uint64_t at;
    uint64_t upto;
    uint64_t last; /* of the stream, when it began */
    struct store_tally *tally;
} store_purge_t;
/* STEP_MORE: again with the same purge in the next tick; STEP_UNKNOWN: later. But for STATUS_OK it is refused. */
LEAF_MUST_USE status_t store_purge(store_stream_t *stream, store_purge_t *purge, uint64_t *purged,
                                   step_outcome_t *step);
void store_purge_end(store_purge_t *purge); /* whenever no further step is to come, before the stream goes */

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct stored_message {
    uint64_t seq;
    int64_t ts;
    bytes_t subject; /* slices valid until the next store_tick or write to this store */
    bytes_t header;
    bytes_t payload;
} stored_message_t;

/* ENTRY_NONE: deleted or never there. ENTRY_DAMAGED: failed its checksum (counted, alarmed, never served). */
LEAF_MUST_USE entry_outcome_t store_read(store_stream_t *stream, uint64_t seq, stored_message_t *out);
/* First message at or after *from that matches; looks at most `budget` messages: SEEK_MORE with *from moved on when
 * that was not enough, SEEK_NONE when there is none up to `upto`. Damaged ones are stepped over (alarmed). */
LEAF_MUST_USE seek_outcome_t store_next(store_stream_t *stream, filters_t filters, uint64_t *from, uint64_t upto,
                                        uint32_t budget, stored_message_t *out);
/* The same for a caller that goes on and on from where it was; faster where the messages of the filters' subjects,
 * which are few, lie far apart. Begun with zeros, for one stream and its filters; 3 KB of memory while that helps;
 * ended before the stream goes, and when the filters are others. */
typedef struct store_ahead {
    struct store_ahead_list *list;
    uint64_t read_upto; /* up to here store_next does it */
    bool sparse;
} store_ahead_t;
LEAF_MUST_USE seek_outcome_t store_next_ahead(store_stream_t *stream, store_ahead_t *ahead, filters_t filters,
                                              uint64_t *from, uint64_t upto, uint32_t budget, stored_message_t *out);
void store_ahead_end(store_ahead_t *ahead);
/* Newest message at or below `upto` whose subject matches (wildcards). Looks at every subject when it must: see
 * store_newest. */
LEAF_MUST_USE entry_outcome_t store_last_by_subject(store_stream_t *stream, bytes_t pattern, uint64_t upto,
                                                    stored_message_t *out);
/* The first message with stamp >= ts. SEEK_MORE: it is not below *seq, but more than `budget` deleted ones lie before
 * it. SEEK_UNKNOWN: also where more than that are damaged. */
LEAF_MUST_USE seek_outcome_t store_seq_at_time(store_stream_t *stream, int64_t ts, uint32_t budget, uint64_t *seq);

/* Walks through many subjects or messages come in slices, which may lie ticks apart, with whatever is written in
 * between. budget: about so many steps over a message. What was opened has to be closed before its stream goes. NULL:
 * no memory. */

/* Distinct subjects that match the pattern, in byte order (very long ones: in the order of their keys; of an encrypted
 * store: in no order that means anything); false from visit ends it. Each is given once, with its numbers at that
 * moment; one that lives all the while is not missed. */
typedef bool (*subject_visit_t)(void *context, bytes_t subject, uint64_t count, uint64_t last_seq);
typedef struct store_walk store_walk_t;
store_walk_t *store_walk_open(store_stream_t *stream, bytes_t pattern);
LEAF_MUST_USE step_outcome_t store_walk_step(store_walk_t *walk, uint32_t budget, subject_visit_t visit, void *context);
void store_walk_close(store_walk_t *walk); /* NULL is fine */

/* Exact number of messages at or after `from` that match. Behind the last step store_tally_now is right at every moment
 * until the tally is closed. */
typedef struct store_tally store_tally_t;
store_tally_t *store_tally_open(store_stream_t *stream, filters_t filters, uint64_t from);
LEAF_MUST_USE step_outcome_t store_tally_step(store_tally_t *tally, uint32_t budget);
uint64_t store_tally_now(const store_tally_t *tally);
void store_tally_close(store_tally_t *tally); /* NULL is fine */

/* The sequence of the newest message that matches, among those at or below the `upto` of each call: none that was there
 * all the while is newer. (It may have gone since it was looked at.) Begun with zeros, ended by store_newest_end. */
typedef struct store_newest {
    bool begun;
    uint64_t seq;
    store_walk_t *walk;
    buffer_t names; /* subjects of the last slice whose newest is behind `upto`: size 4, bytes */
    uint64_t names_at;
    uint64_t chain_at; /* of the first of them */
} store_newest_t;
LEAF_MUST_USE seek_outcome_t store_newest(store_stream_t *stream, store_newest_t *newest, bytes_t pattern,
                                          uint64_t upto, uint32_t budget, uint64_t *seq);
void store_newest_end(store_newest_t *newest);
/* The newest of one subject at or below upto, by its chain. *at: 0 at first, then as left; *budget: less each step. */
LEAF_MUST_USE seek_outcome_t store_newest_of(store_stream_t *stream, bytes_t subject, uint64_t upto, uint32_t *budget,
                                             uint64_t *at);

/* Deleted sequences in [*from, upto], ascending, in slices as above; false from visit ends it. */
LEAF_MUST_USE step_outcome_t store_deleted(store_stream_t *stream, uint64_t *from, uint64_t upto, uint32_t budget,
                                           bool (*visit)(void *context, uint64_t seq), void *context);

#endif
