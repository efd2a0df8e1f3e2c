/* plane.h: the state of the plane, which all its files share. Private to plane/, verbs/, command/ and driver/.
 *
 * What the files offer each other has a header a noun: peer.h, account.h, subscription.h, publication.h,
 * interest.h, permissions.h, import.h, mapping.h, pressure.h, protocol.h, secure.h, target.h. JetStream is a room of
 * its own (jetstream/js.h), which this one embeds. Above this room: verbs/, one function a protocol verb,
 * command/, what control orders, and driver/, the tick and the thread.
 *
 *     peer.c       one connection's life                         leave.c       its end, in slices
 *     account.c    subscriptions of every kind                   trace.c       what became of one message
 *     publish.c    one message to all who want it                mapping.c     where it goes instead
 *     delivery.c   what JetStream publishes                      routed.c      the other servers of the cluster
 *     interest.c   what leaf links are told                      throttle.c    who waits while a store lags
 *     pressure.c   what each may ask of control                  memory.c      what all may take of memory
 *     output.c     who is written in a turn                      secure.c      who gets TLS
 *     import.c shadow.c cross.c reply.c                          what accounts take from each other (import.h)
 *
 * Nothing here reads a clock, but to end an input or output that takes long (verbs/lines.c, output.c): the driver sets
 * plane->now once a tick. One thread (the plane's) touches all of it but exchange_t and the published counters.
 */
#ifndef LEAFD_PLANE_PLANE_H
#define LEAFD_PLANE_PLANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/leftover.h"
#include "base/table.h"
#include "jetstream/js.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/loop.h"
#include "exchange/exchange.h"
#include "exchange/held.h"
#include "plane/guests.h"
#include "plane/memory.h"
#include "plane/output.h"
#include "route/route.h"

typedef struct trace trace_t; /* trace.h */
typedef struct peer peer_t;
struct protocol; /* protocol.h */
struct account;
typedef struct subscription subscription_t;
typedef struct replies replies_t;           /* reply.c */
typedef struct latencies latencies_t;       /* latency.c */
typedef struct far_requests far_requests_t; /* remote_services.c */
typedef struct tls_desk tls_desk_t;
typedef struct websocket_desk websocket_desk_t;
typedef struct compress_desk compress_desk_t;
typedef struct greeting greeting_t;               /* command/greeting.h */
typedef struct known_logins known_logins_t;       /* likewise */
typedef struct authors authors_t;                 /* authors.c */
typedef struct routed routed_t;                   /* routed.c */
typedef struct gateways gateways_t;               /* gateway.c */
typedef struct gateway_replies gateway_replies_t; /* gateway_reply.c */

#define CROSSING_DEPTH_MAX 8u /* accounts that it may pass one after the other */
#define TURN_WORK 32768u
#define LISTEN_GREETED 1024u /* of a listener with a greeting, beside abi.h's LISTEN_* */

typedef struct plane_listener {
    listener_t listener;
    uint64_t id;
    uint32_t kind;
    bool secure;          /* a new peer is not read before its SECURE */
    bool proxied;         /* a new peer may begin with a header of the PROXY protocol */
    greeting_t *greeting; /* a new peer gets it at once; NULL: control says what */
    uint32_t marker;      /* tells a listener's tag from a peer's */
    struct plane_listener *next;
} plane_listener_t;

struct plane {
    plane_limits_t limits;
    memory_t memory;
    uint64_t behind_bytes; /* memory.c, once a tick */
    moment_t now;
    exchange_t exchange;
    const struct protocol *const *protocols; /* by CONN_* of abi.h; verbs/ has them */

    table_t peers;    /* id > peer_t */
    table_t accounts; /* id > account_t */
    table_t controls; /* id > subscription_t */
    peer_t *all_peers;
    uint64_t growths; /* numbers of import.h's growths that were given out */
    peer_t *dirty;    /* touched in this turn */
    output_t output;
    peer_t *doomed;
    peer_t *leaving; /* doomed, and go in their turn: not all of thousands in one */
    peer_t *leaving_last;
    peer_t *shedding;      /* peers that introduce themselves anew, and have some of the old ones left */
    leftovers_t leftovers; /* of imports that a reload took away */
    uint32_t sweep_left;   /* of SWEEP_MAX, in this turn */
    peer_t *backlog;       /* backlog.c: the line of those whose input waits for its turn */
    peer_t *backlog_last;
    uint32_t turns;      /* that have ended */
    uint32_t input_work; /* of one connection in this turn; 0 = INPUT_WORK_MAX */
    uint64_t told;       /* lines of interest that links got, ever: work, too */
    peer_t *stalled;
    peer_t *narrows; /* window.c: links that were given all they may have, and more waits for them */
    int64_t narrows_due_ns;
    table_t trunks;      /* key > trunk_t, of leaf links */
    uint64_t held_count; /* pressure.c: peers that are held back; what no peer owes for */
    owed_t inside;
    guests_t guests;       /* and what those owe that links bring */
    bool waiting_commands; /* in the ring, after a tick took its share */
    bool shut;             /* nobody is accepted */
    bool pace_over;        /* a receiver caught up: paced producers go on */
    subscription_t *dead;
    plane_listener_t *listeners;
    uint64_t next_peer;
    uint64_t publication;  /* counts routed messages */
    route_watch_t advised; /* interest in what JetStream says of itself, in all accounts; in a cluster never 0 */
    trace_t *trace;        /* trace.c: kept for the next one */
    peer_t **links_room;   /* for the links that a message is routed to, see chosen_t */
    uint32_t links_room_max;
    uint32_t leafs_most; /* leaf links that an account has had */
    uint32_t route_count;
    uint32_t outbound_count;
    uint64_t random;

