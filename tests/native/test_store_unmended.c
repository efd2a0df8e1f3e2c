/* test_store_unmended.c: pages of data.mdb are damaged, and a start cannot make a sound file: there is no room, or
 * something stands in its way. It serves what can be read, and what the journal has waits for a better time.
 */
#include "disk/tree.h"
#include "store_rig.h"

#define EARLIER 400
#define LATER 20

static rig_t rig;
static uint64_t seed;

static void put(store_stream_t *stream, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char word[16];
        snprintf(word, sizeof word, "a.%u", i % 50);
        CHECK_EQ_U64(APPEND_STORED,
                     rig_put(&rig, stream, word, "a payload of some length, so that pages fill").verdict);
        if (i % 40 == 39) {
            rig_sync(&rig);
        }
    }
    rig_sync(&rig);
}

/* Two streams in LMDB, of which the second one has more in the journal; then the process is killed. */
static void begin(void) {
    rig = (rig_t){.in_memory = true};
    rig_open(&rig);
    for (uint32_t id = 1; id <= 2; id++) {
        uint8_t key[4];
        store_be32(key, id);
        store_stream_t *stream = rig_stream(&rig, id, rig_config());
        CHECK_EQ_I64(STATUS_OK, store_record_put(rig.store, RECORD_STREAM, bytes_of(key, 4),
                                                 text("{\"account\":\"A\",\"config\":{\"name\":\"S\"}}")));
        put(stream, EARLIER);
    }
    rig_checkpoint(&rig);
    store_close(rig.store);
    rig_start(&rig);
    (void)rig_stream(&rig, 1, rig_config());
    put(rig_stream(&rig, 2, rig_config()), LATER);
    rig_kill(&rig);
    rig_write_at(&rig, "mending", "in the way", 10, 0);
}

static uint64_t newest(const uint8_t first[2 * 4096]) {
    page_meta_t metas[2];
    CHECK(page_meta_read(first, 0, &metas[0]) && page_meta_read(first + 4096, 1, &metas[1]));
    return metas[0].commit > metas[1].commit ? metas[0].commit : metas[1].commit;
}

typedef enum damage { GARBAGE, ZEROS, STRAY_OFFSETS, LONG_KEYS } damage_t;

/* What LMDB would believe: the page's head stays, and its nodes lie elsewhere, or are longer than the page. */
static void spoil_page(uint8_t page[4096], damage_t damage) {
    switch (damage) {
    case GARBAGE:
        for (size_t i = 0; i < 4096; i++) {
            page[i] = (uint8_t)(++seed * 167 + 13);
        }
        break;
    case ZEROS: memset(page, 0, 4096); break;
    case STRAY_OFFSETS:
        for (size_t i = 16; i < 16 + 2u * page_nodes(page); i++) {
            page[i] = (uint8_t)(++seed * 167 + 13);
        }
        break;
    case LONG_KEYS:
        for (uint32_t i = 0, nodes = page_nodes(page); i < nodes; i++) {
            size_t at = (size_t)(page[16 + 2 * i] | page[17 + 2 * i] << 8);
            page[at + 6] = page[at + 7] = 0xff;
        }
    }
}

static const char *const free_list = "(free)", *const main_tree = "(main)"; /* these two have no name */

/* The last leaf of a database. */
static void spoil(const char *database, damage_t damage) {
    char path[RIG_PATH];
    uint8_t first[2 * 4096];
    trees_t trees = {0};
    tree_cursor_t cursor = {0};
    tree_entry_t entry;
    page_db_t db;
    uint64_t large;
    uint8_t page[4096];
    (void)rig_read_at(&rig, "data.mdb", first, sizeof first, 0);
    rig_path(&rig, "data.mdb", path);
    int fd = open(path, O_RDONLY);
    CHECK_EQ_I64(STATUS_OK, trees_open(&trees, fd, 64 << 20));
    CHECK_EQ_I64(STATUS_OK, trees_renew(&trees, newest(first)));
    if (database == free_list || database == main_tree) {
        db = database == free_list ? trees.meta.free_list : trees.meta.main;
    } else {
        CHECK_EQ_I64(READ_FOUND, trees_find(&trees, database, &db, &large));
    }
    CHECK_EQ_I64(READ_FOUND, tree_last(&trees, db, &cursor, &entry));
    off_t at = (off_t)page_word(cursor.page[cursor.depth - 1]) * 4096;
    trees_close(&trees);
    close(fd);
    (void)rig_read_at(&rig, "data.mdb", page, sizeof page, at);
    spoil_page(page, damage);
    rig_write_at(&rig, "data.mdb", page, sizeof page, at);
}

