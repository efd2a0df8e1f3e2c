/* test_store_key.c: damage to an encrypted store, bit by bit and record by record: what tells its key, what the journal
 * and LMDB have of its messages. Nothing wrong is served, and where the start can know better it puts it right.
 */
#include "disk/journal.h"
#include "key_rig.h"
#include "unreserved.h"

static uint8_t file[4 << 20];

#define CHANGED 1500

/* ---- the record that tells the key ------------------------------------------------------------------------------- */

/* XORs bytes [from, to) of the record, name and value in a row, wherever it stands in the file. */
static void damage_key(size_t from, size_t to, uint8_t mask) {
    char reason[RIG_REASON];
    uint8_t record[3 + SEALING_RECORD_SIZE] = "key";
    bytes_t value;
    env_t *env;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_META, text(SEALING_RECORD), &value));
    CHECK_EQ_U64(SEALING_RECORD_SIZE, value.size);
    memcpy(record + 3, value.at, value.size);
    env_close(env);
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    unsigned found = 0;
    for (uint8_t *at = file; (at = memmem(at, (size_t)(file + size - at), record, sizeof record)) != NULL; at++) {
        for (size_t i = from; i < to; i++) {
            at[i] ^= mask;
        }
        rig_write_at(&rig, "data.mdb", at + from, to - from, (off_t)((size_t)(at - file) + from));
        found++;
    }
    CHECK(found > 0);
}

static void every_bit_of_the_record(void) {
    begin_with(&first_key, 20);
    for (size_t bit = 3 * 8; bit < (3 + SEALING_RECORD_SIZE) * 8; bit += test_stride()) {
        damage_key(bit / 8, bit / 8 + 1, (uint8_t)(1u << (bit % 8)));
        start_with(&first_key);
        CHECK(rig_alarmed(&rig, "\"key\""));
        end_with(20);
    }
    start_with(&first_key);
    CHECK(!rig_alarmed(&rig, ""));
    end_with(20);
    test_keys_given = NULL;
    rig_close(&rig);
}

/* ---- every bit --------------------------------------------------------------------------------------------------- */

#define FLIPPED 20
static uint8_t kept_lmdb[4 << 20];
static uint8_t kept_journal[2 << 20];
static size_t lmdb_size;
static size_t journal_size;

static void keep_files(void) {
    lmdb_size = rig_read_at(&rig, "data.mdb", kept_lmdb, sizeof kept_lmdb, 0);
    journal_size = rig_read_at(&rig, "journal", kept_journal, sizeof kept_journal, 0);
}

/* That bit is wrong at `from` and wherever else the file has the same `size` bytes: older copies of the page. */
static void start_flipped(const char *name, const uint8_t *kept, size_t kept_size, size_t from, size_t size,
                          size_t bit) {
    rig_remove_directory(rig.directory);
    CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
    rig_write_at(&rig, "data.mdb", kept_lmdb, lmdb_size, 0);
    rig_write_at(&rig, "journal", kept_journal, journal_size, 0);
    const uint8_t *end = kept + kept_size;
    for (const uint8_t *at = kept; (at = memmem(at, (size_t)(end - at), kept + from, size)) != NULL; at++) {
        uint8_t byte = at[bit / 8] ^ (uint8_t)(1u << (bit % 8));
        rig_write_at(&rig, name, &byte, 1, (off_t)((size_t)(at - kept) + bit / 8));
    }
    start_with(&first_key);
}

static void every_bit_of_a_batch(void) {
    uint8_t magic[4];
    begin_with(&first_key, FLIPPED);
    keep_files();
    store_be32(magic, BATCH_MAGIC);
    size_t batch = 0;
    for (size_t at = JOURNAL_START; at < journal_size; at += JOURNAL_ALIGNMENT) {
        batch = memcmp(kept_journal + at, magic, sizeof magic) == 0 ? at : batch;
    }
    CHECK(batch > 0);
    size_t size = BATCH_HEADER_SIZE + 24;
    for (size_t bit = 0; bit < size * 8; bit += test_stride()) {
        start_flipped("journal", kept_journal, journal_size, batch, size, bit);
        if (!rig_alarmed(&rig, "journal")) {
            FAIL("bit %zu: not told", bit);
        }
        end_with(FLIPPED);
    }
    test_keys_given = NULL;
    rig_close(&rig);
}

