/* test_store_patch.c: a leaf of a stream's own messages is damaged while the store runs, and is made anew in its place
 * (store/mending.c). Everything else is as it was, in the running store and behind a start. What that is not for stays
 * unknown until a start, as it was: streams with removed messages, branches, and numbers of pages that became others.
 */
#include "patch_rig.h"

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static void each_way(void) {
    for (how_t how = 0; how < HOWS; how++) {
        uint64_t from, upto;
        begin(rig_config());
        off_t at = page_of(MESSAGES / 2, 0, &from, &upto);
        spoil(at, how);
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
        CHECK(is_lost_page("it was made anew"));
        uint64_t damaged = damaged_of(1, MESSAGES);
        CHECK(damaged <= upto - from + 1);
        CHECK(how > GARBAGE || damaged == upto - from + 1);
        CHECK(how != OFFSET || test_sealer() != NULL || damaged <= 1);
        CHECK(!is_marked());
        CHECK(rig_there(&rig, "pages.damaged"));
        CHECK_EQ_U64(MESSAGES, rig_state(stream).messages);
        all_pages_are_sound();
        put(stream, MESSAGES + 1, MESSAGES + 30);
        rig_checkpoint(&rig);
        CHECK_EQ_U64(damaged, damaged_of(1, MESSAGES + 30));
        store_close(rig.store);
        rig_start(&rig);
        stream = rig_stream(&rig, 1, rig_config());
        CHECK(!rig_alarmed(&rig, "data.mdb"));
        CHECK_EQ_U64(MESSAGES + 30, rig_state(stream).messages);
        CHECK_EQ_U64(damaged, damaged_of(1, MESSAGES + 30));
        rig_close(&rig);
    }
}

/* All of the page's messages but the last one go, with those before; who removes them waits for it. */
static void what_is_removed_goes(void) {
    uint64_t from, upto;
    begin(rig_config());
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    store_purge_t purge = {.below_seq = upto};
    step_outcome_t step = STEP_MORE;
    bool waited = false;
    for (int64_t until = 0; step != STEP_OVER && patient(&until);) {
        uint64_t some = 0;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
        waited |= step == STEP_UNKNOWN;
        ticks();
    }
    CHECK(step == STEP_OVER && waited);
    CHECK(rig_alarmed(&rig, "it was made anew"));
    rig_checkpoint(&rig);
    CHECK(!is_marked());
    all_pages_are_sound();
    CHECK_EQ_U64(1, damaged_of(upto, MESSAGES));
    store_close(rig.store);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK_EQ_U64(1, damaged_of(upto, MESSAGES));
    CHECK_EQ_U64(MESSAGES - upto + 1, rig_state(stream).messages);
    rig_close(&rig);
}

/* Removes each message from `from` to `upto` whose sequence is no multiple of `keep`. */
static void remove_some(uint64_t from, uint64_t upto, uint64_t keep) {
    for (uint64_t seq = upto; seq >= from; seq--) {
        if (keep == 0 || seq % keep != 0) {
            CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
        }
        if (seq % 50 == 0) {
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
}

/* The keeper meets the page, before anybody reads it. */
static void a_write_goes_on(void) {
    uint64_t from, upto;
    begin(rig_config());
    for (uint64_t seq = MESSAGES; seq > MESSAGES / 2; seq--) {
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, seq));
    }
    CHECK_EQ_U64(MESSAGES / 2, rig_state(stream).messages);
    rig_sync(&rig);
    spoil(page_of(MESSAGES * 3 / 4, 0, &from, &upto), ZEROS);
    rig_pass(&rig, 6 * NS_PER_SECOND);
    bool made = false;
    for (int64_t until = 0; !made && patient(&until);) {
        rig_sync(&rig);
        made = rig_alarmed(&rig, "it was made anew");
        usleep(1000);
    }
    CHECK(made);
    rig_checkpoint(&rig);
    CHECK_EQ_U64(0, damaged_of(1, MESSAGES / 2));
    CHECK_EQ_U64(MESSAGES / 2, rig_state(stream).messages);
    CHECK(!is_marked());
    all_pages_are_sound();
    rig_close(&rig);
}

/* ---- numbers that are counted again ------------------------------------------------------------------------------ */

typedef struct truth {
    uint64_t messages;
    uint64_t bytes;
    uint64_t of[40];
    uint64_t last[40];
} truth_t;

/* What is there, by sequence. */
static void find_truth(truth_t *truth, uint64_t upto) {
    *truth = (truth_t){0};
    for (uint64_t seq = 1; seq <= upto; seq++) {
        stored_message_t message;
        entry_outcome_t outcome = store_read(stream, seq, &message);
        CHECK(outcome == ENTRY_FOUND || outcome == ENTRY_NONE || outcome == ENTRY_DAMAGED);
        truth->messages += outcome != ENTRY_NONE;
        if (outcome == ENTRY_FOUND) {
            truth->bytes += message.subject.size + message.payload.size + 30;
            truth->of[seq % 40]++;
            truth->last[seq % 40] = seq;
        }
    }
}

