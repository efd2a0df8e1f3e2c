/* test_holes.c: blocks of LMDB's free pages go back to the file system, and nothing that anybody may still read. */
#include "disk/holes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "test.h"

#define SIZE 3000u /* one fills a page */
#define COUNT 4000u
#define KEPT UINT64_C(1000) /* of them stay */
#define MAP (UINT64_C(64) << 20)
#define MIB (UINT64_C(1) << 20)

static char directory[] = "/tmp/leafd-test-holes-XXXXXX";
static uint8_t value[SIZE];

static env_t *opened(void) {
    env_t *env;
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    return env;
}

static void put(env_t *env, uint64_t seq) {
    store_key_t key;
    key_message(&key, 1, seq);
    value[VALUE_CRC_SIZE] = 0; /* not to be packed */
    store_be64(value + SIZE - 8, seq);
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, SIZE)));
}

static void fill(env_t *env) {
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        put(env, seq);
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
}

static void remove_old(env_t *env) {
    store_key_t from;
    store_key_t to;
    uint64_t done;
    key_message(&from, 1, 0);
    key_message(&to, 1, COUNT - KEPT + 1);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_delete_range(env, DB_MESSAGES, key_bytes(&from), key_bytes(&to), COUNT, &done));
    CHECK_EQ_U64(COUNT - KEPT, done);
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
}

static void commit_nothing(env_t *env) {
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_META, BYTES_LITERAL("nothing"), BYTES_LITERAL("at all")));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
}

static void expect(env_t *env, uint64_t first) {
    for (uint64_t seq = first; seq <= COUNT; seq++) {
        store_key_t key;
        bytes_t found = BYTES_NONE;
        key_message(&key, 1, seq);
        CHECK_EQ_I64(READ_FOUND, env_get(env, DB_MESSAGES, key_bytes(&key), &found));
        CHECK_EQ_U64(SIZE, found.size);
        CHECK_EQ_U64(seq, load_be64(found.at + SIZE - 8));
    }
}

static uint64_t blocks(env_t *env) {
    struct stat file;
    CHECK_EQ_I64(0, fstat(env_file(env), &file));
    return (uint64_t)file.st_blocks * 512;
}

static void dig(env_t *env, uint64_t keep) {
    holes_t holes = {0};
    status_t status;
    holes_begin(&holes, keep);
    while ((status = holes_dig(&holes, env, env_file(env))) == STATUS_AGAIN) {
    }
    CHECK_EQ_I64(STATUS_OK, status);
    CHECK(!holes.running);
    CHECK(!holes.refused);
}

static void what_a_reader_sees_stays(void) {
    env_t *env = opened();
    fill(env);
    CHECK_EQ_I64(STATUS_OK, env_renew(env)); /* a reader of the time before the removal */
    uint64_t full = blocks(env);
    remove_old(env);
    for (int i = 0; i < 3; i++) {
        commit_nothing(env);
    }
    dig(env, 0);
    CHECK(blocks(env) >= full);
    expect(env, 1);
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    env_close(env);
}

/* As if the last commit's first page had not come to the disk. */
static void what_a_start_may_fall_back_to_stays(void) {
    static uint8_t before[2 * 4096];
    env_t *env = opened();
    fill(env);
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    CHECK_EQ_I64(sizeof before, pread(env_file(env), before, sizeof before, 0));
    remove_old(env);
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    dig(env, 0);
    CHECK_EQ_I64(sizeof before, pwrite(env_file(env), before, sizeof before, 0));
    env_close(env);
    env = opened();
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    expect(env, 1);
    env_close(env);
}

static void long_runs_go_back_and_come_again(void) {
    env_t *env = opened();
    fill(env);
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    uint64_t full = blocks(env);
    remove_old(env);
    for (int i = 0; i < 3; i++) {
        commit_nothing(env);
        CHECK_EQ_I64(STATUS_OK, env_renew(env));
    }
    dig(env, 4 * MIB);
    uint64_t less = blocks(env);
    CHECK(less < full - 5 * MIB);
    CHECK(less > 7 * MIB); /* 4 that stay, 4 with what is kept */
    dig(env, 0);
    CHECK(blocks(env) < less);
    expect(env, COUNT - KEPT + 1);
    uint64_t empty = blocks(env);
    holes_fill(env, env_file(env), 4 * MIB);
    CHECK(blocks(env) >= empty + 3 * MIB);
    CHECK(blocks(env) < full - 3 * MIB);
    env_close(env);
    env = opened();
    fill(env); /* into the holes */
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    expect(env, 1);
    env_close(env);
}

int main(void) {
    CHECK(mkdtemp(directory) != NULL);
    RUN("what a reader sees stays", what_a_reader_sees_stays);
    RUN("long runs go back, and come again", long_runs_go_back_and_come_again);
    RUN("what a start may fall back to stays", what_a_start_may_fall_back_to_stays);
    directory_remove(directory);
    return TEST_RESULT();
}
