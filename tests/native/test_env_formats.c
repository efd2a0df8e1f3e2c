/* test_env_formats.c: META's record of formats: what it says holds although its bytes are other ones since, damage
 * never gets a checksum, and a commit that failed has said nothing.
 *
 * Not here: who puts which format there (test_packing.c, test_store_ledger.c), and what a start makes of a damaged
 * record (test_store_meta.c).
 */
#include <stdlib.h>
#include <unistd.h>

#include "disk/env.h"
#include "failing_disk.h"
#include "test.h"

#define MAP (UINT64_C(64) << 20)
#define ROOM 256

static const uint8_t id[STORE_ID_SIZE] = {1, 2, 3};
static char directory[] = "/tmp/leafd-test-formats-XXXXXX";
static env_t *env;

static bytes_t name(void) {
    return BYTES_LITERAL(STORE_FORMAT_KEY);
}

static void env_begin(void) {
    char reason[ROOM];
    CHECK_EQ_I64(STATUS_OK, env_open(directory, MAP, false, &env, reason, sizeof reason));
}

static void env_again(void) {
    env_close(env);
    env_begin();
}

static void store_made(void) {
    env_begin();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_formats_put(env, id, false));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
}

static void store_removed(void) {
    static const char *const files[] = {"data.mdb", "lock.mdb"};
    env_close(env);
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        char path[ROOM];
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        CHECK(unlink(path) == 0);
    }
}

/* One bit of what it says is another one. */
static void record_damaged(void) {
    uint8_t value[STORE_FORMAT_SIZE];
    bytes_t before = BYTES_NONE;
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(READ_FOUND, env_write_get(env, DB_META, name(), &before));
    CHECK_EQ_U64(sizeof value, before.size);
    memcpy(value, before.at, sizeof value);
    value[VALUE_CRC_SIZE + 1] ^= 0x40;
    CHECK_EQ_I64(STATUS_OK, env_write_put(env, DB_META, name(), bytes_of(value, sizeof value)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
}

/* What the record says to another process; UINT32_MAX: it does not prove itself. */
static uint32_t formats_there(void) {
    bytes_t value = BYTES_NONE;
    CHECK_EQ_I64(STATUS_OK, env_renew(env));
    CHECK_EQ_I64(READ_FOUND, env_get(env, DB_META, name(), &value));
    bool sound = value.size == STORE_FORMAT_SIZE && value_sound(name(), value);
    if (sound) {
        CHECK(memcmp(value.at + VALUE_CRC_SIZE + 4, id, STORE_ID_SIZE) == 0);
    }
    return sound ? load_be32(value.at + VALUE_CRC_SIZE) : UINT32_MAX;
}

static void a_record_that_was_known_is_written_as_it_was(void) {
    store_made();
    record_damaged();
    CHECK_EQ_U64(UINT32_MAX, formats_there());
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    env_keep_formats(env, STORE_FORMAT_BRIEF);
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_U64(STORE_FORMAT | STORE_FORMAT_TWICE | STORE_FORMAT_BRIEF, formats_there());
    store_removed();
}

static void damage_that_nobody_knew_otherwise_gets_no_checksum(void) {
    store_made();
    record_damaged();
    env_again();
    uint64_t unread = env_unread(env);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    env_keep_formats(env, STORE_FORMAT_BRIEF);
    CHECK_EQ_I64(STATUS_CORRUPT, env_write_commit(env));
    CHECK_EQ_U64(UINT32_MAX, formats_there());
    CHECK(env_unread(env) > unread);
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_formats_put(env, id, false));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_U64(STORE_FORMAT | STORE_FORMAT_KEPT, formats_there()); /* who knows less is kept out */
    store_removed();
}

static void a_commit_that_fails_has_said_nothing(void) {
    store_made();
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    env_keep_formats(env, STORE_FORMAT_PACKED);
    failing_disk((failing_t){.files = FAIL_HOME, .calls = FAIL_WRITE | FAIL_SYNC, .error = ENOSPC});
    CHECK(env_write_commit(env) != STATUS_OK);
    failing_disk((failing_t){0});
    CHECK_EQ_U64(STORE_FORMAT | STORE_FORMAT_TWICE, formats_there());
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    CHECK_EQ_U64(STORE_FORMAT | STORE_FORMAT_TWICE | STORE_FORMAT_PACKED, formats_there());
    store_removed();
}

int main(void) {
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    RUN("the record of formats is written as it was known, not as it is", a_record_that_was_known_is_written_as_it_was);
    RUN("a damaged one that nobody has known otherwise is never sealed: the commit is refused, and said",
        damage_that_nobody_knew_otherwise_gets_no_checksum);
    RUN("what a failed commit said of formats is said by the next one", a_commit_that_fails_has_said_nothing);
    (void)rmdir(directory);
    return TEST_RESULT();
}
