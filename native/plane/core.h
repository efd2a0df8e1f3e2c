/* core.h: the state of the plane and what its files offer each other. Private to plane/.
 *
 *     plane.c      threads, epoll, sockets: the thin driver          exchange.c   the two rings
 *     tick.c       one tick of the sans-IO core                      held.c       what waits for the disk
 *     peer.c       one connection's life                             account.c    subscriptions of every kind
 *     dispatch_*.c one function a protocol verb                      publish.c    one message to all who want it
 *     interest.c   what leaf links are told                          permissions.c admit.c   who may what
 *     command_*.c  one function a command of abi.h                   stream.c consumer.c js_*.c ingest.c   JetStream
 *     pressure.c   nobody gives control more than it takes          memory.c   nor makes the process larger than it may
 *                                                                              be
 *     jobs.c       what takes longer than a tick may, in steps        stream_jobs.c js_direct.c   who has such work
 *     import.c shadow.c cross.c reply.c   what accounts take from each other (import.h)
 *
 * Invariants, which let the hot path be simple:
 *   - Routing never removes a subscription or frees a peer: what has to go is marked (SUBSCRIPTION_DEAD, PEER_DOOMED)
 *     and swept at the end of the tick, so that a match result stays valid while it is walked.
 *   - Targets that may publish in their turn (streams, consumers, ingest) run after all others of a message. What
 *     JetStream itself publishes reaches them at the next tick only (plane->deferred): no consumer, and no reader of
 *     the store, is entered twice.
 *   - Nothing here reads a clock, but to end an input that takes long (peer.c): plane->now is set by the driver once a
 *     tick.
 * One thread (the plane's) touches all of it but exchange_t and the published counters.
 */
#ifndef LEAFD_PLANE_CORE_H
#define LEAFD_PLANE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/copies.h"
#include "base/random.h"
#include "base/ring.h"
#include "base/status.h"
#include "consume/consume.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/loop.h"
#include "plane/exchange.h"
#include "plane/hearing.h"
#include "plane/held.h"
#include "plane/memory.h"
#include "plane/refused.h"
#include "plane/table.h"
#include "route/route.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/hash8.h"
#include "text/text.h"
#include "wire/emit.h"
#include "wire/parse.h"

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

#define HEADER_BYTES_MAX 65535u /* of a stored message, jetstream.md 4.2 */
#define PEER_INPUT_SLACK (64u * 1024u)
#define LEAF_CONTROL_LINE_FACTOR 16u
/* the longest line before the login: this or max_control_line, which bounds a CONNECT with its JWT in the reference,
 * too */
#define GREETING_LINE_MIN 4096u
#define GREETING_SLACK 64u /* for the verb, blanks, the end of the line */
#define COMMANDS_A_TICK 256u
#define LEAF_ERRORS_A_SECOND 16u /* of a link, told to control; the others are counted */
#define CHORES_INTERVAL_NS (500 * NS_PER_MS)
#define FIRST_PING_NS (2 * NS_PER_SECOND)
#define FIRST_LEAF_PING_NS (1 * NS_PER_SECOND)
#define DELIVERY_LOW_WATER (256u * 1024u)
#define INTERNAL_TARGETS_MAX 64u
#define CROSSING_DEPTH_MAX 8u     /* accounts that it may pass one after the other */
#define REPLY_PREFIX_SIZE 11u     /* _R_.<six>. */
#define STALL_NS (10 * NS_PER_MS) /* a producer pauses so long when a receiver is nearly cut off */
#define PACE_NS (1 * NS_PER_MS)   /* and so long, at most, when it is merely behind */
#define PACE_OVER_BYTES (256u * 1024u)
#define INPUT_WORK_MAX 4096u          /* of one connection in one turn, some milliseconds: peer.c .. */
#define INPUT_WORK_MIN 2048u          /* .. and among many that are ready */
#define INPUT_TIME_NS (2 * NS_PER_MS) /* likewise, however costly the operations are */
#define INPUT_TIME_OPS 64u            /* so many of them between two looks at the clock */
#define TURN_WORK 32768u
/* subscriptions of who has left or begins anew, removed in one turn: leave.c */
#define SWEEP_MAX 4096u
#define TELL_MAX 4096u         /* interests that new links are told of in one turn */
#define LEAF_PENDING_FACTOR 4u /* a link may queue more than a client: many wait behind it */
#define TRACE_BYTES_MAX 256u

