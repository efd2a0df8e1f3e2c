/* env.c: see env.h. The only file that includes lmdb.h.
 *
 * Messages lie in a database for each stream ("m" and the id in hex), not all in one: keys that are appended in the
 * midst of a tree leave every page half full behind them (measured with 8 streams of 128 B messages: 3.1 bytes of file
 * a byte of payload against 2.1, and the keeper's CPU doubled). The keeper opens a new one inside its write
 * transaction; the plane hears of it by a count that is published after the commit. When MESSAGE_DBS_MAX are in use,
 * further streams share the database "messages".
 *
 *     index    0 .. DB_COUNT-1          the databases of keys.h
 *              DB_COUNT + slot          the messages of slots[slot], slot < published
 *
 * A cursor for each database stays open over the plane's read transaction and is renewed with it, so a sequential
 * reader pays mdb_cursor_get(MDB_NEXT) and not a descent from the root. Messages and id order are put through a kept
 * write cursor: LMDB then finds the page of the last put without a descent when the next key lands on it.
 */
#include "disk/env.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "disk/blocks.h"
#include "disk/slots.h"

#define MESSAGE_DBS_MAX SLOTS_MAX
#define DBS_MAX (DB_COUNT + MESSAGE_DBS_MAX)
#define MESSAGE_DB_NAME_SIZE 9 /* "m0000002a" */

struct env {
    MDB_env *env; /* NULL: it could not be opened again */
    char *directory;
    uint64_t map_size;
    bool memory;
    const sealer_t *sealer;
    bool broken; /* keeper: LMDB takes no more writes */
    MDB_dbi dbs[DBS_MAX];
    uint32_t slots[MESSAGE_DBS_MAX]; /* stream ids; written before they are published */
    _Atomic uint32_t published;
    uint32_t page_size;
    /* plane */
    MDB_txn *read;
    MDB_cursor *readers[DBS_MAX];
    uint64_t reader_renewals[DBS_MAX];
    uint64_t renewals;
    slots_t read_slots;
    unsealed_t read_values;
    /* keeper */
    MDB_txn *write;
    MDB_cursor *writers[DBS_MAX];
    slots_t write_slots;
    unsealed_t written_value; /* the last one that was read */
    uint32_t opened;          /* slots in use, those of the open transaction included */
};

static const char *const db_names[DB_COUNT] = {"meta", "records", "messages", "heads", "ids", "id_order", "expiry"};

static status_t translate(int code) {
    switch (code) {
    case 0: return STATUS_OK;
    case MDB_NOTFOUND: return STATUS_NOT_FOUND;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return STATUS_NO_SPACE;
    case ENOMEM: return STATUS_NO_MEMORY;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID: return STATUS_CORRUPT;
    case MDB_VERSION_MISMATCH: return STATUS_VERSION;
    default: return STATUS_IO;
    }
}

/* LMDB reports a short write as EIO; what it was is looked up. */
static status_t commit_status(env_t *env, int code) {
    int fd;
    bool full = code == EIO && mdb_env_get_fd(env->env, &fd) == 0 && blocks_exhausted(fd, env->page_size);
    return full ? STATUS_NO_SPACE : translate(code);
}

static MDB_val val_of(bytes_t bytes) {
    return (MDB_val){.mv_size = bytes.size, .mv_data = (void *)(uintptr_t)bytes.at};
}

static bytes_t bytes_from(MDB_val val) {
    return bytes_of(val.mv_data, (uint32_t)val.mv_size);
}

static bool is_sealed(const env_t *env, store_db_t db) {
    return LEAF_UNLIKELY(env->sealer != NULL) && db != DB_META;
}

/* A value that was read by the plane thread. */
static bytes_t value_read(env_t *env, store_db_t db, MDB_val key, MDB_val val) {
    if (!is_sealed(env, db)) {
        return bytes_from(val);
    }
    return unsealed_value(&env->read_values, env->sealer, (uint8_t)db, bytes_from(key), bytes_from(val));
}

/* ---- which database ---------------------------------------------------------------------------------------------- */

