/* test_store_records.c: walks over small records (store/record.h) of which some are damaged. What one of their two
 * places has is given, and where neither has it the walk says that it lacks something: nobody takes that for a record
 * that was removed. Not here: damaged pages (test_store_unread.c), messages (test_store_damage.c).
 */
#include "disk/env.h"
#include "meta/meta_rows.h"
#include "store_rig.h"

#define COUNT 40

static rig_t rig;

static void name_of(unsigned i, char key[8]) {
    snprintf(key, 8, "k%02u", i * 2); /* there is room for another key between two */
}

static void fill(uint32_t kind) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    for (unsigned i = 0; i < COUNT; i++) {
        char key[8], value[32];
        name_of(i, key);
        snprintf(value, sizeof value, "the value of %s", key);
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, kind, text(key), text(value)));
    }
    rig_checkpoint(&rig);
}

typedef struct seen {
    bool at[COUNT];
    unsigned count;
    char last[8];
} seen_t;

static bool see(void *context, bytes_t key, bytes_t value) {
    seen_t *seen = context;
    char name[8] = {0}, expected[32];
    CHECK(key.size == 3);
    memcpy(name, key.at, 3);
    snprintf(expected, sizeof expected, "the value of %s", name);
    CHECK(bytes_equal(value, text(expected)));
    CHECK(strcmp(seen->last, name) < 0); /* each once, in their order */
    memcpy(seen->last, name, sizeof name);
    unsigned number = (unsigned)atoi(name + 1);
    CHECK(number % 2 == 0 && number / 2 < COUNT);
    seen->at[number / 2] = true;
    seen->count++;
    return true;
}

static seen_t walk(uint32_t kind, const char *after, list_outcome_t expected) {
    seen_t seen = {0};
    CHECK_EQ_I64(expected, store_record_each(rig.store, kind, BYTES_NONE, text(after), see, &seen));
    return seen;
}

/* ---- while the store runs ---------------------------------------------------------------------------------------- */

/* Where these bytes stand in the file, the `nth` time from its begin. */
static off_t place_of(bytes_t needle, unsigned nth) {
    static uint8_t file[4 << 20];
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    for (size_t i = 0; i + needle.size <= size; i++) {
        if (memcmp(file + i, needle.at, needle.size) == 0 && nth-- == 1) {
            return (off_t)i;
        }
    }
    return -1;
}

/* An entry of LMDB: its key, and behind it the checksum. */
static off_t entry_of(const char *key, unsigned nth) {
    uint8_t needle[64];
    store_key_t whole;
    char value[32];
    key_record(&whole, RECORD_META, text(key));
    uint32_t size = whole.size + VALUE_CRC_SIZE + (uint32_t)snprintf(value, sizeof value, "the value of %s", key);
    CHECK(size <= sizeof needle);
    memcpy(needle, whole.at, whole.size);
    memcpy(needle + whole.size + VALUE_CRC_SIZE, value, strlen(value));
    value_seal(key_bytes(&whole), needle + whole.size, size - whole.size);
    return place_of(bytes_of(needle, size), nth);
}

static void flip_at(off_t at) {
    uint8_t byte;
    CHECK_EQ_U64(1, rig_read_at(&rig, "data.mdb", &byte, 1, at));
    byte ^= 1;
    rig_write_at(&rig, "data.mdb", &byte, 1, at);
}

/* nth of two places; at: which byte of it. */
static void each_single_place(uint32_t at) {
    for (unsigned nth = 1; nth <= 2; nth++) {
        for (unsigned i = 0; i < COUNT; i += 13) {
            char key[8];
            bytes_t value = BYTES_NONE;
            fill(RECORD_META);
            name_of(i, key);
            CHECK(entry_of(key, 2) > 0 && entry_of(key, 3) < 0);
            flip_at(entry_of(key, nth) + at);
            CHECK_EQ_U64(COUNT, walk(RECORD_META, "", LIST_WHOLE).count);
            CHECK_EQ_U64(COUNT - i - 1, walk(RECORD_META, key, LIST_WHOLE).count);
            CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_META, text(key), &value));
            CHECK(value.size == strlen("the value of k00"));
            rig_close(&rig);
        }
    }
}

