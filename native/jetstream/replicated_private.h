/* replicated_private.h: a stream that several servers keep, for the files that make it: replicated.c, which asks its
 * log and listens, replicated_group.c, which has what is asked of the group and the definition, replicated_consumers.c,
 * which has its consumers, replicated_batches.c, which has batches, replicated_schedules.c, which has schedules, and
 * replicated_sources.c, which has what mirrors and sources bring.
 */
#ifndef LEAFD_JETSTREAM_REPLICATED_PRIVATE_H
#define LEAFD_JETSTREAM_REPLICATED_PRIVATE_H

#include "group/replica.h"
#include "jetstream/asked.h"
#include "jetstream/queued.h"
#include "jetstream/replicated.h"

/* In a queue of those who wait: of a command it, and of ASKED_DONE also its answer, arg (8) and payload; of ASKED_SAY
 * the subject (4: its size) and the header, of ASKED_TELL it and the payload; of ASKED_BATCH how many messages (4), the
 * batch's id (4: its size) and the reply; of ASKED_FAST what fast.c put there; of ASKED_TAKEN the run (8); of
 * ASKED_CREDIT the run (8), and what ASKED_SAY has; of ASKED_STOP what replicated_sources.c put there. In `taken` also
 * what is to be proposed: behind the run of ASKED_TAKEN, and behind the command of ASKED_FORGET. */
typedef enum asked_what {
    ASKED_PUBLISH = 1,
    ASKED_DELETE,
    ASKED_PURGE,
    ASKED_SAY,
    ASKED_DONE,
    ASKED_DEFINE,
    ASKED_TAKEN,
    ASKED_FORGET,
    ASKED_BATCH,
    ASKED_FAST,
    ASKED_TELL,
    ASKED_CREDIT,
    ASKED_STOP
} asked_what_t;

#define LACKS_AGAIN_NS (NS_PER_SECOND / 4)

/* Thousands of streams are at rest while one is written to, so a tick goes to those alone that have something to do. */
typedef enum replicated_row {
    ROW_TURNS = 0, /* its group has news, or something of it waits */
    ROW_CHANGES,   /* changes of consumers, or what waits for them */
    ROWS
} replicated_row_t;

struct replicated {
    js_t *js;
    stream_t *stream;
    replica_t *replica;
    group_t *group;    /* NULL: STREAM_GROUP has not come */
    bytes_t subjects;  /* own copy, packed */
    bool leads;        /* and listens */
    bool untold;       /* control does not know yet that it leads no more */
    bool complete;     /* all its consumers are here, since it leads: */
    bool control_made; /* those that control makes .. */
    bool host_makes;   /* .. and the host has yet to make its own */
    uint32_t lead;     /* one more with each lead of this server */
    uint64_t led_from; /* the first sequence of this lead */
    int64_t listen_ns;
    int64_t behind_ns;   /* a follower answers direct gets until then, though it is behind; INT64_MAX: it is not */
    queued_t queued;     /* what is published while the log has no room */
    asked_queue_t asked; /* what waits for an answer of the log */
    asked_queue_t held;  /* what is to be proposed with the next changes of consumers, and waits for them */
    asked_queue_t taken; /* of a mirror or sources: not proposed yet */
    bool lacks;          /* the account, or the disks, may not have the first of these yet */
    uint32_t defining;   /* definitions that are on their way */
    buffer_t packed;     /* the next of these */
    buffer_t riding;     /* writes that go with the next message (replicated_ride) */
    buffer_t ripe;       /* schedules that are due, at the leader (ripe_t) */
    bytes_t counted;     /* the value of the counter that was applied last; until it is answered */
    int64_t due_ns;      /* when it has something to do by itself */
    bool in_row[ROWS];
    replicated_t *row_next[ROWS];
    replicated_t *next;
    replicated_t **place;
};

