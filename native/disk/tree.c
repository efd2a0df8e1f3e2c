/* tree.c: see tree.h. */
#include "disk/tree.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/crc.h"

#define NOTED_MIN 16
#define PAGE_TOUCHED 4096u /* no machine's pages are smaller */

status_t trees_open(trees_t *trees, int fd, uint64_t map_size) {
    void *map = mmap(NULL, (size_t)map_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    *trees = (trees_t){.fd = fd};
    if (map == MAP_FAILED) {
        return STATUS_NO_MEMORY;
    }
    (void)madvise(map, (size_t)map_size, MADV_RANDOM); /* willneed.h */
    trees->map = map;
    trees->map_size = map_size;
    trees->watch = unread_watch(map, map_size, fd, false);
    trees->judged = calloc(TREE_JUDGED, sizeof *trees->judged);
    if (trees->judged == NULL) {
        trees_close(trees);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void trees_close(trees_t *trees) {
    if (trees->map != NULL) {
        unread_forget(trees->watch);
        (void)munmap((void *)(uintptr_t)trees->map, (size_t)trees->map_size);
    }
    free(trees->judged);
    free(trees->noted);
    *trees = (trees_t){.fd = -1};
}

static status_t tree_wrong(trees_t *trees, size_t page, const char *what) {
    trees->where = page;
    trees->wrong = what;
    return STATUS_IO;
}

/* ---- what the disk does not give --------------------------------------------------------------------------------- */

static const char not_given[] = "the disk does not give it";

/* The status of a call that began when `before` pages were not given: with one more, nothing of it is certain. */
static inline status_t known(trees_t *trees, uint64_t before, status_t status) {
    if (LEAF_LIKELY(unread_count(trees->watch) == before)) {
        return status;
    }
    uint32_t size = trees->meta.page_size;
    return tree_wrong(trees, size != 0 ? (size_t)(unread_last(trees->watch) / size) : 0, not_given);
}

static inline read_outcome_t known_read(trees_t *trees, uint64_t before, read_outcome_t outcome) {
    return LEAF_LIKELY(known(trees, before, STATUS_OK) == STATUS_OK) ? outcome : READ_UNKNOWN;
}

/* The same for a move of a cursor. */
static inline read_outcome_t stood(trees_t *trees, tree_cursor_t *cursor, uint64_t before, read_outcome_t outcome) {
    outcome = known_read(trees, before, outcome);
    switch (outcome) {
    case READ_FOUND: break;
    case READ_NONE:
    case READ_UNKNOWN: cursor->depth = 0; break;
    }
    return outcome;
}

static bool covered(const trees_t *trees, const uint8_t *page) {
    return unread_covers(trees->watch, page, trees->meta.page_size);
}

void trees_ask_again(trees_t *trees) {
    unread_again(trees->watch);
}

/* LMDB writes the next commit but one over it: it is read twice, and is the one that was asked for both times. */
status_t trees_renew(trees_t *trees, uint64_t commit) {
    uint32_t size = trees->meta.page_size;
    uint64_t before = unread_count(trees->watch);
    struct stat file;
    if (fstat(trees->fd, &file) != 0) {
        return STATUS_IO;
    }
    trees->file_size = (uint64_t)file.st_size < trees->map_size ? (uint64_t)file.st_size : trees->map_size;
    if (size == 0) {
        page_meta_t first;
        for (uint32_t guess = 512; size == 0 && guess <= PAGE_SIZE_MAX; guess *= 2) {
            bool there = (uint64_t)guess + PAGE_HEAD + PAGE_META_SIZE <= trees->file_size;
            size = there && page_meta_read(trees->map + guess, 1, &first) && first.page_size == guess ? guess : 0;
        }
    }
    uint64_t at = (commit % 2) * (uint64_t)size;
    page_meta_t again;
    page_meta_t meta;
    if (size == 0 || at + PAGE_HEAD + PAGE_META_SIZE > trees->file_size
        || !page_meta_read(trees->map + at, (size_t)(commit % 2), &meta)
        || !page_meta_read(trees->map + at, (size_t)(commit % 2), &again) || meta.commit != commit
        || again.commit != commit || meta.main.root != again.main.root) {
        return tree_wrong(trees, (size_t)(commit % 2), "it does not tell of the commit");
    }
    status_t status = known(trees, before, STATUS_OK);
    trees->meta = status == STATUS_OK ? meta : trees->meta;
    return status;
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static const uint8_t *page_at(trees_t *trees, size_t number, size_t count) {
    uint64_t size = trees->meta.page_size;
    bool there = number >= 2 && number <= trees->meta.last && count <= trees->meta.last - number + 1
                 && (number + (uint64_t)count) * size <= trees->file_size;
    return there ? trees->map + number * size : NULL;
}

static void note_page(trees_t *trees, size_t first, size_t count) {
    if (array_reserve(&trees->noted, &trees->noted_room, trees->noted_count + 1, NOTED_MIN, sizeof *trees->noted)
        != STATUS_OK) {
        trees->noted_all = false;
        return;
    }
    trees->noted[trees->noted_count++] = (page_run_t){.first = first, .count = count};
}

static status_t judge_page(trees_t *trees, size_t number, bool leaf, page_bounds_t bounds, const uint8_t **page) {
    uint32_t size = trees->meta.page_size;
    *page = page_at(trees, number, 1);
    if (*page == NULL) {
        return tree_wrong(trees, number, "there is no such page");
    }
    if (LEAF_UNLIKELY(covered(trees, *page))) {
        return tree_wrong(trees, number, not_given);
    }
    size_t place = number % TREE_JUDGED;
    bool known = trees->judged[place].page == number;
    if (known && trees->epoch != 0 && trees->judged[place].epoch == trees->epoch) {
        return STATUS_OK;
    }
    uint32_t crc = crc32c(0, *page, size);
    if (!known || trees->judged[place].crc != crc) {
        const char *wrong = page_judge(*page, size, number, trees->meta.last, leaf, bounds);
        if (wrong != NULL) {
            return tree_wrong(trees, number, wrong);
        }
    } else if (page_kind(*page) != (leaf ? PAGE_LEAF : PAGE_BRANCH)) {
        return tree_wrong(trees, number, "its head is damaged");
    }
    trees->judged[place].page = number;
    trees->judged[place].crc = crc;
    trees->judged[place].epoch = trees->epoch;
    return STATUS_OK;
}

static status_t enter(trees_t *trees, size_t number, bool leaf, page_bounds_t bounds, const uint8_t **page) {
    status_t status = judge_page(trees, number, leaf, bounds, page);
    if (LEAF_UNLIKELY(trees->noting) && status == STATUS_OK) {
        note_page(trees, number, 1);
    }
    return status;
}

static const char outside[] = "an entry does not lie within it";

/* The page was judged, but the disk may have changed it since. */
static const uint8_t *node_of(trees_t *trees, const uint8_t *page, uint32_t index, bool leaf) {
    uint32_t size = trees->meta.page_size;
    bool lies = PAGE_HEAD + 2 * ((uint64_t)index + 1) <= size;
    const uint8_t *node = lies ? page_node(page, size, index, leaf) : NULL;
    if (node == NULL) {
        (void)tree_wrong(trees, page_word(page), outside);
    }
    return node;
}

static status_t entry_large(trees_t *trees, bool list, tree_entry_t *entry) {
    uint32_t size = trees->meta.page_size;
    size_t number = page_word(entry->value.at);
    const uint8_t *large = page_at(trees, number, page_overflow_pages(entry->value.size, size));
    if (large == NULL) {
        return tree_wrong(trees, number, "there is no such page");
    }
    const char *wrong = page_overflow_judge(large, size, number, entry->value.size, list);
    if (wrong != NULL || unread_covers(trees->watch, large, PAGE_HEAD + (uint64_t)entry->value.size)) {
        return tree_wrong(trees, number, wrong != NULL && !covered(trees, large) ? wrong : not_given);
    }
    if (LEAF_UNLIKELY(trees->noting)) {
        note_page(trees, number, page_overflow_pages(entry->value.size, size));
    }
    entry->value.at = large + PAGE_HEAD;
    return STATUS_OK;
}

static status_t entry_of(trees_t *trees, const uint8_t *page, uint32_t index, bool list, tree_entry_t *entry) {
    const uint8_t *node = node_of(trees, page, index, true);
    if (node == NULL) {
        return STATUS_IO;
    }
    entry->key = page_node_key(node);
    entry->value = bytes_of(page_node_data(node), page_node_size(node));
    return (page_node_flags(node) & PAGE_NODE_BIG) == 0 ? STATUS_OK : entry_large(trees, list, entry);
}

/* How many nodes there are now. */
static uint32_t nodes_of(const trees_t *trees, const uint8_t *page) {
    uint32_t lower = page_u16(page + PAGE_WORD + 4);
    return lower > PAGE_HEAD && lower <= trees->meta.page_size ? (lower - (uint32_t)PAGE_HEAD) / 2 : 0;
}

/* In a leaf the first node at or behind key, in a branch the last one at or before it. */
static status_t search(trees_t *trees, const uint8_t *page, bytes_t key, bool leaf, uint32_t *index) {
    uint32_t size = trees->meta.page_size;
    uint32_t low = leaf ? 0 : 1;
    uint32_t high = nodes_of(trees, page);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bytes_t at = page_key(page, size, middle);
        if (LEAF_UNLIKELY(at.at == NULL)) {
            return tree_wrong(trees, page_word(page), outside);
        }
        int order = bytes_compare(at, key);
        if (order < 0 || (!leaf && order == 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *index = leaf ? low : low - 1;
    return STATUS_OK;
}

/* The child of a branch's node, and the bounds of its keys. */
static status_t child_of(trees_t *trees, const uint8_t *page, uint32_t index, page_bounds_t *bounds, size_t *child) {
    const uint8_t *node = node_of(trees, page, index, false);
    const uint8_t *next = index + 1 < nodes_of(trees, page) ? node_of(trees, page, index + 1, false) : NULL;
    if (node == NULL || (next == NULL && index + 1 < nodes_of(trees, page))) {
        return STATUS_IO;
    }
    bounds->low = index > 0 ? page_node_key(node) : bounds->low;
    bounds->high = next != NULL ? page_node_key(next) : bounds->high;
    *child = page_node_child(node);
    return STATUS_OK;
}

typedef enum descent { TO_KEY, TO_FIRST, TO_LAST } descent_t;

static status_t choose_node(trees_t *trees, const uint8_t *page, bool leaf, descent_t descent, bytes_t key,
                            uint32_t *index) {
    uint32_t count = nodes_of(trees, page);
    *index = 0;
    if (count == 0) {
        return tree_wrong(trees, page_word(page), "its head is damaged");
    }
    if (descent == TO_LAST) {
        *index = count - 1;
    }
    return descent == TO_KEY ? search(trees, page, key, leaf, index) : STATUS_OK;
}

static bytes_t lost_key(bytes_t key, uint8_t to[TREE_LOST_KEY]) {
    bool fits = key.size > 0 && key.size <= TREE_LOST_KEY;
    memcpy(to, fits ? key.at : to, fits ? key.size : 0);
    return bytes_of(to, fits ? key.size : 0);
}

static void lose_leaf(trees_t *trees, size_t number, const uint8_t *page, page_bounds_t bounds) {
    tree_lost_t *lost = &trees->lost;
    lost->page = page != NULL && !covered(trees, page) ? number : 0;
    lost->low = lost_key(bounds.low, lost->keys[0]);
    lost->high = lost_key(bounds.high, lost->keys[1]);
}

/* From the root, or from the child that the cursor's level `from` leads to, down to a leaf. */
static status_t descend(trees_t *trees, page_db_t db, unsigned from, descent_t descent, bytes_t key,
                        tree_cursor_t *cursor, page_bounds_t *bounds) {
    size_t number = db.root;
    status_t status = STATUS_OK;
    if (db.depth == 0 || db.depth > TREE_DEPTH_MAX) {
        return tree_wrong(trees, db.root, "the depth of its tree cannot be");
    }
    for (unsigned level = from; status == STATUS_OK && level < db.depth; level++) {
        bool leaf = level + 1u == db.depth;
        uint32_t index = 0;
        status = enter(trees, number, leaf, *bounds, &cursor->page[level]);
        if (LEAF_UNLIKELY(status != STATUS_OK) && leaf) {
            lose_leaf(trees, number, cursor->page[level], *bounds);
        }
        status = status == STATUS_OK ? choose_node(trees, cursor->page[level], leaf, descent, key, &index) : status;
        if (status == STATUS_OK && !leaf) {
            status = child_of(trees, cursor->page[level], index, bounds, &number);
        }
        cursor->at[level] = (uint16_t)index;
    }
    cursor->depth = status == STATUS_OK ? db.depth : 0;
    return status;
}

/* The bounds that the pages above `level`, through which the cursor has come, set for the keys there. */
static status_t bounds_above(trees_t *trees, const tree_cursor_t *cursor, unsigned level, page_bounds_t *bounds) {
    status_t status = STATUS_OK;
    size_t child;
    for (unsigned i = 0; status == STATUS_OK && i < level; i++) {
        status = child_of(trees, cursor->page[i], cursor->at[i], bounds, &child);
    }
    return status;
}

/* To the leaf beside the one on which the cursor stands. */
static read_outcome_t turn(trees_t *trees, tree_cursor_t *cursor, bool back) {
    unsigned depth = cursor->depth;
    unsigned level = depth - 1;
    cursor->depth = 0;
    while (level > 0) {
        level--;
        uint32_t index = cursor->at[level];
        if (back ? index == 0 : index + 1u >= nodes_of(trees, cursor->page[level])) {
            continue;
        }
        cursor->at[level] = (uint16_t)(back ? index - 1 : index + 1);
        page_bounds_t bounds = {.numbers = cursor->numbers};
        page_db_t db = {.depth = (uint16_t)depth};
        status_t status = bounds_above(trees, cursor, level, &bounds);
        if (status == STATUS_OK) {
            status = child_of(trees, cursor->page[level], cursor->at[level], &bounds, &db.root);
        }
        if (status == STATUS_OK) {
            status = descend(trees, db, level + 1, back ? TO_LAST : TO_FIRST, BYTES_NONE, cursor, &bounds);
        }
        return read_if(status);
    }
    return READ_NONE;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* A large value is handed out whole: what the disk does not give of it is met here, and not by its reader. */
static void touch(const trees_t *trees, bytes_t value) {
    for (uint64_t at = 0; value.size > trees->meta.page_size && at < value.size; at += PAGE_TOUCHED) {
        (void)*(const volatile uint8_t *)(value.at + at);
    }
}

static status_t stand(trees_t *trees, const tree_cursor_t *cursor, tree_entry_t *found) {
    unsigned leaf = cursor->depth - 1u;
    status_t status = entry_of(trees, cursor->page[leaf], cursor->at[leaf], cursor->numbers, found);
    if (status == STATUS_OK) {
        touch(trees, found->value);
    }
    return status;
}

/* Where the cursor was led to, if anywhere. */
static read_outcome_t stand_if(trees_t *trees, read_outcome_t outcome, const tree_cursor_t *cursor,
                               tree_entry_t *found) {
    switch (outcome) {
    case READ_FOUND: return read_if(stand(trees, cursor, found));
    case READ_NONE:
    case READ_UNKNOWN: break;
    }
    return outcome;
}

static read_outcome_t seek(trees_t *trees, page_db_t db, bytes_t key, tree_cursor_t *cursor, tree_entry_t *found) {
    page_bounds_t bounds = {0};
    status_t status = descend(trees, db, 0, TO_KEY, key, cursor, &bounds);
    bool behind = status == STATUS_OK && cursor->at[db.depth - 1] >= nodes_of(trees, cursor->page[db.depth - 1]);
    return stand_if(trees, behind ? turn(trees, cursor, false) : read_if(status), cursor, found);
}

read_outcome_t tree_seek(trees_t *trees, page_db_t db, bytes_t key, tree_cursor_t *cursor, tree_entry_t *found) {
    uint64_t before = unread_count(trees->watch);
    cursor->depth = 0;
    return db.root == PAGE_NONE ? READ_NONE : stood(trees, cursor, before, seek(trees, db, key, cursor, found));
}

read_outcome_t tree_last(trees_t *trees, page_db_t db, tree_cursor_t *cursor, tree_entry_t *found) {
    uint64_t before = unread_count(trees->watch);
    page_bounds_t bounds = {0};
    cursor->depth = 0;
    if (db.root == PAGE_NONE) {
        return READ_NONE;
    }
    status_t status = descend(trees, db, 0, TO_LAST, BYTES_NONE, cursor, &bounds);
    return stood(trees, cursor, before, stand_if(trees, read_if(status), cursor, found));
}

/* A page on which the cursor stands may not be given since. */
static status_t cursor_covered(trees_t *trees, const tree_cursor_t *cursor) {
    for (unsigned level = 0; level < cursor->depth; level++) {
        if (covered(trees, cursor->page[level])) {
            return tree_wrong(trees, (size_t)(cursor->page[level] - trees->map) / trees->meta.page_size, not_given);
        }
    }
    return STATUS_OK;
}

read_outcome_t tree_step(trees_t *trees, tree_cursor_t *cursor, bool back, tree_entry_t *found) {
    uint64_t before = unread_count(trees->watch);
    if (cursor->depth == 0) {
        return READ_NONE;
    }
    unsigned leaf = cursor->depth - 1u;
    read_outcome_t outcome = READ_FOUND;
    if (cursor_covered(trees, cursor) != STATUS_OK) {
        return stood(trees, cursor, before, READ_UNKNOWN);
    }
    if (back ? cursor->at[leaf] == 0 : cursor->at[leaf] + 1u >= nodes_of(trees, cursor->page[leaf])) {
        outcome = turn(trees, cursor, back);
    } else {
        cursor->at[leaf] = (uint16_t)(back ? cursor->at[leaf] - 1 : cursor->at[leaf] + 1);
    }
    return stood(trees, cursor, before, stand_if(trees, outcome, cursor, found));
}

read_outcome_t tree_get(trees_t *trees, page_db_t db, bytes_t key, bytes_t *value) {
    uint64_t before = unread_count(trees->watch);
    tree_cursor_t cursor = {0};
    tree_entry_t found = {0};
    page_bounds_t bounds = {0};
    trees->missed = NULL;
    if (db.root == PAGE_NONE) {
        return READ_NONE;
    }
    status_t status = descend(trees, db, 0, TO_KEY, key, &cursor, &bounds);
    bool behind = false;
    if (status == STATUS_OK) {
        trees->missed = cursor.page[db.depth - 1];
        trees->missed_at = cursor.at[db.depth - 1];
        behind = cursor.at[db.depth - 1] >= nodes_of(trees, cursor.page[db.depth - 1]);
        status = behind ? STATUS_OK : stand(trees, &cursor, &found);
    }
    status = known(trees, before, status);
    if (status != STATUS_OK || behind || !bytes_equal(found.key, key)) {
        return status == STATUS_OK ? READ_NONE : READ_UNKNOWN;
    }
    *value = found.value;
    return READ_FOUND;
}

uint32_t tree_beside(trees_t *trees, bytes_t values[2]) {
    uint64_t before = unread_count(trees->watch);
    const uint8_t *page = trees->missed;
    uint32_t at = trees->missed_at;
    uint32_t count = 0;
    for (uint32_t index = at > 0 ? at - 1 : 0; page != NULL && index <= at && index < nodes_of(trees, page); index++) {
        tree_entry_t entry;
        if (entry_of(trees, page, index, false, &entry) == STATUS_OK) {
            values[count++] = entry.value;
        }
    }
    return unread_count(trees->watch) == before ? count : 0;
}

read_outcome_t trees_find(trees_t *trees, const char *name, page_db_t *db, uint64_t *large) {
    bytes_t value = BYTES_NONE;
    read_outcome_t outcome =
        tree_get(trees, trees->meta.main, bytes_of((const uint8_t *)name, (uint32_t)strlen(name)), &value);
    switch (outcome) {
    case READ_NONE:
    case READ_UNKNOWN: return outcome;
    case READ_FOUND: break;
    }
    if (value.size != PAGE_DB_SIZE) {
        return read_if(tree_wrong(trees, trees->meta.main.root, "the list of databases is damaged"));
    }
    *db = page_db_read(value.at);
    *large = page_word(value.at + 8 + 2 * PAGE_WORD);
    return READ_FOUND;
}

/* ---- before LMDB writes ------------------------------------------------------------------------------------------ */

/* A leaf that becomes too empty is joined with the one beside it below the same page, and so are the pages above. Where
 * LMDB joins those, it takes the first key below one of them from its first leaf (mdb_page_search_lowest). */
static status_t judge_neighbours(trees_t *trees, const tree_cursor_t *cursor, unsigned depth) {
    for (unsigned level = 0; level + 1 < depth; level++) {
        const uint8_t *page = cursor->page[level];
        for (int side = -1; side <= 1; side++) {
            int64_t index = (int64_t)cursor->at[level] + side;
            if (index < 0 || index >= (int64_t)nodes_of(trees, page)) {
                continue;
            }
            tree_cursor_t lowest = {0};
            page_bounds_t bounds = {0};
            page_db_t below = {.depth = (uint16_t)depth};
            status_t status = bounds_above(trees, cursor, level, &bounds);
            status = status == STATUS_OK ? child_of(trees, page, (uint32_t)index, &bounds, &below.root) : status;
            status =
                status == STATUS_OK ? descend(trees, below, level + 1, TO_FIRST, BYTES_NONE, &lowest, &bounds) : status;
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    return STATUS_OK;
}

/* LMDB takes the length of a large value that it frees from the value's own first page. */
static status_t judge_large(trees_t *trees, const uint8_t *page) {
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < nodes_of(trees, page); i++) {
        tree_entry_t entry;
        status = entry_of(trees, page, i, false, &entry);
    }
    return status;
}

status_t tree_judge(trees_t *trees, page_db_t db, bytes_t key, page_bounds_t *span) {
    uint64_t before = unread_count(trees->watch);
    tree_cursor_t cursor = {0};
    *span = (page_bounds_t){0};
    if (db.root == PAGE_NONE) {
        return STATUS_OK;
    }
    status_t status = descend(trees, db, 0, TO_KEY, key, &cursor, span);
    status = status == STATUS_OK ? judge_neighbours(trees, &cursor, db.depth) : status;
    return known(trees, before, status == STATUS_OK ? judge_large(trees, cursor.page[db.depth - 1]) : status);
}

status_t tree_judge_end(trees_t *trees, page_db_t db, bytes_t *last) {
    uint64_t before = unread_count(trees->watch);
    tree_cursor_t cursor = {0};
    tree_entry_t entry = {0};
    page_bounds_t bounds = {0};
    *last = BYTES_NONE;
    if (db.root == PAGE_NONE) {
        return STATUS_OK;
    }
    status_t status = descend(trees, db, 0, TO_LAST, BYTES_NONE, &cursor, &bounds);
    unsigned leaf = db.depth - 1u;
    status = status == STATUS_OK ? entry_of(trees, cursor.page[leaf], cursor.at[leaf], false, &entry) : status;
    *last = entry.key;
    return known(trees, before, status);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree */
static status_t judge_below(trees_t *trees, size_t number, unsigned depth, bool leaves, page_bounds_t bounds) {
    const uint8_t *page;
    status_t status = enter(trees, number, depth == 1, bounds, &page);
    if (status != STATUS_OK || depth == 1) {
        return status == STATUS_OK ? judge_large(trees, page) : status;
    }
    for (uint32_t i = 0; status == STATUS_OK && (leaves || depth > 2) && i < nodes_of(trees, page); i++) {
        page_bounds_t below = bounds;
        size_t child = 0;
        status = child_of(trees, page, i, &below, &child);
        status = status == STATUS_OK ? judge_below(trees, child, depth - 1, leaves, below) : status;
    }
    return status;
}

status_t tree_judge_all(trees_t *trees, page_db_t db, bool leaves) {
    uint64_t before = unread_count(trees->watch);
    if (db.root == PAGE_NONE) {
        return STATUS_OK;
    }
    return db.depth > 0 && db.depth <= TREE_DEPTH_MAX
               ? known(trees, before, judge_below(trees, db.root, db.depth, leaves, (page_bounds_t){0}))
               : tree_wrong(trees, db.root, "the depth of its tree cannot be");
}

status_t trees_judge_free(trees_t *trees, uint64_t *pages) {
    uint64_t before = unread_count(trees->watch);
    tree_cursor_t cursor = {.numbers = true};
    tree_entry_t entry;
    page_bounds_t bounds = {.numbers = true};
    page_db_t db = trees->meta.free_list;
    *pages = 0;
    if (db.root == PAGE_NONE) {
        return STATUS_OK;
    }
    read_outcome_t outcome = read_if(descend(trees, db, 0, TO_FIRST, BYTES_NONE, &cursor, &bounds));
    outcome = stand_if(trees, outcome, &cursor, &entry);
    while (read_goes_on(outcome)) {
        const char *wrong = page_list_judge(entry.value, trees->meta.last);
        *pages += wrong == NULL ? page_word(entry.value.at) : 0;
        outcome = wrong != NULL ? read_if(tree_wrong(trees, db.root, wrong)) : tree_step(trees, &cursor, false, &entry);
    }
    return known(trees, before, read_known(outcome));
}
