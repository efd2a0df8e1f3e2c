/* secure.h: TLS for connections: contexts by number, who shakes hands, and how it ended. See net/tls.h. */
#ifndef LEAFD_PLANE_SECURE_H
#define LEAFD_PLANE_SECURE_H

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plane/plane.h"

typedef struct tls_context tls_context_t;

/* Takes over the owner's part of context; NULL: there is none of that number any more. */
LEAF_MUST_USE status_t secure_put(plane_t *plane, uint64_t number, tls_context_t *context);

typedef struct secure_texts {
    bytes_t before; /* said in plain text before the handshake */
    bytes_t behind; /* said behind it, where it came first */
    bytes_t name;   /* as a client: whose certificate is expected */
} secure_texts_t;

/* Begins the peer's TLS, or dooms the peer. */
void secure_peer(plane_t *plane, peer_t *peer, const secure_t *how, const secure_texts_t *texts);

/* A turn begins. */
void secure_turn(plane_t *plane);
/* Those go on whose wait is over; behind those of whom something has come, so that who has a seat comes to his end. */
void secure_call(plane_t *plane);
/* When the next one's wait is over; INT64_MAX: none waits. */
int64_t secure_deadline(const plane_t *plane);
/* Something comes of a peer whose handshake is not over: true: its time is, and it is doomed. */
bool secure_late(plane_t *plane, peer_t *peer);
/* After input or output of a peer whose handshake is not over: tells control if it is now, sends what waited for it,
 * dooms the peer if it failed. */
void secure_look(plane_t *plane, peer_t *peer);
/* Why TLS ended an open connection; empty: something else did. */
bytes_t secure_reason(const peer_t *peer);
void secure_chores(plane_t *plane, peer_t *peer);
void secure_close(plane_t *plane);

#endif
