/* test_store_room.c: a store whose disk is full, file and memory alike: publishers are refused, removals make room that
 * can be used while the disk stays full, and nothing acknowledged is lost. test_store_duel.c has the same with
 * everything at random; tests/crash has a real disk.
 */
#include "full_disk.h"
#include "store_rig.h"

static rig_t rig;
static char payload[1001];

static void open_rig(bool memory) {
    rig = (rig_t){.options.memory = memory};
    memset(payload, 'r', sizeof payload - 1);
    atomic_store(&full_disk_reserved, 0);
    rig_open(&rig);
}

static void pass(void) {
    rig_pass(&rig, 300 * NS_PER_MS);
    store_tick(rig.store, rig.now);
    usleep(1000);
}

static uint64_t put_until_refused(store_stream_t *stream, uint64_t most) {
    uint64_t last = 0;
    uint32_t refused = 0;
    for (uint64_t i = 0; i < most && refused < 300; i++) {
        appended_t done = rig_put(&rig, stream, "room", payload);
        refused = done.verdict == APPEND_NO_SPACE ? refused + 1 : 0;
        last = done.verdict == APPEND_STORED ? done.seq : last;
        if (i % 50 == 0 || refused > 0) {
            pass();
        }
    }
    return last;
}

static uint64_t put_until_taken(store_stream_t *stream) {
    for (int64_t until = 0; patient(&until);) {
        appended_t done = rig_put(&rig, stream, "room", payload);
        if (done.verdict == APPEND_STORED) {
            return done.seq;
        }
        pass();
    }
    FAIL("publishing does not resume");
}

static void purge_makes_room(bool memory) {
    stored_message_t message;
    open_rig(memory);
    store_stream_t *keep = rig_stream(&rig, 1, rig_config());
    store_stream_t *spare = rig_stream(&rig, 2, rig_config());
    rig_put(&rig, keep, "room", payload);
    uint64_t before = 0;
    while (before < 8000) {
        before = put_until_taken(spare); /* the ring may be full for a moment */
    }
    rig_checkpoint(&rig);
    full_disk(FULL_BLOCKS);
    uint64_t last = put_until_refused(keep, memory ? 3000 : 200000);
    CHECK(last < 100000);
    CHECK_EQ_I64(ENTRY_FOUND, store_read(keep, last, &message));
    CHECK_EQ_I64(STATUS_OK, store_delete(keep, 2));
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text("k"), text("progress")));
    CHECK_EQ_U64(before, rig_purge(spare, BYTES_NONE, 0, 0));
    uint64_t taken = put_until_taken(keep);
    CHECK_EQ_U64(last + 1, taken);
    full_disk(FULL_OFF);
    CHECK_EQ_U64(taken + 1, put_until_taken(keep));
    rig_checkpoint(&rig);
    for (uint64_t seq = 1; seq <= taken + 1; seq++) {
        CHECK_EQ_I64(seq == 2 ? ENTRY_NONE : ENTRY_FOUND, store_read(keep, seq, &message));
    }
    rig_close(&rig);
}

static void file_purge(void) {
    purge_makes_room(false);
}

static void memory_purge(void) {
    purge_makes_room(true);
}

static bool no_visit(void *context, uint64_t seq) {
    *(uint64_t *)context = seq;
    return true;
}

static void rows_end(void) {
    open_rig(false);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint64_t i = 0; i < 200; i++) {
        rig_put(&rig, stream, "room", "x");
    }
    rig_checkpoint(&rig);
    for (uint64_t seq = 50; seq < 150; seq++) {
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
    }
    rig_checkpoint(&rig);
    uint64_t from = 1;
    uint64_t newest = 0;
    step_outcome_t step = STEP_MORE;
    for (int slices = 0; slices < 1000 && step == STEP_MORE; slices++) {
        step = store_deleted(stream, &from, UINT64_MAX, 5, no_visit, &newest);
    }
    CHECK_EQ_I64(STEP_OVER, step);
    CHECK_EQ_U64(149, newest);
    rig_close(&rig);
}

int main(void) {
    RUN("on a full disk a purge makes room that is really usable", file_purge);
    RUN("the same holds for memory streams on a full tmpfs", memory_purge);
    RUN("a listing of deletions ends, however long their row and short its slices", rows_end);
    return TEST_RESULT();
}
