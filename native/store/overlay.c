/* overlay.c: ops into the open batch with their notes in the memtable, reads through the overlay into LMDB.
 *
 * Every writer asks overlay_fits first, with all it may need; after a yes nothing in here can fail, so no change is
 * left half done.
 */
#include <stdlib.h>

#include "base/check.h"
#include "store/overlay.h"

#define NOTES_FOR_ONE_CALL 16

bool overlay_fits(store_t *store, uint64_t need) {
    /* Also for what closing the batch writes: that may not fail. Not for all of `need`: most of it is a message's own
     * bytes, or room that is left to others, and makes no notes. */
    uint64_t notes = NOTES_FOR_ONE_CALL + store->batches.promised / NOTE_BYTES_MIN;
    if (memtable_reserve(&store->memtable, notes) != STATUS_OK) {
        return false;
    }
    bool fits = batch_fits(&store->batches, need);
    if (!fits) {
        room_cramped(store, need);
    }
    return fits;
}

status_t overlay_reserve(store_t *store, uint64_t notes) {
    return memtable_reserve(&store->memtable, notes);
}

void overlay_promise(store_t *store, uint64_t bytes) {
    store->batches.promised += bytes;
}

void overlay_give_back(store_t *store, uint64_t bytes) {
    store->batches.promised -= bytes;
}

uint8_t *overlay_put(store_t *store, store_db_t db, bytes_t key, uint32_t value_size, bool note, uint64_t *position) {
    uint64_t at;
    uint8_t *value = batch_op(&store->batches, OP_PUT, db, key, value_size, &at);
    if (note) {
        memtable_note(&store->memtable, db, key, at);
    }
    if (position != NULL) {
        *position = at;
    }
    return value;
}

uint8_t *overlay_put_shared(store_t *store, bytes_t key, uint32_t value_size, uint64_t *position) {
    return batch_op(&store->batches, OP_PUT_SHARED, DB_MESSAGES, key, value_size, position);
}

uint8_t *overlay_put_again(store_t *store, store_db_t db, bytes_t key, uint32_t value_size, uint64_t *noted) {
    uint64_t at;
    uint8_t *value = batch_op(&store->batches, OP_PUT, db, key, value_size, &at);
    memtable_note_again(&store->memtable, db, key, *noted, at);
    *noted = at;
    return value;
}

void overlay_delete(store_t *store, store_db_t db, bytes_t key, bool note) {
    uint64_t position;
    batch_op(&store->batches, OP_DELETE, db, key, 0, &position);
    if (note) {
        memtable_note(&store->memtable, db, key, position);
    }
}

static uint64_t delete_range(store_t *store, store_db_t db, bytes_t from, bytes_t to) {
    uint64_t position;
    uint8_t *end = batch_op(&store->batches, OP_DELETE_RANGE, db, from, to.size, &position);
    memcpy(end, to.at, to.size);
    return position;
}

void overlay_delete_range(store_t *store, store_db_t db, bytes_t from, bytes_t to) {
    delete_range(store, db, from, to);
}

bool prefix_end(bytes_t prefix, store_key_t *end) {
    end->size = prefix.size;
    memcpy(end->at, prefix.at, prefix.size);
    while (end->size > 0 && end->at[end->size - 1] == 0xff) {
        end->size--;
    }
    if (end->size > 0) {
        end->at[end->size - 1]++;
    }
    return end->size > 0;
}

void overlay_delete_prefix(store_t *store, store_db_t db, bytes_t prefix) {
    store_key_t end;
    check(prefix_end(prefix, &end));
    uint64_t position = delete_range(store, db, prefix, key_bytes(&end));
    memtable_note_prefix(&store->memtable, db, prefix, position);
}

overlay_word_t overlay_find(store_t *store, store_db_t db, bytes_t key, bytes_t *value) {
    batch_op_t op;
    uint64_t position;
    uint64_t covered = 0;
    if ((store->memtable.prefix_sizes[0] | store->memtable.prefix_sizes[1]) != 0) {
        covered = memtable_covers(&store->memtable, db, key);
    }
    if (!memtable_find(&store->memtable, db, key, &op, &position) || position < covered) {
        return covered != 0 ? WORD_REMOVED : WORD_NONE;
    }
    if (op.kind != OP_PUT) {
        return WORD_REMOVED;
    }
    *value = bytes_of(op.value.at + VALUE_CRC_SIZE, op.value.size - VALUE_CRC_SIZE);
    return WORD_PUT;
}

/* What a read of LMDB says of an entry, whose value proves itself or does not. */
static entry_outcome_t entry_judge(read_outcome_t outcome, bytes_t key, bytes_t stored) {
    switch (outcome) {
    case READ_UNKNOWN: return ENTRY_UNKNOWN;
    case READ_NONE: return ENTRY_NONE;
    case READ_FOUND: break;
    }
    return value_sound(key, stored) ? ENTRY_FOUND : ENTRY_DAMAGED;
}

/* A record of which its first place has said `first`, which stands where the other place cannot be read. One that is
 * not found there was not deleted if it has a twin: its key is damaged, which no page shows whose keys still stand in
 * their order. */
static entry_outcome_t record_from_twin(store_t *store, bytes_t key, entry_outcome_t first, bytes_t *stored) {
    bytes_t twin = BYTES_NONE;
    entry_outcome_t second = entry_judge(env_get_twin(store->env, DB_RECORDS, key, &twin), key, twin);
    bool sound = false;
    switch (second) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE: return first;
    case ENTRY_DAMAGED: break;
    case ENTRY_FOUND: sound = true; break;
    }
    *stored = twin;
    switch (first) {
    case ENTRY_NONE: store_corrupt(store, NULL, 0, 0, "a stored record's key"); return second;
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: break;
    }
    return sound ? second : first;
}

/* Where a first look has found none, or damage: what else is there to be looked at. */
static entry_outcome_t entry_elsewhere(store_t *store, store_db_t db, bytes_t key, entry_outcome_t first,
                                       bytes_t *stored) {
    if (db == DB_RECORDS) {
        return record_from_twin(store, key, first, stored);
    }
    switch (first) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: return first;
    case ENTRY_NONE: break;
    }
    bool renamed = (db == DB_HEADS || db == DB_IDS) && env_has_renamed(store->env, key);
    return renamed ? ENTRY_DAMAGED : ENTRY_NONE;
}

static void entry_damaged(store_t *store, store_db_t db, bytes_t key) {
    if (db == DB_RECORDS) {
        store_corrupt_record(store, key);
        return;
    }
    uint32_t stream = db != DB_LEDGER && key.size >= 4 ? load_be32(key.at) : 0;
    store_corrupt(store, NULL, stream, 0, db == DB_LEDGER ? "an entry of a group's log" : "an index entry");
}

entry_outcome_t overlay_get(store_t *store, store_db_t db, bytes_t key, bytes_t *value) {
    switch (overlay_find(store, db, key, value)) {
    case WORD_PUT: return ENTRY_FOUND;
    case WORD_REMOVED: return ENTRY_NONE;
    case WORD_NONE: break;
    }
    bytes_t stored = BYTES_NONE;
    entry_outcome_t outcome = entry_judge(env_get(store->env, db, key, &stored), key, stored);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: outcome = entry_elsewhere(store, db, key, outcome, &stored); break;
    case ENTRY_FOUND: break;
    }
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE: break;
    case ENTRY_DAMAGED: entry_damaged(store, db, key); break;
    case ENTRY_FOUND: *value = bytes_of(stored.at + VALUE_CRC_SIZE, stored.size - VALUE_CRC_SIZE); break;
    }
    return outcome;
}
