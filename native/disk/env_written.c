/* env_written.c: the environment's reads within its write transaction: what is there with what was written so far. See
 * env_lmdb.h.
 */
#include "disk/entry.h"
#include "disk/env_lmdb.h"

/* What a read of LMDB said, which was made only if its pages are sound. */
static read_outcome_t written_outcome(env_t *env, status_t judged, int code) {
    if (judged == STATUS_OK && code == MDB_NOTFOUND) {
        return READ_NONE;
    }
    env->written_why = judged == STATUS_OK ? env_translate(code) : judged;
    return read_if(env->written_why);
}

static read_outcome_t written_stored(env_t *env, uint32_t index, bytes_t key, bytes_t *value) {
    MDB_val k = env_val(key);
    MDB_val v = {0};
    status_t status = env_judge(env, index, key);
    int code = status == STATUS_OK ? mdb_get(env->write, env->dbs[index], &k, &v) : 0;
    *value = env_bytes(v);
    return written_outcome(env, status, code);
}

static status_t written_plain(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    status_t status = STATUS_OK;
    unsealed_forget(&env->written_value);
    if (entry_sealed(env->sealer, db)) {
        status = entry_open(&env->written_value, env->sealer, SEALER_KEEPER, db, key, *value, NULL, value);
    }
    if (status == STATUS_OK && packing_done(db, *value)) {
        status = env_unpack_written(env, key, *value, value);
    }
    return status;
}

read_outcome_t env_write_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    store_key_t room;
    key = entry_key(env->sealer, SEALER_KEEPER, db, key, &room);
    uint32_t index = env_index(env, &env->write_slots, db, key);
    read_outcome_t outcome = env_lacks(env, index) ? READ_NONE : written_stored(env, index, key, value);
    switch (outcome) {
    case READ_FOUND:
    case READ_NONE: break;
    case READ_UNKNOWN:
        if (env->written_why == STATUS_CORRUPT && db == DB_META) { /* that page could not be mended: the copies are
                                                                      elsewhere */
            outcome = written_stored(env, DB_META_COPIES, key, value);
        }
        break;
    }
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    env->written_why = written_plain(env, db, key, value);
    return read_if(env->written_why);
}

read_outcome_t env_write_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found) {
    MDB_cursor *cursor = NULL;
    uint32_t index = env_index(env, &env->write_slots, db, key);
    if (env_lacks(env, index)) {
        return READ_NONE;
    }
    MDB_val k = env_val(key);
    MDB_val v;
    status_t status = env_judge(env, index, key);
    status = status == STATUS_OK ? env_writer(env, index, &cursor) : status;
    int code = status == STATUS_OK ? mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE) : 0;
    if (status == STATUS_OK && code == 0) {
        *found = env_bytes(k);
    }
    return written_outcome(env, status, code);
}

status_t env_write_why(const env_t *env) {
    return env->written_why;
}
