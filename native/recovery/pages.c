/* pages.c: see pages.h; what a page looks like is drawn in disk/page.h.
 *
 * Every page is reached once; free pages are not reached at all, and every page that is neither is an orphan: where a
 * page is lost that others hung from, they are found so (orphans.c). What the entries say is not looked at: they have
 * checksums.
 */
#include "recovery/pages_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 3

status_t pages_wrong(pages_t *pages, size_t page, const char *what) {
    pages->wrong = what;
    pages->where = page;
    return STATUS_CORRUPT;
}

/* Damage that somebody hears of is gone around. */
status_t pages_pass(pages_t *pages, status_t status) {
    if (status != STATUS_CORRUPT || (pages->visit == NULL && !pages->lenient)) {
        return status;
    }
    if (pages->visit != NULL) {
        pages->visit->damaged(pages->visit->context, pages->where, pages->wrong);
    }
    return STATUS_OK;
}

/* Reads, and reads again what the disk refuses: it may have been busy with itself. */
static ssize_t read_tried(int fd, uint8_t *to, size_t size, uint64_t offset) {
    ssize_t done = -1;
    for (int tries = 0; done < 0 && tries < TRIES; tries++) {
        do {
            done = pread(fd, to, size, (off_t)offset);
        } while (done < 0 && errno == EINTR);
    }
    return done;
}

status_t pages_read(pages_t *pages, uint8_t *to, size_t size, uint64_t offset) {
    while (size > 0) {
        ssize_t done = read_tried(pages->fd, to, size, offset);
        size_t page = pages->size > 0 ? (size_t)(offset / pages->size) : 0;
        if (done <= 0) {
            return pages_wrong(pages, page, done < 0 ? "it cannot be read" : "the file ends before it");
        }
        to += done;
        size -= (size_t)done;
        offset += (uint64_t)done;
    }
    return STATUS_OK;
}

/* ---- the two metas ----------------------------------------------------------------------------------------------- */

static bool meta_take(pages_t *pages, const uint8_t *page, size_t number, uint32_t page_size) {
    page_meta_t meta;
    if (!page_meta_read(page, number, &meta) || (page_size != 0 && meta.page_size != page_size)) {
        return false;
    }
    if (pages->size == 0 || meta.commit > pages->meta.commit) {
        pages->meta = meta;
    }
    pages->size = meta.page_size;
    return true;
}

static bool meta_read(pages_t *pages, size_t number, uint32_t page_size) {
    uint8_t page[PAGE_HEAD + PAGE_META_SIZE];
    return pages_read(pages, page, sizeof page, (uint64_t)number * page_size) == STATUS_OK
           && meta_take(pages, page, number, number > 0 ? page_size : 0);
}

/* Sizes, offsets and page numbers are words in LMDB: 32 bits on armhf, 64 elsewhere. */
static bool of_another_word(pages_t *pages) {
    uint8_t head[PAGE_HEAD + OTHER_HEAD + 4];
    return pages_read(pages, head, sizeof head, 0) == STATUS_OK && load_u32(head + PAGE_HEAD) != PAGE_MAGIC
           && load_u32(head + OTHER_HEAD) == PAGE_MAGIC;
}

/* Reports a fault of a meta page, unless the page could not be read. */
static status_t meta_wrong(pages_t *pages, size_t number, const char *what) {
    return pages->wrong != NULL ? STATUS_CORRUPT : pages_wrong(pages, number, what);
}

