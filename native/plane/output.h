/* output.h: what is written to connections: which of them in a turn, and how a large message is queued for many. */
#ifndef LEAFD_PLANE_OUTPUT_H
#define LEAFD_PLANE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shared.h"
#include "base/status.h"
#include "net/outq.h"
#include "wire/emit.h"
#include "wire/op.h"

typedef struct plane plane_t;
typedef struct peer peer_t;

/* Header and payload of so many bytes are shared by the queues of their receivers, where there are two or more. */
#define BODY_SHARED_MIN 8192u
#define OUTPUT_BULK 16384u              /* with more waiting a connection takes turns with others like it */
#define OUTPUT_PIECE (1024u * 1024u)    /* written of one, then the next has its turn */
#define OUTPUT_TURN (8u * 1024u * 1024) /* written of them in one turn of the loop, a few milliseconds */
#define OUTPUT_CALL 4096u               /* what a call costs, in bytes of that */

typedef struct output {
    peer_t *first; /* whose turn is next */
    peer_t *last;
    uint64_t joined; /* ever */
    uint64_t left;
    uint64_t round; /* when so many have left, all that waited at the round's beginning had their turn */
    bool under_way; /* that is not so yet: producers that are paused stay so */
    bool lags;      /* much waits for its turn, and memory for it is getting short: large messages wait */
    uint64_t room;  /* bytes of OUTPUT_TURN that are left */
} output_t;

/* ---- large messages ---------------------------------------------------------------------------------------------- */

/* For the queues of several receivers; the caller's reference. NULL: there is no memory, it is to be copied. */
shared_t *output_body(plane_t *plane, const message_t *message);
/* Behind the line of message, whose body it has, and for which there is room: the body, and the end of the frame. */
LEAF_MUST_USE status_t output_queue_body(outq_t *out, const message_t *message, bool headers);
/* Does it have to wait, because output lags and it is a large message? */
bool output_holds(plane_t *plane, peer_t *peer, const op_t *op);

/* ---- who is written ---------------------------------------------------------------------------------------------- */

void output_turn(plane_t *plane);  /* a turn of the loop begins to write */
void output_flush(plane_t *plane); /* who was touched, as much as the turn has room for */
void output_end(plane_t *plane);   /* what is left of it */
/* The socket of the peer takes more. */
void output_ready(plane_t *plane, peer_t *peer);
void output_forget(plane_t *plane, peer_t *peer); /* it goes */
void peer_flush(plane_t *plane, peer_t *peer);    /* now, all that waits */

#endif
