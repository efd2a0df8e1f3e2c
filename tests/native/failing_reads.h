/* failing_reads.h: reads of LMDB, and of its file without it (disk/tree.h), of which a test makes one or some fail.
 * Stands between the program and both (tests/native/meson.build has the list of tests), and counts either the calls of
 * the thread that asks for it alone, so that the n-th call is the same one in each run with the store's own threads at
 * work beside it, or those of all other threads.
 *
 *     failing_reads((failing_reads_t){.from = 3, .times = 1, .error = EIO})    the third read from now on fails
 *     failing_reads((failing_reads_t){0})                                      they work again
 *
 * failing_reads_count() says how many there were since: a test goes on until its n-th was not reached.
 */
#ifndef LEAFD_TESTS_FAILING_READS_H
#define LEAFD_TESTS_FAILING_READS_H

#include <dlfcn.h>
#include <errno.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "disk/tree.h"

typedef struct failing_reads {
    unsigned from; /* 0: none fails */
    unsigned times;
    int error;
    bool others; /* of all threads but the test's */
} failing_reads_t;

static _Thread_local bool failing_reads_mine;
static atomic_uint failing_reads_from, failing_reads_times, failing_reads_counted;
static atomic_int failing_reads_error;
static atomic_bool failing_reads_others;

static inline void failing_reads(failing_reads_t now) {
    failing_reads_mine = true;
    atomic_store(&failing_reads_from, 0); /* none fails between the next lines */
    atomic_store(&failing_reads_others, now.others);
    atomic_store(&failing_reads_times, now.times);
    atomic_store(&failing_reads_error, now.error);
    atomic_store(&failing_reads_counted, 0);
    atomic_store(&failing_reads_from, now.from);
}

static inline unsigned failing_reads_count(void) {
    return atomic_load(&failing_reads_counted);
}

static inline bool failing_read(void) {
    if (failing_reads_mine == atomic_load(&failing_reads_others)) {
        return false;
    }
    unsigned number = atomic_fetch_add(&failing_reads_counted, 1) + 1, from = atomic_load(&failing_reads_from);
    return from != 0 && number >= from && number - from < atomic_load(&failing_reads_times);
}

#define FAILING_LMDB(name, parameters, ...)                                                                            \
    int name parameters {                                                                                              \
        if (failing_read()) {                                                                                          \
            return atomic_load(&failing_reads_error);                                                                  \
        }                                                                                                              \
        return ((int(*) parameters)(uintptr_t)dlsym(RTLD_NEXT, #name))(__VA_ARGS__);                                   \
    }

FAILING_LMDB(mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *value), txn, dbi, key, value)
FAILING_LMDB(mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor), txn, dbi, cursor)
FAILING_LMDB(mdb_cursor_renew, (MDB_txn * txn, MDB_cursor *cursor), txn, cursor)
FAILING_LMDB(mdb_cursor_get, (MDB_cursor * cursor, MDB_val *key, MDB_val *value, MDB_cursor_op op), cursor, key, value,
             op)
FAILING_LMDB(mdb_txn_begin, (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn), env, parent, flags, txn)

/* The linker brings the calls of trees here. */
#define FAILING_TREE(type, unknown, name, failed, parameters, ...)                                                     \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        if (failing_read()) {                                                                                          \
            failed;                                                                                                    \
            return unknown;                                                                                            \
        }                                                                                                              \
        return __real_##name(__VA_ARGS__);                                                                             \
    }
#define FAILING_LOOK(name, failed, parameters, ...)                                                                    \
    FAILING_TREE(read_outcome_t, READ_UNKNOWN, name, failed, parameters, __VA_ARGS__)

FAILING_TREE(status_t, atomic_load(&failing_reads_error) == ENOMEM ? STATUS_NO_MEMORY : STATUS_IO, trees_renew, ,
             (trees_t * trees, uint64_t commit), trees, commit)
FAILING_LOOK(tree_get, , (trees_t * trees, page_db_t db, bytes_t key, bytes_t *value), trees, db, key, value)
FAILING_LOOK(tree_seek, cursor->depth = 0,
             (trees_t * trees, page_db_t db, bytes_t key, tree_cursor_t *cursor, tree_entry_t *found), trees, db, key,
             cursor, found)
FAILING_LOOK(tree_last, cursor->depth = 0, (trees_t * trees, page_db_t db, tree_cursor_t *cursor, tree_entry_t *found),
             trees, db, cursor, found)
FAILING_LOOK(tree_step, cursor->depth = 0, (trees_t * trees, tree_cursor_t *cursor, bool back, tree_entry_t *found),
             trees, cursor, back, found)

#endif