static status_t metas_read(pages_t *pages) {
    status_t status = STATUS_OK;
    if (of_another_word(pages)) {
        return pages_wrong(pages, 0, "a machine with words of another size has written it");
    }
    pages->wrong = NULL;
    if (!meta_read(pages, 0, 0)) {
        status = pages_pass(pages, meta_wrong(pages, 0, "the first page is none of LMDB's"));
    }
    if (status != STATUS_OK) {
        return status;
    }
    pages->wrong = NULL; /* of the first page, which others may make up for */
    if (!meta_read(pages, 1, pages->size > 0 ? pages->size : (uint32_t)sysconf(_SC_PAGESIZE))) {
        status = meta_wrong(pages, 1, "the second page is none of LMDB's");
        pages->where = 1; /* where the first one is lost, so is the size of a page */
        status = pages->size > 0 ? pages_pass(pages, status) : status;
    }
    return status;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

static bool mark(uint8_t *bits, size_t page) {
    uint8_t bit = (uint8_t)(1u << (page % 8));
    bool before = (bits[page / 8] & bit) != 0;
    bits[page / 8] |= bit;
    return before;
}

/* Marks pages as reached: there are that many, and nobody else has them. */
static status_t pages_reach(pages_t *pages, size_t number, size_t count) {
    if (number < 2 || number > pages->meta.last || count == 0 || count > pages->meta.last - number + 1) {
        return pages_wrong(pages, number, "there is no such page");
    }
    if ((number + count) * (uint64_t)pages->size > pages->there) {
        pages->behind = true;
        return pages_wrong(pages, number, "the file ends before it");
    }
    for (size_t page = number; page < number + count; page++) {
        if (mark(pages->reached, page)) {
            return pages_wrong(pages, page, "it is used twice");
        }
    }
    if (pages->visit != NULL && pages->visit->done != NULL) {
        *pages->visit->done += (uint64_t)count * pages->size;
    }
    return STATUS_OK;
}

static status_t large_check(pages_t *pages, size_t number, uint32_t data_size) {
    uint8_t head[PAGE_HEAD];
    size_t count = page_overflow_pages(data_size, pages->size);
    status_t status = pages_reach(pages, number, count);
    if (status == STATUS_OK) {
        status = pages_read(pages, head, sizeof head, (uint64_t)number * pages->size);
    }
    const char *wrong = status == STATUS_OK ? page_overflow_judge(head, pages->size, number, data_size, true) : NULL;
    if (status != STATUS_OK || wrong != NULL) {
        return wrong != NULL ? pages_wrong(pages, number, wrong) : status;
    }
    size_t more = page_overflow_count(head) - count;
    return more > 0 ? pages_reach(pages, number + count, more) : STATUS_OK;
}

static status_t take_large(pages_t *pages, const uint8_t *node, size_t number) {
    uint32_t size = page_node_size(node);
    if (size > pages->large_size) {
        uint8_t *at = realloc(pages->large, size);
        if (at == NULL) {
            return STATUS_NO_MEMORY;
        }
        pages->large = at;
        pages->large_size = size;
    }
    return pages_read(pages, pages->large, size, (uint64_t)number * pages->size + PAGE_HEAD);
}

/* Checks that the pages in the free list are free, and in no tree. */
static status_t list_check(pages_t *pages, bytes_t value, size_t where) {
    const char *wrong = page_list_judge(value, pages->meta.last);
    for (size_t i = 1; wrong == NULL && i <= page_word(value.at); i++) {
        if (mark(pages->listed, page_word(value.at + i * PAGE_WORD))) {
            wrong = "a page is free twice";
        }
    }
    return wrong != NULL ? pages_wrong(pages, where, wrong) : STATUS_OK;
}

status_t pages_visit_database(pages_t *pages, bytes_t name, page_db_t db, unsigned base) {
    size_t size = name.size < PAGES_NAME_MAX ? name.size : PAGES_NAME_MAX - 1;
    memcpy(pages->name, name.at, size);
    pages->name[size] = 0;
    if (pages->visit != NULL && pages->visit->wanted != NULL
        && !pages->visit->wanted(pages->visit->context, pages->name)) {
        return STATUS_OK;
    }
    if (pages->roots) {
        return STATUS_OK;
    }
    if (pages->few && strncmp(pages->name, "meta", 4) != 0 && strncmp(pages->name, "record", 6) != 0
        && strcmp(pages->name, "names") != 0) {
        return STATUS_OK;
    }
    pages->visiting = pages->visit != NULL;
    status_t status = pages_tree(pages, (tree_t){.db = db, .base = base});
    pages->visiting = false;
    return status;
}

/* A database that is named in the main one. */
static status_t database_check(pages_t *pages, const uint8_t *node, size_t number, unsigned base) {
    if (page_node_flags(node) != PAGE_NODE_DB || page_node_size(node) != PAGE_DB_SIZE) {
        return pages_wrong(pages, number, "the list of databases is damaged");
    }
    return pages_visit_database(pages, page_node_key(node), page_db_read(page_node_data(node)), base + PAGE_DEPTH_MAX);
}

static status_t entry_check(pages_t *pages, const uint8_t *node, size_t number, tree_t tree) {
    unsigned flags = page_node_flags(node);
    bytes_t value = bytes_of(page_node_data(node), page_node_size(node));
    if (tree.of_names) {
        return database_check(pages, node, number, tree.base);
    }
    if ((flags & ~(unsigned)PAGE_NODE_BIG) != 0) {
        return pages_wrong(pages, number, "an entry has flags that it cannot have");
    }
    if ((flags & PAGE_NODE_BIG) != 0) {
        size_t first = page_word(value.at);
        status_t status = large_check(pages, first, value.size);
        if (status == STATUS_OK && (pages->visiting || tree.bounds.numbers)) {
            status = take_large(pages, node, first);
        }
        if (status != STATUS_OK) {
            return status;
        }
        value.at = pages->large;
    }
    if (tree.bounds.numbers) {
        status_t status = list_check(pages, value, number);
        pages->list_lost |= status != STATUS_OK;
        return status;
    }
    return pages->visiting ? pages->visit->entry(pages->visit->context, pages->name, page_node_key(node), value)
                           : STATUS_OK;
}

static status_t page_enter(pages_t *pages, uint8_t *page, size_t number, bool leaf, page_bounds_t bounds) {
    status_t status = pages_reach(pages, number, 1);
    status = status == STATUS_OK ? pages_read(pages, page, pages->size, (uint64_t)number * pages->size) : status;
    const char *wrong =
        status == STATUS_OK ? page_judge(page, pages->size, number, pages->meta.last, leaf, bounds) : NULL;
    return wrong != NULL ? pages_wrong(pages, number, wrong) : status;
}

/* A page that is not sound as a whole. Of a leaf whose head is, the entries that lie within it are taken all the same:
 * they have checksums. Of the others what hung from them. */
static status_t page_lost(pages_t *pages, const uint8_t *page, size_t number, tree_t tree, bool leaf) {
    pages->list_lost |= tree.bounds.numbers;
    status_t status = pages_pass(pages, STATUS_CORRUPT);
    if (status != STATUS_OK || pages->visit == NULL || tree.bounds.numbers) {
        return status;
    }
    if (!leaf || tree.of_names) {
        return orphans_visit(pages, tree);
    }
    bool headed = page_head_judge(page, pages->size, number, leaf) == NULL;
    for (uint32_t i = 0; headed && status == STATUS_OK && i < page_nodes(page); i++) {
        const uint8_t *node = page_node(page, pages->size, i, true);
        status = node != NULL ? pages_pass(pages, entry_check(pages, node, number, tree)) : STATUS_OK;
    }
    return status;
}

/* The bounds that the nodes beside it set for a child's keys. */
static page_bounds_t bounds_of_child(const pages_t *pages, const uint8_t *page, uint32_t index, page_bounds_t bounds) {
    if (index > 0) {
        bounds.low = page_node_key(page_node(page, pages->size, index, false));
    }
    if (index + 1 < page_nodes(page)) {
        bounds.high = page_node_key(page_node(page, pages->size, index + 1, false));
    }
    return bounds;
}

static status_t children_check(pages_t *pages, const uint8_t *page, tree_t tree) {
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < page_nodes(page); i++) {
        tree_t below = tree;
        below.level++;
        below.db = (page_db_t){.depth = (uint16_t)(tree.db.depth - 1),
                               .root = page_node_child(page_node(page, pages->size, i, false))};
        below.bounds = bounds_of_child(pages, page, i, tree.bounds);
        status = pages_tree(pages, below);
    }
    return status;
}

