/* test_env_ends.c: the end of a stream's messages is judged once a write transaction, by the first put behind it. Pages
 * of the last commit are garbled before that and behind it: what LMDB is going to read stops the write, and what it has
 * in memory already is not asked for again.
 *
 * Not here: which damage a page shows (test_tree.c), and what the store makes of a refused write (test_store_pages.c).
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "disk/env.h"
#include "disk/page.h"
#include "disk/tree.h"
#include "test.h"

#define MAP (UINT64_C(64) << 20)
#define PAGE 4096u
#define SIZE 1500u /* two fill a page */
#define COUNT 500u /* they take three levels of pages */
#define BEHIND 20u /* messages that are put behind them */
#define PAGES_MAX 512u
#define LATER (10 * NS_PER_SECOND)

static char directory[] = "/tmp/leafd-test-ends-XXXXXX";
static env_t *env;

/* The stream's pages in the last commit, leaves from the first to the last. */
static struct {
    size_t leaves[PAGES_MAX];
    size_t branches[PAGES_MAX];
    uint32_t leaf_count;
    uint32_t branch_count;
} tree;
static uint8_t kept[PAGES_MAX][PAGE];

static status_t try_put(uint64_t seq) {
    static uint8_t value[SIZE];
    store_key_t key;
    key_message(&key, 1, seq);
    value[VALUE_CRC_SIZE] = 0; /* not to be packed */
    value[SIZE - 1] = (uint8_t)seq;
    return env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, SIZE));
}

static status_t try_remove(uint64_t seq) {
    store_key_t key;
    key_message(&key, 1, seq);
    return env_write_delete(env, DB_MESSAGES, key_bytes(&key));
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree */
static void pages_note(const trees_t *trees, size_t number, unsigned depth) {
    const uint8_t *page = trees->map + number * PAGE;
    CHECK(tree.leaf_count < PAGES_MAX && tree.branch_count < PAGES_MAX);
    if (depth == 1) {
        tree.leaves[tree.leaf_count++] = number;
        return;
    }
    tree.branches[tree.branch_count++] = number;
    for (uint32_t i = 0; i < page_nodes(page); i++) {
        pages_note(trees, page_node_child(page_node(page, PAGE, i, false)), depth - 1);
    }
}

static void tree_note(void) {
    page_meta_t metas[2];
    trees_t trees;
    page_db_t db;
    uint64_t large;
    uint8_t first[2 * PAGE];
    CHECK_EQ_I64(sizeof first, pread(env_file(env), first, sizeof first, 0));
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + PAGE, 1, &metas[1]));
    CHECK_EQ_I64(STATUS_OK, trees_open(&trees, env_file(env), MAP));
    uint64_t newest = metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
    CHECK_EQ_I64(STATUS_OK, trees_renew(&trees, newest));
    CHECK_EQ_I64(READ_FOUND, trees_find(&trees, "m00000001", &db, &large));
    tree.leaf_count = tree.branch_count = 0;
    CHECK_EQ_U64(3, db.depth);
    pages_note(&trees, db.root, db.depth);
    trees_close(&trees);
}

static void begin(void) {
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        CHECK_EQ_I64(STATUS_OK, try_put(seq));
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    tree_note();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
}

static void end(void) {
    env_write_abort(env);
    env_close(env);
    for (unsigned i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, i == 0 ? "data.mdb" : "lock.mdb");
        (void)unlink(path);
    }
}

/* The head stays: LMDB would go on with what it finds behind it. */
static void garble(size_t page) {
    uint8_t garbage[PAGE - PAGE_HEAD];
    memset(garbage, 0xa5, sizeof garbage);
    CHECK_EQ_I64(sizeof garbage, pwrite(env_file(env), garbage, sizeof garbage, (off_t)(page * PAGE + PAGE_HEAD)));
}

static void pages_garble(bool back) {
    for (uint32_t i = 0; i < tree.leaf_count + tree.branch_count; i++) {
        size_t page = i < tree.leaf_count ? tree.leaves[i] : tree.branches[i - tree.leaf_count];
        off_t at = (off_t)(page * PAGE);
        if (back) {
            CHECK_EQ_I64(PAGE, pwrite(env_file(env), kept[i], PAGE, at));
        } else {
            CHECK_EQ_I64(PAGE, pread(env_file(env), kept[i], PAGE, at));
            garble(page);
        }
    }
}

static void a_damaged_way_there_stops_the_put(void) {
    for (unsigned level = 0; level < 3; level++) {
        begin();
        garble(level == 0   ? tree.branches[0]
               : level == 1 ? tree.branches[tree.branch_count - 1]
                            : tree.leaves[tree.leaf_count - 1]);
        CHECK_EQ_I64(STATUS_CORRUPT, try_put(COUNT + 1));
        end();
    }
}