static bool is_counted_again(void) {
    bool told = false;
    for (int64_t until = 0; !told && patient(&until);) {
        rig_pass(&rig, 10 * NS_PER_MS);
        rig_sync(&rig);
        told = rig_alarmed(&rig, "was counted again");
    }
    return told;
}

static void heads_are_true(const truth_t *truth) {
    uint64_t subjects = 0;
    for (unsigned i = 0; i < 40; i++) {
        char subject[32];
        stored_message_t message;
        snprintf(subject, sizeof subject, "patch.%u", i);
        entry_outcome_t outcome = store_last_by_subject(stream, text(subject), UINT64_MAX, &message);
        CHECK_EQ_I64(truth->of[i] > 0 ? ENTRY_FOUND : ENTRY_NONE, outcome);
        CHECK(truth->of[i] == 0 || message.seq == truth->last[i]);
        subjects += truth->of[i] > 0;
    }
    CHECK_EQ_U64(subjects, rig_state(stream).subjects);
}

static void numbers_are_true(uint64_t upto) {
    truth_t truth;
    find_truth(&truth, upto);
    CHECK_EQ_U64(truth.messages, rig_state(stream).messages);
    CHECK_EQ_U64(truth.bytes, rig_state(stream).bytes);
    heads_are_true(&truth);
}

/* Nobody has the origin's messages: the hole is left. */
static void leave_holes(uint64_t upto) {
    bool stored = true;
    append_t nothing = {.force_seq = upto};
    CHECK_EQ_I64(STATUS_OK, store_fill(stream, upto, &nothing, rig.now, &stored));
    CHECK(!stored);
}

/* Which ones had been removed is not known without the page: what is not there any more is lost. */
static void a_stream_with_gaps(void) {
    for (how_t how = 0; how < HOWS; how++) {
        uint64_t from, upto;
        begin(rig_config());
        remove_some(MESSAGES / 3, MESSAGES - 200, 7);
        uint64_t before = rig_state(stream).messages;
        spoil(page_of(MESSAGES / 2, 0, &from, &upto), how);
        ticks();
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
        CHECK(is_lost_page("it was made anew"));
        CHECK(!is_marked());
        all_pages_are_sound();
        leave_holes(upto);
        truth_t truth;
        find_truth(&truth, MESSAGES);
        bool is_wrong = truth.messages != rig_state(stream).messages;
        CHECK(how > GARBAGE || is_wrong);
        CHECK(!is_wrong || is_counted_again());
        CHECK(rig_state(stream).messages < before || how > GARBAGE);
        numbers_are_true(MESSAGES);
        put(stream, MESSAGES + 1, MESSAGES + 300);
        numbers_are_true(MESSAGES + 300);
        rig_checkpoint(&rig);
        store_close(rig.store);
        rig_start(&rig);
        stream = rig_stream(&rig, 1, rig_config());
        CHECK(!rig_alarmed(&rig, "data.mdb"));
        numbers_are_true(MESSAGES + 300);
        rig_close(&rig);
    }
}

/* What comes and goes while the stream is counted is no matter. */
static void counting_beside_others(void) {
    uint64_t from, upto;
    unsigned next = MESSAGES + 1;
    begin(rig_config());
    remove_some(MESSAGES / 3, MESSAGES - 200, 7);
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    CHECK(is_lost_page("it was made anew"));
    leave_holes(upto);
    bool told = false;
    for (int64_t until = 0; !told && patient(&until); next += 3) {
        rig_pass(&rig, 10 * NS_PER_MS);
        put(stream, next, next + 2);
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, next));
        uint64_t below = (next - MESSAGES) / 3 + 1; /* of those before the ones that were removed */
        CHECK_EQ_I64(STATUS_OK, below < MESSAGES / 3 ? store_delete(stream, below) : STATUS_OK);
        told = rig_alarmed(&rig, "was counted again");
    }
    CHECK(told);
    numbers_are_true(next - 1);
    rig_close(&rig);
}

/* All that the stream has goes while its numbers are too many. */
static void a_purge_before_it_is_counted(void) {
    uint64_t from, upto;
    store_purge_t purge = {0};
    step_outcome_t step = STEP_MORE;
    begin(rig_config());
    remove_some(MESSAGES / 3, MESSAGES - 200, 7);
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    CHECK(is_lost_page("it was made anew"));
    while (step != STEP_OVER) {
        uint64_t some = 0;
        CHECK_EQ_I64(STATUS_OK, store_purge(stream, &purge, &some, &step));
        rig_sync(&rig);
    }
    put(stream, MESSAGES + 1, MESSAGES + 30);
    for (int i = 0; i < 100; i++) {
        rig_pass(&rig, NS_PER_SECOND);
        rig_sync(&rig);
    }
    numbers_are_true(MESSAGES + 30);
    CHECK_EQ_U64(30, rig_state(stream).messages);
    rig_close(&rig);
}

