/* test_store_faults_memory.c: a read of LMDB that fails, and an allocation that fails, at every place. Each scene
 * prepares a stream, then does what the scene is about while the n-th read (or allocation, of the plane's thread or of
 * the store's own) fails, for every n, once and three times in a row. What is refused meanwhile is asked again, as a
 * client does. Afterwards, with nothing failing any more, the stream is exactly what it would have been without the
 * fault, after a kill -9 too; and nothing was said not to be there that is. An alarm tells of every read that failed;
 * not of every allocation: the caller is refused, or a cache that did not grow changes nothing but the speed. Where
 * the store is opened anew before, damage takes the head of each subject, too, and nothing else is different then.
 */
#include "store/schedules.h"
#include "store_faults.h"

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static stream_config_t at_most_20(void) {
    stream_config_t config = rig_config();
    config.max_msgs = 20;
    return config;
}

static void put_30_delete_3(void) {
    store_all("abcabcabcabcabcabcabcabcabcabc");
    delete(12);
    delete(13);
    delete(20);
}

static void put_5(void) {
    store_all("abcab");
}

static void the_oldest_go_and_no_others(void) {
    static const uint64_t seqs[] = {15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 0};
    play(&(scene_t){"max_msgs", at_most_20, put_30_delete_3, put_5, seqs, 15, 35, 3, false});
    play(&(scene_t){"max_msgs, cold", at_most_20, put_30_delete_3, put_5, seqs, 15, 35, 3, true});
}

static stream_config_t two_a_subject(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 2;
    return config;
}

static void put_abcabc(void) {
    store_all("abcabc");
}

static void put_abca(void) {
    store_all("abca");
}

static void each_subject_keeps_its_newest(void) {
    static const uint64_t seqs[] = {5, 6, 7, 8, 9, 10, 0};
    play(&(scene_t){"max_msgs_per_subject", two_a_subject, put_abcabc, put_abca, seqs, 5, 10, 3, false});
    play(&(scene_t){"max_msgs_per_subject, cold", two_a_subject, put_abcabc, put_abca, seqs, 5, 10, 3, true});
}

static void put_ababcacb(void) {
    store_all("ababcacb");
}

static void lower_the_limit(void) {
    stream_config_t config = two_a_subject();
    config.max_msgs_per_subject = 1;
    store_stream_configure(stream, &config, rig.now);
}

static void a_lowered_limit_is_carried_out(void) {
    static const uint64_t seqs[] = {6, 7, 8, 0};
    play(&(scene_t){"a lowered limit", rig_config, put_ababcacb, lower_the_limit, seqs, 6, 8, 3, true});
}

/* ---- deletions --------------------------------------------------------------------------------------------------- */

static void put_ababa(void) {
    store_all("ababa");
}

static void delete_the_newest(void) {
    stored_message_t message;
    delete(5);
    delete(4);
    entry_outcome_t status = store_last_by_subject(stream, text("s.a"), UINT64_MAX, &message);
    SCENE_CHECK(status != ENTRY_NONE && (status != ENTRY_FOUND || message.seq == 3));
    status = store_last_by_subject(stream, text("s.*"), UINT64_MAX, &message);
    SCENE_CHECK(status != ENTRY_NONE && (status != ENTRY_FOUND || message.seq == 3));
}

static void the_newest_of_a_subject_is_known_after_deletions(void) {
    static const uint64_t seqs[] = {1, 2, 3, 0};
    play(&(scene_t){"deletions", rig_config, put_ababa, delete_the_newest, seqs, 1, 5, 2, true});
}

static void purge_b(void) {
    purge("s.b", 0, 0);
}

static void purge_wild(void) {
    purge("s.*", 7, 0);
}

static void purge_but_two(void) {
    purge("", 0, 2);
}