/* How many messages are there no more; those that are there are the ones that were stored. */
static uint32_t missing(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < FLIPPED; i++) {
        char subject[32];
        stored_message_t got;
        snprintf(subject, sizeof subject, "change.%u", i);
        if (store_read(stream, i + 1, &got) != ENTRY_FOUND) {
            count++;
        } else {
            CHECK(bytes_equal(text(subject), got.payload));
            CHECK(bytes_equal(text(subject), got.subject));
        }
    }
    return count;
}

static void every_bit_of_an_entry(void) {
    static const uint8_t key[MESSAGE_KEY_SIZE] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7};
    begin_with(&first_key, FLIPPED);
    keep_files();
    size_t text_size = 2 * strlen("change.6") + SEALER_HIDDEN_SIZE; /* numbers come before it */
    size_t size = 0;
    size_t at = 0;
    for (size_t i = 8; i + sizeof key <= lmdb_size; i++) { /* LMDB has the value's size eight bytes before the key */
        size_t value_size = kept_lmdb[i - 8];
        bool sized = value_size > text_size && value_size <= MESSAGE_FIXED_SIZE + text_size && kept_lmdb[i - 7] == 0;
        if (sized && memcmp(kept_lmdb + i, key, sizeof key) == 0) {
            at = i;
            size = sizeof key + value_size;
        }
    }
    CHECK(at > 0);
    for (size_t bit = 0; bit < size * 8; bit += test_stride()) {
        start_flipped("data.mdb", kept_lmdb, lmdb_size, at, size, bit);
        uint32_t gone = missing();
        if (bit >= sizeof key * 8) { /* a wrong key may hide its neighbours from LMDB's search, too */
            CHECK_EQ_U64(1, gone);
            if (!rig_alarmed(&rig, "checksum")) {
                FAIL("bit %zu: not told", bit);
            }
        }
        store_close(rig.store);
        rig.store = NULL;
    }
    test_keys_given = NULL;
    rig_close(&rig);
}

static void record_destroyed(void) {
    begin_with(&first_key, 20);
    damage_key(3, 3 + SEALING_RECORD_SIZE, 0x5a);
    test_keys_given = &other_key;
    rig_refused(&rig, "give its own key");
    start_with(&first_key);
    CHECK(rig_alarmed(&rig, "\"key\""));
    put_numbered(20, 30);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK(!rig_alarmed(&rig, ""));
    end_with(30);
    test_keys_given = &other_key;
    rig_refused(&rig, "another key");
    test_keys_given = NULL;
    rig_close(&rig);
}

static void record_destroyed_before_a_change(void) {
    begin_with(&first_key, 500);
    damage_key(3, 3 + SEALING_RECORD_SIZE, 0x5a);
    start_with(&other_after_first);
    expect_numbered(500);
    end_of_change();
    end_with(500);
    start_with(&other_key);
    end_with(500);
    test_keys_given = NULL;
    rig_close(&rig);
}

static void record_destroyed_in_a_change(void) {
    begin_with(&first_key, CHANGED);
    start_with(&other_after_first);
    rig_kill(&rig);
    damage_key(3, 3 + SEALING_RECORD_SIZE, 0x5a);
    test_keys_given = &other_key;
    rig_refused(&rig, "the one before it as prev_key");
    start_with(&other_after_first);
    expect_numbered(CHANGED);
    end_of_change();
    end_with(CHANGED);
    start_with(&other_key);
    end_with(CHANGED);
    test_keys_given = NULL;
    rig_close(&rig);
}

int main(void) {
    RUN("whichever bit of the record that tells the key is wrong, it is put right and told, and nothing is lost",
        every_bit_of_the_record);
    RUN("whichever bit of a sealed batch's header or first ops is wrong, it is put right and told",
        every_bit_of_a_batch);
    RUN("whichever bit of a sealed entry is wrong, nothing wrong is served; in its value it is told",
        every_bit_of_an_entry);
    RUN("when that record is destroyed, the key that opens the entries is the store's, and no other is",
        record_destroyed);
    RUN("when it is destroyed, a change of key still begins", record_destroyed_before_a_change);
    RUN("when it is destroyed in the middle of a change, both keys are wanted and the change goes on",
        record_destroyed_in_a_change);
    return TEST_RESULT();
}
