/* pages.c: see pages.h. The format of LMDB 0.9: numbers in the machine's own order, page numbers as wide as size_t.
 *
 *     page       number, pad 2, flags 2, lower 2, upper 2 (overflow: pages 4), then 2 bytes for each node: where it
 *                lies in the page
 *     node       low 2, high 2, flags 2, key size 2, key, data. In a branch low, high and flags are the child's number;
 *                in a leaf low and high are the data's size, and the flags say whether the data is a number of overflow
 *                pages, or a database
 *     database   pad 4, flags 2, depth 2, branch pages, leaf pages, overflow pages, entries, root
 *     meta       (pages 0 and 1) magic 4, version 4, address, map size, the free list's database (its pad is the page
 *                size), the main one, last page, commit
 *
 * Every page is reached once; free pages are not reached at all. What the entries say is not looked at: they have
 * checksums.
 */
#include "recovery/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

#define MAGIC UINT32_C(0xbeefc0de)
#define WORD sizeof(size_t)
#define HEAD (WORD + 8)
#define OTHER_HEAD (WORD == 8 ? 12u : 16u) /* where a word has 32 bits, or 64 */
#define NODE_HEAD 8u
#define DB_SIZE (8 + 5 * WORD)
#define META_SIZE (8 + 2 * WORD + 2 * DB_SIZE + 2 * WORD)
#define NO_PAGE SIZE_MAX
#define PAGE_MAX 65536u
#define DEPTH_MAX 32
#define META_BEGIN_MAX (HEAD + META_SIZE)
#define NAME_MAX_SIZE 64 /* of a database */

enum {
    BRANCH = 0x01,
    LEAF = 0x02,
    OVERFLOWS = 0x04,
    META = 0x08,
    PASSING = 0xc010 /* of a transaction */,
    BIG = 0x01,
    SUB = 0x02
};

typedef struct db {
    uint16_t depth;
    size_t root;
} db_t;

typedef struct pages {
    int fd;
    uint32_t size; /* of a page */
    size_t last;
    size_t commit;
    db_t free_list;
    db_t main;
    uint64_t there;   /* bytes of the file */
    uint8_t *reached; /* a bit for each page */
    uint8_t *levels;  /* a page for each level: of the free list, of main, of a database within main */
    const char *wrong;
    size_t where;
    const pages_visit_t *visit; /* NULL: the first damage ends the walk .. */
    bool lenient;               /* .. but that of one of the first two pages */
    bool visiting;              /* in a database that is wanted */
    char name[NAME_MAX_SIZE];
    uint8_t *large; /* the last large value */
    size_t large_size;
} pages_t;

