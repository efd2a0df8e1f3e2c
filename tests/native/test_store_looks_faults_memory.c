/* test_store_looks_faults_memory.c: a read of LMDB that fails, or an allocation, at each place of looks that take
 * further turns or are asked seldom: for the next of few messages very far apart, along their chains; for the newest by
 * a pattern, below a damaged link too; a purge that keeps some; schedules that are asked for and set again; numbers of
 * streams that are free; when a message is to expire; definitions that are lost. What searches in a large stream:
 * test_store_searches_faults_memory.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "kept_scenes.h"
#include "store/schedules.h"
#include "store/timeline.h"

#define FAR 3000  /* messages of a stream */
#define APART 600 /* between two of s.a, and between two of s.b */

/* ---- along chains ------------------------------------------------------------------------------------------------ */

/* s.a at 1, 601 .., s.b at 301, 901 .., and four others between them. */
static void put_far(void) {
    for (unsigned i = 0; i < FAR; i++) {
        char subject[] = {'s', '.', i % APART == 0 ? 'a' : i % APART == APART / 2 ? 'b' : (char)('c' + i % 4), 0};
        store(subject);
        if (i % 100 == 99) rig_sync(&rig);
    }
}

static bool is_wanted(uint64_t seq, bool a, bool b) {
    return ((seq - 1) % APART == 0 && a) || ((seq - 1) % APART == APART / 2 && b);
}

static void look_along(const char *const *filters, unsigned count, bool a, bool b, uint32_t budget) {
    bytes_t patterns[2];
    store_ahead_t ahead = {.sparse = true};
    uint64_t from = 1;
    for (unsigned i = 0; i < count; i++) patterns[i] = text(filters[i]);
    for (uint64_t seq = 1; seq <= FAR; seq++) {
        stored_message_t message;
        seek_outcome_t seek = SEEK_MORE;
        if (!is_wanted(seq, a, b)) continue;
        for (unsigned tries = 0; seek != SEEK_FOUND;) {
            seek = store_next_ahead(stream, &ahead, (filters_t){.patterns = patterns, .count = count}, &from,
                                    UINT64_MAX, budget, &message);
            SCENE_CHECK(seek != SEEK_NONE && from <= seq);
            if (seek != SEEK_FOUND) again(&tries);
        }
        SCENE_CHECK(message.seq == seq);
        from = seq + 1;
    }
    stored_message_t message;
    seek_outcome_t seek = SEEK_MORE;
    for (unsigned tries = 0; seek != SEEK_NONE;) {
        seek = store_next_ahead(stream, &ahead, (filters_t){.patterns = patterns, .count = count}, &from, UINT64_MAX,
                                1000, &message);
        SCENE_CHECK(seek != SEEK_FOUND);
        if (seek != SEEK_NONE) again(&tries);
    }
    store_ahead_end(&ahead);
}

static void look_along_one(void) {
    static const char *const one[] = {"s.a"};
    look_along(one, 1, true, false, 64);
}

static void look_along_two(void) {
    static const char *const two[] = {"s.b", "*.a"};
    look_along(two, 2, true, true, 64);
}

static void look_along_pattern(void) {
    static const char *const pattern[] = {"*.b"};
    look_along(pattern, 1, false, true, 4096); /* all of its subjects in one turn */
}

static void what_is_far_apart_is_found(void) {
    static const uint64_t none[] = {0};
    expect(1, FAR, none);
    play_copies(&(scene_t){"along one chain", rig_config, put_far, look_along_one, seqs, 1, FAR, 6, true});
    play_copies(&(scene_t){"along two", rig_config, put_far, look_along_two, seqs, 1, FAR, 6, true});
    play_copies(&(scene_t){"along a pattern's", rig_config, put_far, look_along_pattern, seqs, 1, FAR, 6, true});
}

/* ---- the newest -------------------------------------------------------------------------------------------------- */

static void put_ababc(void) {
    store_all("ababcabcab");
}