/* ---- subscriptions ----------------------------------------------------------------------------------------------- */

typedef enum target_kind {
    TARGET_CLIENT = 0,
    TARGET_LEAF,
    TARGET_CONTROL,
    TARGET_STREAM,
    TARGET_ACK,
    TARGET_FLOW,
    TARGET_NEXT,
    TARGET_DIRECT,
    TARGET_INGEST,
    TARGET_SERVICE, /* an import's, in the importing account */
    TARGET_REPLY,   /* _R_.<six>.>, in an account whose services are asked */
    TARGET_SHADOW,  /* of another account's subscription, in the exporting one */
} target_kind_t;

#define TARGETS_LOCAL ((1u << TARGET_CLIENT) | (1u << TARGET_CONTROL))
#define TARGETS_ALL 0xffffu

typedef struct plane plane_core_t;
typedef struct peer peer_t;
typedef struct account account_t;
typedef struct import import_t; /* import.h */
typedef struct shadow shadow_t;
typedef struct reply reply_t;
typedef struct replies replies_t; /* reply.c */
typedef struct stream stream_t;

#define SUBSCRIPTION_DEAD 1u     /* swept at the end of the tick */
#define SUBSCRIPTION_FILTERED 2u /* its wildcards overlap a deny: look at every delivery */
#define SUBSCRIPTION_LOCAL 4u    /* not announced to leaf links */
#define SUBSCRIPTION_API 8u      /* SUBSCRIBE_API */

/* A subscription of a client, a leaf link or control. Owned by its peer's table, control's by the plane's. */
typedef struct subscription {
    route_target_t target; /* first: a target's address is its subscription's */
    peer_t *peer;          /* NULL for control */
    account_t *account;
    struct subscription *next; /* in its table's bucket */
    struct subscription *next_dead;
    shadow_t *shadows; /* where its account imports streams */
    uint64_t hash;
    uint64_t id;  /* control: the caller's id */
    uint64_t max; /* deliveries until it ends; 0 = no limit */
    uint64_t delivered;
    uint32_t flags;
    uint32_t sid_size;
    uint8_t sid[]; /* clients: their own name for it */
} subscription_t;

/* A target inside: a stream's subject, a consumer's verbs, an ingest. Owned by what it belongs to. */
typedef struct sink {
    route_target_t target; /* first */
    account_t *account;
    shadow_t *shadows;
    void *object;           /* stream_t, consumer_seat_t, ingest_t, import_t, by kind */
    uint32_t prefix_tokens; /* tokens in front of the variable ones ($JS.ACK v1: 4, v2: 6) */
    bool in;
} sink_t;

typedef struct subscription_table {
    subscription_t **buckets;
    uint32_t size; /* a power of two, 0 while empty */
    uint32_t count;
} subscription_table_t;

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

typedef struct interest interest_t; /* interest.c */
typedef struct mapping mapping_t;   /* mapping.c */

struct account {
    uint32_t id;
    uint32_t flags;
    bytes_t name; /* own copies */
    bytes_t domain;
    bytes_t domain_prefix; /* "$JS.<domain>.API." or empty */
    uint8_t hash8[HASH8_SIZE];
    route_t *route;
    mapping_t *mappings;  /* NULL: messages go where they are published to */
    interest_t *interest; /* NULL until the first leaf link */
    peer_t *leafs;
    uint32_t leaf_count;
    uint32_t job_count; /* jobs.c */
    uint64_t client_count;
    bool domain_announced; /* interest.c: links are told of the domain's subjects */
    owed_t owed;           /* by its peers: pressure.c */
    import_t *imports;     /* NULL for most */
    sink_t replies;        /* in once somebody asked a service of its through an import */
    uint8_t reply_prefix[REPLY_PREFIX_SIZE];
};

