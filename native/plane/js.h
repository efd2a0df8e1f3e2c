/* js.h: what JetStream adds to the plane: streams, consumers' seats, ingest, and their targets. Private to plane/.
 *
 * The store keeps messages, consume/ decides about deliveries; what is here speaks the protocol around them: subjects,
 * headers, JSON of PubAcks, statuses. Reference: tests/wire/jetstream.md.
 */
#ifndef LEAFD_PLANE_JS_H
#define LEAFD_PLANE_JS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "plane/account.h"
#include "plane/command.h"
#include "plane/exchange.h"
#include "plane/publication.h"
#include "plane/subscription.h"
#include "store/store.h"
#include "text/text.h"
#include "text/transform.h"
#include "wire/emit.h"

typedef struct stream stream_t;
typedef struct job job_t;
typedef struct ingest ingest_t;

#define STREAM_SUBJECTS_MAX 32768u
#define HEADER_BYTES_MAX 65535u /* of a stored message, as in the reference */

/* One consumer's targets. Owned by its stream's list; consumer_owner() of consume/ points here. */
typedef struct consumer_seat {
    consumer_t *consumer;
    stream_t *stream;
    uint32_t id;
    sink_t next;   /* $JS.API.CONSUMER.MSG.NEXT.<stream>.<consumer> */
    sink_t ack[2]; /* v1, v2 */
    sink_t flow[2];
    event_entry_t *farewell; /* what control is told when it goes by itself: there from the beginning */
    struct consumer_seat *next_seat;
} consumer_seat_t;

typedef struct stored_rewrite stored_rewrite_t; /* js_append.c */

struct stream {
    uint32_t id;
    uint32_t which_store;
    account_t *account;
    store_stream_t *store;
    stream_config_t config;
    bytes_t name; /* own copies */
    bytes_t domain;
    bytes_t ack_prefix;   /* {"stream":"S","domain":"D","seq": */
    bytes_t error_suffix; /* ,"stream":"S","domain":"D","seq":0} */
    sink_t *subjects;
    uint32_t subject_count;
    stored_rewrite_t *rewrite; /* NULL: stored under the subject it came with, not published again */
    sink_t direct[2];          /* $JS.API.DIRECT.GET.<stream> and .> */
    int64_t quiet_until_ns;    /* loaded at the start: its consumers are still on their way */
    uint32_t fast_count;       /* open fast batches, js_fast.c */
    consumer_seat_t *seats;
    uint32_t seat_count;
};

stream_t *stream_find(plane_t *plane, uint64_t id);
void stream_free(plane_t *plane, stream_t *stream); /* targets, seats, memory; nothing durable */
void stream_state_of(const stream_t *stream, stream_state_t *state);
consumer_seat_t *seat_find(stream_t *stream, uint64_t id);
void seat_free(plane_t *plane, consumer_seat_t *seat); /* unlinks, too */

/* ---- jobs.c ------------------------------------------------------------------------------------------------------ */

/* What a step counts for in its tick. What is over with its first look is not free either: a client may ask for
 * thousands at once. */
#define JOB_STEP 16u
#define JOB_LAST (JOB_STEP / 2) /* the step that a job is over with */
#define JOB_LOOK (JOB_STEP / 4) /* many subjects or messages, over at once */
#define JOB_GLANCE 1u           /* one message, found at once */

/* Work on a stream in bounded steps; the first member of a struct of the owner's. */
struct job {
    job_t *next;
    stream_t *stream;
    bool refusable;                           /* a client asks: may be told that there are too many */
    bool (*step)(plane_t *plane, job_t *job); /* true: over, and answered */
    /* frees it. STATUS_OK: over; STATUS_NOT_FOUND: the stream goes; STATUS_FULL: too many (refusable), to be answered
 */
    void (*end)(plane_t *plane, job_t *job, status_t status);
};
void job_start(plane_t *plane, job_t *job); /* it may be gone when this returns */
bool job_turn(const plane_t *plane);        /* has this tick a step left? */
/* it has not, and there is no room to wait: job_wait would end it at once */
bool job_refused(const plane_t *plane, const account_t *account);
void job_wait(plane_t *plane, job_t *job); /* the same for one that has made its first step */
void jobs_step(plane_t *plane);
void jobs_forget(plane_t *plane, const stream_t *stream);

#define SEARCH_MESSAGES 8192u /* one step looks at so many messages, or subjects */
#define SEARCH_SUBJECTS 4096u

/* The newest message of a subject or pattern, or the next one from a sequence on, among those on disk. Begun with zeros
 * but for the first three. The answer to `next` is that of the moment of the last step; to `last`, one that is there
 * then, and none that was there all the while is newer. */
typedef struct search {
    bytes_t pattern; /* the caller's; empty = every message (next only) */
    uint64_t from;
    bool last;
    bool bounding;
    uint32_t tries;
    uint64_t bound;
    store_newest_t newest;
} search_t;
/* STATUS_AGAIN: not known yet */
LEAF_MUST_USE status_t search_step(const stream_t *stream, search_t *search, stored_message_t *out);
void search_end(search_t *search);

/* ---- stream_jobs.c ----------------------------------------------------------------------------------------------- */

