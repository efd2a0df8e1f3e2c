/* test_store_purge.c: a purge that takes all of a stream: one step and one small record, however many messages and
 * subjects there are, and a crash finds all of them or none. Purges of some of them, in slices: test_store_slices.c.
 */
#include "disk/keys.h"
#include "store/core.h"
#include "store_rig.h"

#define MANY 20000u

static rig_t rig;
static store_stream_t *stream;

/* Each message has a subject of its own; half of them are in LMDB, half in the journal. */
static void begin_with(uint32_t count, stream_config_t config) {
    rig = (rig_t){.options.journal_size = 8 << 20};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, config);
    for (uint32_t i = 1; i <= count; i++) {
        char name[32];
        snprintf(name, sizeof name, "p.%u", i);
        CHECK_EQ_U64(i, rig_put(&rig, stream, name, "x").seq);
        while (!store_room(rig.store)) {
            rig_sync(&rig);
        }
        if (i == count / 2) {
            rig_checkpoint(&rig);
        }
    }
    rig_sync(&rig);
}

static void begin(uint32_t count) {
    begin_with(count, rig_config());
}

static void crash(void) {
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

static uint64_t journaled(void) {
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    return stats.journal_bytes;
}

static bool count_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)subject, (void)count, (void)last_seq;
    ++*(uint64_t *)context;
    return true;
}

static uint64_t subjects_of(const char *pattern) {
    uint64_t subjects = 0;
    CHECK_EQ_I64(STATUS_OK, store_subjects(stream, text(pattern), count_subject, &subjects));
    return subjects;
}

/* Nothing is left of the first `last` messages, and nothing else is there. */
static void check_empty(uint64_t last) {
    stored_message_t message;
    stream_state_t state = rig_state(stream);
    uint64_t from = 0;
    CHECK_EQ_U64(0, state.messages);
    CHECK_EQ_U64(0, state.bytes);
    CHECK_EQ_U64(0, state.subjects);
    CHECK_EQ_U64(last, state.last_seq);
    CHECK_EQ_U64(last + 1, state.first_seq);
    CHECK_EQ_U64(0, subjects_of("p.*"));
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, last, &message));
    CHECK_EQ_I64(SEEK_NONE, store_next(stream, (filters_t){0}, &from, UINT64_MAX, MANY, &message));
    CHECK_EQ_I64(ENTRY_NONE, store_last_by_subject(stream, text("p.1"), UINT64_MAX, &message));
    CHECK_EQ_I64(ENTRY_NONE, store_last_by_subject(stream, text("p.>"), UINT64_MAX, &message));
    CHECK(store_sound(rig.store));
}

static void one_step(void) {
    begin(MANY);
    store_purge_t purge = {0};
    uint64_t purged;
    step_outcome_t step;
    uint64_t before = journaled();
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
    CHECK_EQ_U64(STEP_OVER, step);
    CHECK_EQ_U64(MANY, purged);
    check_empty(MANY);
    rig_sync(&rig);
    CHECK(journaled() - before <= 2 * UINT64_C(4096)); /* a batch, or two: one block each */
    rig_checkpoint(&rig);
    check_empty(MANY);
    rig_close(&rig);
}

static void all_or_none(void) {
    begin(MANY);
    CHECK_EQ_U64(MANY, rig_purge(stream, BYTES_NONE, 0, 0));
    crash(); /* the batch was not closed */
    CHECK_EQ_U64(MANY, rig_state(stream).messages);
    CHECK_EQ_U64(MANY, rig_state(stream).subjects);
    CHECK_EQ_U64(MANY, subjects_of("p.>"));
    CHECK_EQ_U64(MANY, rig_purge(stream, BYTES_NONE, 0, 0));
    rig_sync(&rig);
    crash();
    check_empty(MANY);
    rig_checkpoint(&rig);
    crash();
    check_empty(MANY);
    rig_close(&rig);
}

/* What is in LMDB of them, and in the caches, is passed over by all that is asked. */
static void the_same_subjects_again(void) {
    begin(MANY);
    CHECK_EQ_U64(MANY, rig_purge(stream, BYTES_NONE, 0, 0));
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 1; i <= 3; i++) {
            char name[32];
            snprintf(name, sizeof name, "p.%u", i * MANY / 3);
            (void)rig_put(&rig, stream, name, "y");
        }
        CHECK_EQ_U64(3, rig_state(stream).subjects);
        CHECK_EQ_U64(3, subjects_of("p.*"));
        bytes_t one = text("p.20000");
        CHECK_EQ_U64(round + 1, store_count(stream, (filters_t){.patterns = &one, .count = 1}, 0));
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text("p.>"), UINT64_MAX, &message));
        CHECK_EQ_U64(MANY + 3 * (round + 1), message.seq);
        if (round == 0) {
            rig_sync(&rig);
        } else {
            rig_checkpoint(&rig);
        }
    }
    crash();
    CHECK_EQ_U64(9, rig_state(stream).messages);
    CHECK_EQ_U64(3, subjects_of(">"));
    rig_close(&rig);
}

