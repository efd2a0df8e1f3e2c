/* env.c: see env.h. The only file that includes lmdb.h.
 *
 * A cursor for each database stays open over the plane's read transaction and is renewed with it, so a sequential reader pays
 * mdb_cursor_get(MDB_NEXT) and not a descent from the root. Messages and id order are put through a kept write cursor: LMDB then
 * finds the page of the last put without a descent when the next key lands on it.
 */
#include "store/env.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/check.h"

#define SPACE_LOW (UINT64_C(1) << 20)

struct env {
    MDB_env *env;
    MDB_dbi dbs[DB_COUNT];
    MDB_txn *read;
    MDB_cursor *readers[DB_COUNT];
    bool reader_fresh[DB_COUNT];
    MDB_txn *write;
    MDB_cursor *writers[DB_COUNT];
    uint32_t page_size;
};

static const char *const db_names[DB_COUNT] = {"meta", "records", "messages", "heads", "ids", "id_order", "expiry"};

static status_t translate(int code) {
    switch (code) {
    case 0:
        return STATUS_OK;
    case MDB_NOTFOUND:
        return STATUS_NOT_FOUND;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return STATUS_NO_SPACE;
    case ENOMEM:
        return STATUS_NO_MEMORY;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_PANIC:
        return STATUS_CORRUPT;
    case MDB_VERSION_MISMATCH:
        return STATUS_VERSION;
    default:
        return STATUS_IO;
    }
}

static MDB_val val_of(bytes_t bytes) {
    return (MDB_val){.mv_size = bytes.size, .mv_data = (void *)(uintptr_t)bytes.at};
}

static bytes_t bytes_from(MDB_val val) {
    return bytes_of(val.mv_data, (uint32_t)val.mv_size);
}

static status_t open_databases(env_t *env) {
    MDB_txn *txn;
    int code = mdb_txn_begin(env->env, NULL, 0, &txn);
    if (code != 0) {
        return translate(code);
    }
    for (int db = 0; db < DB_COUNT; db++) {
        code = mdb_dbi_open(txn, db_names[db], MDB_CREATE, &env->dbs[db]);
        if (code != 0) {
            mdb_txn_abort(txn);
            return translate(code);
        }
    }
    return translate(mdb_txn_commit(txn));
}

status_t env_open(const char *directory, uint64_t map_size, bool memory, env_t **out, char *reason, size_t reason_size) {
    *out = NULL;
    status_t status = STATUS_NO_MEMORY;
    env_t *env = calloc(1, sizeof *env);
    if (env == NULL) {
        snprintf(reason, reason_size, "no memory for the store in %s", directory);
        return status;
    }
    int code = mdb_env_create(&env->env);
    if (code == 0) {
        code = mdb_env_set_maxdbs(env->env, DB_COUNT);
    }
    if (code == 0) {
        code = mdb_env_set_mapsize(env->env, (size_t)map_size);
    }
    if (code == 0) {
        unsigned int flags = MDB_NOTLS | (memory ? MDB_NOSYNC | MDB_NOMETASYNC : 0);
        code = mdb_env_open(env->env, directory, flags, 0600);
    }
    status = translate(code);
    if (status == STATUS_OK) {
        status = open_databases(env);
    }
    if (status == STATUS_OK) {
        MDB_stat stat;
        mdb_env_stat(env->env, &stat);
        env->page_size = stat.ms_psize;
        code = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &env->read);
        status = translate(code);
    }
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
    if (env == NULL) {
        return;
    }
    for (int db = 0; db < DB_COUNT; db++) {
        if (env->readers[db] != NULL) {
            mdb_cursor_close(env->readers[db]);
        }
    }
    if (env->read != NULL) {
        mdb_txn_abort(env->read);
    }
    if (env->write != NULL) {
        env_write_abort(env);
    }
    if (env->env != NULL) {
        mdb_env_close(env->env);
    }
    free(env);
}

/* ---- reading ---- */

status_t env_renew(env_t *env) {
    mdb_txn_reset(env->read);
    for (int db = 0; db < DB_COUNT; db++) {
        env->reader_fresh[db] = false;
    }
    return translate(mdb_txn_renew(env->read));
}

status_t env_get(env_t *env, store_db_t db, bytes_t key, bytes_t *value) {
    MDB_val k = val_of(key);
    MDB_val v;
    int code = mdb_get(env->read, env->dbs[db], &k, &v);
    if (code == 0) {
        *value = bytes_from(v);
    }
    return translate(code);
}

static status_t reader(env_t *env, store_db_t db, MDB_cursor **cursor) {
    int code = 0;
    if (env->readers[db] == NULL) {
        code = mdb_cursor_open(env->read, env->dbs[db], &env->readers[db]);
    } else if (!env->reader_fresh[db]) {
        code = mdb_cursor_renew(env->read, env->readers[db]);
    }
    env->reader_fresh[db] = code == 0;
    *cursor = env->readers[db];
    return translate(code);
}

