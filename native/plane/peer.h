/* peer.h: one connection, client or link: what is known of it, and its life from accept to close.
 *
 * A peer is never freed while a message is routed: what has to go is PEER_DOOMED and closed at the end of the tick.
 */
#ifndef LEAFD_PLANE_PEER_H
#define LEAFD_PLANE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/conn.h"
#include "net/outq.h"
#include "exchange/exchange.h"
#include "plane/interest.h"
#include "plane/lanes.h"
#include "plane/output.h"
#include "plane/plane.h"
#include "plane/refused.h"
#include "plane/subscription.h"
#include "plane/window.h"
#include "text/request_info.h"
#include "wire/parse.h"

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

#define PEER_INPUT_SLACK (64u * 1024u)
#define LEAF_CONTROL_LINE_FACTOR 16u
/* the longest line before the login: this or max_control_line, which bounds a CONNECT with its JWT, as nats-server */
#define GREETING_LINE_MIN 4096u
#define GREETING_SLACK 64u       /* for the verb, blanks, the end of the line */
#define LEAF_ERRORS_A_SECOND 16u /* of a link, told to control; the others are counted */
#define FIRST_PING_NS (2 * NS_PER_SECOND)
#define FIRST_LEAF_PING_NS (1 * NS_PER_SECOND)
#define STALL_NS (10 * NS_PER_MS) /* a producer pauses so long when a receiver is nearly cut off */
#define PACE_NS (1 * NS_PER_MS)   /* and so long, at most, when it is merely behind */
#define PEER_DRIP 256u            /* who sends less in a while than so many bytes has not gone on */
#define INPUT_WORK_MAX 4096u      /* of one connection in one turn, some milliseconds: peer.c .. */
#define INPUT_WORK_MIN 2048u      /* .. and among many that are ready */
#define INPUT_CHANGES_MAX 256u    /* subscriptions that come or go: of others nobody waits for thousands */
/* subscriptions of peers that have left or begin anew, removed in one turn: leave.c */
#define SWEEP_MAX 1024u
#define SWEEP_CLOSE 2048u      /* closing a socket whose queue is full counts as so many */
#define SWEEP_PEER 16u         /* closing any other */
#define SWEEP_REPLY 8u         /* and so does an outstanding reply, of some KB perhaps */
#define LEAF_PENDING_FACTOR 4u /* a link may queue more than a client: many wait behind it */

/* ---- what is known of a peer ------------------------------------------------------------------------------------- */

typedef enum peer_state {
    PEER_GREETING = 1, /* waits for its handshake line */
    PEER_WAITING,      /* a line is with Python; not read */
    PEER_ADMITTED,
    PEER_DOOMED, /* to be closed at the end of the tick */
} peer_state_t;

/* Why an admitted peer, or one that greets, is not read: one bit a reason, each set and cleared by one file. */
typedef enum peer_waits {
    WAITS_STORE = 1,    /* throttle.c: it publishes into a stream, and a store lags */
    WAITS_CONTROL = 2,  /* pressure.c: its credit is used up */
    WAITS_RECEIVER = 4, /* peer.c: for a moment, until stalled_until_ns; a receiver is behind, or memory is short */
    WAITS_SECURE = 8,   /* its SECURE has not come */
    WAITS_SESSION = 16, /* verbs/mqtt.c: JetStream has not answered yet */
} peer_waits_t;

typedef struct protocol protocol_t; /* protocol.h */
typedef struct permissions permissions_t;
typedef struct tls tls_t;                   /* net/tls.h */
typedef struct reply reply_t;               /* import.h */
typedef struct websocket websocket_t;       /* net/websocket.h */
typedef struct compress compress_t;         /* net/compress.h */
typedef struct proxied proxied_t;           /* net/proxied.h */
typedef struct link_part link_part_t;       /* link_part.h */
typedef struct route_link route_link_t;     /* routed.h */
typedef struct gateway_link gateway_link_t; /* gateway.h */
typedef struct session session_t;           /* sessions/session.h */