static void one_value(void) {
    each_single_place(1 + 3 + VALUE_CRC_SIZE + 2);
}

/* k04 becomes k05: all stand in their order, as if nobody had ever written k04. */
static void one_key(void) {
    each_single_place(1 + 2);
}

static void key_and_value(void) {
    bytes_t value = BYTES_NONE;
    fill(RECORD_META);
    off_t second = entry_of("k20", 2);
    flip_at(entry_of("k20", 1) + 1 + 2);
    flip_at(second + 1 + 3 + VALUE_CRC_SIZE);
    seen_t seen = walk(RECORD_META, "", LIST_LACKS);
    CHECK_EQ_U64(COUNT - 1, seen.count);
    CHECK(!seen.at[10]);
    CHECK_EQ_I64(ENTRY_DAMAGED, store_record_get(rig.store, RECORD_META, text("k20"), &value));
    CHECK(rig_alarmed(&rig, "stored record"));
    rig_close(&rig);
}

/* ---- both places, while it does not run -------------------------------------------------------------------------- */

static void spoil_one_of(uint32_t kind) {
    char reason[256];
    env_t *env;
    store_key_t key;
    bytes_t found = BYTES_NONE;
    store_close(rig.store);
    rig.store = NULL;
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 256 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    key_record(&key, kind, BYTES_NONE);
    CHECK_EQ_I64(READ_FOUND, env_write_seek(env, DB_RECORDS, key_bytes(&key), &found)); /* sealed: hidden behind it */
    CHECK(found.size > 1 && found.at[0] == kind);
    key.size = found.size;
    memcpy(key.at, found.at, found.size);
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORDS, key_bytes(&key), text("spoiled, and long enough")));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    rig_start(&rig);
}

static void both_places(void) {
    static const uint32_t kinds[] = {RECORD_META, RECORD_CONTROL, RECORD_SOURCE};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        fill(kinds[i]);
        spoil_one_of(kinds[i]);
        CHECK_EQ_U64(COUNT - 1, walk(kinds[i], "", LIST_LACKS).count);
        CHECK(rig_alarmed(&rig, "stored record"));
        rig_close(&rig);
    }
}

/* Members that lack the table would take what is not in it for deleted. */
static void no_table_lacks_a_row(void) {
    buffer_t table, entry;
    meta_verdict_t verdict;
    rig = (rig_t){.in_memory = true, .options = {.ledgers = true}};
    rig_open(&rig);
    buffer_init(&table, UINT32_MAX);
    buffer_init(&entry, UINT32_MAX);
    for (uint32_t i = 1; i <= 3; i++) {
        char key[8];
        name_of(i, key);
        entry.size = 0;
        CHECK_EQ_I64(STATUS_OK, meta_entry(&entry, text(key), text("value"), 0, false));
        CHECK(meta_rows_apply(rig.store, i, bytes_of(entry.at, (uint32_t)entry.size), &verdict) && verdict.made);
    }
    CHECK(meta_rows_save(rig.store, &table));
    rig_checkpoint(&rig);
    spoil_one_of(RECORD_META);
    table.size = 0;
    CHECK(!meta_rows_save(rig.store, &table));
    buffer_free(&table);
    buffer_free(&entry);
    rig_close(&rig);
}

int main(void) {
    if (test_sealer() == NULL) { /* what is sealed cannot be found in the file */
        RUN("a record whose value is damaged in one of its two places is given, and all others", one_value);
        RUN("a record whose key is damaged in one of its two places is given, and all others", one_key);
        RUN("a record that no place has sound is left out, and the walk says so", key_and_value);
    }
    RUN("a record that was damaged in both places before the start is left out, and the walk says so", both_places);
    RUN("a table of rows is not given where one of them cannot be read", no_table_lacks_a_row);
    return TEST_RESULT();
}