static void expect_newest(void) {
    append_t append = {.subject = text("s.c"), .has_expected_subject_seq = true, .expected_subject_seq = 10};
    append.expected_subject = text("*.b");
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    append.expected_subject = text("*.c");
    append.expected_subject_seq = 11;
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static void the_newest_by_a_pattern_is_known(void) {
    static const uint64_t none[] = {0};
    expect(1, 12, none);
    play_copies(&(scene_t){"the newest by a pattern", rig_config, put_ababc, expect_newest, seqs, 1, 12, 3, true});
}

static bool look_below(unsigned n) {
    begin_copy();
    fail_from(n, 1, EIO);
    stored_message_t message;
    entry_outcome_t outcome = ENTRY_UNKNOWN;
    for (unsigned tries = 0; outcome != ENTRY_FOUND;) {
        outcome = store_last_by_subject(stream, text("s.a"), 5, &message);
        SCENE_CHECK(outcome != ENTRY_NONE && outcome != ENTRY_DAMAGED);
        if (outcome != ENTRY_FOUND) again(&tries);
    }
    SCENE_CHECK(message.seq == 3);
    bool reached = counted() >= n;
    heal();
    drop_copy(&rig);
    return reached;
}

/* Of its subject there are 1, 3, 6 and 9; 6 is damaged, and the newest up to 5 is asked for. */
static void below_a_damaged_link_it_is_searched(void) {
    static const scene_t broken = {"below a damaged link", rig_config, put_ababc, NULL, NULL, 1, 10, 3, true};
    scene = &broken;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put_ababc();
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    spoil_message(&rig, 6);
    keep_store(&rig);
    for (fault = READ; fault <= ALLOCATION; fault += ALLOCATION - READ) {
        unsigned n = 1;
        while (look_below(n)) n++;
        printf("%s: %u of %s\n", scene->name, n - 1, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

/* ---- a purge that keeps some ------------------------------------------------------------------------------------- */

static void purge_all_but_two(void) {
    purge("*.b", 0, 2);
    purge("s.a", 0, 1);
    purge("s.c", 0, 1);
}

/* Of the second subject there are 2, 4, 7 and 10, of the first 1, 3, 6 and 9, of the third 5 and 8. */
static void a_purge_keeps_the_newest(void) {
    static const uint64_t gone[] = {1, 2, 3, 4, 5, 6, 0};
    expect(1, 10, gone);
    play_copies(&(scene_t){"a purge that keeps", rig_config, put_ababc, purge_all_but_two, seqs, 7, 10, 3, true});
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static int64_t scheduled_ts(void) {
    return RIG_START + 7200 * NS_PER_SECOND;
}

static void put_schedules(void) {
    for (unsigned i = 0; i < 2; i++) {
        append_t append = {.subject = text("s.a"), .due_ts = scheduled_ts()};
        SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    }
    store("s.b");
}

static void ask_until_known(uint64_t seq, int64_t due_ts, entry_outcome_t expected) {
    entry_outcome_t outcome = ENTRY_UNKNOWN;
    for (unsigned tries = 0; outcome == ENTRY_UNKNOWN;) {
        outcome = store_schedule_asked(stream, seq, due_ts);
        if (outcome == ENTRY_UNKNOWN) again(&tries);
    }
    SCENE_CHECK(outcome == expected);
}

static void set_again(void) {
    unsigned tries = 0;
    ask_until_known(1, scheduled_ts(), ENTRY_FOUND);
    ask_until_known(3, scheduled_ts(), ENTRY_NONE);
    while (store_schedule_again(stream, 2, scheduled_ts() + NS_PER_SECOND, rig.now) != STATUS_OK) again(&tries);
    ask_until_known(2, scheduled_ts(), ENTRY_NONE);
    ask_until_known(2, scheduled_ts() + NS_PER_SECOND, ENTRY_FOUND);
    while (store_schedule_over(stream, 1) != STATUS_OK) again(&tries);
    ask_until_known(1, scheduled_ts(), ENTRY_NONE);
}

static void a_schedule_is_as_it_was_set(void) {
    static const uint64_t none[] = {0};
    expect(1, 3, none);
    play_copies(&(scene_t){"schedules", rig_config, put_schedules, set_again, seqs, 1, 3, 2, true});
}

/* ---- numbers of streams ------------------------------------------------------------------------------------------ */

static void put_two_streams(void) {
    store_all("abc");
    store_stream_t *other = rig_stream(&rig, 3, rig_config());
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, other, "other", "payload").verdict);
}

static void ask_for_numbers(void) {
    for (unsigned i = 0; i < 3; i++) {
        SCENE_CHECK(store_stream_unused(rig.store, 3) != STATUS_OK); /* it is not open, and its messages are there */
        status_t unused = store_stream_unused(rig.store, 2);
        SCENE_CHECK(unused == STATUS_OK || unused == STATUS_IO || unused == STATUS_NO_MEMORY);
    }
}

static void a_number_is_free_if_that_is_known(void) {
    static const uint64_t none[] = {0};
    expect(1, 3, none);
    play_copies(&(scene_t){"numbers", rig_config, put_two_streams, ask_for_numbers, seqs, 1, 3, 3, true});
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static stream_config_t aging(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 100 * NS_PER_SECOND;
    return config;
}

static void put_aging(void) {
    for (unsigned i = 0; i < 6; i++) {
        append_t append = {.subject = text(i % 2 == 0 ? "s.a" : "s.b"), .payload = text("p")};
        append.expires_ts = i == 3 ? rig.now.wall_ns + 40 * NS_PER_SECOND : 0;
        SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
        rig_pass(&rig, 10 * NS_PER_SECOND);
    }
    delete(1);
}

/* Never later than the next message goes; 0 says that it is not known. */
static void ask_when(void) {
    for (unsigned i = 0; i < 5; i++) {
        int64_t due = store_stream_due(stream);
        SCENE_CHECK(due < INT64_MAX);
        rig_pass(&rig, 12 * NS_PER_SECOND);
        turns(2);
    }
}

static void what_is_due_is_never_called_undue(void) {
    static const uint64_t gone[] = {1, 2, 3, 4, 0};
    expect(1, 6, gone);
    play_copies(&(scene_t){"times", aging, put_aging, ask_when, seqs, 5, 6, 2, true});
}

/* ---- lost definitions -------------------------------------------------------------------------------------------- */

static void put_definitions(void) {
    uint8_t id[4];
    store_all("abc");
    for (uint32_t i = 1; i <= 3; i++) {
        store_be32(id, i);
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_STREAM, bytes_of(id, 4),
                                                 text("{\"account\":\"A\",\"config\":{\"name\":\"S\"}}")));
    }
}

static bool count_lost(void *context, bytes_t key, bytes_t name) {
    (void)name;
    SCENE_CHECK(key.size == 5 && load_be32(key.at + 1) == 2);
    ++*(unsigned *)context;
    return true;
}

/* Of stream 2 the definition and its copy. */
static void spoil_definition(void) {
    static const uint8_t garbage[40] = {1, 2, 3};
    char reason[RIG_REASON];
    uint8_t id[4];
    store_key_t key;
    env_t *env;
    store_be32(id, 2);
    key_record(&key, RECORD_STREAM, bytes_of(id, 4));
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORDS, key_bytes(&key), bytes_of(garbage, sizeof garbage)));
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_RECORD_COPIES, key_bytes(&key), bytes_of(garbage, sizeof garbage)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
}