struct peer {
    conn_t conn;
    wire_parser_t parser;
    uint64_t id;
    uint32_t kind; /* CONN_*: what control calls it */
    const protocol_t *protocol;
    peer_state_t state;
    uint32_t flags; /* VERDICT_* */
    uint32_t max_subscriptions;
    uint64_t sweep_at;   /* leave.c: the place in table up to which it is empty */
    uint32_t dead_count; /* subscriptions in table that wait for the sweep */
    uint32_t subscriptions_at_end;
    buffer_t rows_at_end;       /* the first of them */
    account_t *account;         /* NULL: not admitted yet, or a route or gateway */
    permissions_t *permissions; /* NULL: everything is allowed */
    bytes_t author;             /* own copy: its user, for schedules that it stores; empty: nobody logs in */
    map_t *table;               /* its subscriptions */
    description_t *description; /* own copy; NULL where its account shares and measures nothing: cross.c */
    bytes_t after_pong;         /* own copy; sent once, behind the first PONG */
    uint64_t in_msgs;
    uint64_t out_msgs;
    uint64_t in_bytes; /* payload and header bytes, as the reference counts */
    uint64_t out_bytes;
    int64_t start_wall_ns;
    int64_t last_wall_ns; /* when `active` was seen to change */
    uint64_t active;      /* messages either way, and subscriptions */
    int64_t last_input_ns;
    int64_t input_since_ns; /* what conn.rest begins with has waited since then */
    int64_t went_on_ns;     /* when that last grew by PEER_DRIP, or began; a connection that drips does not go on .. */
    uint64_t went_on_bytes; /* .. and what had come then */
    uint64_t window_bytes;  /* memory.c: what had come when others began to wait for its memory */
    int64_t released_ns;    /* when a wait for which it was not read ended last; not one for memory of input */
    int64_t next_ping_ns;
    int64_t ping_interval_ns; /* 0: the limits' */
    int64_t ping_sent_ns;
    int64_t rtt_ns;
    int64_t expires_wall_ns;
    refusals_t refusals; /* told to control lately */
    uint32_t pings_out;
    uint32_t close_reason;
    bool reading;
    bool dirty;                  /* in plane->dirty or plane->output: something is queued */
    bool producer;               /* published into a stream: waits when the journal lags */
    uint8_t waits;               /* WAITS_*: why it is not read; 0: it is, where its state says so */
    bool full;                   /* a consumer was told DELIVERED_FULL */
    bool refills;                /* its protocol has more for it, once no more than OUTPUT_REFILL waits */
    bool excess;                 /* over max_connections: told so behind its INFO */
    bool greeted;                /* its listener has a greeting, or it needs none */
    bool silent;                 /* closed, and told nothing */
    bool dialled;                /* by us: it is the configuration's, not a stranger */
    bool drains;                 /* unsubscribed since its last PING: its PONG keeps the order */
    bool begun;                  /* its last input ended within something: conn.rest has it */
    bool starved;                /* memory of input had no room for what it would have been read next */
    bool in_backlog;             /* input waits in conn.rest after a pause */
    bool server;                 /* it is a route or a gateway that was admitted */
    bool named;                  /* a link that was accepted: its CONNECT has come */
    bool carried;                /* its socket is another server's, whose control alone knows of it */
    bool yielded;                /* its input was much work: the rest waits for the next turn .. */
    uint32_t yielded_in;         /* .. behind that one, of plane->turns */
    link_part_t *link;           /* of every link; NULL: it is a client */
    route_link_t *route;         /* routes: likewise, and which accounts go by it; NULL: it is no route */
    session_t *session;          /* of MQTT; NULL: it speaks another protocol, or has not said who it is */
    gateway_link_t *gateway;     /* gateways: likewise, and which of two ways it goes; NULL: it is no gateway */
    event_entry_t *introduction; /* its second CONNECT, which waits for the end of its subscriptions */
    bytes_t close_text;          /* own copy */
    tls_t *tls;                  /* conn's transport, if it has TLS */
    bytes_t behind;              /* own copy: said behind its handshake, secure.c */
    bytes_t host;                /* own copy: its address, of a client */
    int64_t secure_until_ns;     /* so long its handshake may take; 0: it is over, or there is none */
    websocket_t *web;            /* its transport, if it speaks WebSocket */
    compress_t *compress;        /* likewise, if it is a link that is compressed */
    proxied_t *proxied;          /* likewise, until its PROXY protocol header is over */
    uint64_t publication;        /* leafs: last message that chose this peer */
    uint32_t queue_count;
    reply_t *replies;         /* ways back to it */
    int64_t stalled_until_ns; /* WAITS_RECEIVER: until then */
    owed_t owed;              /* for messages that control is not done with */
    uint32_t alone;           /* of these, such that it is not read before control is done with them */
    int64_t flooding_ns;      /* leafs: since when they have owed much; 0 = they do not */
    int64_t heard_ns;         /* links: for how long it has brought something */
    lanes_t *lanes; /* leafs: what waits for it; NULL: it is neither narrow nor limited, and all waits in conn.out */
    precedence_t *precedence;
    budget_t *budget; /* NULL: none */
    peer_t *next_stalled;
    peer_t *next_throttled, **at_throttled; /* throttle.c */
    peer_t *next_dirty;
    uint64_t line_round; /* output.c: in the line for that round, until so many bytes are written to it, ever */
    uint64_t line_until;
    peer_t *next_doomed;
    peer_t *next_backlog;
    peer_t *next_leaf, **at_leaf; /* in its account's list of links; NULL: in none */
    peer_t *next_shedding, *previous, *next;
};

/* ---- the life of a peer ------------------------------------------------------------------------------------------ */