/* A number in a branch has become that of another leaf, which is sound, and so belongs to others. */
static void a_page_of_others_is_left_alone(void) {
    uint64_t from, upto, other_from, other_upto;
    uint8_t branch[PAGE], other[PAGE], still[PAGE];
    begin(rig_config());
    off_t at = page_of(MESSAGES / 2, 1, &from, &upto);
    off_t leaf = page_of(MESSAGES / 2, 0, &from, &upto);
    off_t elsewhere = page_of(10, 0, &other_from, &other_upto);
    (void)rig_read_at(&rig, "data.mdb", branch, PAGE, at);
    for (uint32_t i = 0; i < page_nodes(branch); i++) {
        uint8_t *node = (uint8_t *)(uintptr_t)page_node(branch, PAGE, i, false);
        if (page_node_child(node) == (size_t)(leaf / PAGE)) {
            uint32_t low = (uint32_t)(elsewhere / PAGE);
            memcpy(node, &low, 4);
        }
    }
    rig_write_at(&rig, "data.mdb", branch, PAGE, at);
    (void)rig_read_at(&rig, "data.mdb", other, PAGE, elsewhere);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    CHECK(is_lost_page("until a start mends it"));
    (void)rig_read_at(&rig, "data.mdb", still, PAGE, elsewhere);
    CHECK_BYTES(other, PAGE, still, PAGE);
    CHECK(is_marked());
    rig_close(&rig);
}

static void the_edges_of_a_stream(void) {
    uint64_t from, upto;
    begin(rig_config());
    spoil(page_of(1, 0, &from, &upto), GARBAGE);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, 1, &message));
    CHECK(is_lost_page("it was made anew"));
    CHECK_EQ_U64(upto, damaged_of(1, MESSAGES));
    uint64_t first_of_last;
    spoil(page_of(MESSAGES, 0, &first_of_last, &upto),
          GARBAGE); /* nothing but the stream's numbers says where it ends */
    ticks();
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES, &message));
    CHECK(is_lost_page("it was made anew"));
    CHECK_EQ_U64(MESSAGES - first_of_last + 1, damaged_of(first_of_last, MESSAGES));
    put(stream, MESSAGES + 1, MESSAGES + 100);
    rig_checkpoint(&rig);
    all_pages_are_sound();
    CHECK_EQ_U64(0, damaged_of(MESSAGES + 1, MESSAGES + 100));
    rig_close(&rig);
}

/* A stream so small that it has one page. */
static void the_only_page(void) {
    uint64_t from, upto;
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 4 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    put(stream, 1, 12);
    rig_checkpoint(&rig);
    spoil(page_of(1, 0, &from, &upto), ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, 1, &message));
    CHECK(is_lost_page("it was made anew"));
    CHECK_EQ_U64(12, damaged_of(1, 12));
    put(stream, 13, 20);
    rig_checkpoint(&rig);
    all_pages_are_sound();
    CHECK_EQ_U64(12, damaged_of(1, 20));
    rig_close(&rig);
}

static void a_hole_is_noted(void) {
    uint64_t from, upto;
    uint8_t id[4] = {0, 0, 0, 1}, at[12];
    bytes_t value = BYTES_NONE;
    begin(rig_config());
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    ticks();
    bool told = false;
    for (store_alarm_t alarm; store_alarm_next(rig.store, &alarm);) {
        told |=
            alarm.code == ALARM_HOLE && alarm.stream == 1 && alarm.seq == from && alarm.upto == upto && alarm.certain;
    }
    CHECK(told);
    memcpy(at, id, 4);
    store_be64(at + 4, upto);
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_HOLE, bytes_of(at, sizeof at), &value));
    CHECK(value.size == 9 && load_be64(value.at) == from && value.at[8] == 1);
    rig_close(&rig);
}

int main(void) {
    RUN("whatever is wrong with the page, it is made anew in moments, and nothing else changes", each_way);
    RUN("a purge that meets the page goes on, and no start is asked for", what_is_removed_goes);
    RUN("a write that meets a page whose messages are removed goes on", a_write_goes_on);
    RUN("a page of a stream with removed messages is made anew, and the stream counted again", a_stream_with_gaps);
    RUN("a stream is counted again while messages come and go", counting_beside_others);
    RUN("a stream that is purged before it is counted has what came since", a_purge_before_it_is_counted);
    RUN("a page of others, to which a damaged number leads, is left alone", a_page_of_others_is_left_alone);
    RUN("a stream's first page is made anew, and its last one", the_edges_of_a_stream);
    RUN("the page of a stream that has no other is made anew", the_only_page);
    RUN("what a page had is noted and told, for who can fetch it again", a_hole_is_noted);
    return TEST_RESULT();
}
