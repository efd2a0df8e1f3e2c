/* env_judge.c: before LMDB is let loose on the file to write, the pages that it is going to read are judged (tree.h),
 * and a damaged one stops that write with STATUS_CORRUPT: LMDB would end the process, or write over what is sound. See
 * env_lmdb.h.
 *
 *     the first two pages       are kept in memory as each commit leaves them, and put back when they differ
 *     list of free pages, main  whole, once, right behind the commit that leaves them. When the next write transaction
 *                               begins they are still the same by their checksums, or are put right likewise, while
 *                               they are few; LMDB reads them whenever it wants a page, and at the commit, so until
 *                               then it is given a copy (unread_freeze)
 *     a database                the way to the key, and what a removal there may join it with; once for a page and
 *                               AGAIN_NS, so a row of puts asks once a leaf
 *     the end of a stream       the way to its last message, for a put behind it; once a write transaction
 *
 * They are judged in the last commit. What the transaction has changed since lies in memory, and pages that it has not
 * changed are where they were, or beside them.
 *
 * A put behind the last message has LMDB copy all pages of that way to memory, and nothing else is read for the puts
 * behind it. A removal may have another page become the last one. That page is judged for the removal, and LMDB copies
 * it (mdb_node_move, mdb_page_merge). So a thousand streams that take turns are judged a thousand times, however long
 * the transaction is.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "disk/env_lmdb.h"

#define AGAIN_NS (50 * NS_PER_MS)
#define LISTS_KEPT (512u << 10) /* bytes of both lists; a list of 50,000 free pages has as many */
#define RUNS_MIN 16

static void tell_page(env_t *env, size_t page, const char *what, uint32_t stream, uint64_t seq, bool right) {
    atomic_store(&env->wrong.right, right);
    atomic_store(&env->wrong.stream, stream);
    atomic_store(&env->wrong.seq, seq);
    atomic_store(&env->wrong.page, page);
    atomic_store(&env->wrong.what, what);
    atomic_fetch_add(&env->wrong.count, 1);
}

void env_tell_page(env_t *env, size_t page, const char *what) {
    tell_page(env, page, what, 0, 0, false);
}

/* A sequence whose place is on that leaf: any, where there is no page above. */
static uint64_t seq_on(const tree_lost_t *lost) {
    return lost->low.size == MESSAGE_KEY_SIZE    ? load_be64(lost->low.at + 4)
           : lost->high.size == MESSAGE_KEY_SIZE ? load_be64(lost->high.at + 4) - 1
                                                 : 1;
}

void env_tell_wrong(env_t *env, trees_t *trees, uint32_t index) {
    if (trees->wrong != NULL) {
        bool leaf = index >= DB_COUNT && index < DBS_MAX && trees->lost.page != 0 && trees->lost.page == trees->where;
        uint64_t seq = leaf ? seq_on(&trees->lost) : 0;
        tell_page(env, trees->where, trees->wrong, seq != 0 ? env->slots[index - DB_COUNT] : 0, seq, false);
        trees->wrong = NULL;
    }
}

bool env_wrong(env_t *env, uint64_t *seen, env_wrong_t *wrong) {
    uint64_t count = atomic_load(&env->wrong.count);
    bool news = count != *seen;
    *seen = count;
    wrong->page = atomic_load(&env->wrong.page);
    wrong->what = atomic_load(&env->wrong.what);
    wrong->stream = atomic_load(&env->wrong.stream);
    wrong->seq = atomic_load(&env->wrong.seq);
    wrong->right = atomic_load(&env->wrong.right);
    return news && wrong->what != NULL;
}

bool env_blocked(const env_t *env) {
    return atomic_load_explicit(&env->blocked, memory_order_acquire);
}

/* A failed judgement of the keeper's. */
static status_t judged_in(env_t *env, uint32_t index, status_t status) {
    if (LEAF_LIKELY(status == STATUS_OK)) {
        return STATUS_OK;
    }
    atomic_store(&env->blocked_by, env->judging.trees.where);
    atomic_store_explicit(&env->blocked, true, memory_order_release);
    env_tell_wrong(env, &env->judging.trees, index);
    return STATUS_CORRUPT;
}

static status_t judged(env_t *env, status_t status) {
    return judged_in(env, DBS_MAX, status);
}

static const char changed_by_itself[] = "it changed by itself";

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
    size_t where = memcmp(map, judging->kept, size / 2) != 0 ? 0 : 1;
    bool done = pwrite(judging->trees.fd, judging->kept, size, 0) == (ssize_t)size;
    tell_page(env, where, changed_by_itself, 0, 0, done);
    return done ? STATUS_OK : STATUS_IO;
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

