/* test_store_links.c: the links along a subject's messages, and messages that damage took: what is asked of those
 * around them is found all the same, by link, number and time, or is not known. Limits that go along links:
 * test_store_damage.c.
 */
#include "disk/env.h"
#include "store_rig.h"

static rig_t rig;

/* Of stream 1, while the store is closed. */
static void spoil_messages(uint64_t from, uint64_t upto) {
    env_t *env;
    char reason[RIG_REASON];
    uint8_t bytes[100];
    store_key_t key;
    memset(bytes, 0xa5, sizeof bytes);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    for (uint64_t seq = from; seq <= upto; seq++) {
        key_message(&key, 1, seq);
        CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_MESSAGES, key_bytes(&key), bytes_of(bytes, sizeof bytes)));
    }
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static void newest_at(store_stream_t *stream, const char *subject, uint64_t upto, seek_outcome_t status, uint64_t seq) {
    uint64_t at = 0;
    uint32_t budget = 100;
    CHECK_EQ_I64(status, store_newest_of(stream, text(subject), upto, &budget, &at));
    CHECK_EQ_U64(seq, status == SEEK_FOUND ? at : 0);
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
    spoil_messages(4, 4);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    newest_at(stream, "dam.a", 5, SEEK_FOUND, 5);
    newest_at(stream, "dam.a", 4, SEEK_FOUND, 4); /* who reads it is told that it is damaged */
    newest_at(stream, "dam.a", 3, SEEK_FOUND, 2);
    newest_at(stream, "dam.a", 1, SEEK_NONE, 0);
    CHECK(rig_alarmed(&rig, "fails its checksum"));
    rig_close(&rig);
}

/* Every tenth one is the subject's, so a count goes along its links. */
static void a_count_goes_on_behind_a_damaged_one(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (uint32_t i = 1; i <= 60; i++) {
        rig_put(&rig, stream, i % 10 == 0 ? "dam.a" : "dam.other", "payload");
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    spoil_messages(40, 40);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    bytes_t pattern = text("dam.a");
    store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = &pattern, .count = 1}, 15);
    CHECK(tally != NULL);
    for (uint32_t steps = 0; store_tally_step(tally, 100) != STEP_OVER; steps++) {
        CHECK(steps < 100);
    }
    CHECK_EQ_U64(4, store_tally_now(tally)); /* 20, 30, 50, 60 */
    store_tally_close(tally);
    rig_close(&rig);
}

#define TIMED 400u
#define SPOILED_FROM 100u
#define SPOILED_UPTO 299u

static bool is_spoiled(uint64_t seq) {
    return seq >= SPOILED_FROM && seq <= SPOILED_UPTO;
}

/* By the second of each message. The first that can be read is found, or so much of the way: none that can be read lies
 * between there and it. */
static void find_each_time(store_stream_t *stream, uint32_t budget, bool known) {
    for (uint64_t wanted = 1; wanted <= TIMED; wanted++) {
        uint64_t seq = 0;
        seek_outcome_t status =
            store_seq_at_time(stream, RIG_START + (int64_t)(wanted - 1) * NS_PER_SECOND, budget, &seq);
        uint64_t right = is_spoiled(wanted) ? SPOILED_UPTO + 1 : wanted;
        CHECK(status == SEEK_FOUND || status == SEEK_MORE || (!known && status == SEEK_UNKNOWN));
        if (status == SEEK_FOUND) {
            CHECK_EQ_U64(right, seq);
        } else if (status == SEEK_MORE) {
            CHECK(seq == right || (seq < right && is_spoiled(seq) && is_spoiled(right - 1)));
        }
    }
}

static void a_time_is_found_behind_damaged_ones_or_not_known(void) {
    rig = (rig_t){0};
    rig_open(&rig);
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig.now.wall_ns = RIG_START;
    for (uint32_t i = 0; i < TIMED; i++) {
        rig_put(&rig, stream, "dam.a", "payload");
        rig_pass(&rig, NS_PER_SECOND);
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    spoil_messages(SPOILED_FROM, SPOILED_UPTO);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    find_each_time(stream, 10, false);
    find_each_time(stream, 100, false);
    find_each_time(stream, 1000, true);
    rig_close(&rig);
}

int main(void) {
    RUN("behind a damaged message its subject's older ones are found", older_ones_are_found_behind_a_damaged_one);
    RUN("a count goes on behind a damaged message of its subject", a_count_goes_on_behind_a_damaged_one);
    RUN("a time is found behind many damaged messages, or is not known: never another one's",
        a_time_is_found_behind_damaged_ones_or_not_known);
    return TEST_RESULT();
}
