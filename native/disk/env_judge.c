/* env_judge.c: before LMDB is let loose on the file to write, the pages that it is going to read are judged (tree.h),
 * and a damaged one stops that write with STATUS_CORRUPT: LMDB would end the process, or write over what is sound. See
 * env_lmdb.h.
 *
 *     the first two pages       are kept in memory as each commit leaves them, and put back when they differ
 *     list of free pages, main  whole, when a write transaction begins: they are as the commit before it has left them;
 *                               LMDB reads them whenever it wants a page, and at the commit, so until then it is given
 *                               a copy (unread_freeze)
 *     a database                the way to the key, and what a removal there may join it with; once for a page and
 *                               AGAIN_NS, so a row of puts asks once a leaf
 *
 * They are judged in the last commit. What the transaction has changed since lies in memory, and pages that it has not
 * changed are where they were, or beside them.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "disk/env_lmdb.h"

#define AGAIN_NS (50 * NS_PER_MS)

void env_tell_wrong(env_t *env, trees_t *trees) {
    if (trees->wrong != NULL) {
        atomic_store(&env->wrong.page, trees->where);
        atomic_store(&env->wrong.what, trees->wrong);
        atomic_fetch_add(&env->wrong.count, 1);
        trees->wrong = NULL;
    }
}

bool env_wrong(env_t *env, uint64_t *seen, uint64_t *page, const char **what) {
    uint64_t count = atomic_load(&env->wrong.count);
    bool news = count != *seen;
    *seen = count;
    *page = atomic_load(&env->wrong.page);
    *what = atomic_load(&env->wrong.what);
    return news && *what != NULL;
}

bool env_blocked(const env_t *env) {
    return atomic_load_explicit(&env->blocked, memory_order_acquire);
}

/* A failed judgement of the keeper's. */
static status_t judged(env_t *env, status_t status) {
    if (LEAF_LIKELY(status == STATUS_OK || status == STATUS_NOT_FOUND)) {
        return STATUS_OK;
    }
    env_tell_wrong(env, &env->judging.trees);
    atomic_store_explicit(&env->blocked, true, memory_order_release);
    return STATUS_CORRUPT;
}

/* ---- the first two pages ----------------------------------------------------------------------------------------- */

static bool metas_copy(const env_t *env, uint8_t *to) {
    size_t size = (size_t)2 * env->page_size;
    return pread(env->judging.trees.fd, to, size, 0) == (ssize_t)size;
}

static status_t metas_judge(env_t *env) {
    judging_t *judging = &env->judging;
    const uint8_t *map = judging->trees.map;
    size_t size = (size_t)2 * env->page_size;
    if (!judging->kept_any || memcmp(map, judging->kept, size) == 0) {
        return STATUS_OK;
    }
    judging->trees.where = memcmp(map, judging->kept, size / 2) != 0 ? 0 : 1;
    judging->trees.wrong = "it changed by itself, and was put right";
    env_tell_wrong(env, &judging->trees);
    return pwrite(judging->trees.fd, judging->kept, size, 0) == (ssize_t)size ? STATUS_OK : STATUS_IO;
}

static uint64_t newest_commit(const env_t *env) {
    MDB_envinfo info;
    mdb_env_info(env->env, &info);
    return info.me_last_txnid;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

static void spans_forget(judging_t *judging) {
    judging->spans[0].any = judging->spans[1].any = false;
    judging->trees.epoch++;
}

void env_write_lasts(env_t *env, int64_t now_ns) {
    judging_t *judging = &env->judging;
    if (now_ns - judging->at_ns >= AGAIN_NS) {
        judging->at_ns = now_ns;
        spans_forget(judging);
    }
}

void env_judge_end(env_t *env) {
    judging_t *judging = &env->judging;
    uint64_t size = env->page_size;
    for (; judging->frozen > 0; judging->frozen--) {
        page_run_t run = judging->trees.noted[judging->frozen - 1];
        if (!unread_thaw(env->watch, run.first * size, run.count * size)) {
            env->broken = true; /* what lies there grows old: LMDB is opened again */
        }
    }
}

/* Some may not freeze, for lack of memory: LMDB reads those where they are. */
static void freeze_noted(env_t *env) {
    judging_t *judging = &env->judging;
    page_run_t *noted = judging->trees.noted;
    uint64_t size = env->page_size;
    for (uint64_t i = 0; i < judging->trees.noted_count; i++) {
        if (unread_freeze(env->watch, noted[i].first * size, noted[i].count * size)) {
            noted[judging->frozen++] = noted[i];
        }
    }
}

static status_t judge_lists(env_t *env, bool looks) {
    judging_t *judging = &env->judging;
    uint64_t pages;
    status_t status = looks ? STATUS_OK : trees_judge_free(&judging->trees, &pages);
    return status == STATUS_OK ? tree_judge_all(&judging->trees, judging->trees.meta.main, true) : status;
}

/* What LMDB's lists are right behind their commit: a number on the list of free pages that changes later may be that of
 * a page in use, and LMDB would write over it. */
static void lists_keep(env_t *env) {
    trees_t *trees = &env->judging.trees;
    trees->epoch++;
    if (trees_renew(trees, newest_commit(env)) != STATUS_OK || judge_lists(env, false) != STATUS_OK) {
        env_note_unread(env);
        trees->wrong = NULL; /* the next write meets it, too */
    }
}

void env_judge_committed(env_t *env) {
    judging_t *judging = &env->judging;
    if (judging->kept == NULL && env->page_size != 0) {
        judging->kept = malloc((size_t)2 * env->page_size);
    }
    judging->kept_any = judging->kept != NULL && metas_copy(env, judging->kept);
    if (judging->trees.map != NULL && !env->memory) {
        lists_keep(env);
    }
}

/* The copies were made between two judgements, so what is in them is sound. */
static status_t judge_and_freeze(env_t *env) {
    judging_t *judging = &env->judging;
    trees_note(&judging->trees);
    judging->trees.firm = true; /* lists_keep */
    status_t status = judge_lists(env, false);
    trees_noted(&judging->trees);
    if (status == STATUS_OK) {
        freeze_noted(env);
        judging->trees.epoch++;
        status = judge_lists(env, false);
    }
    judging->trees.firm = false;
    if (status != STATUS_OK) {
        env_judge_end(env);
    }
    return status;
}

status_t env_judge_begin(env_t *env, bool looks) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL) { /* while it is being opened */
        return STATUS_OK;
    }
    env_judge_end(env);
    spans_forget(judging);
    trees_ask_again(&judging->trees);
    status_t status = metas_judge(env);
    status = status == STATUS_OK ? trees_renew(&judging->trees, newest_commit(env)) : status;
    if (status == STATUS_OK) {
        status = looks || env->memory ? judge_lists(env, looks) : judge_and_freeze(env);
    }
    return judged(env, status);
}

