/* websocket.h: WebSocket (RFC 6455) as a transport (transport.h) on another one: the socket, or TLS.
 *
 *     socket [ > TLS ] > HTTP request and answer in plain > conn_switch > WebSocket frames > the bytes of the protocol
 *
 * The bytes of all data frames, text or binary, are one stream: where a frame ends means nothing. What is received is
 * handed over as it comes, so the length that a frame announces costs nothing and has no bound; control frames have 125
 * bytes at most. Messages may be compressed (permessage-deflate, RFC 7692) without context takeover: a connection has
 * an inflater only between the beginning and the end of a compressed message, and all of a thread share one deflater.
 *
 * The files websocket*.c: websocket.c what is sent, websocket_read.c frames that come, websocket_deflate.c the only one
 * that knows zlib. Not here: the HTTP request and its answer, which come before (control decides about
 * them), and who may connect.
 */
#ifndef LEAFD_NET_WEBSOCKET_H
#define LEAFD_NET_WEBSOCKET_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/share.h"
#include "base/status.h"
#include "net/transport.h"

/* A thread's part: buffers, and what compresses. */
typedef struct websocket_desk websocket_desk_t;

/* NULL: no memory. */
websocket_desk_t *websocket_desk_open(void);
void websocket_desk_close(websocket_desk_t *desk); /* when no connection is left; NULL: nothing */

typedef struct websocket websocket_t;

#define WEBSOCKET_CLIENT 1u   /* we dialled */
#define WEBSOCKET_UNMASKED 2u /* the client's frames need no mask (Nats-No-Masking) */
#define WEBSOCKET_DEFLATE 4u  /* permessage-deflate was agreed upon */
#define WEBSOCKET_SMALL 8u    /* frames of at most WEBSOCKET_SMALL_MAX bytes: browsers do better with these */
#define WEBSOCKET_WHOLE 16u   /* but not compressed ones: Safari does not take a compressed message in parts */

#define WEBSOCKET_SMALL_MAX 4096u

typedef struct websocket_wish {
    uint32_t flags;        /* WEBSOCKET_* */
    uint64_t inflated_max; /* bytes that one compressed message may become */
    bytes_t input;         /* what has come behind the HTTP answer already */
    share_t *share;        /* of what is kept; NULL: nowhere */
    bool stranger;         /* until websocket_admitted */
} websocket_wish_t;

/* State for conn_switch with transport_websocket. under and its state are the new one's once it is switched to. NULL:
 * no memory. */
websocket_t *websocket_new(websocket_desk_t *desk, const websocket_wish_t *wish, const transport_t *under,
                           void *under_state);
/* Drops a WebSocket that was not switched to: the transport under it stays its owner's. */
void websocket_drop(websocket_t *websocket);

extern const transport_t transport_websocket;

/* Notes a login: the connection may have an inflater for as long as the share has room. All strangers together hold a
 * quarter of the share in inflaters, so that messages which they do not end leave room for those of users. */
void websocket_admitted(websocket_t *websocket);

/* Sets the status code of RFC 6455 and the text for the peer at the end, unless the end began with the peer or its
 * fault. */
void websocket_why(websocket_t *websocket, uint16_t status, bytes_t text);
/* Why the peer's frames were not understood; empty: they were. A literal. */
bytes_t websocket_fault(const websocket_t *websocket);

#endif
