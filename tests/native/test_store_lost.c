/* test_store_lost.c: starts of a store that lost a file, or part of one. What must hold each time: all that was
 * acknowledged is served, or the start is refused, or an alarm says what is lost. No file is made anew silently.
 */
#include "disk/journal.h"
#include "store_rig.h"
#include "unreserved.h"

#define EARLIER 5 /* checkpointed */
#define LATER 20  /* in the journal */

static rig_t rig;

static void put_some(uint64_t count) {
    store_stream_t *stream = rig.store != NULL ? rig_stream(&rig, 1, rig_config()) : NULL;
    for (uint64_t i = 0; i < count; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "lost.a", "payload").verdict);
        rig_sync(&rig);
    }
}

static void begin(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    put_some(EARLIER);
    rig_checkpoint(&rig);
}

/* EARLIER messages in LMDB, LATER in the journal, and killed. */
static void begin_killed(void) {
    begin();
    store_stream_t *stream = NULL;
    stream_config_t config = rig_config();
    store_close(rig.store);
    rig_start(&rig);
    CHECK_EQ_I64(STATUS_OK, store_stream_open(rig.store, 1, &config, rig.now, &stream));
    for (uint64_t i = 0; i < LATER; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "lost.b", "payload").verdict);
        rig_sync(&rig);
    }
    rig_kill(&rig);
}

static void check_started(uint64_t messages, bool alarmed) {
    rig_start(&rig);
    stream_state_t state;
    store_stream_state(rig_stream(&rig, 1, rig_config()), &state);
    CHECK_EQ_U64(messages, state.messages);
    store_alarm_t alarm;
    CHECK_EQ_I64(alarmed, store_alarm_next(rig.store, &alarm));
}

static unsigned count_kept(void) {
    unsigned count = 0;
    DIR *names = opendir(rig.directory);
    for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
        count += strncmp(entry->d_name, "journal.damaged-", 16) == 0;
    }
    closedir(names);
    return count;
}

static void missing_after_a_kill(void) {
    begin_killed();
    rig_move(&rig, "journal", "elsewhere");
    rig_refused(&rig, "accept-loss");
    rig_refused(&rig, "missing"); /* and stays so */
    rig_move(&rig, "elsewhere", "journal");
    check_started(EARLIER + LATER, false);
    rig_close(&rig);
}

static void missing_and_accepted(void) {
    begin_killed();
    rig_unlink(&rig, "journal");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    check_started(EARLIER, true);
    CHECK(!rig_there(&rig, "accept-loss"));
    rig_close(&rig);
}

static void missing_after_a_close(void) {
    begin();
    store_close(rig.store);
    rig.store = NULL;
    rig_unlink(&rig, "journal");
    check_started(EARLIER, true);
    rig_kill(&rig);
    check_started(EARLIER, false); /* the new one is the store's from now on */
    rig_close(&rig);
}

static void missing_in_the_first_seconds(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    put_some(3); /* no checkpoint yet */
    rig_kill(&rig);
    rig_move(&rig, "journal", "elsewhere");
    rig_refused(&rig, "missing");
    rig_move(&rig, "elsewhere", "journal");
    static const uint8_t zeros[JOURNAL_START];
    rig_write_at(&rig, "journal", zeros, sizeof zeros, 0); /* known by its batches even now */
    check_started(3, true);
    rig_close(&rig);
}

static void first_block_zeroed(void) {
    static const uint8_t zeros[JOURNAL_START];
    begin_killed();
    rig_write_at(&rig, "journal", zeros, sizeof zeros, 0);
    check_started(EARLIER + LATER, true);
    rig_crash(&rig);
    store_alarm_t alarm;
    CHECK(!store_alarm_next(rig.store, &alarm)); /* it was written anew */
    rig_close(&rig);
}

