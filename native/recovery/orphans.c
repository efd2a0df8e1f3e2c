/* orphans.c: a page is lost from which others hung, and they are found without it. LMDB's file has three kinds of
 * pages: those that a tree reaches, those on the list of free pages, and the lost page's own:
 *
 *     all pages - reached - free = the orphans;   orphans - children of other orphans = what hung from the lost page
 *
 * They are visited in the order of their keys, so that nobody hears of the lost page but by its name. Of a lost page of
 * the main tree they are whole databases, whose names are told from what they hold.
 *
 * Where the list of free pages is damaged, too, nothing is visited: free pages have older entries.
 */
#include <stdlib.h>

#include "base/array.h"
#include "recovery/pages_private.h"

#define ORPHANS_MIN 64
#define KEY_SHOWN 511 /* LMDB's keys end there */

typedef struct orphan {
    size_t page;
    uint16_t depth;
    uint16_t key_size;
    bool names;             /* it is of the main tree: its entries are databases */
    uint8_t key[KEY_SHOWN]; /* the first below it */
    char name[PAGES_NAME_MAX];
} orphan_t;

typedef struct orphans {
    pages_t *pages;
    uint8_t *page;  /* room for one */
    uint8_t *sound; /* a bit for each page: it is an orphan, and sound in itself */
    uint8_t *below; /* likewise: another orphan leads to it */
    orphan_t *at;
    uint64_t count;
    uint64_t capacity;
} orphans_t;

static bool bit_of(const uint8_t *bits, size_t page) {
    return (bits[page / 8] & 1u << (page % 8)) != 0;
}

static void bit_set(uint8_t *bits, size_t page) {
    bits[page / 8] |= (uint8_t)(1u << (page % 8));
}

/* Notes the pages that the whole file reaches or lists. */
static status_t orphans_know_others(pages_t *pages) {
    pages_t all = {.fd = pages->fd, .size = pages->size, .meta = pages->meta, .there = pages->there, .lenient = true};
    size_t bytes = pages->meta.last / 8 + 1;
    status_t status = pages_trees(&all);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < bytes; i++) {
            all.reached[i] |= all.list_lost ? 0xff : all.listed[i];
        }
        pages->kept = all.reached;
        all.reached = NULL;
    }
    free(all.reached);
    free(all.listed);
    free(all.levels);
    free(all.large);
    return status;
}

static bool orphan_read(orphans_t *orphans, size_t number) {
    pages_t *pages = orphans->pages;
    if (pages_read(pages, orphans->page, pages->size, (uint64_t)number * pages->size) != STATUS_OK) {
        return false;
    }
    unsigned kind = page_kind(orphans->page);
    return (kind == PAGE_LEAF || kind == PAGE_BRANCH)
           && page_judge(orphans->page, pages->size, number, pages->meta.last, kind == PAGE_LEAF, (page_bounds_t){0})
                  == NULL;
}

static void orphans_find(orphans_t *orphans) {
    const pages_t *pages = orphans->pages;
    for (size_t number = 2; number <= pages->meta.last; number++) {
        if (bit_of(pages->kept, number) || !orphan_read(orphans, number)) {
            continue;
        }
        bit_set(orphans->sound, number);
        for (uint32_t i = 0; page_kind(orphans->page) == PAGE_BRANCH && i < page_nodes(orphans->page); i++) {
            bit_set(orphans->below, page_node_child(page_node(orphans->page, pages->size, i, false)));
        }
    }
}

