/* test_tree.c: a leaf whose last key lies behind what the pages above it allow. Its own keys are in order, so only they
 * tell. It may not be believed, whoever comes to it, and by which way. Any damage: tests/fuzz/fuzz_store_pages.c.
 */
#include "disk/env.h"
#include "disk/tree.h"
#include "store_rig.h"

#define MAP (UINT64_C(64) << 20)
#define ENTRIES 40000u /* three levels */

static char directory[] = "/tmp/leafd-tree-XXXXXX";
static char path[sizeof directory + 16];

static store_key_t numbered(uint32_t number) {
    char name[24];
    store_key_t key;
    int size = snprintf(name, sizeof name, "number %08u", number);
    key_text(&key, 1, bytes_of((const uint8_t *)name, (uint32_t)size));
    return key;
}

static void fill(void) {
    char reason[256];
    env_t *env;
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/data.mdb", directory);
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        store_key_t key = numbered(i);
        CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_IDS, key_bytes(&key), BYTES_LITERAL("a value of an id")));
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static page_db_t begin(trees_t *trees, int fd) {
    page_db_t db = {0};
    uint64_t large;
    uint8_t first[2 * 4096];
    page_meta_t metas[2];
    *trees = (trees_t){0};
    CHECK_EQ_I64(sizeof first, pread(fd, first, sizeof first, 0));
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + 4096, 1, &metas[1]));
    CHECK_EQ_I64(STATUS_OK, trees_open(trees, fd, MAP));
    trees->epoch = 1;
    uint64_t newest = metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
    CHECK_EQ_I64(STATUS_OK, trees_renew(trees, newest));
    CHECK_EQ_I64(READ_FOUND, trees_find(trees, "ids", &db, &large));
    CHECK_EQ_U64(3, db.depth);
    return db;
}

/* Where the file has the last key of a leaf; returns the key behind it. level: the leaf is the last below
 * a page of this one, 1, or of the next, 0. */
static store_key_t last_of_a_leaf(int fd, unsigned level, off_t *at) {
    trees_t trees;
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    store_key_t behind = {0};
    page_db_t db = begin(&trees, fd);
    CHECK_EQ_I64(READ_FOUND, tree_seek(&trees, db, BYTES_NONE, &cursor, &entry));
    do {
        uint16_t before = cursor.at[level];
        *at = entry.key.at - trees.map;
        CHECK_EQ_I64(READ_FOUND, tree_step(&trees, &cursor, false, &entry));
        if (cursor.at[level] != before) {
            behind.size = entry.key.size;
            memcpy(behind.at, entry.key.at, entry.key.size);
        }
    } while (behind.size == 0);
    trees_close(&trees);
    return behind;
}

static void a_key_beyond_its_leaf(unsigned level) {
    int fd = open(path, O_RDWR);
    off_t at;
    store_key_t behind = last_of_a_leaf(fd, level, &at);
    CHECK_EQ_I64(1, pwrite(fd, "\x87", 1, at));
    trees_t trees;
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    page_bounds_t span;
    page_db_t db = begin(&trees, fd);
    if (level == 1) { /* it is beside the one that is written to */
        CHECK_EQ_I64(STATUS_IO, tree_judge(&trees, db, key_bytes(&behind), &span));
    }
    CHECK_EQ_I64(READ_FOUND, tree_seek(&trees, db, key_bytes(&behind), &cursor, &entry));
    CHECK_EQ_I64(READ_UNKNOWN, tree_step(&trees, &cursor, true, &entry));
    trees_close(&trees);
    db = begin(&trees, fd);
    read_outcome_t outcome = tree_seek(&trees, db, BYTES_NONE, &cursor, &entry);
    for (uint32_t i = 0; outcome == READ_FOUND && i < ENTRIES; i++) {
        outcome = tree_step(&trees, &cursor, false, &entry);
    }
    CHECK_EQ_I64(READ_UNKNOWN, outcome);
    trees_close(&trees);
    CHECK_EQ_I64(1, pwrite(fd, "\0", 1, at));
    close(fd);
}

static void below_one_page(void) {
    a_key_beyond_its_leaf(1);
}

static void below_two_pages(void) {
    a_key_beyond_its_leaf(0);
}

int main(void) {
    fill();
    RUN("a leaf is held against the page above, by who writes beside it, goes back to it or goes on to it",
        below_one_page);
    RUN("the last leaf below a page is held against the pages above that one", below_two_pages);
    rig_remove_directory(directory);
    return TEST_RESULT();
}
