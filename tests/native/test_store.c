/* test_store.c: promises of store.h, one by one. Expected values are what nats-server 2.15.1 answered to the same steps, or follow from
 * the seam. The duel (test_store_duel.c) has the breadth; damage and disks are in test_store_damage.c.
 */
#include "store_rig.h"

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

static appended_t put_id(store_stream_t *stream, const char *subject, const char *id) {
    append_t append = {.subject = text(subject), .payload = text("r"), .msg_id = text(id)};
    return store_append(stream, &append, rig.now);
}

static stream_state_t state_of(store_stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream, &state);
    return state;
}

/* ---- durability ---- */

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
    append_t append = {.subject = text("box.temp"), .header = text("NATS/1.0\r\nA: b\r\n\r\n"), .payload = text("21.5")};
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
    CHECK_EQ_I64(STATUS_OK, store_read(stream, done.seq, &message));
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
static void survives_kill_from_home(void) {
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
    CHECK_EQ_U64(1, state_of(stream).last_seq);
    CHECK_EQ_U64(2, rig_put(&rig, stream, "a", "again").seq);
    rig_close(&rig);
}

static void replay_goes_on_over_crashes(void) {
    open_rig();
    for (uint64_t round = 1; round <= 20; round++) {
        store_stream_t *stream = rig_stream(&rig, 1, rig_config());
        CHECK_EQ_U64(round - 1, state_of(stream).messages);
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
        for (int tries = 0; (done = rig_put(&rig, stream, "a", payload)).verdict == APPEND_NO_SPACE && tries < 1000; tries++) {
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
    CHECK_EQ_U64(300, state_of(stream).messages);
    for (uint64_t i = 1; i <= 300; i++) {
        stored_message_t message;
        CHECK_EQ_I64(STATUS_OK, store_read(stream, i, &message));
        CHECK_EQ_U64(sizeof payload - 1, message.payload.size);
    }
    rig_close(&rig);
}

/* ---- publish rules ---- */

static void ids(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_STORED, put_id(stream, "a", "one").verdict);
    appended_t again = put_id(stream, "b", "one");
    CHECK_EQ_U64(APPEND_DUPLICATE, again.verdict);
    CHECK_EQ_U64(1, again.seq);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", "one").verdict);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", "one").verdict);
    rig_checkpoint(&rig);
    rig_pass(&rig, 100 * NS_PER_SECOND);
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", "one").verdict);
    rig_pass(&rig, 30 * NS_PER_SECOND);
    CHECK_EQ_U64(APPEND_STORED, put_id(stream, "a", "one").verdict);
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", "one").verdict);
    rig_close(&rig);
}

static void old_ids_are_swept(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    char id[600];
    for (uint32_t i = 0; i < 50; i++) {
        memset(id, 'i', sizeof id);
        snprintf(id + 500, 90, "-%u", i); /* longer than a key can be */
        CHECK_EQ_U64(APPEND_STORED, put_id(stream, "a", i % 2 == 0 ? id : id + 490).verdict);
    }
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", id + 490).verdict);
    rig_checkpoint(&rig);
    CHECK_EQ_U64(APPEND_DUPLICATE, put_id(stream, "a", id + 490).verdict);
    rig_pass(&rig, 300 * NS_PER_SECOND);
    rig_checkpoint(&rig);
    rig_checkpoint(&rig);
    /* A window that grew again would find them if they were still there. */
    stream_config_t config = rig_config();
    config.duplicate_window_ns = 3600 * NS_PER_SECOND;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(APPEND_STORED, put_id(stream, "a", id + 490).verdict);
    rig_close(&rig);
}

