/* squeeze.c: see squeeze.h. */
#include "disk/squeeze.h"

#include "base/check.h"
#include "base/crc.h"
#include "text/s2.h"

#define PIECE_HEADER 12u

uint32_t squeeze_salt(const uint8_t store_id[WITNESS_ID_SIZE], uint64_t position) {
    uint8_t text[WITNESS_ID_SIZE + 8];
    memcpy(text, store_id, WITNESS_ID_SIZE);
    store_be64(text + WITNESS_ID_SIZE, position);
    return crc32c(0, text, sizeof text);
}

/* ---- to the disk ------------------------------------------------------------------------------------------------- */

/* Where the piece ends that begins there: behind whole ops, and at least one. */
static uint32_t piece_end(const uint8_t *batch, uint32_t size, uint32_t from) {
    batch_op_t op;
    uint32_t end = from, next = from;
    while (next < size && op_next(batch, size, &next, &op) && (end == from || next - from <= SQUEEZE_PIECE)) {
        end = next;
    }
    return end;
}

static uint32_t piece_crc(uint32_t salt, const uint8_t *piece, uint32_t packed) {
    return crc32c(crc32c(salt, piece, 8), piece + PIECE_HEADER, packed);
}

/* Returns the bytes of the piece; 0: no room. */
static uint32_t squeeze_ops(s2_encoder_t *encoder, uint32_t salt, bytes_t ops, uint8_t *to, uint32_t room) {
    if (room <= PIECE_HEADER) {
        return 0;
    }
    uint32_t most = room - PIECE_HEADER < ops.size ? room - PIECE_HEADER : ops.size - 1;
    uint32_t packed = ops.size <= S2_ENCODE_MAX ? s2_encode(encoder, ops, to + PIECE_HEADER, most) : 0;
    if (packed == 0) {
        if (room - PIECE_HEADER < ops.size) {
            return 0;
        }
        packed = ops.size;
        memcpy(to + PIECE_HEADER, ops.at, ops.size);
    }
    store_be32(to, ops.size);
    store_be32(to + 4, packed);
    store_be32(to + 8, piece_crc(salt, to, packed));
    return PIECE_HEADER + packed;
}

uint32_t squeeze_batch(s2_encoder_t *encoder, uint32_t salt, const uint8_t *batch, uint32_t size, uint8_t *to,
                       uint32_t room) {
    check(size <= SQUEEZE_MAX);
    if (room < BATCH_HEADER_SIZE) {
        return 0;
    }
    uint32_t used = BATCH_HEADER_SIZE;
    memcpy(to, batch, BATCH_HEADER_SIZE);
    for (uint32_t from = BATCH_HEADER_SIZE; from < size;) {
        uint32_t end = piece_end(batch, size, from);
        uint32_t took = squeeze_ops(encoder, salt, bytes_of(batch + from, end - from), to + used, room - used);
        if (end == from || took == 0) {
            return 0;
        }
        used += took;
        from = end;
    }
    return used;
}

/* ---- from the disk ----------------------------------------------------------------------------------------------- */

typedef struct piece {
    uint32_t plain;
    uint32_t packed;
} piece_t;

/* Is there a piece, with room for its ops? */
static bool squeezed_at(uint32_t salt, bytes_t stored, uint32_t offset, uint32_t room, piece_t *piece) {
    if (stored.size - offset <= PIECE_HEADER) {
        return false;
    }
    const uint8_t *at = stored.at + offset;
    *piece = (piece_t){.plain = load_be32(at), .packed = load_be32(at + 4)};
    return piece->packed > 0 && piece->packed <= piece->plain && piece->plain <= room
           && piece->packed <= stored.size - offset - PIECE_HEADER
           && piece_crc(salt, at, piece->packed) == load_be32(at + 8);
}

static bool squeezed_ops(bytes_t stored, uint32_t offset, const piece_t *piece, uint8_t *to) {
    bytes_t packed = bytes_of(stored.at + offset + PIECE_HEADER, piece->packed);
    uint32_t size = 0;
    if (piece->packed == piece->plain) {
        memcpy(to, packed.at, packed.size);
        return true;
    }
    return s2_size(packed, &size) == STATUS_OK && size == piece->plain && s2_decode(packed, to, size) == STATUS_OK;
}

bool squeeze_open(uint32_t salt, const uint8_t *stored, uint32_t stored_size, uint8_t *to, uint32_t size) {
    bytes_t all = bytes_of(stored, stored_size);
    uint32_t offset = BATCH_HEADER_SIZE, filled = BATCH_HEADER_SIZE;
    if (stored_size < BATCH_HEADER_SIZE || size < BATCH_HEADER_SIZE) {
        return false;
    }
    memcpy(to, stored, BATCH_HEADER_SIZE);
    while (filled < size) {
        piece_t piece;
        if (!squeezed_at(salt, all, offset, size - filled, &piece) || !squeezed_ops(all, offset, &piece, to + filled)) {
            return false;
        }
        offset += PIECE_HEADER + piece.packed;
        filled += piece.plain;
    }
    return true;
}

bool squeeze_piece(uint32_t salt, bytes_t stored, uint32_t *offset, uint8_t *to, uint32_t room, uint32_t *plain,
                   bool *skipped) {
    piece_t piece;
    *skipped = false;
    for (uint32_t at = *offset; at < stored.size; at++) {
        if (squeezed_at(salt, stored, at, room, &piece) && squeezed_ops(stored, at, &piece, to)) {
            *offset = at + PIECE_HEADER + piece.packed;
            *plain = piece.plain;
            return true;
        }
        *skipped = true;
    }
    return false;
}
