/* dispatch.h: one function a protocol verb, of clients and of leaf links, before and after the login.
 */
#ifndef LEAFD_PLANE_DISPATCH_H
#define LEAFD_PLANE_DISPATCH_H

#include <stdbool.h>

#include "base/abi_types.h"
#include "base/status.h"
#include "wire/op.h"

typedef struct peer peer_t;

/* Before the login. false: the op was not consumed (it waits for a verdict) or the peer is doomed. */
bool greet_client(plane_t *plane, peer_t *peer, const op_t *op);
bool greet_leaf(plane_t *plane, peer_t *peer, const op_t *op);
/* After it. false: the peer is doomed. */
bool dispatch_client(plane_t *plane, peer_t *peer, const op_t *op);
bool dispatch_leaf(plane_t *plane, peer_t *peer, const op_t *op);
LEAF_MUST_USE status_t leaf_admitted(plane_t *plane, peer_t *peer);

#endif