static void first_block_flipped(void) {
    uint8_t good[64];
    begin_killed();
    for (off_t bit = 0; bit < (off_t)sizeof good * 8; bit += test_stride()) {
        CHECK_EQ_U64(sizeof good, rig_read_at(&rig, "journal", good, sizeof good, 0));
        uint8_t bad = good[bit / 8] ^ (uint8_t)(1u << (bit % 8));
        rig_write_at(&rig, "journal", &bad, 1, bit / 8);
        rig_start(&rig);
        store_alarm_t alarm;
        bool older = bit / 8 == 11 && bad == 0; /* format 0 is one that this leafd reads */
        CHECK(store_alarm_next(rig.store, &alarm) || older);
        stream_state_t state;
        store_stream_state(rig_stream(&rig, 1, rig_config()), &state);
        CHECK_EQ_U64(EARLIER + LATER, state.messages);
        rig_kill(&rig);
        rig_write_at(&rig, "journal", good, sizeof good, 0);
    }
    rig_close(&rig);
}

static void of_another_store(void) {
    begin_killed();
    rig_t mine = rig;
    rig = (rig_t){0};
    rig_open(&rig);
    store_close(rig.store);
    rig_copy_file(rig.directory, mine.directory, "journal");
    rig_remove_directory(rig.directory);
    rmdir(rig.root);
    rig = mine;
    rig_refused(&rig, "another store");
    rig_close(&rig);
}

static void cut_short(void) {
    begin_killed();
    rig_truncate(&rig, "journal", 300000);
    rig_refused(&rig, "shorter");
    rig_truncate(&rig, "journal", 0);
    rig_refused(&rig, "first block is empty");
    rig_close(&rig);
}

static void cut_short_and_accepted(void) {
    begin_killed();
    rig_truncate(&rig, "journal", 300000); /* behind all of its batches */
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    check_started(EARLIER + LATER, true);
    rig_close(&rig);
}

static void lmdb_missing(void) {
    begin_killed();
    rig_move(&rig, "data.mdb", "elsewhere");
    rig_refused(&rig, "data.mdb");
    CHECK(!rig_there(&rig, "data.mdb")); /* nothing was made in its place */
    rig_write_at(&rig, "data.mdb", "", 0, 0);
    rig_refused(&rig, "data.mdb");
    rig_move(&rig, "elsewhere", "data.mdb");
    check_started(EARLIER + LATER, false);
    rig_close(&rig);
}

static void lmdb_zeroed(void) {
    static const uint8_t zeros[16384];
    begin_killed();
    rig_move(&rig, "journal", "elsewhere");
    rig_write_at(&rig, "data.mdb", zeros, sizeof zeros, 0);
    rig_truncate(&rig, "data.mdb", 4 << 20); /* it had been there for a while */
    rig_refused(&rig, "LMDB");
    rig_close(&rig);
}

static void lock_files(void) {
    static const uint8_t zeros[4096];
    begin_killed();
    rig_write_at(&rig, "lock.mdb", zeros, sizeof zeros, 0);
    check_started(EARLIER + LATER, false);
    rig_close(&rig);
}

static void few_are_kept(void) {
    begin();
    for (int i = 0; i < 4; i++) {
        store_close(rig.store);
        rig.store = NULL;
        if (i < 3) { /* as if days lay between them */
            char name[64];
            snprintf(name, sizeof name, "journal.damaged-2000010%dT000000Z", i);
            rig_write_at(&rig, name, "x", 1, 0);
        }
        rig_truncate(&rig, "journal", 100);
        check_started(EARLIER, true);
    }
    CHECK(count_kept() <= 2);
    CHECK(count_kept() >= 1);
    rig_close(&rig);
}

int main(void) {
    RUN("a journal that is missing after a kill is missed: one line says what to do, and putting it back helps",
        missing_after_a_kill);
    RUN("the operator can accept the loss, once", missing_and_accepted);
    RUN("after an orderly close a missing journal is made anew, with a warning: nothing was in it",
        missing_after_a_close);
    RUN("a journal is missed from the store's first message on", missing_in_the_first_seconds);
    RUN("a journal whose first block is zeros is known by its batches, and loses nothing", first_block_zeroed);
    RUN("no flipped bit in the journal's first block loses anything", first_block_flipped);
    RUN("another store's journal is refused", of_another_store);
    RUN("a journal that lost its end is refused", cut_short);
    RUN("of a journal that lost its end an accepted loss takes what is left", cut_short_and_accepted);
    RUN("a journal without its data.mdb is no new store", lmdb_missing);
    RUN("a data.mdb of zeros is no new store", lmdb_zeroed);
    RUN("LMDB's lock file may be anything", lock_files);
    RUN("at most two damaged journals are kept", few_are_kept);
    return TEST_RESULT();
}
