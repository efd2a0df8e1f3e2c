/* compress.h: an S2 stream as a transport (transport.h) on another one: the socket, or TLS. Leaf links speak it.
 *
 *     INFO, INFO in plain > conn_cover > S2 stream, both ways > the bytes of the protocol
 *
 *     stream:  chunks; the first one is the identifier         chunk:  kind, 3 bytes of length (little-endian), then
 *     ff  identifier     "S2sTwO"; may come again at any time
 *     00  block          checksum (4), a block as text/s2.h draws it
 *     01  raw            checksum (4), the bytes
 *     40, 41             checksum (4), length (3): a block or bytes that become text of that length by text/terse.h
 *     80..fe             passed over (padding, an index)
 *     02..7f             not understood: the end
 *
 * The checksum is CRC32C of the bytes that the chunk stands for, masked. What a send is given becomes one chunk, at
 * most S2_ENCODE_MAX bytes of it, and leaves at once: nothing waits for more to come.
 *
 * 40 and 41 are leafd's own, for a peer that has said that it knows them. Their checksum is that of the text in its
 * long form, so what one end remembers otherwise than the other ends the link, and nothing wrong is heard.
 *
 * A block is at most 4 MB long when unpacked, whatever it says, and before a stranger's login 64 KB. A connection keeps
 * of what comes only what has come: a chunk that is not whole, or one whose bytes there is no room for yet. What that
 * becomes is in memory once for the thread, and is made again where another connection's took its place meanwhile.
 *
 * The files compress*.c: compress.c what is sent, compress_read.c what comes. Not here: who compresses,
 * and how the ends agree (control); the block's format (text/s2.h, text/s2_encode.h).
 */
#ifndef LEAFD_NET_COMPRESS_H
#define LEAFD_NET_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/share.h"
#include "base/status.h"
#include "net/transport.h"

#define COMPRESS_BLOCK_MAX (4u * 1024u * 1024u)
#define COMPRESS_STRANGER_MAX (64u * 1024u)

/* A thread's part: buffers, and what compresses. */
typedef struct compress_desk compress_desk_t;

/* NULL: no memory. */
compress_desk_t *compress_desk_open(void);
void compress_desk_close(compress_desk_t *desk); /* when no connection is left; NULL: nothing */
/* About once a second: what has not been used for that long gives its memory back. */
void compress_desk_idle(compress_desk_t *desk);

typedef struct compress compress_t;

typedef struct compress_wish {
    compression_t how;
    bool stranger;       /* until compress_admitted */
    bytes_t input;       /* what has come of the stream already */
    uint64_t plain_left; /* so many bytes that wait to be sent go out as they are */
    share_t *held; /* of what is kept of the input, and of output that the one below does not take; NULL: nowhere */
    share_t *out;
} compress_wish_t;

/* State for conn_cover with transport_compress. under and its state are the new one's from then on. NULL: no memory. */
compress_t *compress_new(compress_desk_t *desk, const compress_wish_t *wish, const transport_t *under,
                         void *under_state);
/* Drops a stream that was not begun: the transport under it stays its owner's. */
void compress_drop(compress_t *compress);

extern const transport_t transport_compress;

void compress_admitted(compress_t *compress);
/* The level, from now on. */
void compress_change(compress_t *compress, const compression_t *how);
/* A round trip was measured: the level may follow from it. */
void compress_round_trip(compress_t *compress, int64_t rtt_ns);
uint32_t compress_level(const compress_t *compress); /* COMPRESS_* */
/* Why the peer's stream was not understood; empty: it was. A literal. */
bytes_t compress_fault(const compress_t *compress);

#endif
