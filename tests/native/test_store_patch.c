/* test_store_patch.c: a leaf of a stream's own messages is damaged while the store runs, and is made anew in its place
 * (store/mending.c). Everything else is as it was, in the running store and behind a start. What that is not for stays
 * unknown until a start, as it was: streams with removed messages, branches, and numbers of pages that became others.
 */
#include "disk/tree.h"
#include "recovery/pages.h"
#include "store_rig.h"

#define MESSAGES 3000u
#define PAGE 4096u

static rig_t rig;
static store_stream_t *stream;

static void text_of(uint64_t seq, char room[64]) {
    snprintf(room, 64, "payload %llu of some length, so that pages fill", (unsigned long long)seq);
}

static void put(store_stream_t *to, unsigned from, unsigned upto) {
    for (unsigned i = from; i <= upto; i++) {
        char subject[32], room[64];
        snprintf(subject, sizeof subject, "patch.%u", i % 40);
        text_of(i, room);
        append_t append = {.subject = text(subject), .payload = text(room)};
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, to, &append).verdict);
    }
    rig_sync(&rig);
}

static void begin(stream_config_t config) {
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 4 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, config);
    put(stream, 1, MESSAGES);
    put(rig_stream(&rig, 2, rig_config()), 1, 50);
    rig_checkpoint(&rig);
    rig_checkpoint(&rig);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void read_first(uint8_t first[2 * PAGE]) {
    (void)rig_read_at(&rig, "data.mdb", first, 2 * PAGE, 0);
}

static uint64_t newest(const uint8_t first[2 * PAGE]) {
    page_meta_t metas[2];
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + PAGE, 1, &metas[1]));
    return metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
}

/* The page of the stream's tree that has a message, `above` levels above its leaf, and the keys on that leaf. */
static off_t page_of(uint64_t seq, unsigned above, uint64_t *from, uint64_t *upto) {
    char path[RIG_PATH];
    uint8_t first[2 * PAGE], leaf[PAGE];
    trees_t trees = {0};
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    page_db_t db;
    store_key_t key;
    uint64_t large;
    read_first(first);
    rig_path(&rig, "data.mdb", path);
    int fd = open(path, O_RDONLY);
    CHECK_EQ_I64(STATUS_OK, trees_open(&trees, fd, 64 << 20));
    CHECK_EQ_I64(STATUS_OK, trees_renew(&trees, newest(first)));
    CHECK_EQ_I64(STATUS_OK, trees_find(&trees, "m00000001", &db, &large));
    key_message(&key, 1, seq);
    CHECK_EQ_I64(STATUS_OK, tree_seek(&trees, db, key_bytes(&key), &cursor, &entry));
    off_t at = (off_t)page_word(cursor.page[cursor.depth - 1u - above]) * PAGE;
    off_t of_leaf = (off_t)page_word(cursor.page[cursor.depth - 1u]) * PAGE;
    trees_close(&trees);
    close(fd);
    (void)rig_read_at(&rig, "data.mdb", leaf, PAGE, of_leaf);
    *from = load_be64(page_node_key(page_node(leaf, PAGE, 0, true)).at + 4);
    *upto = load_be64(page_node_key(page_node(leaf, PAGE, page_nodes(leaf) - 1, true)).at + 4);
    return at;
}

typedef enum how { ZEROS, GARBAGE, HEAD, OFFSET, HOWS } how_t;

static void spoil(off_t at, how_t how) {
    uint8_t page[PAGE];
    (void)rig_read_at(&rig, "data.mdb", page, PAGE, at);
    switch (how) {
    case ZEROS: memset(page, 0, PAGE); break;
    case GARBAGE:
        for (uint32_t i = 0; i < PAGE; i++) page[i] = (uint8_t)(i * 167 + 13);
        break;
    case HEAD: page[10] ^= 0x40; break;
    default: page[16] ^= 0x04; break; /* where its first node lies */
    }
    rig_write_at(&rig, "data.mdb", page, PAGE, at);
}

/* Until nothing is under way any more; pages are judged again each second. */
static void ticks(void) {
    rig_pass(&rig, NS_PER_SECOND);
    for (int i = 0; i < 200; i++) {
        store_tick(rig.store, rig.now);
    }
}

static bool is_marked(void) {
    return rig_there(&rig, "data.mdb.suspect");
}

/* How many are damaged; each other one is as it was put, and none is not there, or not known. */
static uint64_t damaged_of(uint64_t from, uint64_t upto) {
    uint64_t damaged = 0;
    for (uint64_t seq = from; seq <= upto; seq++) {
        stored_message_t message;
        char room[64];
        entry_outcome_t outcome = store_read(stream, seq, &message);
        text_of(seq, room);
        damaged += outcome == ENTRY_DAMAGED;
        if (outcome != ENTRY_DAMAGED) {
            CHECK_EQ_I64(ENTRY_FOUND, outcome);
            CHECK_BYTES(room, strlen(room), message.payload.at, message.payload.size);
        }
    }
    return damaged;
}

static bool is_lost_page(const char *word) {
    ticks();
    return rig_alarmed(&rig, word);
}

static void all_pages_are_sound(void) {
    char path[RIG_PATH], what[256] = "";
    rig_path(&rig, "data.mdb", path);
    if (pages_check(path, true, what, sizeof what) != STATUS_OK) {
        FAIL("%s", what);
    }
}

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
        made = rig_alarmed(&rig, "until a start mends it"); /* they are behind the stream's last one that is there */
        usleep(1000);
    }
    CHECK(made);
    rig_close(&rig);
}

/* Which ones had been removed is not known without the page. */
static void a_stream_with_gaps_waits_for_a_start(void) {
    uint64_t from, upto;
    begin(rig_config());

    CHECK_EQ_I64(STATUS_OK, store_delete(stream, MESSAGES / 2 + 100));
    rig_checkpoint(&rig);
    spoil(page_of(MESSAGES / 2, 0, &from, &upto), ZEROS);
    ticks();
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES / 2, &message));
    CHECK(is_lost_page("until a start mends it"));
    CHECK(is_marked());
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
    spoil(page_of(MESSAGES, 0, &from, &upto), GARBAGE); /* nothing says where it ends */
    ticks();
    CHECK_EQ_I64(ENTRY_UNKNOWN, store_read(stream, MESSAGES, &message));
    CHECK(is_lost_page("until a start mends it"));
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
    CHECK(is_lost_page("it was made anew"));
    memcpy(at, id, 4);
    store_be64(at + 4, upto);
    CHECK_EQ_I64(ENTRY_FOUND, store_record_get(rig.store, RECORD_HOLE, bytes_of(at, sizeof at), &value));
    CHECK(value.size == 9 && load_be64(value.at) == from && value.at[8] == 1);
    rig_close(&rig);
}

int main(void) {
    RUN("whatever is wrong with the page, it is made anew in moments, and nothing else changes", each_way);
    RUN("a purge that meets the page goes on, and no start is asked for", what_is_removed_goes);
    RUN("a write that meets a page whose messages are removed waits for a start", a_write_goes_on);
    RUN("a stream with removed messages waits for a start", a_stream_with_gaps_waits_for_a_start);
    RUN("a page of others, to which a damaged number leads, is left alone", a_page_of_others_is_left_alone);
    RUN("a stream's first page is made anew, and its last one waits for a start", the_edges_of_a_stream);
    RUN("what a page had is noted for who can fetch it again", a_hole_is_noted);
    return TEST_RESULT();
}
