/* web.h: connections that begin with HTTP and go on with WebSocket frames, in both roles. See net/websocket.h. */
#ifndef LEAFD_PLANE_WEB_H
#define LEAFD_PLANE_WEB_H

#include "base/bytes.h"
#include "plane/plane.h"

/* A request or an answer is that long at most, without a body. */
#define HTTP_HEAD_MAX (16u * 1024u)

/* Behind its head: the answer goes out (as a server), then it speaks WebSocket and is of that kind (CONN_*), or it is
 * doomed. flags: WEBSOCKET_* of abi.h. */
void web_upgrade(plane_t *plane, peer_t *peer, uint32_t flags, uint32_t kind, bytes_t answer);
/* Tells the WebSocket of a peer that is about to be closed why, in the words of RFC 6455. */
void web_farewell(peer_t *peer);
/* Why its frames were not understood; empty: they were, or it has none. */
bytes_t web_fault(const peer_t *peer);
void web_close(plane_t *plane);

#endif
