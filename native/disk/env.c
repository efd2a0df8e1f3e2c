/* env.c: writing of env.h (reading: env_read.c). See env_lmdb.h.
 *
 * Before LMDB writes, the pages that it is going to read are judged (env_judge.c). One that the disk gives no more when
 * LMDB comes to it (unread.h) is zeros to LMDB: that transaction is not committed. Messages and id order are put
 * through a kept write cursor: LMDB then finds the page of the last put without a descent when the next key is on it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "disk/entry.h"
#include "disk/env_large.h"
#include "disk/env_lmdb.h"

#define WHOLE_MIN 1000 /* fewer messages are removed one by one */

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Pages that LMDB made of zeros must not reach the disk. */
static bool all_was_given(const env_t *env) {
    return unread_count(env->watch) == env->unread_before;
}

uint64_t env_value_look(const env_t *env) {
    return unread_count(env->watch);
}

/* What was noted meanwhile is of the value alone, if some of that is not given. */
bool env_value_given(env_t *env, bytes_t value, uint64_t before) {
    bool covered = env->watch != NULL && unread_covers_some(env->watch, value.at, value.size);
    if (LEAF_UNLIKELY(covered)) {
        env->unread_before += unread_count(env->watch) - before;
    }
    return !covered;
}

static status_t write_begin(env_t *env, bool looks) {
    check(env->write == NULL);
    if (env_broken(env)) {
        return STATUS_IO;
    }
    int dead; /* readers of other processes (tools) that died: their snapshots would keep pages from being used again */
    (void)mdb_reader_check(env->env, &dead);
    env->unread_before = unread_count(env->watch);
    unread_again(env->watch);
    status_t status = env_judge_begin(env, looks);
    if (status != STATUS_OK) {
        return status;
    }
    int code = mdb_txn_begin(env->env, NULL, looks ? MDB_RDONLY : 0, &env->write);
    env->written_version++;
    env_large_begin(env);
    env->broken = code == MDB_PANIC;
    if (code != 0) {
        env_judge_end(env);
    }
    if (code == 0 && !all_was_given(env)) { /* the first two pages, which say where a write goes */
        env_write_abort(env);
        return STATUS_IO;
    }
    return env_translate(code);
}

status_t env_write_begin(env_t *env) {
    return write_begin(env, false);
}

status_t env_write_look(env_t *env) {
    return write_begin(env, true);
}

status_t env_writer(env_t *env, uint32_t index, MDB_cursor **cursor) {
    if (env->writers[index] == NULL) {
        int code = mdb_cursor_open(env->write, env->dbs[index], &env->writers[index]);
        if (code != 0) {
            return env_translate(code);
        }
    }
    *cursor = env->writers[index];
    return STATUS_OK;
}

/* A stream's first put gives it a database of its own, unless it has begun in the shared one. */
static status_t index_for_first_put(env_t *env, bytes_t key, uint32_t *index) {
    MDB_cursor *cursor = NULL;
    status_t status = env_judge(env, DB_MESSAGES, bytes_of(key.at, 4));
    status = status == STATUS_OK ? env_writer(env, DB_MESSAGES, &cursor) : status;
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = env_val(bytes_of(key.at, 4));
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    if (code == 0 && k.mv_size >= 4 && memcmp(k.mv_data, key.at, 4) == 0) {
        return STATUS_OK;
    }
    if (code == 0 || code == MDB_NOTFOUND) {
        code = env_open_messages(env, env->write, load_be32(key.at));
        *index = env_index(env, &env->write_slots, DB_MESSAGES, key);
    }
    return env_translate(code);
}

static inline status_t index_for_put(env_t *env, store_db_t db, bytes_t key, uint32_t *index) {
    *index = env_index(env, &env->write_slots, db, key);
    if (LEAF_UNLIKELY(env_lacks(env, *index))) {
        env->formats |= STORE_FORMAT_LEDGERS;
        return env_translate(env_open_ledger(env, env->write, MDB_CREATE));
    }
    bool first = db == DB_MESSAGES && *index == DB_MESSAGES && env->opened != MESSAGE_DBS_MAX;
    return LEAF_UNLIKELY(first) ? index_for_first_put(env, key, index) : STATUS_OK;
}