static status_t root_before(env_t *env, uint32_t index, page_db_t *db) {
    judging_t *judging = &env->judging;
    status_t status = STATUS_OK;
    if (judging->epochs[index] != judging->trees.epoch) {
        status = env_find_root(env, &judging->trees, index, &judging->roots[index], &judging->large[index]);
        judging->epochs[index] = status == STATUS_OK ? judging->trees.epoch : 0;
    }
    *db = judging->roots[index];
    return status;
}

static span_t *span_of(judging_t *judging, uint32_t index) {
    return &judging->spans[index == DB_RECORD_COPIES || index == DB_META_COPIES];
}

static void span_keep(span_t *span, uint32_t index, page_bounds_t bounds) {
    span->any = bounds.low.size <= KEY_MAX && bounds.high.size <= KEY_MAX;
    span->of = index;
    span->low.size = span->any ? bounds.low.size : 0;
    span->high.size = span->any ? bounds.high.size : 0;
    memcpy(span->low.at, bounds.low.at != NULL ? bounds.low.at : span->low.at, span->low.size);
    memcpy(span->high.at, bounds.high.at != NULL ? bounds.high.at : span->high.at, span->high.size);
}

static inline bool in_span(const span_t *span, uint32_t index, bytes_t key) {
    return span->any && span->of == index && bytes_compare(key_bytes(&span->low), key) <= 0
           && (span->high.size == 0 || bytes_compare(key, key_bytes(&span->high)) < 0);
}

static inline bool in_tail(const judging_t *judging, uint32_t index, bytes_t key) {
    if (index < DB_COUNT || key.size != MESSAGE_KEY_SIZE) {
        return false;
    }
    const tail_t *tail = &judging->tails[index - DB_COUNT];
    return tail->epoch == judging->trees.epoch && load_be64(key.at + 4) >= tail->from;
}

static void tail_keep(judging_t *judging, uint32_t index, page_bounds_t bounds) {
    bool first = bounds.low.size == 0; /* the last leaf is the first one, too */
    if (index >= DB_COUNT && bounds.high.size == 0 && (first || bounds.low.size == MESSAGE_KEY_SIZE)) {
        judging->tails[index - DB_COUNT] =
            (tail_t){.epoch = judging->trees.epoch, .from = first ? 0 : load_be64(bounds.low.at + 4)};
    }
}

status_t env_judge(env_t *env, uint32_t index, bytes_t lmdb) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL || LEAF_LIKELY(in_span(span_of(judging, index), index, lmdb))
        || in_tail(judging, index, lmdb)) {
        return STATUS_OK;
    }
    page_db_t db;
    page_bounds_t bounds = {0};
    status_t status = root_before(env, index, &db);
    status = status == STATUS_OK ? tree_judge(&judging->trees, db, lmdb, &bounds) : status;
    if (status == STATUS_OK) {
        span_keep(span_of(judging, index), index, bounds);
        tail_keep(judging, index, bounds);
    }
    return judged(env, status);
}

static status_t judge_tree(env_t *env, uint32_t index, bool leaves) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL) {
        return STATUS_OK;
    }
    page_db_t db;
    status_t status = root_before(env, index, &db);
    leaves = leaves || judging->large[index];
    return judged(env, status == STATUS_OK ? tree_judge_all(&judging->trees, db, leaves) : status);
}

/* LMDB looks at the leaves of those only that have large values. */
status_t env_judge_whole(env_t *env, uint32_t index) {
    return judge_tree(env, index, false);
}

status_t env_judge_leaves(env_t *env, uint32_t index) {
    return judge_tree(env, index, true);
}

/* Without a write transaction nobody changes what the newest commit has. */
status_t env_free_pages(env_t *env, uint64_t *pages) {
    trees_t *trees = &env->judging.trees;
    status_t status = trees->map != NULL ? trees_renew(trees, newest_commit(env)) : STATUS_IO;
    trees->epoch++;
    status = status == STATUS_OK ? trees_judge_free(trees, pages) : status;
    if (status != STATUS_OK) {
        env_tell_wrong(env, trees);
    }
    return status;
}
