/* core.h: what the store's own files share: the two structs behind store.h's handles, whose parts have one file each
 * that writes to them, and inner functions by their files. Nobody outside native/store and native/recovery includes it.
 *
 *   append, delete, purge, expire --> overlay (ops into the open batch, notes in the memtable)
 *   read, count, subjects         --> overlay over LMDB's snapshot
 *   store_tick                    --> settle (streams and heads into the batch), seal, hand over, free
 */
#ifndef LEAFD_STORE_CORE_H
#define LEAFD_STORE_CORE_H

#include "base/check.h"
#include "base/outcome.h"
#include "disk/batch.h"
#include "disk/clockwork.h"
#include "disk/journal.h"
#include "disk/keeper.h"
#include "disk/memtable.h"
#include "disk/sealing.h"
#include "disk/sizes.h"
#include "store/alarms.h"
#include "store/allowance.h"
#include "store/carried.h"
#include "store/gather.h"
#include "store/heads.h"
#include "store/ledger.h"
#include "store/log.h"
#include "store/mending.h"
#include "store/notes.h"
#include "store/reckon.h"
#include "store/room.h"
#include "store/timeline.h"

/* of subject, header and payload; larger is refused, as by the reference */
#define STORE_MESSAGE_MAX (UINT32_C(32) << 20)
#define STORE_STEP 2048 /* messages that one step of background work removes or looks at */

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

typedef struct message_row message_row_t; /* message.h */

/* The work of limits: what has more messages than a limit allows, or may have, and goes on in later turns. */
typedef struct limits {    /* only limits.c writes to it */
    uint64_t surplus_from; /* from here on subjects may have more than their limit; 0 = none has */
    uint64_t seek_of;      /* the message for which the one before it on its subject is searched, 0 = none .. */
    uint64_t seek_at;      /* .. from there down */
    uint32_t seek_patience;
    bool surplus_noted; /* a record says so */
    bool over;          /* a limit was not fully enforced for lack of room: next tick */
} limits_t;

/* The work of time. */
typedef struct aging {   /* only expire.c writes to it */
    uint64_t aged;       /* below this every message was looked at for max_age and is exempt or gone */
    expiries_t expiries; /* of the overlay */
    int64_t done;        /* LMDB's expiry entries up to this (expires, seq) are done */
    uint64_t done_seq;
    int64_t next; /* LMDB's next one on the age clock, INT64_MAX = none, 0 = not known */
} aging_t;

/* Message ids. */
typedef struct ids {          /* only dedupe.c writes to it */
    uint64_t done;            /* LMDB's id order below this is done */
    int64_t next;             /* the next id's end of window on the age clock, as aging_t.next */
    struct id_filter *filter; /* which there are not, NULL until the first one; see idfilter.h */
} ids_t;

struct store_stream { /* only stream.c writes to it */
    store_t *store;
    uint32_t id;
    stream_config_t config;
    void *owner;
    allowance_t *allowance; /* only stream.c and allowance.c: whose bytes its bytes are; the store's own at first */
    uint32_t copies;        /* only stream.c and allowance.c: how many servers keep it, each of which counts */
    uint64_t promised;      /* only allowance.c: its part of the allowance's */
    uint64_t corrupt;       /* only alarms.c and log.c: damage that was met */
    int64_t copy_asked;     /* only alarms.c: when a copy of other servers was asked for, mono ns; 0: never */
    log_t log;
    promise_t promise;
    notes_t notes;
    limits_t limits;
    timeline_t timeline;
    aging_t aging;
    ids_t ids;
    doubt_t doubt;
    store_tally_t *tallies;  /* only tally.c: counts that are to stay exact */
    struct gaps *gaps;       /* only read.c: long rows of sequences without a message, NULL: none are known */
    struct follow *follows;  /* only follow.c: patterns whose newest message is known or looked for */
    uint64_t heads_name;     /* only subjects.c: in the cache; see heads.h */
    struct recount *recount; /* only recount.c: a damaged head that is counted again, NULL: none was */
};

