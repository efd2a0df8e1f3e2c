/* test_store_starts_faults_memory.c: a read of LMDB that fails, and an allocation that fails, at every place of a start
 * that has much to do: a page of data.mdb is damaged, so that it is made anew, and what the journal has is counted into
 * it; or a record of META is. Such a start is refused, and the next one is whole, or it is whole itself: nothing that
 * was acknowledged is gone, and nothing that was removed is back. A write that LMDB refuses is never the journal's end.
 */
#include "disk/env.h"
#include "store_faults.h"

#define OTHERS 100 /* messages of another stream, one of whose pages is damaged */

/* ---- what damage leaves ------------------------------------------------------------------------------------------ */

static void put_others(void) {
    store_stream_t *others = rig_stream(&rig, 2, rig_config());
    char payload[40];
    for (unsigned i = 0; i < OTHERS; i++) {
        snprintf(payload, sizeof payload, "other payload %u.", i);
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, others, "others", payload).verdict);
    }
}

/* The page of one of the others, wherever an older copy of it stands, too. */
static void spoil_others(void) {
    static uint8_t file[4 << 20];
    static const uint8_t zeros[4096];
    static const char of_it[] = "other payload 50.";
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    unsigned found = 0;
    CHECK(size < sizeof file);
    for (size_t at = 0; at + sizeof of_it <= size; at++) {
        if (memcmp(file + at, of_it, sizeof of_it - 1) == 0) {
            found++;
            rig_write_at(&rig, "data.mdb", zeros, sizeof zeros, (off_t)(at / 4096 * 4096));
        }
    }
    CHECK(found > 0);
}

/* In LMDB: a to d by turns. In the journal alone: the newest of a subject, its oldest, and one within it go; a subject
 * ends; others come. */
static void put_and_kill(void) {
    store_all("abcdabcdabcaba");
    put_others();
    rig_checkpoint(&rig);
    delete(14);
    delete(12);
    delete(2);
    delete(7);
    delete(4);
    delete(8);
    store_all("bec");
    rig_sync(&rig);
    rig_kill(&rig);
}

static const uint64_t left[] = {1, 3, 5, 6, 9, 10, 11, 13, 15, 16, 17, 0};

/* ---- a start, and another one ------------------------------------------------------------------------------------ */

static void start_until_it_does(void) {
    char reason[RIG_REASON];
    stream_config_t config = scene->config();
    for (unsigned tries = 0; rig_try(&rig, reason) != STATUS_OK;) {
        SCENE_CHECK(++tries < TRIES);
        SCENE_CHECK(strstr(reason, "accept-loss") == NULL);
    }
    for (unsigned tries = 0; store_stream_open(rig.store, 1, &config, rig.now, &stream) != STATUS_OK;) {
        SCENE_CHECK(++tries < TRIES);
    }
}

/* true: the n-th was reached. */
static bool start_while(unsigned n, unsigned times, int error) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    scene->before();
    fail_from(n, times, error);
    start_until_it_does();
    turns(3);
    bool reached = counted() >= n;
    heal();
    turns(3);
    check_stream("afterwards");
    rig_checkpoint(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    check_stream("after a kill");
    rig_close(&rig);
    return reached;
}

static void start_each(const scene_t *next) {
    scene = next;
    for (fault = READ; fault <= ALLOCATION_ELSEWHERE; fault++) {
        unsigned n = 1;
        for (; start_while(n, 1, EIO); n += test_stride()) {
            SCENE_CHECK(n < PLACES_MAX);
        }
        unsigned most = n - 1;
        for (n = 1; n <= most; n += 3 * test_stride()) {
            (void)start_while(n, 3, n % 2 == 0 ? ENOMEM : MDB_CORRUPTED);
        }
        printf("%s: %u of %s\n", scene->name, most, fault_names[fault]);
    }
    fault = READ;
}

static void damage(void) {
    put_and_kill();
    spoil_others();
}

static void what_is_made_anew_is_whole(void) {
    start_each(&(scene_t){"made anew", rig_config, damage, NULL, left, 1, 17, 4, false});
}

static void a_killed_one_is_whole(void) {
    start_each(&(scene_t){"killed", rig_config, put_and_kill, NULL, left, 1, 17, 4, false});
}

/* ---- META -------------------------------------------------------------------------------------------------------- */

static uint8_t later[100]; /* of a newer leafd, which this one does not know */

static bytes_t later_name(void) {
    return BYTES_LITERAL("later");
}

static env_t *env_of_rig(void) {
    char reason[RIG_REASON];
    env_t *env;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    return env;
}

static void put_later(void) {
    put_and_kill();
    env_t *env = env_of_rig();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    value_seal(later_name(), later, sizeof later);
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_META, later_name(), bytes_of(later, sizeof later)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static bool later_stays_while(unsigned n) {
    bytes_t value = BYTES_NONE;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    put_later();
    fail_from(n, 1, EIO);
    start_until_it_does();
    bool reached = counted() >= n;
    heal();
    check_stream("afterwards");
    rig_kill(&rig);
    env_t *env = env_of_rig();
    SCENE_CHECK(env_get(env, DB_META, later_name(), &value) == READ_FOUND);
    SCENE_CHECK(bytes_equal(value, bytes_of(later, sizeof later)));
    env_close(env);
    rig_close(&rig);
    return reached;
}

static void meta_is_not_written_for_what_could_not_be_read(void) {
    static const scene_t meta = {"META", rig_config, put_later, NULL, left, 1, 17, 4, false};
    scene = &meta;
    fault = READ;
    unsigned n = 1;
    for (; later_stays_while(n); n++) {
        SCENE_CHECK(n < PLACES_MAX);
    }
    CHECK(n > 10);
}

/* ---- a batch that LMDB does not take ----------------------------------------------------------------------------- */

static unsigned taken, refused_put; /* of the start */

int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *value, unsigned flags) {
    if (failing_reads_mine && refused_put != 0 && ++taken == refused_put) {
        return MDB_NOTFOUND; /* as of a tree that damage has cut off */
    }
    return ((int (*)(MDB_cursor *, MDB_val *, MDB_val *, unsigned))(uintptr_t)dlsym(RTLD_NEXT, "mdb_cursor_put"))(
        cursor, key, value, flags);
}

static bool put_refused(unsigned n) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    scene->before();
    failing_reads((failing_reads_t){0}); /* it is this thread that counts */
    failing_at = n;
    taken = 0;
    refused_put = n;
    start_until_it_does();
    bool reached = taken >= n;
    refused_put = 0;
    check_stream("afterwards");
    rig_checkpoint(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    check_stream("after a kill");
    rig_close(&rig);
    return reached;
}

static void a_batch_that_is_not_taken_ends_no_journal(void) {
    static const scene_t scenes[] = {{"a put of what is made anew", rig_config, damage, NULL, left, 1, 17, 4, false},
                                     {"a put", rig_config, put_and_kill, NULL, left, 1, 17, 4, false}};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        unsigned n = 1;
        scene = &scenes[i];
        for (; put_refused(n); n += test_stride()) {
            SCENE_CHECK(n < PLACES_MAX);
        }
        printf("%s: %u\n", scene->name, n - 1);
    }
}

int main(void) {
    RUN("a start that makes data.mdb anew is refused or whole, whichever read or allocation failed",
        what_is_made_anew_is_whole);
    RUN("so is one that a kill went before", a_killed_one_is_whole);
    RUN("META is not written anew for a record that could not be read", meta_is_not_written_for_what_could_not_be_read);
    RUN("a batch that LMDB does not take is no end of the journal", a_batch_that_is_not_taken_ends_no_journal);
    return TEST_RESULT();
}
