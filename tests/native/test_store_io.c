/* test_store_io.c: a disk that fails: writes, syncs and reads of either file, for a moment or for good, with each error
 * that a file system gives. What must hold each time: nothing that was durable is lost, publishers are refused while it
 * fails, what was stored is read, the store goes on by itself when the disk does, and a start that is not possible is
 * refused in one line that says what to do.
 */
#include <sys/resource.h>

#include "failing_disk.h"
#include "disk/journal.h"
#include "store_rig.h"

#define EARLIER 20

static rig_t rig;
static store_stream_t *stream;
static uint64_t last; /* sequence that was said to be durable */

static void put(void) {
    char payload[400];
    memset(payload, 'p', sizeof payload);
    snprintf(payload + 380, 20, "%llu", (unsigned long long)last + 1);
    appended_t done = rig_put(&rig, stream, "io.a", payload);
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    CHECK_EQ_U64(last + 1, done.seq);
    rig_sync(&rig);
    last = done.seq;
}

static void begin(void) {
    rig = (rig_t){.in_memory = true};
    last = 0;
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    while (last < EARLIER) {
        put();
    }
    rig_checkpoint(&rig);
}

static void check_all_there(void) {
    stream_state_t state;
    stored_message_t message;
    store_stream_state(stream, &state);
    CHECK_EQ_U64(last, state.last_seq);
    CHECK_EQ_U64(last, state.messages);
    for (uint64_t seq = 1; seq <= last; seq++) {
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
    }
}

static void turn(void) {
    rig_pass(&rig, 50 * NS_PER_MS);
    store_tick(rig.store, rig.now);
    struct pollfd poller = {.fd = store_wake_fd(rig.store), .events = POLLIN};
    poll(&poller, 1, 1);
}

static bool refusing(void) {
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    return stats.refusing != 0;
}

static void until_refusing(bool expected) {
    for (int64_t until = 0; patient(&until);) {
        if (refusing() == expected) {
            return;
        }
        turn();
    }
    FAIL(expected ? "publishers are not refused" : "publishing does not resume");
}

/* One message that cannot become durable while the disk fails. */
static void put_in_vain(void) {
    uint64_t batch = store_batch(rig.store);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "io.a", "waits for the disk").verdict);
    until_refusing(true);
    CHECK(store_durable(rig.store) < batch);
    CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "io.a", "x").verdict);
    for (uint64_t seq = 1; seq <= last; seq++) {
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
    }
}

static void reopened(void) {
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    check_all_there();
    put();
    rig_close(&rig);
}

/* ---- for a while ------------------------------------------------------------------------------------------------- */

static const int errors[] = {EIO, EROFS, ENODEV, EDQUOT, ENOSPC};

static void journal_fails(void) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        for (int call = FAIL_WRITE; call <= FAIL_SYNC; call++) {
            begin();
            failing_disk((failing_t){.files = FAIL_JOURNAL, .calls = call, .error = errors[i]});
            put_in_vain();
            failing_disk((failing_t){0});
            until_refusing(false);
            last++;
            put();
            check_all_there();
            reopened();
        }
    }
}

/* LMDB takes nothing for a while, longer than one try. */
static void lmdb_fails(void) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        for (int call = FAIL_WRITE; call <= FAIL_SYNC; call++) {
            begin();
            put();
            failing_disk((failing_t){.files = FAIL_HOME, .calls = call, .error = errors[i]});
            until_refusing(true);
            CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "io.a", "x").verdict);
            CHECK_EQ_I64(STATUS_OK, store_delete(stream, 3)); /* the journal takes it */
            rig_sync(&rig);
            for (int n = 0; n < 500; n++) {
                turn();
            }
            failing_disk((failing_t){0});
            until_refusing(false);
            put();
            rig_checkpoint(&rig);
            rig_crash(&rig);
            stream = rig_stream(&rig, 1, rig_config());
            stream_state_t state;
            store_stream_state(stream, &state);
            CHECK_EQ_U64(last, state.last_seq);
            CHECK_EQ_U64(last - 1, state.messages);
            rig_close(&rig);
        }
    }
}

/* Each call of a checkpoint in turn is the one that fails, once. */
static void lmdb_fails_once(int calls) {
    bool reached = true;
    for (unsigned n = 1; reached; n++) {
        begin();
        put();
        failing_disk((failing_t){.files = FAIL_HOME, .calls = calls, .error = EIO, .from = n, .times = 1});
        rig_checkpoint(&rig);
        reached = failing_disk_count() >= n;
        failing_disk((failing_t){0});
        until_refusing(false);
        put();
        check_all_there();
        rig_checkpoint(&rig);
        check_all_there();
        reopened();
        CHECK(n < 100);
    }
}