/* The first entry below it says what it is. false: it is nothing that can be told. */
static bool orphan_look(orphans_t *orphans, size_t number, orphan_t *orphan) {
    const pages_visit_t *visit = orphans->pages->visit;
    *orphan = (orphan_t){.page = number, .depth = 1};
    for (; orphan->depth <= PAGE_DEPTH_MAX; orphan->depth++) {
        if (!orphan_read(orphans, number)) {
            return false;
        }
        const uint8_t *node = page_node(orphans->page, orphans->pages->size, 0, page_kind(orphans->page) == PAGE_LEAF);
        if (page_kind(orphans->page) == PAGE_BRANCH) {
            number = page_node_child(node);
            continue;
        }
        bytes_t key = page_node_key(node);
        orphan->key_size = key.size < KEY_SHOWN ? (uint16_t)key.size : KEY_SHOWN;
        memcpy(orphan->key, key.at, orphan->key_size);
        orphan->names = (page_node_flags(node) & PAGE_NODE_DB) != 0;
        bool large = (page_node_flags(node) & PAGE_NODE_BIG) != 0;
        bytes_t value = large ? BYTES_NONE : bytes_of(page_node_data(node), page_node_size(node));
        if (visit->name != NULL) {
            visit->name(visit->context, key, value, orphan->name);
        }
        return true;
    }
    return false;
}

static bool orphan_belongs(const orphan_t *orphan, tree_t tree) {
    bytes_t key = bytes_of(orphan->key, orphan->key_size);
    if (tree.of_names && tree.db.depth == 1) {
        return orphan->name[0] != 0;
    }
    /* Where a whole tree is lost, its recorded depth may be wrong. */
    return orphan->names == tree.of_names && (tree.level == 0 || orphan->depth == tree.db.depth - 1)
           && (tree.bounds.low.size == 0 || bytes_compare(tree.bounds.low, key) <= 0)
           && (tree.bounds.high.size == 0 || bytes_compare(key, tree.bounds.high) < 0);
}

static int orphans_compare(const void *a, const void *b) {
    const orphan_t *left = a;
    const orphan_t *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order
                      : bytes_compare(bytes_of(left->key, left->key_size), bytes_of(right->key, right->key_size));
}

static status_t orphans_list(orphans_t *orphans, tree_t tree) {
    for (size_t number = 2; number <= orphans->pages->meta.last; number++) {
        orphan_t orphan;
        if (!bit_of(orphans->sound, number) || bit_of(orphans->below, number) || !orphan_look(orphans, number, &orphan)
            || !orphan_belongs(&orphan, tree)) {
            continue;
        }
        if (array_reserve(&orphans->at, &orphans->capacity, orphans->count + 1, ORPHANS_MIN, sizeof orphan)
            != STATUS_OK) {
            return STATUS_NO_MEMORY;
        }
        orphans->at[orphans->count++] = orphan;
    }
    if (orphans->count > 1) {
        qsort(orphans->at, orphans->count, sizeof *orphans->at, orphans_compare);
    }
    return STATUS_OK;
}

/* NOLINTNEXTLINE(misc-no-recursion): a part of a tree lies below the lost page's level */
static status_t orphan_visit(pages_t *pages, const orphan_t *orphan, tree_t tree) {
    page_db_t db = {.depth = orphan->depth, .root = orphan->page};
    if (tree.of_names && tree.db.depth == 1) {
        return pages_visit_database(pages, bytes_of((const uint8_t *)orphan->name, (uint32_t)strlen(orphan->name)), db,
                                    tree.base + PAGE_DEPTH_MAX);
    }
    tree.db = db;
    tree.level++;
    return pages_tree(pages, tree);
}

/* NOLINTNEXTLINE(misc-no-recursion) */
status_t orphans_visit(pages_t *pages, tree_t tree) {
    size_t bytes = pages->meta.last / 8 + 1;
    status_t status = pages->kept == NULL ? orphans_know_others(pages) : STATUS_OK;
    orphans_t orphans = {.pages = pages};
    orphans.page = malloc(pages->size);
    orphans.sound = calloc(1, bytes);
    orphans.below = calloc(1, bytes);
    if (orphans.page == NULL || orphans.sound == NULL || orphans.below == NULL) {
        status = status == STATUS_OK ? STATUS_NO_MEMORY : status;
    }
    if (status == STATUS_OK) {
        orphans_find(&orphans);
        status = orphans_list(&orphans, tree);
    }
    for (uint64_t i = 0; status == STATUS_OK && i < orphans.count; i++) {
        status = orphan_visit(pages, &orphans.at[i], tree);
    }
    free(orphans.page);
    free(orphans.sound);
    free(orphans.below);
    free(orphans.at);
    return status;
}
