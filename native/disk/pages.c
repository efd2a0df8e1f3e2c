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
#include "disk/pages.h"

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
#define NODE_HEAD 8u
#define DB_SIZE (8 + 5 * WORD)
#define META_SIZE (8 + 2 * WORD + 2 * DB_SIZE + 2 * WORD)
#define NO_PAGE SIZE_MAX
#define PAGE_MAX 65536u
#define DEPTH_MAX 32
#define META_BEGIN_MAX (HEAD + META_SIZE)

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
} pages_t;

static uint16_t page_load16(const uint8_t *at) {
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
    return page_load16(page + WORD + 2) & ~(unsigned)PASSING;
}

static status_t pages_wrong(pages_t *pages, size_t page, const char *what) {
    pages->wrong = what;
    pages->where = page;
    return STATUS_CORRUPT;
}

static db_t db_read(const uint8_t *at) {
    return (db_t){.depth = page_load16(at + 6), .root = load_word(at + 8 + 4 * WORD)};
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

static bool meta_read(pages_t *pages, size_t number, uint32_t page_size) {
    uint8_t page[META_BEGIN_MAX];
    const uint8_t *meta = page + HEAD;
    const uint8_t *tail = meta + 8 + 2 * WORD + 2 * DB_SIZE;
    uint64_t offset = (uint64_t)number * page_size;
    if (read_at(pages, page, sizeof page, offset) != STATUS_OK || (page_kind(page) & META) == 0
        || load_u32(meta) != MAGIC) {
        return false;
    }
    uint32_t size = load_u32(meta + 8 + 2 * WORD);
    if (size < 512 || size > PAGE_MAX || (size & (size - 1)) != 0 || (number > 0 && size != page_size)) {
        return false;
    }
    if (number == 0 || load_word(tail + WORD) > pages->commit) {
        pages->free_list = db_read(meta + 8 + 2 * WORD);
        pages->main = db_read(meta + 8 + 2 * WORD + DB_SIZE);
        pages->last = load_word(tail);
        pages->commit = load_word(tail + WORD);
    }
    pages->size = size;
    return true;
}

static status_t metas_read(pages_t *pages) {
    if (!meta_read(pages, 0, 0)) {
        return pages_wrong(pages, 0, "the first page is none of LMDB's");
    }
    if (!meta_read(pages, 1, pages->size)) {
        return pages_wrong(pages, 1, "the second page is none of LMDB's");
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
    return (uint32_t)(page_load16(page + WORD + 4) - HEAD) / 2;
}

static status_t header_check(pages_t *pages, const uint8_t *page, size_t number, bool leaf) {
    uint16_t lower = page_load16(page + WORD + 4);
    uint16_t upper = page_load16(page + WORD + 6);
    bool sound = load_word(page) == number && page_kind(page) == (leaf ? LEAF : BRANCH) && lower >= HEAD
                 && lower <= upper && upper <= pages->size && lower % 2 == 0 && (leaf || node_count(page) > 0);
    return sound ? STATUS_OK : pages_wrong(pages, number, "its head is damaged");
}

/* The node, or NULL when it does not lie within its page. */
static const uint8_t *node_at(const pages_t *pages, const uint8_t *page, uint32_t index, bool leaf) {
    uint32_t at = page_load16(page + HEAD + 2 * index);
    if (at < page_load16(page + WORD + 6) || at + NODE_HEAD > pages->size || at % 2 != 0) {
        return NULL;
    }
    const uint8_t *node = page + at;
    uint64_t end = at + NODE_HEAD + (uint64_t)page_load16(node + 6);
    if (leaf) {
        bool big = (page_load16(node + 4) & BIG) != 0;
        end += big ? WORD : page_load16(node) | (uint64_t)page_load16(node + 2) << 16;
    }
    return end <= pages->size ? node : NULL;
}

static size_t child_of(const uint8_t *node) {
    uint64_t number = page_load16(node) | (uint64_t)page_load16(node + 2) << 16
                      | (WORD > 4 ? (uint64_t)page_load16(node + 4) << 32 : 0);
    return (size_t)number;
}

static status_t tree_check(pages_t *pages, db_t db, unsigned base, bool named);

static status_t leaf_check(pages_t *pages, const uint8_t *node, size_t number, unsigned base, bool named) {
    const uint8_t *data = node + NODE_HEAD + page_load16(node + 6);
    uint32_t size = page_load16(node) | (uint32_t)page_load16(node + 2) << 16;
    uint16_t flags = page_load16(node + 4);
    if ((flags & BIG) != 0) {
        return big_check(pages, load_word(data), size);
    }
    if (!named) {
        return flags == 0 ? STATUS_OK : pages_wrong(pages, number, "an entry has flags that it cannot have");
    }
    return flags == SUB && size == DB_SIZE ? tree_check(pages, db_read(data), base + DEPTH_MAX, false)
                                           : pages_wrong(pages, number, "the list of databases is damaged");
}

/* A page is read into its level's place; `at` are the nodes that are next. */
static status_t tree_check(pages_t *pages, db_t db, unsigned base, bool named) {
    uint32_t next[DEPTH_MAX] = {0};
    size_t number[DEPTH_MAX] = {db.root};
    if (db.root == NO_PAGE) {
        return STATUS_OK;
    }
    if (db.depth == 0 || db.depth > DEPTH_MAX) {
        return pages_wrong(pages, db.root, "the depth of its tree cannot be");
    }
    for (unsigned level = 0;;) {
        uint8_t *page = pages->levels + (size_t)(base + level) * pages->size;
        bool leaf = level + 1u == db.depth;
        status_t status = STATUS_OK;
        if (next[level] == 0) {
            status = pages_reach(pages, number[level], 1);
            status =
                status == STATUS_OK ? read_at(pages, page, pages->size, (uint64_t)number[level] * pages->size) : status;
            status = status == STATUS_OK ? header_check(pages, page, number[level], leaf) : status;
        }
        if (status != STATUS_OK) {
            return status;
        }
        if (next[level] == node_count(page)) {
            if (level == 0) {
                return STATUS_OK;
            }
            level--;
            continue;
        }
        const uint8_t *node = node_at(pages, page, next[level]++, leaf);
        if (node == NULL) {
            return pages_wrong(pages, number[level], "an entry does not lie within it");
        }
        if (leaf) {
            status = leaf_check(pages, node, number[level], base, named);
        } else {
            level++;
            next[level] = 0;
            number[level] = child_of(node);
        }
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
}

bool pages_cut_short(const char *path) {
    pages_t pages;
    bool cut = pages_open(&pages, path) && metas_read(&pages) == STATUS_OK
               && pages.there < ((uint64_t)pages.last + 1) * pages.size;
    pages_close(&pages);
    return cut;
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

status_t pages_check(const char *path, char *reason, size_t reason_size) {
    pages_t pages;
    status_t status = pages_open(&pages, path) ? metas_read(&pages) : STATUS_IO;
    if (status == STATUS_OK) {
        status = trees_check(&pages);
    }
    if (status == STATUS_CORRUPT) {
        snprintf(reason, reason_size, "page %zu: %s", pages.where, pages.wrong);
    } else if (status != STATUS_OK) {
        snprintf(reason, reason_size, "it cannot be opened: %s", strerror(errno));
    }
    pages_close(&pages);
    return status;
}