static void expectations(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    put_id(stream, "w.1", "one");
    append_t append = {.subject = text("w.1"), .msg_id = text("one"), .has_expected_msg_id = true, .expected_msg_id = text("zz")};
    CHECK_EQ_U64(APPEND_DUPLICATE, store_append(stream, &append, rig.now).verdict);
    append.msg_id = BYTES_NONE;
    appended_t out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_MSG_ID, out.verdict);
    CHECK_TEXT("one", out.last_msg_id.at, out.last_msg_id.size);
    CHECK_EQ_U64(2, rig_put(&rig, stream, "w.1", "no id").seq);
    append.expected_msg_id = text("one");
    out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_MSG_ID, out.verdict);
    CHECK_EQ_U64(0, out.last_msg_id.size);
    append = (append_t){.subject = text("w.1"), .msg_id = text("one"), .has_expected_last_seq = true, .expected_last_seq = 7};
    out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, out.verdict);
    CHECK_EQ_U64(2, out.seq);
    append = (append_t){.subject = text("w.1"), .has_expected_subject_seq = true, .expected_subject = text("w.*")};
    out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, out.verdict);
    CHECK_EQ_U64(2, out.seq);
    uint64_t purged;
    bool more;
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, BYTES_NONE, 0, 0, &purged, &more));
    append = (append_t){.subject = text("w.1"), .has_expected_subject_seq = true};
    CHECK_EQ_U64(3, store_append(stream, &append, rig.now).seq);
    append = (append_t){.subject = text("w.1"), .has_expected_last_seq = true, .expected_last_seq = 3};
    CHECK_EQ_U64(4, store_append(stream, &append, rig.now).seq);
    append = (append_t){.subject = text("w.1"), .rollup = 1};
    stream_config_t config = rig_config();
    config.flags = 0;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(APPEND_NO_ROLLUP, store_append(stream, &append, rig.now).verdict);
    config.flags = STREAM_SEALED;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(APPEND_SEALED, rig_put(&rig, stream, "w.1", "x").verdict);
    rig_close(&rig);
}

static void sizes(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.max_msg_size = 10;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a", "0123456789").verdict);
    CHECK_EQ_U64(APPEND_TOO_LARGE, rig_put(&rig, stream, "a", "0123456789a").verdict);
    append_t append = {.subject = text("a"), .header = text("NATS/1.0\r\n\r\n")};
    CHECK_EQ_U64(APPEND_TOO_LARGE, store_append(stream, &append, rig.now).verdict);
    config.max_msg_size = -1;
    store_stream_configure(stream, &config, rig.now);
    static uint8_t header[65536];
    append.header = bytes_of(header, sizeof header);
    CHECK_EQ_U64(APPEND_HEADER_TOO_LARGE, store_append(stream, &append, rig.now).verdict);
    append.header = bytes_of(header, 65535);
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(2, state_of(stream).last_seq);
    rig_close(&rig);
}

static void accounting(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "Rf.0", "x");
    CHECK_EQ_U64(35, state_of(stream).bytes);
    append_t append = {.subject = text("Vf.1"), .header = text("NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"), .payload = text("r")};
    store_append(stream, &append, rig.now);
    CHECK_EQ_U64(35 + 34 + 4 + 30 + 1, state_of(stream).bytes);
    stream_config_t config = rig_config();
    config.storage = 1;
    store_stream_t *memory = rig_stream(&rig, 2, config);
    rig_put(&rig, memory, "Rm.0", "x");
    CHECK_EQ_U64(21, state_of(memory).bytes);
    rig_close(&rig);
}

static void oversized_for_the_stream(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.max_bytes = 200;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    for (int i = 0; i < 3; i++) {
        rig_put(&rig, stream, i == 0 ? "Sf.0" : i == 1 ? "Sf.1" : "Sf.2", "yyyyyyyyyyyyyyyyyyyy");
    }
    CHECK_EQ_U64(162, state_of(stream).bytes);
    static char big[501];
    memset(big, 'z', 500);
    appended_t done = rig_put(&rig, stream, "Sf.big", big);
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    CHECK_EQ_U64(4, done.seq);
    CHECK_EQ_U64(0, state_of(stream).messages);
    CHECK_EQ_U64(5, state_of(stream).first_seq);
    CHECK_EQ_U64(4, state_of(stream).last_seq);
    rig_close(&rig);
}

static void discard_new_replaces(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.discard = 1;
    config.max_bytes = 150;
    config.max_msgs_per_subject = 1;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    static const struct {
        const char *subject;
        uint32_t size;
        append_verdict_t verdict;
        uint64_t bytes;
    } steps[] = {{"Uf.a", 10, APPEND_STORED, 44},     {"Uf.b", 60, APPEND_STORED, 138}, {"Uf.a", 10, APPEND_STORED, 138},
                 {"Uf.a", 11, APPEND_MAX_BYTES, 138}, {"Uf.b", 5, APPEND_STORED, 83},   {"Uf.a", 30, APPEND_STORED, 103}};
    static const uint8_t payload[64];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        append_t append = {.subject = text(steps[i].subject), .payload = bytes_of(payload, steps[i].size)};
        CHECK_EQ_U64(steps[i].verdict, store_append(stream, &append, rig.now).verdict);
        CHECK_EQ_U64(steps[i].bytes, state_of(stream).bytes);
    }
    rig_close(&rig);
}