/* ---- peers ------------------------------------------------------------------------------------------------------- */

typedef enum peer_state {
    PEER_GREETING = 1, /* waits for its handshake line */
    PEER_WAITING,      /* a line is with Python; not read */
    PEER_ADMITTED,
    PEER_DOOMED, /* to be closed at the end of the tick */
} peer_state_t;

typedef struct permissions permissions_t; /* permissions.c */

struct peer {
    conn_t conn;
    wire_parser_t parser;
    uint64_t id;
    uint32_t kind; /* CONN_* */
    peer_state_t state;
    uint32_t flags; /* VERDICT_* */
    uint32_t max_subscriptions;
    uint32_t dead_count; /* subscriptions in table that wait for the sweep */
    account_t *account;
    permissions_t *permissions; /* NULL: everything is allowed */
    subscription_table_t table;
    bytes_t after_pong; /* own copy; sent once, behind the first PONG */
    bytes_t cluster;    /* leafs: origin cluster, own $LDS, remote domain; own copies */
    bytes_t lds;
    bytes_t remote_domain;
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes; /* payload and header bytes, as the reference counts */
    uint64_t out_bytes;
    int64_t start_wall_ns;
    int64_t last_wall_ns;
    int64_t last_input_ns;
    int64_t input_since_ns; /* what conn.rest begins with has waited since then */
    int64_t next_ping_ns;
    int64_t ping_sent_ns;
    int64_t rtt_ns;
    int64_t expires_wall_ns;
    refusals_t refusals; /* told to control lately */
    uint32_t pings_out;
    uint32_t close_reason;
    bool reading;
    bool dirty;    /* in plane->dirty: something is queued */
    bool producer; /* published into a stream: waits when the journal lags */
    bool throttled;
    bool full;                   /* a consumer was told DELIVERED_FULL */
    bool excess;                 /* over max_connections: told so behind its INFO */
    bool silent;                 /* closed without a word */
    bool held_back;              /* pressure.c: its credit is used up */
    bool dialled;                /* by us: it is the configuration's, not a stranger */
    bool drains;                 /* unsubscribed since its last PING: its PONG keeps the order */
    bool again;                  /* input waits in conn.rest after a pause */
    bool yielded;                /* its input was much work: the rest waits for the next turn */
    hearing_t hearing;           /* leafs: what it has been told of interest */
    event_entry_t *farewell;     /* EVENT_CLOSED without a text */
    event_entry_t *introduction; /* its second CONNECT, which waits for the end of its subscriptions */
    bytes_t close_text;          /* own copy */
    uint64_t publication;        /* leafs: last message that chose this peer */
    uint32_t queue_count;
    bytes_t *queues;          /* leafs: OP_QUEUES_MAX of them */
    reply_t *replies;         /* ways back to it */
    int64_t stalled_until_ns; /* it feeds a crowded queue: not read for a moment; 0 = read */
    owed_t owed;              /* for messages that control is not done with */
    int64_t flooding_ns;      /* leafs: since when they have owed much; 0 = they do not */
    /* leafs: second of its -ERR lines, how many of them control was told, and how many not */
    int64_t errors_ns;
    uint32_t errors_told;
    uint32_t errors_untold;
    peer_t *next_stalled;
    peer_t *next_dirty;
    peer_t *next_doomed;
    peer_t *next_again;
    peer_t *next_leaf;
    peer_t *next_shedding;
    peer_t *previous, *next;
};

/* ---- messages on their way --------------------------------------------------------------------------------------- */