static bool count_record(void *context, bytes_t key, bytes_t value) {
    unsigned *count = context;
    CHECK(key.size == 4 && value.size > 0);
    ++*count;
    return true;
}

static bool found_lost(void *context, bytes_t key, bytes_t name) {
    unsigned *count = context;
    (void)key;
    (void)name;
    ++*count;
    return true;
}

/* As a daemon asks for them at its start: one by one, each behind the last. */
static void definitions_are_there(list_outcome_t names) {
    unsigned defined = 0, lost = 0;
    CHECK_EQ_I64(LIST_WHOLE,
                 store_record_each(rig.store, RECORD_STREAM, BYTES_NONE, BYTES_NONE, count_record, &defined));
    CHECK_EQ_U64(2, defined);
    CHECK_EQ_I64(LIST_WHOLE, store_record_each(rig.store, RECORD_STREAM, BYTES_NONE, bytes_of("\0\0\0\1", 4),
                                               count_record, &defined));
    CHECK_EQ_U64(3, defined);
    CHECK_EQ_I64(names, store_lost_each(rig.store, BYTES_NONE, found_lost, &lost));
    CHECK_EQ_U64(0, lost);
}

/* Twice, as a daemon would that is started again. */
static void starts_and_serves(const char *database, damage_t damage) {
    begin();
    spoil(database, damage);
    for (int i = 0; i < 2; i++) {
        stored_message_t message;
        rig_start(&rig);
        CHECK(rig_alarmed(&rig, "cannot be made anew"));
        definitions_are_there(strcmp(database, "names") == 0 ? LIST_LACKS : LIST_WHOLE);
        CHECK_EQ_I64(ENTRY_FOUND, store_read(rig_stream(&rig, 1, rig_config()), 1, &message));
        CHECK_EQ_I64(ENTRY_FOUND, store_read(rig_stream(&rig, 2, rig_config()), EARLIER + LATER, &message));
        rig_kill(&rig);
        rig_write_at(&rig, "mending", "in the way", 10, 0);
    }
    rig_unlink(&rig, "mending");
    rig_start(&rig);
    CHECK(rig_alarmed(&rig, "it was made anew"));
    stored_message_t message;
    CHECK_EQ_I64(ENTRY_FOUND, store_read(rig_stream(&rig, 2, rig_config()), EARLIER + LATER, &message));
    rig_close(&rig);
}

static void every_damage(const char *database) {
    for (damage_t damage = GARBAGE; damage <= LONG_KEYS; damage++) {
        starts_and_serves(database, damage);
    }
}

static void where_the_journal_goes(void) {
    every_damage("m00000002");
}

static void names(void) {
    every_damage("names");
}

static void copies(void) {
    every_damage("record_copies");
}

static void records(void) {
    every_damage("records");
}

static void of_the_store_itself(void) {
    every_damage("meta");
    every_damage("meta_copies");
}

static void free_pages(void) {
    every_damage(free_list);
}

/* Nothing can be found without it. */
static void main_page(void) {
    for (damage_t damage = GARBAGE; damage <= LONG_KEYS; damage++) {
        begin();
        spoil(main_tree, damage);
        rig_refused(&rig, "no sound file can be put in its place");
        rig_unlink(&rig, "mending");
        stored_message_t message;
        rig_start(&rig);
        CHECK(rig_alarmed(&rig, "it was made anew"));
        CHECK_EQ_I64(ENTRY_FOUND, store_read(rig_stream(&rig, 2, rig_config()), EARLIER + LATER, &message));
        rig_close(&rig);
    }
}

int main(void) {
    RUN("where a page of messages is damaged that the journal's end belongs to", where_the_journal_goes);
    RUN("where a page of names is damaged", names);
    RUN("where a page of copies is damaged", copies);
    RUN("where a page of records is damaged", records);
    RUN("where a page of the list of free pages is damaged", free_pages);
    RUN("where the page is damaged that says which databases there are, a start is refused, and changes nothing",
        main_page);
    RUN("where a page of what the store keeps of itself is damaged", of_the_store_itself);
    return TEST_RESULT();
}
