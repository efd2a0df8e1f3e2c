/* test_store.c: promises of store.h, one by one: durability, time, mirrors, memory, hooks. Rules of publishing and
 * purging are in test_store_rules.c, many streams, subjects and records in test_store_streams.c; test_store_duel.c
 * compares random work with a model; damage and disks are in test_store_damage.c.
 */
#include "store/core.h"
#include "store_rig.h"

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

/* ---- durability -------------------------------------------------------------------------------------------------- */

static void visible_when_durable(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_sync(&rig);
    uint64_t batch = store_batch(rig.store);
    CHECK_EQ_U64(1, rig_put(&rig, stream, "a", "x").seq);
    CHECK_EQ_U64(0, store_stream_visible(stream));
    CHECK(store_durable(rig.store) < batch);
    rig_sync(&rig);
    CHECK_EQ_U64(1, store_stream_visible(stream));
    CHECK(store_durable(rig.store) >= batch);
    rig_close(&rig);
}

static void all_of_a_message(bool crash, bool checkpoint) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    append_t append = {
        .subject = text("box.temp"), .header = text("NATS/1.0\r\nA: b\r\n\r\n"), .payload = text("21.5")};
    appended_t done = store_append(stream, &append, rig.now);
    rig_sync(&rig);
    if (checkpoint) {
        rig_checkpoint(&rig);
    }
    if (crash) {
        rig_crash(&rig);
    } else {
        rig_reopen(&rig);
    }
    stream = rig_stream(&rig, 1, rig_config());
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, done.seq, &message));
    CHECK_EQ_I64(RIG_START, message.ts);
    CHECK_TEXT("box.temp", message.subject.at, message.subject.size);
    CHECK_TEXT("NATS/1.0\r\nA: b\r\n\r\n", message.header.at, message.header.size);
    CHECK_TEXT("21.5", message.payload.at, message.payload.size);
    CHECK_EQ_U64(1, store_stream_visible(stream));
    rig_close(&rig);
}

static void survives_close(void) {
    all_of_a_message(false, false);
}
static void survives_kill(void) {
    all_of_a_message(true, false);
}
static void survives_kill_from_lmdb(void) {
    all_of_a_message(true, true);
}

static void unsynced_is_not_there(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "a", "kept");
    rig_sync(&rig);
    rig_put(&rig, stream, "a", "not handed over");
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(1, rig_state(stream).last_seq);
    CHECK_EQ_U64(2, rig_put(&rig, stream, "a", "again").seq);
    rig_close(&rig);
}

static void replay_goes_on_over_crashes(void) {
    open_rig();
    for (uint64_t round = 1; round <= 20; round++) {
        store_stream_t *stream = rig_stream(&rig, 1, rig_config());
        CHECK_EQ_U64(round - 1, rig_state(stream).messages);
        CHECK_EQ_U64(round, rig_put(&rig, stream, "a", "x").seq);
        rig_sync(&rig);
        rig_crash(&rig);
    }
    rig_close(&rig);
}

