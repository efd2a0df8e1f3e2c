/* compress_private.h: what the files compress*.c share. */
#ifndef LEAFD_NET_COMPRESS_PRIVATE_H
#define LEAFD_NET_COMPRESS_PRIVATE_H

#include "base/buffer.h"
#include "base/crc.h"
#include "net/compress.h"
#include "text/s2_encode.h"
#include "text/terse.h"

#define CHUNK_BLOCK 0x00u
#define CHUNK_RAW 0x01u
#define CHUNK_TERSE_BLOCK 0x40u
#define CHUNK_TERSE 0x41u
#define CHUNK_SKIPPED 0x80u /* this and all above, but the identifier */
#define CHUNK_IDENTIFIER 0xffu

#define CHUNK_HEAD 4u
#define CHUNK_CHECKSUM 4u
#define CHUNK_LENGTH 3u
#define CHUNK_TERSE_HEAD (CHUNK_CHECKSUM + CHUNK_LENGTH)
#define IDENTIFIER_SIZE 10u

#define DESK_IN (64u * 1024u)
#define DESK_OUT (IDENTIFIER_SIZE + CHUNK_HEAD + CHUNK_CHECKSUM + S2_ENCODE_MAX)
#define HELD_READ (16u * 1024u) /* at least so much is read at once when a chunk is not whole */
/* A chunk that is not whole, and what came with its end. */
#define HELD_MAX (2u * COMPRESS_BLOCK_MAX)

#define EFFORTS 3u

struct compress_desk {
    uint8_t *in;    /* DESK_IN: what one receive took */
    uint8_t *text;  /* S2_ENCODE_MAX: what one send was given, in one piece */
    uint8_t *out;   /* DESK_OUT: chunks on their way */
    uint8_t *terse; /* TERSE_ROOM(TERSE_TEXT_MAX): a piece in that form, on its way or come */
    s2_encoder_t *encoders[EFFORTS];
    /* One block that was unpacked, since there was no room for it. */
    uint8_t *block;
    uint32_t block_room;
    const compress_t *owner;
    uint64_t serial;
    bool used_in, used_out, used_terse, used_block; /* since the last compress_desk_idle */
    bool used_encoder[EFFORTS];
};

struct compress {
    compress_desk_t *desk;
    const transport_t *under;
    void *under_state;
    /* Input. */
    buffer_t held;        /* input that was not acted on */
    uint64_t serial;      /* of the block that comes next */
    uint32_t block_max;   /* bytes that one may become */
    uint32_t given;       /* of the block that held begins with: so much was handed over */
    uint32_t skip;        /* bytes to come that nobody looks at */
    bool begun;           /* the identifier has come */
    bool plain;           /* an error came in its place: what comes is no stream */
    terse_t *terse_heard; /* NULL: the peer does not speak like that */
    buffer_t aside;       /* a piece for which there was no room: a second time it would become something else */
    bool ready;           /* held has more to hand over */
    bool ended;           /* nothing more is read */
    bytes_t fault;
    /* Output. */
    bool introduced; /* the identifier has gone out */
    compression_t how;
    uint64_t plain_left;
    terse_t *terse_said; /* NULL: the peer does not understand it */
    buffer_t out;        /* chunks that the transport under it did not take */
};

/* compress.c. Room for a piece in the terse form; NULL: no memory. */
uint8_t *compress_desk_terse(compress_desk_t *desk);
/* compress_read.c */
status_t compress_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got);

/* The checksum in a chunk, of the bytes that it stands for. */
static inline uint32_t masked(uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
