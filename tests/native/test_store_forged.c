/* test_store_forged.c: an encrypted store in the hands of somebody who has the disk and not the key. He writes
 * checksums as well as leafd does; what he puts into META or among the entries, the start does not serve it.
 */
#include "disk/sealing.h"
#include "key_rig.h"

#define STORED 20
#define FORGED 7 /* the sequence of the message that he would like to be read */

static env_t *env;

/* The files of a store that nobody has open, in a write transaction. */
static void break_in(void) {
    char reason[RIG_REASON];
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
}

static void leave(void) {
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

/* A record of META as it is. Returns its size. */
static uint32_t meta_get(const char *name, uint8_t value[64]) {
    bytes_t found;
    CHECK_EQ_I64(READ_FOUND, env_write_get(env, DB_META, text(name), &found));
    CHECK(found.size <= 64);
    memcpy(value, found.at, found.size);
    return found.size;
}

static void meta_put(const char *name, uint8_t *value, uint32_t size) {
    value_seal(text(name), value, size);
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_META, text(name), bytes_of(value, size)));
}

/* A message in plain, in place of the sealed one. */
static void put_plain_message(void) {
    uint8_t value[256];
    store_key_t key;
    message_record_t message = {.ts = RIG_START, .born = 1, .subject = text("change.6"), .payload = text("forged")};
    key_message(&key, 1, FORGED);
    message_write(value, key_bytes(&key), &message);
    CHECK_EQ_I64(STATUS_OK,
                 env_write_put(env, DB_MESSAGES, key_bytes(&key), bytes_of(value, message_size(FORGED, &message))));
}

/* The word that a first encryption is not over, so that what is in plain is believed. */
static void claim_a_change(void) {
    uint8_t record[64];
    uint32_t size = meta_get("key", record);
    record[VALUE_CRC_SIZE + 1] = SEALING_VALUES;
    meta_put("key", record, size);
}

/* As the version before wrote it: 16 bytes of the key's check, which stood on the disk, and no tag. */
static void claim_as_before(uint8_t state) {
    uint8_t format[64];
    uint8_t record[64];
    cipher_t *cipher;
    char reason[RIG_REASON];
    bytes_t key = bytes_of(first_key.key, first_key.key_size);
    meta_get("format", format);
    uint32_t size = meta_get("key", record);
    CHECK_EQ_I64(STATUS_OK,
                 cipher_open(first_key.cipher, key, format + VALUE_CRC_SIZE + 4, &cipher, reason, RIG_REASON));
    record[VALUE_CRC_SIZE] = 1;
    record[VALUE_CRC_SIZE + 1] = state;
    cipher_check(cipher, BYTES_NONE, record + VALUE_CRC_SIZE + 4);
    cipher_close(cipher);
    meta_put("key", record, size);
}

static void claim_an_older_change(void) {
    claim_as_before(SEALING_VALUES);
}

static void claim_plain(void) {
    uint8_t format[64];
    uint32_t size = meta_get("format", format);
    format[VALUE_CRC_SIZE] &= 0x7f;
    meta_put("format", format, size);
}

static void claim_plain_without_key(void) {
    claim_plain();
    CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_META, text("key")));
}

static void take_the_key_away(void) {
    CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_META, text("key")));
}

static void (*const claims[])(void) = {claim_a_change, claim_an_older_change, claim_plain, claim_plain_without_key,
                                       take_the_key_away};
#define CLAIMS (sizeof claims / sizeof *claims)

static void expect_all_but_the_forged(void) {
    for (uint32_t seq = 1; seq <= STORED; seq++) {
        char payload[32];
        stored_message_t got;
        snprintf(payload, sizeof payload, "change.%u", seq - 1);
        entry_outcome_t status = store_read(stream, seq, &got);
        if (seq == FORGED) {
            CHECK(status != ENTRY_FOUND);
        } else {
            CHECK_EQ_I64(ENTRY_FOUND, status);
            CHECK(bytes_equal(text(payload), got.payload));
        }
    }
}

static void begin_stored(void) {
    begin_with(&first_key, STORED);
    start_with(&first_key); /* all of it goes into LMDB */
    store_close(rig.store);
    rig.store = NULL;
}

static void end_stored(void) {
    store_close(rig.store);
    rig.store = NULL;
    test_keys_given = NULL;
    rig_close(&rig);
}

static void plain_is_not_believed(void) {
    for (size_t i = 0; i < CLAIMS; i++) {
        begin_stored();
        break_in();
        claims[i]();
        put_plain_message();
        leave();
        test_keys_given = &first_key;
        rig_refused(&rig, "(1 are not encrypted at all)");
        rig_write_at(&rig, "accept-loss", "", 0, 0);
        start_with(&first_key);
        CHECK(rig_alarmed(&rig, "\"key\""));
        expect_all_but_the_forged();
        CHECK(rig_alarmed(&rig, "checksum"));
        end_stored();
    }
}

static void plain_beside_a_sound_record(void) {
    begin_stored();
    break_in();
    put_plain_message();
    leave();
    start_with(&first_key);
    expect_all_but_the_forged();
    CHECK(rig_alarmed(&rig, "checksum"));
    end_stored();
}

static void claims_alone_cost_nothing(void) {
    for (size_t i = 0; i < CLAIMS; i++) {
        begin_stored();
        break_in();
        claims[i]();
        leave();
        test_keys_given = &other_key;
        if (claims[i] == take_the_key_away) {
            rig_refused(&rig, "give its own key");
        }
        start_with(&first_key);
        CHECK(rig_alarmed(&rig, "\"key\""));
        expect_numbered(STORED);
        store_close(rig.store);
        start_with(&first_key);
        CHECK(!rig_alarmed(&rig, ""));
        expect_numbered(STORED);
        store_close(rig.store);
        test_keys_given = NULL;
        rig_refused(&rig, "is encrypted");
        start_with(&first_key);
        end_stored();
    }
}

static void numbers_that_nobody_writes(void) {
    static const struct {
        unsigned at;
        uint8_t value;
    } rows[] = {{0, 0}, {1, 77}, {2, 0}, {2, 3}, {2, 255}, {3, 3}, {3, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t record[64];
        begin_stored();
        break_in();
        uint32_t size = meta_get("key", record);
        record[VALUE_CRC_SIZE + rows[i].at] = rows[i].value;
        meta_put("key", record, size);
        leave();
        start_with(&first_key);
        CHECK(rig_alarmed(&rig, "\"key\""));
        expect_numbered(STORED);
        end_stored();
    }
}

static void the_version_before(void) {
    begin_stored();
    break_in();
    claim_as_before(SEALING_DONE);
    leave();
    start_with(&first_key);
    CHECK(!rig_alarmed(&rig, ""));
    expect_numbered(STORED);
    store_close(rig.store);
    start_with(&other_after_first);
    expect_numbered(STORED);
    end_of_change();
    store_close(rig.store);
    start_with(&other_key);
    expect_numbered(STORED);
    end_stored();
}

int main(void) {
    RUN("whatever META says, a message in plain among sealed ones is not served: the start is refused, and with the "
        "loss accepted only that message is damaged",
        plain_is_not_believed);
    RUN("a message in plain under a sound record is damaged, and nothing else is", plain_beside_a_sound_record);
    RUN("a META that says falsely that nothing is sealed, or not all, costs nothing: it is told and made anew",
        claims_alone_cost_nothing);
    RUN("a record of numbers that nobody writes is made anew from the entries", numbers_that_nobody_writes);
    RUN("a record of the version before, without a tag, is believed; a change of key goes on from it",
        the_version_before);
    return TEST_RESULT();
}