static void rollups(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 0; i < 6; i++) {
        rig_put(&rig, stream, i % 2 == 0 ? "Vf.0" : "Vf.1", "x");
    }
    append_t append = {.subject = text("Vf.1"), .payload = text("r"), .rollup = 1};
    CHECK_EQ_U64(7, store_append(stream, &append, rig.now).seq);
    CHECK_EQ_U64(4, state_of(stream).messages);
    CHECK_EQ_U64(3, state_of(stream).deleted_count);
    append = (append_t){.subject = text("Vf.0"), .payload = text("r"), .rollup = 2};
    CHECK_EQ_U64(8, store_append(stream, &append, rig.now).seq);
    CHECK_EQ_U64(1, state_of(stream).messages);
    CHECK_EQ_U64(8, state_of(stream).first_seq);
    rig_close(&rig);
}

static void purges(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    uint64_t purged;
    bool more;
    CHECK_EQ_U64(0, state_of(stream).first_seq);
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, BYTES_NONE, 0, 0, &purged, &more));
    CHECK_EQ_U64(1, state_of(stream).first_seq);
    for (int i = 0; i < 10; i++) {
        rig_put(&rig, stream, "Pf.1", "x");
    }
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, BYTES_NONE, 11, 0, &purged, &more));
    CHECK_EQ_U64(10, purged);
    CHECK_EQ_U64(11, state_of(stream).first_seq);
    CHECK_EQ_U64(10, state_of(stream).last_seq);
    CHECK_EQ_I64(RIG_START, state_of(stream).last_ts);
    CHECK_EQ_I64(0, state_of(stream).first_ts);
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, BYTES_NONE, 12, 0, &purged, &more));
    CHECK_EQ_U64(0, purged);
    CHECK_EQ_U64(12, state_of(stream).first_seq);
    CHECK_EQ_U64(11, state_of(stream).last_seq);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(12, rig_put(&rig, stream, "Pf.1", "x").seq);
    rig_close(&rig);
}

/* ---- time ---- */

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
    CHECK_EQ_U64(1, state_of(stream).messages);
    rig.now.wall_ns -= 3600 * NS_PER_SECOND;
    rig_put(&rig, stream, "a", "y");
    CHECK(state_of(stream).last_ts >= state_of(stream).first_ts);
    rig_pass(&rig, 2 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, state_of(stream).messages);
    CHECK_EQ_U64(2, state_of(stream).first_seq);
    rig_reopen(&rig);
    rig.now.wall_ns = 5000 * NS_PER_SECOND; /* the next boot is in 1970 again; same boot id here, so mono counts */
    stream = rig_stream(&rig, 1, config);
    rig_sync(&rig);
    CHECK_EQ_U64(1, state_of(stream).messages);
    rig_pass(&rig, 61 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, state_of(stream).messages);
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
        if (gone == 0 && state_of(stream).messages == 0) {
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

static void message_ttl(bool home) {
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
    if (home) {
        rig_checkpoint(&rig);
        rig_reopen(&rig);
        stream = rig_stream(&rig, 1, config);
    }
    rig_pass(&rig, 10 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(3, state_of(stream).messages);
    rig_pass(&rig, 11 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(2, state_of(stream).messages);
    CHECK_EQ_U64(2, state_of(stream).first_seq);
    rig_pass(&rig, 100 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, state_of(stream).messages);
    CHECK_EQ_U64(2, state_of(stream).first_seq);
    rig_close(&rig);
}

static void ttl_young(void) {
    message_ttl(false);
}
static void ttl_home(void) {
    message_ttl(true);
}

/* ---- mirrors, skips ---- */

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
    CHECK_EQ_U64(5, state_of(stream).first_seq);
    CHECK_EQ_I64(12345, state_of(stream).first_ts);
    CHECK_EQ_U64((UINT64_C(1) << 40) - 5 - 2, state_of(stream).deleted_count);
    rig_checkpoint(&rig);
    stored_message_t message;
    uint64_t from = 6;
    CHECK_EQ_I64(STATUS_OK, store_next(stream, (filters_t){0}, &from, UINT64_MAX, 4, &message));
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
    CHECK_EQ_U64(0, state_of(stream).messages);
    CHECK_EQ_U64(2, state_of(stream).first_seq);
    CHECK_EQ_U64(2, rig_put(&rig, stream, "a", "x").seq);
    rig_close(&rig);
}

static void first_sequence(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.first_seq = 100;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    CHECK_EQ_U64(100, state_of(stream).first_seq);
    CHECK_EQ_U64(99, state_of(stream).last_seq);
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
    CHECK_EQ_I64(STATUS_OK, store_record_get(rig.store, RECORD_SOURCE, bytes_of("\0\0\0\1origin:1", 12), &value));
    CHECK_EQ_U64(77, load_be64(value.at));
    rig_close(&rig);
}

/* ---- records ---- */

typedef struct gathered {
    char text[256];
} gathered_t;

static bool gather(void *context, bytes_t key, bytes_t value) {
    gathered_t *gathered = context;
    size_t at = strlen(gathered->text);
    snprintf(gathered->text + at, sizeof gathered->text - at, "%.*s=%.*s ", (int)key.size, (const char *)key.at, (int)value.size,
             (const char *)value.at);
    return true;
}

static void check_records(const char *expected, const char *prefix, const char *after) {
    gathered_t gathered = {0};
    CHECK_EQ_I64(STATUS_OK, store_record_each(rig.store, RECORD_CONTROL, text(prefix), text(after), gather, &gathered));
    CHECK_TEXT(expected, gathered.text, strlen(gathered.text));
}

static void put_record(const char *key, const char *value) {
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text(key), text(value)));
}

