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

const char *page_overflow_judge(const uint8_t *page, uint32_t size, size_t number, uint32_t value_size, bool spare) {
    size_t count = page_overflow_count(page), needed = page_overflow_pages(value_size, size);
    bool sound = page_word(page) == number && page_kind(page) == PAGE_OVERFLOW
                 && (spare ? count >= needed && count < UINT32_MAX / 2 : count == needed);
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

/* ---- a leaf that is made anew ------------------------------------------------------------------------------------ */

#define REFILL_KEY (PAGE_REFILL_PREFIX + 8u)
#define REFILL_VALUE 4u

static void put_u16(uint8_t *at, uint32_t value) {
    uint16_t word = (uint16_t)value;
    memcpy(at, &word, sizeof word);
}

static void lay_head(uint8_t *made, size_t number, bool leaf, uint64_t lower, uint64_t upper) {
    memcpy(made, &number, PAGE_WORD);
    put_u16(made + PAGE_WORD + 2, leaf ? PAGE_LEAF : PAGE_BRANCH);
    put_u16(made + PAGE_WORD + 4, (uint32_t)lower);
    put_u16(made + PAGE_WORD + 6, (uint32_t)upper);
}

void page_overflow_make(uint8_t *page, uint32_t size, size_t number, uint32_t value_size) {
    uint32_t count = (uint32_t)page_overflow_pages(value_size, size);
    memset(page, 0, PAGE_HEAD);
    memcpy(page, &number, PAGE_WORD);
    put_u16(page + PAGE_WORD + 2, PAGE_OVERFLOW);
    memcpy(page + PAGE_WORD + 4, &count, sizeof count);
}

/* An entry of the leaf to be made; node: NULL: it proves nothing. */
typedef struct refilled {
    uint64_t number;
    const uint8_t *node;
} refilled_t;

/* Where in the row that number belongs, which grows by it; NULL: its place is taken, or there is no room. */
static refilled_t *refill_place(const page_refill_t *refill, refilled_t row[PAGE_REFILL_MAX], uint64_t *count,
                                uint64_t number) {
    if (number < refill->from || number >= refill->below) {
        return NULL;
    }
    if (refill->each) {
        refilled_t *place = &row[number - refill->from];
        return place->node == NULL ? place : NULL;
    }
    bool behind = *count == 0 || row[*count - 1].number < number;
    return behind && *count < PAGE_REFILL_MAX ? &row[(*count)++] : NULL;
}

static void find_kept(const uint8_t *damaged, uint32_t size, size_t number, page_refill_t *refill,
                      refilled_t row[PAGE_REFILL_MAX], uint64_t *count) {
    bool headed = page_head_judge(damaged, size, number, true) == NULL;
    for (uint32_t i = 0; headed && i < page_nodes(damaged); i++) {
        const uint8_t *node = page_node(damaged, size, i, true);
        bytes_t key = node != NULL ? page_node_key(node) : BYTES_NONE;
        if (key.size != REFILL_KEY || memcmp(key.at, refill->prefix, PAGE_REFILL_PREFIX) != 0
            || !refill->keeps(refill->context, node)) {
            continue;
        }
        uint64_t at = load_be64(key.at + PAGE_REFILL_PREFIX);
        refilled_t *place = refill_place(refill, row, count, at);
        if (place != NULL) {
            *place = (refilled_t){.number = at, .node = node};
            refill->kept++;
        }
    }
}

/* The row of what the leaf is to have. false: it is too long. */
static bool refill_row(const uint8_t *damaged, uint32_t size, size_t number, page_refill_t *refill,
                       refilled_t row[PAGE_REFILL_MAX], uint64_t *count) {
    *count = refill->each ? refill->below - refill->from : 0;
    refill->kept = 0;
    if (refill->below <= refill->from || *count > PAGE_REFILL_MAX) {
        return false;
    }
    for (uint64_t i = 0; i < *count; i++) {
        row[i].number = refill->from + i;
    }
    find_kept(damaged, size, number, refill, row, count);
    if (*count == 0) {
        row[(*count)++].number = refill->from;
    }
    return true;
}

bool page_refill(uint8_t *made, const uint8_t *damaged, uint32_t size, size_t number, page_refill_t *refill) {
    refilled_t row[PAGE_REFILL_MAX] = {0};
    uint64_t count;
    if (!refill_row(damaged, size, number, refill, row, &count)) {
        return false;
    }
    uint64_t lower = PAGE_HEAD + 2 * count;
    uint64_t upper = size;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *node = row[i].node;
        uint64_t long_as = node != NULL ? node_end(node, 0, true) : PAGE_NODE_HEAD + REFILL_KEY + REFILL_VALUE;
        long_as = (long_as + 1) & ~UINT64_C(1);
        if (upper < lower + long_as) {
            return false;
        }
        upper -= long_as;
        if (node != NULL) {
            memcpy(made + upper, node, (size_t)node_end(node, 0, true));
        } else {
            put_u16(made + upper, REFILL_VALUE);
            put_u16(made + upper + 6, REFILL_KEY);
            memcpy(made + upper + PAGE_NODE_HEAD, refill->prefix, PAGE_REFILL_PREFIX);
            store_be64(made + upper + PAGE_NODE_HEAD + PAGE_REFILL_PREFIX, row[i].number);
        }
        put_u16(made + PAGE_HEAD + 2 * i, (uint32_t)upper);
    }
    lay_head(made, number, true, lower, upper);
    return true;
}

/* ---- a page of given entries ------------------------------------------------------------------------------------- */

/* LMDB looks at no key of a branch's first node, and writes none. */
static uint64_t entry_size(const page_entry_t *entry, bool leaf, uint32_t index) {
    uint64_t size = PAGE_NODE_HEAD
                    + (leaf        ? (uint64_t)entry->key.size + entry->value.size
                       : index > 0 ? entry->key.size
                                   : 0);
    return (size + 1) & ~UINT64_C(1);
}

static void lay_entry(uint8_t *node, const page_entry_t *entry, bool leaf, uint32_t index) {
    bytes_t key = leaf || index > 0 ? entry->key : BYTES_NONE;
    uint64_t numbers = leaf ? entry->value.size : (uint64_t)entry->child;
    put_u16(node, (uint32_t)(numbers & 0xffff));
    put_u16(node + 2, (uint32_t)(numbers >> 16 & 0xffff));
    put_u16(node + 4, leaf ? 0 : (uint32_t)(numbers >> 32 & 0xffff));
    put_u16(node + 6, key.size);
    uint8_t *end = bytes_write(node + PAGE_NODE_HEAD, key);
    if (leaf) {
        (void)bytes_write(end, entry->value);
    }
}

bool page_make(uint8_t *made, uint32_t size, size_t number, bool leaf, const page_entry_t *entries, uint32_t count) {
    uint64_t lower = PAGE_HEAD + (uint64_t)2 * count;
    uint64_t upper = size;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t long_as = entry_size(&entries[i], leaf, i);
        if (upper < lower + long_as) {
            return false;
        }
        upper -= long_as;
        lay_entry(made + upper, &entries[i], leaf, i);
        put_u16(made + PAGE_HEAD + (size_t)2 * i, (uint32_t)upper);
    }
    lay_head(made, number, leaf, lower, upper);
    return count > 0;
}
