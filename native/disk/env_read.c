/* env_read.c: reading of env.h, the plane's side. See env_lmdb.h.
 *
 * The plane reads without LMDB (tree.h), in the snapshot that a read transaction of LMDB's keeps. A cursor for each
 * database stays where it is, so a sequential reader pays a step and not a descent from the root.
 */
#include "disk/entry.h"
#include "disk/env_lmdb.h"

/* A damaged page is no entry whose checksum fails (ENTRY_DAMAGED): what lies on it is not known. */
static void note_unknown(env_t *env, uint32_t index) {
    env_note_unread(env);
    env_tell_wrong(env, &env->reading, index);
}

static inline read_outcome_t noted(env_t *env, uint32_t index, read_outcome_t outcome) {
    switch (outcome) {
    case READ_FOUND:
    case READ_NONE: break;
    case READ_UNKNOWN: note_unknown(env, index); break;
    }
    return outcome;
}

uint64_t env_unread(const env_t *env) {
    return atomic_load_explicit(&env->unread, memory_order_relaxed);
}

/* A new transaction and not the old one renewed: the old snapshot stays when LMDB gives none. */
status_t env_renew(env_t *env) {
    uint32_t published = atomic_load_explicit(&env->published, memory_order_acquire);
    MDB_txn *newest = NULL;
    trees_ask_again(&env->reading); /* another page may have been written there */
    int code = env->env != NULL ? mdb_txn_begin(env->env, NULL, MDB_RDONLY, &newest) : EIO;
    status_t status = code == 0 ? trees_renew(&env->reading, mdb_txn_id(newest)) : env_read_code(code);
    if (status == STATUS_OK) {
        mdb_txn_abort(env->read);
        env->read = newest;
        env->renewals++;
        env->reading.epoch++; /* a page of that number may be another one now */
        slots_catch_up(&env->read_slots, env->slots, published);
    } else if (code == 0) {
        mdb_txn_abort(newest);
    }
    if (status != STATUS_OK) {
        note_unknown(env, DBS_MAX);
    }
    return status;
}

void env_judge_again(env_t *env) {
    env->reading.epoch++;
    trees_ask_again(&env->reading);
}

void env_forget(env_t *env) {
    if (LEAF_UNLIKELY(env->read_values.newest != NULL)) {
        unsealed_forget(&env->read_values);
    }
}

status_t env_plain_of(env_t *env, store_db_t db, bytes_t lmdb, bytes_t *found, bytes_t *value) {
    status_t status = STATUS_OK;
    if (entry_sealed(env->sealer, db)) {
        status = entry_open(&env->read_values, env->sealer, SEALER_PLANE, db, lmdb, *value, found, value);
    }
    if (status == STATUS_OK && packing_done(db, *value)) {
        status = env_unpack_read(env, lmdb, *value, value); /* a message's key is the same in LMDB */
    }
    if (status != STATUS_OK) {
        env_note_unread(env);
    }
    return status;
}

/* Finds the root of a database's tree in the snapshot. One that is not there yet has no root. */
static inline status_t root_of(env_t *env, uint32_t index, page_db_t *db) {
    if (LEAF_UNLIKELY(env->read == NULL)) {
        return STATUS_IO;
    }
    if (LEAF_UNLIKELY(env->root_renewals[index] != env->renewals)) {
        bool large;
        status_t status = env_find_root(env, &env->reading, index, &env->roots[index], &large);
        if (status != STATUS_OK) {
            return status;
        }
        env->root_renewals[index] = env->renewals;
    }
    *db = env->roots[index];
    return STATUS_OK;
}

static read_outcome_t get_stored(env_t *env, uint32_t index, bytes_t lmdb, bytes_t *value) {
    page_db_t db;
    status_t status = root_of(env, index, &db);
    return noted(env, index, status == STATUS_OK ? tree_get(&env->reading, db, lmdb, value) : READ_UNKNOWN);
}

