/* tree.h: reads of a commit of LMDB's file without LMDB. Each page is judged when it is entered, so that a damaged one
 * is never believed: what lies on it is not known, and all else is found. LMDB would follow it to wherever
 * it points.
 *
 * A page that the disk does not give (unread.h) is no other: what a call has read of it is not known, nor what it says
 * without it.
 *
 * Judged is: the head, that its entries lie within it and fill it, the order of its keys, between the keys of the page
 * above, that children and large values can be (page.h). The checksum of a page that was judged is known, and nothing
 * more is asked while that is the same. No page of a commit changes: of those that were noted right behind it one that
 * does is damaged, however sound it looks (trees_compare).
 *
 * Knows no LMDB: the commit, which LMDB keeps readable for a reader, is the caller's.
 */
#ifndef LEAFD_DISK_TREE_H
#define LEAFD_DISK_TREE_H

#include "base/outcome.h"
#include "disk/page.h"
#include "disk/unread.h"

#define TREE_DEPTH_MAX 16
#define TREE_JUDGED 8192u /* pages of which the checksum is kept */

/* Pages in a row. */
typedef struct page_run {
    size_t first;
    size_t count;
    uint32_t crc; /* of those that were noted */
} page_run_t;

/* Rows of pages as they were, one behind the other. */
typedef struct page_copies {
    uint8_t *at; /* own memory */
    uint64_t room;
    page_run_t *runs; /* likewise */
    uint64_t runs_room;
    uint64_t count; /* 0: there is none */
} page_copies_t;

/* A leaf that is damaged, and the keys of the pages above between which its own lie, up to so many bytes of each. */
#define TREE_LOST_KEY 16u
typedef struct tree_lost {
    size_t page; /* 0: none */
    bytes_t low; /* empty: none */
    bytes_t high;
    uint8_t keys[2][TREE_LOST_KEY];
} tree_lost_t;

/* One thread's view of the file. */
typedef struct trees {
    const uint8_t *map; /* the file, as far as it may grow */
    uint64_t map_size;
    uint64_t file_size; /* never read behind it */
    int fd;
    unread_watch_t *watch;
    page_meta_t meta; /* of the commit that is read */
    uint64_t epoch;   /* 0: pages are judged at each visit; else those that were judged in this one are not again */
    struct {
        size_t page; /* 0: none */
        uint64_t epoch;
        uint32_t crc;
    } *judged;
    /* what was entered while `noting`, in that order */
    bool noting;
    bool noted_all; /* false: there was no memory */
    page_run_t *noted;
    uint64_t noted_count;
    uint64_t noted_room;
    /* where tree_get looked last; NULL: there is no page */
    const uint8_t *missed;
    uint32_t missed_at;
    /* the last damage */
    size_t where;
    const char *wrong;
    tree_lost_t lost;
} trees_t;

/* The place of a search. */
typedef struct tree_cursor {
    uint16_t depth; /* 0: nowhere */
    bool numbers;   /* of the free list */
    uint16_t at[TREE_DEPTH_MAX];
    const uint8_t *page[TREE_DEPTH_MAX];
} tree_cursor_t;

typedef struct tree_entry {
    bytes_t key;
    bytes_t value;
} tree_entry_t;

/* map_size: address space, not memory. */
LEAF_MUST_USE status_t trees_open(trees_t *trees, int fd, uint64_t map_size);
void trees_close(trees_t *trees);
/* From here on that commit is read. STATUS_IO: neither of the first two pages tells of it. */
LEAF_MUST_USE status_t trees_renew(trees_t *trees, uint64_t commit);
/* Asks the disk again for the pages that it did not give. */
void trees_ask_again(trees_t *trees);
/* The database of that name. */
LEAF_MUST_USE read_outcome_t trees_find(trees_t *trees, const char *name, page_db_t *db, uint64_t *large);

/* After any outcome but READ_FOUND the cursor stands nowhere. */
LEAF_MUST_USE read_outcome_t tree_get(trees_t *trees, page_db_t db, bytes_t key, bytes_t *value);
/* Right behind a tree_get that found nothing: the values on both sides of the key's place, as far as they lie on the
 * same page. Returns how many these are. */
uint32_t tree_beside(trees_t *trees, bytes_t values[2]);
/* The first at or behind key. */
LEAF_MUST_USE read_outcome_t tree_seek(trees_t *trees, page_db_t db, bytes_t key, tree_cursor_t *cursor,
                                       tree_entry_t *found);
LEAF_MUST_USE read_outcome_t tree_last(trees_t *trees, page_db_t db, tree_cursor_t *cursor, tree_entry_t *found);
/* The one behind, or before. */
LEAF_MUST_USE read_outcome_t tree_step(trees_t *trees, tree_cursor_t *cursor, bool back, tree_entry_t *found);

/* Before LMDB writes: are the pages sound that a change at key reads or joins, the way down and the neighbours? */
LEAF_MUST_USE status_t tree_judge(trees_t *trees, page_db_t db, bytes_t key, page_bounds_t *span);
/* Before a put behind the last entry: the way there, which is all that LMDB reads then. last: its key; empty: there is
 * no entry. */
LEAF_MUST_USE status_t tree_judge_end(trees_t *trees, page_db_t db, bytes_t *last);
/* All pages of a tree, but for leaves where `leaves` is not set. */
LEAF_MUST_USE status_t tree_judge_all(trees_t *trees, page_db_t db, bool leaves);
/* The list of free pages, and how many it names. */
LEAF_MUST_USE status_t trees_judge_free(trees_t *trees, uint64_t *pages);
/* From now on the pages that are entered are noted; then no more, and each is noted once, in the order of the file, in
 * rows with their checksums. */
void trees_note(trees_t *trees);
void trees_noted(trees_t *trees);
/* Are these bytes still those of that row? */
LEAF_MUST_USE status_t trees_compare(trees_t *trees, page_run_t run, const uint8_t *at);

#endif
