/* test_env.c: the door to LMDB by itself: how many pages a stream's messages take, that their order is free, and that
 * no page of LMDB's own lists ends the process by changing while something is written.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk/env.h"
#include "disk/tree.h"
#include "listed_pages.h"
#include "test.h"

#define COUNT 3000u
#define SIZE 1500u /* two fill a page of 4096 bytes */
#define MAP (UINT64_C(64) << 20)

static char directory[] = "/tmp/leafd-test-env-XXXXXX";
static uint8_t value[SIZE];

static env_t *begin(void) {
    env_t *env;
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    return env;
}

static void end(env_t *env) {
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
}

static void forget_all(void) {
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)unlink(path);
    }
}

static void put(env_t *env, uint32_t stream, uint64_t seq, uint8_t mark) {
    store_key_t key;
    key_message(&key, stream, seq);
    value[VALUE_CRC_SIZE] = 0; /* not to be packed */
    value[SIZE - 1] = mark;
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, SIZE)));
}

static void expect(env_t *env, uint32_t stream, uint64_t seq, uint8_t mark) {
    store_key_t key;
    bytes_t found = BYTES_NONE;
    key_message(&key, stream, seq);
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_MESSAGES, key_bytes(&key), &found));
    CHECK_EQ_I64(SIZE, found.size);
    CHECK_EQ_I64(mark, found.at[SIZE - 1]);
}

static void messages_in_order_fill_their_pages(void) {
    env_usage_t usage = {0};
    env_t *env = begin();
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        put(env, 1, seq, (uint8_t)seq);
        put(env, 2, seq, (uint8_t)(seq + 1));
    }
    end(env);
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        expect(env, 1, seq, (uint8_t)seq);
        expect(env, 2, seq, (uint8_t)(seq + 1));
    }
    CHECK_EQ_I64(STATUS_OK, env_usage_exact(env, &usage));
    env_close(env);
    uint64_t stored = (uint64_t)2 * COUNT * SIZE;
    CHECK(usage.used_bytes - usage.free_bytes < stored / 10 * 16); /* one to a page: 2.7 times as much */
}

static void messages_out_of_order_and_again_are_found_as_put_last(void) {
    env_t *env = begin();
    for (uint64_t seq = COUNT; seq > 0; seq -= 3) {
        put(env, 3, seq, 1);
    }
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        put(env, 3, seq, (uint8_t)(seq % 100));
    }
    put(env, 3, 7, 200);
    end(env);
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        expect(env, 3, seq, seq == 7 ? 200 : (uint8_t)(seq % 100));
    }
    env_close(env);
}

/* From the whole of a stream's database to nearly nothing of it, and of its neighbours nothing. */
static void ranges_take_what_they_hold(void) {
    static const struct {
        uint64_t from, to;
    } ranges[] = {{1, COUNT + 1}, {0, UINT64_MAX}, {2, COUNT + 1}, {1, COUNT}, {COUNT / 2, COUNT / 2 + 1}};
    for (uint32_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        store_key_t from;
        store_key_t to;
        bytes_t found = BYTES_NONE;
        uint64_t done;
        env_t *env = begin();
        for (uint64_t seq = 1; seq <= COUNT; seq++) {
            put(env, 4, seq, 1);
            put(env, 5, seq, 1);
        }
        end(env);
        CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
        key_message(&from, 4, ranges[i].from);
        key_message(&to, 4, ranges[i].to);
        CHECK_EQ_I64(STATUS_OK,
                     env_write_delete_range(env, DB_MESSAGES, key_bytes(&from), key_bytes(&to), UINT64_MAX, &done));
        put(env, 4, COUNT + 2, 9);
        end(env);
        for (uint64_t seq = 1; seq <= COUNT; seq++) {
            bool gone = seq >= ranges[i].from && seq < ranges[i].to;
            key_message(&from, 4, seq);
            CHECK_EQ_I64(gone ? READ_NONE : READ_FOUND, env_get(env, DB_MESSAGES, key_bytes(&from), &found));
            expect(env, 5, seq, 1);
        }
        expect(env, 4, COUNT + 2, 9);
        env_close(env);
    }
}

/* ---- LMDB's own lists -------------------------------------------------------------------------------------------- */

#define ROUNDS 12u
#define ROUND 60u

static void take_out(env_t *env, uint32_t stream, uint64_t seq) {
    store_key_t key;
    key_message(&key, stream, seq);
    CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_MESSAGES, key_bytes(&key)));
}

/* Each commit leaves pages on the list, which has several entries then. */
static env_t *begin_with_free_pages(void) {
    env_t *env = begin();
    end(env);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
        for (uint64_t i = 1; i <= ROUND; i++) {
            put(env, 6, round * ROUND + i, 1);
        }
        for (uint64_t i = 1; round > 0 && i <= ROUND; i++) {
            take_out(env, 6, (round - 1) * ROUND + i);
        }
        end(env);
    }
    return env;
}