static status_t cursor_get(env_t *env, store_db_t db, MDB_cursor_op op, bytes_t key, bytes_t *found, bytes_t *value) {
    MDB_cursor *cursor = NULL;
    status_t status = reader(env, db, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(key);
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, op);
    if (code == 0) {
        *found = bytes_from(k);
        *value = bytes_from(v);
    }
    return translate(code);
}

status_t env_seek(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    return cursor_get(env, db, MDB_SET_RANGE, key, found, value);
}

status_t env_next(env_t *env, store_db_t db, bytes_t *found, bytes_t *value) {
    return cursor_get(env, db, MDB_NEXT, BYTES_NONE, found, value);
}

status_t env_seek_back(env_t *env, store_db_t db, bytes_t key, bytes_t *found, bytes_t *value) {
    status_t status = cursor_get(env, db, MDB_SET_RANGE, key, found, value);
    if (status == STATUS_OK && bytes_equal(*found, key)) {
        return STATUS_OK;
    }
    if (status == STATUS_OK) {
        return cursor_get(env, db, MDB_PREV, BYTES_NONE, found, value);
    }
    return status == STATUS_NOT_FOUND ? cursor_get(env, db, MDB_LAST, BYTES_NONE, found, value) : status;
}

/* ---- writing ---- */

status_t env_write_begin(env_t *env) {
    check(env->write == NULL);
    return translate(mdb_txn_begin(env->env, NULL, 0, &env->write));
}

static status_t writer(env_t *env, store_db_t db, MDB_cursor **cursor) {
    if (env->writers[db] == NULL) {
        int code = mdb_cursor_open(env->write, env->dbs[db], &env->writers[db]);
        if (code != 0) {
            return translate(code);
        }
    }
    *cursor = env->writers[db];
    return STATUS_OK;
}

status_t env_write_put(env_t *env, store_db_t db, bytes_t key, bytes_t value) {
    MDB_cursor *cursor = NULL;
    status_t status = writer(env, db, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val k = val_of(key);
    MDB_val v = val_of(value);
    return translate(mdb_cursor_put(cursor, &k, &v, 0));
}

status_t env_write_delete(env_t *env, store_db_t db, bytes_t key) {
    MDB_val k = val_of(key);
    int code = mdb_del(env->write, env->dbs[db], &k, NULL);
    return code == MDB_NOTFOUND ? STATUS_OK : translate(code);
}

status_t env_write_delete_range(env_t *env, store_db_t db, bytes_t from, bytes_t to, uint64_t limit, uint64_t *done) {
    MDB_cursor *cursor = NULL;
    *done = 0;
    status_t status = writer(env, db, &cursor);
    if (status != STATUS_OK) {
        return status;
    }
    MDB_val end = val_of(to);
    MDB_val k = val_of(from);
    MDB_val v;
    int code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (code == 0 && mdb_cmp(env->write, env->dbs[db], &k, &end) < 0) {
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
    int code = mdb_get(env->write, env->dbs[db], &k, &v);
    if (code == 0) {
        *value = bytes_from(v);
    }
    return translate(code);
}

static void forget_writers(env_t *env) {
    for (int db = 0; db < DB_COUNT; db++) {
        env->writers[db] = NULL;
    }
}

/* LMDB frees a write transaction's cursors itself only in part; they are closed before its end, as its manual asks. */
static void close_writers(env_t *env) {
    for (int db = 0; db < DB_COUNT; db++) {
        if (env->writers[db] != NULL) {
            mdb_cursor_close(env->writers[db]);
        }
    }
    forget_writers(env);
}

/* LMDB reports a short write as EIO; the file system (or the process's limit on file sizes) says what it was. */
static bool out_of_space(env_t *env) {
    int fd;
    struct statvfs disk;
    struct stat file;
    struct rlimit limit;
    if (mdb_env_get_fd(env->env, &fd) != 0) {
        return false;
    }
    if (fstatvfs(fd, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < SPACE_LOW) {
        return true;
    }
    return fstat(fd, &file) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           (uint64_t)file.st_size + env->page_size > (uint64_t)limit.rlim_cur;
}

status_t env_write_commit(env_t *env) {
    close_writers(env);
    int code = mdb_txn_commit(env->write);
    env->write = NULL;
    return code == EIO && out_of_space(env) ? STATUS_NO_SPACE : translate(code);
}

void env_write_abort(env_t *env) {
    if (env->write == NULL) {
        return;
    }
    close_writers(env);
    mdb_txn_abort(env->write);
    env->write = NULL;
}

void env_usage(env_t *env, env_usage_t *usage) {
    MDB_envinfo info;
    mdb_env_info(env->env, &info);
    usage->map_bytes = info.me_mapsize;
    usage->used_bytes = ((uint64_t)info.me_last_pgno + 1) * env->page_size;
}

void env_usage_exact(env_t *env, env_usage_t *usage) {
    env_usage(env, usage);
    usage->free_bytes = 0;
    MDB_cursor *cursor;
    /* Database 0 of LMDB is its own list of free pages: each value begins with how many page numbers it holds. */
    if (env->write == NULL || mdb_cursor_open(env->write, 0, &cursor) != 0) {
        return;
    }
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