changed_t *env_changed(env_t *env) {
    return &env->changed;
}

/* The place of a put. */
typedef struct put_place {
    MDB_cursor *cursor;
    uint32_t index;
    tail_t *tail; /* of a stream's own messages, else NULL */
    bool append;  /* nearly every key lies behind the last one; else they come in any order */
} put_place_t;

/* The memory for a value that is to be written; NULL: *status says why not. LMDB divides a full page between it and a
 * new one; told that the key lies behind all others it leaves the full one alone. So 1,000 messages of 1 KB take 333
 * pages and not 500, in three fifths of the time. */
static inline uint8_t *put_reserve(env_t *env, put_place_t place, bytes_t key, uint32_t size, status_t *status) {
    MDB_val k = env_val(key);
    MDB_val v = {.mv_size = size};
    int code = place.append ? mdb_cursor_put(place.cursor, &k, &v, MDB_RESERVE | MDB_APPEND) : MDB_KEYEXIST;
    if (LEAF_UNLIKELY(code == MDB_KEYEXIST)) { /* it does not come behind the last one */
        *status = env_large_put(env, place.index, key, size);
        if (*status != STATUS_OK) {
            return NULL;
        }
        code = mdb_cursor_put(place.cursor, &k, &v, MDB_RESERVE);
    } else if (size > env->page_size / LARGE_PART) {
        env->put_large[place.index] = true;
    }
    *status = env_translate(code);
    if (LEAF_UNLIKELY(code != 0)) {
        return NULL;
    }
    changed_note(&env->changed, v.mv_data, v.mv_size);
    if (LEAF_LIKELY(place.tail != NULL)) {
        place.tail->put = v.mv_data;
    }
    return v.mv_data;
}

static inline status_t put_twice(env_t *env, store_db_t db, bytes_t lmdb, bytes_t value) {
    if (LEAF_LIKELY(db != DB_RECORDS && db != DB_META)) {
        return STATUS_OK;
    }
    store_db_t twin = env_twin_of(db, lmdb);
    status_t status = twin != DB_COUNT ? env_judge(env, twin, lmdb) : STATUS_OK;
    return status == STATUS_OK && twin != DB_COUNT ? env_twin_put(env, twin, lmdb, value) : status;
}

static status_t put_sealed(env_t *env, put_place_t place, store_db_t db, bytes_t key, bytes_t lmdb, bytes_t value) {
    status_t status;
    uint8_t *at = put_reserve(env, place, lmdb, entry_size(env->sealer, db, key, value), &status);
    if (at != NULL) {
        sealer_item_t item = entry_item(db, key, lmdb, value, at);
        env->sealer->seal(env->sealer->context, SEALER_KEEPER, &item, 1);
        status = put_twice(env, db, lmdb, bytes_of(at, entry_size(env->sealer, db, key, value)));
    }
    return status;
}

static inline status_t put_as_it_is(env_t *env, put_place_t place, store_db_t db, bytes_t lmdb, bytes_t value) {
    status_t status;
    uint8_t *at = put_reserve(env, place, lmdb, value.size, &status);
    if (at != NULL) {
        (void)bytes_write(at, value);
        status = put_twice(env, db, lmdb, value);
    }
    return status;
}

static inline __attribute__((always_inline)) status_t put_find(env_t *env, store_db_t db, bytes_t key, bytes_t lmdb,
                                                               put_place_t *place) {
    uint32_t index = 0;
    env->touches = true;
    if (LEAF_UNLIKELY(db == DB_RECORDS && key.size > 0 && key.at[0] == RECORD_SOURCE)) {
        env->formats |= STORE_FORMAT_STAMPED;
    }
    status_t status = index_for_put(env, db, key, &index);
    place->index = index;
    place->append = index >= DB_COUNT; /* a stream's own messages */
    place->tail = index >= DB_COUNT ? &env->judging.tails[index - DB_COUNT] : NULL;
    status = status == STATUS_OK ? env_judge_put(env, index, lmdb) : status;
    return status == STATUS_OK ? env_writer(env, index, &place->cursor) : status;
}

