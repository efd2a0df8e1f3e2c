/* overlay.h: the overlay: what is journaled and not in LMDB yet, the open batch included. Writes go into the batch,
 * reads look through the overlay into LMDB. Nobody outside native/store and native/recovery
 * includes this, the latter for store_alarm.
 */
#ifndef LEAFD_STORE_OVERLAY_H
#define LEAFD_STORE_OVERLAY_H

#include "store/core.h"

#define NOTE_BYTES_MIN 32u /* of what is promised to the batch, for each note that keeping the promise makes */

/* Room in the batch for `need` bytes, and in the overlay's table for a few notes. */
bool overlay_fits(store_t *store, uint64_t need);
/* In the table alone. */
LEAF_MUST_USE status_t overlay_reserve(store_t *store, uint64_t notes);
/* Closing the open batch will need so many bytes: no other finds room in them until they are given back. */
void overlay_promise(store_t *store, uint64_t bytes);
void overlay_give_back(store_t *store, uint64_t bytes);
uint8_t *overlay_put(store_t *store, store_db_t db, bytes_t key, uint32_t value_size, bool note, uint64_t *position);
/* A message that shares bytes of an earlier operation. */
uint8_t *overlay_put_shared(store_t *store, bytes_t key, uint32_t value_size, uint64_t *position);
/* A put that is noted, of a key that may have been noted before: *noted is where, 0 = not known, and becomes where it
 * is now. */
uint8_t *overlay_put_again(store_t *store, store_db_t db, bytes_t key, uint32_t value_size, uint64_t *noted);
void overlay_delete(store_t *store, store_db_t db, bytes_t key, bool note);
void overlay_delete_range(store_t *store, store_db_t db, bytes_t from, bytes_t to);
/* The smallest key behind all that begin with the prefix. false: there is none. */
bool prefix_end(bytes_t prefix, store_key_t *end);
void overlay_delete_prefix(store_t *store, store_db_t db, bytes_t prefix);
/* The value without its crc. ENTRY_DAMAGED: counted and alarmed. */
entry_outcome_t overlay_get(store_t *store, store_db_t db, bytes_t key, bytes_t *value);
/* The overlay's word on a key alone: what was put, without its crc; that it was removed; or none, and LMDB's counts. */
typedef enum overlay_word { WORD_PUT, WORD_REMOVED, WORD_NONE } overlay_word_t;
overlay_word_t overlay_find(store_t *store, store_db_t db, bytes_t key, bytes_t *value);

#endif