static uint32_t index_in(const env_t *env, const slots_t *slots, store_db_t db, bytes_t key) {
    if (db != DB_MESSAGES || key.size < 4) {
        return db;
    }
    uint32_t slot = slots_find(slots, env->slots, load_be32(key.at));
    check(slot <= SLOTS_MAX);
    return slot != 0 ? DB_COUNT + slot - 1u : DB_MESSAGES;
}

static void message_db_name(uint32_t stream, char name[MESSAGE_DB_NAME_SIZE + 1]) {
    snprintf(name, MESSAGE_DB_NAME_SIZE + 1, "m%08x", stream);
}

static int open_message_db(env_t *env, MDB_txn *txn, uint32_t stream) {
    char name[MESSAGE_DB_NAME_SIZE + 1];
    message_db_name(stream, name);
    int code = mdb_dbi_open(txn, name, MDB_CREATE, &env->dbs[DB_COUNT + env->opened]);
    if (code == 0) {
        env->slots[env->opened] = stream;
        env->opened++;
        slots_catch_up(&env->write_slots, env->slots, env->opened);
    }
    return code;
}

/* Opens the message databases that are there; one that a removed stream left empty goes (tidy), which takes some pages.
 */
static int open_message_dbs(env_t *env, MDB_txn *txn, bool tidy) {
    MDB_cursor *cursor;
    MDB_dbi names;
    int code = mdb_dbi_open(txn, NULL, 0, &names);
    if (code != 0 || (code = mdb_cursor_open(txn, names, &cursor)) != 0) {
        return code;
    }
    uint32_t streams[MESSAGE_DBS_MAX];
    uint32_t count = 0;
    MDB_val k;
    MDB_val v;
    while ((code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
        char name[MESSAGE_DB_NAME_SIZE + 1] = {0};
        if (k.mv_size == MESSAGE_DB_NAME_SIZE && count < MESSAGE_DBS_MAX) {
            char *end;
            memcpy(name, k.mv_data, MESSAGE_DB_NAME_SIZE);
            unsigned long stream = strtoul(name + 1, &end, 16);
            if (name[0] == 'm' && *end == 0) {
                streams[count++] = (uint32_t)stream;
            }
        }
    }
    mdb_cursor_close(cursor);
    code = code == MDB_NOTFOUND ? 0 : code;
    for (uint32_t i = 0; code == 0 && i < count; i++) {
        char name[MESSAGE_DB_NAME_SIZE + 1];
        MDB_dbi dbi;
        MDB_stat stat;
        message_db_name(streams[i], name);
        code = mdb_dbi_open(txn, name, 0, &dbi);
        if (code == 0) {
            code = mdb_stat(txn, dbi, &stat);
        }
        if (code == 0) {
            code = tidy && stat.ms_entries == 0 ? mdb_drop(txn, dbi, 1) : open_message_db(env, txn, streams[i]);
        }
    }
    return code;
}

static void forget_opened(env_t *env) {
    env->opened = atomic_load_explicit(&env->published, memory_order_relaxed);
    memset(&env->write_slots, 0, sizeof env->write_slots);
    slots_catch_up(&env->write_slots, env->slots, env->opened);
}

static status_t open_databases(env_t *env, bool tidy) {
    MDB_txn *txn;
    int code = mdb_txn_begin(env->env, NULL, 0, &txn);
    if (code != 0) {
        return translate(code);
    }
    for (int db = 0; code == 0 && db < DB_COUNT; db++) {
        code = mdb_dbi_open(txn, db_names[db], MDB_CREATE, &env->dbs[db]);
    }
    if (code == 0) {
        code = open_message_dbs(env, txn, tidy);
    }
    if (code != 0) {
        mdb_txn_abort(txn);
        return translate(code);
    }
    code = mdb_txn_commit(txn);
    if (code == 0) {
        atomic_store_explicit(&env->published, env->opened, memory_order_release);
        slots_catch_up(&env->read_slots, env->slots, env->opened);
    }
    return commit_status(env, code);
}

/* Opens what env->directory holds. *code: LMDB's, when it was LMDB that refused. */
static status_t attach(env_t *env, bool tidy, int *code) {
    *code = mdb_env_create(&env->env);
    if (*code == 0 && (*code = mdb_env_set_maxdbs(env->env, DBS_MAX + 1)) == 0) {
        *code = mdb_env_set_mapsize(env->env, (size_t)env->map_size);
    }
    if (*code == 0) {
        unsigned int flags = MDB_NOTLS | (env->memory ? MDB_NOSYNC | MDB_NOMETASYNC : 0);
        *code = mdb_env_open(env->env, env->directory, flags, 0600);
    }
    status_t status = translate(*code);
    if (status == STATUS_OK) {
        status = open_databases(env, tidy);
    }
    if (status == STATUS_NO_SPACE && tidy) { /* a full disk: what is there is opened as it is */
        forget_opened(env);
        status = open_databases(env, false);
    }
    if (status == STATUS_OK) {
        MDB_stat stat;
        mdb_env_stat(env->env, &stat);
        env->page_size = stat.ms_psize;
        *code = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &env->read);
        status = translate(*code);
    }
    return status;
}

