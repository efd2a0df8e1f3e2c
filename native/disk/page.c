/* page.c: see page.h. */
#include "disk/page.h"

size_t page_node_child(const uint8_t *node) {
    uint64_t number =
        page_u16(node) | (uint64_t)page_u16(node + 2) << 16 | (PAGE_WORD > 4 ? (uint64_t)page_u16(node + 4) << 32 : 0);
    return (size_t)number;
}

page_db_t page_db_read(const uint8_t *at) {
    return (page_db_t){.depth = page_u16(at + 6), .root = page_word(at + 8 + 4 * PAGE_WORD)};
}

static bool db_can_be(page_db_t db, size_t last) {
    return db.root == PAGE_NONE || (db.root >= 2 && db.root <= last && db.depth > 0 && db.depth <= PAGE_DEPTH_MAX);
}

bool page_meta_read(const uint8_t *page, size_t number, page_meta_t *meta) {
    const uint8_t *at = page + PAGE_HEAD;
    const uint8_t *dbs = at + 8 + 2 * PAGE_WORD;
    const uint8_t *tail = dbs + 2 * PAGE_DB_SIZE;
    *meta = (page_meta_t){.page_size = load_u32(dbs),
                          .free_list = page_db_read(dbs),
                          .main = page_db_read(dbs + PAGE_DB_SIZE),
                          .last = page_word(tail),
                          .commit = page_word(tail + PAGE_WORD)};
    uint32_t size = meta->page_size;
    bool shaped = (page_kind(page) & PAGE_META) != 0 && load_u32(at) == PAGE_MAGIC && load_u32(at + 4) == PAGE_VERSION
                  && size >= 512 && size <= PAGE_SIZE_MAX && (size & (size - 1)) == 0;
    /* A file begins with two of commit 0; from then on commits take turns. */
    bool turn = meta->commit == 0 || meta->commit % 2 == number;
    return shaped && turn && meta->last >= 1 && meta->last < UINT32_MAX && db_can_be(meta->free_list, meta->last)
           && db_can_be(meta->main, meta->last);
}

const char *page_head_judge(const uint8_t *page, uint32_t size, size_t number, bool leaf) {
    uint16_t lower = page_u16(page + PAGE_WORD + 4);
    uint16_t upper = page_u16(page + PAGE_WORD + 6);
    bool sound = page_word(page) == number && page_kind(page) == (leaf ? PAGE_LEAF : PAGE_BRANCH) && lower > PAGE_HEAD
                 && lower <= upper && upper < size && lower % 2 == 0;
    return sound ? NULL : "its head is damaged";
}

static uint64_t node_end(const uint8_t *node, uint32_t at, bool leaf) {
    uint64_t end = at + PAGE_NODE_HEAD + (uint64_t)page_u16(node + 6);
    if (leaf) {
        end += (page_node_flags(node) & PAGE_NODE_BIG) != 0 ? PAGE_WORD : page_node_size(node);
    }
    return end;
}

const uint8_t *page_node(const uint8_t *page, uint32_t size, uint32_t index, bool leaf) {
    uint32_t at = page_u16(page + PAGE_HEAD + (size_t)2 * index);
    if (at < page_u16(page + PAGE_WORD + 6) || at + PAGE_NODE_HEAD > size || at % 2 != 0) {
        return NULL;
    }
    return node_end(page + at, at, leaf) <= size ? page + at : NULL;
}

static int keys_compare(bytes_t a, bytes_t b, bool numbers) {
    if (!numbers) {
        return bytes_compare(a, b);
    }
    if (a.size != PAGE_WORD || b.size != PAGE_WORD) {
        return 1; /* no such key can be */
    }
    size_t left = page_word(a.at), right = page_word(b.at);
    return (left > right) - (left < right);
}

const char *page_judge(const uint8_t *page, uint32_t size, size_t number, size_t last, bool leaf,
                       page_bounds_t bounds) {
    const char *wrong = page_head_judge(page, size, number, leaf);
    if (wrong != NULL) {
        return wrong;
    }
    uint64_t filled = 0;
    bytes_t before = bounds.low;
    bool strict = false; /* the first key may be its bound */
    for (uint32_t i = 0; i < page_nodes(page); i++) {
        const uint8_t *node = page_node(page, size, i, leaf);
        if (node == NULL) {
            return "an entry does not lie within it";
        }
        uint32_t at = (uint32_t)(node - page);
        filled += (node_end(node, at, leaf) - at + 1) & ~UINT64_C(1);
        if (!leaf && (page_node_child(node) < 2 || page_node_child(node) > last)) {
            return "it leads to a page that cannot be";
        }
        if (!leaf && i == 0) {
            continue; /* the first key of a branch is not looked at by anybody */
        }
        bytes_t key = page_node_key(node);
        int order = before.size == 0 ? -1 : keys_compare(before, key, bounds.numbers);
        if (order > 0 || (order == 0 && strict)) {
            return "its keys do not stand in their order";
        }
        before = key;
        strict = true;
    }
    if (filled != size - page_u16(page + PAGE_WORD + 6)) {
        return "its entries do not fill it";
    }
    if (bounds.high.size > 0 && before.size > 0 && keys_compare(before, bounds.high, bounds.numbers) >= 0) {
        return "its keys do not stand in their order";
    }
    return NULL;
}

const char *page_overflow_judge(const uint8_t *page, uint32_t size, size_t number, uint32_t value_size) {
    bool sound = page_word(page) == number && page_kind(page) == PAGE_OVERFLOW
                 && page_overflow_count(page) >= page_overflow_pages(value_size, size)
                 && page_overflow_count(page) < UINT32_MAX / 2;
    return sound ? NULL : "it is no page of a large value";
}

const char *page_list_judge(bytes_t value, size_t last) {
    size_t count = value.size >= PAGE_WORD ? page_word(value.at) : SIZE_MAX;
    if (count > last || value.size < (count + 1) * PAGE_WORD) {
        return "the list of free pages is damaged";
    }
    size_t before = last + 1;
    for (size_t i = 0; i < count; i++) {
        size_t number = page_word(value.at + (i + 1) * PAGE_WORD);
        if (number < 2 || number >= before) {
            return "the list of free pages is damaged";
        }
        before = number;
    }
    return NULL;
}