static void journal_laps(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static char payload[30001];
    memset(payload, 'p', sizeof payload - 1);
    for (uint64_t i = 1; i <= 300; i++) { /* 9 MB through a journal of 1 MB */
        appended_t done;
        for (int tries = 0; (done = rig_put(&rig, stream, "a", payload)).verdict == APPEND_NO_SPACE && tries < 1000;
             tries++) {
            rig_sync(&rig);
            usleep(1000);
        }
        CHECK_EQ_U64(i, done.seq);
        if (i % 7 == 0) {
            rig_sync(&rig);
        }
    }
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(300, rig_state(stream).messages);
    for (uint64_t i = 1; i <= 300; i++) {
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, i, &message));
        CHECK_EQ_U64(sizeof payload - 1, message.payload.size);
    }
    rig_close(&rig);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static void ages_on_elapsed_time(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.max_age_ns = 60 * NS_PER_SECOND;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    rig.now.wall_ns = 1000 * NS_PER_SECOND; /* 1970: no clock battery */
    store_tick(rig.store, rig.now);
    rig_put(&rig, stream, "a", "x");
    rig.now.wall_ns = RIG_START; /* NTP */
    rig_sync(&rig);
    store_alarm_t alarm;
    CHECK(store_alarm_next(rig.store, &alarm));
    CHECK_EQ_U64(ALARM_CLOCK, alarm.code);
    rig_pass(&rig, 59 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    rig.now.wall_ns -= 3600 * NS_PER_SECOND;
    rig_put(&rig, stream, "a", "y");
    CHECK(rig_state(stream).last_ts >= rig_state(stream).first_ts);
    rig_pass(&rig, 2 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    CHECK_EQ_U64(2, rig_state(stream).first_seq);
    rig_reopen(&rig);
    rig.now.wall_ns = 5000 * NS_PER_SECOND; /* the next boot is in 1970 again; same boot id here, so mono counts */
    stream = rig_stream(&rig, 1, config);
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    rig_pass(&rig, 61 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

static void deadline_is_told(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.max_age_ns = 10 * NS_PER_SECOND;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    rig_put(&rig, stream, "a", "x");
    int64_t end = rig.now.mono_ns + 30 * NS_PER_SECOND;
    int64_t gone = 0;
    while (rig.now.mono_ns < end) { /* sleeps exactly as long as it is told to */
        rig_sync(&rig);
        if (gone == 0 && rig_state(stream).messages == 0) {
            gone = rig.now.mono_ns;
        }
        int64_t next = store_next_deadline(rig.store);
        next = next < end ? next : end;
        rig_pass(&rig, next > rig.now.mono_ns ? next - rig.now.mono_ns : NS_PER_MS);
    }
    CHECK(gone >= 11 * NS_PER_SECOND);
    CHECK(gone < 12 * NS_PER_SECOND);
    rig_close(&rig);
}

static void message_ttl(bool lmdb) {
    open_rig();
    stream_config_t config = rig_config();
    config.max_age_ns = 100 * NS_PER_SECOND;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    append_t append = {.subject = text("a"), .expires_ts = rig.now.wall_ns + 20 * NS_PER_SECOND};
    store_append(stream, &append, rig.now);
    append.expires_ts = -1;
    store_append(stream, &append, rig.now);
    append.expires_ts = 0;
    store_append(stream, &append, rig.now);
    if (lmdb) {
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        stream = rig_stream(&rig, 1, config);
    }
    rig_pass(&rig, 10 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(3, rig_state(stream).messages);
    rig_pass(&rig, 11 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    CHECK_EQ_U64(2, rig_state(stream).first_seq);
    rig_pass(&rig, 100 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    CHECK_EQ_U64(2, rig_state(stream).first_seq);
    rig_close(&rig);
}

static void ttl_in_overlay(void) {
    message_ttl(false);
}
static void ttl_in_lmdb(void) {
    message_ttl(true);
}

/* ---- mirrors, skips ---------------------------------------------------------------------------------------------- */

static void mirror_keeps_sequences(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    append_t append = {.subject = text("a"), .force_seq = 5, .force_ts = 12345};
    CHECK_EQ_U64(5, store_append(stream, &append, rig.now).seq);
    append.force_seq = 9;
    append.force_ts = 12346;
    CHECK_EQ_U64(9, store_append(stream, &append, rig.now).seq);
    append.force_seq = 9;
    CHECK_EQ_U64(APPEND_OUT_OF_ORDER, store_append(stream, &append, rig.now).verdict);
    append.force_seq = UINT64_C(1) << 40;
    CHECK_EQ_U64(UINT64_C(1) << 40, store_append(stream, &append, rig.now).seq);
    CHECK_EQ_U64(5, rig_state(stream).first_seq);
    CHECK_EQ_I64(12345, rig_state(stream).first_ts);
    CHECK_EQ_U64((UINT64_C(1) << 40) - 5 - 2, rig_state(stream).deleted_count);
    rig_checkpoint(&rig);
    stored_message_t message;
    uint64_t from = 6;
    CHECK_EQ_I64(SEEK_FOUND, store_next(stream, (filters_t){0}, &from, UINT64_MAX, 4, &message));
    CHECK_EQ_U64(9, message.seq);
    CHECK_EQ_I64(12346, message.ts);
    rig_close(&rig);
}

static void skipped_take_a_sequence(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    append_t append = {.subject = text("a"), .msg_id = text("id"), .skip = true};
    appended_t out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_SKIPPED, out.verdict);
    CHECK_EQ_U64(1, out.seq);
    CHECK_EQ_U64(APPEND_DUPLICATE, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(2, rig_state(stream).first_seq);
    CHECK_EQ_U64(2, rig_put(&rig, stream, "a", "x").seq);
    rig_close(&rig);
}

static void first_sequence(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.first_seq = 100;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    CHECK_EQ_U64(100, rig_state(stream).first_seq);
    CHECK_EQ_U64(99, rig_state(stream).last_seq);
    CHECK_EQ_U64(100, rig_put(&rig, stream, "a", "x").seq);
    rig_close(&rig);
}

static void source_progress(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    append_t append = {.subject = text("a"), .source_key = text("origin:1"), .source_seq = 77};
    store_append(stream, &append, rig.now);
    rig_sync(&rig);
    rig_crash(&rig);
    rig_stream(&rig, 1, rig_config());
    bytes_t value;
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_SOURCE, bytes_of("\0\0\0\1origin:1", 12), &value));
    CHECK_EQ_U64(77, load_be64(value.at));
    rig_close(&rig);
}

static void memory_store(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.memory = true};
    rig_open(&rig);
    CHECK_EQ_I64(-1, store_wake_fd(rig.store));
    stream_config_t config = rig_config();
    config.storage = 1;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (int i = 0; i < 100; i++) {
        rig_put(&rig, stream, "a", "x");
    }
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(100, store_stream_visible(stream));
    rig_checkpoint(&rig);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 50, &message));
    rig_reopen(&rig);
    stream = rig_stream(&rig, 1, config);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

static void synced_at_the_interval(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.sync_interval_ns = 3600 * NS_PER_SECOND};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 0; i < 50; i++) {
        rig_put(&rig, stream, "a", "x");
        rig_sync(&rig);
    }
    CHECK_EQ_U64(50, store_stream_visible(stream));
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    CHECK(stats.journal_syncs <= stats.checkpoints + 1); /* LMDB gets only what is synced */
    CHECK(stats.journal_batches >= 50);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(50, rig_state(stream).messages);
    rig_close(&rig);
}

static uint64_t hook_appended;
static uint64_t hook_removed;
static void on_appended(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    (void)context;
    (void)stream;
    CHECK(size >= subject.size);
    hook_appended += seq * subject.size;
}
static void on_removed(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject, uint64_t size) {
    (void)context;
    (void)stream;
    CHECK(size >= subject.size);
    hook_removed += seq * subject.size;
}

static void hooks_hear_everything(void) {
    open_rig();
    hook_appended = hook_removed = 0;
    store_set_hooks(rig.store, (store_hooks_t){.appended = on_appended, .removed = on_removed});
    stream_config_t config = rig_config();
    config.max_msgs = 5;
    config.max_age_ns = 50 * NS_PER_SECOND;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (int i = 0; i < 9; i++) {
        rig_put(&rig, stream, i % 2 == 0 ? "aa" : "bbb", "x");
    }
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 7));
    rig_checkpoint(&rig);
    CHECK(rig_purge(stream, text("bbb"), 0, 0) > 0);
    rig_pass(&rig, 60 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(hook_appended, hook_removed);
    CHECK_EQ_U64(2 * (1 + 3 + 5 + 7 + 9) + 3 * (2 + 4 + 6 + 8), hook_appended);
    rig_close(&rig);
}

