/* env_free.c: LMDB's free pages, for the code that gives their blocks back to the file system (holes.h). See
 * env_lmdb.h.
 *
 *     database 0 of LMDB    key: the transaction that freed them     value: how many, then their numbers, descending
 *
 * A page that transaction T freed was in use in the commit before T. It is free for good when no reader is there that
 * began before T, and when the commit before the last, to which LMDB falls back after a crash, is T or later. That is
 * LMDB's own rule for using it again. LMDB takes the entries in their order, and of each the lowest number first.
 */
#include <stdlib.h>

#include "disk/env_lmdb.h"

#define READERS_UNKNOWN 0

/* A line of LMDB's list of readers: process, thread in hex, transaction or "-"; above them names of columns. What is
 * not understood leaves nothing free. */
static int reader_line(const char *line, void *context) {
    size_t *oldest = context;
    char *thread;
    char *commit;
    char *end;
    (void)strtoull(line, &thread, 10);
    if (thread == line) {
        return 0;
    }
    (void)strtoull(thread, &commit, 16);
    while (*commit == ' ') {
        commit++;
    }
    if (*commit != '-') {
        size_t number = strtoull(commit, &end, 10);
        number = end != commit ? number : READERS_UNKNOWN;
        *oldest = number < *oldest ? number : *oldest;
    }
    return 0;
}

size_t env_oldest_reader(const env_t *env, size_t oldest) {
    return mdb_reader_list(env->env, reader_line, &oldest) >= 0 ? oldest : READERS_UNKNOWN;
}

/* Runs of one entry, which was judged: from the index-th lowest number on. */
static uint32_t runs_of(const env_t *env, MDB_val list, uint64_t *index, env_run_t *runs, uint32_t max) {
    const uint8_t *at = list.mv_data;
    uint32_t found = 0;
    size_t count;
    memcpy(&count, at, sizeof count);
    while (*index < count && found < max) {
        size_t first;
        size_t next;
        uint64_t pages = 0;
        memcpy(&first, at + (count - *index) * sizeof first, sizeof first);
        do {
            pages++;
            ++*index;
            if (*index < count) {
                memcpy(&next, at + (count - *index) * sizeof next, sizeof next);
            }
        } while (*index < count && next == first + pages);
        runs[found++] = (env_run_t){.offset = (uint64_t)first * env->page_size, .size = pages * env->page_size};
    }
    return found;
}

static int collect(env_t *env, MDB_txn *txn, env_free_place_t *place, env_run_t *runs, uint32_t max, uint32_t *count) {
    MDB_cursor *cursor;
    size_t from = (size_t)place->commit;
    size_t last = env->judging.trees.meta.last;
    MDB_val k = {.mv_size = sizeof from, .mv_data = &from};
    MDB_val v;
    size_t oldest = env_oldest_reader(env, mdb_txn_id(txn));
    int code = mdb_cursor_open(txn, 0, &cursor);
    if (code != 0) {
        return code;
    }
    for (code = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE); code == 0 && *count < max;
         code = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        size_t commit;
        memcpy(&commit, k.mv_data, sizeof commit);
        if (commit >= oldest || page_list_judge(env_bytes(v), last) != NULL) {
            break;
        }
        place->index = commit == place->commit ? place->index : 0;
        place->commit = commit;
        *count += runs_of(env, v, &place->index, runs + *count, max - *count);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

status_t env_free_runs(env_t *env, env_free_place_t *place, env_run_t *runs, uint32_t max, uint32_t *count) {
    MDB_txn *txn;
    *count = 0;
    check(env->write == NULL);
    status_t status = env_broken(env) || env->judging.trees.map == NULL ? STATUS_IO : env_judge_begin(env, false);
    if (status != STATUS_OK) {
        return status;
    }
    int code = mdb_txn_begin(env->env, NULL, MDB_RDONLY, &txn);
    if (code == 0) {
        code = collect(env, txn, place, runs, max, count);
        mdb_txn_abort(txn);
    }
    env_judge_end(env);
    if (code != 0) {
        env_note_unread(env);
    }
    return env_read_code(code);
}
