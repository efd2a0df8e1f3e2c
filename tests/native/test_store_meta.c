/* test_store_meta.c: the few records of data.mdb that a start depends on (format, note of what was applied, use of the
 * journal, clock) are damaged. What must hold: one wrong bit is put right and reported; with more, the start is refused
 * and says what to do, which then works.
 */
#include "disk/env.h"
#include "disk/journal.h"
#include "store_rig.h"
#include "unreserved.h"

#define EARLIER 6 /* checkpointed */
#define LATER 12  /* in the journal */

static const char *const names[] = {"format", "applied", "journal", "clock"};
#define NAMES (sizeof names / sizeof *names)

static rig_t rig;
static uint8_t lmdb[4 << 20];
static size_t lmdb_size;
static uint8_t journal[JOURNAL_START + (1 << 20)];
static uint8_t record[64]; /* key and value, as they stand in the file */
static size_t key_size;
static size_t record_size;

static void put(store_stream_t *stream, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "meta.a", "payload").verdict);
        rig_sync(&rig);
    }
}

/* Killed, with messages in LMDB and in the journal. */
static void begin(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    put(rig_stream(&rig, 1, rig_config()), EARLIER);
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig_start(&rig);
    put(rig_stream(&rig, 1, rig_config()), LATER);
    rig_kill(&rig);
    lmdb_size = rig_read_at(&rig, "data.mdb", lmdb, sizeof lmdb, 0);
    CHECK_EQ_U64(sizeof journal, rig_read_at(&rig, "journal", journal, sizeof journal, 0));
}

/* The files as the kill left them, but for LMDB. */
static void restore(const uint8_t *bytes) {
    rig_remove_directory(rig.directory);
    CHECK_EQ_I64(0, mkdir(rig.directory, 0700));
    rig_write_at(&rig, "data.mdb", bytes, lmdb_size, 0);
    rig_write_at(&rig, "journal", journal, sizeof journal, 0);
}

static void look_up(const char *name) {
    char reason[256];
    restore(lmdb);
    env_t *env;
    bytes_t value;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_META, text(name), &value));
    key_size = strlen(name);
    record_size = key_size + value.size;
    CHECK(record_size <= sizeof record);
    memcpy(record, name, key_size);
    memcpy(record + key_size, value.at, value.size);
    env_close(env);
}

/* These bytes of the record are wrong, wherever it stands (older copies are on pages that are free). */
static void damage(size_t from, size_t to, uint8_t mask) {
    static uint8_t bad[sizeof lmdb];
    unsigned found = 0;
    memcpy(bad, lmdb, lmdb_size);
    for (size_t at = 0; at + record_size <= lmdb_size; at++) {
        if (memcmp(lmdb + at, record, record_size) == 0) {
            found++;
            for (size_t i = from; i < to; i++) {
                bad[at + i] ^= mask;
            }
        }
    }
    CHECK(found > 0);
    restore(bad);
}

/* Right after a start. */
static store_stream_t *check_all_there(uint64_t messages) {
    stream_state_t state;
    stored_message_t message;
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    store_stream_state(stream, &state);
    CHECK_EQ_U64(messages, state.messages);
    CHECK_EQ_U64(messages, state.last_seq);
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, 1, &message));
    CHECK_EQ_I64(ENTRY_FOUND, store_read(stream, messages, &message));
    return stream;
}

static void every_bit(void) {
    begin();
    for (size_t i = 0; i < NAMES; i++) {
        look_up(names[i]);
        for (size_t bit = 8 * key_size; bit < record_size * 8;
             bit += test_stride()) { /* a wrong name: test_store_pages.c */
            char reason[RIG_REASON];
            damage(bit / 8, bit / 8 + 1, (uint8_t)(1u << (bit % 8)));
            if (rig_try(&rig, reason) != STATUS_OK) {
                FAIL("%s, bit %zu: %s", names[i], bit, reason);
            }
            if (!rig_alarmed(&rig, names[i])) {
                FAIL("%s, bit %zu: not told", names[i], bit);
            }
            check_all_there(EARLIER + LATER);
            store_close(rig.store);
            rig.store = NULL;
        }
        rig_start(&rig); /* it was put right in the file, too */
        CHECK(!rig_alarmed(&rig, ""));
        check_all_there(EARLIER + LATER);
        store_close(rig.store);
        rig.store = NULL;
    }
    rig_close(&rig);
}

static void check_goes_on(void) {
    put(check_all_there(EARLIER + LATER), 3);
    rig_crash(&rig);
    CHECK(!rig_alarmed(&rig, ""));
    check_all_there(EARLIER + LATER + 3);
    rig_checkpoint(&rig);
    rig_crash(&rig);
    check_all_there(EARLIER + LATER + 3);
}

static void destroyed(void) {
    for (size_t i = 0; i < 2; i++) { /* of the others each start can do without */
        for (int key_too = 0; key_too < 2; key_too++) {
            begin();
            look_up(names[i]);
            damage(key_too != 0 ? 1 : key_size, record_size, 0x5a);
            rig_start(&rig);
            CHECK(rig_alarmed(&rig, names[i]));
            check_goes_on();
            rig_close(&rig);
        }
    }
}

static void without_a_journal(void) {
    for (size_t i = 0; i < 2; i++) {
        begin();
        look_up(names[i]);
        damage(key_size, record_size, 0x5a);
        rig_unlink(&rig, "journal");
        rig_refused(&rig, "accept-loss");
        rig_write_at(&rig, "accept-loss", "", 0, 0);
        rig_start(&rig);
        CHECK(rig_alarmed(&rig, names[i]));
        check_all_there(EARLIER);
        rig_crash(&rig);
        check_all_there(EARLIER);
        rig_close(&rig);
    }
}

static void use_and_clock(void) {
    for (size_t i = 2; i < NAMES; i++) {
        begin();
        look_up(names[i]);
        /* A name that is wrong damages its page, and the start makes a new file: with the sealer of tests, which has no
         * key, it cannot. */
        damage(rig.options.sealer != NULL ? key_size : 0, record_size, 0x5a);
        rig_start(&rig);
        check_goes_on();
        rig_close(&rig);
    }
}

int main(void) {
    RUN("whichever bit of a record that a start depends on is wrong, it is put right and told, and nothing is lost",
        every_bit);
    RUN("one that is destroyed, in all copies, is found again from the journal, and nothing is lost", destroyed);
    RUN("an accepted loss of such a record and the journal goes on with what was checkpointed", without_a_journal);
    RUN("a start can do without the clock and without the word how the journal was used", use_and_clock);
    return TEST_RESULT();
}
