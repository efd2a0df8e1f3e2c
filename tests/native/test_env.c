/* test_env.c: the door to LMDB by itself: how many pages a stream's messages take, and that their order is free. */
#include <stdlib.h>
#include <unistd.h>

#include "disk/env.h"
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
    CHECK_EQ_I64(STATUS_OK, env_get(env, DB_MESSAGES, key_bytes(&key), &found));
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
            CHECK_EQ_I64(gone ? STATUS_NOT_FOUND : STATUS_OK, env_get(env, DB_MESSAGES, key_bytes(&from), &found));
            expect(env, 5, seq, 1);
        }
        expect(env, 4, COUNT + 2, 9);
        env_close(env);
    }
}

int main(void) {
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    RUN("a stream's messages fill their pages, also where two streams take turns", messages_in_order_fill_their_pages);
    RUN("messages put out of order, and put again, are found as they were put last",
        messages_out_of_order_and_again_are_found_as_put_last);
    RUN("a range takes the messages that it holds and no other, all of a stream's or some", ranges_take_what_they_hold);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(directory);
    return TEST_RESULT();
}
