/* entry.c: see entry.h. */
#include "disk/entry.h"

#include "base/check.h"

#define TEXT_SIZE 2 /* of the number before a text */

static bool has_text(store_db_t db, bytes_t key) {
    return key_numbers(db, key) < key.size;
}

bytes_t entry_key(const sealer_t *sealer, sealer_side_t side, store_db_t db, bytes_t key, store_key_t *room) {
    if (!entry_sealed(sealer, db) || !has_text(db, key)) {
        return key;
    }
    uint32_t numbers = key_numbers(db, key);
    memcpy(room->at, key.at, numbers);
    sealer->hide(sealer->context, side, (uint8_t)db, bytes_of(key.at, numbers), bytes_after(key, numbers),
                 room->at + numbers);
    room->size = numbers + SEALER_HIDDEN_SIZE;
    return key_bytes(room);
}

uint32_t entry_size(const sealer_t *sealer, store_db_t db, bytes_t key, bytes_t value) {
    uint32_t text = has_text(db, key) ? TEXT_SIZE + key.size - key_numbers(db, key) : 0;
    return text + value.size + sealer->overhead;
}

sealer_item_t entry_item(store_db_t db, bytes_t key, bytes_t lmdb, bytes_t value, uint8_t *to) {
    if (has_text(db, key)) {
        bytes_t text = bytes_after(key, key_numbers(db, key));
        store_be16(to, (uint16_t)text.size);
        uint8_t *end = bytes_write(bytes_write(to + TEXT_SIZE, text), value);
        value = bytes_of(to, (uint32_t)(end - to));
    }
    return (sealer_item_t){(uint8_t)db, lmdb, value, to};
}

/* The text in front of what was opened, as a whole key. */
static status_t key_again(unsealed_t *unsealed, bytes_t lmdb, uint32_t numbers, bytes_t text, bytes_t *key) {
    uint8_t *at = unsealed_room(unsealed, numbers + text.size);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    bytes_write(bytes_write(at, bytes_of(lmdb.at, numbers)), text);
    *key = bytes_of(at, numbers + text.size);
    return STATUS_OK;
}

/* Takes the text off a value that was opened. */
static status_t without_text(unsealed_t *unsealed, store_db_t db, bytes_t lmdb, bytes_t *key, bytes_t *value) {
    if (value->size == 0 || !has_text(db, lmdb)) {
        return STATUS_OK;
    }
    bytes_t whole = *value;
    uint32_t numbers = key_numbers(db, lmdb);
    uint32_t size = whole.size >= TEXT_SIZE ? load_be16(whole.at) : 0;
    *value = BYTES_NONE;
    if (whole.size < TEXT_SIZE || size > whole.size - TEXT_SIZE || size > KEY_MAX - numbers) {
        return STATUS_OK;
    }
    bytes_t text = bytes_of(whole.at + TEXT_SIZE, size);
    status_t status = key != NULL ? key_again(unsealed, lmdb, numbers, text, key) : STATUS_OK;
    if (status == STATUS_OK) {
        *value = bytes_after(whole, TEXT_SIZE + size);
    }
    return status;
}

status_t entry_open(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, store_db_t db, bytes_t lmdb,
                    bytes_t sealed, bytes_t *key, bytes_t *value) {
    status_t status = unsealed_value(unsealed, sealer, side, (uint8_t)db, lmdb, sealed, value);
    return status == STATUS_OK ? without_text(unsealed, db, lmdb, key, value) : status;
}

status_t entry_open_older(unsealed_t *unsealed, const sealer_t *sealer, store_db_t db, bytes_t lmdb, bytes_t sealed,
                          bytes_t plain, bytes_t *key, bytes_t *value) {
    *key = lmdb;
    status_t status = unsealed_by(unsealed, sealer, SEALER_KEEPER, (uint8_t)db, lmdb, sealed, value);
    if (status != STATUS_OK || value->size > 0) {
        *value = BYTES_NONE;
        return status;
    }
    if (sealer->older != NULL) {
        status = unsealed_by(unsealed, sealer->older, SEALER_KEEPER, (uint8_t)db, lmdb, sealed, value);
        return status == STATUS_OK ? without_text(unsealed, db, lmdb, key, value) : status;
    }
    if (!sealer->older_plain || !value_sound(lmdb, plain)) {
        return STATUS_OK; /* damaged: its reader is told */
    }
    uint8_t *copy = unsealed_room(unsealed, sealed.size);
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, sealed.at, sealed.size);
    *value = bytes_of(copy, sealed.size);
    return STATUS_OK;
}
