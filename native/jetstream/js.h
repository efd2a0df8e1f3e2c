/* js.h: JetStream as the plane sees it: its state, its turn, its commands, and what its targets do with a message.
 *
 *     jetstream.c  open, close, one turn                       stream.c    streams and their subjects
 *     publish.c    a message into a stream                     binding.c   what reaches consumers
 *     intake.c     what its headers order                      stream_jobs.c  state, purge, one message
 *     append.c     its last step, for all                      jobs.c      what takes longer than a tick may, in steps
 *     waiting.c      what waits for a look of the store      queued.c     messages that wait for something
 *     rollups.c       its rollup, when that takes long            open_batches.c  batches that publishers have begun
 *     fast.c       fast batches                                atomic.c atomic_commit.c   atomic batches
 *     schedule.c   messages that are due later                 ingest.c    what mirrors and sources take in
 *     direct.c direct_request.c   direct gets                  export.c import.c   backup and restore
 *     replicated*.c  a stream that several servers keep      ack_reply.c  the subject of a delivery
 *
 * The store keeps messages, consume/ decides about deliveries; what is here speaks the protocol around them: subjects,
 * headers, JSON of PubAcks, statuses. Not here: connections, accounts and permissions, which are the
 * host's (host.h); validation of definitions (control). Reference: tests/wire/jetstream.md.
 */
#ifndef LEAFD_JETSTREAM_JS_H
#define LEAFD_JETSTREAM_JS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/share.h"
#include "base/status.h"
#include "base/table.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "group/groups.h"
#include "jetstream/host.h"
#include "jetstream/job.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"
#include "text/text.h"
#include "wire/emit.h"

#define STORE_FILE 0
#define STORE_MEMORY 1
#define API_LEVEL 5 /* of JetStream, as the reference counts */

typedef struct ingest ingest_t;             /* ingest.c */
typedef struct open_batches open_batches_t; /* open_batches.h */

struct js {
    /* the host's */
    const js_host_t *host;
    plane_t *plane;
    exchange_t *exchange;
    const plane_limits_t *limits;
    const plane_keys_t *keys; /* while it opens; NULL: the store is not encrypted */
    const moment_t *now;      /* of this turn */
    uint64_t ring_max[2];     /* bytes that each may take: batches on their way to the disk, by store */
    uint64_t heads_max;       /* cached heads of subjects */
    uint64_t changed_max[2];  /* pages of LMDB that a checkpoint changes, by store */
    histogram_t *took;        /* HISTOGRAMS, of the file store */
    share_t consumers;        /* pull requests that wait, deliveries that are not acknowledged */
    uint64_t held_max;        /* what waits for a store's batches */
    uint64_t listing_max;     /* a listing of a stream's subjects, which is one message when it is answered */

    store_t *stores[2];
    held_t held[2];         /* what waits for their batches */
    event_entry_t *late[2]; /* completions for which held.c had no memory; they are sent all the same */
    consume_t *consume;     /* NULL: there is no JetStream */
    table_t streams;        /* id > stream_t */
    table_t bindings;       /* stream id, consumer id > consumer_binding_t */
    job_t *jobs;            /* jobs.c: oldest first */
    job_t *jobs_last;
    uint32_t job_count;
    uint32_t job_work;   /* done in this tick: JOB_STEP and its parts (job.h) */
    int64_t jobs_due_ns; /* the first of those that pause; INT64_MAX: none does */
    ingest_t *ingests;
    uint64_t ingest_runs;             /* how many began */
    stream_t *full;                   /* streams that refused what a copy brought, being full */
    map_t *named_ingests;             /* by the name of their origin's consumer */
    open_batches_t *fast;             /* NULL until the first fast batch */
    open_batches_t *atomic;           /* likewise */
    share_t filters;                  /* of direct gets under way, multi_last */
    share_t staged;                   /* messages of atomic batches that are not committed */
    buffer_t counted;                 /* a counter's payload */
    buffer_t sourced;                 /* and its header, when it comes from a source */
    buffer_t scratch;                 /* for a header block or reply being composed */
    groups_t *groups;                 /* the host's; NULL: this server is in no group of servers */
    replicated_t *replicated;         /* streams that several servers keep */
    replicated_t *replicated_rows[2]; /* .. of these, those with something to do (replicated_private.h) */
    int64_t replicas_due_ns;          /* when one of them has something to do by itself */
    char *memory_directory;
    uint64_t random;
    bool more; /* something is left to do without waiting; the host takes it */
};

/* ---- jetstream.c ------------------------------------------------------------------------------------------------- */

/* The host's members are set. limits->jetstream 0: none of it, and nothing is opened. reason: PLANE_REASON_SIZE. */
LEAF_MUST_USE status_t js_open(js_t *js, const char *directory, const char *memory_directory, char *reason);
LEAF_MUST_USE status_t js_memory_store(js_t *js); /* opens it on first use */
void js_shutdown(js_t *js);                       /* the last turn is to make everything durable */
void js_close_streams(js_t *js);                  /* their targets go, while the host still has accounts */
void js_close(js_t *js);

