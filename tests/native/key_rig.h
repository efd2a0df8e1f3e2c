/* key_rig.h: a store with keys: two keys and the change from one to the other, one stream of numbered messages, and
 * that they are all there, each found by its number, its subject and its message id. */
#ifndef LEAFD_TESTS_KEY_RIG_H
#define LEAFD_TESTS_KEY_RIG_H

#include "store_rig.h"

static rig_t rig;
static store_stream_t *stream;

static const plane_keys_t first_key = {.key = (const uint8_t *)"first", .key_size = 5, .cipher = CIPHER_AES};
static const plane_keys_t other_key = {.key = (const uint8_t *)"other", .key_size = 5, .cipher = CIPHER_CHACHA};
static const plane_keys_t other_after_first = {.key = (const uint8_t *)"other",
                                               .key_size = 5,
                                               .previous = (const uint8_t *)"first",
                                               .previous_size = 5,
                                               .cipher = CIPHER_CHACHA};

static inline void put_numbered(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        char subject[32];
        char id[32];
        snprintf(subject, sizeof subject, "change.%u", i);
        snprintf(id, sizeof id, "id-%u", i);
        append_t append = {.subject = text(subject), .payload = text(subject), .msg_id = text(id)};
        for (int64_t until = 0; !store_room(rig.store) && patient(&until);) {
            rig_sync(&rig);
        }
        CHECK_EQ_I64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    }
}

static inline void expect_numbered(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char subject[32];
        char id[32];
        snprintf(subject, sizeof subject, "change.%u", i);
        snprintf(id, sizeof id, "id-%u", i);
        stored_message_t got;
        CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, i + 1, &got));
        CHECK(bytes_equal(text(subject), got.payload));
        CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject), UINT64_MAX, &got));
        CHECK_EQ_U64(i + 1, got.seq);
        append_t append = {.subject = text(subject), .payload = text("again"), .msg_id = text(id)};
        CHECK_EQ_I64(APPEND_DUPLICATE, store_append(stream, &append, rig.now).verdict);
    }
}

static inline void start_with(const plane_keys_t *keys) {
    test_keys_given = keys;
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

/* Killed, with messages in LMDB and in the journal. */
static inline void begin_with(const plane_keys_t *keys, uint32_t count) {
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
    test_keys_given = keys;
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 1 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put_numbered(0, count - 5);
    rig_checkpoint(&rig);
    put_numbered(count - 5, count);
    rig_sync(&rig);
    rig_kill(&rig);
}

static inline void end_with(uint32_t count) {
    expect_numbered(count);
    store_close(rig.store);
    rig.store = NULL;
}

static inline void end_of_change(void) {
    int64_t until = 0;
    while (!rig_alarmed(&rig, "prev_key is not needed any more")) {
        CHECK(patient(&until));
        store_tick(rig.store, rig.now);
        usleep(10000);
    }
}

#endif