/* As it is, but for what a sealer does. */
static status_t put_value(env_t *env, store_db_t db, bytes_t key, bytes_t value) {
    store_key_t room;
    put_place_t place = {0};
    bytes_t lmdb =
        LEAF_UNLIKELY(entry_sealed(env->sealer, db)) ? entry_key(env->sealer, SEALER_KEEPER, db, key, &room) : key;
    status_t status = put_find(env, db, key, lmdb, &place);
    if (LEAF_UNLIKELY(status != STATUS_OK)) {
        return status;
    }
    if (LEAF_UNLIKELY(entry_sealed(env->sealer, db))) {
        return put_sealed(env, place, db, key, lmdb, value);
    }
    return put_as_it_is(env, place, db, key, value);
}

status_t env_write_raw(env_t *env, store_db_t db, bytes_t key, bytes_t value) {
    put_place_t place = {0};
    status_t status = put_find(env, db, key, key, &place);
    return status == STATUS_OK ? put_as_it_is(env, place, db, key, value) : status;
}

static inline status_t put_with_name(env_t *env, status_t put, store_db_t db, bytes_t key, bytes_t value) {
    return LEAF_UNLIKELY(db == DB_RECORDS) && put == STATUS_OK && env_is_named(db, key) ? env_name_put(env, key, value)
                                                                                        : put;
}

status_t env_write_put(env_t *env, store_db_t db, bytes_t key, bytes_t value) {
    if (LEAF_UNLIKELY(packing_wanted(db, value))) {
        status_t status = env_pack(env, key, &value);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return put_with_name(env, put_value(env, db, key, value), db, key, value);
}

status_t env_write_message(env_t *env, bytes_t key, bytes_t head, bytes_t rest) {
    put_place_t place = {0};
    status_t status = put_find(env, DB_MESSAGES, key, key, &place);
    uint8_t *at = status == STATUS_OK ? put_reserve(env, place, key, head.size + rest.size, &status) : NULL;
    if (at != NULL) {
        (void)bytes_write(bytes_write(at, head), rest);
    }
    return status;
}

/* Seals the short ones among them, all in one call. */
static void seal_puts(env_t *env, const env_put_t *puts, uint32_t count) {
    puts_t *to = env->puts;
    uint32_t items = 0;
    for (uint32_t i = 0; i < count; i++) {
        const env_put_t *put = &puts[i];
        uint32_t size = entry_size(env->sealer, put->db, put->key, put->value);
        to->sealed[i] = BYTES_NONE;
        if (entry_sealed(env->sealer, put->db) && size <= PUT_SHORT && !packing_wanted(put->db, put->value)) {
            to->lmdb[i] = entry_key(env->sealer, SEALER_KEEPER, put->db, put->key, &to->keys[i]);
            to->items[items++] = entry_item(put->db, put->key, to->lmdb[i], put->value, to->room[i]);
            to->sealed[i] = bytes_of(to->room[i], size);
        }
    }
    env->sealer->seal(env->sealer->context, SEALER_KEEPER, to->items, items);
}

/* The one at i, which seal_puts has seen. */
static status_t put_after_sealing(env_t *env, const env_put_t *put, uint32_t i) {
    put_place_t place = {0};
    if (env->puts->sealed[i].size == 0) {
        return env_write_put(env, put->db, put->key, put->value);
    }
    status_t status = put_find(env, put->db, put->key, env->puts->lmdb[i], &place);
    status = status == STATUS_OK ? put_as_it_is(env, place, put->db, env->puts->lmdb[i], env->puts->sealed[i]) : status;
    return put_with_name(env, status, put->db, put->key, put->value);
}

status_t env_write_puts(env_t *env, const env_put_t *puts, uint32_t count) {
    check(count <= ENV_PUTS_MAX);
    if (env->sealer != NULL && env->puts == NULL) {
        env->puts = malloc(sizeof *env->puts);
    }
    bool together = env->sealer != NULL && env->puts != NULL;
    if (together) {
        seal_puts(env, puts, count);
    }
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        status =
            together ? put_after_sealing(env, &puts[i], i) : env_write_put(env, puts[i].db, puts[i].key, puts[i].value);
    }
    return status;
}

