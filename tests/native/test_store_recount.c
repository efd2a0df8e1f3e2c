/* test_store_recount.c: heads of subjects that damage took. What must hold: a damaged head never reads as a subject
 * without messages, for nobody who reads or writes, and the stream's messages say what it was.
 */
#include "spoiled_heads.h"

#define SHORT 7 /* bytes, too few for a head */
#define MANY 5000

static rig_t rig;

static void open_rig(void) {
    rig = (rig_t){0};
    rig_open(&rig);
}

static void spoil(const char *subject, uint32_t size) {
    store_close(rig.store);
    CHECK(spoil_head(&rig, text(subject), size));
    rig_start(&rig);
}

/* A stream with messages 1 to 3, whose subject b.two has 2 and 3, and no head. */
static store_stream_t *with_two(stream_config_t config, uint32_t size) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "b.one", "x");
    rig_put(&rig, stream, "b.two", "older");
    rig_put(&rig, stream, "b.two", "newer");
    rig_checkpoint(&rig);
    spoil("b.two", size);
    return rig_stream(&rig, 1, config);
}

static uint64_t last_of(store_stream_t *stream, const char *subject) {
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject), UINT64_MAX, &message));
    return message.seq;
}

static append_t expecting(const char *subject, uint64_t seq) {
    return (append_t){.subject = text(subject),
                      .payload = text("new"),
                      .has_expected_subject_seq = true,
                      .expected_subject_seq = seq};
}

static void expected_zero_is_not_admitted(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    append_t append = expecting("b.two", 0);
    CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    CHECK(rig_alarmed(&rig, "fails its checksum"));
    append.waits = true;
    CHECK_EQ_U64(APPEND_LATER, store_append(stream, &append, rig.now).verdict);
    store_tick(rig.store, rig.now);
    appended_t done = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, done.verdict);
    CHECK_EQ_U64(3, done.seq);
    CHECK(rig_alarmed(&rig, "2 of its subject are there"));
    append.expected_subject_seq = 3;
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(2, rig_state(stream).subjects);
    rig_close(&rig);
}

static void wildcards_wait_too(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    for (int i = 0; i < 2000; i++) { /* so that what is newest is asked of all subjects */
        rig_put(&rig, stream, "other", "x");
    }
    append_t append = expecting("b.three", 1);
    append.expected_subject = text("b.*");
    append.waits = true;
    appended_t done = store_append(stream, &append, rig.now);
    for (int i = 0; i < 10 && done.verdict == APPEND_LATER; i++) {
        store_tick(rig.store, rig.now);
        done = store_append(stream, &append, rig.now);
    }
    CHECK_EQ_U64(APPEND_WRONG_LAST_SEQ, done.verdict);
    CHECK_EQ_U64(3, done.seq);
    rig_close(&rig);
}

static void limit_of_a_subject_holds(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 2;
    store_stream_t *stream = with_two(config, HEAD_FIXED_SIZE);
    CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "b.two", "third").verdict);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "b.two", "third").verdict);
    CHECK_EQ_U64(3, rig_state(stream).messages);
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_NONE, store_read(stream, 2, &message));
    rig_close(&rig);
}

static void full_subject_stays_full(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 2;
    config.discard = 1;
    config.flags |= STREAM_DISCARD_NEW_PER_SUBJECT;
    store_stream_t *stream = with_two(config, HEAD_FIXED_SIZE);
    CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "b.two", "third").verdict);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(APPEND_MAX_PER_SUBJECT, rig_put(&rig, stream, "b.two", "third").verdict);
    rig_close(&rig);
}

static void rollup_takes_all(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    append_t append = {.subject = text("b.two"), .payload = text("one"), .rollup = 1};
    CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    CHECK_EQ_U64(3, rig_state(stream).messages);
    store_tick(rig.store, rig.now);
    appended_t done = store_append(stream, &append, rig.now);
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    CHECK_EQ_U64(0, done.rolling);
    CHECK_EQ_U64(2, rig_state(stream).messages);
    rig_close(&rig);
}

/* Nothing of a subject goes while its head is not known: what is counted would not be true. */
static void nothing_goes_meanwhile(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    CHECK_EQ_I64(STATUS_IO, store_delete(stream, 3));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 1));
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(3, last_of(stream, "b.two"));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 3));
    CHECK_EQ_U64(2, last_of(stream, "b.two"));
    CHECK_EQ_I64(STATUS_OK, store_delete(stream, 2));
    CHECK_EQ_U64(0, rig_state(stream).messages);
    CHECK_EQ_U64(0, rig_state(stream).subjects);
    rig_close(&rig);
}

static void purge_of_the_subject_takes_all(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    store_purge_t purge = {.filter = text("b.two")};
    uint64_t purged = 0, sum = 0;
    step_outcome_t step = STEP_MORE;
    for (int i = 0; i < 10 && step != STEP_OVER; i++) {
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &purged, &step));
        CHECK(i > 0 || step == STEP_UNKNOWN); /* its head is damaged */
        sum += purged;
        store_tick(rig.store, rig.now);
    }
    CHECK_EQ_U64(STEP_OVER, step);
    CHECK_EQ_U64(2, sum);
    store_purge_end(&purge);
    rig_close(&rig);
}