/* A message id counts for its window, whatever became of the message. */
static void ids_stay(void) {
    begin(100);
    CHECK_EQ_U64(101, rig_put_id(&rig, stream, "p.1", "one").seq);
    CHECK_EQ_U64(101, rig_purge(stream, BYTES_NONE, 0, 0));
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "p.1", "one").verdict);
    rig_sync(&rig);
    crash();
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "p.1", "one").verdict);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

/* Neither what a schedule was to do, nor the end of a time to live, comes up for a message that has gone. */
static uint32_t fired;

static store_due_t on_due(void *context, store_stream_t *which, uint64_t seq, int64_t due_ts) {
    (void)context, (void)which, (void)seq, (void)due_ts;
    fired++;
    return STORE_DUE_DONE;
}

static void times_end(void) {
    begin(50);
    store_set_hooks(rig.store, (store_hooks_t){.due = on_due});
    for (uint32_t round = 0; round < 2; round++) {
        append_t timed = {.subject = text("p.timed"), .expires_ts = rig.now.wall_ns + 60 * NS_PER_SECOND};
        append_t scheduled = {.subject = text("p.scheduled"), .due_ts = rig.now.wall_ns + 60 * NS_PER_SECOND};
        for (uint32_t i = 0; i < 40; i++) {
            CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &timed).verdict);
            CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &scheduled).verdict);
        }
        if (round == 0) {
            rig_checkpoint(&rig);
        }
    }
    uint64_t last = rig_state(stream).last_seq;
    CHECK_EQ_U64(last, rig_purge(stream, BYTES_NONE, 0, 0));
    append_t later = {.subject = text("p.later"), .expires_ts = rig.now.wall_ns + 90 * NS_PER_SECOND};
    CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &later).verdict);
    fired = 0;
    for (uint32_t i = 0; i < 70; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        rig_sync(&rig);
    }
    CHECK_EQ_U64(0, fired);
    CHECK_EQ_U64(1, rig_state(stream).messages); /* its own time is still to come */
    for (uint32_t i = 0; i < 30; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        rig_sync(&rig);
    }
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

/* Another stream's heads lie beside those that go. */
static void others_stay(void) {
    begin(1000);
    store_stream_t *other = rig_stream(&rig, 2, rig_config());
    for (uint32_t i = 0; i < 100; i++) {
        (void)rig_put(&rig, other, i % 2 == 0 ? "p.1" : "p.2", "x");
    }
    rig_sync(&rig);
    CHECK_EQ_U64(1000, rig_purge(stream, BYTES_NONE, 0, 0));
    rig_checkpoint(&rig);
    bytes_t one = text("p.1");
    CHECK_EQ_U64(50, store_count(other, (filters_t){.patterns = &one, .count = 1}, 0));
    CHECK_EQ_U64(2, rig_state(other).subjects);
    CHECK_EQ_U64(100, rig_state(other).messages);
    rig_close(&rig);
}

/* A range that holds all of a stream's messages leaves none of the pages that they took: what comes is the first. */
static void pages_are_given_back(void) {
    begin(MANY);
    rig_checkpoint(&rig);
    for (uint32_t round = 0; round < 3; round++) {
        uint64_t last = rig_state(stream).last_seq;
        CHECK_EQ_U64(round == 0 ? MANY : 2 * MANY / 4, rig_purge(stream, BYTES_NONE, 0, 0));
        rig_checkpoint(&rig);
        check_empty(last);
        for (uint32_t i = 0; i < MANY / 2; i++) {
            (void)rig_put(&rig, stream, "p.1", "z");
            while (!store_room(rig.store)) {
                rig_sync(&rig);
            }
        }
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        stream = rig_stream(&rig, 1, rig_config());
        stored_message_t message;
        CHECK_EQ_U64(MANY / 2, rig_state(stream).messages);
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, last + 1, &message));
        CHECK_EQ_I64(ENTRY_NONE, store_read(stream, last, &message));
    }
    rig_close(&rig);
}

int main(void) {
    RUN("a purge of everything is one step and one small record, however many subjects go", one_step);
    RUN("a crash finds all of what was purged together, or none of it", all_or_none);
    RUN("subjects that come again begin anew, whatever LMDB still has of them", the_same_subjects_again);
    RUN("message ids are known after a purge of everything", ids_stay);
    RUN("schedules and times to live end with their messages", times_end);
    RUN("what another stream has on the same subjects stays", others_stay);
    RUN("a stream that was purged is filled and purged again", pages_are_given_back);
    return TEST_RESULT();
}