static status_t delete_stored(env_t *env, store_db_t db, bytes_t lmdb) {
    MDB_val k = env_val(lmdb);
    store_db_t twin = env_twin_of(db, lmdb);
    uint32_t index = env_index(env, &env->write_slots, db, lmdb);
    env->touches = true;
    if (env_lacks(env, index)) {
        return STATUS_OK;
    }
    status_t status = env_judge(env, index, lmdb);
    status = status == STATUS_OK && twin != DB_COUNT ? env_judge(env, twin, lmdb) : status;
    if (status != STATUS_OK) {
        return status;
    }
    int code = mdb_del(env->write, env->dbs[index], &k, NULL);
    if (twin != DB_COUNT && (code == 0 || code == MDB_NOTFOUND)) {
        code = mdb_del(env->write, env->dbs[twin], &k, NULL);
    }
    return code == MDB_NOTFOUND ? STATUS_OK : env_translate(code);
}

status_t env_write_delete(env_t *env, store_db_t db, bytes_t key) {
    store_key_t room;
    status_t status = delete_stored(env, db, entry_key(env->sealer, SEALER_KEEPER, db, key, &room));
    if (status == STATUS_OK && env_is_named(db, key)) {
        key_name(&room, key);
        status = delete_stored(env, DB_NAMES, key_bytes(&room));
    }
    return status;
}

/* Deletes the entries beside a range of records: their copies, and their names. */
static status_t delete_beside(env_t *env, bytes_t from, bytes_t to, uint64_t limit, uint64_t *done) {
    store_key_t first, end;
    status_t status = env_write_delete_range(env, DB_RECORD_COPIES, from, to, limit, done);
    if (status != STATUS_OK || from.size < 1 || (from.at[0] != RECORD_STREAM && from.at[0] != RECORD_CONSUMER)) {
        return status;
    }
    key_name(&first, from);
    key_name(&end, to);
    return env_write_delete_range(env, DB_NAMES, key_bytes(&first), key_bytes(&end), limit, done);
}

/* Does the range of messages hold all that the stream's database has, on no more than `limit` pages? The list of what a
 * removal frees has to be written in one piece. */
static bool range_is_whole(env_t *env, uint32_t index, MDB_cursor *cursor, bytes_t from, bytes_t to, uint64_t limit) {
    MDB_stat stat;
    MDB_val first;
    MDB_val last;
    MDB_val v;
    store_key_t end;
    key_message(&end, load_be32(from.at), UINT64_MAX);
    return from.size == MESSAGE_KEY_SIZE && to.size == MESSAGE_KEY_SIZE
           && mdb_stat(env->write, env->dbs[index], &stat) == 0 && stat.ms_entries >= WHOLE_MIN
           && load_be64(to.at + 4) - load_be64(from.at + 4) >= stat.ms_entries
           && stat.ms_leaf_pages + stat.ms_overflow_pages <= limit
           && env_judge(env, index, bytes_of(from.at, 4)) == STATUS_OK
           && env_judge(env, index, key_bytes(&end)) == STATUS_OK && mdb_cursor_get(cursor, &first, &v, MDB_FIRST) == 0
           && mdb_cursor_get(cursor, &last, &v, MDB_LAST) == 0 && bytes_compare(env_bytes(first), from) >= 0
           && bytes_compare(env_bytes(last), to) < 0;
}