static void other_pages_do_not_matter_to_it(void) {
    begin();
    for (uint32_t i = 0; i + 1 < tree.leaf_count; i++) {
        garble(tree.leaves[i]);
    }
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    CHECK_EQ_I64(STATUS_CORRUPT, try_remove(COUNT)); /* it may join the last leaf with the one before it */
    end();
}

/* LMDB joins two branches when one of them is nearly empty, and takes a key from the first leaf of the second. */
static void the_first_leaf_of_the_next_branch_is_judged_for_a_removal(void) {
    uint8_t branch[PAGE];
    begin();
    CHECK_EQ_I64(PAGE, pread(env_file(env), branch, PAGE, (off_t)(tree.branches[1] * PAGE)));
    garble(tree.leaves[page_nodes(branch)]);
    CHECK_EQ_I64(STATUS_CORRUPT, try_remove(1));
    end();
}

static void what_is_not_behind_it_is_judged(void) {
    begin();
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 2));
    garble(tree.leaves[tree.leaf_count - 1]);
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 3));
    CHECK_EQ_I64(STATUS_CORRUPT, try_put(COUNT)); /* LMDB might read what a large value has on pages of its own */
    end();
    begin();
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    garble(tree.leaves[0]);
    CHECK_EQ_I64(STATUS_CORRUPT, try_put(1));
    end();
}

static void the_next_write_judges_it_again(void) {
    begin();
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    tree_note();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    garble(tree.leaves[tree.leaf_count - 1]);
    CHECK_EQ_I64(STATUS_CORRUPT, try_put(COUNT + 2));
    end();
}

/* Nothing that the last commit has of the stream can be read when the messages behind it are put. */
static void put_without_it(void) {
    int64_t now = 0;
    pages_garble(false);
    for (uint64_t seq = COUNT + 2; seq <= COUNT + BEHIND; seq++) {
        env_write_lasts(env, now += LATER);
        CHECK_EQ_I64(STATUS_OK, try_put(seq));
    }
    pages_garble(true);
    env_write_lasts(env, now + LATER);
    for (uint64_t seq = COUNT + 1; seq <= COUNT + BEHIND; seq++) {
        store_key_t key;
        bytes_t found = BYTES_NONE;
        key_message(&key, 1, seq);
        CHECK_EQ_I64(READ_FOUND, env_write_get(env, DB_MESSAGES, key_bytes(&key), &found));
        CHECK(found.size == SIZE && found.at[SIZE - 1] == (uint8_t)seq);
    }
}

static void puts_behind_a_put_read_nothing_of_it(void) {
    begin();
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    put_without_it();
    end();
}

static void nor_do_puts_behind_removals(void) {
    for (uint64_t removed = 1; removed < COUNT; removed += removed < 20 ? 1 : 37) {
        for (unsigned front = 0; front < 2; front++) {
            begin();
            CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
            for (uint64_t i = 0; i < removed; i++) {
                CHECK_EQ_I64(STATUS_OK, try_remove(front != 0 ? i + 1 : COUNT - i));
            }
            put_without_it();
            end();
        }
    }
}

static void nor_do_puts_behind_the_removal_of_all(void) {
    store_key_t from;
    store_key_t to;
    uint64_t done;
    begin();
    CHECK_EQ_I64(STATUS_OK, try_put(COUNT + 1));
    key_message(&from, 1, 0);
    key_message(&to, 1, COUNT + 1);
    CHECK_EQ_I64(STATUS_OK,
                 env_write_delete_range(env, DB_MESSAGES, key_bytes(&from), key_bytes(&to), UINT64_MAX, &done));
    put_without_it();
    end();
}

int main(void) {
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    RUN("a damaged page on the way to a stream's last message stops the put behind it",
        a_damaged_way_there_stops_the_put);
    RUN("pages beside that way stop no put, but a removal that may join them", other_pages_do_not_matter_to_it);
    RUN("a damaged first leaf of the next branch stops a removal, since branches may be joined",
        the_first_leaf_of_the_next_branch_is_judged_for_a_removal);
    RUN("a message that is not put behind all others is judged as ever, also when the end was judged",
        what_is_not_behind_it_is_judged);
    RUN("the next write judges the end again", the_next_write_judges_it_again);
    RUN("behind a first put, more of them read nothing that the commit has of the stream, however long the write lasts",
        puts_behind_a_put_read_nothing_of_it);
    RUN("neither do they when messages were removed from either end, however many", nor_do_puts_behind_removals);
    RUN("neither do they when all others were removed in one range", nor_do_puts_behind_the_removal_of_all);
    (void)rmdir(directory);
    return TEST_RESULT();
}