static void each_write_of_a_checkpoint(void) {
    lmdb_fails_once(FAIL_WRITE);
}

static void each_sync_of_a_checkpoint(void) {
    lmdb_fails_once(FAIL_SYNC);
}

/* ---- opened again ------------------------------------------------------------------------------------------------ */

/* LMDB was closed and does not open: it is not read, and it comes back by itself. */
static void cannot_be_opened_again(void) {
    struct rlimit usual;
    stored_message_t message;
    begin();
    put();
    CHECK_EQ_I64(0, getrlimit(RLIMIT_NOFILE, &usual));
    /* the two metas */
    failing_disk((failing_t){.files = FAIL_HOME, .calls = FAIL_WRITE, .error = EIO, .begin = 0, .end = 8192});
    until_refusing(true);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = usual.rlim_max};
    CHECK_EQ_I64(0, setrlimit(RLIMIT_NOFILE, &none));
    bool unread = false;
    for (int64_t until = 0; !unread && patient(&until);) {
        turn();
        unread = store_read(stream, 1, &message) == ENTRY_UNKNOWN;
    }
    failing_disk((failing_t){0});
    CHECK(unread);
    for (int i = 0; i < 300; i++) {
        turn();
        CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, 1, &message));
    }
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, last, &message)); /* the memtable's */
    CHECK_EQ_I64(0, setrlimit(RLIMIT_NOFILE, &usual));
    until_refusing(false);
    check_all_there();
    put();
    reopened();
}

/* ---- reads at a start -------------------------------------------------------------------------------------------- */

static void begin_killed(void) {
    begin();
    for (int i = 0; i < 6; i++) {
        put();
    }
    rig_kill(&rig);
}

static void block_of_the_journal(void) {
    static uint8_t journal[JOURNAL_START + (1 << 20)];
    static uint8_t lmdb[4 << 20];
    unsigned refused = 0;
    unsigned needless = 0;
    begin_killed();
    CHECK_EQ_U64(sizeof journal, rig_read_at(&rig, "journal", journal, sizeof journal, 0));
    size_t lmdb_size = rig_read_at(&rig, "data.mdb", lmdb, sizeof lmdb, 0);
    for (int64_t at = JOURNAL_START; at < 60 * 4096; at += 4096) {
        char reason[RIG_REASON];
        failing_disk(
            (failing_t){.files = FAIL_JOURNAL, .calls = FAIL_READ, .error = EIO, .begin = at, .end = at + 4096});
        status_t status = rig_try(&rig, reason);
        failing_disk((failing_t){0});
        if (status == STATUS_OK) {
            needless++;
            stream = rig_stream(&rig, 1, rig_config());
            check_all_there();
            store_close(rig.store);
            rig.store = NULL;
            rig_remove_directory(rig.directory);
            CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
            rig_write_at(&rig, "journal", journal, sizeof journal, 0);
            rig_write_at(&rig, "data.mdb", lmdb, lmdb_size, 0);
        } else {
            refused++;
            CHECK(strstr(reason, "cannot be read") != NULL && strstr(reason, "accept-loss") != NULL);
        }
    }
    CHECK(refused >= 6); /* each of the batches that are needed, the last one among them */
    CHECK(needless > 6);
    rig_start(&rig); /* the disk gives it after all */
    stream = rig_stream(&rig, 1, rig_config());
    check_all_there();
    rig_close(&rig);
}

/* Offset of the journal's last block with this text. */
static int64_t block_with(const char *needle) {
    static uint8_t bytes[JOURNAL_START + (1 << 20)];
    int64_t found = 0;
    CHECK_EQ_U64(sizeof bytes, rig_read_at(&rig, "journal", bytes, sizeof bytes, 0));
    for (size_t at = JOURNAL_START; at < sizeof bytes; at += 4096) {
        found = memmem(bytes + at, 4096, needle, strlen(needle)) != NULL ? (int64_t)at : found;
    }
    CHECK(found > 0);
    return found;
}

static void accepted_block(void) {
    stored_message_t message;
    char needle[24];
    begin_killed();
    snprintf(needle, sizeof needle, "p%llu", (unsigned long long)last - 2);
    int64_t at = block_with(needle);
    failing_disk((failing_t){.files = FAIL_JOURNAL, .calls = FAIL_READ, .error = EIO, .begin = at, .end = at + 4096});
    rig_refused(&rig, "cannot be read");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    failing_disk((failing_t){0});
    CHECK(rig_alarmed(&rig, "damaged part of the store"));
    stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t seq = 1; seq <= last; seq++) {
        CHECK_EQ_I64(seq == last - 2 ? ENTRY_NONE : ENTRY_FOUND, store_read(stream, seq, &message));
    }
    rig_close(&rig);
}