/* replicated_rows.c */
/* It gets a turn of that row. */
void replicated_wake(replicated_t *replicated, replicated_row_t row);
/* All that were woken, which have their turn now; takes one after the other. NULL: that was all. */
replicated_t *replicated_row(js_t *js, replicated_row_t row);
replicated_t *replicated_next_of(replicated_t **left, replicated_row_t row);
/* It has a turn at that time, or before it. */
void replicated_due(replicated_t *replicated, int64_t due_ns);
/* Wakes those that are due. */
void replicated_wake_due(js_t *js);
/* Before it goes. */
void replicated_unrow(replicated_t *replicated);

/* replicated.c */
/* The token to propose a command with; 0: it is answered. Then that it was proposed, or was not: before is asked_size
 * before the first call. */
uint64_t replicated_begin(js_t *js, const plane_command_t *command, replicated_t *replicated, asked_what_t what);
void replicated_proposed(js_t *js, const plane_command_t *command, replicated_t *replicated, uint64_t before,
                         status_t status);
/* A client's message. words: of a fast batch (replicated_fast). STATUS_AGAIN: the log has no room. STATUS_INVALID: it
 * never takes such a one. STATUS_FULL: the account may not have it. STATUS_NO_SPACE: this server's disk, or those of a
 * majority, are full. */
status_t replicated_propose(js_t *js, stream_t *stream, const append_t *append, asked_what_t what, bytes_t asker,
                            bytes_t words);
bool replicated_proposes(const replicated_t *replicated);
/* What was put in `asked` is proposed, or is taken back: before is asked_size before it. */
void replicated_went(replicated_t *replicated, uint64_t before, status_t status);
/* Nobody of these waits for the log any more. */
void replicated_forget(js_t *js, asked_queue_t *queue);
/* What is to be said: a client's, or another server's. */
void replicated_say_now(const replicated_t *replicated, bytes_t bytes); /* the bytes of an ASKED_SAY */
LEAF_MUST_USE status_t replicated_say(replicated_t *replicated, asked_queue_t *queue, bytes_t subject, bytes_t header);
LEAF_MUST_USE status_t replicated_tell_host(replicated_t *replicated, bytes_t subject, bytes_t payload); /* `held` */
/* Likewise to an origin, for what a run has taken: the bytes of an ASKED_CREDIT. */
void replicated_credit_now(const replicated_t *replicated, bytes_t bytes);

/* replicated_group.c */
/* replica_hooks_t's. */
bool replicated_define(void *context, bytes_t definition);

/* replicated_batches.c */
/* Of one that has been applied, or is refused: the bytes of an ASKED_BATCH. */
void replicated_answer_batch(js_t *js, const stream_t *stream, bytes_t bytes, const appended_t *appended);

/* replicated_schedules.c */
#define RIPE_AGAIN_NS (50 * NS_PER_MS) /* until somebody has most likely answered who was asked about a right */
/* replica_hooks_t's. */
bool replicated_ends(void *context, const append_t *append);
bool replicated_end(void *context, const append_t *append);
/* What is ripe, before the log's time goes on. */
void replicated_fire_ripe(js_t *js, replicated_t *replicated);

/* replicated_sources.c */
void replicated_propose_taken(js_t *js, replicated_t *replicated);
/* The bytes of an ASKED_STOP. replicated NULL: the stream goes. */
void replicated_answer_stop(js_t *js, const replicated_t *replicated, bytes_t bytes);

/* replicated_consumers.c */
/* EVENT_LED. false: there is no memory. */
bool replicated_tell(const replicated_t *replicated, uint32_t code, uint32_t consumer, bytes_t definition);
/* Tells control all consumers. false: they cannot be read now, or there is no memory. */
bool replicated_tell_consumers(replicated_t *replicated);
void replicated_lose_consumers(js_t *js, replicated_t *replicated);
/* Control is told that it leads no more, as soon as there is memory. */
void replicated_tell_lost(replicated_t *replicated);

#endif
