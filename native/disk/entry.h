/* entry.h: an entry of LMDB as LMDB has it, when a sealer stands between. Pure functions on bytes; knows no LMDB.
 *
 *     the store's key and value                  in LMDB
 *     META                                       as they are
 *     key of numbers only                        the key as it is;   value, sealed under it
 *     numbers, text (HEADS, IDS, some RECORDS)   numbers, hidden 16; sealed under that: size of text 2, text, value
 *
 * "hidden" is the sealer's keyed hash of the text. So what is looked for by its whole key is found, a stream's entries
 * still stand together, and their order within the stream is that of the hash: LMDB's order, not that of bytes.
 */
#ifndef LEAFD_DISK_ENTRY_H
#define LEAFD_DISK_ENTRY_H

#include "disk/keys.h"
#include "disk/sealer.h"

static inline bool entry_sealed(const sealer_t *sealer, store_db_t db) {
    return sealer != NULL && db != DB_META;
}

/* The key under which LMDB has it; in room, or the key itself. */
bytes_t entry_key(const sealer_t *sealer, sealer_side_t side, store_db_t db, bytes_t key, store_key_t *room);
/* key: the store's. */
uint32_t entry_size(const sealer_t *sealer, store_db_t db, bytes_t key, bytes_t value);
/* The item that the sealer makes of an entry. to: room for entry_size bytes. LMDB: entry_key's. */
sealer_item_t entry_item(store_db_t db, bytes_t key, bytes_t lmdb, bytes_t value, uint8_t *to);
/* The store's value, and its key unless NULL, from what LMDB has. What does not open: an empty value, LMDB's key.
 * STATUS_NO_MEMORY: it is not known whether it opens. */
LEAF_MUST_USE status_t entry_open(unsealed_t *unsealed, const sealer_t *sealer, sealer_side_t side, store_db_t db,
                                  bytes_t lmdb, bytes_t sealed, bytes_t *key, bytes_t *value);
/* Was it sealed before a change of key? Then the store's key and value as entry_open gives them; else an empty value.
 * plain: what it is if it was not sealed at all: a packed value unpacked. */
LEAF_MUST_USE status_t entry_open_older(unsealed_t *unsealed, const sealer_t *sealer, store_db_t db, bytes_t lmdb,
                                        bytes_t sealed, bytes_t plain, bytes_t *key, bytes_t *value);

#endif