/* From where it stands under that key in LMDB to what the store put. */
static inline read_outcome_t get_plain(env_t *env, uint32_t index, store_db_t db, bytes_t lmdb, bytes_t *value) {
    read_outcome_t outcome = get_stored(env, index, lmdb, value);
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    bool closed = env->sealer != NULL || packing_done(db, *value);
    return LEAF_UNLIKELY(closed) ? read_if(env_plain_of(env, db, lmdb, NULL, value)) : READ_FOUND;
}

read_outcome_t env_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    store_key_t room;
    key = env_stored_key(env, db, key, &room);
    return get_plain(env, env_index(env, &env->read_slots, db, key), db, key, value);
}

read_outcome_t env_get_twin(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    store_key_t room;
    key = env_stored_key(env, db, key, &room);
    store_db_t twin = env_twin_of(db, key);
    return twin != DB_COUNT ? get_plain(env, twin, db, key, value) : READ_NONE;
}

bool env_has_renamed(env_t *env, bytes_t key) {
    bytes_t values[2] = {BYTES_NONE, BYTES_NONE};
    uint32_t count = env->sealer == NULL ? tree_beside(&env->reading, values) : 0;
    return (count > 0 && value_sound(key, values[0])) || (count > 1 && value_sound(key, values[1]));
}

read_outcome_t env_get_as_stored(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    return get_stored(env, db, key, value);
}

bytes_t env_stored_key(const env_t *env, store_db_t db, bytes_t key, store_key_t *room) {
    return LEAF_LIKELY(env->sealer == NULL) ? key : entry_key(env->sealer, SEALER_PLANE, db, key, room);
}

bool env_hides(const env_t *env) {
    return env->sealer != NULL;
}

typedef enum move { MOVE_SEEK, MOVE_NEXT, MOVE_BACK, MOVE_LAST } move_t;

/* A cursor of an older snapshot stands nowhere, and what is behind it is not known. */
static inline __attribute__((always_inline)) read_outcome_t cursor_move(env_t *env, uint32_t index, move_t move,
                                                                        bytes_t key, bytes_t *found, bytes_t *value) {
    tree_cursor_t *cursor = &env->readers[index];
    bool stale = (move == MOVE_NEXT || move == MOVE_BACK) && env->reader_renewals[index] != env->renewals;
    tree_entry_t entry;
    page_db_t db;
    read_outcome_t outcome = READ_UNKNOWN;
    if (LEAF_LIKELY(!stale && root_of(env, index, &db) == STATUS_OK)) {
        outcome = move == MOVE_SEEK   ? tree_seek(&env->reading, db, key, cursor, &entry)
                  : move == MOVE_LAST ? tree_last(&env->reading, db, cursor, &entry)
                                      : tree_step(&env->reading, cursor, move == MOVE_BACK, &entry);
    }
    env->reader_renewals[index] = env->renewals;
    switch (outcome) {
    case READ_UNKNOWN:
        env->reader_renewals[index] = 0;
        note_unknown(env, index);
        return outcome;
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    *found = entry.key;
    *value = entry.value;
    willneed_note(&env->read_ahead, entry.key.at);
    if (LEAF_UNLIKELY(env->sealer != NULL || packing_done(env_db_of(index), *value))) {
        store_db_t db_sealed = index == DB_RECORD_COPIES ? DB_RECORDS : env_db_of(index); /* a twin's are the same */
        return read_if(env_plain_of(env, db_sealed, *found, found, value));
    }
    return READ_FOUND;
}

read_outcome_t env_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    return cursor_move(env, env_index(env, &env->read_slots, db, key), MOVE_SEEK, key, found, value);
}

read_outcome_t env_next(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    return cursor_move(env, env_index(env, &env->read_slots, db, key), MOVE_NEXT, BYTES_NONE, found, value);
}

read_outcome_t env_seek_back(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    uint32_t index = env_index(env, &env->read_slots, db, key);
    read_outcome_t outcome = cursor_move(env, index, MOVE_SEEK, key, found, value);
    switch (outcome) {
    case READ_UNKNOWN: break;
    case READ_NONE: return cursor_move(env, index, MOVE_LAST, BYTES_NONE, found, value);
    case READ_FOUND:
        return bytes_equal(*found, key) ? READ_FOUND : cursor_move(env, index, MOVE_BACK, BYTES_NONE, found, value);
    }
    return outcome;
}
