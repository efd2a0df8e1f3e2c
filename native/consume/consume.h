/* consume.h: JetStream consumers as a sans-IO machine over the store: cursors, pending acks, redelivery, pull requests,
 * push with flow control and heartbeats, retention by interest. Knows the store and the time it is given; knows no
 * connection and no account. What it sends (messages, and statuses as header blocks) goes through consume_out_t, which
 * plane/ implements.
 *
 *   plane: pull request, ack, flow reply, interest change, messages visible, time --> consume --> deliver, status,
 *   advisory
 *
 * Consumer state (floors, pending) is written to the store's open batch (store_record_put) before store_tick by
 * consume_flush, so it is in the same journal record as the acks' other effects.
 * Reference: tests/wire/jetstream.md, "Consumers" to "Push consumers".
 */
#ifndef LEAFD_CONSUME_CONSUME_H
#define LEAFD_CONSUME_CONSUME_H

#include "base/abi_types.h"
#include "base/clock.h"
#include "base/share.h"
#include "store/record.h"
#include "store/store.h"

typedef struct consume consume_t;
typedef struct consumer consumer_t;

/* The order of one consumer: the receiver of messages and statuses of one flow gets them in their order. */
typedef struct flow {
    uint64_t id;    /* no other consumer's; not below FLOW_FIRST */
    bytes_t stream; /* its name; empty: the consumer has gone */
    uint64_t left;  /* messages behind this one; FLOW_LEFT_UNKNOWN: of a status */
    uint64_t size;  /* of this one, header and payload */
} flow_t;
#define FLOW_FIRST (UINT64_C(1) << 32)
#define FLOW_LEFT_UNKNOWN UINT64_MAX

typedef struct delivery {
    consumer_t *consumer;
    flow_t flow;
    bytes_t to;      /* deliver subject, or the pull request's reply */
    bytes_t group;   /* deliver group, push only */
    bytes_t subject; /* as stored; what the client is shown */
    bytes_t reply;   /* $JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<ts>.<pending> */
    bytes_t header;  /* with Nats-Msg-Size when headers_only */
    bytes_t payload;
} delivery_t;

typedef enum delivered {
    DELIVERED = 0,
    DELIVERED_NO_INTEREST, /* nobody subscribes `to` now */
    DELIVERED_FULL,        /* the receiver's queue is above its high-water mark: stop, and go on in a later tick */
} delivered_t;

typedef struct consume_out {
    void *context;
    delivered_t (*deliver)(void *context, const delivery_t *delivery);
    /* A header-only message (statuses, heartbeats, flow control requests); reply may be empty. */
    void (*status)(void *context, uint32_t account, const flow_t *flow, bytes_t to, bytes_t reply, bytes_t header);
    /* Is there a live subscription matching `subject`? group empty: a plain one; otherwise a queue subscription of that
     * name. */
    bool (*interest)(void *context, uint32_t account, bytes_t subject, bytes_t group);
    /* Likewise, but to exactly that subject: a subscription with wildcards does not count. */
    bool (*exact_interest)(void *context, uint32_t account, bytes_t subject, bytes_t group);
    void (*advise)(void *context, consumer_t *consumer, uint32_t advisory, const advisory_t *numbers, bytes_t text);
    /* An ephemeral's inactivity threshold passed: consume has removed it (its records too) just now. */
    void (*gone)(void *context, uint32_t stream, uint32_t consumer, uint64_t taken);
    /* Of a stream that several servers keep (STREAM_REPLICATED), who agree on it first: a write, and the removal of a
     * message, which is there until they do. Any status but STATUS_OK: later. */
    status_t (*record)(void *context, uint32_t stream, const record_change_t *change);
    status_t (*remove)(void *context, uint32_t stream, uint64_t seq);
    /* Of such a stream: all its consumers are here, so that it is known what none of them needs. */
    bool (*complete)(void *context, uint32_t stream);
    /* Of such a stream: how many messages may still come that a consumer was found to want, or not, before. */
    uint64_t (*coming)(void *context, uint32_t stream);
} consume_out_t;

/* memory: of pull requests that wait and of deliveries that are not acknowledged, the caller's as long as it lives.
 * When it is full, each consumer may have a few of either and no more. NULL: no memory. */
