/* test_store_links.c: the links along a subject's messages, and one of them that damage took: what is asked of the
 * older ones is found all the same. Limits that go along them: test_store_damage.c.
 */
#include "disk/env.h"
#include "store_rig.h"

static rig_t rig;

/* Of stream 1, while the store is closed. */
static void spoil_message(uint64_t seq) {
    env_t *env;
    char reason[RIG_REASON];
    uint8_t bytes[100];
    store_key_t key;
    memset(bytes, 0xa5, sizeof bytes);
    key_message(&key, 1, seq);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_MESSAGES, key_bytes(&key), bytes_of(bytes, sizeof bytes)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static void newest_at(store_stream_t *stream, const char *subject, uint64_t upto, status_t status, uint64_t seq) {
    uint64_t at = 0;
    uint32_t budget = 100;
    CHECK_EQ_I64(status, store_newest_of(stream, text(subject), upto, &budget, &at));
    CHECK_EQ_U64(seq, status == STATUS_OK ? at : 0);
}

static void older_ones_are_found_behind_a_damaged_one(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "dam.other", "before all");
    rig_put(&rig, stream, "dam.a", "oldest");
    rig_put(&rig, stream, "dam.other", "between");
    rig_put(&rig, stream, "dam.a", "THE-DAMAGED-ONE");
    rig_put(&rig, stream, "dam.a", "newest");
    rig_checkpoint(&rig);
    store_close(rig.store);
    spoil_message(4);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    newest_at(stream, "dam.a", 5, STATUS_OK, 5);
    newest_at(stream, "dam.a", 4, STATUS_OK, 4); /* who reads it is told that it is damaged */
    newest_at(stream, "dam.a", 3, STATUS_OK, 2);
    newest_at(stream, "dam.a", 1, STATUS_NOT_FOUND, 0);
    CHECK(rig_alarmed(&rig, "fails its checksum"));
    rig_close(&rig);
}

int main(void) {
    RUN("behind a damaged message its subject's older ones are found", older_ones_are_found_behind_a_damaged_one);
    return TEST_RESULT();
}