/* A page is read into its level's place. */
/* NOLINTNEXTLINE(misc-no-recursion): at most as deep as PAGE_DEPTH_MAX, twice */
status_t pages_tree(pages_t *pages, tree_t tree) {
    bool leaf = tree.db.depth == 1;
    if (tree.db.root == PAGE_NONE) {
        return STATUS_OK;
    }
    if (tree.db.depth == 0 || tree.level + tree.db.depth > PAGE_DEPTH_MAX) {
        (void)pages_wrong(pages, tree.db.root, "the depth of its tree cannot be");
        return page_lost(pages, NULL, tree.db.root, tree, false);
    }
    uint8_t *page = pages->levels + (size_t)(tree.base + tree.level) * pages->size;
    status_t status = page_enter(pages, page, tree.db.root, leaf, tree.bounds);
    if (status != STATUS_OK) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the page lies in pages->levels, which pages_close frees */
        return status == STATUS_CORRUPT ? page_lost(pages, page, tree.db.root, tree, leaf) : status;
    }
    if (!leaf) {
        return children_check(pages, page, tree);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < page_nodes(page); i++) {
        const uint8_t *node = page_node(page, pages->size, i, true);
        status = pages_pass(pages, entry_check(pages, node, tree.db.root, tree));
    }
    return status;
}

