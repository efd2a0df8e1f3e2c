/* test_store_derive.c: a page is damaged while the store runs, of whose entries all follow from others: heads of
 * subjects and message ids (store/derive.h), the first page of a large value (disk/env_regrow.c), the lists of free
 * pages and of databases (disk/env_judge.c). It is made anew without a start, and what cannot be read until then is
 * told as such.
 */
#include "durables.h"

#define SUBJECTS 900u
#define LARGE 9000u /* bytes of a payload */

static uint64_t wanted_count[SUBJECTS];
static uint64_t wanted_last[SUBJECTS];

static void subject_of(unsigned i, char room[32]) {
    snprintf(room, 32, "many.of.them.%u", i);
}

/* Closed and started: nothing of it is in a cache. */
static void start_again(void) {
    store_close(rig.store);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    (void)rig_stream(&rig, 2, rig_config());
    CHECK(!rig_alarmed(&rig, "data.mdb"));
}

static void put_many(void) {
    uint64_t seq = MESSAGES;
    memset(wanted_count, 0, sizeof wanted_count);
    for (unsigned i = 0; i < 3 * SUBJECTS; i++) {
        unsigned which = i * 7 % SUBJECTS;
        char subject[32];
        subject_of(which, subject);
        append_t append = {.subject = text(subject), .payload = text("x")};
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
        wanted_last[which] = ++seq;
        wanted_count[which]++;
    }
    rig_sync(&rig);
    for (unsigned i = 0; i < SUBJECTS; i += 5) { /* of some the newest one goes, of others all */
        stored_message_t message;
        char subject[32];
        subject_of(i, subject);
        for (unsigned left = i % 2 ? 1 : 3; left > 0; left--) {
            CHECK_EQ_I64(ENTRY_FOUND, store_last_by_subject(stream, text(subject), UINT64_MAX, &message));
            CHECK_EQ_I64(STATUS_OK, store_delete(stream, message.seq));
            wanted_count[i]--;
            wanted_last[i] -= SUBJECTS;
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
    start_again();
}

/* Asks for the newest of each subject. Returns how many are not known; each other one is as it should be. */
static unsigned unknown_subjects(void) {
    unsigned unknown = 0;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        stored_message_t message;
        char subject[32];
        subject_of(i, subject);
        entry_outcome_t outcome = store_last_by_subject(stream, text(subject), UINT64_MAX, &message);
        unknown += outcome == ENTRY_UNKNOWN;
        CHECK(outcome == ENTRY_UNKNOWN || outcome == (wanted_count[i] > 0 ? ENTRY_FOUND : ENTRY_NONE));
        CHECK(outcome != ENTRY_FOUND || message.seq == wanted_last[i]);
    }
    return unknown;
}

static bool visit(void *context, bytes_t subject, uint64_t count, uint64_t last) {
    unsigned *seen = context;
    char room[32] = "";
    CHECK(subject.size < sizeof room);
    memcpy(room, subject.at, subject.size);
    unsigned which = (unsigned)strtoul(room + strlen("many.of.them."), NULL, 10);
    CHECK_EQ_U64(wanted_count[which], count);
    CHECK_EQ_U64(wanted_last[which], last);
    ++*seen;
    return true;
}

static void counts_are_right(void) {
    unsigned seen = 0, expected = 0;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        expected += wanted_count[i] > 0;
    }
    store_walk_t *walk = store_walk_open(stream, text("many.>"));
    CHECK(walk != NULL);
    step_outcome_t step = STEP_MORE;
    while (step == STEP_MORE) {
        step = store_walk_step(walk, 10000, visit, &seen);
    }
    CHECK_EQ_I64(STEP_OVER, step);
    CHECK_EQ_U64(expected, seen);
    CHECK_EQ_U64(expected + 40, rig_state(stream).subjects);
    store_walk_close(walk);
}