/* head: it is garbled, too; else LMDB goes on with what it finds there. */
static void garble(env_t *env, size_t page, bool head) {
    uint8_t garbage[4096];
    uint32_t number = 1;
    size_t from = head ? 0 : PAGE_HEAD;
    for (size_t i = 0; i < sizeof garbage; i++) {
        garbage[i] = (uint8_t)((number = number * 1664525u + 1013904223u) >> 24);
    }
    CHECK_EQ_I64((int64_t)(4096 - from), pwrite(env_file(env), garbage, 4096 - from, (off_t)(page * 4096 + from)));
}

/* after: so many messages were put when the page changes. */
static void write_over_damage(uint64_t after, bool head) {
    env_t *env = begin_with_free_pages();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    size_t page = first_page(env, false);
    for (uint64_t i = 1; i <= COUNT; i++) {
        if (i == after) {
            garble(env, page, head);
        }
        put(env, 7, i, (uint8_t)i);
    }
    end(env);
    env_close(env);
    env = begin();
    env_write_abort(env);
    for (uint64_t i = 1; i <= COUNT; i++) {
        expect(env, 7, i, (uint8_t)i);
    }
    for (uint64_t i = 1; i <= ROUND; i++) {
        expect(env, 6, (ROUNDS - 1) * ROUND + i, 1);
    }
    env_close(env);
}

/* The list of databases: the write goes on, or is refused. */
static void write_over_damaged_names(uint64_t after, bool head) {
    status_t status = STATUS_OK;
    store_key_t key;
    env_t *env = begin_with_free_pages();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    size_t page = first_page(env, true);
    for (uint64_t i = 1; status == STATUS_OK && i <= COUNT; i++) {
        if (i == after) {
            garble(env, page, head);
        }
        key_message(&key, 8 + (uint32_t)(i % 3), i);
        status = env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, SIZE));
    }
    status = status == STATUS_OK ? env_write_commit(env) : status;
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
}

/* In a process of its own, which LMDB would end. */
static void lists_may_change(void) {
    static const uint64_t moments[] = {1, COUNT / 3, COUNT};
    for (unsigned i = 0; i < 12; i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (setjmp(test_escape) != 0) {
                _exit(1);
            }
            (i < 6 ? write_over_damage : write_over_damaged_names)(moments[i % 3], i % 2 == 0);
            _exit(0);
        }
        CHECK_EQ_I64(child, waitpid(child, &status, 0));
        if (status != 0) {
            FAIL("case %u: status %d", i, status);
        }
        if (i >= 6) {
            forget_all();
        }
    }
}

/* All of a stream goes at once: the entry of what that leaves takes pages of its own. */
static void free_many(env_t *env) {
    store_key_t from = {.size = 4};
    store_key_t to = {.size = 4};
    uint64_t done;
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint64_t seq = 1; seq <= COUNT; seq++) {
        put(env, 7, seq, 1);
    }
    end(env);
    store_be32(from.at, 7);
    store_be32(to.at, 8);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK,
                 env_write_delete_range(env, DB_MESSAGES, key_bytes(&from), key_bytes(&to), UINT64_MAX, &done));
    end(env);
}

/* The number before it: some keep their order so. It is put right before LMDB reads it. */
static void no_longer_free(env_t *env, size_t index) {
    env_wrong_t wrong;
    uint64_t seen = 0;
    size_t number;
    off_t at = listed(env, index, &number);
    size_t other = number - 1;
    CHECK_EQ_I64(sizeof other, pwrite(env_file(env), &other, sizeof other, at));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    env_write_abort(env);
    CHECK_EQ_I64(sizeof other, pread(env_file(env), &other, sizeof other, at));
    CHECK_EQ_U64(number, other);
    CHECK(env_wrong(env, &seen, &wrong) && wrong.right && (off_t)wrong.page == at / 4096);
}

static void no_other_page_is_free(void) {
    size_t number;
    unsigned changed = 0;
    env_t *env = begin_with_free_pages();
    for (size_t i = 0; listed(env, i, &number) != 0; i++) {
        no_longer_free(env, i);
        changed++;
    }
    CHECK(changed > 10);
    env_close(env);
}

static void no_other_page_is_free_in_a_long_list(void) {
    size_t number;
    size_t lowest = 0;
    env_t *env = begin_with_free_pages();
    free_many(env);
    while (listed(env, lowest + 1, &number) != 0) {
        lowest++;
    }
    CHECK(lowest > COUNT / 2);
    no_longer_free(env, lowest);
    env_close(env);
}

int main(void) {
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    RUN("a stream's messages fill their pages, also where two streams take turns", messages_in_order_fill_their_pages);
    RUN("messages put out of order, and put again, are found as they were put last",
        messages_out_of_order_and_again_are_found_as_put_last);
    RUN("a range takes the messages that it holds and no other, all of a stream's or some", ranges_take_what_they_hold);
    RUN("a list of LMDB's own that changes by itself while something is written ends no process, and all is stored",
        lists_may_change);
    RUN("a number on the list of free pages that becomes another one is no free page", no_other_page_is_free);
    RUN("nor is one on a list so long that it takes pages of its own", no_other_page_is_free_in_a_long_list);
    forget_all();
    (void)rmdir(directory);
    return TEST_RESULT();
}
