/* private.h: the structures that the files of this room share, and what each file does.
 *
 *     consume.c     the room: stream groups, hooks, timers, ready list, tick
 *     concern.c/h   which consumers of a stream a subject concerns
 *     consumer.c    one consumer's life: add, configure, start position, counts, snapshot, pause, removal
 *     deliver.c/h   the delivery loop and redelivery timers
 *     pull.c/h      requests and their statuses          push.c/h interest, heartbeats, flow control
 *     line.c/h      in which order they are served       priority.c/h which of them may be, and who is pinned
 *     ack.c         the verbs                            retention.c  which messages nobody needs any more
 *     state.c/h     the stored bytes                     pending.c/h  what is in flight
 *     transfer.c    positions for backups            leave.c/h    messages that leave the stream
 *     copy.c/h      how far an acknowledging copy is reset.c      to another sequence; bound.c/h: too many wait
 *
 * A consumer with something to do is in the ready list, one whose receiver is full in the blocked list. One for which
 * there is a message that cannot be seen yet is in its group's list of those that go on later: a batch wakes those whom
 * it concerns. All others wait for an event or for their timer. Timers are lazy: `due_ns` is never later than the true
 * deadline, may be earlier, and firing computes it anew; so a delivery that only postpones a deadline touches no heap.
 */
#ifndef LEAFD_CONSUME_PRIVATE_H
#define LEAFD_CONSUME_PRIVATE_H

#include "base/buffer.h"
#include "base/check.h"
#include "base/leftover.h"
#include "base/table.h"
#include "base/visits.h"
#include "consume/concern.h"
#include "consume/consume.h"
#include "consume/pending.h"
#include "consume/priority.h"
#include "consume/pull.h"
#include "consume/push.h"

#define NEVER INT64_MAX

#define QUANTUM_MESSAGES 1024   /* messages in one consumer's turn */
#define QUANTUM_BYTES (1 << 20) /* likewise */
#define TICK_MESSAGES 2048      /* of all consumers together; then the plane serves its sockets */
#define TICK_TIMERS 4096        /* timers fired in one tick */
#define SCAN_BUDGET 4096        /* messages that a filter may pass over in one turn */
#define COUNT_BUDGET 8192       /* messages looked at to count what is left, in one turn */
#define LEFT_STEPS_MAX 131072   /* each counts as far as it can: more are only taken where nothing gets any further */
#define SWEEP_BUDGET 512        /* messages looked at for retention in one tick and stream */
#define ENDS_A_TURN 512         /* requests told and freed, rows put back, because something ended or expired */
#define SETTLE_NS (1 * NS_PER_SECOND)     /* deliveries and progress of ack none are stored this late */
#define SWEEP_HOLD_NS (5 * NS_PER_SECOND) /* between the last loaded consumer and the start of an old sweep */
#define RETRY_NS (100 * NS_PER_MS)        /* until what memory or the store refused is tried again */
#define BLOCKED_NS (1 * NS_PER_SECOND)    /* a full receiver is tried again, in case no event says that it drained */
#define ACK_PREFIX "$JS.ACK."
#define ACK_PREFIX_SIZE(stream, name) (sizeof(ACK_PREFIX) - 1 + (stream) + 1 + (name) + 1)
#define ACK_PREFIX_MAX ACK_PREFIX_SIZE(255, 255)
#define ACK_REPLY_MAX (ACK_PREFIX_MAX + 5 * 21)
#define STATUS_MAX 512
#define NOT_ASKING UINT32_MAX
#define DEFAULT_ACK_WAIT_NS (30 * NS_PER_SECOND)

typedef struct consumer_list {
    consumer_t *head, *tail;
    uint32_t count;
} consumer_list_t;

/* The consumers of one stream. Exists from the first use until the stream is removed. */
typedef struct group {
    consume_t *consume;
    store_stream_t *stream;
    uint32_t stream_id, count, owed_count;
    uint64_t capacity, owed_capacity;
    consumer_t **consumers;
    consumer_list_t later; /* those that go on when the visible end has moved */
    concern_t *concern;
    bool strays; /* a consumer may hold what its filters do not match, see consumer_strays */
    struct group *next_sweeping;
    bool sweeping;                    /* in the list of groups with messages to look at */
    bool sweep_stored, sweep_changed; /* a sweep record is in the store; and the range grew since */
    int64_t sweep_after_ns;
    uint64_t sweep_from, sweep_upto;
    uint64_t *owed; /* in the range, acknowledged, and matched by no filter any more, ascending, see retention.c */
} group_t;

