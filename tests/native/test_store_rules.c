/* test_store_rules.c: what a publish or purge does, one rule at a time. Expected values are what nats-server 2.15.1
 * answered to the same steps.
 */
#include "store_rig.h"

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

static void ids(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_STORED, rig_put_id(&rig, stream, "a", "one").verdict);
    appended_t again = rig_put_id(&rig, stream, "b", "one");
    CHECK_EQ_U64(APPEND_DUPLICATE, again.verdict);
    CHECK_EQ_U64(1, again.seq);
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", "one").verdict);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", "one").verdict);
    rig_checkpoint(&rig);
    rig_pass(&rig, 100 * NS_PER_SECOND);
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", "one").verdict);
    rig_pass(&rig, 30 * NS_PER_SECOND);
    CHECK_EQ_U64(APPEND_STORED, rig_put_id(&rig, stream, "a", "one").verdict);
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", "one").verdict);
    rig_close(&rig);
}

static void old_ids_are_swept(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    char id[600];
    for (uint32_t i = 0; i < 50; i++) {
        memset(id, 'i', sizeof id);
        snprintf(id + 500, 90, "-%u", i); /* longer than a key can be */
        CHECK_EQ_U64(APPEND_STORED, rig_put_id(&rig, stream, "a", i % 2 == 0 ? id : id + 490).verdict);
    }
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", id + 490).verdict);
    rig_checkpoint(&rig);
    CHECK_EQ_U64(APPEND_DUPLICATE, rig_put_id(&rig, stream, "a", id + 490).verdict);
    rig_pass(&rig, 300 * NS_PER_SECOND);
    rig_checkpoint(&rig);
    rig_checkpoint(&rig);
    /* A window that grew again would find them if they were still there. */
    stream_config_t config = rig_config();
    config.duplicate_window_ns = 3600 * NS_PER_SECOND;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(APPEND_STORED, rig_put_id(&rig, stream, "a", id + 490).verdict);
    rig_close(&rig);
}

static void expectations(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put_id(&rig, stream, "w.1", "one");
    append_t append = {
        .subject = text("w.1"), .msg_id = text("one"), .has_expected_msg_id = true, .expected_msg_id = text("zz")};
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
    append = (append_t){
        .subject = text("w.1"), .msg_id = text("one"), .has_expected_last_seq = true, .expected_last_seq = 7};
    out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, out.verdict);
    CHECK_EQ_U64(2, out.seq);
    append = (append_t){.subject = text("w.1"), .has_expected_subject_seq = true, .expected_subject = text("w.*")};
    out = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, out.verdict);
    CHECK_EQ_U64(2, out.seq);
    CHECK_EQ_U64(2, rig_purge(stream, BYTES_NONE, 0, 0));
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
    CHECK_EQ_U64(2, rig_state(stream).last_seq);
    rig_close(&rig);
}

static void accounting(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "Rf.0", "x");
    CHECK_EQ_U64(35, rig_state(stream).bytes);
    append_t append = {
        .subject = text("Vf.1"), .header = text("NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"), .payload = text("r")};
    store_append(stream, &append, rig.now);
    CHECK_EQ_U64(35 + 34 + 4 + 30 + 1, rig_state(stream).bytes);
    stream_config_t config = rig_config();
    config.storage = 1;
    store_stream_t *memory = rig_stream(&rig, 2, config);
    rig_put(&rig, memory, "Rm.0", "x");
    CHECK_EQ_U64(21, rig_state(memory).bytes);
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
    CHECK_EQ_U64(162, rig_state(stream).bytes);
    static char big[501];
    memset(big, 'z', 500);
    appended_t done = rig_put(&rig, stream, "Sf.big", big);
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    CHECK_EQ_U64(4, done.seq);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(5, rig_state(stream).first_seq);
    CHECK_EQ_U64(4, rig_state(stream).last_seq);
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
    } steps[] = {{"Uf.a", 10, APPEND_STORED, 44},  {"Uf.b", 60, APPEND_STORED, 138},
                 {"Uf.a", 10, APPEND_STORED, 138}, {"Uf.a", 11, APPEND_MAX_BYTES, 138},
                 {"Uf.b", 5, APPEND_STORED, 83},   {"Uf.a", 30, APPEND_STORED, 103}};
    static const uint8_t payload[64];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        append_t append = {.subject = text(steps[i].subject), .payload = bytes_of(payload, steps[i].size)};
        CHECK_EQ_U64(steps[i].verdict, store_append(stream, &append, rig.now).verdict);
        CHECK_EQ_U64(steps[i].bytes, rig_state(stream).bytes);
    }
    rig_close(&rig);
}

#define FAR 2100 /* messages: more than one look goes over */