static void records_merge(void) {
    open_rig();
    put_record("a1", "1");
    put_record("a2", "2");
    put_record("b1", "3");
    put_record("c1", "4");
    check_records("a1=1 a2=2 b1=3 c1=4 ", "", "");
    rig_checkpoint(&rig);
    check_records("a1=1 a2=2 b1=3 c1=4 ", "", "");
    put_record("a3", "5");
    put_record("b1", "6");
    CHECK_EQ_I64(STATUS_OK, store_record_delete(rig.store, RECORD_CONTROL, text("a1")));
    check_records("a2=2 a3=5 b1=6 c1=4 ", "", "");
    check_records("a2=2 a3=5 ", "a", "");
    check_records("b1=6 c1=4 ", "", "a3");
    CHECK_EQ_I64(STATUS_OK, store_record_delete_prefix(rig.store, RECORD_CONTROL, text("a")));
    check_records("b1=6 c1=4 ", "", "");
    put_record("a2", "7");
    check_records("a2=7 b1=6 c1=4 ", "", "");
    bytes_t value;
    CHECK_EQ_I64(STATUS_NOT_FOUND, store_record_get(rig.store, RECORD_CONTROL, text("a3"), &value));
    rig_sync(&rig);
    rig_crash(&rig);
    check_records("a2=7 b1=6 c1=4 ", "", "");
    rig_checkpoint(&rig);
    check_records("a2=7 b1=6 c1=4 ", "", "");
    rig_close(&rig);
}

static void removed_stream_leaves_nothing(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    store_stream_t *other = rig_stream(&rig, 2, rig_config());
    for (int i = 0; i < 100; i++) {
        put_id(stream, "a.b", i % 2 == 0 ? "even" : "odd");
        rig_put(&rig, stream, "a.c", "x");
        rig_put(&rig, other, "a.c", "x");
    }
    bytes_t key = bytes_of("\0\0\0\1", 4);
    CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_STREAM, key, text("{}")));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_OK, store_stream_remove(stream));
    bytes_t value;
    CHECK_EQ_I64(STATUS_NOT_FOUND, store_record_get(rig.store, RECORD_STREAM, key, &value));
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, state_of(stream).last_seq);
    append_t skip = {.subject = text("a.b"), .skip = true};
    store_append(stream, &skip, rig.now);
    CHECK_EQ_U64(APPEND_STORED, put_id(stream, "a.b", "even").verdict);
    stored_message_t message;
    CHECK_EQ_I64(STATUS_NOT_FOUND, store_read(stream, 1, &message));
    CHECK_EQ_I64(STATUS_OK, store_read(stream, 2, &message));
    CHECK_EQ_U64(1, store_count(stream, (filters_t){0}, 0));
    rig_checkpoint(&rig);
    CHECK_EQ_I64(STATUS_NOT_FOUND, store_read(stream, 1, &message));
    CHECK_EQ_U64(1, state_of(stream).subjects);
    CHECK_EQ_U64(100, state_of(other).messages);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(1, state_of(stream).messages);
    rig_close(&rig);
}