static void a_purge_takes_what_matches_and_nothing_else(void) {
    static const uint64_t without_b[] = {1, 3, 5, 6, 7, 0};
    static const uint64_t behind[] = {7, 8, 0};
    play(&(scene_t){"purge of a subject", rig_config, put_ababcacb, purge_b, without_b, 1, 8, 2, true});
    play(&(scene_t){"purge of a pattern", rig_config, put_ababcacb, purge_wild, behind, 7, 8, 2, true});
    play(&(scene_t){"purge but two", rig_config, put_ababcacb, purge_but_two, behind, 7, 8, 2, true});
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static stream_config_t ten_seconds(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 100 * NS_PER_SECOND;
    return config;
}

static void put_old_and_young(void) {
    store_all("abcab");
    rig_pass(&rig, 50 * NS_PER_SECOND);
    store_all("abc");
}

static void let_the_old_expire(void) {
    rig_pass(&rig, 60 * NS_PER_SECOND);
    turns(20);
}

static void what_is_too_old_goes(void) {
    static const uint64_t seqs[] = {6, 7, 8, 0};
    play(&(scene_t){"max_age", ten_seconds, put_old_and_young, let_the_old_expire, seqs, 6, 8, 3, false});
    play(&(scene_t){"max_age, cold", ten_seconds, put_old_and_young, let_the_old_expire, seqs, 6, 8, 3, true});
}

static void put_with_times_to_live(void) {
    for (int i = 0; i < 6; i++) {
        append_t append = {.subject = text(i % 2 == 0 ? "s.a" : "s.b"), .payload = text("p")};
        append.expires_ts = i < 4 ? rig.now.wall_ns + (i + 20) * NS_PER_SECOND : 0;
        SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    }
}

static void what_has_outlived_its_time_goes(void) {
    static const uint64_t seqs[] = {5, 6, 0};
    play(&(scene_t){"time to live", rig_config, put_with_times_to_live, let_the_old_expire, seqs, 5, 6, 2, false});
    play(&(scene_t){"time to live, cold", rig_config, put_with_times_to_live, let_the_old_expire, seqs, 5, 6, 2, true});
}

/* ---- expectations and ids ---------------------------------------------------------------------------------------- */

static void put_ids(void) {
    SCENE_CHECK(rig_put_id(&rig, stream, "s.a", "one").verdict == APPEND_STORED);
    SCENE_CHECK(rig_put_id(&rig, stream, "s.b", "two").verdict == APPEND_STORED);
}

static void put_ids_again(void) {
    SCENE_CHECK(insist(&(append_t){.subject = text("s.a"), .msg_id = text("one")}).verdict == APPEND_DUPLICATE);
    SCENE_CHECK(insist(&(append_t){.subject = text("s.b"), .msg_id = text("two")}).verdict == APPEND_DUPLICATE);
    SCENE_CHECK(insist(&(append_t){.subject = text("s.b"), .msg_id = text("three")}).verdict == APPEND_STORED);
}

static void a_duplicate_stays_one(void) {
    static const uint64_t seqs[] = {1, 2, 3, 0};
    play(&(scene_t){"ids", rig_config, put_ids, put_ids_again, seqs, 1, 3, 2, true});
}

static void put_as_expected(void) {
    append_t append = {.subject = text("s.a"), .has_expected_subject_seq = true, .expected_subject_seq = 5};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    append.expected_subject = text("s.*");
    append.expected_subject_seq = 6;
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    append = (append_t){.subject = text("s.c"), .has_expected_subject_seq = true};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static void a_right_expectation_is_never_called_wrong(void) {
    static const uint64_t seqs[] = {1, 2, 3, 4, 5, 6, 7, 8, 0};
    play(&(scene_t){"expectations", rig_config, put_ababa, put_as_expected, seqs, 1, 8, 3, true});
}

static void roll_up(void) {
    append_t append = {.subject = text("s.a"), .rollup = 1};
    appended_t got = insist(&append);
    SCENE_CHECK(got.verdict == APPEND_STORED);
    if (got.rolling != 0) {
        purge("s.a", got.seq, 0);
    }
}

static void a_rollup_leaves_itself(void) {
    static const uint64_t seqs[] = {2, 4, 6, 0};
    play(&(scene_t){"rollup", rig_config, put_ababa, roll_up, seqs, 2, 6, 2, true});
}

/* ---- compressed messages ----------------------------------------------------------------------------------------- */

#define READING_SIZE 240
#define READINGS 40 /* the first dictionary is made on the way (rig_try) */

static const char *reading(char text[READING_SIZE], unsigned number) {
    static const char unit[] = "\"unit\":\"degrees celsius\",\"place\":\"cold room\",\"quality\":\"good\"";
    snprintf(text, READING_SIZE, "{\"sensor\":\"temperature\",%s,%s,\"value\":%u,\"check\":%u}", unit, unit,
             number % 40, number * 7919);
    return text;
}

static void put_readings(unsigned from, unsigned to) {
    char text_of[READING_SIZE];
    for (unsigned i = from; i <= to; i++) {
        append_t append = {.subject = text("s.a"), .payload = text(reading(text_of, i))};
        SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    }
}

static stream_config_t compressed(void) {
    stream_config_t config = rig_config();
    config.flags |= STREAM_COMPRESS;
    return config;
}

static void put_first_readings(void) {
    put_readings(1, READINGS / 2);
    rig_checkpoint(&rig);
    put_readings(READINGS / 2 + 1, READINGS);
}

static void read_and_put_more(void) {
    char text_of[READING_SIZE];
    for (unsigned i = 1; i <= READINGS; i += 7) {
        stored_message_t message;
        entry_outcome_t status = store_read(stream, i, &message);
        SCENE_CHECK(status != ENTRY_NONE && status != ENTRY_DAMAGED);
        SCENE_CHECK(status != ENTRY_FOUND || bytes_equal(message.payload, text(reading(text_of, i))));
    }
    put_readings(READINGS + 1, READINGS + 10);
}

static void a_compressed_message_is_never_called_damaged(void) {
    static uint64_t seqs[READINGS + 11];
    for (unsigned i = 0; i < READINGS + 10; i++) {
        seqs[i] = i + 1;
    }
    play(&(scene_t){"compressed", compressed, put_first_readings, read_and_put_more, seqs, 1, READINGS + 10, 1, true});
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static unsigned fired;

static store_due_t due(void *context, store_stream_t *which, uint64_t seq, int64_t due_ts) {
    (void)context;
    SCENE_CHECK(seq == 1);
    fired++;
    if (fired == 1 && store_schedule(which, seq, due_ts + 3 * NS_PER_SECOND, rig.now) != STATUS_OK) {
        return STORE_DUE_LATER;
    }
    return STORE_DUE_DONE;
}

static void put_schedule(void) {
    store_hooks_t hooks = {.due = due};
    store_set_hooks(rig.store, hooks);
    fired = 0;
    append_t append = {.subject = text("s.a"), .due_ts = rig.now.wall_ns + 30 * NS_PER_SECOND};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static void let_it_fire_twice(void) {
    store_set_hooks(rig.store, (store_hooks_t){.due = due});
    for (unsigned i = 0; i < 40; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        turns(1);
    }
    turns(20);
    if (counted() < failing_at + 3) { /* or the last of them is still to come */
        SCENE_CHECK(fired == 2);
    }
    SCENE_CHECK(fired <= 2);
}

static void a_schedule_fires_as_often_as_it_should(void) {
    static const uint64_t seqs[] = {1, 0};
    play(&(scene_t){"schedule", rig_config, put_schedule, let_it_fire_twice, seqs, 1, 1, 1, true});
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static bool count_one(void *context, uint64_t seq) {
    unsigned *count = context;
    SCENE_CHECK(seq == 2 || seq == 4);
    ++*count;
    return true;
}

static bool count_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)subject, (void)count, (void)last_seq;
    ++*(unsigned *)context;
    return true;
}

static bool count_record(void *context, bytes_t key, bytes_t value) {
    (void)key, (void)value;
    ++*(unsigned *)context;
    return true;
}

static void put_and_delete(void) {
    store_all("ababcacb");
    delete(2);
    delete(4);
    for (char key = 'a'; key < 'f'; key++) {
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, bytes_of(&key, 1), text("value")));
    }
}

static void ask(void) {
    unsigned count = 0;
    uint64_t at = 1;
    step_outcome_t step = store_deleted(stream, &at, 8, 100, count_one, &count);
    SCENE_CHECK(step != STEP_OVER || count == 2);
    count = 0;
    status_t status = store_subjects(stream, text("s.*"), count_subject, &count);
    SCENE_CHECK(status != STATUS_OK || count == 3);
    count = 0;
    status = list_status(store_record_each(rig.store, RECORD_CONTROL, BYTES_NONE, BYTES_NONE, count_record, &count));
    SCENE_CHECK(status != STATUS_OK || count == 5);
    bytes_t value;
    status = entry_status(store_record_get(rig.store, RECORD_CONTROL, text("c"), &value));
    SCENE_CHECK(status != STATUS_NOT_FOUND);
    at = 1;
    stored_message_t message;
    bytes_t pattern = text("s.c");
    seek_outcome_t seek = store_next(stream, (filters_t){.patterns = &pattern, .count = 1}, &at, 8, 100, &message);
    SCENE_CHECK(seek != SEEK_NONE && (seek != SEEK_FOUND || message.seq == 5));
    seek = store_seq_at_time(stream, RIG_START - 1, 100, &at);
    SCENE_CHECK(seek != SEEK_NONE && (seek != SEEK_FOUND || at == 1));
    store_ahead_t ahead = {.sparse = true};
    at = 1;
    seek = store_next_ahead(stream, &ahead, (filters_t){.patterns = &pattern, .count = 1}, &at, 8, 100, &message);
    SCENE_CHECK(seek != SEEK_NONE && (seek != SEEK_FOUND || message.seq == 5));
    store_ahead_end(&ahead);
    store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = &pattern, .count = 1}, 3);
    for (unsigned tries = 0; tally != NULL && store_tally_step(tally, UINT32_MAX) != STEP_OVER;) {
        again(&tries);
    }
    SCENE_CHECK(tally == NULL || store_tally_now(tally) == 2);
    store_tally_close(tally);
}