status_t env_write_delete_range(env_t *env, store_db_t db, bytes_t from, bytes_t to, uint64_t limit, uint64_t *done) {
    MDB_cursor *cursor = NULL;
    uint32_t index = env_index(env, &env->write_slots, db, from);
    *done = 0;
    env->touches = true;
    if (env_lacks(env, index)) {
        return STATUS_OK;
    }
    if (index >= DB_COUNT && from.size == 4) { /* all of a stream: no need to look at each */
        status_t judged = env_judge_whole(env, index);
        int code = judged == STATUS_OK ? mdb_drop(env->write, env->dbs[index], 0) : 0;
        return judged != STATUS_OK ? judged
               : code == 0         ? env_drop_dictionaries(env, index - DB_COUNT + 1u, load_be32(from.at))
                                   : env_translate(code);
    }
    status_t status = db == DB_RECORDS ? delete_beside(env, from, to, limit, done) : STATUS_OK;
    *done = 0;
    status = status == STATUS_OK ? env_judge(env, index, from) : status;
    status = status == STATUS_OK ? env_writer(env, index, &cursor) : status;
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val end = env_val(to);
    MDB_val k = env_val(from);
    MDB_val v;
    if (index >= DB_COUNT && range_is_whole(env, index, cursor, from, to, limit)) {
        status = env_judge_whole(env, index);
        status = status == STATUS_OK ? env_translate(mdb_drop(env->write, env->dbs[index], 0)) : status;
        return status == STATUS_OK ? env_forget_emptied(env, index - DB_COUNT, load_be32(from.at)) : status;
    }
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (code == 0 && mdb_cmp(env->write, env->dbs[index], &k, &end) < 0) {
        if (*done == limit) {
            return STATUS_AGAIN;
        }
        status = env_judge(env, index, env_bytes(k));
        if (status != STATUS_OK) {
            return status;
        }
        willneed_note(&env->write_ahead, k.mv_data);
        code = mdb_cursor_del(cursor, 0);
        if (code != 0) {
            break;
        }
        ++*done;
        code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT); /* LMDB: after a deletion this is the entry that followed */
    }
    if (code == MDB_NOTFOUND && index >= DB_COUNT) {
        return env_forget_emptied(env, index - DB_COUNT, load_be32(from.at));
    }
    return code == MDB_NOTFOUND ? STATUS_OK : env_translate(code);
}

static bool is_twin(uint32_t index) {
    return index == DB_RECORD_COPIES || index == DB_META_COPIES;
}

/* The value as it was before packing, in the room of the value that is read. */
static status_t unpacked(env_t *env, store_db_t db, bytes_t lmdb, bytes_t value, bytes_t *plain) {
    *plain = value;
    return packing_done(db, value) ? env_unpack_written(env, lmdb, value, plain) : STATUS_OK;
}

