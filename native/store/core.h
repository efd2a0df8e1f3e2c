/* core.h: what the store's own files share: the two structs behind store.h's handles, and each file's inner functions,
 * grouped by the file that has them; more of those in overlay.h, message.h and life.h. Nobody outside native/store and
 * native/recovery includes this: a start fills in what the directory holds.
 *
 *   append, delete, purge, expire --> overlay (ops into the open batch, notes in the memtable)
 *   read, count, subjects         --> overlay over LMDB's snapshot
 *   store_tick                    --> settle (streams and heads into the batch), seal, hand over, free
 */
#ifndef LEAFD_STORE_CORE_H
#define LEAFD_STORE_CORE_H

#include "base/check.h"
#include "disk/batch.h"
#include "disk/clockwork.h"
#include "disk/env.h"
#include "disk/journal.h"
#include "disk/keeper.h"
#include "disk/memtable.h"
#include "disk/sealing.h"
#include "disk/sizes.h"
#include "store/allowance.h"
#include "store/gather.h"
#include "store/heads.h"
#include "store/log.h"
#include "store/places.h"
#include "store/store.h"

#define STORE_ALARMS_MAX 64
#define STORE_TOLD_MAX 64 /* a damaged message is alarmed once, not each time that it is asked for */
#define STREAMS_MIN 64    /* that a list of streams has room for at first */
/* of subject, header and payload; larger is refused, as by the reference */
#define STORE_MESSAGE_MAX (UINT32_C(32) << 20)
#define STREAM_PROMISE 768 /* bytes that closing a batch needs for one touched stream */
#define STORE_STEP 4096    /* messages that one step of background work removes or looks at */

/* An op that was journaled by an earlier process and found no room in LMDB at the start. */
typedef struct adoptee {
    uint32_t stream;
    uint8_t db;
    uint64_t position;
} adoptee_t;

typedef struct adopted {
    adoptee_t *at; /* by stream, then position */
    uint64_t count;
    uint64_t capacity;
    uint64_t deletes; /* of messages, in all streams */
    uint64_t end;     /* behind the last */
} adopted_t;

/* A batch that is on disk, and the stream's last message in it. */
typedef struct commit_mark {
    uint64_t batch; /* 0: none */
    uint64_t last;
} commit_mark_t;

typedef struct found found_t; /* message.h */

struct store_stream {
    store_t *store;
    uint32_t id;
    stream_config_t config;
    void *owner;
    allowance_t *allowance; /* whose bytes its bytes are; the store's own until store_stream_charge */
    log_t log;
    uint64_t corrupt;
    uint64_t visible;
    commit_mark_t commit_oldest; /* these wait for the commit watermark */
    commit_mark_t commit_newest;
    /* batch book-keeping */
    bool touched;         /* in the open batch */
    bool advanced;        /* in the list that store_advanced_next empties */
    bool over_limit;      /* a limit was not fully enforced for lack of room: next tick */
    uint64_t flight_last; /* last_seq when the batch that is being journaled was sealed */
    /* the overlay; a position: LMDB's entries are an earlier stream's of this id until it is checkpointed */
    uint64_t lmdb_hidden_until;
    places_t places;
    uint64_t boundary;   /* messages below this are covered by the running checkpoint */
    uint64_t deletes[2]; /* notes of deleted messages in the overlay: current, previous */
    births_t births;
    /* background work */
    uint64_t thin_at; /* from here on subjects may have more than their limit; 0 = none has */
    bool thin_noted;  /* a record says so */
    uint64_t seek_of; /* the message for which the one before it on its subject is searched, 0 = none .. */
    uint64_t seek_at; /* .. from there down */
    uint32_t seek_patience;
    uint64_t aged; /* below this every message was looked at for max_age and is exempt or gone */
    expiries_t expiries;
    int64_t expiry_done; /* LMDB's expiry entries up to this (expires, seq) are done */
    uint64_t expiry_done_seq;
    int64_t expiry_next;    /* LMDB's next one on the age clock, INT64_MAX = none, 0 = not known */
    uint64_t ids_done;      /* LMDB's id order below this is done */
    int64_t ids_next;       /* the next id's end of window on the age clock, likewise */
    struct id_filter *ids;  /* which there are not, NULL until the first one; see idfilter.h */
    store_tally_t *tallies; /* counts that are to stay exact, see tally.c */
    struct gaps *gaps;      /* long rows of sequences without a message, NULL: none are known */
    struct follow *follows; /* patterns whose newest message is known or looked for, see follow.c */
};

