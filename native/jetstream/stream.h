/* stream.h: a stream and the bindings of its consumers, as the commands of control define them. A binding is what
 * JetStream keeps of a consumer beside the consumer itself: the targets by which messages reach it.
 *
 * The store keeps the messages, consume/ decides about deliveries.
 */
#ifndef LEAFD_JETSTREAM_STREAM_H
#define LEAFD_JETSTREAM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "jetstream/host.h"
#include "store/store.h"

#define STREAM_SUBJECTS_MAX 32768u

typedef struct js js_t;
typedef struct stream stream_t;
typedef struct stored_rewrite stored_rewrite_t; /* append.c */
typedef struct replicated replicated_t;         /* replicated.c */

/* One consumer's targets. NULL: it has no such subject. Owned by its stream's list; consumer_owner() of consume/ points
 * here. */
typedef struct consumer_binding {
    consumer_t *consumer;
    stream_t *stream;
    uint32_t id;
    sink_t *next;   /* $JS.API.CONSUMER.MSG.NEXT.<stream>.<consumer> */
    sink_t *ack[2]; /* v1, v2 */
    sink_t *flow[2];
    event_entry_t *farewell; /* EVENT_CONSUMER_GONE, made with the binding, so that it cannot fail */
    bool direct;             /* made by a mirror or source: no client is told of it */
    void *receiver;          /* the host's, which gets what it delivers; NULL: subscribers of its subject do */
    struct consumer_binding *next_binding;
    struct consumer_binding **place; /* what points to it in its stream's list */
} consumer_binding_t;

struct stream {
    uint32_t id;
    uint32_t which_store;
    js_account_t *account;
    store_stream_t *store;
    stream_config_t config;
    bytes_t name; /* own copies */
    bytes_t domain;
    bytes_t ack_prefix;   /* {"stream":"S","domain":"D","seq": */
    bytes_t error_suffix; /* ,"stream":"S","domain":"D","seq":0} */
    sink_t **subjects;
    uint32_t subject_count;
    replicated_t *replicated;  /* NULL: this server alone keeps it */
    struct later *later;       /* publishes that wait for a look of the store, NULL = none */
    stored_rewrite_t *rewrite; /* NULL: stored under the subject it came with, not published again */
    sink_t *direct[2];         /* $JS.API.DIRECT.GET.<stream> and .> */
    int64_t quiet_until_ns;    /* loaded at start: until then its consumers may not be loaded yet */
    uint32_t fast_count;       /* open fast batches, fast.c */
    uint32_t atomic_count;     /* open atomic batches, atomic.c */
    consumer_binding_t *bindings;
    uint32_t binding_count;
    uint32_t direct_count; /* of these */
    bool half;             /* of a copy that is on its way: what is there is the state of no moment */
    bool full;             /* it refused what a copy brought (ingest_refused.c), with that many messages and bytes */
    uint64_t full_messages;
    uint64_t full_bytes;
    stream_t *next_full;
};

stream_t *stream_find(js_t *js, uint64_t id);
void stream_free(js_t *js, stream_t *stream); /* targets, bindings, memory; nothing durable */
/* Its subjects, packed as a command has them, and its direct gets: it gets what is published there; or nothing more. */
LEAF_MUST_USE status_t stream_listen(js_t *js, stream_t *stream, bytes_t subjects);
void stream_unlisten(js_t *js, stream_t *stream);
/* Its direct gets alone, if it allows any. */
void stream_answer_gets(js_t *js, stream_t *stream, bool answers);
void stream_state_of(const stream_t *stream, stream_state_t *state);
consumer_binding_t *binding_find(js_t *js, const stream_t *stream, uint64_t id);
void binding_free(js_t *js, consumer_binding_t *binding); /* unlinks, too */

#endif