static void some_bytes(store_stream_t *stream, size_t bytes) {
    static char payload[1 << 10];
    memset(payload, 'x', sizeof payload - 1);
    for (size_t done = 0; done < bytes; done += sizeof payload) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", payload).verdict);
    }
}

static void rests_after_a_load(void) {
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    some_bytes(stream, 600 << 10);
    rig_checkpoint(&rig);
    some_bytes(stream, 600 << 10);
    rig_sync(&rig);
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    CHECK(stats.overlay_bytes > 600 << 10);
    uint64_t noted = stats.memory_overlay;
    int64_t rest_ns = store_next_deadline(rig.store) - rig.now.mono_ns;
    CHECK(rest_ns <= NS_PER_SECOND / 4);
    rig_pass(&rig, NS_PER_SECOND / 4);
    rig_committed(&rig);
    stats = (plane_stats_t){0};
    store_stats(rig.store, &stats);
    CHECK(stats.memory_overlay < noted);
    rig_close(&rig);
}

static plane_stats_t stats_now(void) {
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    return stats;
}

static void keeps_memory_under_load(void) {
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    while (rig.store->pipeline.boundary == 0) { /* no time passes */
        some_bytes(stream, 64 << 10);
        rig_sync(&rig);
    }
    rig_committed(&rig); /* and there is no batch behind it */
    uint64_t noted = stats_now().memory_overlay;
    CHECK(noted >= 16 << 10);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(noted, stats_now().memory_overlay);
    CHECK(store_next_deadline(rig.store) - rig.now.mono_ns <= NS_PER_SECOND / 4);
    rig_pass(&rig, NS_PER_SECOND / 4);
    store_tick(rig.store, rig.now);
    CHECK(stats_now().memory_overlay < noted);
    CHECK(store_next_deadline(rig.store) > rig.now.mono_ns + NS_PER_SECOND / 4);
    rig_close(&rig);
}