static void long_subjects(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    static char subject[3][1200];
    for (int i = 0; i < 3; i++) {
        memset(subject[i], 's', 1000);
        snprintf(subject[i] + 1000, 100, "%d", i);
        rig_put(&rig, stream, subject[i], "x");
    }
    rig_checkpoint(&rig);
    stored_message_t message;
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ_I64(STATUS_OK, store_last_by_subject(stream, text(subject[i]), UINT64_MAX, &message));
        CHECK_EQ_U64(i + 1, message.seq);
    }
    CHECK_EQ_U64(3, state_of(stream).subjects);
    rig_close(&rig);
}

static void many_subjects(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.journal_size = 16 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    char subject[32];
    for (uint32_t i = 0; i < 150000; i++) { /* more than the cache of heads holds */
        snprintf(subject, sizeof subject, "s.%u", i % 75000);
        CHECK_EQ_U64(i + 1, rig_put(&rig, stream, subject, "x").seq);
        if (i % 5000 == 0) {
            while (!store_room(rig.store)) {
                rig_sync(&rig);
            }
            rig_sync(&rig);
        }
    }
    CHECK_EQ_U64(75000, state_of(stream).subjects);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 0; i < 75000; i += 371) {
        stored_message_t message;
        snprintf(subject, sizeof subject, "s.%u", i);
        CHECK_EQ_I64(STATUS_OK, store_last_by_subject(stream, text(subject), UINT64_MAX, &message));
        CHECK_EQ_U64(75000 + i + 1, message.seq);
        CHECK_EQ_I64(STATUS_OK, store_last_by_subject(stream, text(subject), 75000, &message));
        CHECK_EQ_U64(i + 1, message.seq);
    }
    rig_close(&rig);
}

/* Streams come and go beside each other; what is left is what the arrays say, after every restart. */
static void streams_side_by_side(void) {
    enum { IDS = 40 };
    static uint64_t last[IDS];
    static bool open[IDS];
    memset(last, 0, sizeof last);
    memset(open, 0, sizeof open);
    open_rig();
    unsigned seed = 5;
    store_stream_t *streams[IDS] = {NULL};
    for (int step = 0; step < 6000; step++) {
        uint32_t i = (uint32_t)rand_r(&seed) % IDS;
        if (!open[i]) {
            streams[i] = rig_stream(&rig, i, rig_config());
            open[i] = true;
        } else if (rand_r(&seed) % 200 == 0) {
            CHECK_EQ_I64(STATUS_OK, store_stream_remove(streams[i]));
            open[i] = false;
            last[i] = 0;
            continue;
        }
        CHECK_EQ_U64(++last[i], rig_put(&rig, streams[i], "s.x", "payload").seq);
        if (step % 50 == 0) {
            rig_sync(&rig);
        }
        if (step % 700 == 0) {
            rig_checkpoint(&rig);
        }
        if (step % 1000 == 999) {
            rig_sync(&rig);
            rig_crash(&rig);
            for (uint32_t j = 0; j < IDS; j++) {
                streams[j] = open[j] ? rig_stream(&rig, j, rig_config()) : NULL;
            }
        }
    }
    for (uint32_t i = 0; i < IDS; i++) {
        stored_message_t message;
        uint64_t from = 0;
        for (uint64_t seq = 1; open[i] && seq <= last[i]; seq++) {
            CHECK_EQ_I64(STATUS_OK, store_next(streams[i], (filters_t){0}, &from, UINT64_MAX, 1, &message));
            CHECK_EQ_U64(seq, message.seq);
            from++;
        }
    }
    rig_close(&rig);
}