consume_t *consume_new(const consume_out_t *out, share_t *memory);
void consume_free(consume_t *consume);
/* The store's hooks that keep the counts exact; plane/ registers them. */
store_hooks_t consume_store_hooks(consume_t *consume);

typedef struct consumer_setup {
    uint32_t stream_id;
    uint32_t id;
    bytes_t stream_name;
    bytes_t name;
    bytes_t deliver_subject;
    bytes_t deliver_group;
    bytes_t priority_groups; /* names, a blank between two */
    const int64_t *backoff_ns;
    uint32_t backoff_count; /* at most CONSUME_BACKOFF_MAX */
    filters_t filters;
    consumer_config_t config;
} consumer_setup_t;
#define CONSUME_BACKOFF_MAX 64
/* Beside abi.h's CONSUMER_*: a session's, whose receiver says when it is there. */
#define CONSUMER_ATTENDED (UINT32_C(1) << 31)
#define PIN_ID_SIZE 22u

/* New (start position by policy), or loaded (loading: state from the store's records). Copies what setup points to. No
 * delivery happens before the next consume_tick, so consumer_snapshot right after it is the state "before any
 * delivery". */
LEAF_MUST_USE status_t consumer_add(consume_t *consume, store_stream_t *stream, const consumer_setup_t *setup,
                                    bool loading, moment_t now, consumer_t **out);
LEAF_MUST_USE status_t consumer_configure(consumer_t *consumer, const consumer_setup_t *setup, moment_t now);
/* Removes its records and answers waiting pulls with 409 Consumer Deleted; re-evaluates interest retention. */
void consumer_remove(consumer_t *consumer, moment_t now);
/* Out of every list, freed; no statuses, and its records stay: one that is stored can be loaded again. */
void consumer_destroy(consumer_t *consumer);
consumer_t *consume_find(consume_t *consume, uint32_t stream_id, uint32_t consumer_id);
void consume_stream_removed(consume_t *consume, uint32_t stream_id, moment_t now); /* all its consumers */
/* Likewise, and their records stay: another server goes on with them. */
void consume_stream_left(consume_t *consume, uint32_t stream_id, moment_t now);
/* What is written of a consumer's position, also where another server leads it. ENTRY_NONE: nothing yet. */
LEAF_MUST_USE entry_outcome_t consume_stored(store_t *store, uint32_t stream_id, uint32_t consumer_id,
                                             stored_consumer_t *out);
void consumer_snapshot(consumer_t *consumer, moment_t now, consumer_state_t *out);
/* The same of one of many; the budget pays for what it looks at. False: the count of messages left is not known. */
bool consumer_glance(consumer_t *consumer, moment_t now, uint32_t *budget, consumer_state_t *out);
/* One bounded step of counting the messages that are left. True: the count is known, and a snapshot is cheap. Nothing
 * is delivered before that, so the count is as of that moment, and the count of each delivery follows from it. */
bool consumer_counted(consumer_t *consumer);
/* The answer to its creation waits for that count: its client knows of it only then, and its inactivity begins then. */
void consumer_await(consumer_t *consumer);
void consumer_set_owner(consumer_t *consumer, void *owner);
void *consumer_owner(const consumer_t *consumer);
const consumer_setup_t *consumer_setup(const consumer_t *consumer);

/* CONSUMER.MSG.NEXT: body as the client sent it; answers statuses through out. */
void consumer_pull(consumer_t *consumer, bytes_t reply, bytes_t body, moment_t now);
/* An ack on $JS.ACK: tokens already taken apart by plane/. *answer: send an empty message to the ack's reply once the
 * open batch is durable. +NXT pulls to `reply`. */
void consumer_ack(consumer_t *consumer, uint64_t stream_seq, uint64_t consumer_seq, uint64_t delivered, bytes_t body,
                  bytes_t reply, moment_t now, bool *answer);