/* Nothing of LMDB's is left; what it knew of the databases is forgotten. */
static void detach(env_t *env) {
    for (int db = 0; db < DBS_MAX; db++) {
        if (env->readers[db] != NULL) {
            mdb_cursor_close(env->readers[db]);
        }
    }
    if (env->read != NULL) {
        mdb_txn_abort(env->read);
    }
    env_write_abort(env);
    if (env->env != NULL) {
        mdb_env_close(env->env);
    }
    unsealed_forget(&env->read_values);
    unsealed_forget(&env->written_value);
    *env = (env_t){.directory = env->directory,
                   .map_size = env->map_size,
                   .memory = env->memory,
                   .sealer = env->sealer,
                   .renewals = env->renewals + 1};
}

status_t env_open(const char *directory, uint64_t map_size, bool memory, const sealer_t *sealer, env_t **out,
                  char *reason, size_t reason_size) {
    int code = 0;
    *out = NULL;
    env_t *env = calloc(1, sizeof *env);
    if (env != NULL) {
        *env = (env_t){.directory = strdup(directory), .map_size = map_size, .memory = memory, .sealer = sealer};
    }
    if (env == NULL || env->directory == NULL) {
        snprintf(reason, reason_size, "no memory for the store in %s", directory);
        free(env);
        return STATUS_NO_MEMORY;
    }
    status_t status = attach(env, true, &code);
    if (status != STATUS_OK) {
        snprintf(reason, reason_size, "cannot open the LMDB environment in %s: %s", directory,
                 code != 0 ? mdb_strerror(code) : status_name(status));
        env_close(env);
        return status;
    }
    *out = env;
    return STATUS_OK;
}

void env_close(env_t *env) {
    if (env != NULL) {
        detach(env);
        free(env->directory);
        free(env);
    }
}

bool env_broken(const env_t *env) {
    return env->broken || env->env == NULL;
}

status_t env_reopen(env_t *env) {
    int code;
    detach(env);
    status_t status = attach(env, false, &code);
    if (status != STATUS_OK) {
        detach(env);
    }
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A new transaction and not the old one renewed: the old snapshot stays when LMDB gives none. */
status_t env_renew(env_t *env) {
    uint32_t published = atomic_load_explicit(&env->published, memory_order_acquire);
    MDB_txn *newest = NULL;
    int code = env->env != NULL ? mdb_txn_begin(env->env, NULL, MDB_RDONLY, &newest) : EIO;
    if (code == 0) {
        mdb_txn_abort(env->read);
        env->read = newest;
        env->renewals++;
        slots_catch_up(&env->read_slots, env->slots, published);
    }
    return translate(code);
}

void env_forget(env_t *env) {
    if (LEAF_UNLIKELY(env->sealer != NULL)) {
        unsealed_forget(&env->read_values);
    }
}

status_t env_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    MDB_val k = val_of(key);
    MDB_val v;
    if (env->read == NULL) {
        return STATUS_IO;
    }
    int code = mdb_get(env->read, env->dbs[index_in(env, &env->read_slots, db, key)], &k, &v);
    if (code == 0) {
        *value = value_read(env, db, k, v);
    }
    return translate(code);
}

