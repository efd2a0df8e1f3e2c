/* reach.c: see reach.h. What a page looks like is drawn in page.h. */
#include "disk/reach.h"

#include <stdlib.h>

#include "disk/waiting.h"

#define LEVELS (2 * TREE_DEPTH_MAX) /* of the names, and of a database below */
#define CLOCK_EVERY 256u            /* entries of a page that was read already, between two looks at the time */

typedef enum tree_kind { TREE_LIST, TREE_NAMES, TREE_PLAIN, TREE_LARGE } tree_kind_t;

/* A page whose entries are being gone through. */
typedef struct level {
    const uint8_t *page;
    tree_kind_t kind;
    uint16_t below; /* levels; 0: a leaf */
    uint32_t next;
    uint32_t count;
} level_t;

struct reach {
    const trees_t *trees;
    page_meta_t meta;
    uint8_t *used;   /* a bit for each page */
    uint8_t *listed; /* likewise */
    unsigned begun;  /* trees: the list, then the names */
    bool twice;
    bool doubtful; /* other damage was met than of leaves with large values */
    bool looked;   /* a page was read, for which the disk may have taken its time */
    unsigned depth;
    level_t levels[LEVELS];
    size_t where;
    const char *wrong;
    size_t expected; /* 0: none */
    bool placed;     /* it is of the tree that is gone through, or of an earlier one */
    bool counts;     /* of the tree that is gone through */
    reach_place_t place;
};

static const char free_in_use[] = "the list of free pages names one that is in use";