#define PUBLICATION_LOCAL 1u     /* not to leaf links */
#define PUBLICATION_FROM_LEAF 2u /* queue members only of the groups that it names */
#define PUBLICATION_DEFER 4u     /* out of JetStream: into JetStream only at the next tick */
#define PUBLICATION_INSIDE 8u    /* that next tick: everybody else has had it */
#define PUBLICATION_SERVICE 16u  /* came through a service import: no stream imports */
#define PUBLICATION_IMPORTED 32u /* came through a stream import: subscriptions and streams only */
/* we publish it, to a subject that somebody named whose right to publish there nobody looked at (a reply, a deliver
 * subject): never to JetStream's own subjects */
#define PUBLICATION_UNJUDGED 64u

typedef struct publication {
    account_t *account;
    message_t message;          /* subject = what is routed */
    bytes_t shown;              /* what a client sees as the subject; empty = the same */
    peer_t *origin;             /* NULL = inside */
    const account_t *requester; /* who asked first, when it came through service imports */
    const bytes_t *queues;
    uint32_t queue_count;
    uint32_t flags;
} publication_t;

/* ---- the plane --------------------------------------------------------------------------------------------------- */

typedef struct plane_listener {
    listener_t listener;
    uint64_t id;
    uint32_t kind;
    uint32_t marker; /* tells a listener's tag from a peer's */
    struct plane_listener *next;
} plane_listener_t;

typedef struct job job_t;                   /* js.h */
typedef struct ingest ingest_t;             /* ingest.c */
typedef struct fast_batches fast_batches_t; /* js_fast.c */

#define STORE_FILE 0
#define STORE_MEMORY 1

struct plane {
    plane_limits_t limits;
    memory_t memory;
    uint64_t behind_bytes; /* memory.c, once a tick */
    moment_t now;
    exchange_t exchange;
    event_entry_t *late[2]; /* completions that held.c had no memory for: none is ever lost */

    table_t peers;    /* id > peer_t */
    table_t accounts; /* id > account_t */
    table_t streams;  /* id > stream_t */
    table_t controls; /* id > subscription_t */
    peer_t *all_peers;
    peer_t *dirty;
    peer_t *doomed;
    peer_t *leaving;  /* doomed, and their subscriptions were too many for one turn */
    peer_t *shedding; /* who introduces itself anew, and has some of the old ones left */
    uint32_t sweep_left;
    peer_t *again;
    uint32_t input_work; /* of one connection in this turn; 0 = INPUT_WORK_MAX */
    uint64_t told;       /* lines of interest that links got, ever: work, too */
    peer_t *stalled;
    uint64_t held_count; /* pressure.c: peers that are held back; what no peer owes for */
    owed_t inside;
    bool waiting_commands; /* in the ring, after a tick took its share */
    bool shut;             /* nobody is accepted */
    bool pace_over;        /* a receiver caught up: paced producers go on */
    subscription_t *dead;
    plane_listener_t *listeners;
    uint64_t next_peer;
    uint64_t publication; /* counts routed messages */
    peer_t **leafs_hit;   /* scratch: leafs chosen by the message being routed */
    uint32_t leafs_hit_max;
    uint64_t random;

    store_t *stores[2];
    held_t held[2];
    held_t deferred;
    bool deferred_full; /* a consumer was told DELIVERED_FULL for it */
    consume_t *consume;
    char *memory_directory;
    bool throttling;
    bool interest_changed;
    uint64_t interest_looks; /* counts questions of what clusters ask for */
    peer_t *newcomers;       /* links that have not been told all interest yet */
    bool drained;            /* a full receiver has room again */
    bool more;               /* something is left to do without waiting */
    job_t *jobs;             /* jobs.c: oldest first */
    job_t *jobs_last;
    uint32_t job_count;
    uint32_t job_work; /* done in this tick: JOB_STEP and its parts (js.h) */
    ingest_t *ingests;
    fast_batches_t *fast; /* NULL until the first fast batch */
    buffer_t scratch;     /* for a header block or reply being composed */
    replies_t *replies;   /* NULL until somebody asks through an import */
    uint32_t crossing_depth;
    buffer_t crossing_headers[CROSSING_DEPTH_MAX];
    int64_t next_chores_ns;