static void nothing_is_answered_that_is_not_known(void) {
    static const uint64_t seqs[] = {1, 3, 5, 6, 7, 8, 0};
    play(&(scene_t){"questions", rig_config, put_and_delete, ask, seqs, 1, 8, 3, true});
}

/* ---- starts ------------------------------------------------------------------------------------------------------ */

static void start_again(void) {
    char reason[RIG_REASON];
    store_close(rig.store);
    for (unsigned tries = 0; rig_try(&rig, reason) != STATUS_OK;) {
        SCENE_CHECK(++tries < TRIES);
    }
    stream_config_t config = scene->config();
    status_t status = store_stream_open(rig.store, 1, &config, rig.now, &stream);
    for (unsigned tries = 0; status != STATUS_OK;) {
        SCENE_CHECK(status != STATUS_NOT_FOUND);
        SCENE_CHECK(++tries < TRIES);
        status = store_stream_open(rig.store, 1, &config, rig.now, &stream);
    }
}

static bool start_while(unsigned n) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    scene->before();
    rig_checkpoint(&rig);
    fail_from(n, 1, EIO);
    start_again();
    turns(3);
    bool reached = counted() >= n;
    heal();
    turns(3);
    check_stream("afterwards");
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, scene->config());
    check_stream("after a kill");
    rig_close(&rig);
    return reached;
}