/* Seals one entry anew when it has to be. LMDB's bytes are not to be used any more afterwards. */
static status_t reseal_one(env_t *env, store_db_t db, bytes_t lmdb, bytes_t sealed) {
    bytes_t key = BYTES_NONE, plain = BYTES_NONE, value = BYTES_NONE;
    unsealed_forget(&env->written_value);
    status_t status = env->sealer->older_plain ? unpacked(env, db, lmdb, sealed, &plain) : STATUS_OK;
    if (status == STATUS_OK) {
        status = entry_open_older(&env->written_value, env->sealer, db, lmdb, sealed, plain, &key, &value);
    }
    if (status != STATUS_OK || value.size == 0) {
        return status;
    }
    store_key_t room;
    bytes_t now = entry_key(env->sealer, SEALER_KEEPER, db, key, &room);
    if (!bytes_equal(now, lmdb)) {
        status = delete_stored(env, db, lmdb);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return put_value(env, db, key, value);
}

uint32_t env_databases(const env_t *env) {
    return DB_COUNT + env->opened;
}

status_t env_write_reseal(env_t *env, uint32_t index, store_key_t *from, uint32_t limit) {
    check(index < env_databases(env));
    if (is_twin(index) || env_lacks(env, index)) { /* a twin goes with its other side */
        return STATUS_OK;
    }
    store_db_t db = env_db_of(index);
    for (uint32_t done = 0; done < limit; done++) {
        MDB_cursor *cursor = NULL;
        status_t status = env_judge(env, index, key_bytes(from));
        status = status == STATUS_OK ? env_writer(env, index, &cursor) : status;
        if (status != STATUS_OK) {
            return status;
        }
        MDB_val k = env_val(key_bytes(from));
        MDB_val v;
        int code = mdb_cursor_get(cursor, &k, &v, from->size > 0 ? MDB_SET_RANGE : MDB_FIRST);
        if (code != 0 || k.mv_size > KEY_MAX) {
            return code == MDB_NOTFOUND || code == 0 ? STATUS_OK : env_translate(code);
        }
        from->size = (uint32_t)k.mv_size;
        memcpy(from->at, k.mv_data, k.mv_size);
        status = reseal_one(env, db, key_bytes(from), env_bytes(v));
        if (status != STATUS_OK) {
            return status;
        }
        from->at[from->size++] = 0; /* the least key behind it */
    }
    return STATUS_AGAIN;
}

static status_t survey_one(env_t *env, store_db_t db, const sealer_t *const *sealers, uint32_t count, bytes_t lmdb,
                           bytes_t value, env_survey_t *survey) {
    bytes_t plain;
    unsealed_forget(&env->written_value);
    for (uint32_t i = 0; i < count; i++) {
        status_t status = unsealed_by(&env->written_value, sealers[i], SEALER_KEEPER, (uint8_t)db, lmdb, value, &plain);
        if (status != STATUS_OK || plain.size > 0) {
            survey->opened[i] += plain.size > 0;
            return status;
        }
    }
    status_t status = unpacked(env, db, lmdb, value, &plain);
    if (status == STATUS_OK) {
        *(value_sound(lmdb, plain) ? &survey->plain : &survey->closed) += 1;
    }
    return status;
}

status_t env_write_survey(env_t *env, const sealer_t *const *sealers, uint32_t count, env_survey_t *survey) {
    *survey = (env_survey_t){0};
    for (uint32_t index = 0; index < DB_COUNT + env->opened; index++) {
        MDB_cursor *cursor = NULL;
        MDB_val k;
        MDB_val v;
        if (index == DB_META || is_twin(index) || env_lacks(env, index)) {
            continue;
        }
        status_t status = env_judge_leaves(env, index);
        status = status == STATUS_OK ? env_writer(env, index, &cursor) : status;
        if (status != STATUS_OK) {
            return status;
        }
        int code = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
        for (; code == 0; code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
            store_db_t db = env_db_of(index);
            status = survey_one(env, db, sealers, count, env_bytes(k), env_bytes(v), survey);
            if (status != STATUS_OK) {
                return status;
            }
        }
        if (code != MDB_NOTFOUND) {
            return env_translate(code);
        }
    }
    return STATUS_OK;
}

/* LMDB frees a write transaction's cursors itself only in part; they are closed before its end, as its manual asks. */
static void close_writers(env_t *env) {
    for (uint32_t index = 0; index < DB_COUNT + env->opened; index++) {
        if (env->writers[index] != NULL) {
            mdb_cursor_close(env->writers[index]);
            env->writers[index] = NULL;
        }
    }
}

status_t env_write_commit(env_t *env) {
    if (LEAF_UNLIKELY(env->formats != env->formats_noted)) { /* or an older leafd would take it for damaged */
        status_t status = env_note_formats(env);
        if (status != STATUS_OK) {
            env_write_abort(env);
            return status;
        }
    }
    if (LEAF_UNLIKELY(!all_was_given(env))) {
        env_write_abort(env);
        return STATUS_IO;
    }
    close_writers(env);
    changed_forget(&env->changed);
    if (LEAF_UNLIKELY(env->touches && !env->makes_whole)) { /* before others may see it */
        atomic_fetch_or(&env->wholes, 1);
    }
    int code = mdb_txn_commit(env->write);
    env->write = NULL;
    env_judge_end(env);
    if (code == 0 && env->makes_whole) {
        atomic_store(&env->wholes, (atomic_load(&env->wholes) | 1) + 1);
    }
    env->touches = env->makes_whole = false;
    if (code == 0) {
        env_judge_committed(env);
        env->had_ledger = env->has_ledger;
        env->formats_noted = env->formats_put;
        atomic_store_explicit(&env->published, env->opened, memory_order_release);
    } else {
        env_forget_opened(env);
    }
    packer_ended(env->packer, code == 0);
    return env_commit_status(env, code);
}

void env_write_abort(env_t *env) {
    if (env->write == NULL) {
        return;
    }
    close_writers(env);
    changed_forget(&env->changed);
    mdb_txn_abort(env->write);
    env->write = NULL;
    env->touches = env->makes_whole = false;
    env_judge_end(env);
    env_forget_opened(env);
    packer_ended(env->packer, false);
}