/* From the open batch to the journal, and to a checkpoint. Numbers are of batches, ends are positions. */
typedef struct pipeline {   /* only store.c and lifecycle.c write to it */
    uint64_t first_batch;   /* number before the first one of this run */
    uint64_t durable;       /* number */
    uint64_t flight_number; /* batch in the journal thread's hands; == durable: none */
    uint64_t flight_end;
    uint64_t handed;
    uint64_t boundary; /* of the running checkpoint, 0 = none running */
    bool boundary_sent;
    int64_t pending_since; /* mono ns of the oldest batch that no checkpoint covers, INT64_MAX = none */
    bool wanted;           /* the next checkpoint, soon */
    uint64_t pieces;       /* of keeper's, for which the snapshot was renewed */
    gather_t gather;
} pipeline_t;

typedef struct trouble { /* only store.c and mending.c write to it */
    bool space, last;    /* last: nor is there room for what a group has agreed on */
    bool io;
    bool unreadable; /* LMDB was closed and could not be opened again */
    bool unread;     /* a read of LMDB failed lately, at unread_at, and an alarm says so */
    int64_t unread_at;
    uint64_t unread_seen;
    uint64_t unknown;                          /* questions that had no answer, beside reads of LMDB that failed */
    uint64_t wrongs;                           /* damaged pages that were met, as env_wrong counts */
    uint64_t wrong_page;                       /* the last one, and 1 */
    int64_t mend_at;                           /* mono ns: before that no start is asked for again */
    int64_t waits_since, waits_at, waits_told; /* mono ns: ask_for_start() */
    uint64_t damage;                           /* that was met in no stream, when it was last looked at */
} trouble_t;

typedef struct turn { /* only store.c writes to it */
    int64_t now_mono;
    int64_t background_at; /* mono ns of the next look at every stream, or of its next part */
    int64_t judged_at;     /* mono ns: pages that were judged before it are judged again */
    uint32_t looked;       /* where the next look begins */
    uint32_t look_left;    /* streams that the look under way has before it; 0: none is under way */
    int64_t look_next;     /* on the age clock: what the look has found to be due first */
    bool look_again;       /* what is due came up after the look had begun */
    uint32_t spare_spent;  /* only limits.c and store.c: steps that messages made for limits, beyond their own */
} turn_t;

typedef struct cursor { /* only read.c writes to it */
    uint32_t stream;
    uint64_t seq; /* on whose key LMDB's message cursor stands; 0: on none */
} cursor_t;

/* The state of native/disk changes by its own functions alone; the comments name the callers of those functions. */
struct store {               /* only lifecycle.c writes to it */
    store_options_t options; /* only lifecycle.c, mend.c, meta.c, open.c */
    store_sizes_t sizes;
    char *directory;
    int lock_fd;                      /* only lifecycle.c, open.c */
    env_t *env;                       /* only lifecycle.c, open.c, rescue.c: which one, not what is in it */
    sealing_t sealing;                /* only lifecycle.c, meta.c, open.c; its sealer is options.sealer */
    journal_t journal;                /* only lifecycle.c, meta.c, open.c, recover.c, salvage.c */
    highwater_t highwater;            /* only lifecycle.c, recover.c */
    batches_t batches;                /* only lifecycle.c, open.c, overlay.c, room.c, store.c */
    keeper_t keeper;                  /* only lifecycle.c, store.c */
    memtable_t memtable;              /* only adopt.c, lifecycle.c, overlay.c, room.c, store.c */
    adopted_t adopted;                /* only adopt.c */
    heads_t heads;                    /* only lifecycle.c, subjects.c */
    clockwork_t clock;                /* only lifecycle.c, store.c */
    store_hooks_t hooks;              /* only store.c */
    uint8_t brief;                    /* only open.c: MESSAGE_BRIEF where messages may have short numbers, else 0 */
    const struct commit_rule *commit; /* only commit.c; NULL: what the disk has */
    stream_list_t streams;            /* only stream.c */
    carried_streams_t carried;
    sums_t sums;
    allowance_t unowned;    /* only lifecycle.c, stream.c: of the streams that nobody is charged for */
    allowance_t *news;      /* only allowance.c: whose level changed, store_allowance_next */
    uint64_t ids_bytes;     /* only dedupe.c: of memory, in the streams' filters of ids */
    newcomers_t record_ops; /* only adopt.c, records.c, store.c: ops of the overlay on records, to be walked by key */
    pipeline_t pipeline;
    room_t room;
    turn_t turn;
    cursor_t cursor;
    trouble_t trouble;
    patching_t patching;
    reckoning_t reckoning;
    ledgers_t ledgers;
    lingering_t linger;
    lazy_t lazy;
    alarms_t alarms;
    uint64_t replayed; /* only open.c, salvage.c */
    bool closed;       /* only open.c: LMDB says that the store was closed in order */
};

