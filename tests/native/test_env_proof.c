/* test_env_proof.c: a number on LMDB's list of free pages that became another one while nobody had the file open, in a
 * store that is too large to be looked at whole in each start.
 */
#include <stdlib.h>

#include "disk/env.h"
#include "listed_pages.h"
#include "test.h"

#define COUNT 12000u /* of each of two streams: 48 MB, page by page in turn */
#define SIZE 1500u
#define MORE 600u
#define NUMBERS 12u /* that are changed, bit by bit */
#define BITS 18u    /* the last ones make a page of it that the file has not */
#define MAP (UINT64_C(1) << 30)
#define LARGE (UINT64_C(32) << 20) /* up to here each start looks at all of it */

static char directory[] = "/tmp/leafd-test-env-proof-XXXXXX";
static uint8_t value[SIZE];

static env_t *begin(void) {
    env_t *env;
    char reason[256];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
    return env;
}

static void put(env_t *env, uint32_t stream, uint64_t seq) {
    store_key_t key;
    key_message(&key, stream, seq);
    store_be64(value + SIZE - 8, stream * UINT64_C(1000000) + seq);
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, SIZE)));
}

static void put_more(env_t *env, uint32_t stream) {
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint64_t seq = 1; seq <= MORE; seq++) {
        put(env, stream, seq);
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
}

static void expect(env_t *env, uint32_t stream, uint64_t count) {
    for (uint64_t seq = 1; seq <= count; seq++) {
        store_key_t key;
        bytes_t found = BYTES_NONE;
        key_message(&key, stream, seq);
        CHECK_EQ_I64(READ_FOUND, env_get(env, DB_MESSAGES, key_bytes(&key), &found));
        CHECK_EQ_I64(SIZE, found.size);
        CHECK_EQ_I64(stream * UINT64_C(1000000) + seq, load_be64(found.at + SIZE - 8));
    }
}

static uint64_t used_bytes(env_t *env) {
    env_usage_t usage = {0};
    env_usage(env, &usage);
    return usage.used_bytes;
}

/* Stream 1 stays, and its pages lie between those that stream 2 had. */
static void make_store(void) {
    store_key_t from = {.size = 4};
    store_key_t to = {.size = 4};
    uint64_t done;
    env_t *env = begin();
    for (uint64_t first = 1; first <= COUNT; first += COUNT / 4) {
        CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
        for (uint64_t seq = first; seq < first + COUNT / 4; seq++) {
            put(env, 1, seq);
            put(env, 2, seq);
        }
        CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    }
    store_be32(from.at, 2);
    store_be32(to.at, 3);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK,
                 env_write_delete_range(env, DB_MESSAGES, key_bytes(&from), key_bytes(&to), UINT64_MAX, &done));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK(used_bytes(env) > LARGE);
    env_close(env);
}

/* Writes a word of the file while nobody has it open. */
static void set_word(off_t at, size_t word) {
    char path[64];
    snprintf(path, sizeof path, "%s/data.mdb", directory);
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL);
    CHECK_EQ_I64(0, fseeko(file, at, SEEK_SET));
    CHECK_EQ_I64(1, fwrite(&word, sizeof word, 1, file));
    CHECK_EQ_I64(0, fclose(file));
}

static bool met_damage(env_t *env) {
    uint64_t seen = 0;
    env_wrong_t wrong;
    return env_wrong(env, &seen, &wrong);
}

/* By the proof, or by who judges the list before a write. */
static bool is_blocked(env_t *env) {
    if (!env_blocked(env) && env_write_begin(env) == STATUS_OK) {
        env_write_abort(env);
    }
    return env_blocked(env) && met_damage(env);
}

static void sound_list_is_proven(void) {
    env_t *env = begin();
    CHECK_EQ_I64(STATUS_OK, env_proof_whole(env));
    CHECK(!env_blocked(env));
    CHECK(!met_damage(env));
    expect(env, 1, COUNT);
    env_close(env);
}

static void each_wrong_bit_is_met(void) {
    size_t numbers[NUMBERS];
    off_t places[NUMBERS];
    size_t count = 0;
    env_t *env = begin();
    while (listed(env, count, &numbers[0]) != 0) {
        count++;
    }
    CHECK(count > COUNT / 4);
    for (size_t i = 0; i < NUMBERS; i++) {
        places[i] = listed(env, i * (count - 1) / (NUMBERS - 1), &numbers[i]);
    }
    env_close(env);
    for (size_t i = 0; i < NUMBERS * BITS; i++) {
        size_t number = numbers[i / BITS];
        set_word(places[i / BITS], number ^ (size_t)1 << i % BITS);
        env = begin();
        (void)!env_proof_whole(env);
        if (!is_blocked(env)) {
            FAIL("bit %zu of %zu", i % BITS, number);
        }
        env_close(env);
        set_word(places[i / BITS], number);
    }
}

/* Of the numbers that LMDB takes soon, for they are low, one behind a page that is in use. */
static off_t behind_one_in_use(size_t *number) {
    env_t *env = begin();
    off_t place = 0;
    size_t least = SIZE_MAX;
    size_t next;
    for (size_t i = 0; listed(env, i, number) != 0; i++) {
        bool lowest = listed(env, i + 1, &next) == 0 || next > *number; /* of its entry */
        if (*number > 2 && *number < least && (lowest || next != *number - 1)) {
            least = *number;
            place = listed(env, i, number);
        }
    }
    env_close(env);
    *number = least;
    CHECK(place != 0);
    return place;
}

static void nothing_in_use_is_written_over(void) {
    size_t number;
    off_t at = behind_one_in_use(&number);
    set_word(at, number - 1);
    env_proof_at_open(0);
    env_t *env = begin();
    put_more(env, 3);
    put_more(env, 4);
    put_more(env, 5);
    CHECK_EQ_I64(STATUS_CORRUPT, env_proof_whole(env));
    CHECK(env_blocked(env));
    put_more(env, 6);
    put_more(env, 7);
    put_more(env, 8);
    expect(env, 1, COUNT);
    for (uint32_t stream = 3; stream <= 8; stream++) {
        expect(env, stream, MORE);
    }
    env_close(env);
}

static void pages_are_used_again_once_they_are_proven(void) {
    env_proof_at_open(0);
    env_t *env = begin();
    uint64_t before = used_bytes(env);
    put_more(env, 9);
    uint64_t meanwhile = used_bytes(env);
    CHECK(meanwhile > before + MORE * SIZE);
    CHECK_EQ_I64(STATUS_OK, env_proof_whole(env));
    put_more(env, 10);
    put_more(env, 11);
    CHECK_EQ_I64(meanwhile, used_bytes(env));
    expect(env, 1, COUNT);
    env_close(env);
}

int main(void) {
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    make_store();
    RUN("a list of free pages that is true is proven by what the store uses", sound_list_is_proven);
    RUN("one wrong bit in any number of it stops its use", each_wrong_bit_is_met);
    RUN("until it is proven no page of it is written over, and all that was stored is there",
        pages_are_used_again_once_they_are_proven);
    RUN("a page in use that it names is never written over", nothing_in_use_is_written_over);
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, i == 0 ? "data.mdb" : "lock.mdb");
        (void)unlink(path);
    }
    (void)rmdir(directory);
    return TEST_RESULT();
}
