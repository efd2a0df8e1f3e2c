/* page.h: one page of LMDB's file, as bytes: is it sound, and what stands in it? LMDB believes every page that it
 * reads, so who reads a file without it, or lets LMDB read, asks here first. The format of LMDB 0.9: numbers in the
 * machine's own order, page numbers as wide as size_t.
 *
 *     page       number, pad 2, flags 2, lower 2, upper 2 (overflow: pages 4), then 2 bytes for each node: where it
 *                lies in the page. Nodes fill all that lies behind upper.
 *     node       low 2, high 2, flags 2, key size 2, key, data. In a branch low, high and flags are the child's number;
 *                in a leaf low and high are the data's size, and the flags say whether the data is a number of overflow
 *                pages, or a database
 *     database   pad 4, flags 2, depth 2, branch pages, leaf pages, overflow pages, entries, root
 *     meta       (pages 0 and 1) magic 4, version 4, address, map size, the free list's database (its pad is the page
 *                size), the main one, last page, commit
 *
 * Pure functions on bytes; knows no file and no LMDB.
 */
#ifndef LEAFD_DISK_PAGE_H
#define LEAFD_DISK_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/bytes.h"

#define PAGE_MAGIC UINT32_C(0xbeefc0de)
#define PAGE_VERSION 1u
#define PAGE_WORD sizeof(size_t)
#define PAGE_HEAD (PAGE_WORD + 8)
#define PAGE_NODE_HEAD 8u
#define PAGE_DB_SIZE (8 + 5 * PAGE_WORD)
#define PAGE_META_SIZE (8 + 2 * PAGE_WORD + 2 * PAGE_DB_SIZE + 2 * PAGE_WORD)
#define PAGE_SIZE_MAX 65536u
#define PAGE_DEPTH_MAX 32
#define PAGE_NONE SIZE_MAX

enum { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum { PAGE_NODE_BIG = 0x01, PAGE_NODE_DB = 0x02 };

typedef struct page_db {
    uint16_t depth;
    size_t root; /* PAGE_NONE: there is no entry */
} page_db_t;

typedef struct page_meta {
    uint32_t page_size;
    page_db_t free_list;
    page_db_t main;
    size_t last; /* page that was ever used */
    size_t commit;
} page_meta_t;

/* The bounds that the pages above set for the keys of a page: at or behind low, and before high. Empty: no bound. */
typedef struct page_bounds {
    bytes_t low;
    bytes_t high;
    bool numbers; /* keys are words of the machine: the free list */
} page_bounds_t;

static inline uint16_t page_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline size_t page_word(const uint8_t *at) {
    size_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline unsigned page_kind(const uint8_t *page) {
    return page_u16(page + PAGE_WORD + 2);
}

static inline uint32_t page_nodes(const uint8_t *page) {
    return (uint32_t)(page_u16(page + PAGE_WORD + 4) - PAGE_HEAD) / 2;
}

static inline uint32_t page_overflow_count(const uint8_t *page) {
    return load_u32(page + PAGE_WORD + 4);
}

static inline bytes_t page_node_key(const uint8_t *node) {
    return bytes_of(node + PAGE_NODE_HEAD, page_u16(node + 6));
}

static inline unsigned page_node_flags(const uint8_t *node) {
    return page_u16(node + 4);
}

/* The size of the value of a leaf's node, wherever the value lies. */
static inline uint32_t page_node_size(const uint8_t *node) {
    return page_u16(node) | (uint32_t)page_u16(node + 2) << 16;
}

static inline const uint8_t *page_node_data(const uint8_t *node) {
    return node + PAGE_NODE_HEAD + page_u16(node + 6);
}

/* The child of a branch's node. */
size_t page_node_child(const uint8_t *node);
page_db_t page_db_read(const uint8_t *at);

/* How many pages a value of that size takes, when it does not lie in a leaf. */
static inline size_t page_overflow_pages(uint32_t size, uint32_t page_size) {
    return (PAGE_HEAD + (size_t)size - 1) / page_size + 1;
}

/* false: it is of another kind, or its numbers cannot be. number: 0 or 1. */
bool page_meta_read(const uint8_t *page, size_t number, page_meta_t *meta);
/* The head alone; NULL: it is sound, else what is wrong. */
const char *page_head_judge(const uint8_t *page, uint32_t size, size_t number, bool leaf);
/* The head, where its nodes lie and that they fill it, the order of its keys; in a branch, that its children can be. */
const char *page_judge(const uint8_t *page, uint32_t size, size_t number, size_t last, bool leaf, page_bounds_t bounds);
/* The node, or NULL when it does not lie within its page. The head is sound, and index below page_nodes. */
const uint8_t *page_node(const uint8_t *page, uint32_t size, uint32_t index, bool leaf);
/* The key of a node alone, for a search: no address when it does not lie within the page. */
static inline bytes_t page_key(const uint8_t *page, uint32_t size, uint32_t index) {
    uint32_t at = page_u16(page + PAGE_HEAD + (size_t)2 * index);
    if (at < page_u16(page + PAGE_WORD + 6) || at + PAGE_NODE_HEAD > size || at % 2 != 0) {
        return BYTES_NONE;
    }
    bytes_t key = page_node_key(page + at);
    return at + PAGE_NODE_HEAD + key.size <= size ? key : BYTES_NONE;
}
/* Makes a leaf anew of what a damaged one still has: its entries are those with the keys `prefix` and a number of 8
 * bytes, from `from` on and before `below`, each once at most, that `keeps` wants. A value of four bytes, which proves
 * nothing, is in the place of each other one (`each`), or of `from` where the leaf had none at all: LMDB knows no leaf
 * without an entry. */
#define PAGE_REFILL_PREFIX 4u
#define PAGE_REFILL_MAX 1024u
typedef struct page_refill {
    uint8_t prefix[PAGE_REFILL_PREFIX];
    uint64_t from;
    uint64_t below;
    bool each; /* all of these numbers had an entry */
    bool (*keeps)(void *context, const uint8_t *node);
    void *context;
    uint32_t kept; /* so many were there still */
} page_refill_t;
/* false: they do not fit. made: zeros. */
bool page_refill(uint8_t *made, const uint8_t *damaged, uint32_t size, size_t number, page_refill_t *refill);
/* Makes a page of these entries, in their order: of a branch's the values are not looked at, and child is the page. */
typedef struct page_entry {
    bytes_t key;
    bytes_t value;
    size_t child;
} page_entry_t;
/* false: they do not fit. made: zeros. */
bool page_make(uint8_t *made, uint32_t size, size_t number, bool leaf, const page_entry_t *entries, uint32_t count);
/* The first page of a large value. LMDB believes it when it frees the value: with one page too many it would free what
 * others use. spare: it may have more pages than it needs, as on the list of free pages; others have not (env_large.h).
 */
const char *page_overflow_judge(const uint8_t *page, uint32_t size, size_t number, uint32_t value_size, bool spare);
/* Makes the head of such a page anew; what stands behind it stays. */
void page_overflow_make(uint8_t *page, uint32_t size, size_t number, uint32_t value_size);
/* One value of the free list: how many numbers, then the numbers, from the highest to the lowest. */
const char *page_list_judge(bytes_t value, size_t last);

#endif
