/* compress_read.c: the chunks that a peer sends, in pieces of any size, into the room that there is. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "net/compress_private.h"
#include "text/s2.h"

/* A block is not much longer than what it becomes, however badly it was made. */
#define PACKED_MAX(size) ((size) + (size) / 6 + 32)

static void compress_fail(compress_t *compress, bytes_t why) {
    compress->ended = true;
    compress->fault = why;
}

static uint32_t chunk_number(const uint8_t *at, uint32_t count) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number |= (uint32_t)at[i] << (8 * i);
    }
    return number;
}

/* ---- one chunk --------------------------------------------------------------------------------------------------- */

typedef struct chunk {
    uint8_t kind;
    uint32_t size;      /* without its head */
    const uint8_t *at;  /* what follows the head */
    uint32_t made_size; /* what it stands for, if that is bytes of the connection */
} chunk_t;

/* false: it ends the stream. Of a chunk whose head alone has come. */
static bool may_come(compress_t *compress, uint8_t kind, uint32_t size) {
    if (kind == CHUNK_IDENTIFIER) {
        if (size == IDENTIFIER_SIZE - CHUNK_HEAD) {
            return true;
        }
    } else if (!compress->begun) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: it does not begin as one of S2"));
        return false;
    } else if (kind >= CHUNK_SKIPPED) {
        return true;
    } else if (compress->terse_heard != NULL && (kind == CHUNK_TERSE || kind == CHUNK_TERSE_BLOCK)) {
        if (size >= CHUNK_TERSE_HEAD && size - CHUNK_TERSE_HEAD <= PACKED_MAX(TERSE_ROOM(TERSE_TEXT_MAX))) {
            return true;
        }
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is too large"));
        return false;
    } else if (kind == CHUNK_BLOCK || kind == CHUNK_RAW) {
        uint32_t most = kind == CHUNK_RAW ? compress->block_max : PACKED_MAX(compress->block_max);
        if (size >= CHUNK_CHECKSUM && size - CHUNK_CHECKSUM <= most) {
            return true;
        }
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is too large"));
        return false;
    }
    compress_fail(compress, BYTES_LITERAL("compressed stream: a chunk is not understood"));
    return false;
}

static bool take_identifier(compress_t *compress, const chunk_t *chunk) {
    if (memcmp(chunk->at, "S2sTwO", IDENTIFIER_SIZE - CHUNK_HEAD) != 0) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: it does not begin as one of S2"));
        return false;
    }
    compress->begun = true;
    return true;
}

static bytes_t packed_of(const chunk_t *chunk) {
    return bytes_of(chunk->at + CHUNK_CHECKSUM, chunk->size - CHUNK_CHECKSUM);
}

static bool sum_fits(compress_t *compress, const chunk_t *chunk, const uint8_t *made) {
    if (masked(crc32c(0, made, chunk->made_size)) == chunk_number(chunk->at, CHUNK_CHECKSUM)) {
        return true;
    }
    compress_fail(compress, BYTES_LITERAL("compressed stream: the checksum of a block does not fit"));
    return false;
}

static bool unpack_chunk(compress_t *compress, const chunk_t *chunk, uint8_t *to) {
    bytes_t packed = packed_of(chunk);
    if (chunk->kind == CHUNK_RAW) {
        bytes_write(to, packed);
    } else if (s2_decode(packed, to, chunk->made_size) != STATUS_OK) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is damaged"));
        return false;
    }
    return sum_fits(compress, chunk, to);
}

/* Unpacks a chunk on the thread's desk where there is no room for all of it. NULL: the stream has ended. */
static const uint8_t *unpacked_aside(compress_t *compress, const chunk_t *chunk) {
    compress_desk_t *desk = compress->desk;
    desk->used_block = true;
    if (desk->owner == compress && desk->serial == compress->serial) {
        return desk->block;
    }
    desk->owner = NULL;
    if (desk->block_room < chunk->made_size) {
        free(desk->block);
        desk->block = malloc(chunk->made_size);
        desk->block_room = desk->block != NULL ? chunk->made_size : 0;
    }
    if (desk->block == NULL) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: no memory for a block"));
        return NULL;
    }
    if (!unpack_chunk(compress, chunk, desk->block)) {
        return NULL;
    }
    desk->owner = compress;
    desk->serial = compress->serial;
    return desk->block;
}