static void heads(void) {
    for (how_t how = 0; how < HOWS; how++) {
        begin(rig_config());
        put_many();
        spoil(page_below("heads", 1), how);
        ticks();
        CHECK(unknown_subjects() > 10);
        CHECK(is_lost_page("made anew of what its entries follow from, and nothing is lost"));
        CHECK(!is_marked());
        all_pages_are_sound();
        CHECK_EQ_U64(0, unknown_subjects());
        counts_are_right();
        put(stream, 1, 40);
        rig_checkpoint(&rig);
        start_again();
        CHECK_EQ_U64(0, unknown_subjects());
        counts_are_right();
        rig_close(&rig);
    }
}

/* Messages come to the subjects of the page while it is damaged, as far as their heads are in the cache, and the keeper
 * stands before it. */
static void heads_that_are_written(void) {
    begin(rig_config());
    put_many();
    CHECK_EQ_U64(0, unknown_subjects()); /* now the cache has some */
    spoil(page_below("heads", 1), ZEROS);
    ticks();
    unsigned refused = 0;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        char subject[32];
        subject_of(i, subject);
        append_t append = {.subject = text(subject), .payload = text("y")};
        appended_t appended = rig_append(&rig, stream, &append);
        refused += appended.verdict != APPEND_STORED;
        if (appended.verdict == APPEND_STORED) {
            wanted_count[i]++;
            wanted_last[i] = appended.seq;
        }
    }
    rig_pass(&rig, 30 * NS_PER_SECOND);
    bool made = false;
    for (int64_t until = 0; !made && patient(&until);) {
        rig_sync(&rig);
        made = rig_alarmed(&rig, "made anew of what its entries follow from");
    }
    CHECK(made);
    CHECK(!is_marked());
    CHECK_EQ_U64(0, unknown_subjects());
    counts_are_right();
    rig_checkpoint(&rig);
    all_pages_are_sound();
    start_again();
    CHECK_EQ_U64(0, unknown_subjects());
    counts_are_right();
    rig_close(&rig);
}

/* ---- message ids ------------------------------------------------------------------------------------------------- */

/* Publishes `count` messages with ids; how many were taken, and how many are not known. */
static void put_ids(unsigned count, unsigned *stored, unsigned *twice, unsigned *unknown) {
    *stored = *twice = *unknown = 0;
    for (unsigned i = 0; i < count; i++) {
        char id[48];
        snprintf(id, sizeof id, "an id that is long enough %u", i);
        append_t append = {.subject = text("patch.0"), .payload = text("z"), .msg_id = text(id)};
        append_verdict_t verdict = rig_append(&rig, stream, &append).verdict;
        *stored += verdict == APPEND_STORED;
        *twice += verdict == APPEND_DUPLICATE;
        *unknown += verdict != APPEND_STORED && verdict != APPEND_DUPLICATE;
    }
    rig_sync(&rig);
}

static stream_config_t with_ids(void) {
    stream_config_t config = rig_config();
    config.duplicate_window_ns = 3600 * NS_PER_SECOND;
    return config;
}