static status_t reader(env_t *env, uint32_t index, MDB_cursor **cursor) {
    int code = 0;
    if (env->read == NULL) {
        return STATUS_IO;
    }
    if (env->readers[index] == NULL) {
        code = mdb_cursor_open(env->read, env->dbs[index], &env->readers[index]);
    } else if (env->reader_renewals[index] != env->renewals) {
        code = mdb_cursor_renew(env->read, env->readers[index]);
    }
    if (code == 0) {
        env->reader_renewals[index] = env->renewals;
    }
    *cursor = env->readers[index];
    return translate(code);
}

static status_t cursor_get(env_t *env, uint32_t index, MDB_cursor_op op, bytes_t key, bytes_t *found, bytes_t *value) {
    MDB_cursor *cursor = NULL;
    status_t status = reader(env, index, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(key);
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, op);
    if (code == 0) {
        *found = bytes_from(k);
        *value = value_read(env, index < DB_COUNT ? (store_db_t)index : DB_MESSAGES, k, v);
    }
    return translate(code);
}

status_t env_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    return cursor_get(env, index_in(env, &env->read_slots, db, key), MDB_SET_RANGE, key, found, value);
}

status_t env_next(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    return cursor_get(env, index_in(env, &env->read_slots, db, key), MDB_NEXT, BYTES_NONE, found, value);
}

