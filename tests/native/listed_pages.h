/* listed_pages.h: where LMDB's list of free pages has its numbers in the file, for tests that change one. Not here:
 * what is made of it (test_env.c, test_env_proof.c). */
#ifndef LEAFD_TESTS_LISTED_PAGES_H
#define LEAFD_TESTS_LISTED_PAGES_H

#include <unistd.h>

#include "disk/env.h"
#include "disk/page.h"
#include "test.h"

/* The first page of the list of free pages, or of the list of databases. */
static inline size_t first_page(env_t *env, bool names) {
    page_meta_t metas[2];
    uint8_t pages[2][4096];
    for (size_t i = 0; i < 2; i++) {
        CHECK_EQ_I64(4096, pread(env_file(env), pages[i], 4096, (off_t)i * 4096));
        CHECK(page_meta_read(pages[i], i, &metas[i]));
    }
    const page_meta_t *newest = metas[0].commit > metas[1].commit ? &metas[0] : &metas[1];
    return names ? newest->main.root : newest->free_list.root;
}

/* Where the list of that entry lies in the file: within its page, or in pages of its own. */
static inline off_t list_place(const uint8_t *page, size_t at, const uint8_t *node) {
    const uint8_t *data = page_node_data(node);
    bool large = (page_node_flags(node) & PAGE_NODE_BIG) != 0;
    return large ? (off_t)(page_word(data) * 4096 + PAGE_HEAD) : (off_t)at * 4096 + (data - page);
}

static inline size_t word_at(env_t *env, off_t at) {
    size_t word;
    CHECK_EQ_I64(sizeof word, pread(env_file(env), &word, sizeof word, at));
    return word;
}

/* The page number at `index` of the first entries together, for who changes it. 0: there are no more. */
static inline off_t listed(env_t *env, size_t index, size_t *number) {
    uint8_t page[4096];
    size_t at = first_page(env, false);
    CHECK_EQ_I64(4096, pread(env_file(env), page, 4096, (off_t)at * 4096));
    while (page_kind(page) != PAGE_LEAF) {
        at = page_node_child(page_node(page, 4096, 0, false));
        CHECK_EQ_I64(4096, pread(env_file(env), page, 4096, (off_t)at * 4096));
    }
    for (uint32_t entry = 0; entry < page_nodes(page); entry++) {
        off_t list = list_place(page, at, page_node(page, 4096, entry, true));
        size_t count = word_at(env, list);
        if (index < count) {
            off_t place = list + (off_t)((index + 1) * sizeof *number);
            *number = word_at(env, place);
            return place;
        }
        index -= count;
    }
    return 0;
}

#endif
