/* websocket_private.h: what the files websocket*.c share. */
#ifndef LEAFD_NET_WEBSOCKET_PRIVATE_H
#define LEAFD_NET_WEBSOCKET_PRIVATE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "net/websocket.h"

/*   0                   1                                      the first two bytes of a frame
 *   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
 *  +-+-+-+-+-------+-+-------------+
 *  |F|R|R|R| opcode|M|  length: up to 125 bytes, 126: 2 more bytes tell, 127: 8 more
 *  |I|S|S|S|       |A|             |
 *  |N|V|V|V|       |S|             |
 *  | |1|2|3|       |K|             |  then the mask's 4 bytes, if there is one
 *  +-+-+-+-+-------+-+-------------+
 */
#define FRAME_FINAL 0x80u
#define FRAME_COMPRESSED 0x40u /* RSV1, in the first frame of a message */
#define FRAME_RESERVED 0x30u
#define FRAME_OPCODE 0x0fu
#define FRAME_MASKED 0x80u
#define FRAME_LENGTH 0x7fu

#define OPCODE_CONTINUATION 0u
#define OPCODE_TEXT 1u
#define OPCODE_BINARY 2u
#define OPCODE_CLOSE 8u
#define OPCODE_PING 9u
#define OPCODE_PONG 10u

#define FRAME_HEAD_MAX 14u
#define CONTROL_MAX 125u
#define DESK_SIZE (64u * 1024u)
#define IN_PLACE_MAX 32 /* iovecs of one send */
#define DEFLATE_MIN 65u /* bytes; fewer are not worth it */

#define CLOSE_NORMAL 1000u
#define CLOSE_WRONG 1002u
#define CLOSE_NO_STATUS 1005u
#define CLOSE_WRONG_TEXT 1007u
#define CLOSE_TOO_BIG 1009u

typedef struct inflater inflater_t; /* websocket_deflate.c */
typedef struct deflater deflater_t;

struct websocket_desk {
    uint8_t *in;          /* DESK_SIZE: what one receive took, while messages may be compressed */
    uint8_t *out;         /* DESK_OUT_SIZE: frames on their way */
    uint8_t *packed;      /* likewise: one compressed message */
    deflater_t *deflater; /* made when first needed */
    inflater_t *spare;    /* of the connection that needed one last */
    uint64_t strangers;   /* bytes of inflaters that strangers have */
};

/* Frames of DESK_SIZE bytes in all; small ones have more heads. */
#define DESK_OUT_SIZE (DESK_SIZE + DESK_SIZE / 4 + (DESK_SIZE / WEBSOCKET_SMALL_MAX + 2) * FRAME_HEAD_MAX)

struct websocket {
    websocket_desk_t *desk;
    const transport_t *under;
    void *under_state;
    uint64_t inflated_max;
    uint64_t random;
    uint32_t flags;
    /* Input. */
    uint8_t head[FRAME_HEAD_MAX];
    uint8_t head_size;
    bool in_payload;
    bool in_message;   /* data frames of it have come, and the last one not */
    bool compressed;   /* that message is */
    bool final;        /* the present frame is its last */
    bool inflates;     /* the inflater may have more than there was room for */
    bool ending;       /* its last frame has come, and the inflater is not at its end */
    bool ended;        /* nothing more is read */
    bool stranger;     /* has not logged in */
    uint8_t tail_left; /* of the bytes that end a compressed message for the inflater */
    uint8_t opcode;
    uint8_t key[4];    /* of the mask; zeros: there is none */
    uint64_t left;     /* bytes of the frame's payload to come */
    uint64_t at;       /* bytes of it that came */
    uint64_t inflated; /* of the present message */
    inflater_t *inflater;
    uint8_t control[CONTROL_MAX];
    buffer_t held; /* input that there was no room for */
    /* Output. */
    uint8_t pong[CONTROL_MAX];
    uint8_t pong_size;
    bool pongs;
    buffer_t out;        /* frames that the transport under it did not take */
    uint64_t frame_left; /* bytes of a frame that begins in front of what is sent next */
    uint16_t status;     /* of our close frame */
    bytes_t text;        /* in it; a literal */
    bytes_t fault;
};

/* ---- websocket_read.c -------------------------------------------------------------------------------------------- */

/* Takes frames from `in` and puts their data into to; to may be in, where no message is compressed. Returns how much of
 * in was used: all, if there was room enough. */
size_t websocket_frames(websocket_t *websocket, uint8_t *in, size_t size, uint8_t *to, size_t room, size_t *got);
/* Copies and masks: byte `at` of a payload, the first one here, with key[at % 4]. to may be from, or begin in front of
 * it. */
void websocket_mask(uint8_t *to, const uint8_t *from, size_t size, const uint8_t key[4], uint64_t at);
void websocket_fail(websocket_t *websocket, uint16_t status, bytes_t text);

/* ---- websocket_deflate.c ----------------------------------------------------------------------------------------- */

typedef enum inflated { INFLATED_MORE, INFLATED_ROOM, INFLATED_BAD } inflated_t;

/* For one message; NULL: no memory, or strangers have all that they may. */
inflater_t *inflater_take(websocket_desk_t *desk, share_t *share, bool stranger);
/* Notes that an inflater's owner is no stranger any more. NULL: nothing. */
void inflater_known(websocket_desk_t *desk, inflater_t *inflater);
void inflater_give(websocket_desk_t *desk, inflater_t *inflater);
/* Inflates in into to; *used and *got say how far. INFLATED_ROOM: it may have more than there was room for. */
inflated_t inflater_run(inflater_t *inflater, const uint8_t *in, size_t size, size_t *used, uint8_t *to, size_t room,
                        size_t *got);
/* A whole message: size bytes of iov from `from` on, into packed. 0: it failed. */
size_t deflater_run(websocket_desk_t *desk, const struct iovec *iov, int count, size_t from, size_t size);
void deflater_free(deflater_t *deflater);
void inflater_free(inflater_t *inflater);

#endif