/* Returns whether it is done with it; *got grows by what was handed over. */
static bool take_bytes(compress_t *compress, const chunk_t *chunk, uint8_t *to, size_t room, size_t *got) {
    uint32_t left = chunk->made_size - compress->given;
    if (compress->given == 0 && left <= room - *got) {
        if (!unpack_chunk(compress, chunk, to + *got)) {
            return false;
        }
        *got += left;
        compress->serial++;
        return true;
    }
    if (*got != 0) {
        return false; /* there may be room enough next time */
    }
    const uint8_t *from = unpacked_aside(compress, chunk);
    if (from == NULL) {
        return false;
    }
    uint32_t part = left < room ? left : (uint32_t)room;
    memcpy(to, from + compress->given, part);
    *got = part;
    compress->given += part;
    if (part < left) {
        return false;
    }
    compress->given = 0;
    compress->serial++;
    return true;
}

/* ---- a chunk of terse lines -------------------------------------------------------------------------------------- */

/* What the chunk has, uncompressed. false: the stream has ended. */
static bool terse_of(compress_t *compress, const chunk_t *chunk, bytes_t *terse) {
    *terse = bytes_of(chunk->at + CHUNK_TERSE_HEAD, chunk->size - CHUNK_TERSE_HEAD);
    if (chunk->kind == CHUNK_TERSE) {
        return true;
    }
    uint8_t *room = compress_desk_terse(compress->desk);
    uint32_t size;
    if (room == NULL) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: no memory for a block"));
        return false;
    }
    if (s2_size(*terse, &size) != STATUS_OK || size > TERSE_ROOM(TERSE_TEXT_MAX)
        || s2_decode(*terse, room, size) != STATUS_OK) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is damaged"));
        return false;
    }
    *terse = bytes_of(room, size);
    return true;
}

static bool unpack_terse(compress_t *compress, const chunk_t *chunk, uint8_t *to) {
    bytes_t terse;
    if (!terse_of(compress, chunk, &terse)) {
        return false;
    }
    status_t status = terse_read(compress->terse_heard, terse, to, chunk->made_size);
    if (status != STATUS_OK) {
        compress_fail(compress, status == STATUS_NO_MEMORY ? BYTES_LITERAL("compressed stream: no memory for a block")
                                                           : BYTES_LITERAL("compressed stream: a block is damaged"));
        return false;
    }
    return sum_fits(compress, chunk, to);
}

/* As take_bytes; but each chunk is read once, since what it says goes on from the one before. */
static bool take_terse(compress_t *compress, const chunk_t *chunk, uint8_t *to, size_t room, size_t *got) {
    buffer_t *aside = &compress->aside;
    if (aside->size == 0 && chunk->made_size <= room - *got) {
        if (!unpack_terse(compress, chunk, to + *got)) {
            return false;
        }
        *got += chunk->made_size;
        return true;
    }
    if (*got != 0) {
        return false; /* there may be room enough next time */
    }
    uint8_t *place;
    if (aside->size == 0) {
        if (buffer_reserve(aside, chunk->made_size, &place) != STATUS_OK) {
            compress_fail(compress, BYTES_LITERAL("compressed stream: no memory for a block"));
            return false;
        }
        if (!unpack_terse(compress, chunk, place)) {
            return false;
        }
        aside->size = chunk->made_size;
    }
    uint32_t part = aside->size < room ? (uint32_t)aside->size : (uint32_t)room;
    memcpy(to, aside->at, part);
    *got = part;
    buffer_consume(aside, part);
    buffer_trim(aside, 0);
    return aside->size == 0;
}

static bool take_chunk(compress_t *compress, chunk_t *chunk, uint8_t *to, size_t room, size_t *got) {
    if (chunk->kind == CHUNK_IDENTIFIER) {
        return take_identifier(compress, chunk);
    }
    if (chunk->kind == CHUNK_TERSE || chunk->kind == CHUNK_TERSE_BLOCK) {
        chunk->made_size = chunk_number(chunk->at + CHUNK_CHECKSUM, CHUNK_LENGTH);
        if (chunk->made_size <= TERSE_TEXT_MAX) {
            return take_terse(compress, chunk, to, room, got);
        }
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is too large"));
        return false;
    }
    chunk->made_size = chunk->size - CHUNK_CHECKSUM;
    if (chunk->kind == CHUNK_BLOCK && s2_size(packed_of(chunk), &chunk->made_size) != STATUS_OK) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is damaged"));
        return false;
    }
    if (chunk->made_size > compress->block_max) {
        compress_fail(compress, BYTES_LITERAL("compressed stream: a block is too large"));
        return false;
    }
    return take_bytes(compress, chunk, to, room, got);
}