status_t env_seek_back(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    uint32_t index = index_in(env, &env->read_slots, db, key);
    status_t status = cursor_get(env, index, MDB_SET_RANGE, key, found, value);
    if (status == STATUS_OK && bytes_equal(*found, key)) {
        return STATUS_OK;
    }
    if (status == STATUS_OK) {
        return cursor_get(env, index, MDB_PREV, BYTES_NONE, found, value);
    }
    return status == STATUS_NOT_FOUND ? cursor_get(env, index, MDB_LAST, BYTES_NONE, found, value) : status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

status_t env_write_begin(env_t *env) {
    check(env->write == NULL);
    if (env_broken(env)) {
        return STATUS_IO;
    }
    int dead; /* readers of other processes (tools) that died: their snapshots would keep pages from being used again */
    (void)mdb_reader_check(env->env, &dead);
    int code = mdb_txn_begin(env->env, NULL, 0, &env->write);
    env->broken = code == MDB_PANIC;
    return translate(code);
}

static status_t writer(env_t *env, uint32_t index, MDB_cursor **cursor) {
    if (env->writers[index] == NULL) {
        int code = mdb_cursor_open(env->write, env->dbs[index], &env->writers[index]);
        if (code != 0) {
            return translate(code);
        }
    }
    *cursor = env->writers[index];
    return STATUS_OK;
}

/* A stream's first put gives it a database of its own, unless it has begun in the shared one. */
static status_t index_for_put(env_t *env, store_db_t db, bytes_t key, uint32_t *index) {
    *index = index_in(env, &env->write_slots, db, key);
    if (db != DB_MESSAGES || *index != DB_MESSAGES || env->opened == MESSAGE_DBS_MAX) {
        return STATUS_OK;
    }
    MDB_cursor *cursor = NULL;
    status_t status = writer(env, DB_MESSAGES, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(bytes_of(key.at, 4));
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    if (code == 0 && k.mv_size >= 4 && memcmp(k.mv_data, key.at, 4) == 0) {
        return STATUS_OK;
    }
    if (code == 0 || code == MDB_NOTFOUND) {
        code = open_message_db(env, env->write, load_be32(key.at));
        *index = index_in(env, &env->write_slots, db, key);
    }
    return translate(code);
}

status_t env_write_put(env_t *env, store_db_t db, bytes_t key, bytes_t value) {
    MDB_cursor *cursor = NULL;
    uint32_t index = 0;
    status_t status = index_for_put(env, db, key, &index);
    if (status == STATUS_OK) {
        status = writer(env, index, &cursor);
    }
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(key);
    MDB_val v = val_of(value);
    if (!is_sealed(env, db)) {
        return translate(mdb_cursor_put(cursor, &k, &v, 0));
    }
    v.mv_size += env->sealer->overhead;
    int code = mdb_cursor_put(cursor, &k, &v, MDB_RESERVE); /* LMDB shows where the value is to be written */
    if (code == 0) {
        env->sealer->seal(env->sealer->context, (uint8_t)db, key, value, v.mv_data);
    }
    return translate(code);
}

status_t env_write_delete(env_t *env, store_db_t db, bytes_t key) {
    MDB_val k = val_of(key);
    int code = mdb_del(env->write, env->dbs[index_in(env, &env->write_slots, db, key)], &k, NULL);
    return code == MDB_NOTFOUND ? STATUS_OK : translate(code);
}

status_t env_write_delete_range(env_t *env, store_db_t db, bytes_t from, bytes_t to, uint64_t limit, uint64_t *done) {
    MDB_cursor *cursor = NULL;
    uint32_t index = index_in(env, &env->write_slots, db, from);
    *done = 0;
    if (index >= DB_COUNT && from.size == 4) {
        return translate(mdb_drop(env->write, env->dbs[index], 0)); /* all of a stream: no need to look at each */
    }
    status_t status = writer(env, index, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val end = val_of(to);
    MDB_val k = val_of(from);
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (code == 0 && mdb_cmp(env->write, env->dbs[index], &k, &end) < 0) {
        if (*done == limit) {
            return STATUS_AGAIN;
        }
        code = mdb_cursor_del(cursor, 0);
        if (code != 0) {
            break;
        }
        ++*done;
        code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT); /* LMDB: after a deletion this is the entry that followed */
    }
    return code == MDB_NOTFOUND ? STATUS_OK : translate(code);
}

status_t env_write_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    MDB_val k = val_of(key);
    MDB_val v;
    int code = mdb_get(env->write, env->dbs[index_in(env, &env->write_slots, db, key)], &k, &v);
    if (code == 0) {
        *value = bytes_from(v);
        if (is_sealed(env, db)) {
            unsealed_forget(&env->written_value);
            *value = unsealed_value(&env->written_value, env->sealer, (uint8_t)db, key, *value);
        }
    }
    return translate(code);
}

status_t env_write_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found) {
    MDB_cursor *cursor = NULL;
    status_t status = writer(env, index_in(env, &env->write_slots, db, key), &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(key);
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    if (code == 0) {
        *found = bytes_from(k);
    }
    return translate(code);
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
    close_writers(env);
    int code = mdb_txn_commit(env->write);
    env->write = NULL;
    if (code == 0) {
        atomic_store_explicit(&env->published, env->opened, memory_order_release);
    } else {
        forget_opened(env);
    }
    return commit_status(env, code);
}

void env_write_abort(env_t *env) {
    if (env->write == NULL) {
        return;
    }
    close_writers(env);
    mdb_txn_abort(env->write);
    env->write = NULL;
    forget_opened(env);
}

void env_usage(env_t *env, env_usage_t *usage) {
    MDB_envinfo info;
    if (env->env == NULL) {
        return;
    }
    mdb_env_info(env->env, &info);
    usage->map_bytes = info.me_mapsize;
    usage->used_bytes = ((uint64_t)info.me_last_pgno + 1) * env->page_size;
}

void env_usage_exact(env_t *env, env_usage_t *usage) {
    env_usage(env, usage);
    usage->free_bytes = 0;
    MDB_txn *txn;
    MDB_cursor *cursor;
    /* Not the open write transaction: it has taken pages off the list that it may not need. */
    if (env->env == NULL || mdb_txn_begin(env->env, NULL, MDB_RDONLY, &txn) != 0) {
        return;
    }
    /* Database 0 of LMDB is its own list of free pages: each value begins with how many page numbers it holds. */
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        MDB_val k;
        MDB_val v;
        while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
            size_t count;
            if (v.mv_size >= sizeof count) {
                memcpy(&count, v.mv_data, sizeof count);
                usage->free_bytes += (uint64_t)count * env->page_size;
            }
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
}

int env_file(env_t *env) {
    int fd = -1;
    return env->env != NULL && mdb_env_get_fd(env->env, &fd) == 0 ? fd : -1;
}
