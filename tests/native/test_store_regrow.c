/* test_store_regrow.c: a page from which others hang, or that has what is kept twice, is damaged while the store runs,
 * and is made anew of what is elsewhere (disk/env_regrow.c): nothing is lost. Where something else is damaged, too, it
 * stays unknown until a start.
 */
#include "patch_rig.h"

static void nothing_is_lost(off_t at, const char *word, unsigned messages) {
    CHECK(is_lost_page(word));
    CHECK(!is_marked());
    all_pages_are_sound();
    CHECK_EQ_U64(0, damaged_of(1, messages));
    put(stream, messages + 1, messages + 100);
    rig_checkpoint(&rig);
    CHECK_EQ_U64(0, damaged_of(1, messages + 100));
    CHECK_EQ_U64(messages + 100, rig_state(stream).messages);
    store_close(rig.store);
    rig_start(&rig);
    stream = rig_stream(&rig, 1, rig_config());
    CHECK(!rig_alarmed(&rig, "data.mdb"));
    CHECK_EQ_U64(0, damaged_of(1, messages + 100));
    CHECK(at > 0);
}

static void a_branch(void) {
    for (how_t how = 0; how < HOWS; how++) {
        begin(rig_config());
        off_t at = page_below("m00000001", 0);
        spoil(at, how);
        rig_pass(&rig, NS_PER_SECOND);
        store_tick(rig.store, rig.now);
        stored_message_t message;
        CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
        nothing_is_lost(at, "it was made anew of the pages that hung from it", MESSAGES);
        rig_close(&rig);
    }
}

/* Of a tree of three levels and more: the root, from which branches hang, and one of these. */
static void branches_of_a_high_tree(void) {
    for (unsigned levels = 0; levels < 2; levels++) {
        const unsigned many = 20000;
        begin(rig_config());
        put(stream, MESSAGES + 1, many);
        rig_checkpoint(&rig);
        off_t at = page_below("m00000001", levels);
        spoil(at, GARBAGE);
        ticks();
        (void)damaged_or_unknown(1, many);
        nothing_is_lost(at, "it was made anew of the pages that hung from it", many);
        rig_close(&rig);
    }
}

/* A child is damaged, too: nobody says that nothing is lost. */
static void a_branch_and_a_leaf(void) {
    uint64_t from, upto;
    begin(rig_config());
    off_t leaf = page_of(MESSAGES / 2, 0, &from, &upto);
    spoil(page_below("m00000001", 0), ZEROS);
    spoil(leaf, ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    CHECK(is_lost_page("until a start mends it"));
    CHECK(is_marked());
    rig_close(&rig);
}

static void put_records(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char key[32], value[64];
        snprintf(key, sizeof key, "record %05u", i);
        snprintf(value, sizeof value, "the value of record %u", i);
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_CONTROL, text(key), text(value)));
        rig_sync(&rig);
    }
}

/* true: some could not be read. */
static bool records_unknown(unsigned count) {
    bool unknown = false;
    for (unsigned i = 0; i < count; i++) {
        char key[32], wanted[64];
        bytes_t value = BYTES_NONE;
        snprintf(key, sizeof key, "record %05u", i);
        snprintf(wanted, sizeof wanted, "the value of record %u", i);
        entry_outcome_t outcome = store_record_get(rig.store, RECORD_CONTROL, text(key), &value);
        unknown |= outcome == ENTRY_UNKNOWN;
        CHECK(outcome == ENTRY_UNKNOWN || (outcome == ENTRY_FOUND && bytes_equal(text(wanted), value)));
    }
    return unknown;
}

static void records(void) {
    static const char *const names[] = {"records", "record_copies"};
    for (unsigned which = 0; which < 4; which++) {
        begin(rig_config());
        put_records(400);
        rig_checkpoint(&rig);
        off_t at = page_below(names[which % 2], which / 2 ? 0 : 1);
        spoil(at, GARBAGE);
        ticks();
        (void)records_unknown(400);
        put_records(400);
        rig_pass(&rig, 30 * NS_PER_SECOND);
        bool made = false;
        for (int64_t until = 0; !made && patient(&until);) {
            rig_sync(&rig);
            made = rig_alarmed(&rig, "and nothing is lost");
        }
        CHECK(made);
        CHECK(!records_unknown(400));
        rig_checkpoint(&rig);
        CHECK(!is_marked());
        all_pages_are_sound();
        store_close(rig.store);
        rig_start(&rig);
        CHECK(!rig_alarmed(&rig, "data.mdb"));
        CHECK(!records_unknown(400));
        rig_close(&rig);
    }
}

int main(void) {
    RUN("a branch is made anew of what hung from it, and nothing is lost", a_branch);
    RUN("so are the branches of a high tree", branches_of_a_high_tree);
    RUN("a branch of which a leaf is damaged, too, waits for a start", a_branch_and_a_leaf);
    RUN("pages of what is kept twice are made anew of the other ones", records);
    return TEST_RESULT();
}