    int64_t tick_window_ns; /* stats.c: start of the minute whose longest tick this is */
    uint64_t tick_window_max_ns;
    uint64_t tick_before_max_ns; /* the longest of the minute before */
    plane_stats_t stats;         /* the plane's own view; published once a tick */
    _Atomic uint64_t published[sizeof(plane_stats_t) / sizeof(uint64_t)];

    /* the driver's */
    loop_t loop;
    conn_scratch_t input;
    bool threaded; /* false: driven by a test, no sockets */
    _Atomic bool stopping;
    struct plane_thread *thread;
};

/* ---- tick.c ------------------------------------------------------------------------------------------------------ */

void core_commands(plane_t *plane);          /* everything that waits in the ring */
void core_again(plane_t *plane);             /* input that waited: peer_again */
void core_settle(plane_t *plane);            /* batch, release, consumers, sweep; ends a tick */
int64_t core_sleep_ns(const plane_t *plane); /* until the next thing to do without input */
LEAF_MUST_USE status_t core_open(plane_t *plane, const plane_limits_t *limits, const char *directory,
                                 const char *memory_directory, char *reason);
void core_close(plane_t *plane);
void core_shutdown(plane_t *plane);                       /* everything appended becomes durable */
LEAF_MUST_USE status_t core_memory_store(plane_t *plane); /* opens the memory store on first use */

/* ---- peer.c ------------------------------------------------------------------------------------------------------ */