static void first_block_of_the_journal(void) {
    begin();
    put();
    rig_kill(&rig);
    failing_disk(
        (failing_t){.files = FAIL_JOURNAL, .calls = FAIL_READ, .error = EIO, .begin = 0, .end = JOURNAL_START});
    rig_start(&rig);
    failing_disk((failing_t){0});
    CHECK(rig_alarmed(&rig, "first block"));
    stream = rig_stream(&rig, 1, rig_config());
    check_all_there();
    reopened();
}

/* LMDB's map ends the process over it, with a mark; no start after that ends the same way. */
static void page_of_lmdb(void) {
    begin();
    rig_kill(&rig);
    rig_write_at(&rig, "data.mdb.suspect", "", 0, 0);
    failing_disk((failing_t){.files = FAIL_HOME, .calls = FAIL_READ, .error = EIO, .begin = 3 * 4096, .end = 1 << 30});
    rig_refused(&rig, "it cannot be read");
    rig_refused(&rig, "accept-loss");
    failing_disk((failing_t){0});
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    check_all_there();
    rig_close(&rig);
}

/* The note in LMDB that the store was closed in order stays when there was no room to take it back. */
static void journal_lost_after_a_full_start(void) {
    char path[160];
    begin();
    store_close(rig.store);
    failing_disk((failing_t){.files = FAIL_HOME, .calls = FAIL_WRITE, .error = ENOSPC});
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 3)); /* the journal takes it */
    rig_sync(&rig);
    rig_kill(&rig);
    failing_disk((failing_t){0});
    snprintf(path, sizeof path, "%s/journal", rig.directory);
    CHECK_EQ_I64(0, unlink(path));
    rig_refused(&rig, "the journal is missing");
    rig_write_at(&rig, "accept-loss", "", 0, 0);
    rig_start(&rig);
    CHECK(rig_alarmed(&rig, "the journal is missing"));
    rig_close(&rig);
}

/* A card that takes a second for a sync, while publishers go on and a checkpoint comes to be due. */
static void slow_sync(void) {
    begin();
    put(); /* a checkpoint is to come for it */
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "io.b", "on its way").verdict);
    failing_disk((failing_t){.files = FAIL_JOURNAL, .calls = FAIL_SYNC, .slow = true});
    for (int64_t until = 0; failing_disk_count() == 0 && patient(&until);) { /* handed over; its sync does not end */
        rig_pass(&rig, NS_PER_MS);
        store_tick(rig.store, rig.now);
    }
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "io.b", "waits for the one before").verdict);
    last += 2;
    rig_pass(&rig, 60 * NS_PER_SECOND);
    for (int i = 0; i < 3; i++) { /* what else was due is done */
        store_tick(rig.store, rig.now);
    }
    CHECK(store_next_deadline(rig.store) > rig.now.mono_ns);
    failing_disk((failing_t){0});
    rig_sync(&rig);
    rig_checkpoint(&rig);
    check_all_there();
    rig_close(&rig);
}

int main(void) {
    RUN("while the journal's disk fails publishers are refused and all else is read; it goes on by itself, with "
        "nothing lost",
        journal_fails);
    RUN("while LMDB's disk fails deletions go on; publishing resumes by itself, with nothing lost", lmdb_fails);
    RUN("whichever write of a checkpoint fails, the store goes on by itself", each_write_of_a_checkpoint);
    RUN("whichever sync of a checkpoint fails, the store goes on by itself", each_sync_of_a_checkpoint);
    RUN("LMDB that does not open again is not read; it is served again by itself", cannot_be_opened_again);
    RUN("a block of the journal that cannot be read refuses the start where it is missed, and only there",
        block_of_the_journal);
    RUN("an accepted loss of such a block loses what was in it, and says so", accepted_block);
    RUN("a first block of the journal that cannot be read is written anew, with nothing lost",
        first_block_of_the_journal);
    RUN("a page of LMDB that cannot be read refuses the start after an end by a signal", page_of_lmdb);
    RUN("while a sync of the journal takes long and a checkpoint is due, nothing asks the plane to go round",
        slow_sync);
    RUN("a journal that is lost after a start on a full disk is missed", journal_lost_after_a_full_start);
    return TEST_RESULT();
}