status_t reach_open(const trees_t *trees, reach_t **out) {
    reach_t *reach = calloc(1, sizeof *reach);
    *out = reach;
    if (reach == NULL) {
        return STATUS_NO_MEMORY;
    }
    reach->trees = trees;
    reach->meta = trees->meta;
    reach->used = calloc(1, reach->meta.last / 8 + 1);
    reach->listed = calloc(1, reach->meta.last / 8 + 1);
    if (reach->used == NULL || reach->listed == NULL) {
        reach_close(reach);
        *out = NULL;
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

void reach_close(reach_t *reach) {
    if (reach != NULL) {
        free(reach->used);
        free(reach->listed);
        free(reach);
    }
}

const char *reach_wrong(const reach_t *reach, size_t *page) {
    *page = reach->where;
    return reach->wrong;
}

void reach_expect(reach_t *reach, size_t page) {
    reach->expected = page;
}

bool reach_place(const reach_t *reach, reach_place_t *place) {
    *place = reach->place;
    return reach->placed;
}

bool reach_is_apart(const reach_t *reach) {
    return !reach->doubtful;
}

static void reach_tell(reach_t *reach, size_t page, const char *what) {
    reach->where = page;
    reach->wrong = what;
    reach->doubtful = true;
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static bool reach_has(const uint8_t *bits, size_t page) {
    return (bits[page / 8] & (1u << (page % 8))) != 0;
}

static bool reach_mark(uint8_t *bits, size_t page) {
    bool before = reach_has(bits, page);
    bits[page / 8] |= (uint8_t)(1u << (page % 8));
    return before;
}

bool reach_is_orphan(const reach_t *reach, size_t page) {
    return !reach_has(reach->used, page) && !reach_has(reach->listed, page);
}

/* ---- the page that is expected to be damaged --------------------------------------------------------------------- */

static uint32_t place_key(uint8_t to[REACH_KEY_MAX], bytes_t key) {
    bool fits = key.size <= REACH_KEY_MAX;
    if (fits && key.size > 0) {
        memcpy(to, key.at, key.size);
    }
    return fits ? key.size : 0;
}

static bool of_database(tree_kind_t kind) {
    return kind == TREE_PLAIN || kind == TREE_LARGE;
}

/* The bounds are those of the nearest level above that has one on that side. */
static void place_note(reach_t *reach, size_t number, unsigned below) {
    reach_place_t *place = &reach->place;
    reach->placed = reach->counts = true;
    place->page = number;
    place->below = below;
    for (unsigned i = 0; i < reach->depth; i++) {
        const level_t *level = &reach->levels[i];
        if (!of_database(level->kind) || level->below == 0 || level->next == 0) {
            continue;
        }
        const uint8_t *node = page_node(level->page, reach->meta.page_size, level->next - 1u, false);
        const uint8_t *next =
            level->next < level->count ? page_node(level->page, reach->meta.page_size, level->next, false) : NULL;
        if (node != NULL && level->next > 1) {
            place->low_size = place_key(place->low, page_node_key(node));
        }
        if (next != NULL) {
            place->high_size = place_key(place->high, page_node_key(next));
        }
    }
}

/* The first page of a large value: its entry says how large. */
static void place_large(reach_t *reach, size_t first, const uint8_t *node) {
    reach_place_t *place = &reach->place;
    reach->placed = true;
    place->page = first;
    place->value_size = page_node_size(node);
    place->low_size = place_key(place->low, page_node_key(node));
}

static void place_count(reach_t *reach, unsigned below, tree_kind_t kind) {
    if (of_database(kind) && (!reach->placed || reach->counts)) {
        reach->place.seen_branches += below > 0;
        reach->place.seen_leaves += below == 0;
    }
}

/* A database begins: what was counted of the one before counts if the page is of it. */
static void place_database(reach_t *reach, bytes_t name, const uint8_t *db) {
    reach_place_t *place = &reach->place;
    reach->counts = false;
    if (reach->placed) {
        return;
    }
    *place = (reach_place_t){.branches = page_word(db + 8),
                             .leaves = page_word(db + 8 + PAGE_WORD),
                             .entries = page_word(db + 8 + 3 * PAGE_WORD)};
    if (name.size < REACH_NAME_MAX) {
        memcpy(place->name, name.at, name.size);
    }
}

/* The list is what is damaged: a page of a tree says its own number. */
static void reach_tell_twice(reach_t *reach) {
    reach->twice = true;
    reach_tell(reach, reach->meta.free_list.root, free_in_use);
}

/* false: these pages cannot be in use here. */
static bool reach_use(reach_t *reach, size_t first, size_t count) {
    uint64_t size = reach->meta.page_size;
    if (first < 2 || first > reach->meta.last || count == 0 || count > reach->meta.last - first + 1
        || (first + (uint64_t)count) * size > reach->trees->file_size) {
        reach_tell(reach, first, "there is no such page");
        return false;
    }
    for (size_t page = first; page < first + count; page++) {
        if (reach_mark(reach->used, page)) {
            reach_tell(reach, page, "it is used twice");
            return false;
        }
        if (reach_has(reach->listed, page)) {
            reach_tell_twice(reach);
        }
    }
    return true;
}

/* Enters a page that is to be gone through. */
static void reach_enter(reach_t *reach, size_t number, unsigned below, tree_kind_t kind) {
    uint32_t size = reach->meta.page_size;
    bool leaf = below == 0;
    bool expected = reach->expected != 0 && number == reach->expected;
    if (!reach_use(reach, number, 1)) {
        return;
    }
    place_count(reach, below, kind);
    if (expected) {
        place_note(reach, number, below);
    }
    if (leaf && kind == TREE_PLAIN) {
        return;
    }
    reach->looked = true;
    const uint8_t *page = reach->trees->map + number * (uint64_t)size;
    page_bounds_t bounds = {.numbers = kind == TREE_LIST};
    uint64_t before = unread_count(reach->trees->watch);
    const char *wrong = page_judge(page, size, number, reach->meta.last, leaf, bounds);
    if (unread_count(reach->trees->watch) != before || unread_covers(reach->trees->watch, page, size)) {
        wrong = "the disk does not give it";
    }
    if (wrong != NULL) {
        bool doubtful = reach->doubtful || ((!leaf || kind != TREE_LARGE) && !expected);
        reach_tell(reach, number, wrong);
        reach->doubtful = doubtful;
        return;
    }
    reach->levels[reach->depth++] =
        (level_t){.page = page, .kind = kind, .below = (uint16_t)below, .count = page_nodes(page)};
}

static void reach_tree(reach_t *reach, page_db_t db, tree_kind_t kind) {
    if (db.root == PAGE_NONE) {
        return;
    }
    if (db.depth == 0 || db.depth > TREE_DEPTH_MAX) {
        reach_tell(reach, db.root, "the depth of its tree cannot be");
        return;
    }
    reach_enter(reach, db.root, db.depth - 1u, kind);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* One entry of the list of free pages. */
static void reach_list(reach_t *reach, bytes_t value) {
    uint64_t before = unread_count(reach->trees->watch);
    const char *wrong = page_list_judge(value, reach->meta.last);
    for (size_t i = 1; wrong == NULL && i <= page_word(value.at); i++) {
        size_t page = page_word(value.at + i * PAGE_WORD);
        if (page > reach->meta.last || reach_mark(reach->listed, page)) { /* it may have changed since it was judged */
            wrong = "the list of free pages names one twice";
            reach->twice = true;
        } else if (reach_has(reach->used, page)) {
            reach_tell_twice(reach);
        }
    }
    if (unread_count(reach->trees->watch) != before) {
        wrong = "the disk does not give it";
    }
    if (wrong != NULL) {
        reach_tell(reach, reach->meta.free_list.root, wrong);
    }
}

static void reach_large(reach_t *reach, const uint8_t *node, tree_kind_t kind) {
    uint32_t size = page_node_size(node);
    size_t first = page_word(page_node_data(node));
    if (!reach_use(reach, first, page_overflow_pages(size, reach->meta.page_size))) {
        return;
    }
    if (kind != TREE_LIST && reach->expected != 0 && first == reach->expected) {
        place_large(reach, first, node);
    }
    if (kind == TREE_LIST) {
        reach->looked = true;
        const uint8_t *page = reach->trees->map + first * (uint64_t)reach->meta.page_size;
        const char *wrong = page_overflow_judge(page, reach->meta.page_size, first, size, true);
        if (wrong != NULL) {
            reach_tell(reach, first, wrong);
        } else {
            reach_list(reach, bytes_of(page + PAGE_HEAD, size));
        }
    }
}

static void reach_name(reach_t *reach, const level_t *level, const uint8_t *node) {
    if (page_node_flags(node) != PAGE_NODE_DB || page_node_size(node) != PAGE_DB_SIZE) {
        reach_tell(reach, page_word(level->page), "the list of databases is damaged");
        return;
    }
    const uint8_t *db = page_node_data(node);
    place_database(reach, page_node_key(node), db);
    bool large = page_word(db + 8 + 2 * PAGE_WORD) > 0;
    reach_tree(reach, page_db_read(db), large ? TREE_LARGE : TREE_PLAIN);
}

/* The next entry of the page that was entered last. */
static void reach_next(reach_t *reach) {
    level_t *level = &reach->levels[reach->depth - 1];
    if (level->next >= level->count) {
        reach->depth--;
        return;
    }
    const uint8_t *node = page_node(level->page, reach->meta.page_size, level->next++, level->below == 0);
    if (node == NULL) { /* it has changed since */
        reach_tell(reach, page_word(level->page), "an entry does not lie within it");
    } else if (level->below > 0) {
        reach_enter(reach, page_node_child(node), level->below - 1u, level->kind);
    } else if (level->kind == TREE_NAMES) {
        reach_name(reach, level, node);
    } else if ((page_node_flags(node) & PAGE_NODE_BIG) != 0) {
        reach_large(reach, node, level->kind);
    } else if (level->kind == TREE_LIST) {
        reach_list(reach, bytes_of(page_node_data(node), page_node_size(node)));
    }
}

/* The list comes first, so that a page that is both is found where it is used. false: that was all. */
static bool reach_begin(reach_t *reach) {
    switch (reach->begun++) {
    case 0: reach_tree(reach, reach->meta.free_list, TREE_LIST); return true;
    case 1: reach_tree(reach, reach->meta.main, TREE_NAMES); return true;
    default: return false;
    }
}

status_t reach_step(reach_t *reach, int64_t until_ns) {
    reach->wrong = NULL;
    for (uint32_t entries = 1; reach->wrong == NULL; entries++) {
        reach->looked = false;
        if (reach->depth > 0) {
            reach_next(reach);
        } else if (!reach_begin(reach)) {
            if (reach->twice) {
                reach_tell_twice(reach);
            }
            return reach->twice ? STATUS_CORRUPT : STATUS_OK;
        }
        if ((reach->looked || entries % CLOCK_EVERY == 0) && thread_elapsed_ns() >= until_ns) {
            break;
        }
    }
    return STATUS_AGAIN;
}