typedef struct listed {
    uint64_t subjects;
    uint64_t messages;
} listed_t;

static bool list_one(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    listed_t *listed = context;
    listed->subjects += subject.size > 0 && last_seq > 0;
    listed->messages += count;
    return true;
}

/* All subjects that match: tries again while it is not known, in a few turns. */
static listed_t list(store_stream_t *stream, const char *pattern, bool *waited) {
    listed_t listed = {0};
    store_walk_t *walk = store_walk_open(stream, text(pattern));
    step_outcome_t step = STEP_MORE;
    *waited = false;
    for (int64_t until = 0; step != STEP_OVER && patient(&until);) {
        step = store_walk_step(walk, 1, list_one, &listed);
        *waited |= step == STEP_UNKNOWN;
        if (step == STEP_UNKNOWN) {
            rig_pass(&rig, 50 * NS_PER_MS);
            store_tick(rig.store, rig.now);
            usleep(100);
        }
    }
    CHECK_EQ_I64(STEP_OVER, step);
    store_walk_close(walk);
    return listed;
}

static void walks_miss_none_of(uint32_t size) {
    bool waited;
    store_stream_t *stream = with_two(rig_config(), size);
    listed_t listed = list(stream, "b.*", &waited);
    CHECK(waited);
    CHECK_EQ_U64(2, listed.subjects);
    CHECK_EQ_U64(3, listed.messages);
    CHECK(rig_alarmed(&rig, "2 of its subject are there"));
    listed = list(stream, ">", &waited); /* from the overlay */
    CHECK(!waited);
    CHECK_EQ_U64(3, listed.messages);
    rig_checkpoint(&rig);
    rig_reopen(&rig);
    listed = list(rig_stream(&rig, 1, rig_config()), ">", &waited);
    CHECK(!waited);
    CHECK_EQ_U64(3, listed.messages);
    CHECK(!rig_alarmed(&rig, ""));
    rig_close(&rig);
}

static void walks_miss_none(void) {
    walks_miss_none_of(HEAD_FIXED_SIZE);
    walks_miss_none_of(SHORT);
}

/* The head of b.two stands under a key that is another subject's, as one wrong bit makes it. */
static void misplace(const char *to) {
    env_t *env;
    char reason[RIG_REASON];
    static uint8_t bytes[256];
    store_key_t key;
    store_key_t room;
    bytes_t value;
    key_text(&key, 1, text("b.two"));
    store_close(rig.store);
    CHECK_EQ_I64(STATUS_OK, env_open(rig.directory, 64 << 20, false, &env, reason, sizeof reason));
    env_seal(env, test_sealer());
    CHECK_EQ_I64(STATUS_OK, env_write_begin(env));
    CHECK_EQ_I64(READ_FOUND, env_write_get(env, DB_HEADS, key_bytes(&key), &value));
    CHECK(value.size <= sizeof bytes);
    memcpy(bytes, value.at, value.size);
    uint32_t size = value.size;
    CHECK_EQ_I64(STATUS_OK, env_write_delete(env, DB_HEADS, key_bytes(&key)));
    key_text(&key, 1, text(to));
    bytes_t stored = env_stored_key(env, DB_HEADS, key_bytes(&key), &room);
    CHECK_EQ_I64(STATUS_OK, env_write_raw(env, DB_HEADS, stored, bytes_of(bytes, size)));
    CHECK_EQ_I64(STATUS_OK, env_write_commit(env));
    env_close(env);
    rig_start(&rig);
}

static void walks_find_misplaced(const char *to) {
    bool waited;
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "b.one", "x");
    rig_put(&rig, stream, "b.two", "older");
    rig_put(&rig, stream, "b.two", "newer");
    rig_checkpoint(&rig);
    misplace(to);
    stream = rig_stream(&rig, 1, rig_config());
    listed_t listed = list(stream, "b.*", &waited);
    CHECK(waited);
    CHECK_EQ_U64(2, listed.subjects);
    CHECK_EQ_U64(3, listed.messages);
    CHECK_EQ_U64(3, last_of(stream, "b.two"));
    listed = list(stream, ">", &waited);
    CHECK(!waited);
    CHECK_EQ_U64(3, listed.messages);
    rig_close(&rig);
}

static void walks_find_what_is_elsewhere(void) {
    walks_find_misplaced("b.twp");
    walks_find_misplaced("c.two"); /* behind all that the walk is about */
}

/* A subject too long for a key is in the head's value, too, which is gone. */
static void long_subjects_come_back(void) {
    static char subject[2 * KEY_MAX];
    bool waited;
    memset(subject, 'l', sizeof subject - 1);
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    rig_put(&rig, stream, "k", "x");
    rig_put(&rig, stream, subject, "x");
    rig_put(&rig, stream, "m", "x");
    rig_checkpoint(&rig);
    spoil(subject, SHORT);
    stream = rig_stream(&rig, 1, rig_config());
    listed_t listed = list(stream, ">", &waited);
    CHECK(waited);
    CHECK_EQ_U64(3, listed.subjects);
    CHECK_EQ_U64(2, last_of(stream, subject));
    rig_close(&rig);
}