typedef struct stream_list {
    store_stream_t **at;
    uint32_t count;
    uint64_t capacity;
} stream_list_t;

struct store {
    store_options_t options;
    store_sizes_t sizes;
    char *directory;
    int lock_fd;
    env_t *env;
    sealing_t sealing; /* whose sealer is options.sealer */
    journal_t journal;
    highwater_t highwater;
    batches_t batches;
    keeper_t keeper;
    memtable_t memtable;
    adopted_t adopted;
    heads_t heads;
    clockwork_t clock;
    store_hooks_t hooks;
    const struct commit_rule *commit; /* NULL: what the disk has */
    stream_list_t streams;
    stream_list_t touched;
    stream_list_t flying;
    stream_list_t advanced;
    sums_t sums;
    allowance_t unowned; /* of the streams that nobody is charged for */
    allowance_t *news;   /* whose level changed: store_allowance_next */
    uint64_t ids_bytes;  /* of memory, in the streams' filters of ids */
    /* pipeline */
    uint64_t first_batch;   /* number before the first one of this run */
    uint64_t durable;       /* batch number */
    uint64_t flight_number; /* batch in the journal thread's hands; == durable: none */
    uint64_t flight_end;
    uint64_t handed;   /* position */
    uint64_t trimmed;  /* position at which the ring's memory was given back */
    uint64_t boundary; /* position of the running checkpoint, 0 = none running */
    bool boundary_sent;
    int64_t pending_since; /* mono ns of the oldest batch that no checkpoint covers, INT64_MAX = none */
    gather_t gather;
    int64_t now_mono;
    int64_t background_at;  /* mono ns of the next look at every stream */
    uint32_t looked;        /* where the next look begins */
    uint32_t spare_spent;   /* steps of this tick that messages made on account of limits, beyond their own */
    newcomers_t record_ops; /* ops of the overlay on records, by position, for walking them in key order */
    /* reads */
    uint32_t cursor_stream; /* LMDB's message cursor stands on this key, when cursor_seq != 0 */
    uint64_t cursor_seq;
    /* trouble */
    uint64_t admits;   /* bytes that publishers may hold in the ring, for what the disk has room for .. */
    uint64_t holds;    /* .. and memory too */
    uint64_t resident; /* of the ring, in memory: all of it, but where the journal is larger than options.ring_max */
    uint64_t cramped;  /* the most that did not fit into the ring since it was last looked at */
    uint32_t narrowed; /* at rest the ring has memory for this part of itself; 1 = it is never narrow */
    uint64_t wanted;   /* room that an append_group_t waits for, 0 = none */
    uint64_t room_end; /* store_room: while the open batch, with what is promised, ends before it */
    uint64_t pieces;   /* of keeper's, for which the snapshot was renewed */
    bool space_trouble;
    bool io_trouble;
    bool unreadable; /* LMDB was closed and could not be opened again */
    bool unread;     /* a read of LMDB failed lately, at unread_at, and an alarm says so */
    int64_t unread_at;
    uint64_t unread_seen;
    store_alarm_t alarms[STORE_ALARMS_MAX];
    uint32_t alarm_begin;
    uint32_t alarm_count;
    uint64_t alarms_dropped;
    struct {
        uint32_t stream;
        uint64_t seq;
    } told[STORE_TOLD_MAX];
    uint32_t told_next;
    uint64_t corrupt;
    uint64_t replayed;
};

