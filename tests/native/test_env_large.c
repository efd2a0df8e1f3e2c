/* test_env_large.c: how many pages a value has that does not lie in a leaf, as its first page says it. LMDB believes
 * that number when it frees them, so a damaged one stops the write. And a value that takes the place of a larger one
 * within a write transaction has no more of them than it needs, or nobody could tell.
 *
 * Not here: which damage a page shows (test_tree.c), how such a page is made anew (test_store_unmended.c).
 */
#include <stdlib.h>
#include <unistd.h>

#include "disk/env.h"
#include "disk/page.h"
#include "store/record.h"
#include "test.h"

#define MAP (UINT64_C(64) << 20)
#define PAGE 4096u
#define LARGEST 20000u

static char directory[] = "/tmp/leafd-test-large-XXXXXX";
static env_t *env;

static const store_db_t databases[] = {DB_MESSAGES, DB_RECORDS, DB_LEDGER};
#define DATABASES (sizeof databases / sizeof *databases)

static bytes_t key_of(store_db_t db, uint64_t seq, store_key_t *key) {
    uint8_t name[8];
    memset(name, (int)seq, sizeof name);
    switch (db) {
    case DB_RECORDS: key_record(key, RECORD_CONTROL, bytes_of(name, sizeof name)); break;
    case DB_LEDGER: key_ledger(key, 1, seq); break;
    default: key_message(key, 1, seq); break;
    }
    return key_bytes(key);
}

static void put(store_db_t db, uint64_t seq, uint32_t size) {
    static uint8_t value[LARGEST]; /* zeros: not to be packed */
    store_key_t key;
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, db, key_of(db, seq, &key), bytes_of(value, size)));
}

static status_t take(store_db_t db, uint64_t seq) {
    store_key_t key;
    return env_write_delete(env, db, key_of(db, seq, &key));
}

static uint32_t size_of(store_db_t db, uint64_t seq) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    CHECK_EQ_I64(READ_FOUND, env_write_get(env, db, key_of(db, seq, &key), &value));
    return value.size;
}

static void begin(void) {
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
}

static void commit(void) {
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
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

/* Adds to the number in the head of each first page of a value. How many there are. */
static unsigned heads_change(uint32_t by) {
    uint8_t page[PAGE];
    unsigned changed = 0;
    for (off_t at = 2 * PAGE; pread(env_file(env), page, PAGE, at) == PAGE; at += PAGE) {
        if (page_word(page) != (size_t)at / PAGE || page_kind(page) != PAGE_OVERFLOW) {
            continue;
        }
        uint32_t count = page_overflow_count(page) + by;
        memcpy(page + PAGE_WORD + 4, &count, sizeof count);
        CHECK_EQ_I64(PAGE, pwrite(env_file(env), page, PAGE, at));
        changed++;
    }
    return changed;
}

static void a_wrong_number_stops_the_write(void) {
    static const uint32_t more[] = {1, 4, 0x10000000, UINT32_MAX};
    for (unsigned i = 0; i < sizeof more / sizeof *more; i++) {
        for (unsigned d = 0; d < DATABASES; d++) {
            begin();
            put(databases[d], 1, 5000);
            put(databases[d], 2, 100);
            commit();
            CHECK(heads_change(more[i]) >= 1);
            CHECK_EQ_I64(STATUS_CORRUPT, take(databases[d], 1));
            CHECK(heads_change(0 - more[i]) >= 1);
            env_write_abort(env);
            CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
            CHECK_EQ_I64(STATUS_OK, take(databases[d], 1));
            end();
        }
    }
}

/* Each of these takes the place of the one before in the same transaction. */
static void smaller_ones_have_fewer_pages(void) {
    static const uint32_t sizes[] = {LARGEST, 9000, 12000, 4500, 3000, 100, 8000, 20};
    for (unsigned d = 0; d < DATABASES; d++) {
        for (unsigned last = 1; last <= sizeof sizes / sizeof *sizes; last++) {
            begin();
            for (uint64_t seq = 1; seq <= 3; seq++) put(databases[d], seq, 200);
            commit();
            for (unsigned i = 0; i < last; i++) {
                put(databases[d], 2, sizes[i]);
                put(databases[d], 4, sizes[i]);
            }
            commit();
            CHECK_EQ_U64(sizes[last - 1], size_of(databases[d], 2));
            CHECK_EQ_U64(sizes[last - 1], size_of(databases[d], 4));
            for (uint64_t seq = 1; seq <= 4; seq++) CHECK_EQ_I64(STATUS_OK, take(databases[d], seq));
            CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
            CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
            end();
        }
    }
}

int main(void) {
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    RUN("a large value that seems to have more pages than it needs is not removed", a_wrong_number_stops_the_write);
    RUN("one that takes the place of a larger one has as many pages as it needs", smaller_ones_have_fewer_pages);
    (void)rmdir(directory);
    return TEST_RESULT();
}