static void a_start_is_refused_or_whole(void) {
    static const uint64_t seqs[] = {1, 3, 5, 6, 7, 8, 0};
    static const scene_t start = {"start", rig_config, put_and_delete, start_again, seqs, 1, 8, 3, false};
    scene = &start;
    for (fault = READ; fault <= ALLOCATION_ELSEWHERE; fault++) {
        unsigned n = 1;
        for (; start_while(n); n++) {
            SCENE_CHECK(n < PLACES_MAX);
        }
        printf("start: %u of %s\n", n - 1, fault_names[fault]);
    }
    fault = READ;
}

/* ---- the keeper -------------------------------------------------------------------------------------------------- */

/* true: the n-th read of the keeper was reached, which applied a batch and was not yet asked for a checkpoint. */
static bool refused_while(unsigned n) {
    static const uint8_t payload[40 << 10];
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    store("s.a");
    rig_checkpoint(&rig);
    (void)rig_alarmed(&rig, "");
    fault = READ_ELSEWHERE;
    fail_from(n, 1, EIO);
    for (unsigned i = 0; i < 7; i++) { /* what is handed to the keeper at once */
        const append_t large = {.subject = text("s.a"), .payload = bytes_of(payload, sizeof payload)};
        SCENE_CHECK(store_append(stream, &large, rig.now).verdict == APPEND_STORED);
    }
    rig_sync(&rig);
    bool alarmed = false;
    for (unsigned i = 0; i < 50 && !alarmed; i++) {
        usleep(1000);
        store_tick(rig.store, rig.now);
        alarmed = rig_alarmed(&rig, "writing to");
    }
    heal();
    const append_t append = {.subject = text("s.a")};
    unsigned looks = 0;
    while (store_append(stream, &append, rig.now).verdict != APPEND_STORED) {
        SCENE_CHECK(++looks < 200); /* of 10 ms: before the next checkpoint is due without any failure */
        rig_pass(&rig, 10 * NS_PER_MS);
        usleep(10000);
        store_tick(rig.store, rig.now);
    }
    rig_close(&rig);
    return alarmed;
}

