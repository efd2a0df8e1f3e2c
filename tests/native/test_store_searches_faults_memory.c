/* test_store_searches_faults_memory.c: a read of LMDB that fails, or an allocation, at each place of what has to look
 * far in a large stream: for the next of a few messages among many, the newest of a subject whose chain damage broke,
 * the oldest one, what is counted again, what a purge takes. Each scene's stream is prepared once, and each run has a
 * copy of it. Afterwards, with nothing failing, the stream is what it would have been, after a kill as well, and no
 * answer was another one than without the fault. Scenes of small streams: test_store_faults_memory.c.
 *
 * Each run has some of the places, from a drawn one on; LEAFD_TEST_STRIDE=1 has all.
 */
#include "kept_scenes.h"

#define FAR 700   /* messages of a stream */
#define APART 140 /* between two of s.a, and between two of s.b */

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* s.a at 1, 141, 281 .., s.b at 71, 211 .., and four others between them. */
static void put_far(void) {
    for (unsigned i = 0; i < FAR; i++) {
        char subject[] = {'s', '.', i % APART == 0 ? 'a' : i % APART == APART / 2 ? 'b' : (char)('c' + i % 4), 0};
        store(subject);
        if (i % 100 == 99) rig_sync(&rig);
    }
}

/* ---- the next of few among many ---------------------------------------------------------------------------------- */

/* All that match, one after the other; a look that is not known is asked again. */
static void look_ahead(const char *const *filters, unsigned count, bool a, bool b) {
    bytes_t patterns[2];
    for (unsigned i = 0; i < count; i++) patterns[i] = text(filters[i]);
    store_ahead_t ahead = {0};
    uint64_t from = 1;
    for (uint64_t seq = 1; seq <= FAR; seq++) {
        bool is_a = (seq - 1) % APART == 0, is_b = (seq - 1) % APART == APART / 2;
        if (!((is_a && a) || (is_b && b))) continue;
        stored_message_t message;
        seek_outcome_t seek = SEEK_MORE;
        for (unsigned tries = 0; seek != SEEK_FOUND;) {
            seek = store_next_ahead(stream, &ahead, (filters_t){.patterns = patterns, .count = count}, &from,
                                    UINT64_MAX, 100, &message);
            SCENE_CHECK(seek != SEEK_NONE);
            if (seek != SEEK_FOUND) again(&tries);
        }
        SCENE_CHECK(message.seq == seq);
        from = seq + 1;
    }
    store_ahead_end(&ahead);
}

static void look_for_few(void) {
    static const char *const one[] = {"s.a"}, *const two[] = {"s.b", "s.a"};
    look_ahead(one, 1, true, false);
    look_ahead(two, 2, true, true);
}

static void look_for_newest(void) {
    static const char *const patterns[] = {"s.a", "s.*", "*.b"};
    static const uint64_t expected[] = {281, 300, 211};
    for (unsigned i = 0; i < 3; i++) {
        store_newest_t newest = {0};
        uint64_t seq = 0;
        seek_outcome_t seek = SEEK_MORE;
        for (unsigned tries = 0; seek != SEEK_FOUND;) {
            seek = store_newest(stream, &newest, text(patterns[i]), 300, 2, &seq);
            SCENE_CHECK(seek != SEEK_NONE);
            if (seek != SEEK_FOUND && seek != SEEK_MORE) again(&tries);
        }
        SCENE_CHECK(seq == expected[i]);
        store_newest_end(&newest);
    }
}

static void count_few(void) {
    bytes_t patterns[] = {text("s.a"), text("s.b")};
    for (unsigned count = 1; count <= 2; count++) {
        store_tally_t *tally = store_tally_open(stream, (filters_t){.patterns = patterns, .count = count}, 200);
        if (tally == NULL) continue;
        step_outcome_t step = STEP_MORE;
        for (unsigned tries = 0; step != STEP_OVER;) {
            step = store_tally_step(tally, 16);
            if (step == STEP_UNKNOWN) again(&tries);
        }
        SCENE_CHECK(store_tally_now(tally) == (count == 1 ? 3 : 7));
        store_tally_close(tally);
    }
}

