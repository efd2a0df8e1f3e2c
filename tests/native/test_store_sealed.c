/* test_store_sealed.c: what a sealer promises beside the store's own tests, which run with it a second time: nothing
 * plain is in the files, a sealed store wants its sealer, and damage to sealed bytes is found as it is in plain ones.
 */
#include "disk/journal.h"
#include "key_rig.h"

static uint8_t file[8 << 20];

static void begin(void) {
    CHECK_EQ_I64(0, setenv("LEAFD_TEST_SEALED", "1", 1));
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
}

static uint64_t put(const char *payload) {
    append_t append = {.subject = text("sealed.a"),
                       .header = text("NATS/1.0\r\nSecret-Header: yes\r\n\r\n"),
                       .payload = text(payload),
                       .msg_id = text("id")};
    append.msg_id.size = 0;
    return store_append(stream, &append, rig.now).seq;
}

/* The last place of these bytes in the file, 0: none. */
static size_t find_in(const char *name, const char *needle) {
    size_t size = rig_read_at(&rig, name, file, sizeof file, 0);
    size_t last = 0;
    for (const uint8_t *at = file; (at = memmem(at, (size_t)(file + size - at), needle, strlen(needle))) != NULL; at++)
        last = (size_t)(at - file);
    return last;
}

static void flip_at(const char *name, size_t at) {
    uint8_t byte = file[at] ^ 1;
    rig_write_at(&rig, name, &byte, 1, (off_t)at);
}

static void expect_payload(uint64_t seq, const char *payload) {
    stored_message_t got;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, seq, &got));
    CHECK(bytes_equal(text(payload), got.payload));
}

static void nothing_plain(void) {
    static const char *const words[] = {"SecretPayload", "Secret-Header"};
    begin();
    put("SecretPayload");
    rig_sync(&rig);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_U64(0, find_in("journal", words[i]));
    }
    rig_checkpoint(&rig);
    CHECK(find_in("data.mdb", "TEST!") > 0); /* it is there, sealed */
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_U64(0, find_in("data.mdb", words[i]));
    }
    expect_payload(1, "SecretPayload");
    rig_close(&rig);
}

static void wants_its_sealer(void) {
    begin();
    put("a");
    store_close(rig.store);
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
    rig_refused(&rig, "is encrypted");
    CHECK_EQ_I64(0, setenv("LEAFD_TEST_SEALED", "1", 1));
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    expect_payload(1, "a");
    rig_close(&rig);
}

static void plain_wants_none(void) {
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    store_close(rig.store);
    CHECK_EQ_I64(0, setenv("LEAFD_TEST_SEALED", "1", 1));
    rig_refused(&rig, "is not encrypted");
    rig_close(&rig);
}

static void flipped_value(void) {
    stored_message_t got;
    begin();
    put("first");
    put("second, of a length that no other value of the store has: the stream's state, the head, the clock are "
        "shorter.........");
    rig_checkpoint(&rig);
    store_close(rig.store);
    bool found = false;
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    for (size_t i = 0; i + 5 <= size; i++) {
        if (memcmp(file + i, "TEST!", 5) == 0) {
            flip_at("data.mdb",
                    i - 20); /* every sealed value that is long enough has its own flipped bit, or its key's */
            found = true;
        }
    }
    CHECK(found);
    rig_start(&rig);
    stream = NULL;
    stream_config_t config = rig_config();
    status_t status = store_stream_open(rig.store, 1, &config, rig.now, &stream);
    if (status == STATUS_OK) {
        CHECK(store_read(stream, 1, &got) != ENTRY_FOUND);
        CHECK(store_read(stream, 2, &got) != ENTRY_FOUND);
    }
    CHECK(rig_alarmed(&rig, "checksum"));
    rig_close(&rig);
}

