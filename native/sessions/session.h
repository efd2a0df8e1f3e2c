/* session.h: one client of MQTT: what it said of itself, what is under way both ways. Sans-IO: packets and connections
 * are the caller's.
 *
 *     session_t   who it is and what it takes           from CONNECT on
 *       will      the message that it leaves behind     will.h; until DISCONNECT
 *       answers   what it is still to be told           answers.h
 *       received  its messages of QoS 2 that are here   ids.h
 *       kept      what outlives its connection          kept.h
 *       flight    what it is still to tell us           flight.h
 *       aliases   short names of topics, both ways      aliases.h
 */
#ifndef LEAFD_SESSIONS_SESSION_H
#define LEAFD_SESSIONS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/names.h"
#include "base/share.h"
#include "base/status.h"
#include "mqtt/packet.h"
#include "mqtt/write.h"
#include "sessions/aliases.h"
#include "sessions/answers.h"
#include "sessions/flight.h"
#include "sessions/ids.h"
#include "sessions/kept.h"
#include "sessions/will.h"

#define SESSION_EVER UINT32_MAX /* an expiry: it has none */

/* The retained messages for a new subscription that are still to be sent. */
typedef struct retained_read {
    struct retained_read *next;
    uint64_t from;    /* sequence */
    uint64_t upto;    /* likewise: the last one when it subscribed; it has had those behind it */
    int64_t asked_ns; /* where another server has them: when it was asked .. */
    uint32_t attempt; /* .. and how often */
    uint32_t sid_size;
    uint32_t pattern_size;
    uint8_t bytes[]; /* sid, pattern */
} retained_read_t;

/* The terms of a session. */
typedef struct session_terms {
    uint32_t window;      /* messages that it has not acknowledged */
    uint32_t alias_max;   /* of its aliases */
    uint64_t waiting_max; /* bytes that wait because it takes no more messages at once */
    share_t *waiting;     /* where they are counted */
} session_terms_t;

typedef struct session {
    name_link_t client; /* its identifier (own copy), of the account with that number, once that is known */
    void *owner;        /* the caller's: its connection .. */
    void *shared;       /* .. and what all of them share */
    mqtt_writer_t writer;
    bool assigned; /* the identifier is a name of ours */
    bool listed;   /* in the table of those that are here */
    bool enters;   /* it is let in, and waits for its session before it is told */
    bool admitted;
    bool told;         /* why it ends, or it said so itself */
    bool waits;        /* it is not read until an answer has gone */
    bool waits_keeper; /* or until it is known whether messages are retained */
    bool far_placed;   /* a stream that it waits for is none of ours (far_since_ns) */
    bool reads_pause;  /* what is retained is sent on when it has room .. */
    bool reads_ready;  /* .. which it has */
    bool reads_missed; /* since it is slow it was not sent all messages meanwhile */
    bool clears;       /* it waits until another server has ended what was kept of it .. */
    bool cleared;      /* .. or has waited long enough */
    bool clean;
    bool present;        /* its session was there before it came */
    bool explains;       /* it wants to know why (request problem information) */
    uint16_t keep_alive; /* seconds, 0 = none */
    uint32_t expiry;     /* seconds after its connection; SESSION_EVER */
    uint32_t asked;      /* the same, as it asked for it */
    will_t *will;
    kept_t *kept; /* NULL: it ends with its connection */
    void *carry;  /* the caller's; NULL: its session is not looked for at another server */
    answers_t answers;
    ids_t received; /* where it is not kept: session_received() */
    flight_t flight;
    aliases_t named;        /* by the client */
    aliases_t given;        /* by us */
    retained_read_t *reads; /* the first one is under way */
    retained_read_t *reads_last;
    struct session *next_waiting; /* the caller's */
    struct session *next_ready;   /* likewise, with reads_ready */
    uint64_t stamp;               /* the caller's: when it came, among those of all servers; 0: it is alone */
    uint64_t cost;                /* of memory, for the caller */
    int64_t far_since_ns;         /* since when it has waited for another server's stream; 0: it does not */
} session_t;

/* NULL: no memory. */
session_t *session_new(const mqtt_login_t *login, const mqtt_properties_t *properties, const session_terms_t *terms);
void session_free(session_t *session);
/* false: no memory. */
LEAF_MUST_USE bool session_name(session_t *session, bytes_t client);
/* The identifiers of QoS 2 of the client that are in use. */
static inline ids_t *session_received(session_t *session) {
    return session->kept != NULL ? &session->kept->received : &session->received;
}
void session_forget_will(session_t *session);
/* false: no memory. */
LEAF_MUST_USE bool session_read(session_t *session, bytes_t sid, bytes_t pattern);
void session_read_done(session_t *session); /* the first one */
/* The memory of a session, about, without the messages that wait. */
uint64_t session_size(const session_t *session);

#endif