static uint16_t load_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static size_t load_word(const uint8_t *at) {
    size_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static unsigned page_kind(const uint8_t *page) {
    return load_u16(page + WORD + 2) & ~(unsigned)PASSING;
}

static status_t pages_wrong(pages_t *pages, size_t page, const char *what) {
    pages->wrong = what;
    pages->where = page;
    return STATUS_CORRUPT;
}

/* Damage that somebody hears of is gone around. */
static status_t pages_pass(pages_t *pages, status_t status) {
    if (status != STATUS_CORRUPT || (pages->visit == NULL && !pages->lenient)) {
        return status;
    }
    if (pages->visit != NULL) {
        pages->visit->damaged(pages->visit->context, pages->where, pages->wrong);
    }
    return STATUS_OK;
}

static db_t db_read(const uint8_t *at) {
    return (db_t){.depth = load_u16(at + 6), .root = load_word(at + 8 + 4 * WORD)};
}

static status_t read_at(pages_t *pages, uint8_t *to, size_t size, uint64_t offset) {
    while (size > 0) {
        ssize_t done = pread(pages->fd, to, size, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return pages_wrong(pages, pages->size > 0 ? (size_t)(offset / pages->size) : 0,
                               done < 0 ? "it cannot be read" : "the file ends before it");
        }
        to += done;
        size -= (size_t)done;
        offset += (uint64_t)done;
    }
    return STATUS_OK;
}

/* ---- the two metas ----------------------------------------------------------------------------------------------- */

static bool meta_take(pages_t *pages, const uint8_t *page, size_t number, uint32_t page_size) {
    const uint8_t *meta = page + HEAD;
    const uint8_t *tail = meta + 8 + 2 * WORD + 2 * DB_SIZE;
    if ((page_kind(page) & META) == 0 || load_u32(meta) != MAGIC) {
        return false;
    }
    uint32_t size = load_u32(meta + 8 + 2 * WORD);
    if (size < 512 || size > PAGE_MAX || (size & (size - 1)) != 0 || (number > 0 && size != page_size)) {
        return false;
    }
    if (pages->size == 0 || load_word(tail + WORD) > pages->commit) {
        pages->free_list = db_read(meta + 8 + 2 * WORD);
        pages->main = db_read(meta + 8 + 2 * WORD + DB_SIZE);
        pages->last = load_word(tail);
        pages->commit = load_word(tail + WORD);
    }
    pages->size = size;
    return true;
}

static bool meta_read(pages_t *pages, size_t number, uint32_t page_size) {
    uint8_t page[META_BEGIN_MAX];
    return read_at(pages, page, sizeof page, (uint64_t)number * page_size) == STATUS_OK
           && meta_take(pages, page, number, page_size);
}

/* Sizes, offsets and page numbers are words in LMDB: 32 bits on armhf, 64 elsewhere. */
static bool of_another_word(pages_t *pages) {
    uint8_t head[HEAD + OTHER_HEAD + 4];
    return read_at(pages, head, sizeof head, 0) == STATUS_OK && load_u32(head + HEAD) != MAGIC
           && load_u32(head + OTHER_HEAD) == MAGIC;
}

static status_t metas_read(pages_t *pages) {
    status_t status = STATUS_OK;
    if (of_another_word(pages)) {
        return pages_wrong(pages, 0, "a machine with words of another size has written it");
    }
    if (!meta_read(pages, 0, 0)) {
        status = pages_pass(pages, pages_wrong(pages, 0, "the first page is none of LMDB's"));
    }
    if (status == STATUS_OK && !meta_read(pages, 1, pages->size > 0 ? pages->size : (uint32_t)sysconf(_SC_PAGESIZE))) {
        status = pages_wrong(pages, 1, "the second page is none of LMDB's");
        status = pages->size > 0 ? pages_pass(pages, status) : status;
    }
    if (status != STATUS_OK) {
        return status;
    }
    return pages->last < UINT32_MAX ? STATUS_OK : pages_wrong(pages, 0, "the number of the last page cannot be");
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

/* Marks pages as reached: there are that many, and nobody else has them. */
static status_t pages_reach(pages_t *pages, size_t number, size_t count) {
    if (number < 2 || number > pages->last || count == 0 || count > pages->last - number + 1) {
        return pages_wrong(pages, number, "there is no such page");
    }
    if ((number + count) * (uint64_t)pages->size > pages->there) {
        return pages_wrong(pages, number, "the file ends before it");
    }
    for (size_t page = number; page < number + count; page++) {
        uint8_t bit = (uint8_t)(1u << (page % 8));
        if ((pages->reached[page / 8] & bit) != 0) {
            return pages_wrong(pages, page, "it is used twice");
        }
        pages->reached[page / 8] |= bit;
    }
    if (pages->visit != NULL && pages->visit->done != NULL) {
        *pages->visit->done += (uint64_t)count * pages->size;
    }
    return STATUS_OK;
}

static status_t big_check(pages_t *pages, size_t number, uint32_t data_size) {
    uint8_t head[HEAD];
    size_t count = (HEAD + (size_t)data_size - 1) / pages->size + 1;
    status_t status = pages_reach(pages, number, count);
    if (status == STATUS_OK) {
        status = read_at(pages, head, sizeof head, (uint64_t)number * pages->size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool sound = load_word(head) == number && page_kind(head) == OVERFLOWS && load_u32(head + WORD + 4) >= count;
    status = load_u32(head + WORD + 4) > count ? pages_reach(pages, number + count, load_u32(head + WORD + 4) - count)
                                               : STATUS_OK;
    return sound ? status : pages_wrong(pages, number, "it is no page of a large value");
}

static uint32_t node_count(const uint8_t *page) {
    return (uint32_t)(load_u16(page + WORD + 4) - HEAD) / 2;
}

static status_t header_check(pages_t *pages, const uint8_t *page, size_t number, bool leaf) {
    uint16_t lower = load_u16(page + WORD + 4);
    uint16_t upper = load_u16(page + WORD + 6);
    bool sound = load_word(page) == number && page_kind(page) == (leaf ? LEAF : BRANCH) && lower >= HEAD
                 && lower <= upper && upper <= pages->size && lower % 2 == 0 && (leaf || node_count(page) > 0);
    return sound ? STATUS_OK : pages_wrong(pages, number, "its head is damaged");
}

/* The node, or NULL when it does not lie within its page. */
static const uint8_t *node_at(const pages_t *pages, const uint8_t *page, uint32_t index, bool leaf) {
    uint32_t at = load_u16(page + HEAD + 2 * index);
    if (at < load_u16(page + WORD + 6) || at + NODE_HEAD > pages->size || at % 2 != 0) {
        return NULL;
    }
    const uint8_t *node = page + at;
    uint64_t end = at + NODE_HEAD + (uint64_t)load_u16(node + 6);
    if (leaf) {
        bool big = (load_u16(node + 4) & BIG) != 0;
        end += big ? WORD : load_u16(node) | (uint64_t)load_u16(node + 2) << 16;
    }
    return end <= pages->size ? node : NULL;
}

static size_t child_of(const uint8_t *node) {
    uint64_t number =
        load_u16(node) | (uint64_t)load_u16(node + 2) << 16 | (WORD > 4 ? (uint64_t)load_u16(node + 4) << 32 : 0);
    return (size_t)number;
}

static status_t tree_check(pages_t *pages, db_t db, unsigned base, bool named);

static bytes_t node_key(const uint8_t *node) {
    return bytes_of(node + NODE_HEAD, load_u16(node + 6));
}

static uint32_t node_size(const uint8_t *node) {
    return load_u16(node) | (uint32_t)load_u16(node + 2) << 16;
}

static status_t visit_large(pages_t *pages, const uint8_t *node, size_t number) {
    uint32_t size = node_size(node);
    if (size > pages->large_size) {
        uint8_t *at = realloc(pages->large, size);
        if (at == NULL) {
            return STATUS_NO_MEMORY;
        }
        pages->large = at;
        pages->large_size = size;
    }
    status_t status = read_at(pages, pages->large, size, (uint64_t)number * pages->size + HEAD);
    return status == STATUS_OK
               ? pages->visit->entry(pages->visit->context, pages->name, node_key(node), bytes_of(pages->large, size))
               : status;
}

/* A database that is named in the main one. */
static status_t database_check(pages_t *pages, const uint8_t *node, size_t number, unsigned base) {
    bytes_t name = node_key(node);
    if (load_u16(node + 4) != SUB || node_size(node) != DB_SIZE) {
        return pages_wrong(pages, number, "the list of databases is damaged");
    }
    if (pages->visit != NULL) {
        size_t size = name.size < NAME_MAX_SIZE ? name.size : NAME_MAX_SIZE - 1;
        memcpy(pages->name, name.at, size);
        pages->name[size] = 0;
        if (pages->visit->wanted != NULL && !pages->visit->wanted(pages->visit->context, pages->name)) {
            return STATUS_OK;
        }
    }
    pages->visiting = pages->visit != NULL;
    status_t status = tree_check(pages, db_read(node + NODE_HEAD + name.size), base + DEPTH_MAX, false);
    pages->visiting = false;
    return status;
}

static status_t leaf_check(pages_t *pages, const uint8_t *node, size_t number, unsigned base, bool named) {
    const uint8_t *data = node + NODE_HEAD + load_u16(node + 6);
    uint16_t flags = load_u16(node + 4);
    if ((flags & BIG) != 0) {
        status_t status = big_check(pages, load_word(data), node_size(node));
        return status == STATUS_OK && pages->visiting ? visit_large(pages, node, load_word(data)) : status;
    }
    if (named) {
        return database_check(pages, node, number, base);
    }
    if (flags != 0) {
        return pages_wrong(pages, number, "an entry has flags that it cannot have");
    }
    return pages->visiting ? pages->visit->entry(pages->visit->context, pages->name, node_key(node),
                                                 bytes_of(data, node_size(node)))
                           : STATUS_OK;
}

static status_t page_enter(pages_t *pages, uint8_t *page, size_t number, bool leaf) {
    status_t status = pages_reach(pages, number, 1);
    status = status == STATUS_OK ? read_at(pages, page, pages->size, (uint64_t)number * pages->size) : status;
    return status == STATUS_OK ? header_check(pages, page, number, leaf) : status;
}

/* A page is read into its level's place; `at` are the nodes that are next. */
static status_t tree_check(pages_t *pages, db_t db, unsigned base, bool named) {
    uint32_t next[DEPTH_MAX] = {0};
    size_t number[DEPTH_MAX] = {db.root};
    if (db.root == NO_PAGE) {
        return STATUS_OK;
    }
    if (db.depth == 0 || db.depth > DEPTH_MAX) {
        return pages_pass(pages, pages_wrong(pages, db.root, "the depth of its tree cannot be"));
    }
    for (unsigned level = 0;;) {
        uint8_t *page = pages->levels + (size_t)(base + level) * pages->size;
        bool leaf = level + 1u == db.depth;
        bool lost = false;
        if (next[level] == 0) {
            status_t status = page_enter(pages, page, number[level], leaf);
            lost = status == STATUS_CORRUPT;
            status = pages_pass(pages, status);
            if (status != STATUS_OK) {
                return status;
            }
        }
        if (lost || next[level] == node_count(page)) {
            if (level == 0) {
                return STATUS_OK;
            }
            level--;
            continue;
        }
        const uint8_t *node = node_at(pages, page, next[level]++, leaf);
        status_t status = STATUS_OK;
        if (node == NULL) {
            status = pages_wrong(pages, number[level], "an entry does not lie within it");
        } else if (leaf) {
            status = leaf_check(pages, node, number[level], base, named);
        } else {
            level++;
            next[level] = 0;
            number[level] = child_of(node);
        }
        status = pages_pass(pages, status);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

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
    free(pages->levels);
    free(pages->large);
}

bool pages_cut_short(const char *path) {
    pages_t pages;
    bool cut = pages_open(&pages, path) && metas_read(&pages) == STATUS_OK
               && pages.there < ((uint64_t)pages.last + 1) * pages.size;
    pages_close(&pages);
    return cut;
}

uint32_t pages_of_others(const char *path) {
    pages_t pages;
    bool foreign = pages_open(&pages, path) && of_another_word(&pages);
    pages_close(&pages);
    return !foreign ? 0 : WORD == 8 ? 32 : 64;
}

static status_t trees_check(pages_t *pages) {
    pages->reached = calloc(1, pages->last / 8 + 1);
    pages->levels = malloc((size_t)2 * DEPTH_MAX * pages->size);
    if (pages->reached == NULL || pages->levels == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = tree_check(pages, pages->free_list, 0, false);
    return status == STATUS_OK ? tree_check(pages, pages->main, 0, true) : status;
}

static void say_why(const pages_t *pages, status_t status, char *reason, size_t reason_size) {
    if (status == STATUS_CORRUPT) {
        snprintf(reason, reason_size, "page %zu: %s", pages->where, pages->wrong);
    } else if (status != STATUS_OK) {
        snprintf(reason, reason_size, "it cannot be opened: %s", strerror(errno));
    }
}

status_t pages_check(const char *path, char *reason, size_t reason_size) {
    pages_t pages;
    status_t status = pages_open(&pages, path) ? metas_read(&pages) : STATUS_IO;
    if (status == STATUS_OK) {
        status = trees_check(&pages);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}

status_t pages_each(const char *path, const pages_visit_t *visit, char *reason, size_t reason_size) {
    pages_t pages;
    status_t status = STATUS_IO;
    if (pages_open(&pages, path)) {
        pages.visit = visit;
        status = STATUS_OK;
        if (visit->commit == NULL) {
            status = metas_read(&pages);
        } else if (!meta_take(&pages, visit->commit->page, 0, 0)) {
            status = pages_wrong(&pages, 0, "it is none of LMDB's");
        }
    }
    if (status == STATUS_OK) {
        status = trees_check(&pages);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}

/* LMDB takes the newer one of its first two pages. */
status_t pages_commit_read(const char *path, pages_commit_t *commit, char *reason, size_t reason_size) {
    const size_t number_at = HEAD + 8 + 2 * WORD + 2 * DB_SIZE + WORD;
    pages_t pages;
    bool there = pages_open(&pages, path);
    pages.lenient = true;
    status_t status = there ? metas_read(&pages) : STATUS_IO;
    commit->page_size = 0;
    if (status == STATUS_OK) {
        commit->number = pages.commit;
        commit->last = pages.last;
        commit->page_size = pages.size;
        status = read_at(&pages, commit->page, pages.size, (uint64_t)(pages.commit % 2) * pages.size);
    }
    if (status == STATUS_OK && load_word(commit->page + number_at) != pages.commit) {
        status = pages_wrong(&pages, 0, "it changes while it is read"); /* the next commit but one was made */
    }
    if (status == STATUS_OK) {
        size_t other = 1 - (size_t)(pages.commit % 2);
        size_t before = pages.commit > 0 ? pages.commit - 1 : 0;
        memcpy(commit->other, commit->page, pages.size);
        memcpy(commit->other, &other, WORD);
        memcpy(commit->other + number_at, &before, WORD);
    }
    say_why(&pages, status, reason, reason_size);
    pages_close(&pages);
    return status;
}