/* ---- overlay.c: lists of streams --------------------------------------------------------------------------------- */
status_t list_add(stream_list_t *list, store_stream_t *stream);
/* So many streams fit into each of the lists that a stream joins while it works, where nothing may fail. */
status_t lists_reserve(store_t *store, uint32_t count);
void list_remove(stream_list_t *list, const store_stream_t *stream);

/* ---- adopt.c ----------------------------------------------------------------------------------------------------- */
/* Makes the batches in [from, to) of the ring part of the overlay: LMDB had no room for them when it was opened. */
LEAF_MUST_USE status_t adopt_batches(store_t *store, uint64_t from, uint64_t to);
LEAF_MUST_USE status_t adopt_stream(store_stream_t *stream); /* a stream's own part of that, when it is opened */
void adopted_drop(store_t *store);                           /* the ring was freed up to somewhere */
void adopted_free(store_t *store);

/* ---- stream.c ---------------------------------------------------------------------------------------------------- */
void stream_join_batch(store_stream_t *stream);
/* Its state changed: it goes into the batch when that closes. */
static inline void stream_touch(store_stream_t *stream) {
    if (LEAF_UNLIKELY(!stream->touched)) {
        stream_join_batch(stream);
    }
}
void stream_settle(store_stream_t *stream); /* writes its state op */
/* Memory for what is noted of so many messages and of entries in the index by time: no note fails afterwards. */
LEAF_MUST_USE status_t stream_notes_reserve(store_stream_t *stream, uint64_t messages, uint64_t times);
void stream_rotate(store_stream_t *stream);
void stream_drop(store_stream_t *stream);
void stream_release(store_stream_t *stream); /* frees it, when the store closes */
static inline uint64_t stream_message_bytes(const store_stream_t *stream, const message_record_t *message) {
    return log_message_bytes(stream->config.storage, message);
}

/* ---- allowance.c ------------------------------------------------------------------------------------------------- */
void allowance_rise(store_t *store, allowance_t *allowance); /* it is above `near` */
void allowance_fall(store_t *store, allowance_t *allowance); /* it is below `clear` */
void allowance_refuse(store_t *store, allowance_t *allowance);

/* ---- commit.c ---------------------------------------------------------------------------------------------------- */
/* The batch, with the stream's messages up to `last`, is on disk. */
void commit_durable(store_stream_t *stream, uint64_t batch, uint64_t last);
/* Shows what the watermark has reached since. */
void commit_follow(store_t *store);

/* ---- subjects.c -------------------------------------------------------------------------------------------------- */
/* STATUS_NOT_FOUND: no message on that subject. peek, for who goes through many: does not change the cache. */
LEAF_MUST_USE status_t head_look(store_stream_t *stream, bytes_t subject, head_t *head);
LEAF_MUST_USE status_t head_peek(store_stream_t *stream, bytes_t subject, head_t *head);
/* The cache's entry, for a change: a zero head when there is none yet. Valid until the next call of these. */
LEAF_MUST_USE status_t head_fetch(store_stream_t *stream, bytes_t subject, head_entry_t **entry);
void head_change(store_stream_t *stream, head_entry_t *entry); /* after changing entry->head */
void heads_settle(store_t *store);                             /* changed heads into the batch */
/* Newest of the subjects that match, 0 = none. */
LEAF_MUST_USE status_t subjects_last(store_stream_t *stream, bytes_t pattern, uint64_t *seq);

/* ---- store.c ----------------------------------------------------------------------------------------------------- */
void store_clock(store_t *store, moment_t now);
void store_seal(store_t *store); /* closes the open batch and hands it to the journal */
void store_rest(store_t *store); /* gives the ring's memory back, and makes it narrow */
bool store_widen_for(store_t *store, uint64_t need);

#endif