/* The oldest of the subject is farther from both ends than one look goes: not known is not full. */
static void discard_new_looks_on(void) {
    open_rig();
    stream_config_t config = rig_config();
    config.discard = 1;
    config.max_msgs_per_subject = FAR;
    store_stream_t *stream = rig_stream(&rig, 1, config);
    append_t append = {.subject = text("Uf.a"), .payload = text("x")};
    append_t other = {.subject = text("Uf.b"), .payload = text("x")};
    CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    for (unsigned i = 0; i < FAR; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &other).verdict);
    }
    for (unsigned i = 1; i < FAR; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    }
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    config.max_bytes = (int64_t)rig_state(stream).bytes;
    store_stream_configure(stream, &config, rig.now);
    CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
    CHECK_EQ_U64(2 * FAR, rig_state(stream).messages);
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
    CHECK_EQ_U64(4, rig_state(stream).messages);
    CHECK_EQ_U64(3, rig_state(stream).deleted_count);
    append = (append_t){.subject = text("Vf.0"), .payload = text("r"), .rollup = 2};
    CHECK_EQ_U64(8, store_append(stream, &append, rig.now).seq);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    CHECK_EQ_U64(8, rig_state(stream).first_seq);
    rig_close(&rig);
}

static void purges(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(0, rig_state(stream).first_seq);
    CHECK_EQ_U64(0, rig_purge(stream, BYTES_NONE, 0, 0));
    CHECK_EQ_U64(1, rig_state(stream).first_seq);
    for (int i = 0; i < 10; i++) {
        rig_put(&rig, stream, "Pf.1", "x");
    }
    CHECK_EQ_U64(10, rig_purge(stream, BYTES_NONE, 11, 0));
    CHECK_EQ_U64(11, rig_state(stream).first_seq);
    CHECK_EQ_U64(10, rig_state(stream).last_seq);
    CHECK_EQ_I64(RIG_START, rig_state(stream).last_ts);
    CHECK_EQ_I64(0, rig_state(stream).first_ts);
    CHECK_EQ_U64(0, rig_purge(stream, BYTES_NONE, 12, 0));
    CHECK_EQ_U64(12, rig_state(stream).first_seq);
    CHECK_EQ_U64(11, rig_state(stream).last_seq);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(12, rig_put(&rig, stream, "Pf.1", "x").seq);
    rig_close(&rig);
}

/* nats-server begins again at 0 there; a consumer would then be handed numbers that it has had. */
static void sequences_end(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    append_t append = {.subject = text("a"), .payload = text("r")};
    store_purge_t purge = {.below_seq = UINT64_MAX - 1};
    uint64_t purged = 0;
    step_outcome_t step;
    CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
    store_purge_end(&purge);
    CHECK_EQ_U64(UINT64_MAX - 1, store_append(stream, &append, rig.now).seq);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    }
    append.force_seq = UINT64_MAX;
    CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(UINT64_MAX - 1, rig_state(stream).last_seq);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    rig_close(&rig);
}

/* One at a time, in a group, and as a mirror's; nothing of it is left. */
static void subjects_only(void) {
    static const char *const wrong[] = {"", "a.*", ">", "a..b", ".a", "a b"};
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "a.b", "1").verdict);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        append_t append = {.subject = text(wrong[i]), .payload = text("1")};
        append_group_t group = {0};
        CHECK_EQ_U64(APPEND_BAD_SUBJECT, store_append(stream, &append, rig.now).verdict);
        CHECK_EQ_U64(APPEND_BAD_SUBJECT, store_group_look(stream, &group, &append, 0, rig.now).verdict);
        append.force_seq = 7;
        CHECK_EQ_U64(APPEND_BAD_SUBJECT, store_append(stream, &append, rig.now).verdict);
    }
    CHECK_EQ_U64(1, rig_state(stream).messages);
    CHECK_EQ_U64(1, rig_state(stream).last_seq);
    rig_close(&rig);
}

int main(void) {
    RUN("an id counts for its window, over deletes, restarts and checkpoints", ids);
    RUN("ids behind their window are taken out, long ones too", old_ids_are_swept);
    RUN("expectations fail in the reference's order, with the actual values", expectations);
    RUN("size limits count header and payload, and the header's own limit holds", sizes);
    RUN("bytes are counted as nats-server counts them, for file and for memory", accounting);
    RUN("a message larger than max_bytes is acked and empties the stream", oversized_for_the_stream);
    RUN("discard new replaces on a full subject when the new one is not larger", discard_new_replaces);
    RUN("one whose place is far away is not refused for good", discard_new_looks_on);
    RUN("rollup keeps the one message, of its subject or of the stream", rollups);
    RUN("purge moves first and last as nats-server does, beyond the end too", purges);
    RUN("a message without a valid subject is refused however it comes", subjects_only);
    RUN("a stream whose sequences are used up takes no more, and none begins again", sequences_end);
    return TEST_RESULT();
}