/* A peer that closes the connection before it has agreed says why in plain. */
static size_t take_as_it_is(compress_t *compress, const uint8_t *in, size_t size, uint8_t *to, size_t room,
                            size_t *got) {
    size_t part = size < room - *got ? size : room - *got;
    memcpy(to + *got, in, part);
    *got += part;
    compress->ready = part < size;
    return part;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Acts on the whole chunks of in, as far as there is room. Returns how much of it was used. */
static size_t take_chunks(compress_t *compress, const uint8_t *in, size_t size, uint8_t *to, size_t room, size_t *got) {
    size_t used = 0;
    compress->ready = false;
    while (!compress->ended) {
        size_t left = size - used;
        if (compress->skip != 0) {
            uint32_t part = left < compress->skip ? (uint32_t)left : compress->skip;
            compress->skip -= part;
            used += part;
            left -= part;
        }
        if (left < CHUNK_HEAD && !(compress->plain && left != 0)) {
            break;
        }
        const uint8_t *at = in + used;
        compress->plain = compress->plain || (!compress->begun && memcmp(at, "-ERR", CHUNK_HEAD) == 0);
        if (compress->plain) {
            used += take_as_it_is(compress, at, left, to, room, got);
            break;
        }
        chunk_t chunk = {.kind = at[0], .size = chunk_number(at + 1, 3), .at = at + CHUNK_HEAD};
        if (!may_come(compress, chunk.kind, chunk.size)) {
            break;
        }
        if (chunk.kind >= CHUNK_SKIPPED && chunk.kind != CHUNK_IDENTIFIER) {
            compress->skip = chunk.size;
            used += CHUNK_HEAD;
            continue;
        }
        if (left - CHUNK_HEAD < chunk.size) {
            break;
        }
        if (!take_chunk(compress, &chunk, to, room, got)) {
            compress->ready = !compress->ended;
            break;
        }
        used += CHUNK_HEAD + chunk.size;
    }
    return used;
}

static void take_held(compress_t *compress, uint8_t *to, size_t room, size_t *got) {
    buffer_t *held = &compress->held;
    size_t used = take_chunks(compress, held->at, (size_t)held->size, to, room, got);
    buffer_consume(held, used);
    buffer_trim(held, 0);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* Nothing is held: by way of the desk. */
static status_t receive_fresh(compress_t *compress, int fd, uint8_t *to, size_t room, size_t *got) {
    compress_desk_t *desk = compress->desk;
    buffer_t *held = &compress->held;
    uint8_t *place;
    bool enough = held->share == NULL || share_has(held->share, DESK_IN);
    if (!enough && buffer_reserve(held, DESK_IN, &place) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    desk->used_in = true;
    if (desk->in == NULL && (desk->in = malloc(DESK_IN)) == NULL) {
        return STATUS_NO_MEMORY;
    }
    size_t size = 0;
    status_t status = compress->under->receive(compress->under_state, fd, desk->in, DESK_IN, &size);
    if (status == STATUS_OK) {
        size_t used = take_chunks(compress, desk->in, size, to, room, got);
        if (!compress->ended && buffer_append(held, desk->in + used, size - used) != STATUS_OK) {
            return STATUS_CLOSED;
        }
    }
    buffer_trim(held, 0);
    return status;
}

/* A chunk is not whole. What its head announces costs nothing: at most as much again as is there is asked for. */
static status_t receive_more(compress_t *compress, int fd, uint8_t *to, size_t room, size_t *got) {
    buffer_t *held = &compress->held;
    uint64_t most = held->size < HELD_READ ? HELD_READ : held->size < DESK_IN * 4 ? held->size : DESK_IN * 4;
    uint8_t *place;
    if (buffer_reserve(held, most, &place) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    size_t size = 0;
    status_t status = compress->under->receive(compress->under_state, fd, place, (size_t)most, &size);
    if (status == STATUS_OK) {
        held->size += size;
        take_held(compress, to, room, got);
    }
    return status;
}

status_t compress_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    compress_t *compress = state;
    *got = 0;
    if (compress->ready) {
        take_held(compress, to, room, got);
    }
    if (*got == 0 && !compress->ended) {
        status_t status = compress->held.size == 0 ? receive_fresh(compress, fd, to, room, got)
                                                   : receive_more(compress, fd, to, room, got);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (*got != 0) {
        return STATUS_OK; /* the end, if there is one, comes with the next call: it is pending */
    }
    return compress->ended ? STATUS_CLOSED : STATUS_AGAIN;
}