/* Takes over fd (-1 in tests). NULL: no memory; fd is still the caller's. */
peer_t *peer_new(plane_t *plane, int fd, uint32_t kind, uint64_t listener, bytes_t address);
peer_t *peer_find(plane_t *plane, uint64_t id);
/* Parses and acts on as much of input as it can; returns how much it used. */
uint32_t peer_input(plane_t *plane, peer_t *peer, bytes_t input);
void peer_pause(plane_t *plane, peer_t *peer); /* waits for a verdict */
void peer_resume(plane_t *plane, peer_t *peer);
void peer_admit(plane_t *plane, peer_t *peer, account_t *account, const conn_verdict_t *verdict);
void peer_limit(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict); /* of peer_admit: flags and limits */
/* Marks for closing; text (may be empty) goes out as -ERR first. */
void peer_doom(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
void peer_doom_silently(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
void peer_error(plane_t *plane, peer_t *peer, bytes_t text); /* -ERR, connection stays */
void peer_send(plane_t *plane, peer_t *peer, bytes_t frame);
void peer_send_urgent(plane_t *plane, peer_t *peer, bytes_t frame); /* PING, PONG, INFO: see net/outq.h */
/* A frame was emitted into peer->conn.out.data. */
void peer_emitted(plane_t *plane, peer_t *peer);
void peer_emit_failed(plane_t *plane, peer_t *peer, status_t status);
void peer_pong(plane_t *plane, peer_t *peer);   /* a PING came */
void peer_ponged(plane_t *plane, peer_t *peer); /* a PONG came */
void peer_chores(plane_t *plane, peer_t *peer); /* pings, deadlines, expiry */
/* slows it down, if the receiver is behind */
void peer_stall(plane_t *plane, peer_t *producer, const outq_t *receiver);
void peer_wait(plane_t *plane, peer_t *peer); /* there is no memory for its input: it is not read for a moment */
void peer_unstall(plane_t *plane);            /* those whose moment is over */
/* It introduces itself anew: entry, its CONNECT, goes to control when its subscriptions are gone. It waits meanwhile.
 */
void peer_shed(plane_t *plane, peer_t *peer, event_entry_t *entry);
void peer_sweep_begin(plane_t *plane); /* of a turn: who was leaving goes on with it */
void peer_sweep(plane_t *plane);       /* closes what is doomed */
void peer_flush(plane_t *plane, peer_t *peer);
void peer_want(plane_t *plane, peer_t *peer); /* tells the loop what the state says */
static inline void peer_touch(plane_t *plane, peer_t *peer) {
    if (!peer->dirty) {
        peer->dirty = true;
        peer->next_dirty = plane->dirty;
        plane->dirty = peer;
    }
}

/* What it had sent before its verdict, or before it was held back, is acted on in this tick. */
void peer_again(plane_t *plane, peer_t *peer);
/* Acts on input (what was kept and what came) and keeps what is left. */
void peer_act(plane_t *plane, peer_t *peer, bytes_t input);

/* ---- pressure.c -------------------------------------------------------------------------------------------------- */

/* A message for control, of a peer (NULL: nobody's): is there room, asked before the copy; the copy, gone either way.
 * false: refused. */
bool pressure_room(plane_t *plane, const peer_t *peer);
bool pressure_offer(plane_t *plane, peer_t *peer, event_entry_t *entry); /* entry may be NULL */
void pressure_relieve(plane_t *plane);                                   /* once a tick: who may be read again */
void pressure_chores(plane_t *plane, peer_t *peer);
void pressure_forget(plane_t *plane, peer_t *peer);

/* ---- dispatch_client.c, dispatch_leaf.c -------------------------------------------------------------------------- */

/* Before the login. false: the op was not consumed (it waits for a verdict) or the peer is doomed. */
bool greet_client(plane_t *plane, peer_t *peer, const op_t *op);
bool greet_leaf(plane_t *plane, peer_t *peer, const op_t *op);
/* After it. false: the peer is doomed. */
bool dispatch_client(plane_t *plane, peer_t *peer, const op_t *op);
bool dispatch_leaf(plane_t *plane, peer_t *peer, const op_t *op);
LEAF_MUST_USE status_t leaf_admitted(plane_t *plane, peer_t *peer);

/* Whether what comes there does something in JetStream: asks, acknowledges, pulls, gets. */
static inline bool target_is_jetstream(const route_target_t *target) {
    return target->kind == TARGET_ACK || target->kind == TARGET_NEXT || target->kind == TARGET_DIRECT
           || (target->kind == TARGET_CONTROL
               && (((const subscription_t *)target->owner)->flags & SUBSCRIPTION_API) != 0);
}

/* ---- account.c --------------------------------------------------------------------------------------------------- */

account_t *account_find(plane_t *plane, uint32_t id);
LEAF_MUST_USE status_t account_put(plane_t *plane, uint32_t id, uint32_t flags, bytes_t name, bytes_t domain);
void account_free(account_t *account);

uint64_t subscription_hash(bytes_t first, bytes_t second);
subscription_t *subscription_find_sid(const subscription_table_t *table, bytes_t sid);
subscription_t *subscription_find_subject(const subscription_table_t *table, bytes_t subject, bytes_t queue);
/* Makes, routes and (unless local) announces a subscription; table NULL for control. */
LEAF_MUST_USE status_t subscription_add(plane_t *plane, account_t *account, subscription_table_t *table,
                                        target_kind_t kind, peer_t *peer, bytes_t subject, bytes_t queue, bytes_t sid,
                                        uint32_t weight, uint32_t flags, subscription_t **out);
void subscription_kill(plane_t *plane, subscription_t *subscription); /* at the end of the tick */
void subscription_sweep(plane_t *plane);
void subscription_table_free(subscription_table_t *table);
LEAF_MUST_USE status_t sink_add(plane_t *plane, account_t *account, sink_t *sink, target_kind_t kind, bytes_t subject,
                                void *object, uint32_t prefix_tokens);
void sink_remove(plane_t *plane, sink_t *sink);

/* a consumer is told so, and peer remembers it */
bool peer_is_full(const plane_t *plane, peer_t *peer);

/* ---- interest.c -------------------------------------------------------------------------------------------------- */

/* Room for what interest_change tells, asked before anything changes: a target that links are not told of gets nothing,
 * silently. What is reserved and not used costs an empty entry. */
LEAF_MUST_USE status_t interest_reserve(account_t *account, bytes_t subject, bytes_t queue);
/* A target's weight changed from `before` to `after` (0 = not there). origin: the leaf it came from, NULL = local. From
 * 0: reserved. */
void interest_change(plane_t *plane, account_t *account, bytes_t subject, bytes_t queue, peer_t *origin,
                     uint32_t before, uint32_t after);
/* that JetStream is served under its domain's name */
LEAF_MUST_USE status_t interest_announce_domain(plane_t *plane, account_t *account);
void interest_withdraw_domain(plane_t *plane, account_t *account);
/* The first burst. STATUS_NO_MEMORY: it has not joined. */
LEAF_MUST_USE status_t interest_leaf_joined(plane_t *plane, peer_t *peer);
void interest_tell(plane_t *plane); /* once a tick: the next slice for new links */
void interest_leaf_left(plane_t *plane, peer_t *peer);
void interest_free(interest_t *interest);
bool interest_is_announced(const route_target_t *target);

/* ---- publish.c --------------------------------------------------------------------------------------------------- */

/* Room for every link of an account: asked before a link joins. */
LEAF_MUST_USE status_t publish_reserve_leafs(plane_t *plane, uint32_t count);
/* Routes one message; returns how many targets took it (a leaf link counts as one). */
uint32_t publish(plane_t *plane, publication_t *publication);
/* From inside: an ack, a reply, a status; its targets inside have it at the next tick. */
uint32_t publish_inside(plane_t *plane, account_t *account, bytes_t subject, bytes_t reply, bytes_t header,
                        bytes_t payload);
/* To one receiver of a subscription to `to`, out of a stream. */
delivered_t publish_delivery(plane_t *plane, account_t *account, const delivery_t *delivery);

void publish_deferred(plane_t *plane); /* what waits there now */

/* ---- import.c, shadow.c, cross.c, reply.c ------------------------------------------------------------------------ */

void command_subscriptions(plane_t *plane, const plane_command_t *command); /* listing.c */
void command_imports(plane_t *plane, const plane_command_t *command);
void imports_free(plane_t *plane, account_t *account);
LEAF_MUST_USE status_t shadows_add(plane_t *plane, const account_t *account, const route_target_t *target);
void shadows_drop(plane_t *plane, shadow_t **holder);
void shadows_weigh(plane_t *plane, const subscription_t *subscription);
void shadow_interest(const route_target_t *target, bool *announced, peer_t **origin);
/* What a message hit in its account that leads to others; the imports are a list through themselves. */
typedef struct crossings {
    import_t *first; /* these three count only when any is set */
    import_t *last;
    bool reply;
    bool any;
} crossings_t;
/* queue: of the group that the target was chosen from, NULL for plain ones. true: it will cross there. */
bool cross_note(const plane_t *plane, const publication_t *publication, const route_target_t *target,
                const bytes_t *queue, crossings_t *crossings);
/* Over all of them; returns how many at the other sides took it. */
uint32_t cross(plane_t *plane, const publication_t *publication, const crossings_t *crossings);
/* Who will get it, so that a full receiver stops a consumer before anything is sent; looks through imports. */
delivered_t look_at_receivers(plane_t *plane, account_t *account, bytes_t subject, bytes_t group);
bool account_interest(plane_t *plane, account_t *account, bytes_t subject, bytes_t group);
/* Does anybody but JetStream itself have that very subject, without wildcards? A push consumer delivers only then. */
bool account_exact_interest(const account_t *account, bytes_t subject, bytes_t group);
void replies_forget_peer(plane_t *plane, peer_t *peer);
void replies_chores(plane_t *plane);
void replies_free(plane_t *plane);

/* ---- permissions.c ----------------------------------------------------------------------------------------------- */

#define PERMISSION_LISTS 5u

typedef struct permission_lists {
    const bytes_t *at[PERMISSION_LISTS]; /* pub allow, pub deny, sub allow, sub deny, mapped deny */
    uint32_t count[PERMISSION_LISTS];
} permission_lists_t;

/* *out stays NULL when nothing is restricted and no replies are to be tracked. */
LEAF_MUST_USE status_t permissions_new(const permission_lists_t *lists, uint32_t response_max, int64_t response_ttl_ns,
                                       permissions_t **out);
void permissions_free(permissions_t *permissions);
bool permissions_publish(permissions_t *permissions, bytes_t subject, int64_t mono_ns);
bool permissions_subscribe(const permissions_t *permissions, bytes_t subject, bytes_t queue, bool *filtered);
bool permissions_deliver(const permissions_t *permissions, bytes_t subject); /* for filtered subscriptions */
bool permissions_tracks(const permissions_t *permissions);
void permissions_track_reply(permissions_t *permissions, bytes_t reply, int64_t mono_ns);
bool permissions_leaf_out(const permissions_t *permissions, bytes_t subject); /* may be sent over the link */
bool permissions_leaf_in(const permissions_t *permissions, bytes_t subject);  /* may come in */
/* may be where a mapping sends what came in */
bool permissions_leaf_to(const permissions_t *permissions, bytes_t subject);
bool permissions_leaf_ask(const permissions_t *permissions, bytes_t subject);   /* may we send LS+ */
bool permissions_leaf_asked(const permissions_t *permissions, bytes_t subject); /* may the peer ask for it */

/* ---- admit.c ----------------------------------------------------------------------------------------------------- */

void command_admit(plane_t *plane, const plane_command_t *command);
void command_rights(plane_t *plane, const plane_command_t *command);

/* ---- commands and events ----------------------------------------------------------------------------------------- */

void command_run(plane_t *plane, const plane_command_t *command);
void command_done(plane_t *plane, const plane_command_t *command, status_t status);
/* With a payload; arg and arg2 for the caller. */
void command_answer(plane_t *plane, const plane_command_t *command, status_t status, uint64_t arg, uint64_t arg2,
                    bytes_t payload);
/* When everything that is in the store's open batch is on disk. */
void command_done_durable(plane_t *plane, const plane_command_t *command, uint32_t which_store, uint64_t arg,
                          bytes_t payload);
bool command_stream(plane_t *plane, const plane_command_t *command); /* false: not one of these */
bool command_consumer(plane_t *plane, const plane_command_t *command);
bool command_ingest(plane_t *plane, const plane_command_t *command);
bool command_backup(plane_t *plane, const plane_command_t *command);

typedef struct strings { /* reads the packed strings of abi.h */
    const uint8_t *at;
    uint32_t left;
} strings_t;
strings_t strings_of(const plane_command_t *command);
bytes_t strings_next(strings_t *strings); /* empty behind the end, too */
bool strings_more(const strings_t *strings);

/* ---- stats.c ----------------------------------------------------------------------------------------------------- */

void stats_publish(plane_t *plane);
void stats_tick(plane_t *plane, uint64_t took_ns);

/* ---- mapping.c --------------------------------------------------------------------------------------------------- */

/* All mappings of the account, in place of what it had. */
LEAF_MUST_USE status_t mappings_put(plane_t *plane, account_t *account, strings_t strings);
LEAF_MUST_USE status_t mappings_announce(plane_t *plane, account_t *account); /* to a first leaf link */
void mappings_free(mapping_t *mapping);
/* Whether a message may go elsewhere than to its subject: mapped_subject is worth a call. */
static inline bool may_be_mapped(const account_t *account, bytes_t subject) {
    return account->mappings != NULL || (account->domain_prefix.size != 0 && subject.size != 0 && subject.at[0] == '$');
}
/* Where a message goes, in out when that is elsewhere; empty: nowhere. Permissions are asked about this subject. */
bytes_t mapped_subject(plane_t *plane, const account_t *account, bytes_t subject, text_t *out);
/* By the domain's name alone: "$JS.<domain>.API.X" is "$JS.API.X" here, "$JS.<domain>.API.$KV.X" is "$KV.X"
 * (jetstream.md 1.1). */
bytes_t domain_subject(const account_t *account, bytes_t subject, text_t *out);

#endif