static status_t judge_names(trees_t *trees) {
    return tree_judge_all(trees, trees->meta.main, true);
}

/* Judges both lists of the commit, and keeps the checksums of their pages: nobody changes them before the next one. */
static status_t lists_note(env_t *env) {
    judging_t *judging = &env->judging;
    trees_t *trees = &judging->trees;
    judging->lists_of = 0;
    trees_note(trees);
    status_t status = trees_judge_free(trees, &judging->free_pages);
    status = status == STATUS_OK ? judge_names(trees) : status;
    trees_noted(trees);
    judging->lists_of = status == STATUS_OK && trees->noted_all ? trees->meta.commit : 0;
    return status;
}

static uint64_t noted_pages(const trees_t *trees) {
    uint64_t pages = 0;
    for (uint64_t i = 0; i < trees->noted_count; i++) {
        pages += trees->noted[i].count;
    }
    return pages;
}

/* Keeps their bytes, as far as they are few and there is memory: a page that changes is put right then. */
static void lists_copy(env_t *env) {
    judging_t *judging = &env->judging;
    trees_t *trees = &judging->trees;
    uint64_t size = env->page_size, pages = noted_pages(trees);
    uint8_t *to;
    judging->lists.count = 0;
    if (pages > LISTS_KEPT / size
        || array_reserve(&judging->lists.at, &judging->lists.room, pages * size, size, 1) != STATUS_OK
        || array_reserve(&judging->lists.runs, &judging->lists.runs_room, trees->noted_count, RUNS_MIN,
                         sizeof(page_run_t))
               != STATUS_OK) {
        return;
    }
    to = judging->lists.at;
    for (uint64_t i = 0; i < trees->noted_count; i++) {
        page_run_t run = trees->noted[i];
        memcpy(to, trees->map + run.first * size, run.count * size);
        if (trees_compare(trees, run, to) != STATUS_OK) {
            trees->wrong = NULL; /* the next write meets it */
            return;
        }
        judging->lists.runs[i] = run;
        to += run.count * size;
    }
    judging->lists.count = trees->noted_count;
}

static status_t run_put_right(env_t *env, page_run_t run, const uint8_t *kept) {
    trees_t *trees = &env->judging.trees;
    uint64_t size = env->page_size;
    for (size_t i = 0; i < run.count; i++, kept += size) {
        size_t page = run.first + i;
        if (memcmp(trees->map + page * size, kept, size) == 0) {
            continue;
        }
        env_patch_keep(env, page, trees->map + page * size);
        if (pwrite(trees->fd, kept, size, (off_t)(page * size)) != (ssize_t)size) {
            return STATUS_IO;
        }
        tell_page(env, page, changed_by_itself, 0, 0, true);
    }
    return STATUS_OK;
}

static status_t lists_put_right(env_t *env) {
    const judging_t *judging = &env->judging;
    const uint8_t *kept = judging->lists.at;
    status_t status = judging->lists.count > 0 ? STATUS_OK : STATUS_CORRUPT;
    for (uint64_t i = 0; status == STATUS_OK && i < judging->lists.count; i++) {
        status = run_put_right(env, judging->lists.runs[i], kept);
        kept += judging->lists.runs[i].count * env->page_size;
    }
    return status;
}

/* What LMDB's lists are right behind their commit: a number on the list of free pages that changes later may be that of
 * a page in use, and LMDB would write over it. */