/* A turn, in this order. The batch of the stores, and what waited for one; then deliveries. */
void js_settle_stores(js_t *js);
/* interest_changed: somebody subscribed or went; unblocked: a receiver that was full has room. */
void js_settle_consumers(js_t *js, bool interest_changed, bool unblocked);
/* No room for more in the store's ring, or for the answers that wait for its disk: publishers have to wait. */
static inline bool js_lagging(const js_t *js, uint32_t which_store) {
    const store_t *store = js->stores[which_store];
    return store != NULL && (!store_room(store) || js->held[which_store].bytes > js->held_max);
}
bool js_batch_waits(const js_t *js); /* a batch is open, and nothing but a turn will write it */
void js_chores(js_t *js);            /* now and then */
/* Behind each turn of the groups; turned: some of them had one. */
void js_replicas_turn(js_t *js);
int64_t js_next_deadline(const js_t *js); /* of stores, consumers and jobs; INT64_MAX: none */
void js_stats(js_t *js, plane_stats_t *stats);
/* allowed.c */
void js_allowances_begin(js_account_t *account);
LEAF_MUST_USE status_t js_allow(js_t *js, js_account_t *account, uint64_t tier, const allowed_t *allowed);
void js_charge(const stream_t *stream); /* it shares what its configuration says */

void js_done(js_t *js, const plane_command_t *command, status_t status);
void js_answer(js_t *js, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2, bytes_t payload);
/* When everything that is in the store's open batch is on disk. */
void js_hold_event(js_t *js, uint32_t which_store, event_entry_t *entry); /* until the open batch is on disk */
void js_done_durable(js_t *js, const plane_command_t *command, uint32_t which_store, uint64_t arg, bytes_t payload);

/* ---- the targets ------------------------------------------------------------------------------------------------- */

void js_publish(js_t *js, stream_t *stream, const message_t *message);
/* The same of a stream that several servers keep: its leader proposes it. */
void js_propose(js_t *js, stream_t *stream, const message_t *message);
/* The fate of a message that is traced. refusal: why it was not stored; empty: it was, or would have been. */
typedef struct js_traced {
    text_t subject; /* that it is stored under */
    text_t refusal;
    bool no_interest;
} js_traced_t;
/* The same, and says so. only: nothing is stored, and nobody is answered; what only the store knows (limits,
 * duplicates, expected sequences) is not looked at then. */
void js_publish_traced(js_t *js, stream_t *stream, const message_t *message, bool only, js_traced_t *out);
void js_direct(js_t *js, stream_t *stream, const message_t *message);
void js_next(js_t *js, consumer_binding_t *binding, const message_t *message);
void js_ack(js_t *js, consumer_binding_t *binding, const message_t *message);
void js_flow(js_t *js, consumer_binding_t *binding, const message_t *message);
/* The connection that answered for the origin; 0: this server. */
uint64_t ingest_origin(const ingest_t *ingest);
/* The connection takes nothing any more for `$JS.FC.<..>.<consumer>.*`: what that consumer fed begins anew. */
void ingest_unwanted(js_t *js, uint64_t connection, bytes_t subject);
/* false: it does not run. */
bool ingest_feeds(const ingest_t *ingest, uint32_t *which_store);
/* The subjects, beside its own, that a message with a schedule names; empty where it names none. */
typedef struct js_schedule_names {
    bytes_t target; /* is stored there, later */
    bytes_t source; /* what is there is stored under the target */
    bytes_t ended;  /* the schedule of this subject ends */
    bool granted;   /* the stream grants them all */
} js_schedule_names_t;
/* The author of a schedule: only the server writes it. */
#define SCHEDULE_AUTHOR BYTES_LITERAL("Nats-Schedule-Author")
typedef enum js_schedule_name { SCHEDULE_TARGET, SCHEDULE_SOURCE, SCHEDULE_ENDED } js_schedule_name_t;
/* false: there are none, or the stream takes no schedules. */
bool js_schedule_names(const stream_t *stream, bytes_t header, js_schedule_names_t *names);
/* Likewise, whatever the stream takes. */
bool js_schedule_named(bytes_t header, js_schedule_names_t *names);
/* Answers a publish whose sender may not name that subject. */
void js_schedule_refuse(js_t *js, const stream_t *stream, bytes_t reply, js_schedule_name_t which);

/* copied: the message's subject in the stream that it is copied from; empty = that of the message. */
void ingest_frame(js_t *js, ingest_t *ingest, const message_t *message, bytes_t copied);

/* Does the request ask for more than this server's level of the API? */
bool js_level_too_high(bytes_t header);

/* ---- between its files ------------------------------------------------------------------------------------------- */

consume_out_t js_consume_out(js_t *js); /* binding.c */

/* Answers a command once what is left for that consumer has been counted, in steps; seq is handed on. */
typedef void (*binding_answer_t)(js_t *js, const plane_command_t *command, consumer_binding_t *binding, uint64_t seq);
void binding_when_counted(js_t *js, const plane_command_t *command, const consumer_binding_t *binding,
                          binding_answer_t answer, uint64_t seq);

void js_tell_allowances(js_t *js); /* allowed.c: those whose level changed */
void ingest_chores(js_t *js);      /* silence */
void ingest_stream_removed(js_t *js, const stream_t *stream);
void ingest_stream_redefined(stream_t *stream);
void ingest_forget_full(js_t *js, const stream_t *stream); /* before it goes */
void ingest_tell_rooms(js_t *js);                          /* of streams that are no longer as full as they were */
/* What became of an entry of the log that an ingest asked for, by its run; 0: it does not mind. */
void ingest_applied(js_t *js, uint64_t run, const appended_t *appended);
/* Nothing that it asked for was refused; 0: nobody's could be. */
bool ingest_stands(const js_t *js, uint64_t run);
void ingest_free_all(js_t *js);

static inline void js_say(js_t *js, js_account_t *account, bytes_t subject, bytes_t header, bytes_t payload) {
    js->host->publish(js->plane, account, subject, BYTES_NONE, header, payload);
}

#endif
