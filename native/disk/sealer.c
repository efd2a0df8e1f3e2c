/* sealer.c: see sealer.h. */
#include "disk/sealer.h"

#include <stdlib.h>

#include "disk/batch.h"

#define PIECE_SIZE ((size_t)64 << 10)
#define NAME_BEGIN 8 /* of a batch's header; magic and checksum stand before it */

typedef struct unsealed_piece {
    struct unsealed_piece *before;
    size_t size;
    size_t used;
    uint8_t at[];
} unsealed_piece_t;

uint8_t *unsealed_room(unsealed_t *unsealed, size_t size) {
    unsealed_piece_t *piece = unsealed->newest;
    if (piece == NULL || piece->size - piece->used < size) {
        size_t room = size > PIECE_SIZE ? size : PIECE_SIZE;
        piece = malloc(sizeof *piece + room);
        if (piece == NULL) {
            return NULL;
        }
        *piece = (unsealed_piece_t){.before = unsealed->newest, .size = room};
        unsealed->newest = piece;
    }
    uint8_t *at = piece->at + piece->used;
    piece->used += size;
    return at;
}

status_t unsealed_by(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, uint8_t place, bytes_t key,
                     bytes_t value, bytes_t *plain) {
    *plain = BYTES_NONE;
    if (value.size < sealer->overhead) {
        return STATUS_OK;
    }
    uint8_t *to = unsealed_room(unsealed, value.size);
    if (to == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (sealer->open(sealer->context, side, place, key, value, to)) {
        *plain = bytes_of(to, value.size - sealer->overhead);
    }
    return STATUS_OK;
}

status_t unsealed_value(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, uint8_t place, bytes_t key,
                        bytes_t value, bytes_t *plain) {
    status_t status = unsealed_by(unsealed, sealer, side, place, key, value, plain);
    if (status == STATUS_OK && plain->size == 0 && sealer->older != NULL) {
        status = unsealed_by(unsealed, sealer->older, side, place, key, value, plain);
    }
    if (status == STATUS_OK && plain->size == 0 && sealer->older_plain) {
        *plain = value;
    }
    return status;
}

void unsealed_forget(unsealed_t *unsealed) {
    while (unsealed->newest != NULL) {
        unsealed_piece_t *before = unsealed->newest->before;
        free(unsealed->newest);
        unsealed->newest = before;
    }
}

static bytes_t batch_name(const uint8_t *batch) {
    return bytes_of(batch + NAME_BEGIN, BATCH_HEADER_SIZE - NAME_BEGIN);
}

void sealer_seal_batch(const sealer_t *sealer, uint8_t *batch, uint32_t size, uint8_t *to) {
    bytes_t ops = bytes_of(batch + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE);
    memcpy(to, batch, BATCH_HEADER_SIZE);
    sealer_item_t item = {SEALER_JOURNAL, batch_name(batch), ops, to + BATCH_HEADER_SIZE};
    sealer->seal(sealer->context, SEALER_JOURNALIST, &item, 1);
    batch_header_t header;
    if (batch_header_read(to, &header)) {
        header.crc = batch_crc(to, size + sealer->overhead);
        batch_header_write(to, &header);
        batch_header_write(batch, &header);
    }
}

bool sealer_open_batch(const sealer_t *sealer, const uint8_t *sealed, uint32_t size, uint8_t *to) {
    bytes_t ops = bytes_of(sealed + BATCH_HEADER_SIZE, size - BATCH_HEADER_SIZE + sealer->overhead);
    if (to != sealed) {
        memcpy(to, sealed, BATCH_HEADER_SIZE);
    }
    return sealer->open(sealer->context, SEALER_JOURNALIST, SEALER_JOURNAL, batch_name(sealed), ops,
                        to + BATCH_HEADER_SIZE);
}