static void lists_keep(env_t *env) {
    trees_t *trees = &env->judging.trees;
    trees->epoch++;
    if (trees_renew(trees, newest_commit(env)) == STATUS_OK && lists_note(env) == STATUS_OK) {
        lists_copy(env);
    } else {
        env_note_unread(env);
        trees->wrong = NULL; /* the next write meets it, too */
        env->judging.lists.count = 0;
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

/* LMDB reads them where they are for want of memory, and else a copy of them: either way what it reads is compared. */
static status_t lists_freeze(env_t *env) {
    judging_t *judging = &env->judging;
    trees_t *trees = &judging->trees;
    uint64_t size = env->page_size;
    status_t status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < trees->noted_count; i++) {
        page_run_t run = trees->noted[i];
        bool frozen = unread_freeze(env->watch, run.first * size, run.count * size);
        const uint8_t *at = frozen ? unread_at(env->watch, run.first * size) : trees->map + run.first * size;
        status = trees_compare(trees, run, at);
        if (frozen) {
            trees->noted[i] = trees->noted[judging->frozen];
            trees->noted[judging->frozen++] = run;
        }
    }
    if (status != STATUS_OK) {
        env_judge_end(env);
    }
    return status;
}

static status_t lists_judge(env_t *env) {
    judging_t *judging = &env->judging;
    bool known = judging->lists_of == judging->trees.meta.commit;
    status_t status = known ? STATUS_OK : lists_note(env);
    status = status == STATUS_OK ? lists_freeze(env) : status;
    if (LEAF_UNLIKELY(status != STATUS_OK && known && lists_put_right(env) == STATUS_OK)) {
        judging->trees.wrong = NULL;
        status = lists_freeze(env);
    }
    return status;
}

static status_t lists_judge_here(env_t *env, bool looks) {
    trees_t *trees = &env->judging.trees;
    uint64_t pages;
    status_t status = looks ? STATUS_OK : trees_judge_free(trees, &pages);
    return status == STATUS_OK ? judge_names(trees) : status;
}

status_t env_judge_begin(env_t *env, bool looks) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL) { /* while it is being opened */
        return STATUS_OK;
    }
    env_judge_end(env);
    spans_forget(judging);
    judging->begun++;
    trees_ask_again(&judging->trees);
    status_t status = metas_judge(env);
    status = status == STATUS_OK ? trees_renew(&judging->trees, newest_commit(env)) : status;
    if (status == STATUS_OK) {
        status = looks || env->memory ? lists_judge_here(env, looks) : lists_judge(env);
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

status_t env_judge(env_t *env, uint32_t index, bytes_t lmdb) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL || LEAF_LIKELY(in_span(span_of(judging, index), index, lmdb))) {
        return STATUS_OK;
    }
    page_db_t db;
    page_bounds_t bounds = {0};
    status_t status = root_before(env, index, &db);
    status = status == STATUS_OK ? tree_judge(&judging->trees, db, lmdb, &bounds) : status;
    if (status == STATUS_OK) {
        span_keep(span_of(judging, index), index, bounds);
    }
    return judged_in(env, index, status);
}

/* The sequence of a stream's own message; 0: the record is of another kind. */
static inline uint64_t own_seq(uint32_t index, bytes_t key) {
    return index >= DB_COUNT && key.size == MESSAGE_KEY_SIZE ? load_be64(key.at + 4) : 0;
}

/* The whole way to it where the message does not come behind all others. */
static status_t judge_tail(env_t *env, uint32_t index, bytes_t lmdb) {
    judging_t *judging = &env->judging;
    tail_t *tail = &judging->tails[index - DB_COUNT];
    page_db_t db;
    bytes_t last = BYTES_NONE;
    status_t status = root_before(env, index, &db);
    status = status == STATUS_OK ? tree_judge_end(&judging->trees, db, &last) : status;
    if (status != STATUS_OK) {
        return judged_in(env, index, status);
    }
    if (last.size != 0 && bytes_compare(last, lmdb) >= 0) {
        return env_judge(env, index, lmdb);
    }
    *tail = (tail_t){.begun = judging->begun, .last = last.size != 0 ? own_seq(index, last) : 0, .put = tail->put};
    return STATUS_OK;
}

status_t env_judge_put(env_t *env, uint32_t index, bytes_t lmdb) {
    judging_t *judging = &env->judging;
    uint64_t seq = own_seq(index, lmdb);
    if (seq == 0 || LEAF_UNLIKELY(judging->trees.map == NULL)) {
        return env_judge(env, index, lmdb);
    }
    const tail_t *tail = &judging->tails[index - DB_COUNT];
    if (LEAF_LIKELY(tail->begun == judging->begun)) {
        return LEAF_LIKELY(seq > tail->last) ? STATUS_OK : env_judge(env, index, lmdb);
    }
    return judge_tail(env, index, lmdb);
}

static status_t judge_tree(env_t *env, uint32_t index, bool leaves) {
    judging_t *judging = &env->judging;
    if (judging->trees.map == NULL) {
        return STATUS_OK;
    }
    page_db_t db;
    status_t status = root_before(env, index, &db);
    leaves = leaves || judging->large[index];
    return judged_in(env, index, status == STATUS_OK ? tree_judge_all(&judging->trees, db, leaves) : status);
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
    if (status == STATUS_OK && env->judging.lists_of == trees->meta.commit) {
        *pages = env->judging.free_pages;
        return STATUS_OK;
    }
    trees->epoch++;
    status = status == STATUS_OK ? trees_judge_free(trees, pages) : status;
    if (status != STATUS_OK) {
        env_tell_wrong(env, trees, DBS_MAX);
    }
    return status;
}