/* A publish on $JS.FC.<stream>.<consumer>.<id>; header may carry Nats-Last-Stream (ack policy flow_control). */
void consumer_flow_reply(consumer_t *consumer, bytes_t id, bytes_t header, moment_t now);
void consumer_pause(consumer_t *consumer, int64_t until_wall_ns, moment_t now);
/* The client that is pinned is so no longer; the next client that pulls is. */
void consumer_unpin(consumer_t *consumer, moment_t now);
/* A copy at the other end of a link wants heartbeats only so often, ns, and is told when the consumer is removed. */
void consumer_spare(consumer_t *consumer, int64_t interval_ns, moment_t now);
/* CONSUMER_ATTENDED: its receiver has come, and gets again all that it has not acknowledged; or it has gone. */
void consumer_attend(consumer_t *consumer, int32_t max_ack_pending, int64_t ack_wait_ns, moment_t now);
void consumer_leave_alone(consumer_t *consumer, moment_t now);
void consumer_again(consumer_t *consumer, uint64_t seq, moment_t now); /* delivers one that is pending */
void consumer_go_on(consumer_t *consumer, moment_t now);               /* its receiver was full and is not any more */
/* So many messages, and so many bytes of them, may wait for one of these, beside what is in flight; it passes over the
 * oldest. 0 = no bound. */
void consume_bound(consume_t *consume, uint32_t most, uint64_t most_bytes);
uint64_t consume_passed_over(const consume_t *consume);  /* since the start */
void consumer_begin(consumer_t *consumer, moment_t now); /* one that CONSUMER_HELD made wait may deliver */
/* The id of the pinned client, empty when no client is pinned; valid until the next call that is given a time. */
bytes_t consumer_pin_id(const consumer_t *consumer);
LEAF_MUST_USE status_t consumer_reset(consumer_t *consumer, uint64_t seq, moment_t now, uint64_t *reset_seq);

/* The messages in flight above stream sequence `after`, in ascending order, at most max rows; returns their number. */
uint32_t consumer_export(consumer_t *consumer, uint64_t after, moment_t now, pending_entry_t *rows, uint32_t max);
/* Gives a consumer that has delivered nothing the position of another one, in steps: the four positions of state; its
 * rows in ascending order, [from, upto) of them at a time; the end. It delivers nothing before the end. Rows of
 * messages that are not there are left out. On failure it is to be removed. */
LEAF_MUST_USE status_t consumer_import(consumer_t *consumer, const consumer_state_t *state, moment_t now);
LEAF_MUST_USE status_t consumer_import_rows(consumer_t *consumer, const pending_entry_t *rows, uint32_t from,
                                            uint32_t upto, moment_t now);
/* All rows that came until now are in a batch. */
bool consumer_import_stored(const consumer_t *consumer);
void consumer_import_end(consumer_t *consumer, moment_t now);

/* Does any consumer of the stream want this subject? (interest retention, asked before the append) */
bool consume_wanted(consume_t *consume, uint32_t stream_id, bytes_t subject);
/* Visits those that do; false from visit ends it. */
void consume_each_wanting(consume_t *consume, uint32_t stream_id, bytes_t subject,
                          bool (*visit)(void *context, consumer_t *consumer), void *context);
/* Messages from this one on were taken in before it was known who wants them: those that nobody does are removed. */
void consume_judge(consume_t *consume, uint32_t stream_id, uint64_t from);
/* The visible end of the stream moved. Cheap; work is done in consume_tick. */
void consume_advanced(consume_t *consume, store_stream_t *stream);
/* Interest somewhere changed (subscription added or removed, link up or down): look again at push and waiting pulls. */
void consume_interest_changed(consume_t *consume);
/* The queue of a receiver that was full has drained. */
void consume_unblocked(consume_t *consume);
/* Deliver, redeliver, expire requests, heartbeats, inactivity. Bounded; *again: there is more to do at once. */
void consume_tick(consume_t *consume, moment_t now, bool *again);
int64_t consume_next_deadline(const consume_t *consume); /* mono ns, INT64_MAX = none */
/* What the stream's consumers have delivered goes with the next flush, and does not wait for its time. */
void consume_settle(consume_t *consume, uint32_t stream_id);
/* Writes dirty consumer states into the stores' open batches. Call before store_tick. */
void consume_flush(consume_t *consume);
bool consume_flushed(const consume_t *consume); /* the last flush stored all that it was to store */
/* Orderly stop: 409 Server Shutdown to waiting pulls, states flushed. */
void consume_shutdown(consume_t *consume, moment_t now);
uint64_t consume_count(const consume_t *consume);
/* For tests, at the end of any turn: do each consumer's positions fit together, by going over all of them? */
bool consume_sound(const consume_t *consume);

#endif
