/* env_open.c: the LMDB environment opens, opens again, closes, and says how large it is. See env_lmdb.h. */
#include "disk/env_lmdb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "disk/blocks.h"

#define MESSAGE_DB_NAME_SIZE 9 /* "m0000002a" */

static const char *const db_names[DB_COUNT] = {
    "meta",         "records",           "messages",      "heads",       "ids",   "id_order", "expiry",
    "dictionaries", "dictionary_copies", "record_copies", "meta_copies", "names", "ledger"};

status_t env_translate(int code) {
    switch (code) {
    case 0: return STATUS_OK;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return STATUS_NO_SPACE;
    case ENOMEM: return STATUS_NO_MEMORY;
    case MDB_NOTFOUND: /* where something has to be: who may find nothing judges that itself */
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID: return STATUS_CORRUPT;
    case MDB_VERSION_MISMATCH: return STATUS_VERSION;
    default: return STATUS_IO;
    }
}

status_t env_commit_status(env_t *env, int code) {
    int fd;
    bool full = code == EIO && mdb_env_get_fd(env->env, &fd) == 0 && blocks_exhausted(fd, env->page_size);
    return full ? STATUS_NO_SPACE : env_translate(code);
}

static void message_db_name(uint32_t stream, char name[MESSAGE_DB_NAME_SIZE + 1]) {
    snprintf(name, MESSAGE_DB_NAME_SIZE + 1, "m%08x", stream);
}

int env_open_messages(env_t *env, MDB_txn *txn, uint32_t stream) {
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

int env_open_ledger(env_t *env, MDB_txn *txn, unsigned int flags) {
    int code = mdb_dbi_open(txn, db_names[DB_LEDGER], flags, &env->dbs[DB_LEDGER]);
    env->has_ledger = code == 0;
    return code == MDB_NOTFOUND ? 0 : code;
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
            code = tidy && stat.ms_entries == 0 ? mdb_drop(txn, dbi, 1) : env_open_messages(env, txn, streams[i]);
        }
    }
    return code;
}

status_t env_find_root(const env_t *env, trees_t *trees, uint32_t index, page_db_t *db, bool *large) {
    char name[MESSAGE_DB_NAME_SIZE + 1];
    uint64_t large_pages = 0;
    if (index >= DB_COUNT) {
        message_db_name(env->slots[index - DB_COUNT], name);
    }
    read_outcome_t outcome = trees_find(trees, index < DB_COUNT ? db_names[index] : name, db, &large_pages);
    *large = large_pages > 0;
    switch (outcome) {
    case READ_NONE: *db = (page_db_t){.root = PAGE_NONE}; break;
    case READ_UNKNOWN:
    case READ_FOUND: break;
    }
    return read_known(outcome);
}

void env_forget_opened(env_t *env) {
    env->opened = atomic_load_explicit(&env->published, memory_order_relaxed);
    env->has_ledger = env->had_ledger;
    memset(&env->write_slots, 0, sizeof env->write_slots);
    slots_catch_up(&env->write_slots, env->slots, env->opened);
}

static status_t open_databases(env_t *env, bool tidy) {
    MDB_txn *txn;
    int code = mdb_txn_begin(env->env, NULL, 0, &txn);
    if (code != 0) {
        return env_translate(code);
    }
    for (int db = 0; code == 0 && db < DB_LEDGER; db++) {
        code = mdb_dbi_open(txn, db_names[db], MDB_CREATE, &env->dbs[db]);
    }
    code = code == 0 ? env_open_ledger(env, txn, 0) : code;
    if (code == 0) {
        code = open_message_dbs(env, txn, tidy);
    }
    if (code != 0) {
        mdb_txn_abort(txn);
        return env_translate(code);
    }
    code = mdb_txn_commit(txn);
    if (code == 0) {
        env->had_ledger = env->has_ledger;
        atomic_store_explicit(&env->published, env->opened, memory_order_release);
        slots_catch_up(&env->read_slots, env->slots, env->opened);
    }
    return env_commit_status(env, code);
}

/* LMDB does not say where its map is. But it hands out keys where they lie, and each page has its number. A store has
 * databases, so the main tree has an entry. */
static status_t watch_lmdb(env_t *env, int *code) {
    MDB_dbi names;
    MDB_cursor *cursor;
    MDB_val k;
    MDB_val v;
    *code = mdb_dbi_open(env->read, NULL, 0, &names);
    *code = *code == 0 ? mdb_cursor_open(env->read, names, &cursor) : *code;
    if (*code != 0) {
        return env_translate(*code);
    }
    *code = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
    if (*code == 0) {
        const uint8_t *key = k.mv_data;
        const uint8_t *page = key - ((uintptr_t)key & (env->page_size - 1u));
        size_t number = page_word(page);
        if (number <= env->reading.meta.last && page_kind(page) == PAGE_LEAF) {
            env->watch = unread_watch(page - number * env->page_size, env->map_size, env_file(env), env->memory);
        }
    }
    mdb_cursor_close(cursor);
    return env_translate(*code);
}

