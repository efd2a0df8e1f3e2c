/* output.h: what is written to connections: which of them in a turn, and how a large message is queued for many. */
#ifndef LEAFD_PLANE_OUTPUT_H
#define LEAFD_PLANE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/shared.h"
#include "base/status.h"
#include "net/outq.h"
#include "wire/emit.h"
#include "wire/op.h"

typedef struct plane plane_t;
typedef struct peer peer_t;

/* Header and payload of so many bytes are shared by the queues of their receivers. */
#define BODY_SHARED_MIN 8192u
#define OUTPUT_FEW 512u                    /* who has no more waiting is written first */
#define OUTPUT_BULK 16384u                 /* with more waiting a connection takes turns with others like it */
#define OUTPUT_PIECE (256u * 1024u)        /* written of one, then the next has its turn */
#define OUTPUT_TURN (8u * 1024u * 1024u)   /* written of them in one turn of the loop, .. */
#define OUTPUT_TIME_NS (4 * NS_PER_MS)     /* .. or as many as that time is enough for */
#define OUTPUT_REFILL (64u * 1024u)        /* with no more waiting a connection gets what its protocol has for it */
#define OUTPUT_CALL 4096u                  /* what a call costs, in bytes of OUTPUT_TURN */
#define OUTPUT_UNREAD_NS (250 * NS_PER_MS) /* its socket took nothing for so long: nobody is to wait for it */

typedef struct output {
    peer_t *first; /* of the line: whose turn is next */
    peer_t *last;
    uint64_t round;   /* who joins the line now belongs to the next one */
    uint64_t old;     /* in the line, of this round */
    uint64_t young;   /* and of the next one */
    bool running;     /* there was a round when the last turn ended */
    bool under_way;   /* it goes on: producers that are paused stay so */
    bool lags;        /* much waits in the line, and memory for it is getting short: large messages wait */
    uint64_t room;    /* bytes of OUTPUT_TURN that are left */
    int64_t began_ns; /* with the first of them in this turn; 0: not yet */
} output_t;

/* ---- large messages ---------------------------------------------------------------------------------------------- */

/* Gives the message a body for the queues of so many receivers; the caller's reference. NULL: it is to be copied. */
shared_t *output_body(plane_t *plane, message_t *message, uint32_t receivers);
/* Behind the line of message, whose body it has, and for which there is room: the body, and the end of the frame. */
LEAF_MUST_USE status_t output_queue_body(outq_t *out, const message_t *message, bool headers);
/* Does it have to wait, because output lags and it is a large message? */
bool output_holds(plane_t *plane, peer_t *peer, const op_t *op);

/* ---- links ------------------------------------------------------------------------------------------------------- */

typedef struct publication publication_t;
void output_sent(plane_t *plane, peer_t *peer, const message_t *message); /* queued for a link */
/* A link with lanes: it waits in one, or is dropped where too much does. name: emit's. */
void output_line_up(plane_t *plane, peer_t *peer, const publication_t *publication, bytes_t name);

/* ---- who is written ---------------------------------------------------------------------------------------------- */

void output_turn(plane_t *plane);  /* a turn of the loop begins to write */
void output_flush(plane_t *plane); /* who was touched, as much as the turn has room for */
void output_end(plane_t *plane);   /* what is left of it */
/* The socket of the peer takes more. */
void output_ready(plane_t *plane, peer_t *peer);
/* Is it so far behind that its producers would pause for it, and does it read nothing, so that this would not help? */
bool output_unread(const plane_t *plane, const peer_t *peer);
void output_forget(plane_t *plane, peer_t *peer); /* it goes */
void peer_flush(plane_t *plane, peer_t *peer);    /* now, all that waits */

#endif
