/* test_store_limits_faults_memory.c: a read of LMDB that fails, or an allocation, at each place where a message takes
 * the place of another, the oldest of a subject is far from its next one, what stands first outlives its max_age, the
 * newest by a pattern is far from the end, and where the keeper makes a dictionary for compressed messages. Searches in
 * a large stream: test_store_searches_faults_memory.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "kept_scenes.h"
#include "store/timeline.h"

#define FAR 1500  /* messages of a stream */
#define APART 500 /* between two of s.a */

/* ---- in the place of the oldest ---------------------------------------------------------------------------------- */

static int64_t bytes_put;

/* Full by its bytes, and so are its subjects. */
static stream_config_t full_of_bytes(void) {
    stream_config_t config = rig_config();
    config.max_bytes = bytes_put;
    config.max_msgs_per_subject = 3;
    config.discard = 1;
    return config;
}

static void put_full(void) {
    store_all("aababbccc");
    bytes_put = (int64_t)rig_state(stream).bytes;
}

static void replace_oldest(void) {
    store_all("abcab");
}

static void a_message_takes_the_place_of_its_oldest(void) {
    static const uint64_t gone[] = {1, 2, 3, 5, 7, 0};
    expect(4, 14, gone);
    play_copies(&(scene_t){"in its place", full_of_bytes, put_full, replace_oldest, seqs, 4, 14, 3, true});
}

/* ---- the oldest is far from the next one ------------------------------------------------------------------------- */

#define OF_EACH 500

static stream_config_t few_of_each(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = OF_EACH;
    return config;
}

/* Of s.a the first one, and all others behind those of two other subjects. */
static void put_behind(void) {
    for (unsigned i = 0; i < 3 * OF_EACH - 2; i++) {
        store(i == 0 || i >= 2 * OF_EACH - 1 ? "s.a" : i % 2 == 0 ? "s.b" : "s.c");
        if (i % 100 == 99) rig_sync(&rig);
    }
}

static void take_three(void) {
    store_all("aaa");
}

static void the_oldest_goes_wherever_it_is(void) {
    static const uint64_t gone[] = {1, 2 * OF_EACH, 2 * OF_EACH + 1, 0};
    expect(2, 3 * OF_EACH + 1, gone);
    play_copies(&(scene_t){"far behind", few_of_each, put_behind, take_three, seqs, 2, 3 * OF_EACH + 1, 3, true});
}

/* ---- wide apart -------------------------------------------------------------------------------------------------- */

/* s.a at 1, 501 and 1001; as many as there may be of three others, and of s.b three. */
static void put_apart(void) {
    for (unsigned i = 0; i < FAR; i++) {
        char subject[] = {'s', '.', i % APART == 0 ? 'a' : i % APART == 1 ? 'b' : (char)('c' + i % 3), 0};
        store(subject);
        if (i % 100 == 99) rig_sync(&rig);
    }
}

static void purge_both(void) {
    purge("s.a", 0, 0);
    purge("s.b", 0, 1);
}

static void a_purge_takes_what_is_wide_apart(void) {
    static const uint64_t gone[] = {1, 2, 501, 502, 1001, 0};
    expect(3, FAR, gone);
    play_copies(&(scene_t){"wide apart", rig_config, put_apart, purge_both, seqs, 3, FAR, 4, true});
}

static stream_config_t two_of_each(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 2;
    return config;
}

static void lower_and_add(void) {
    stream_config_t config = two_of_each();
    store_stream_configure(stream, &config, rig.now);
    store_all("ab");
    turns(40);
}

/* Each subject keeps two: s.a and s.b the newest ones that were there, and those that came. */
static void a_limit_that_was_lowered_keeps_the_newest(void) {
    uint64_t *to = seqs;
    for (uint64_t seq = 1001; seq <= FAR + 2; seq++) {
        if (seq <= 1002 || seq > FAR - 6) *to++ = seq;
    }
    *to = 0;
    play_copies(&(scene_t){"a lowered limit", rig_config, put_apart, lower_and_add, seqs, 1001, FAR + 2, 5, true});
}

/* ---- what stands first outlives max_age -------------------------------------------------------------------------- */

static stream_config_t aging(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 100 * NS_PER_SECOND;
    config.flags |= STREAM_ALLOW_TTL;
    return config;
}

/* The first one lives on; one a minute comes behind it, of which the last one is not too old in the end. */
static void put_exempt(void) {
    for (unsigned i = 0; i < 8; i++) {
        append_t append = {.subject = text(i % 2 == 0 ? "s.a" : "s.b"), .payload = text("p")};
        append.expires_ts = i == 0 ? -1 : 0;
        SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
        rig_pass(&rig, 60 * NS_PER_SECOND);
    }
}

static void ask_what_is_due(void) {
    for (unsigned i = 0; i < 6; i++) {
        SCENE_CHECK(store_stream_due(stream) < INT64_MAX);
        rig_pass(&rig, NS_PER_SECOND);
        turns(2);
    }
}

static void what_is_due_behind_it_goes(void) {
    static const uint64_t gone[] = {2, 3, 4, 5, 6, 7, 0};
    expect(1, 8, gone);
    play_copies(&(scene_t){"behind one that stays", aging, put_exempt, ask_what_is_due, seqs, 1, 8, 2, true});
}

/* ---- the newest by a pattern ------------------------------------------------------------------------------------- */

static void expect_far_newest(void) {
    append_t append = {.subject = text("s.c"), .has_expected_subject_seq = true, .expected_subject_seq = 1001};
    append.expected_subject = text("*.a");
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    append.expected_subject = text("*.b");
    append.expected_subject_seq = 1002;
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static void the_far_newest_by_a_pattern_is_known(void) {
    static const uint64_t none[] = {0};
    expect(1, FAR + 2, none);
    play_copies(&(scene_t){"the far newest", rig_config, put_apart, expect_far_newest, seqs, 1, FAR + 2, 5, true});
}

int main(void) {
    RUN("a message takes the place of its subject's oldest", a_message_takes_the_place_of_its_oldest);
    RUN("the oldest of a subject goes, however far behind", the_oldest_goes_wherever_it_is);
    RUN("a purge takes what is wide apart", a_purge_takes_what_is_wide_apart);
    RUN("a limit that was lowered keeps the newest", a_limit_that_was_lowered_keeps_the_newest);
    RUN("what is too old goes, also behind what stays", what_is_due_behind_it_goes);
    RUN("the newest by a pattern is known, also where it is far from the end", the_far_newest_by_a_pattern_is_known);
    return TEST_RESULT();
}