/* ---- all pages --------------------------------------------------------------------------------------------------- */

static bool pages_open(pages_t *pages, const char *path) {
    struct stat file;
    *pages = (pages_t){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (pages->fd < 0 || fstat(pages->fd, &file) != 0) {
        return false;
    }
    pages->there = (uint64_t)file.st_size;
    return true;
}

static void pages_close(pages_t *pages) {
    if (pages->fd >= 0) {
        close(pages->fd);
    }
    free(pages->reached);
    free(pages->listed);
    free(pages->kept);
    free(pages->levels);
    free(pages->large);
}

uint64_t pages_refused(const char *path, uint64_t max, uint8_t page[PAGES_SIZE_MAX]) {
    pages_t pages;
    uint64_t refused = 0;
    bool opened = pages_open(&pages, path);
    uint32_t size = opened && metas_read(&pages) == STATUS_OK ? pages.size : (uint32_t)sysconf(_SC_PAGESIZE);
    for (uint64_t at = 0; opened && at < pages.there && refused <= max; at += size) {
        refused += read_tried(pages.fd, page, size, at) < 0;
    }
    pages_close(&pages);
    return opened ? refused : max + 1;
}

bool pages_cut_short(const char *path) {
    pages_t pages;
    bool cut = pages_open(&pages, path) && metas_read(&pages) == STATUS_OK
               && pages.there < ((uint64_t)pages.meta.last + 1) * pages.size;
    if (cut) { /* pages at its end may have been freed before they were written */
        pages.lenient = true;
        cut = pages_trees(&pages) != STATUS_OK || pages.behind;
    }
    pages_close(&pages);
    return cut;
}

uint32_t pages_of_others(const char *path) {
    pages_t pages;
    bool foreign = pages_open(&pages, path) && of_another_word(&pages);
    pages_close(&pages);
    return !foreign ? 0 : PAGE_WORD == 8 ? 32 : 64;
}

static status_t disjoint_check(pages_t *pages) {
    for (size_t page = 2; page <= pages->meta.last; page += 8 - page % 8) {
        if ((pages->reached[page / 8] & pages->listed[page / 8]) != 0) {
            return pages_pass(pages, pages_wrong(pages, page, "a page that is used is on the list of free pages"));
        }
    }
    return STATUS_OK;
}

status_t pages_trees(pages_t *pages) {
    pages->reached = calloc(1, pages->meta.last / 8 + 1);
    pages->listed = calloc(1, pages->meta.last / 8 + 1);
    pages->levels = malloc((size_t)2 * PAGE_DEPTH_MAX * pages->size);
    if (pages->reached == NULL || pages->listed == NULL || pages->levels == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = STATUS_OK;
    if (!pages->roots) {
        status = pages_tree(pages, (tree_t){.db = pages->meta.free_list, .bounds = {.numbers = true}});
    }
    status = status == STATUS_OK ? pages_tree(pages, (tree_t){.db = pages->meta.main, .of_names = true}) : status;
    return status == STATUS_OK ? disjoint_check(pages) : status;
}

static void say_why(const pages_t *pages, status_t status, char *reason, size_t reason_size) {
    if (status == STATUS_CORRUPT) {
        snprintf(reason, reason_size, "page %zu: %s", pages->where, pages->wrong);
    } else if (status != STATUS_OK) {
        snprintf(reason, reason_size, "it cannot be opened: %s", strerror(errno));
    }
}

static status_t check_some(const char *path, bool few, bool roots, char *reason, size_t reason_size) {
    pages_t pages;
    bool there = pages_open(&pages, path);
    pages.lenient = roots; /* what LMDB makes of its first pages is its own to say */
    status_t status = there ? metas_read(&pages) : STATUS_IO;
    pages.lenient = false;
    pages.few = few;
    pages.roots = roots;
    if (status == STATUS_OK) {
        status = pages_trees(&pages);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}

status_t pages_check(const char *path, bool all, char *reason, size_t reason_size) {
    return check_some(path, !all, false, reason, reason_size);
}

status_t pages_roots(const char *path, char *reason, size_t reason_size) {
    return check_some(path, false, true, reason, reason_size);
}

status_t pages_each(const char *path, const pages_visit_t *visit, char *reason, size_t reason_size) {
    pages_t pages;
    status_t status = STATUS_IO;
    if (pages_open(&pages, path)) {
        pages.visit = visit;
        status = STATUS_OK;
        if (visit->commit == NULL) {
            status = metas_read(&pages);
        } else if (!meta_take(&pages, visit->commit->page, (size_t)(visit->commit->number % 2), 0)) {
            status = pages_wrong(&pages, 0, "it is none of LMDB's");
        }
    }
    if (status == STATUS_OK) {
        status = pages_trees(&pages);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}

/* LMDB takes the newer one of its first two pages. */
status_t pages_commit_read(const char *path, pages_commit_t *commit, char *reason, size_t reason_size) {
    const size_t number_at = PAGE_HEAD + PAGE_META_SIZE - PAGE_WORD;
    pages_t pages;
    bool there = pages_open(&pages, path);
    pages.lenient = true;
    status_t status = there ? metas_read(&pages) : STATUS_IO;
    commit->page_size = 0;
    if (status == STATUS_OK) {
        commit->number = pages.meta.commit;
        commit->last = pages.meta.last;
        commit->page_size = pages.size;
        status = pages_read(&pages, commit->page, pages.size, (uint64_t)(pages.meta.commit % 2) * pages.size);
    }
    if (status == STATUS_OK && page_word(commit->page + number_at) != pages.meta.commit) {
        status = pages_wrong(&pages, 0, "it changes while it is read"); /* the next commit but one was made */
    }
    if (status == STATUS_OK) {
        size_t other = 1 - (size_t)(pages.meta.commit % 2);
        size_t before = pages.meta.commit > 0 ? pages.meta.commit - 1 : 0;
        memcpy(commit->other, commit->page, pages.size);
        memcpy(commit->other, &other, PAGE_WORD);
        memcpy(commit->other + number_at, &before, PAGE_WORD);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}