static void ids(void) {
    static const char *const names[] = {"ids", "id_order"};
    for (unsigned which = 0; which < 2; which++) {
        unsigned stored, twice, unknown;
        begin(with_ids());
        put_ids(500, &stored, &twice, &unknown);
        CHECK_EQ_U64(500, stored);
        rig_checkpoint(&rig);
        store_close(rig.store);
        rig_start(&rig);
        stream = rig_stream(&rig, 1, with_ids());
        (void)rig_stream(&rig, 2, rig_config());
        spoil(page_below(names[which], 1), GARBAGE);
        ticks();
        put_ids(500, &stored, &twice, &unknown);
        CHECK_EQ_U64(0, stored);
        /* Nobody looks at the order of ids before they are over. */
        rig_pass(&rig, (which == 0 ? 30 : 3601) * NS_PER_SECOND);
        bool made = false;
        for (int64_t until = 0; !made && patient(&until);) {
            rig_sync(&rig);
            made = rig_alarmed(&rig, "made anew of what its entries follow from, and nothing is lost");
        }
        CHECK(made);
        CHECK(!is_marked());
        put_ids(500, &stored, &twice, &unknown);
        CHECK_EQ_U64(500, which == 0 ? twice : stored);
        rig_checkpoint(&rig);
        all_pages_are_sound();
        rig_pass(&rig, 3601 * NS_PER_SECOND);
        for (int i = 0; i < 200; i++) {
            rig_sync(&rig);
        }
        put_ids(500, &stored, &twice, &unknown);
        CHECK_EQ_U64(500, stored);
        rig_checkpoint(&rig);
        all_pages_are_sound();
        rig_close(&rig);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void begin_with_names(void) {
    begin(rig_config());
    for (unsigned i = 1; i <= DURABLES; i++) {
        put_durable(i);
        if (i % 50 == 0) {
            rig_sync(&rig);
        }
    }
    rig_checkpoint(&rig);
    start_again();
}

static void names(void) {
    for (how_t how = 0; how < HOWS; how++) {
        begin_with_names();
        spoil(page_below("names", 1), how);
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        CHECK_EQ_I64(LIST_LACKS, store_lost_each(rig.store, BYTES_NONE, no_lost, NULL));
        CHECK(is_lost_page("made anew of what its entries follow from, and nothing is lost"));
        CHECK(!is_marked());
        all_pages_are_sound();
        CHECK_EQ_I64(LIST_WHOLE, store_lost_each(rig.store, BYTES_NONE, no_lost, NULL));
        put_durable(DURABLES + 1);
        rig_checkpoint(&rig);
        all_pages_are_sound();
        names_are(DURABLES + 1, 0);
        rig_close(&rig);
    }
}

/* A new definition is on its way when the keeper meets the page. */
static void names_that_are_written(void) {
    begin_with_names();
    for (unsigned i = 1; i <= DURABLES; i += 10) put_durable(i);
    rig_sync(&rig);
    spoil(page_below("names", 1), GARBAGE);
    rig_pass(&rig, 30 * NS_PER_SECOND);
    bool made = false;
    for (int64_t until = 0; !made && patient(&until);) {
        rig_sync(&rig);
        made = rig_alarmed(&rig, "made anew of what its entries follow from");
    }
    CHECK(made);
    CHECK(!is_marked());
    rig_checkpoint(&rig);
    all_pages_are_sound();
    names_are(DURABLES, 0);
    rig_close(&rig);
}

static bool one_lost(void *context, bytes_t key, bytes_t name) {
    (void)key;
    (void)name;
    ++*(unsigned *)context;
    return true;
}

/* Of a lost definition the name is all that is left, and nobody else has it. */
static void names_of_what_is_lost(void) {
    begin_with_names();
    names_are(DURABLES, 7);
    unsigned lost = 0;
    CHECK_EQ_I64(LIST_WHOLE, store_lost_each(rig.store, BYTES_NONE, one_lost, &lost));
    CHECK_EQ_U64(1, lost);
    spoil(page_below("names", 1), GARBAGE);
    rig_pass(&rig, NS_PER_SECOND);
    store_tick(rig.store, rig.now);
    CHECK_EQ_I64(LIST_LACKS, store_lost_each(rig.store, BYTES_NONE, one_lost, &lost));
    CHECK(is_lost_page("cannot be read until a start mends it"));
    CHECK(is_marked());
    rig_close(&rig);
}

/* ---- large values ------------------------------------------------------------------------------------------------ */

static void fill_large(uint8_t payload[LARGE], unsigned i) {
    for (unsigned at = 0; at < LARGE; at++) {
        payload[at] = (uint8_t)(i * 31 + at * 7);
    }
    snprintf((char *)payload, 32, "the large payload %u", i);
}

static off_t page_with(const char *words) {
    static uint8_t file[8 << 20];
    size_t size = rig_read_at(&rig, "data.mdb", file, sizeof file, 0);
    const uint8_t *at = memmem(file, size, words, strlen(words) + 1);
    CHECK(at != NULL);
    return (at - file) / PAGE * PAGE;
}

static entry_outcome_t read_large(unsigned i) {
    static uint8_t payload[LARGE];
    stored_message_t message;
    entry_outcome_t outcome = store_read(stream, MESSAGES + 1 + i, &message);
    fill_large(payload, i);
    if (outcome == ENTRY_FOUND) {
        CHECK_BYTES(payload, LARGE, message.payload.at, message.payload.size);
    }
    return outcome;
}

static void large_values(void) {
    for (how_t how = 0; how < HOWS; how++) {
        static uint8_t payload[LARGE];
        begin(rig_config());
        for (unsigned i = 0; i < 20; i++) {
            fill_large(payload, i);
            append_t append = {.subject = text("large"), .payload = bytes_of(payload, LARGE)};
            CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, stream, &append).verdict);
        }
        rig_sync(&rig);
        rig_checkpoint(&rig);
        start_again();
        off_t at = page_with("the large payload 7");
        bool lost = how == ZEROS || how == GARBAGE || how == OFFSET; /* OFFSET: a byte of the value */
        spoil(at, how);
        ticks();
        entry_outcome_t met = read_large(7);
        CHECK_EQ_I64(how == OFFSET ? ENTRY_DAMAGED : ENTRY_UNKNOWN, met);
        if (how != OFFSET) {
            CHECK(
                is_lost_page(lost ? "of messages 3008 to 3008 of stream 1, which were on it, 1 are damaged from now on"
                                  : "made anew of its entry, as the first page of a large value, and nothing is lost"));
        }
        CHECK(!is_marked());
        for (unsigned i = 0; i < 20; i++) {
            CHECK_EQ_I64(i == 7 && lost ? ENTRY_DAMAGED : ENTRY_FOUND, read_large(i));
        }
        all_pages_are_sound();
        CHECK_EQ_I64(STATUS_OK, store_delete(stream, MESSAGES + 7)); /* and LMDB frees as many pages as it took */
        rig_checkpoint(&rig);
        all_pages_are_sound();
        start_again();
        CHECK_EQ_I64(ENTRY_NONE, read_large(6));
        CHECK_EQ_I64(ENTRY_FOUND, read_large(8));
        rig_close(&rig);
    }
}

