/* test_store_apply.c: one log, applied by two stores that differ in what servers may differ in: size of the journal, of
 * the map, and how many entries lie between two ticks. What they hold in the end is the same, byte for byte. Entries
 * carry the time, and a tick is at the time of the last entry. Rules that do not hold to that yet are listed in
 * packaging/doc/cluster-design.md and are not played here: times to live, markers, schedules.
 */
#include "base/random.h"
#include "disk/env.h"
#include "store_rig.h"

#define ENTRIES 6000
#define SUBJECTS 40

typedef enum what { APPEND = 0, APPEND_ID, APPEND_ROLLUP, APPEND_EXPECTS, REMOVE, PURGE, WHATS } what_t;

typedef struct logged {
    what_t what;
    int64_t after_ns; /* the entry before it */
    uint32_t subject;
    uint32_t size;
    uint64_t number;
} logged_t;

typedef struct member {
    rig_t rig;
    store_stream_t *stream;
    uint32_t entries_a_tick;
    uint64_t verdicts; /* a sum over all of them */
} member_t;

static logged_t entries[ENTRIES];
static uint8_t payload[4000];

static void draw(uint64_t seed) {
    for (uint32_t i = 0; i < ENTRIES; i++) {
        entries[i] = (logged_t){.what = (what_t)random_below(&seed, WHATS),
                                .after_ns = random_below(&seed, 50) * NS_PER_MS,
                                .subject = random_below(&seed, SUBJECTS),
                                .size = random_below(&seed, sizeof payload),
                                .number = random_below(&seed, ENTRIES)};
    }
}

#define OVERLAY_MAX 8192u /* a batch of the last seconds may wait for the next checkpoint */

static void settle(member_t *member) {
    store_tick(member->rig.store, member->rig.now);
    while (store_advanced_next(member->rig.store) != NULL) {
    }
}

/* Without room it waits: a verdict is never for a reason of this server's own. */
static appended_t apply_append(member_t *member, const append_t *append) {
    appended_t done = store_append(member->stream, append, member->rig.now);
    for (int64_t until = 0; done.verdict == APPEND_NO_SPACE && patient(&until);) {
        settle(member);
        struct pollfd poller = {.fd = store_wake_fd(member->rig.store), .events = POLLIN};
        poll(&poller, 1, 1);
        done = store_append(member->stream, append, member->rig.now);
    }
    return done;
}

/* To its end, before the next entry. */
static void apply_purge(member_t *member, bytes_t subject, uint64_t below, uint64_t keep) {
    store_purge_t purge = {.filter = subject, .below_seq = below, .keep = keep};
    uint64_t purged;
    step_outcome_t step = STEP_MORE;
    for (int64_t until = 0; step != STEP_OVER && patient(&until);) {
        if (store_purge(member->stream, &purge, &purged, &step) != STATUS_OK) {
            settle(member);
        }
    }
    store_purge_end(&purge);
}

static void apply_entry(member_t *member, const logged_t *entry) {
    char subject[16];
    char id[24];
    snprintf(subject, sizeof subject, "s.%u", (unsigned)entry->subject);
    snprintf(id, sizeof id, "id-%u", (unsigned)(entry->number % 500));
    append_t append = {.subject = text(subject), .payload = bytes_of(payload, entry->size)};
    switch (entry->what) {
    case APPEND: break;
    case APPEND_ID: append.msg_id = text(id); break;
    case APPEND_ROLLUP: append.rollup = 1; break;
    case APPEND_EXPECTS:
        append.has_expected_last_seq = true;
        append.expected_last_seq = rig_state(member->stream).last_seq + (entry->number % 2);
        break;
    case REMOVE: (void)!store_delete(member->stream, entry->number); return;
    case PURGE: apply_purge(member, text(subject), 0, 2); return;
    case WHATS: return;
    }
    appended_t done = apply_append(member, &append);
    if (done.rolling != 0) {
        apply_purge(member, text(subject), done.seq, 0);
    }
    member->verdicts = member->verdicts * 31 + (uint64_t)done.verdict * 7 + done.seq;
}

static void play(member_t *member, stream_config_t config) {
    member->rig.in_memory = true;
    rig_open(&member->rig);
    member->stream = rig_stream(&member->rig, 1, config);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        rig_pass(&member->rig, entries[i].after_ns);
        apply_entry(member, &entries[i]);
        if ((i + 1) % member->entries_a_tick == 0) {
            settle(member);
        }
    }
    /* What is due by now is done, in LMDB too. Time goes on while a checkpoint is waited for: its end lets old ids go,
     * and what that writes is checkpointed some seconds later. */
    for (int i = 0; i < 30; i++) {
        rig_pass(&member->rig, 30 * NS_PER_SECOND);
        rig_sync(&member->rig);
        plane_stats_t stats = {.overlay_bytes = UINT64_MAX};
        for (int64_t until = 0; i % 10 == 9 && stats.overlay_bytes > OVERLAY_MAX && patient(&until);) {
            stats = (plane_stats_t){0};
            rig_pass(&member->rig, 100 * NS_PER_MS);
            store_tick(member->rig.store, member->rig.now);
            store_stats(member->rig.store, &stats);
            usleep(200);
        }
        CHECK(i % 10 < 9 || stats.overlay_bytes <= OVERLAY_MAX);
        usleep(3000);
    }
}

