/* test_group_changes.c: what a leader writes of its consumers as bytes of an entry (group/changes.h): each member has
 * the same under its own number of the stream, doing it again changes nothing, and no other bytes write anything.
 */
#include "group/changes.h"
#include "store_rig.h"

#define THEIRS 7u
#define OURS 9u

static rig_t rig;
static store_stream_t *stream;
static buffer_t changes;

static bytes_t text_of(const char *text) {
    return bytes_of((const uint8_t *)text, (uint32_t)strlen(text));
}

static bytes_t key_of(uint8_t key[16], uint32_t number, uint32_t consumer, uint64_t seq) {
    store_be32(key, number);
    store_be32(key + 4, consumer);
    store_be64(key + 8, seq);
    return bytes_of(key, seq == 0 ? 8 : 16);
}

static void add(record_act_t act, uint32_t kind, uint32_t consumer, uint64_t seq, const char *value) {
    uint8_t key[16];
    const record_change_t change = {
        .act = act, .kind = kind, .key = key_of(key, THEIRS, consumer, seq), .value = text_of(value)};
    CHECK_EQ_I64(STATUS_OK, changes_add(&changes, &change));
}

static void has(uint32_t kind, uint32_t consumer, uint64_t seq, const char *expected) {
    uint8_t key[16];
    bytes_t value = BYTES_NONE;
    status_t status = entry_status(store_record_get(rig.store, kind, key_of(key, OURS, consumer, seq), &value));
    CHECK_EQ_I64(expected != NULL ? STATUS_OK : STATUS_NOT_FOUND, status);
    if (expected != NULL) CHECK(bytes_equal(text_of(expected), value));
    CHECK_EQ_I64(ENTRY_NONE, store_record_get(rig.store, kind, key_of(key, THEIRS, consumer, seq), &value));
}

static void begin(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, OURS, rig_config());
    buffer_init(&changes, UINT32_MAX);
}

static void end(void) {
    buffer_free(&changes);
    rig_close(&rig);
}

static bytes_t all(void) {
    return bytes_of(changes.at, (uint32_t)changes.size);
}

static void own_number(void) {
    begin();
    add(RECORD_PUT, RECORD_CONSUMER, 1, 0, "definition");
    add(RECORD_PUT, RECORD_CONSUMER_STATE, 1, 0, "first");
    add(RECORD_PUT, RECORD_CONSUMER_STATE, 1, 0, "second");
    add(RECORD_PUT, RECORD_CONSUMER_PENDING, 1, 5, "five");
    add(RECORD_PUT, RECORD_CONSUMER_PENDING, 1, 6, "six");
    add(RECORD_DELETE, RECORD_CONSUMER_PENDING, 1, 5, "");
    add(RECORD_PUT, RECORD_CONSUMER_PENDING, 2, 5, "other");
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
        has(RECORD_CONSUMER, 1, 0, "definition");
        has(RECORD_CONSUMER_STATE, 1, 0, "second");
        has(RECORD_CONSUMER_PENDING, 1, 5, NULL);
        has(RECORD_CONSUMER_PENDING, 1, 6, "six");
        has(RECORD_CONSUMER_PENDING, 2, 5, "other");
    }
    changes.size = 0;
    add(RECORD_DELETE_PREFIX, RECORD_CONSUMER_PENDING, 1, 0, "");
    add(RECORD_DELETE, RECORD_CONSUMER, 1, 0, "");
    CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
    has(RECORD_CONSUMER, 1, 0, NULL);
    has(RECORD_CONSUMER_PENDING, 1, 6, NULL);
    has(RECORD_CONSUMER_PENDING, 2, 5, "other");
    end();
}

static void removals(void) {
    begin();
    for (int i = 0; i < 4; i++) CHECK_EQ_I64(APPEND_STORED, rig_put(&rig, stream, "s", "x").verdict);
    add(RECORD_PUT, RECORD_CONSUMER_STATE, 1, 0, "all");
    CHECK_EQ_I64(STATUS_OK, changes_add_removal(&changes, 2));
    CHECK_EQ_I64(STATUS_OK, changes_add_removal(&changes, 3));
    CHECK_EQ_I64(STATUS_OK, changes_add_removal(&changes, 77)); /* never was */
    for (int turn = 0; turn < 2; turn++) {
        stored_message_t message;
        CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
        CHECK_EQ_U64(2, rig_state(stream).messages);
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 1, &message));
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 4, &message));
        has(RECORD_CONSUMER_STATE, 1, 0, "all");
    }
    static const struct {
        uint32_t at;
        uint8_t byte;
    } wrong[] = {{0, 5}, {1, RECORD_CONSUMER}, {2, 4}, {6, 1}};
    changes.size = 0;
    CHECK_EQ_I64(STATUS_OK, changes_add_removal(&changes, 1));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t before = changes.at[wrong[i].at];
        changes.at[wrong[i].at] = wrong[i].byte;
        CHECK_EQ_I64(STATUS_INVALID, changes_apply(stream, all()));
        changes.at[wrong[i].at] = before;
    }
    CHECK_EQ_U64(2, rig_state(stream).messages);
    end();
}