/* Last per subject: the selected sequences, ascending, then everything above `resume`. */
typedef struct selection {
    uint64_t *seqs;
    uint32_t count, next;
    uint64_t capacity;
    uint32_t lost;   /* of those from `next` on, so many have left the stream */
    uint64_t resume; /* 0 = the consumer has none */
} selection_t;

typedef struct survey survey_t; /* start.c */

typedef enum serving { SERVING_IDLE = 0, SERVING_READY, SERVING_BLOCKED, SERVING_LATER } serving_t;

struct consumer {
    consume_t *consume;
    group_t *group;
    store_stream_t *stream;
    void *owner;
    consumer_setup_t setup; /* points into `text` */
    uint8_t *text;

    uint64_t cursor;           /* next stream sequence to look at */
    uint64_t next_sequence;    /* the consumer sequence of the next delivery */
    uint64_t delivered_stream; /* highest one delivered; start - 1 before */
    uint64_t floor_consumer, floor_stream;
    int64_t last_delivered_wall_ns, last_acked_wall_ns;
    uint64_t looked;       /* in which look-up of the group's index it was asked last */
    uint64_t left, weight; /* matching messages not delivered yet, and their bytes (bound.h), valid when left_known */
    store_tally_t *tally;  /* that count, while it is being made */
    struct weighing *weighing; /* those bytes are being added up */
    survey_t *survey; /* where to start, while that is being looked for; the cursor stands before all that may be */
    bool left_known, weight_rough;
    bool awaited;    /* somebody waits for that count before the consumer is used */
    bool filter_all; /* no filter at all */
    bool refiltered; /* its filters were others when it was sent what is pending */
    bool ended;      /* the last look found nothing up to the visible end: for no_wait and replay */
    pending_t pending;
    selection_t selection;
    store_ahead_t ahead;
    pull_t *pull; /* its own, or consume.nobody_pulls */
    push_t push;

    int64_t expiry_due_ns;    /* no pending message expires before */
    int64_t expiry_last_ns;   /* last look at all of them */
    int64_t expiry_later_ns;  /* expiry_due_ns, once the look is over that is under way */
    bool expiring, again_all; /* it is; and it queues whatever is pending: consumer_deliver_again */
    bool held;                /* its creation is not answered yet */
    bool dirty;               /* in the list of those to flush */
    int64_t paused_until_ns;  /* mono, 0 = not paused */
    int64_t active_ns;        /* last activity of a client, for the inactivity threshold */
    int64_t not_before_ns;    /* replay original and rate limit: no delivery before */
    int64_t replay_sent_ns;   /* when the message before was sent */
    int64_t replay_last_ts;   /* stamp of the message before */
    uint64_t replay_upto;     /* 0 = no replay (any more) */

    uint64_t cleared_upto; /* ack all: rows up to here are acknowledged, and removed in steps */
    uint32_t clear_at;     /* rows below are to be looked at for exhausted ones; 0: none */
    bool clear_exhausted;  /* again, when that is done */
    bool clear_order;      /* those in the order */

    uint64_t settled;    /* the stored state covers the sequences up to here */
    uint64_t acked_upto; /* highest acknowledged sequence */
    int64_t settle_due_ns;
    uint64_t settle_upto; /* what is not settled up to here is to be, some with each flush; 0: nothing */
    consumer_t *next_dirty;

    int64_t due_ns;                                 /* key in the timer heap */
    uint32_t heap_index, group_index, asking_index; /* the last of consume.asking; NOT_ASKING: another one */
    serving_t serving;
    consumer_t *before, *after;
    bytes_t ack_prefix; /* of `text`; its stream's name and its own are in it */
};