static void one_failure_does_not_refuse_for_long(void) {
    static const scene_t alone = {.name = "a failure of the keeper"};
    scene = &alone;
    unsigned n = 1;
    while (refused_while(n)) {
        n++;
    }
    CHECK(n > 2);
    fault = READ;
}

/* true: likewise, of the last checkpoint. */
static bool closed_while(unsigned n) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    store("s.a");
    rig_sync(&rig);
    fault = READ_ELSEWHERE;
    fail_from(n, 1, EIO);
    store_close(rig.store);
    bool reached = counted() >= n;
    heal();
    rig_start(&rig);
    plane_stats_t stats = {0};
    store_stats(rig.store, &stats);
    SCENE_CHECK(stats.replayed_batches == 0);
    rig_close(&rig);
    return reached;
}

static void one_failure_does_not_keep_it_open(void) {
    static const scene_t alone = {.name = "a failure of the last checkpoint"};
    scene = &alone;
    unsigned n = 1;
    while (closed_while(n)) {
        n++;
    }
    CHECK(n > 2);
    fault = READ;
}

int main(void) {
    RUN("of a full stream the oldest go, and no others", the_oldest_go_and_no_others);
    RUN("each subject keeps its newest messages", each_subject_keeps_its_newest);
    RUN("a lowered limit is carried out", a_lowered_limit_is_carried_out);
    RUN("the newest of a subject is known after deletions", the_newest_of_a_subject_is_known_after_deletions);
    RUN("a purge takes what matches, and nothing else", a_purge_takes_what_matches_and_nothing_else);
    RUN("what is too old goes, and nothing else", what_is_too_old_goes);
    RUN("what has outlived its time goes, and nothing else", what_has_outlived_its_time_goes);
    RUN("a duplicate stays one", a_duplicate_stays_one);
    RUN("a right expectation is never called wrong", a_right_expectation_is_never_called_wrong);
    RUN("a rollup leaves itself on its subject", a_rollup_leaves_itself);
    RUN("a compressed message is never called damaged", a_compressed_message_is_never_called_damaged);
    RUN("a schedule fires as often as it should", a_schedule_fires_as_often_as_it_should);
    RUN("nothing is answered that is not known", nothing_is_answered_that_is_not_known);
    RUN("a start is refused, or whole", a_start_is_refused_or_whole);
    RUN("publishers are not refused for long by one failure of the keeper", one_failure_does_not_refuse_for_long);
    RUN("a store is closed in order, whichever read of its last checkpoint failed", one_failure_does_not_keep_it_open);
    return TEST_RESULT();
}
