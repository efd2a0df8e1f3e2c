/* test_store_io.c: a disk that fails: writes, syncs and reads of either file, for a moment or for good, with each error that a file system
 * gives. What must hold each time: nothing that was durable is lost, publishers are refused while it fails, what was stored is read, the store
 * goes on by itself when the disk does, and a start that cannot be is refused in one line that says what to do.
 */
#include <sys/resource.h>

#include "failing_disk.h"
#include "store/journal.h"
#include "store_rig.h"

#define EARLIER 20
#define PATIENCE 4000 /* rounds of a millisecond */

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
        CHECK_EQ_I64(STATUS_OK, store_read(stream, seq, &message));
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
    for (int i = 0; i < PATIENCE; i++) {
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
        CHECK_EQ_I64(STATUS_OK, store_read(stream, seq, &message));
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

/* ---- for a while ---- */

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

/* Home takes nothing for a while, longer than one try. */
static void home_fails(void) {
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
static void home_fails_once(int calls) {
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
    home_fails_once(FAIL_WRITE);
}

static void each_sync_of_a_checkpoint(void) {
    home_fails_once(FAIL_SYNC);
}

int main(void) {
    RUN("while the journal's disk fails publishers are refused and all else is read; it goes on by itself, with nothing lost", journal_fails);
    RUN("while home's disk fails deletions go on; publishing resumes by itself, with nothing lost", home_fails);
    RUN("whichever write of a checkpoint fails, the store goes on by itself", each_write_of_a_checkpoint);
    RUN("whichever sync of a checkpoint fails, the store goes on by itself", each_sync_of_a_checkpoint);
    return TEST_RESULT();
}