struct consume {
    consume_out_t out;
    share_t *memory;
    table_t groups, consumers; /* by stream id; by stream and consumer id */
    group_t *last_group;       /* the stream of the last hook call */
    consumer_t **heap;
    uint64_t heap_count, heap_capacity;
    consumer_t **asking; /* those that wait for interest in a subject: of thousands of sessions no one does */
    uint64_t asking_count, asking_capacity;
    consumer_list_t ready, blocked;
    consumer_t *dirty;
    int64_t flush_after_ns; /* what is dirty waits for a flush, which may come from then on */
    group_t *sweeping;
    leftovers_t leftovers; /* of consumers that are gone */
    uint32_t ends_left;    /* of ENDS_A_TURN, in this turn */
    bool stopping;         /* there is no later turn */
    bool closing;          /* nobody is told anything any more */
    bool interest_changed;
    bool bound_changed;                /* all that it concerns are to be looked at */
    uint32_t waiting_most;             /* for one with CONSUMER_ATTENDED; 0 = no bound; likewise the next one */
    uint64_t weight_most, passed_over; /* bytes; and messages, since there were more */
    pull_t nobody_pulls;    /* of all push consumers, of which a session of MQTT has one: no request is ever in it */
    struct orphan *orphans; /* pending records that the next flush removes, see state.c */
    uint32_t orphan_count;
    uint64_t orphan_capacity;
    moment_t now; /* of the running or last call */
    uint64_t random;
    buffer_t header; /* for headers_only */
    buffer_t pinned; /* the header with the id of the pin */
    uint8_t reply[ACK_REPLY_MAX];
};

/* ---- consume.c --------------------------------------------------------------------------------------------------- */
group_t *group_of(consume_t *consume, uint32_t stream_id);
void consumer_ready(consumer_t *consumer);               /* marks that it has something to do, or may have */
void consumer_unblock(consumer_t *consumer);             /* ask its receiver again */
void consumer_arm(consumer_t *consumer, int64_t due_ns); /* serve it not later than due */
uint64_t consume_random(consume_t *consume);
/* into group and maps */
LEAF_MUST_USE status_t consumer_join(consume_t *consume, store_stream_t *stream, consumer_t *consumer);
/* out of them */
void consumer_leave(consumer_t *consumer);
static inline int64_t time_after(int64_t start_ns, int64_t wait_ns) {
    int64_t end;
    return __builtin_add_overflow(start_ns, wait_ns, &end) ? NEVER : end;
}
static inline int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- consumer.c -------------------------------------------------------------------------------------------------- */
static inline bool is_push(const consumer_setup_t *setup) {
    return (setup->config.flags & CONSUMER_PUSH) != 0;
}
static inline bool consumer_is_push(const consumer_t *consumer) {
    return is_push(&consumer->setup);
}
static inline bool consumer_counts(const consumer_t *consumer) { /* as interest */
    return (consumer->setup.config.flags & CONSUMER_DIRECT) == 0;
}
bool consumer_matches(const consumer_t *consumer, bytes_t subject);
bool consumer_selects(const consumer_t *consumer, uint64_t seq); /* last per subject, not delivered yet */
uint64_t consumer_left(consumer_t *consumer);                    /* counts to the end, if it can: left_known */
void consumer_recount(consumer_t *consumer);
void consumer_appended(consumer_t *consumer, uint64_t seq, uint64_t size); /* that its filters match */
bool consumer_paused(const consumer_t *consumer);
/* Fires what is due and computes the next deadline. false: the consumer is gone. */
bool consumer_on_time(consumer_t *consumer);
int64_t consumer_wait(const consumer_t *consumer, uint32_t deliveries); /* ack wait after that many */
/* Goes on behind that sequence, after so many deliveries. What it passes stays, though sweeps go over it. */
void consumer_pass(consumer_t *consumer, uint64_t seq, uint64_t deliveries);
void consumer_advise(consumer_t *consumer, uint32_t advisory, uint64_t seq, uint64_t consumer_seq, uint64_t deliveries,
                     int64_t ack_time_ns, bytes_t text);
/* The floor after an acknowledged row left the order; both sequences are the row's. */
void consumer_move_floor(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq);

/* ---- start.c ----------------------------------------------------------------------------------------------------- */
void consumer_start(consumer_t *consumer);
void survey_resume(consumer_t *consumer);                /* a loaded one: select what its state does not cover */
bool survey_step(consumer_t *consumer);                  /* true: over */
void survey_removed(consumer_t *consumer, uint64_t seq); /* it left the stream */
void survey_emptied(consumer_t *consumer);               /* all did */
void survey_again(consumer_t *consumer);
bool survey_is_new(const consumer_t *consumer);
void survey_end(consumer_t *consumer);

/* ---- ack.c ------------------------------------------------------------------------------------------------------- */
void acknowledge_upto(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq);
void clear_acked(consumer_t *consumer); /* goes on with what that left to do */
static inline bool clear_waits(const consumer_t *consumer) {
    return consumer->clear_order || consumer->clear_exhausted || consumer->clear_at > 0;
}
static inline bool row_cleared(const consumer_t *consumer, const pending_row_t *row) {
    return clear_waits(consumer) && row->seq <= consumer->cleared_upto;
}

#endif