/* Notes a change of the stream's state: it goes into the batch when that closes. */
static inline void stream_touch(store_stream_t *stream) {
    if (LEAF_UNLIKELY(!stream->promise.touched)) {
        carried_join(stream);
    }
}

static inline int64_t stream_age(const store_stream_t *stream) {
    return stream->timeline.own ? stream->timeline.age : stream->store->clock.age;
}

static inline int64_t stream_wall(const store_stream_t *stream) {
    return stream->timeline.own ? stream->timeline.wall : stream->store->clock.wall;
}

/* ---- adopt.c ----------------------------------------------------------------------------------------------------- */
LEAF_MUST_USE status_t adopt_batches(store_t *store, uint64_t from, uint64_t to); /* for which LMDB had no room */
LEAF_MUST_USE status_t adopt_stream(store_stream_t *stream); /* a stream's own part of that, when it is opened */
void adopted_drop(store_t *store);                           /* the ring was freed up to somewhere */
void adopted_free(store_t *store);
void records_free(store_t *store);

/* ---- stream.c ---------------------------------------------------------------------------------------------------- */
store_stream_t *stream_with(const store_t *store, uint32_t id); /* NULL: none that is open; no stream is 0 */
void stream_rotate(store_stream_t *stream);                     /* a checkpoint begins, .. */
void stream_drop(store_stream_t *stream);                       /* .. and is there */
void stream_release(store_stream_t *stream);                    /* frees it, when the store closes */
static inline uint64_t stream_message_bytes(const store_stream_t *stream, const message_record_t *message) {
    return log_message_bytes(stream->config.storage, message);
}

/* ---- subjects.c -------------------------------------------------------------------------------------------------- */
/* READ_NONE: no message on it; READ_UNKNOWN: recount.h. peek leaves the cache as it is; cached, false: not in it. */
LEAF_MUST_USE read_outcome_t head_look(store_stream_t *stream, bytes_t subject, head_t *head);
LEAF_MUST_USE read_outcome_t head_peek(store_stream_t *stream, bytes_t subject, head_t *head);
LEAF_MUST_USE bool head_cached(store_stream_t *stream, bytes_t subject, head_t *head, read_outcome_t *outcome);
/* The cache's entry, for a change: a zero head when there is none yet. Valid until the next call of these. */
LEAF_MUST_USE status_t head_fetch(store_stream_t *stream, bytes_t subject, head_entry_t **entry);
void head_change(store_stream_t *stream, head_entry_t *entry); /* after changing entry->head */
void heads_settle(store_t *store);                             /* changed heads into the batch */
void heads_join(store_stream_t *stream);                       /* it is opened */
void heads_leave(store_stream_t *stream);                      /* all of them, in memory and in the batch */
LEAF_MUST_USE read_outcome_t subjects_last(store_stream_t *stream, bytes_t pattern, uint64_t *seq); /* 0: none */

/* ---- ledger.c ---------------------------------------------------------------------------------------------------- */
void ledgers_settle(store_t *store); /* how far they are applied, into the batch that closes */
void ledgers_sealed(store_t *store, uint64_t number, uint64_t end); /* with a sync interval: that batch is closed .. */
void ledgers_follow(store_t *store);                                /* .. what was synced meanwhile */
void ledgers_free(store_t *store);
uint64_t ledgers_memory(const store_t *store); /* beside the batches' */

/* ---- store.c ----------------------------------------------------------------------------------------------------- */
void store_clock(store_t *store, moment_t now);
void store_seal(store_t *store);         /* closes the open batch and hands it to the journal */
void store_look_soon(store_t *store);    /* deadlines are looked at in the next turn */
void store_note_unknown(store_t *store); /* something was asked for that is not known, and no read of LMDB failed */
void store_look_over(store_t *store);    /* a look under way may pass a stream by, which came or went: one follows */

#endif