/* ---- the lists --------------------------------------------------------------------------------------------------- */

static page_meta_t newest_meta(void) {
    uint8_t first[2 * PAGE];
    page_meta_t metas[2];
    read_first(first);
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + PAGE, 1, &metas[1]));
    return metas[0].commit > metas[1].commit ? metas[0] : metas[1];
}

static void lists(void) {
    for (unsigned which = 0; which < 3 * HOWS; which++) {
        begin(rig_config());
        page_meta_t meta = newest_meta();
        off_t at = which % 3 == 0   ? (off_t)meta.free_list.root * PAGE
                   : which % 3 == 1 ? (off_t)meta.main.root * PAGE
                                    : (off_t)(meta.commit % 2) * PAGE; /* the first two pages are not used as others */
        spoil(at, (how_t)(which / 3));
        put(stream, MESSAGES + 1, MESSAGES + 100);
        rig_checkpoint(&rig);
        bool made = false;
        for (int64_t until = 0; !made && patient(&until);) {
            rig_sync(&rig);
            made = rig_alarmed(&rig, "it changed by itself, and was put right: nothing is lost");
        }
        CHECK(made);
        CHECK(!is_marked());
        all_pages_are_sound();
        CHECK_EQ_U64(0, damaged_of(1, MESSAGES + 100));
        start_again();
        CHECK_EQ_U64(0, damaged_of(1, MESSAGES + 100));
        rig_close(&rig);
    }
}

int main(void) {
    RUN("a leaf of heads is made anew of the messages", heads);
    RUN("so it is while messages come to its subjects", heads_that_are_written);
    RUN("leaves of message ids are made anew of each other", ids);
    RUN("a leaf of names is made anew of the definitions", names);
    RUN("so it is while definitions are written", names_that_are_written);
    RUN("but not where it may have the name of a definition that is lost", names_of_what_is_lost);
    RUN("the first page of a large value is made anew of its entry", large_values);
    RUN("pages of the lists, and the first two, are put right", lists);
    return TEST_RESULT();
}