/* Before the first write, which is one of this open's own. */
static status_t open_judging(env_t *env) {
    MDB_stat stat;
    mdb_env_stat(env->env, &stat);
    env->page_size = stat.ms_psize;
    status_t status = trees_open(&env->judging.trees, env_file(env), env->map_size);
    env->judging.trees.meta.page_size = env->page_size;
    return status == STATUS_OK && !env->memory ? env_proof_begin(env) : status;
}

/* Opens what env->directory holds. *code: LMDB's, when it was LMDB that refused. */
static status_t attach(env_t *env, bool tidy, int *code) {
    *code = mdb_env_create(&env->env);
    if (*code == 0 && (*code = mdb_env_set_maxdbs(env->env, DBS_MAX + 1)) == 0) {
        *code = mdb_env_set_mapsize(env->env, (size_t)env->map_size);
    }
    if (*code == 0) {
        env->read_ahead.off = env->write_ahead.off = env->memory;
        unsigned int flags = MDB_NOTLS | (env->memory ? MDB_NOSYNC | MDB_NOMETASYNC : MDB_NORDAHEAD);
        *code = mdb_env_open(env->env, env->directory, flags, 0600);
    }
    status_t status = env_translate(*code);
    if (status == STATUS_OK) {
        status = open_judging(env);
    }
    if (status == STATUS_OK) {
        status = open_databases(env, tidy);
    }
    if (status == STATUS_NO_SPACE && tidy) { /* a full disk: what is there is opened as it is */
        env_forget_opened(env);
        status = open_databases(env, false);
    }
    if (status == STATUS_OK) {
        *code = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &env->read);
        status = env_translate(*code);
    }
    if (status == STATUS_OK) {
        status = trees_open(&env->reading, env_file(env), env->map_size);
    }
    if (status == STATUS_OK) {
        env->reading.meta.page_size = env->page_size;
        env->reading.epoch = 1;
        status = trees_renew(&env->reading, mdb_txn_id(env->read));
    }
    if (status == STATUS_OK) {
        status = watch_lmdb(env, code);
    }
    if (status == STATUS_OK) {
        env_judge_committed(env);
    }
    return status;
}

/* Nothing of LMDB's is left; what it knew of the databases is forgotten. */
static void detach(env_t *env) {
    env_views_end(env);
    if (env->read != NULL) {
        mdb_txn_abort(env->read);
    }
    env_write_abort(env);
    env_proof_end(env);
    trees_close(&env->reading);
    trees_close(&env->judging.trees);
    free(env->judging.kept);
    free(env->judging.lists.at);
    free(env->judging.lists.runs);
    unread_forget(env->watch);
    if (env->env != NULL) {
        mdb_env_close(env->env);
    }
    unsealed_forget(&env->read_values);
    unsealed_forget(&env->written_value);
    free(env->puts);
    free(env->twin);
    packer_free(env->packer);
    dictionaries_forget(&env->read_dictionaries);
    dictionaries_forget(&env->written_dictionaries);
    *env = (env_t){.directory = env->directory,
                   .map_size = env->map_size,
                   .memory = env->memory,
                   .sealer = env->sealer,
                   .packer_first = env->packer_first,
                   .renewals = env->renewals + 1,
                   .unread = env->unread,
                   .wrong = {.count = env->wrong.count}};
}

status_t env_open(const char *directory, uint64_t map_size, bool memory, env_t **out, char *reason,
                  size_t reason_size) {
    int code = 0;
    *out = NULL;
    env_t *env = calloc(1, sizeof *env);
    if (env != NULL) {
        *env = (env_t){.directory = strdup(directory), .map_size = map_size, .memory = memory, .renewals = 1};
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

void env_seal(env_t *env, const sealer_t *sealer) {
    env->sealer = sealer;
}

void env_pack_from(env_t *env, uint64_t first) {
    env->packer_first = first;
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

void env_usage(env_t *env, env_usage_t *usage) {
    MDB_envinfo info;
    if (env->env == NULL) {
        return;
    }
    mdb_env_info(env->env, &info);
    usage->map_bytes = info.me_mapsize;
    usage->used_bytes = ((uint64_t)info.me_last_pgno + 1) * env->page_size;
}

status_t env_usage_exact(env_t *env, env_usage_t *usage) {
    uint64_t pages = 0;
    env_usage(env, usage);
    status_t status = env->env != NULL ? env_free_pages(env, &pages) : STATUS_IO;
    if (status != STATUS_OK) {
        env_note_unread(env);
        return status;
    }
    usage->free_bytes = pages * env->page_size;
    return STATUS_OK;
}

int env_file(env_t *env) {
    int fd = -1;
    return env->env != NULL && mdb_env_get_fd(env->env, &fd) == 0 ? fd : -1;
}