static void expect_newest(void) {
    append_t append = {.subject = text("s.c"),
                       .has_expected_subject_seq = true,
                       .expected_subject_seq = 631,
                       .expected_subject = text("*.b")};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
}

static void ask_far(void) {
    look_for_few();
    look_for_newest();
    count_few();
    expect_newest();
}

static void few_are_found_among_many(void) {
    static const uint64_t none[] = {0};
    expect(1, FAR + 1, none);
    play_copies(&(scene_t){"few among many", rig_config, put_far, ask_far, seqs, 1, FAR + 1, 6, true});
}

/* ---- purges ------------------------------------------------------------------------------------------------------ */

static void told_of_purge(void *context, store_stream_t *which, bytes_t filter, uint64_t left) {
    (void)context, (void)which, (void)filter;
    SCENE_CHECK(left == 421); /* the first of s.a that stays */
}

static void purge_few(void) {
    purge("s.a", 400, 0);
}

static void a_purge_takes_few_among_many(void) {
    static const uint64_t gone[] = {1, 141, 281, 0};
    expect(1, FAR, gone);
    hooks = (store_hooks_t){.purged = told_of_purge};
    play_copies(&(scene_t){"a purge of few", rig_config, put_far, purge_few, seqs, 2, FAR, 6, true});
}

/* ---- a broken chain ---------------------------------------------------------------------------------------------- */

static void break_chain(void) {
    spoil_message(&rig, 421);
}

/* The newest of s.a goes, and the damaged one before it; one comes and goes, and its link leads to neither. */
static void delete_last_of_a(void) {
    delete(561);
    delete(421);
    store("s.a");
    delete(FAR + 1);
    for (unsigned i = 0; i < 2; i++) {
        stored_message_t message;
        entry_outcome_t outcome = store_last_by_subject(stream, text("s.a"), UINT64_MAX, &message);
        SCENE_CHECK(outcome != ENTRY_NONE && outcome != ENTRY_DAMAGED);
        SCENE_CHECK(outcome != ENTRY_FOUND || message.seq == 281);
    }
}

static bool break_and_delete(unsigned n) {
    begin_copy();
    fail_from(n, 1, EIO);
    delete_last_of_a();
    bool reached = counted() >= n;
    heal();
    turns(6);
    stored_message_t message;
    SCENE_CHECK(store_last_by_subject(stream, text("s.a"), UINT64_MAX, &message) == ENTRY_FOUND && message.seq == 281);
    SCENE_CHECK(rig_state(stream).messages == FAR - 2);
    SCENE_CHECK(store_read(stream, 421, &message) == ENTRY_NONE && store_read(stream, 561, &message) == ENTRY_NONE);
    drop_copy(&rig);
    return reached;
}