/* Takes over fd (-1 in tests). NULL: no memory; fd is still the caller's. */
peer_t *peer_new(plane_t *plane, int fd, uint32_t kind, uint64_t listener, bytes_t address);
/* One whose socket is at another server: control is not told of it, nor that it ends. NULL: no memory. */
peer_t *peer_new_carried(plane_t *plane, uint32_t kind);
/* Adds or removes a reason for which the peer is not read. */
void peer_hold(plane_t *plane, peer_t *peer, peer_waits_t reason);
void peer_release(plane_t *plane, peer_t *peer, peer_waits_t reason);
/* Sets the kind of a peer that has spoken HTTP so far (LISTEN_WEB) and now says which protocol it speaks. */
LEAF_MUST_USE status_t peer_becomes(plane_t *plane, peer_t *peer, uint32_t kind);
peer_t *peer_find(plane_t *plane, uint64_t id);
/* Posts what control is told of it and need not act on: of a greeted peer, later, with what else there is. */
void peer_tell(plane_t *plane, const peer_t *peer, event_entry_t *entry);
/* Parses and acts on as much of input as it can; returns how much it used. */
uint32_t peer_input(plane_t *plane, peer_t *peer, bytes_t input);
void peer_pause(plane_t *plane, peer_t *peer); /* waits for a verdict */
void peer_resume(plane_t *plane, peer_t *peer);
void peer_admit(plane_t *plane, peer_t *peer, account_t *account, const conn_verdict_t *verdict);
void peer_limit(plane_t *plane, peer_t *peer, const conn_verdict_t *verdict); /* of peer_admit: flags and limits */
/* Marks for closing; text (may be empty) goes out as -ERR first. */
void peer_doom(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
void peer_doom_silently(plane_t *plane, peer_t *peer, uint32_t reason, bytes_t text);
void peer_error(plane_t *plane, peer_t *peer, bytes_t text); /* refuses, connection stays */
void peer_send(plane_t *plane, peer_t *peer, bytes_t frame);
void peer_send_urgent(plane_t *plane, peer_t *peer, bytes_t frame); /* PONG, INFO: see net/outq.h */
/* A frame was emitted into peer->conn.out.data. */
void peer_emitted(plane_t *plane, peer_t *peer);
void peer_emit_failed(plane_t *plane, peer_t *peer, status_t status);
LEAF_MUST_USE status_t peer_describe(peer_t *peer, const description_t *description);
void peer_undescribe(peer_t *peer);
void peer_pong(plane_t *plane, peer_t *peer);   /* a PING came */
void peer_ponged(plane_t *plane, peer_t *peer); /* a PONG came */
void peer_ping(plane_t *plane, peer_t *peer);   /* if it is time for one */
void peer_chores(plane_t *plane, peer_t *peer); /* pings, deadlines, expiry */
/* Has it done anything but keep its connection alive? Looked at now and then, so that no message pays for it. */
void peer_look(const plane_t *plane, peer_t *peer);
void peer_stall(plane_t *plane, peer_t *producer, const outq_t *receiver); /* slows it down, if that is behind */
void peer_wait(plane_t *plane, peer_t *peer); /* there is no memory for its input: it is not read for a moment */
void peer_unstall(plane_t *plane);            /* those whose moment is over */
/* Begins a peer's new introduction: entry, its CONNECT, goes to control when its subscriptions are gone. It waits. */
void peer_shed(plane_t *plane, peer_t *peer, event_entry_t *entry);
void peer_sweep_begin(plane_t *plane);           /* of a turn: peers that were leaving go on with it */
void peer_sweep(plane_t *plane);                 /* closes what is doomed */
void peer_want(plane_t *plane, peer_t *peer);    /* tells the loop what the state says */
void peer_unasked(plane_t *plane, peer_t *peer); /* the loop reported input that it is not read for now */
static inline void peer_touch(plane_t *plane, peer_t *peer) {
    if (!peer->dirty) {
        peer->dirty = true;
        peer->next_dirty = plane->dirty;
        plane->dirty = peer;
    }
}

static inline bool peer_waits(const peer_t *peer, peer_waits_t reason) {
    return (peer->waits & reason) != 0;
}
/* May it send, or does what it sent wait for us? */
static inline bool peer_is_read(const peer_t *peer) {
    return (peer->state == PEER_GREETING || peer->state == PEER_ADMITTED) && peer->waits == 0;
}
/* True for a link of which this server is the spoke. */
static inline bool peer_is_hub(const peer_t *peer) {
    return (peer->flags & VERDICT_SPOKE) != 0;
}
/* True for a link that is told of the interest of clients and services alone, and not of what other links want. */
static inline bool peer_is_isolated(const peer_t *peer) {
    return (peer->flags & VERDICT_ISOLATED) != 0;
}
/* Acts on input (what was kept and what came) and keeps what is left. */
void peer_act(plane_t *plane, peer_t *peer, bytes_t input);

bool peer_is_full(const plane_t *plane, peer_t *peer); /* a consumer is told so, and peer remembers it */

#endif
