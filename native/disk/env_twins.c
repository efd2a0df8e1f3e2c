/* env_twins.c: what is kept twice, on pages that differ, so that one bad page loses none of it: the records
 * (definitions of streams and consumers, their states), and of META what says whose the store is. A twin has the same
 * bytes under the same key, sealed or not. See env_lmdb.h.
 *
 *     records     record_copies
 *     meta        meta_copies       "format" and "key", which hardly ever change
 *
 * A start makes both alike (env_twins_level): what is missing on one side, or does not prove itself there, comes from
 * the other. That is also how a store that an older leafd has made gets its twins.
 *
 * Not here: a page that LMDB cannot read; the start makes a sound file first (native/recovery).
 */
#include <stdlib.h>

#include "disk/env_large.h"
#include "disk/env_lmdb.h"
#include "disk/sealing.h"

static bool is_identity(bytes_t key) {
    return bytes_equal(key, BYTES_LITERAL(STORE_FORMAT_KEY)) || bytes_equal(key, BYTES_LITERAL(SEALING_RECORD));
}

store_db_t env_twin_of(store_db_t db, bytes_t key) {
    return db == DB_RECORDS ? DB_RECORD_COPIES : db == DB_META && is_identity(key) ? DB_META_COPIES : DB_COUNT;
}

/* LMDB may give the page with the value to the disk, and its memory back, while it makes room for the twin. */
static uint8_t *twin_room(env_t *env, uint32_t size) {
    if (size > env->twin_size) {
        uint8_t *at = realloc(env->twin, size);
        if (at == NULL) {
            return NULL;
        }
        env->twin = at;
        env->twin_size = size;
    }
    return env->twin;
}

status_t env_twin_put(env_t *env, store_db_t twin, bytes_t key, bytes_t value) {
    uint8_t *copy = twin_room(env, value.size + 1);
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(copy, value.at, value.size);
    MDB_val k = env_val(key);
    MDB_val v = env_val(bytes_of(copy, value.size));
    status_t status = env_large_put(env, twin, key, value.size);
    return status != STATUS_OK ? status : env_translate(mdb_put(env->write, env->dbs[twin], &k, &v, 0));
}

/* ---- bringing two copies to one state ---------------------------------------------------------------------------- */

typedef struct leveling {
    env_t *env;
    store_db_t db;
    store_db_t twin;
    bool back; /* from the twin */
    uint64_t changed;
} leveling_t;

/* A sealed one proves itself only with the key, and then when it is read. */
static bool twin_sound(const env_t *env, bytes_t key, bytes_t value, store_db_t db) {
    return (env->sealer != NULL && db == DB_RECORDS) || value_sound(key, value);
}

/* *take: the twin has it, sound, and the other side has not. */
static status_t twin_look(const leveling_t *leveling, bytes_t key, bytes_t value, bool *take) {
    const env_t *env = leveling->env;
    store_db_t to = leveling->back ? leveling->db : leveling->twin;
    MDB_val k = env_val(key);
    MDB_val v;
    *take = false;
    if (env_twin_of(leveling->db, key) != leveling->twin || !twin_sound(env, key, value, leveling->db)) {
        return STATUS_OK;
    }
    int code = mdb_get(env->write, env->dbs[to], &k, &v);
    if (code != 0 && code != MDB_NOTFOUND) {
        return env_translate(code);
    }
    *take = code != 0 || !twin_sound(env, key, bytes_of(v.mv_data, (uint32_t)v.mv_size), leveling->db);
    return STATUS_OK;
}

static status_t level_one_way(leveling_t *leveling) {
    env_t *env = leveling->env;
    store_key_t last = {0};
    MDB_cursor *cursor;
    MDB_val k;
    MDB_val v;
    status_t judged = env_judge_leaves(env, leveling->db);
    judged = judged == STATUS_OK ? env_judge_leaves(env, leveling->twin) : judged;
    if (judged != STATUS_OK) { /* LMDB believes every page */
        return judged;
    }
    int code = mdb_cursor_open(env->write, env->dbs[leveling->back ? leveling->twin : leveling->db], &cursor);
    if (code != 0) {
        return env_translate(code);
    }
    status_t status = STATUS_OK;
    code = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
    while (code == 0 && status == STATUS_OK && k.mv_size <= KEY_MAX) {
        bool take;
        bytes_t key = bytes_of(k.mv_data, (uint32_t)k.mv_size);
        bytes_t value = bytes_of(v.mv_data, (uint32_t)v.mv_size);
        last.size = key.size;
        memcpy(last.at, key.at, key.size);
        status = twin_look(leveling, key, value, &take);
        if (status == STATUS_OK && take) {
            status = env_twin_put(env, leveling->back ? leveling->db : leveling->twin, key_bytes(&last), value);
            leveling->changed++;
        }
        k = env_val(key_bytes(&last));
        code = status == STATUS_OK ? mdb_cursor_get(cursor, &k, &v, MDB_NEXT) : 0;
    }
    mdb_cursor_close(cursor);
    return code == 0 || code == MDB_NOTFOUND ? status : env_translate(code);
}

status_t env_twins_level(env_t *env, uint64_t *mended, uint64_t *made) {
    static const store_db_t pairs[][2] = {{DB_META, DB_META_COPIES}, {DB_RECORDS, DB_RECORD_COPIES}};
    status_t status = STATUS_OK;
    *mended = *made = 0;
    env->formats |= STORE_FORMAT_TWICE;
    for (unsigned i = 0; status == STATUS_OK && i < sizeof pairs / sizeof *pairs; i++) {
        leveling_t back = {.env = env, .db = pairs[i][0], .twin = pairs[i][1], .back = true};
        leveling_t forth = {.env = env, .db = pairs[i][0], .twin = pairs[i][1]};
        status = level_one_way(&back);
        status = status == STATUS_OK ? level_one_way(&forth) : status;
        *mended += back.changed;
        *made += forth.changed;
    }
    return status;
}