int main(void) {
    RUN("a message is visible when its batch is durable, not before", visible_when_durable);
    RUN("a message is whole after an orderly restart", survives_close);
    RUN("a message is whole after a kill", survives_kill);
    RUN("a message is whole after a kill behind a checkpoint", survives_kill_from_lmdb);
    RUN("what was not handed over is not there after a kill, and its sequence is free", unsynced_is_not_there);
    RUN("twenty kills in a row lose and double nothing", replay_goes_on_over_crashes);
    RUN("the journal's circle can be lapped many times", journal_laps);
    RUN("max_age counts elapsed time, whatever the wall clock does", ages_on_elapsed_time);
    RUN("sleeping until the told deadline expires messages in time", deadline_is_told);
    RUN("a message's own expiry is kept in the overlay, and 'never' is exempt from max_age", ttl_in_overlay);
    RUN("a message's own expiry is kept in LMDB, and 'never' is exempt from max_age", ttl_in_lmdb);
    RUN("a mirror keeps sequences and stamps, gaps are deleted ones", mirror_keeps_sequences);
    RUN("a skipped message takes a sequence and its id", skipped_take_a_sequence);
    RUN("a stream begins at first_seq", first_sequence);
    RUN("a source's progress is in the batch of its message", source_progress);
    RUN("a memory store is durable at once and empty after a restart", memory_store);
    RUN("with a sync interval batches are not synced one by one, and a killed process loses nothing",
        synced_at_the_interval);
    RUN("the hooks hear of every message in and out", hooks_hear_everything);
    RUN("a store that rests after a load has its checkpoint soon, and then gives memory back", rests_after_a_load);
    RUN("a store that is written to keeps its memory behind a checkpoint, until it rests", keeps_memory_under_load);
    return TEST_RESULT();
}