static void counts_are_whole(void) {
    store_stream_t *stream = with_two(rig_config(), SHORT);
    bytes_t filters[] = {text("b.*"), text("c")};
    store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = filters, .count = 2}, 0);
    bool done = false;
    for (int i = 0; i < 10 && !done; i++) {
        done = store_tally_step(tally, 100) == STEP_OVER;
        store_tick(rig.store, rig.now);
    }
    CHECK(done);
    CHECK_EQ_U64(3, store_tally_now(tally));
    store_tally_close(tally);
    rig_close(&rig);
}

static void others_go_on_meanwhile(void) {
    open_rig();
    store_stream_t *stream = rig_stream(&rig, 1, rig_config());
    for (int i = 1; i <= MANY; i++) {
        append_t append = {.subject = text(i % 1000 == 0 ? "rare" : "usual"), .payload = text("x")};
        CHECK_EQ_U64((uint64_t)i, rig_append(&rig, stream, &append).seq);
    }
    rig_checkpoint(&rig);
    spoil("rare", HEAD_FIXED_SIZE);
    stream = rig_stream(&rig, 1, rig_config());
    append_t append = {.subject = text("rare"), .payload = text("x"), .waits = true};
    uint64_t others = 0;
    appended_t done = {.verdict = APPEND_LATER};
    while (others < 100 && (done = store_append(stream, &append, rig.now)).verdict == APPEND_LATER) {
        CHECK_EQ_U64(APPEND_STORED, rig_put(&rig, stream, "usual", "x").verdict);
        others++;
        store_tick(rig.store, rig.now);
    }
    CHECK_EQ_U64(APPEND_STORED, done.verdict);
    CHECK(others > 1); /* it goes in slices */
    uint64_t count = 0;
    bytes_t filter = text("rare");
    store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = &filter, .count = 1}, 0);
    while (store_tally_step(tally, 100) != STEP_OVER) {
        CHECK(++count < 1000);
    }
    CHECK_EQ_U64(MANY / 1000 + 1, store_tally_now(tally));
    store_tally_close(tally);
    rig_close(&rig);
}

/* What the batch with the count says is in the journal. */
static void crash_finds_the_count(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    append_t append = expecting("b.two", 3);
    CHECK_EQ_U64(APPEND_NO_SPACE, store_append(stream, &append, rig.now).verdict);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(APPEND_STORED, store_append(stream, &append, rig.now).verdict);
    rig_sync(&rig);
    rig_crash(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(4, last_of(stream, "b.two"));
    CHECK_EQ_U64(1, last_of(stream, "b.one"));
    CHECK(!rig_alarmed(&rig, "fails its checksum"));
    rig_close(&rig);
}

static void emptied_stream_forgets_it(void) {
    store_stream_t *stream = with_two(rig_config(), HEAD_FIXED_SIZE);
    for (int i = 0; i < 100; i++) {
        rig_put(&rig, stream, "b.one", "x");
    }
    CHECK_EQ_U64(APPEND_NO_SPACE, rig_put(&rig, stream, "b.two", "x").verdict);
    CHECK_EQ_U64(103, rig_purge(stream, BYTES_NONE, 0, 0));
    CHECK_EQ_U64(104, rig_put(&rig, stream, "b.two", "x").seq);
    store_tick(rig.store, rig.now);
    CHECK_EQ_U64(104, last_of(stream, "b.two"));
    CHECK_EQ_U64(1, rig_state(stream).subjects);
    rig_close(&rig);
}

int main(void) {
    RUN("a publish that expects no message on a subject is not admitted while the subject's head is damaged",
        expected_zero_is_not_admitted);
    RUN("nor one that expects something of a pattern", wildcards_wait_too);
    RUN("a subject whose head was damaged has as many messages as its limit says", limit_of_a_subject_holds);
    RUN("a full subject whose head is damaged takes no message", full_subject_stays_full);
    RUN("a rollup takes all of a subject whose head was damaged", rollup_takes_all);
    RUN("no message of a subject goes while its head is counted again", nothing_goes_meanwhile);
    RUN("a purge of a subject with a damaged head takes all of its messages", purge_of_the_subject_takes_all);
    RUN("a listing of subjects misses none whose head is damaged", walks_miss_none);
    RUN("a listing of subjects misses none whose head stands under another key", walks_find_what_is_elsewhere);
    RUN("a head of a subject that is too long for a key is counted again", long_subjects_come_back);
    RUN("a count of messages misses no subject whose head is damaged", counts_are_whole);
    RUN("while a head is counted again other subjects take messages", others_go_on_meanwhile);
    RUN("a crash finds the head that was counted again", crash_finds_the_count);
    RUN("where all messages go, nothing is left of a head that was being counted", emptied_stream_forgets_it);
    return TEST_RESULT();
}