/* ---- what they hold ---------------------------------------------------------------------------------------------- */

static env_t *look_into(member_t *member) {
    char reason[256];
    env_t *env;
    store_close(member->rig.store);
    member->rig.store = NULL;
    CHECK_EQ_I64(STATUS_OK, env_open(member->rig.directory, UINT64_C(1) << 30, false, &env, reason, sizeof reason));
    return env;
}

static void compare(env_t *one, env_t *other, store_db_t db) {
    store_key_t from;
    bytes_t key = BYTES_NONE, value = BYTES_NONE, other_key = BYTES_NONE, other_value = BYTES_NONE;
    key_message(&from, 1, 0);
    bytes_t begin = db == DB_RECORDS ? text("\001") : bytes_of(from.at, 4);
    read_outcome_t outcome = env_seek(one, db, begin, &key, &value);
    read_outcome_t other_outcome = env_seek(other, db, begin, &other_key, &other_value);
    while (outcome == READ_FOUND && other_outcome == READ_FOUND) {
        if (!bytes_equal(key, other_key) || !bytes_equal(value, other_value)) {
            FAIL("database %d: they differ at a key of %u bytes (%llx) and %u bytes (%llx)", db, key.size,
                 key.size >= 12 ? (unsigned long long)load_be64(key.at + 4) : 0, other_key.size,
                 other_key.size >= 12 ? (unsigned long long)load_be64(other_key.at + 4) : 0);
        }
        outcome = env_next(one, db, bytes_of(from.at, 4), &key, &value);
        other_outcome = env_next(other, db, bytes_of(from.at, 4), &other_key, &other_value);
    }
    CHECK_EQ_I64(READ_NONE, outcome);
    CHECK_EQ_I64(READ_NONE, other_outcome);
}

static void same_everywhere(stream_config_t config, uint64_t seed) {
    static const store_db_t dbs[] = {DB_MESSAGES, DB_HEADS, DB_IDS, DB_ID_ORDER, DB_EXPIRY, DB_RECORDS};
    member_t one = {.rig = {.options = {.journal_size = 1 << 20, .max_bytes = 1 << 28}}, .entries_a_tick = 1};
    member_t other = {.rig = {.options = {.journal_size = 16 << 20, .max_bytes = 1 << 30}}, .entries_a_tick = 150};
    draw(seed);
    play(&one, config);
    play(&other, config);
    CHECK_EQ_U64(one.verdicts, other.verdicts);
    stream_state_t a = rig_state(one.stream), b = rig_state(other.stream);
    CHECK_EQ_U64(a.messages, b.messages);
    CHECK_EQ_U64(a.first_seq, b.first_seq);
    CHECK(a.messages > 0 || config.max_age_ns > 0);
    env_t *left = look_into(&one);
    env_t *right = look_into(&other);
    for (size_t i = 0; i < sizeof dbs / sizeof *dbs; i++) {
        compare(left, right, dbs[i]);
    }
    env_close(left);
    env_close(right);
    rig_close(&one.rig);
    rig_close(&other.rig);
}

static void without_limits(void) {
    same_everywhere(rig_config(), 1);
}

static void with_limits(void) {
    stream_config_t config = rig_config();
    config.max_msgs = 300;
    config.max_bytes = 400000;
    same_everywhere(config, 2);
}

static void by_subject(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 3;
    same_everywhere(config, 3);
}

static void refusing(void) {
    stream_config_t config = rig_config();
    config.max_msgs = 100;
    config.max_msgs_per_subject = 4;
    config.discard = 1;
    config.flags |= STREAM_DISCARD_NEW_PER_SUBJECT;
    same_everywhere(config, 4);
}

static void window(void) {
    stream_config_t config = rig_config();
    config.duplicate_window_ns = 2 * NS_PER_SECOND;
    same_everywhere(config, 5);
}

static void ages(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 20 * NS_PER_SECOND;
    same_everywhere(config, 6);
}

int main(void) {
    RUN("two stores hold the same after one log: a stream without limits", without_limits);
    RUN("two stores hold the same after one log: a stream with limits", with_limits);
    RUN("two stores hold the same after one log: a limit for each subject", by_subject);
    RUN("two stores hold the same after one log: a stream that refuses what is new", refusing);
    RUN("two stores hold the same after one log: a short window of duplicates", window);
    RUN("two stores hold the same after one log: messages that age", ages);
    return TEST_RESULT();
}