    uint32_t late_left;        /* handshakes that may be given up in this turn */
    tls_desk_t *tls;           /* NULL until the first context of TLS came */
    table_t tls_contexts;      /* number > tls_context_t */
    websocket_desk_t *web;     /* NULL until the first WebSocket */
    compress_desk_t *compress; /* NULL until the first link that is compressed */
    known_logins_t *known;     /* NULL: none */
    authors_t *authors;        /* NULL until somebody who may log in stored a schedule */
    buffer_t authored;         /* scratch: the header of a schedule, with its author */
    buffer_t vouched;          /* likewise, as it goes to another server (vouch.h) */
    buffer_t unvouched;        /* likewise, as it came from one */
    /* NULL, or admits who comes by a greeting and sends this CONNECT; false: control is to be asked. said: all of it,
     * for control. */
    bool (*admit_known)(plane_t *plane, peer_t *peer, bytes_t connect, bytes_t said);

    mqtt_limits_t mqtt;          /* COMMAND_MQTT */
    bytes_t mqtt_domain;         /* own copy */
    struct mqtt_desk *mqtt_desk; /* verbs/mqtt.h; NULL until the first client of MQTT */
    /* Tells a TARGET_MQTT of a message. */
    void (*mqtt_told)(plane_t *plane, const struct sink *sink, const struct publication *publication);

    js_t js;
    held_t deferred;
    bool deferred_full; /* a consumer was told DELIVERED_FULL for it */
    bool throttling;
    uint32_t throttled_count;
    struct peer *throttled; /* throttle.c: they wait for a store */
    bool interest_changed;
    uint64_t interest_looks; /* numbers the questions of what clusters ask for */
    peer_t *newcomers;       /* links that have not been told all interest yet */
    uint32_t account_marks;  /* given out */
    bool lacking;            /* routed.c: some link's interest was refused for memory */
    struct named *named;     /* accounts by name; NULL: this server is in no cluster */
    routed_t *routed;        /* NULL: this server is in no cluster */
    struct placed *placed;   /* placed.h; NULL: other servers have no streams */
    bool placed_unknown;     /* control does not know yet which they have */
    peer_t *routes;          /* to its other servers */
    gateways_t *gateways;    /* NULL: it knows no other clusters */
    struct meta *meta;       /* meta/meta.h; NULL: this server is in no group of servers */
    /* What another server says in `$LR.`; with meta alone. */
    void (*mail)(plane_t *plane, peer_t *from, const struct account *account, bytes_t subject, bytes_t payload);
    void (*mail_lost)(plane_t *plane, uint64_t server); /* a link for its letters has gone */
    struct account *mail_account;                       /* its account; NULL: servers write no letters to each other */
    /* Lets in whom another server's control has let in there (verbs/mqtt_carried.c). */
    status_t (*admit)(plane_t *plane, peer_t *peer, const plane_command_t *verdict);
    uint32_t carried;                   /* peers with a socket at another server .. */
    bool carried_wait;                  /* .. of which some wait for a route that is behind .. */
    bool carried_go;                    /* .. which has room again */
    bool reads_go;                      /* a device has room for more of what is retained */
    gateway_replies_t *gateway_replies; /* NULL until a request comes whose answer goes back to another one */
    bool drained;                       /* a full receiver has room again */
    const flow_t *flow;     /* of the consumer whose delivery or status is being published; NULL: it is neither */
    bool more;              /* something is left to do without waiting */
    replies_t *replies;     /* NULL until somebody asks through an import */
    latencies_t *latencies; /* NULL until a request is measured */
    far_requests_t *far;    /* NULL until another server measures one here */
    uint32_t crossing_depth;
    buffer_t crossing_headers[CROSSING_DEPTH_MAX];
    int64_t next_chores_ns;

    int64_t tick_window_ns; /* driver/stats.c: start of the minute whose longest tick this is */
    uint64_t tick_window_max_ns;
    uint64_t tick_before_max_ns; /* the longest of the minute before */
    uint32_t links;              /* of its connections; the others are clients */
    plane_stats_t stats;         /* the plane's own view; published once a tick */
    _Atomic uint64_t published[sizeof(plane_stats_t) / sizeof(uint64_t)];
    histogram_t disk_took[HISTOGRAMS]; /* the store's threads add to it, any thread reads it */

    /* the driver's */
    loop_t loop;
    conn_scratch_t input;
    int fd_most;    /* a connection's descriptor is less: the others are for files and monitoring */
    bool ready_cut; /* the turn before did not reach all who were ready */
    bool threaded;  /* false: driven by a test, no sockets */
    _Atomic bool stopping;
    struct plane_thread *thread;
};

#endif
