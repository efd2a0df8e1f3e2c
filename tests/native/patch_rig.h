/* patch_rig.h: a store with a stream of MESSAGES messages on 40 subjects, whose pages can be found and damaged while it
 * runs.
 */
#ifndef LEAFD_TESTS_PATCH_RIG_H
#define LEAFD_TESTS_PATCH_RIG_H

#include "disk/tree.h"
#include "recovery/pages.h"
#include "store/fill.h"
#include "store/record.h"
#include "store_rig.h"

#define MESSAGES 3000u
#define PAGE 4096u

static rig_t rig;
static store_stream_t *stream;

static inline void text_of(uint64_t seq, char room[64]) {
    snprintf(room, 64, "payload %llu of some length, so that pages fill", (unsigned long long)seq);
}

static inline void put(store_stream_t *to, unsigned from, unsigned upto) {
    for (unsigned i = from; i <= upto; i++) {
        char subject[32], room[64];
        snprintf(subject, sizeof subject, "patch.%u", i % 40);
        text_of(i, room);
        append_t append = {.subject = text(subject), .payload = text(room)};
        CHECK_EQ_U64(APPEND_STORED, rig_append(&rig, to, &append).verdict);
    }
    rig_sync(&rig);
}

static inline void begin(stream_config_t config) {
    rig = (rig_t){.in_memory = true, .options = {.journal_size = 4 << 20}};
    rig_open(&rig);
    stream = rig_stream(&rig, 1, config);
    put(stream, 1, MESSAGES);
    put(rig_stream(&rig, 2, rig_config()), 1, 50);
    rig_checkpoint(&rig);
    rig_checkpoint(&rig);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static inline void read_first(uint8_t first[2 * PAGE]) {
    (void)rig_read_at(&rig, "data.mdb", first, 2 * PAGE, 0);
}

static inline uint64_t newest(const uint8_t first[2 * PAGE]) {
    page_meta_t metas[2];
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + PAGE, 1, &metas[1]));
    return metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
}

/* The page of the stream's tree that has a message, `above` levels above its leaf, and the keys on that leaf. */
static inline off_t page_of(uint64_t seq, unsigned above, uint64_t *from, uint64_t *upto) {
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

/* The tree's root page, and a page of it: below its root through so many first nodes. */
static inline off_t page_below(const char *name, unsigned levels) {
    char path[RIG_PATH];
    uint8_t first[2 * PAGE], page[PAGE];
    trees_t trees = {0};
    page_db_t db;
    uint64_t large;
    read_first(first);
    rig_path(&rig, "data.mdb", path);
    int fd = open(path, O_RDONLY);
    CHECK_EQ_I64(STATUS_OK, trees_open(&trees, fd, 64 << 20));
    CHECK_EQ_I64(STATUS_OK, trees_renew(&trees, newest(first)));
    CHECK_EQ_I64(STATUS_OK, trees_find(&trees, name, &db, &large));
    size_t number = db.root;
    CHECK(db.depth > levels);
    for (unsigned i = 0; i < levels; i++) {
        (void)rig_read_at(&rig, "data.mdb", page, PAGE, (off_t)number * PAGE);
        number = page_node_child(page_node(page, PAGE, page_nodes(page) / 2, false));
    }
    trees_close(&trees);
    close(fd);
    return (off_t)number * PAGE;
}

typedef enum how { ZEROS, GARBAGE, HEAD, OFFSET, HOWS } how_t;

static inline void spoil(off_t at, how_t how) {
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
static inline void ticks(void) {
    rig_pass(&rig, NS_PER_SECOND);
    for (int i = 0; i < 200; i++) {
        store_tick(rig.store, rig.now);
    }
}

static inline bool is_marked(void) {
    return rig_there(&rig, "data.mdb.suspect");
}

/* How many are damaged; each other one is as it was put, and none is not there, or not known. */
static inline uint64_t damaged_of(uint64_t from, uint64_t upto) {
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

/* Asks for each; how many cannot be read now. */
static inline uint64_t damaged_or_unknown(uint64_t from, uint64_t upto) {
    uint64_t count = 0;
    for (uint64_t seq = from; seq <= upto; seq++) {
        stored_message_t message;
        count += store_read(stream, seq, &message) != ENTRY_FOUND;
    }
    return count;
}

static inline bool is_lost_page(const char *word) {
    ticks();
    return rig_alarmed(&rig, word);
}

static inline void all_pages_are_sound(void) {
    char path[RIG_PATH], what[256] = "";
    rig_path(&rig, "data.mdb", path);
    if (pages_check(path, true, what, sizeof what) != STATUS_OK) {
        FAIL("%s", what);
    }
}

#endif
