/* tls.h: TLS as a transport (transport.h), for both roles, with what precedes the handshake on NATS connections.
 *
 *   server                                                                                       client
 *   SAYING    the INFO goes out in plain text                        (not with TLS_FIRST)           |
 *   WAITING   does the peer speak first?      no: SAYING             (TLS_FIRST with a wait)        |
 *   SNIFFING  a TLS record, or plain text?    plain text: PLAIN      (TLS_OPTIONAL)                 |
 *   QUEUED    for the whole ClientHello  <----------------------------------------------------------+
 *   STANDING  in line for a seat and its part of a turn: CALLED
 *   SHAKING   > OPEN, or FAILED
 *
 * A handshake costs processor time and memory before anybody knows who is there, so it is bounded: a connection has
 * none of OpenSSL's memory before its first record is whole; no more shake hands at a time than there are seats, of
 * which memory is the bound (others stand in line, and get the seat of a peer that has been silent for longer than its
 * round trip explains); those of one turn end when they have taken TLS_TURN_NS, the others go on in the next turn.
 *
 * The files tls*.c are the only ones that know OpenSSL: tls_context.c makes what many connections share, tls_shake.c
 * does all of the above, tls_seats.c says whose turn it is, tls.c does the records of an open connection, tls_reason.c
 * says in a line why one failed. OpenSSL initialises itself with the first context: a daemon without TLS allocates
 * nothing. Not here: which connection gets TLS and what becomes of a failed one (plane/secure.c), files (control reads
 * them).
 */
#ifndef LEAFD_NET_TLS_H
#define LEAFD_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/share.h"
#include "base/status.h"
#include "net/transport.h"

#define TLS_UPDATES_MAX 16u /* of its keys by a peer in one turn: a record of 27 bytes costs some 10 us */
#define TLS_SEATS_MIN 512u
#define TLS_SEAT_BYTES (UINT64_C(46) * 1024) /* what OpenSSL has for a server's half handshake, measured */
#define TLS_PATIENCE_NS INT64_C(200000000)   /* with a peer that is near: tls_seats.c */
#define TLS_TURN_NS INT64_C(1000000)

/* ---- what many connections share --------------------------------------------------------------------------------- */

typedef struct tls_context tls_context_t;

/* PEM texts, and names as in Go. */
typedef struct tls_material {
    bytes_t ca;                   /* empty: the system's */
    const bytes_t *cipher_suites; /* of TLS 1.2; none: ECDHE with an AEAD */
    const bytes_t *curves;        /* none: all that are known to be good */
    const bytes_t *pinned;        /* SHA-256 of public keys, in hexadecimal; none: any */
    const bytes_t *certificates;  /* chain and key, chain and key, .. */
    uint32_t cipher_suite_count;
    uint32_t curve_count;
    uint32_t pinned_count;
    uint32_t certificate_count; /* twice the number of pairs */
} tls_material_t;

/* In any thread, since it takes long (parsing a bundle of authorities); the caller is its owner then. reason: what
 * is wrong, when it fails. */
LEAF_MUST_USE status_t tls_context_new(const tls_settings_t *settings, const tls_material_t *material,
                                       tls_context_t **out, char reason[TLS_REASON_SIZE]);
/* The owner's part; connections that have it keep it. */
void tls_context_release(tls_context_t *context);
int64_t tls_context_timeout_ns(const tls_context_t *context);

/* ---- a thread's part --------------------------------------------------------------------------------------------- */

typedef struct tls_desk tls_desk_t;

LEAF_MUST_USE status_t tls_desk_open(tls_desk_t **out);
void tls_desk_close(tls_desk_t *desk); /* when no connection is left; NULL: nothing */
/* A turn begins: handshakes have their time again. */
void tls_desk_turn(tls_desk_t *desk, int64_t mono_ns);
/* So many bytes may be taken by those who shake hands; TLS_SEATS_MIN have a seat in any case. */
void tls_desk_seat(tls_desk_t *desk, uint64_t bytes);
/* How many shake hands. */
uint32_t tls_desk_shaking(const tls_desk_t *desk);

/* ---- a connection's part ----------------------------------------------------------------------------------------- */

typedef struct tls tls_t;

typedef struct tls_wish {
    uint32_t flags;        /* SECURE_* */
    int64_t wait_ns;       /* SECURE_FIRST as a server: so long the peer may take to speak first; 0: it has to */
    bytes_t before;        /* said in plain text before the handshake, but with SECURE_FIRST */
    bytes_t name;          /* as a client: the host whose certificate is expected */
    share_t *share;        /* of records that the socket did not take; NULL: nowhere */
    void *tag;             /* of the connection that waits (tls_desk_next) */
    int64_t round_trip_ns; /* as far as TCP knows it */
} tls_wish_t;

/* State for conn_switch with transport_tls. NULL: no memory. */
tls_t *tls_new(tls_desk_t *desk, tls_context_t *context, const tls_wish_t *wish);

extern const transport_t transport_tls;

typedef enum tls_outcome { TLS_GOING, TLS_OPEN, TLS_PLAIN, TLS_FAILED } tls_outcome_t;

tls_outcome_t tls_outcome(const tls_t *tls);
/* Why it failed, or why it ended after the handshake, in one line; empty: not for a reason of TLS. */
bytes_t tls_reason(const tls_t *tls);
/* The end is to be told to the peer in plain text, as nothing else was spoken yet. */
bool tls_throttled(const tls_t *tls);
/* True while the connection is still in plain text that was said first, since the peer did not speak first. */
bool tls_said_before(const tls_t *tls);
/* Its handshake may take less than a second, so who looks at all connections once a second comes too late. */
bool tls_hurries(const tls_t *tls);
/* Gives up a handshake that has taken too long. */
void tls_give_up(tls_t *tls);

typedef struct tls_facts {
    uint32_t version;    /* 0x0303: TLS 1.2, 0x0304: TLS 1.3 */
    bool resumed;        /* an earlier session was taken up again */
    const char *cipher;  /* as in Go */
    bytes_t certificate; /* the peer's, DER; free them with tls_facts_free */
    bytes_t chain;       /* the others up to the one that is trusted, one behind the other; none of a resumed session */
    uint64_t bytes_in;   /* of the handshake, on the wire */
    uint64_t bytes_out;
} tls_facts_t;

void tls_facts(const tls_t *tls, tls_facts_t *out);
void tls_facts_free(tls_facts_t *facts);

/* Whose wait for the peer's first word is over, or whose turn to shake hands has come: each is returned once, by its
 * tag, and goes on when its transport is told to send; NULL: none. */
void *tls_desk_next(tls_desk_t *desk);
/* When the next one is due; INT64_MAX: nobody waits. */
int64_t tls_desk_deadline(const tls_desk_t *desk);

#endif