static void no_changes(void) {
    begin();
    add(RECORD_PUT, RECORD_CONSUMER_STATE, 1, 0, "whole");
    add(RECORD_PUT, RECORD_CONSUMER_PENDING, 1, 5, "five");
    uint32_t first = 7 + 4 + 5;
    for (uint32_t size = 1; size < changes.size; size++) {
        status_t status = changes_apply(stream, bytes_of(changes.at, size));
        CHECK_EQ_I64(size == first ? STATUS_OK : STATUS_INVALID, status);
        if (size < first) has(RECORD_CONSUMER_STATE, 1, 0, NULL);
    }
    has(RECORD_CONSUMER_PENDING, 1, 5, NULL);
    static const struct {
        uint32_t at;
        uint8_t byte;
    } wrong[] = {{0, 0}, {0, 4}, {1, 1}, {1, RECORD_META}, {1, RECORD_CONSUMER_PENDING}, {2, 12}, {2, 255}, {3, 255}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t before = changes.at[first + wrong[i].at];
        changes.at[first + wrong[i].at] = wrong[i].byte;
        bool same = before == wrong[i].byte;
        if (!same) CHECK_EQ_I64(STATUS_INVALID, changes_apply(stream, all()));
        changes.at[first + wrong[i].at] = before;
    }
    has(RECORD_CONSUMER_PENDING, 1, 5, NULL);
    end();
}

static void change_of(record_act_t act, uint32_t kind, const char *key, uint32_t size) {
    const record_change_t change = {
        .act = act, .kind = kind, .key = bytes_of((const uint8_t *)key, size), .value = BYTES_NONE};
    CHECK_EQ_I64(STATUS_OK, changes_add(&changes, &change));
}

static bool is_there(uint32_t kind, const char *key, uint32_t size) {
    bytes_t value = BYTES_NONE;
    status_t status = entry_status(store_record_get(rig.store, kind, bytes_of((const uint8_t *)key, size), &value));
    CHECK(status == STATUS_OK || status == STATUS_NOT_FOUND);
    return status == STATUS_OK;
}

static void of_sessions(void) {
    begin();
    change_of(RECORD_PUT, RECORD_SESSION, "\0\0\0\7\0\0\0\1", 8);
    change_of(RECORD_PUT, RECORD_SESSION_WILL, "\0\0\0\7\0\0\0\1", 8);
    for (uint32_t kind = RECORD_SESSION_IN; kind <= RECORD_SESSION_SHARED; kind++) {
        if (kind != RECORD_SESSION_WILL) {
            change_of(RECORD_PUT, kind, "\0\0\0\7\0\0\0\1\1\1", 10);
            change_of(RECORD_PUT, kind, "\0\0\0\7\0\0\0\2\1\1", 10);
        }
    }
    CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
    CHECK(is_there(RECORD_SESSION, "\0\0\0\11\0\0\0\1", 8));
    CHECK(is_there(RECORD_SESSION_WILL, "\0\0\0\11\0\0\0\1", 8));
    CHECK(is_there(RECORD_SESSION_SHARED, "\0\0\0\11\0\0\0\1\1\1", 10));
    CHECK_EQ_I64(STATUS_OK, changes_take_back(stream, all()));
    CHECK(!is_there(RECORD_SESSION, "\0\0\0\11\0\0\0\1", 8));
    CHECK(!is_there(RECORD_SESSION_SHARED, "\0\0\0\11\0\0\0\1\1\1", 10));
    CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
    changes.size = 0;
    change_of(RECORD_DELETE_PREFIX, RECORD_SESSION_IN, "\0\0\0\7\0\0\0\1", 8);
    change_of(RECORD_DELETE, RECORD_SESSION_OUT, "\0\0\0\7\0\0\0\1\1\1", 10);
    CHECK_EQ_I64(STATUS_OK, changes_apply(stream, all()));
    CHECK(!is_there(RECORD_SESSION_IN, "\0\0\0\11\0\0\0\1\1\1", 10));
    CHECK(!is_there(RECORD_SESSION_OUT, "\0\0\0\11\0\0\0\1\1\1", 10));
    CHECK(is_there(RECORD_SESSION_IN, "\0\0\0\11\0\0\0\2\1\1", 10));
    changes.size = 0;
    change_of(RECORD_DELETE, RECORD_SESSION_OUT, "\0\0\0\7\0\0\0\2", 8); /* no whole key */
    CHECK_EQ_I64(STATUS_INVALID, changes_apply(stream, all()));
    CHECK(is_there(RECORD_SESSION_OUT, "\0\0\0\11\0\0\0\2\1\1", 10));
    end();
}

static void bounded(void) {
    begin();
    uint8_t key[16];
    static uint8_t large[CHANGES_MAX];
    record_change_t change = {.act = RECORD_PUT,
                              .kind = RECORD_CONSUMER,
                              .key = key_of(key, THEIRS, 1, 0),
                              .value = bytes_of(large, sizeof large)};
    CHECK_EQ_I64(STATUS_OK, changes_add(&changes, &change));
    change.value = BYTES_NONE;
    CHECK_EQ_I64(STATUS_FULL, changes_add(&changes, &change));
    change.key = bytes_of(key, 3);
    CHECK_EQ_I64(STATUS_INVALID, changes_add(&changes, &change));
    end();
}

int main(void) {
    RUN("a member writes under its own number of the stream, and again changes nothing", own_number);
    RUN("messages that no consumer needs are removed, and again changes nothing", removals);
    RUN("what are no changes writes nothing, however they are cut", no_changes);
    RUN("what a session has is written, and taken back, as what a consumer has", of_sessions);
    RUN("one entry has an end", bounded);
    return TEST_RESULT();
}
