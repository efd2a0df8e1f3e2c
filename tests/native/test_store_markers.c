/* test_store_markers.c: delete markers: what is stored when a subject's last message expires. */
#include "store_rig.h"

static rig_t rig;

#define LIFE (2 * NS_PER_SECOND)
#define MARKER "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1m30s\r\nNats-Rollup: sub\r\n\r\n"

static stream_config_t markers_config(void) {
    stream_config_t config = rig_config();
    config.flags |= STREAM_ALLOW_TTL;
    config.marker_ttl_ns = 90 * NS_PER_SECOND;
    return config;
}

static store_stream_t *start(stream_config_t config) {
    rig = (rig_t){0};
    rig_open(&rig);
    return rig_stream(&rig, 1, config);
}

static void put(store_stream_t *stream, const char *subject, const char *header) {
    append_t append = {
        .subject = text(subject), .header = text(header), .payload = text("x"), .expires_ts = rig.now.wall_ns + LIFE};
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
}

static void check_marker(store_stream_t *stream, uint64_t seq, const char *subject) {
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &message));
    CHECK_TEXT(subject, message.subject.at, message.subject.size);
    CHECK_TEXT(MARKER, message.header.at, message.header.size);
    CHECK_EQ_U64(0, message.payload.size);
}

static void last_one_leaves_a_marker(void) {
    store_stream_t *stream = start(markers_config());
    put(stream, "a", "");
    put(stream, "a", "");
    put(stream, "b", "");
    rig_sync(&rig);
    rig_pass(&rig, LIFE);
    rig_sync(&rig);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    CHECK_EQ_U64(2, rig_state(stream).subjects);
    check_marker(stream, 4, "a");
    check_marker(stream, 5, "b");
    CHECK_EQ_U64(5, store_stream_visible(stream)); /* consumers get to see it */
    rig_pass(&rig, 91 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(5, rig_state(stream).last_seq); /* a marker leaves none */
    rig_close(&rig);
}

static void from_lmdb_and_over_a_kill(void) {
    store_stream_t *stream = start(markers_config());
    append_t append = {.subject = text("a"), .expires_ts = rig.now.wall_ns + 60 * NS_PER_SECOND};
    store_append(stream, &append, rig.now);
    rig_checkpoint(&rig);
    rig_pass(&rig, 60 * NS_PER_SECOND);
    rig_sync(&rig);
    check_marker(stream, 2, "a");
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, markers_config());
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages); /* the marker and not its message: they are of one batch */
    check_marker(stream, 2, "a");
    rig_checkpoint(&rig);
    rig_pass(&rig, 91 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    rig_close(&rig);
}

static void max_age_too(void) {
    stream_config_t config = markers_config();
    config.max_age_ns = 10 * NS_PER_SECOND;
    store_stream_t *stream = start(config);
    append_t never = {.subject = text("a"), .expires_ts = -1};
    store_append(stream, &never, rig.now);
    rig_put(&rig, stream, "a", "x");
    rig_put(&rig, stream, "b", "x");
    rig_sync(&rig);
    rig_pass(&rig, 10 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    check_marker(stream, 4, "b"); /* a has one that stays */
    rig_pass(&rig, 10 * NS_PER_SECOND);
    rig_sync(&rig);
    CHECK_EQ_U64(1, rig_state(stream).messages);
    CHECK_EQ_U64(1, rig_state(stream).first_seq);
    rig_close(&rig);
}

static void deletions_leave_none(void) {
    store_stream_t *stream = start(markers_config());
    put(stream, "a", "NATS/1.0\r\nKV-Operation: PURGE\r\nNats-Rollup: sub\r\n\r\n");
    put(stream, "b", "NATS/1.0\r\nFoo: bar\r\nNats-Marker-Reason:Remove\r\n\r\n");
    put(stream, "c", "NATS/1.0\r\nKV-Operation: DEL\r\n\r\n");
    put(stream, "d", "NATS/1.0\r\nNats-Marker-Reasons: x\r\nKV-Operation: PURGED\r\n\r\n");
    put(stream, "e", "Nats-Marker-Reason");
    rig_put(&rig, stream, "f", "x");
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 6));
    rig_sync(&rig);
    rig_pass(&rig, LIFE);
    rig_sync(&rig);
    CHECK_EQ_U64(3, rig_state(stream).messages);
    check_marker(stream, 7, "c");
    check_marker(stream, 8, "d");
    check_marker(stream, 9, "e");
    rig_close(&rig);
}

static void full_stream(void) {
    stream_config_t config = markers_config();
    config.discard = 1;
    config.max_msgs = 2;
    store_stream_t *stream = start(config);
    put(stream, "a", "");
    put(stream, "b", "");
    CHECK_EQ_U64(APPEND_MAX_MSGS, rig_put(&rig, stream, "c", "x").verdict);
    rig_sync(&rig);
    rig_pass(&rig, LIFE);
    rig_sync(&rig);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    check_marker(stream, 3, "a");
    check_marker(stream, 4, "b");
    rig_close(&rig);
}

static void without_the_setting(void) {
    stream_config_t config = markers_config();
    config.marker_ttl_ns = 0;
    store_stream_t *stream = start(config);
    put(stream, "a", "");
    rig_sync(&rig);
    rig_pass(&rig, LIFE);
    rig_sync(&rig);
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(1, rig_state(stream).last_seq);
    rig_close(&rig);
}

int main(void) {
    RUN("the last message of a subject leaves a marker when its time is up, the marker leaves none",
        last_one_leaves_a_marker);
    RUN("a marker is made of what was checkpointed, and outlives a kill", from_lmdb_and_over_a_kill);
    RUN("max_age leaves markers as a message's own time does", max_age_too);
    RUN("what says that something was deleted leaves no marker, nor does a deletion", deletions_leave_none);
    RUN("a full stream that discards new messages still takes a marker in its message's place", full_stream);
    RUN("without the setting nothing is left", without_the_setting);
    return TEST_RESULT();
}