static void flipped_batch(bool destroyed) {
    begin();
    put("first");
    rig_sync(&rig);
    put("second");
    rig_sync(&rig);
    put("third");
    rig_sync(&rig);
    rig_kill(&rig);
    size_t last = find_in("journal", "TEST!");
    size_t block = (last - JOURNAL_START) / JOURNAL_ALIGNMENT * JOURNAL_ALIGNMENT + JOURNAL_START - JOURNAL_ALIGNMENT;
    for (size_t i = 0; i < (destroyed ? 64 : 1); i++) { /* in the batch before the last */
        flip_at("journal", block + BATCH_HEADER_SIZE + 20 + i);
    }
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    expect_payload(1, "first");
    expect_payload(3, "third");
    if (destroyed) {
        stored_message_t got;
        CHECK_EQ_I64(ENTRY_NONE, store_read(stream, 2, &got));
        CHECK(rig_alarmed(&rig, "lost"));
    } else {
        expect_payload(2, "second");
        CHECK(rig_alarmed(&rig, "journal"));
    }
    rig_close(&rig);
}

static void one_wrong_bit(void) {
    flipped_batch(false);
}

static void a_batch_destroyed(void) {
    flipped_batch(true);
}

/* ---- a change of key --------------------------------------------------------------------------------------------- */

#define CHANGED 3000

/* From `before` (NULL: no key) to `after`, with kills in the middle, and then `alone` is enough. */
static void change_key(const plane_keys_t *before, const plane_keys_t *after, const plane_keys_t *alone) {
    static char reason[RIG_REASON];
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
    test_keys_given = before;
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 8 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put_numbered(0, CHANGED - 500);
    rig_checkpoint(&rig);
    put_numbered(CHANGED - 500, CHANGED);
    rig_sync(&rig);
    rig_kill(&rig); /* the journal has a tail */
    test_keys_given = after;
    for (int kill = 0; kill < 3; kill++) {
        start_with(after);
        expect_numbered(CHANGED + (uint32_t)kill);
        put_numbered(CHANGED + (uint32_t)kill, CHANGED + (uint32_t)kill + 1);
        rig_sync(&rig);
        rig_kill(&rig);
    }
    status_t status;
    int64_t until = 0;
    do {
        CHECK(patient(&until));
        start_with(after);
        for (int tick = 0; tick < 20; tick++) { /* no time passes: message ids go on counting */
            store_tick(rig.store, rig.now);
            usleep(50000);
        }
        expect_numbered(CHANGED + 3);
        store_close(rig.store);
        test_keys_given = alone;
        status = rig_try(&rig, reason);
    } while (status != STATUS_OK);
    stream = rig_stream(&rig, 1, rig_config());
    expect_numbered(CHANGED + 3);
    store_close(rig.store);
    rig.store = NULL;
    if (before != NULL) {
        test_keys_given = before;
        rig_refused(&rig, "another key");
    }
    test_keys_given = NULL;
    rig_close(&rig);
}

static void from_no_key(void) {
    change_key(NULL, &first_key, &first_key);
}

static void from_another_key(void) {
    change_key(&first_key, &other_after_first, &other_key);
}

static void the_middle_wants_both(void) {
    CHECK_EQ_I64(0, unsetenv("LEAFD_TEST_SEALED"));
    test_keys_given = &first_key;
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 8 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 0; i < 6; i++) { /* many slices of a change */
        put_numbered(i * CHANGED, (i + 1) * CHANGED);
        rig_sync(&rig);
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    start_with(&other_after_first);
    rig_kill(&rig);
    test_keys_given = &other_key;
    rig_refused(&rig, "middle of a change");
    start_with(&other_after_first);
    expect_numbered(1000);
    test_keys_given = NULL;
    rig_close(&rig);
}

int main(void) {
    RUN("with a sealer neither payloads nor headers are on the disk in plain, in the journal or in LMDB",
        nothing_plain);
    RUN("a sealed store is refused without its sealer, in one clear line, and opens with it", wants_its_sealer);
    RUN("a store that is not sealed is refused with a sealer, in one clear line", plain_wants_none);
    RUN("a flipped bit in a sealed value is never served, and is alarmed", flipped_value);
    RUN("one wrong bit in a sealed batch is put right at the start", one_wrong_bit);
    RUN("a sealed batch that is destroyed is lost alone, and named", a_batch_destroyed);
    RUN("a store without a key that is given one is encrypted while it is in use, whatever kills it", from_no_key);
    RUN("a change of key and cipher goes on while the store is in use, whatever kills it; then the new key is enough",
        from_another_key);
    RUN("in the middle of a change both keys are wanted, in one clear line", the_middle_wants_both);
    return TEST_RESULT();
}
