/* host.h: what JetStream needs of the plane around it: subjects to listen to, somebody who publishes and delivers, a
 * way to wake up. All that jetstream/ knows of the plane is this table of functions, set once at the start; a test has
 * a small one of its own (tests/native/js_rig.h).
 *
 * Every function runs in the plane's thread and returns at once. What JetStream publishes reaches its own targets at
 * the next tick only: no function here leads back into JetStream, but release (see there).
 */
#ifndef LEAFD_JETSTREAM_HOST_H
#define LEAFD_JETSTREAM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "consume/consume.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "store/allowance.h"
#include "text/hash8.h"

/* JetStream's knowledge of an account. The host's own account begins with it. */
typedef struct js_account {
    uint32_t id;
    uint32_t job_count; /* jobs.c: of its streams, that wait for their next step */
    uint8_t hash8[HASH8_SIZE];
    bool tiered;             /* its limits are by number of replicas */
    allowance_t stored[2];   /* by store: what its streams may have, and have */
    allowance_t (*tiers)[2]; /* likewise, by number of replicas less one; NULL: it never had such limits */
} js_account_t;

/* The purpose of a message that comes to a target: which function of js.h the host calls. */
typedef enum js_role {
    JS_PUBLISH = 0, /* js_publish, object: stream_t */
    JS_DIRECT,      /* js_direct, stream_t */
    JS_DIRECT_ANY,  /* likewise: one of the servers that listen so gets it (JS_DIRECT_GROUP) */
    JS_NEXT,        /* js_next, consumer_binding_t */
    JS_ACK,         /* js_ack, consumer_binding_t */
    JS_FLOW,        /* js_flow, consumer_binding_t */
    JS_INGEST,      /* ingest_frame, ingest_t */
} js_role_t;

#define JS_DIRECT_GROUP "_sys_" /* the queue group, as in the reference */

typedef struct sink sink_t; /* the host's: one target */
typedef struct stream stream_t;

/* The effect of a schedule when it fires, and the author in whose name it acts. */
typedef struct js_scheduled {
    bytes_t author;
    bytes_t subject; /* the schedule's own */
    bytes_t target;
    bytes_t source; /* empty: none */
    uint64_t stream;
} js_scheduled_t;
/* ASKED: as UNKNOWN, of whom control was asked a moment ago. */
typedef enum js_right { JS_RIGHT_UNKNOWN = 0, JS_RIGHT_YES, JS_RIGHT_NO, JS_RIGHT_ASKED } js_right_t;

typedef struct js_host {
    js_account_t *(*account)(plane_t *plane, uint32_t id); /* NULL: there is none */
    /* A target: object gets what is published to subject. link: by which alone that can come, so that no other one is
     * told; 0: from anywhere. An error leaves *out as it was. */
    status_t (*listen)(plane_t *plane, js_account_t *account, js_role_t role, bytes_t subject, uint64_t link,
                       void *object, sink_t **out);
    void (*unlisten)(plane_t *plane, sink_t *sink);
    bytes_t (*subject)(const sink_t *sink); /* what it listens to */
    /* An answer that waits for nothing. */
    void (*publish)(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                    bytes_t payload);
    /* A status of a consumer: it comes behind what that has delivered. */
    void (*status)(plane_t *plane, js_account_t *account, const flow_t *flow, bytes_t subject, bytes_t reply,
                   bytes_t header);
    delivered_t (*deliver)(plane_t *plane, js_account_t *account, const delivery_t *delivery);
    /* The same to a binding's receiver. */
    delivered_t (*receive)(plane_t *plane, void *receiver, const delivery_t *delivery);
    /* A stream was opened, or is about to go: what the host has in it does so, too. May be NULL. */
    void (*opened)(plane_t *plane, stream_t *stream);
    void (*removed)(plane_t *plane, stream_t *stream);
    /* Likewise this server leads the group of a stream now, or does so no more. true: the host has consumers of its own
     * there, and says when they are here (replicated_host_made). */
    bool (*led)(plane_t *plane, stream_t *stream);
    void (*lost)(plane_t *plane, stream_t *stream);
    bool (*interest)(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t group);
    /* Does anybody but JetStream have that very subject, without wildcards? */
    bool (*exact_interest)(plane_t *plane, js_account_t *account, bytes_t subject, bytes_t group);
    /* A held message whose batch is on disk. This one may lead to js_publish: its subject may be a stream's. */
    void (*release)(plane_t *plane, const held_entry_t *entry);
    /* For how long that link has brought something, ever: an outage does not count. -1: there is no such link. */
    int64_t (*heard)(plane_t *plane, uint64_t link);
    /* When anything came by that link last (mono); 0: there is no such link. */
    int64_t (*heard_at)(plane_t *plane, uint64_t link);
    /* The time over that link, there and back, without queues; 0: not known. */
    int64_t (*round_trip)(plane_t *plane, uint64_t link);
    /* An advisory for control: is there room, asked before it is made; the advisory, gone either way. */
    bool (*advisory_room)(plane_t *plane);
    void (*advise)(plane_t *plane, event_entry_t *entry);
    /* May its author still do that? */
    js_right_t (*may_fire)(plane_t *plane, const js_account_t *account, const js_scheduled_t *schedule);
    /* A turn is due when fd is readable. */
    status_t (*watch)(plane_t *plane, uint32_t which_store, int fd);
    uint32_t answer_flags;    /* of held_entry_t: what js_hold gives release .. */
    uint32_t republish_flags; /* .. and js_hold_republished */
} js_host_t;

#endif