static void list_lost(void) {
    for (unsigned i = 0; i < 3; i++) {
        unsigned lost = 0;
        list_outcome_t list = store_lost_each(rig.store, BYTES_NONE, count_lost, &lost);
        SCENE_CHECK(list != LIST_WHOLE || lost == 1);
    }
}

static void a_lost_definition_is_named_or_not_known(void) {
    static const uint64_t none[] = {0};
    expect(1, 3, none);
    damage = spoil_definition;
    play_copies(&(scene_t){"lost definitions", rig_config, put_definitions, list_lost, seqs, 1, 3, 3, true});
}

int main(void) {
    RUN("messages very far apart are found along their chains, none left out", what_is_far_apart_is_found);
    RUN("the newest by a pattern is the one that it is", the_newest_by_a_pattern_is_known);
    RUN("below a damaged link the newest is searched for", below_a_damaged_link_it_is_searched);
    RUN("a purge keeps the newest, as many as it is to", a_purge_keeps_the_newest);
    RUN("a schedule is for when it was set", a_schedule_is_as_it_was_set);
    RUN("the number of a stream is free only if that is known", a_number_is_free_if_that_is_known);
    RUN("what is to expire is known, or asked for again", what_is_due_is_never_called_undue);
    RUN("a lost definition is named, or not known", a_lost_definition_is_named_or_not_known);
    return TEST_RESULT();
}