static void a_broken_chain_is_searched(void) {
    static const scene_t broken = {"a broken chain", rig_config, put_far, NULL, NULL, 1, FAR, 6, true};
    scene = &broken;
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put_far();
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    break_chain();
    keep_store(&rig);
    for (fault = READ; fault <= ALLOCATION; fault += ALLOCATION - READ) {
        unsigned n = first_place();
        while (break_and_delete(n)) n += stride();
        printf("%s: %u of %s\n", scene->name, n, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

/* ---- a head that is counted again -------------------------------------------------------------------------------- */

static void spoil_a(void) {
    CHECK(spoil_head(&rig, text("s.a"), HEAD_FIXED_SIZE));
}

static stream_config_t five_a_subject(void) {
    stream_config_t config = rig_config();
    config.max_msgs_per_subject = 400;
    return config;
}

static void put_counted(void) {
    append_t append = {.subject = text("s.a"), .has_expected_subject_seq = true, .expected_subject_seq = 561};
    SCENE_CHECK(insist(&append).verdict == APPEND_STORED);
    delete(FAR + 1);
    ask_for_heads();
}

static void a_head_is_counted_again(void) {
    static const uint64_t none[] = {0};
    expect(1, FAR, none);
    damage = spoil_a;
    play_copies(&(scene_t){"a head", five_a_subject, put_far, put_counted, seqs, 1, FAR + 1, 6, true});
}

/* ---- markers ----------------------------------------------------------------------------------------------------- */

static stream_config_t marking(void) {
    stream_config_t config = rig_config();
    config.max_age_ns = 100 * NS_PER_SECOND;
    config.marker_ttl_ns = 3600 * NS_PER_SECOND;
    return config;
}

static void put_old_abc(void) {
    store_all("aabbc");
    rig_pass(&rig, 50 * NS_PER_SECOND);
    store_all("a");
}

static void let_them_be_marked(void) {
    rig_pass(&rig, 60 * NS_PER_SECOND);
    turns(20);
}

/* Of s.a one is young; the others have a marker in the place of their newest. */
static void an_expired_subject_is_marked(void) {
    static const uint64_t none[] = {0};
    expect(6, 8, none);
    play_copies(&(scene_t){"markers", marking, put_old_abc, let_them_be_marked, seqs, 6, 8, 3, true});
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

static void put_three_ids(void) {
    SCENE_CHECK(rig_put_id(&rig, stream, "s.a", "one").verdict == APPEND_STORED);
    SCENE_CHECK(rig_put_id(&rig, stream, "s.b", "two").verdict == APPEND_STORED);
    rig_pass(&rig, 100 * NS_PER_SECOND);
    SCENE_CHECK(rig_put_id(&rig, stream, "s.c", "three").verdict == APPEND_STORED);
}

static void let_ids_be_forgotten(void) {
    rig_pass(&rig, 60 * NS_PER_SECOND);
    turns(20);
    SCENE_CHECK(insist(&(append_t){.subject = text("s.c"), .msg_id = text("three")}).verdict == APPEND_DUPLICATE);
    SCENE_CHECK(insist(&(append_t){.subject = text("s.a"), .msg_id = text("one")}).verdict == APPEND_STORED);
}

static void an_id_is_forgotten_at_its_time(void) {
    static const uint64_t none[] = {0};
    expect(1, 4, none);
    play_copies(&(scene_t){"old ids", rig_config, put_three_ids, let_ids_be_forgotten, seqs, 1, 4, 3, true});
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void put_records(void) {
    store_all("abc");
    for (char key = 'a'; key < 'k'; key++) {
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, bytes_of(&key, 1), text("value")));
    }
}

static bool note_record(void *context, bytes_t key, bytes_t value) {
    unsigned *seen = context;
    (void)value;
    *seen |= 1u << (key.at[0] - 'a');
    return true;
}

/* Some are in LMDB, some newer, some gone. */
static void list_records(void) {
    for (char key = 'c'; key < 'o'; key += 3) {
        unsigned tries = 0;
        while (store_record_put(rig.store, RECORD_CONTROL, bytes_of(&key, 1), text("newer")) != STATUS_OK)
            again(&tries);
    }
    static const char gone = 'e';
    unsigned tries = 0;
    while (store_record_delete(rig.store, RECORD_CONTROL, bytes_of(&gone, 1)) != STATUS_OK) again(&tries);
    for (unsigned i = 0; i < 3; i++) {
        unsigned seen = 0;
        list_outcome_t list = store_record_each(rig.store, RECORD_CONTROL, BYTES_NONE, BYTES_NONE, note_record, &seen);
        SCENE_CHECK(list != LIST_LACKS && (list != LIST_WHOLE || seen == (0x3ffu | 1u << 11) - (1u << 4)));
    }
    SCENE_CHECK(store_stream_unused(rig.store, 1) != STATUS_OK);
}

static void a_list_has_all_or_is_not_known(void) {
    static const uint64_t none[] = {0};
    expect(1, 3, none);
    play_copies(&(scene_t){"records", rig_config, put_records, list_records, seqs, 1, 3, 3, true});
}

/* ---- a group ----------------------------------------------------------------------------------------------------- */

#define CACHED 2048u /* heads of the least cache */
#define SUBJECTS (CACHED + 50)

static void subject_of(unsigned number, char room[20]) {
    snprintf(room, 20, "g.%u", number);
}

static void put_subjects(void) {
    char subject[20];
    for (unsigned i = 1; i <= SUBJECTS; i++) {
        subject_of(i, subject);
        store(subject);
        if (i % 100 == 0) rig_sync(&rig);
    }
}

/* The cache is full, and each was asked for since it came: the next to come drives out the one that came first, since
 * the hand goes all the way round. */
static void fill_cache(void) {
    char subject[20];
    for (unsigned times = 0; times < 2; times++) {
        for (unsigned i = times == 0 ? 1 : SUBJECTS - CACHED; i < SUBJECTS; i++) {
            stored_message_t message;
            subject_of(i, subject);
            SCENE_CHECK(store_last_by_subject(stream, text(subject), UINT64_MAX, &message) == ENTRY_FOUND);
        }
    }
}

/* All or none of three messages, until it is all. */
static void put_group(void) {
    static const unsigned numbers[] = {SUBJECTS - CACHED, SUBJECTS - CACHED + 1, SUBJECTS};
    char subjects[3][20];
    append_t appends[3];
    for (unsigned i = 0; i < 3; i++) {
        subject_of(numbers[i], subjects[i]);
        appends[i] = (append_t){.subject = text(subjects[i]), .payload = text("grouped")};
    }
    status_t status = STATUS_AGAIN;
    for (unsigned tries = 0; status != STATUS_OK;) {
        append_group_t group = {0};
        for (unsigned i = 0; i < 3; i++) {
            SCENE_CHECK(store_group_look(stream, &group, &appends[i], 0, rig.now).verdict != APPEND_DUPLICATE);
        }
        status = group.count == 3 ? store_group_reserve(stream, &group) : STATUS_AGAIN;
        if (status != STATUS_OK) again(&tries);
    }
    for (unsigned i = 0; i < 3; i++) {
        SCENE_CHECK(store_group_append(stream, &appends[i], rig.now).seq == SUBJECTS + 1 + i);
    }
    for (unsigned i = 0; i < 3; i++) CHECK(store_group_finish(stream, &appends[i], SUBJECTS + 1 + i));
    store_group_end(stream);
}

static bool group_while(unsigned n) {
    begin_copy();
    fill_cache();
    fail_from(n, 1, EIO);
    put_group();
    bool reached = counted() >= n;
    heal();
    rig_sync(&rig);
    SCENE_CHECK(rig_state(stream).messages == SUBJECTS + 3 && rig_state(stream).subjects == SUBJECTS);
    drop_copy(&rig);
    return reached;
}

/* What was looked at for a group is in the cache until it is appended: there nothing can be refused any more. */
static void a_group_is_there_whole(void) {
    static const scene_t grouped = {"a group", rig_config, put_subjects, NULL, NULL, 1, SUBJECTS + 3, SUBJECTS, true};
    scene = &grouped;
    rig = (rig_t){.in_memory = true, .options = {.heads_max = 1}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put_subjects();
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig.store = NULL;
    keep_store(&rig);
    for (fault = READ; fault <= ALLOCATION; fault += ALLOCATION - READ) {
        unsigned n = 1;
        while (group_while(n)) n++;
        printf("%s: %u of %s\n", scene->name, n - 1, fault_names[fault]);
    }
    drop_kept_store(&rig);
}

int main(void) {
    RUN("few messages are found among many", few_are_found_among_many);
    RUN("a purge takes few among many", a_purge_takes_few_among_many);
    RUN("where a chain is broken, what is newest is searched for", a_broken_chain_is_searched);
    RUN("a damaged head is counted again, or not known", a_head_is_counted_again);
    RUN("an expired subject is marked once", an_expired_subject_is_marked);
    RUN("an id is forgotten at its time, and not before", an_id_is_forgotten_at_its_time);
    RUN("a group is there whole or refused, also where the cache of heads is full", a_group_is_there_whole);
    RUN("a list of records has all, or is not known", a_list_has_all_or_is_not_known);
    return TEST_RESULT();
}