/* Like this a large removal is applied in steps; a kill in between must not show. */
static void large_purge(void) {
    open_rig();
    rig_close(&rig);
    rig = (rig_t){.options.journal_size = 8 << 20};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 1; i <= 120000; i++) {
        CHECK_EQ_U64(i, rig_put(&rig, stream, i % 3 == 0 ? "p.a" : "p.b", "x").seq);
        while (!store_room(rig.store)) {
            rig_sync(&rig);
        }
        if (i % 4000 == 0) {
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
    uint64_t total = 0;
    uint64_t steps = 0;
    bool more = true;
    while (more) {
        uint64_t purged;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, BYTES_NONE, 110001, 0, &purged, &more));
        total += purged;
        steps++;
        rig_sync(&rig);
    }
    CHECK_EQ_U64(110000, total);
    CHECK(steps > 10);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(10000, state_of(stream).messages);
    CHECK_EQ_U64(110001, state_of(stream).first_seq);
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    bytes_t filter = text("p.a");
    CHECK_EQ_U64(40000 - 36666, store_count(stream, (filters_t){&filter, 1}, 0));
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
    CHECK_EQ_I64(STATUS_OK, store_read(stream, 50, &message));
    rig_reopen(&rig);
    stream = rig_stream(&rig, 1, config);
    CHECK_EQ_U64(0, state_of(stream).messages);
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
    CHECK_EQ_U64(0, stats.journal_syncs);
    CHECK(stats.journal_batches >= 50);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(50, state_of(stream).messages);
    rig_close(&rig);
}

static uint64_t hook_appended;
static uint64_t hook_removed;
static void on_appended(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject) {
    (void)context;
    (void)stream;
    hook_appended += seq * subject.size;
}
static void on_removed(void *context, store_stream_t *stream, uint64_t seq, bytes_t subject) {
    (void)context;
    (void)stream;
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
    uint64_t purged;
    bool more;
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, text("bbb"), 0, 0, &purged, &more));
    rig_pass(&rig, 60 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, state_of(stream).messages);
    CHECK_EQ_U64(hook_appended, hook_removed);
    CHECK_EQ_U64(2 * (1 + 3 + 5 + 7 + 9) + 3 * (2 + 4 + 6 + 8), hook_appended);
    rig_close(&rig);
}

int main(void) {
    RUN("a message is visible when its batch is durable, not before", visible_when_durable);
    RUN("a message is whole after an orderly restart", survives_close);
    RUN("a message is whole after a kill", survives_kill);
    RUN("a message is whole after a kill behind a checkpoint", survives_kill_from_home);
    RUN("what was not handed over is not there after a kill, and its sequence is free", unsynced_is_not_there);
    RUN("twenty kills in a row lose and double nothing", replay_goes_on_over_crashes);
    RUN("the journal's circle can be lapped many times", journal_laps);
    RUN("an id counts for its window, over deletes, restarts and checkpoints", ids);
    RUN("ids behind their window are taken out, long ones too", old_ids_are_swept);
    RUN("expectations fail in the reference's order, with the actual values", expectations);
    RUN("size limits count header and payload, and the header's own limit holds", sizes);
    RUN("bytes are counted as nats-server counts them, for file and for memory", accounting);
    RUN("a message larger than max_bytes is acked and empties the stream", oversized_for_the_stream);
    RUN("discard new replaces on a full subject when the new one is not larger", discard_new_replaces);
    RUN("rollup keeps the one message, of its subject or of the stream", rollups);
    RUN("purge moves first and last as nats-server does, beyond the end too", purges);
    RUN("max_age counts elapsed time, whatever the wall clock does", ages_on_elapsed_time);
    RUN("sleeping until the told deadline expires messages in time", deadline_is_told);
    RUN("a message's own expiry is kept while young, and 'never' is exempt from max_age", ttl_young);
    RUN("a message's own expiry is kept at home, and 'never' is exempt from max_age", ttl_home);
    RUN("a mirror keeps sequences and stamps, gaps are deleted ones", mirror_keeps_sequences);
    RUN("a skipped message takes a sequence and its id", skipped_take_a_sequence);
    RUN("a stream begins at first_seq", first_sequence);
    RUN("a source's progress is in the batch of its message", source_progress);
    RUN("records are read in order through young and home", records_merge);
    RUN("a removed stream leaves nothing behind, even for its own id", removed_stream_leaves_nothing);
    RUN("subjects longer than a key are told apart", long_subjects);
    RUN("more subjects than the cache holds keep their heads", many_subjects);
    RUN("streams come and go side by side, over checkpoints and kills", streams_side_by_side);
    RUN("a large purge goes in steps and is whole after a kill", large_purge);
    RUN("a memory store is durable at once and empty after a restart", memory_store);
    RUN("with a sync interval batches are not synced one by one, and a killed process loses nothing", synced_at_the_interval);
    RUN("the hooks hear of every message in and out", hooks_hear_everything);
    return TEST_RESULT();
}