void stream_state(plane_t *plane, const plane_command_t *command, stream_t *stream);
void stream_purge(plane_t *plane, const plane_command_t *command, stream_t *stream);
void message_get(plane_t *plane, const plane_command_t *command, stream_t *stream);
void message_delete(plane_t *plane, const plane_command_t *command, stream_t *stream);

/* The targets. publication: as routed. */
void js_publish(plane_t *plane, stream_t *stream, const publication_t *publication);
void js_direct(plane_t *plane, stream_t *stream, const publication_t *publication);
void js_next(plane_t *plane, consumer_seat_t *seat, const publication_t *publication);
void js_ack(plane_t *plane, consumer_seat_t *seat, const sink_t *sink, const publication_t *publication);
void js_flow(plane_t *plane, consumer_seat_t *seat, const sink_t *sink, const publication_t *publication);
void ingest_frame(plane_t *plane, ingest_t *ingest, const publication_t *publication);

consume_out_t js_consume_out(plane_t *plane);
void consumer_in(plane_t *plane, const plane_command_t *command, stream_t *stream); /* CONSUMER_IMPORT */

/* ---- js_publish.c ------------------------------------------------------------------------------------------------ */

/* Why a message was not taken, as a PubAck tells it. */
typedef struct refusal {
    uint32_t code; /* 0 = none */
    uint32_t err_code;
    const char *text;
    bytes_t detail; /* behind the text */
    bool quoted;    /* the detail is shown in quotes */
} refusal_t;

typedef struct taken {
    refusal_t refusal; /* code 0: taken, and appended says as what. Slices live as long as the message and this */
    appended_t appended;
    uint8_t digits[20];
} taken_t;

/* Reads the headers, checks, appends. Answers nobody. */
void js_take(plane_t *plane, stream_t *stream, const message_t *message, taken_t *taken);
/* What a rollup takes out beyond its first step goes in the steps of a job; the PubAck (reply empty: none) comes when
 * it is done. */
void js_roll(plane_t *plane, stream_t *stream, const taken_t *taken, bytes_t reply);
/* What the store would refuse first, so that it wins over what the headers say. NULL: nothing. */
const refusal_t *js_refused_outright(const stream_t *stream, const message_t *message);
void js_answer_refused(plane_t *plane, const stream_t *stream, bytes_t reply, const refusal_t *refusal);
void js_add_refusal(text_t *text, const refusal_t *refusal); /* "error":{...} */

extern const refusal_t refused_ttl_off;
/* A message of the server's own: what clients may not say in their headers is not looked at. */
void js_take_inside(plane_t *plane, stream_t *stream, const message_t *message, taken_t *taken);

/* ---- js_schedule.c ----------------------------------------------------------------------------------------------- */

/* What the "Nats-Schedule..." headers of a message order. */
typedef struct schedule_order {
    int64_t due_ts;  /* a schedule, and its first time; 0 = none */
    bool add_rollup; /* it is to say that it replaces an earlier one */
    bytes_t ends;    /* the subject of a schedule that ends with this message */
} schedule_order_t;
/* Checks as the reference does. NULL: nothing to refuse. */
const refusal_t *js_schedule_read(plane_t *plane, const stream_t *stream, const message_t *message,
                                  schedule_order_t *order);
void js_schedule_end(stream_t *stream, bytes_t subject);                                   /* purges the schedule */
bool js_schedule_due(void *context, store_stream_t *stored, uint64_t seq, int64_t due_ts); /* the store's hook */

/* ---- js_fast.c --------------------------------------------------------------------------------------------------- */

bool js_in_fast_batch(bytes_t reply); /* the message says that it belongs to one */
void js_fast(plane_t *plane, stream_t *stream, const message_t *message);
void js_fast_chores(plane_t *plane); /* drops what was silent for long */
void js_fast_forget(plane_t *plane, const stream_t *stream);

/* ---- js_append.c ------------------------------------------------------------------------------------------------- */

/* Stores a message, renamed and published again as its stream wants it. May change the append's skip. */
appended_t js_append(plane_t *plane, stream_t *stream, append_t *append);
/* Under which subject that would be stored; *out may hold it. Empty: none that fits. */
bytes_t js_stored_subject(plane_t *plane, const stream_t *stream, bytes_t subject, text_t *out);
/* texts: source and destination of the stored subject, then those of what is published again; an empty destination is
 * none, and *out NULL when both are. STATUS_INVALID: no such transform. */
LEAF_MUST_USE status_t rewrite_new(const bytes_t texts[4], bool headers_only, stored_rewrite_t **out);
void rewrite_free(stored_rewrite_t *rewrite);
/* The subject's new name, in out; itself when the transform is not for it; empty when the name is too long. */
bytes_t js_transformed(plane_t *plane, const transform_t *transform, bytes_t subject, text_t *out);

/* Holds a message until the stream's open batch is on disk (memory streams: until the tick ends). */
void js_hold(plane_t *plane, const stream_t *stream, bytes_t subject, bytes_t header, bytes_t payload);

void ingest_chores(plane_t *plane); /* silence */
int64_t ingest_next_deadline(const plane_t *plane);
void ingest_stream_removed(plane_t *plane, const stream_t *stream);
void ingest_free_all(plane_t *plane);

#endif
