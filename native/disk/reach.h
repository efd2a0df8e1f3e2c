/* reach.h: which pages a commit of LMDB's file uses, and is none of them on its own list of free pages? In steps, for a
 * store may have more pages than can be asked at once.
 *
 *     the list     all of it is read: each number is noted, once
 *     the names    all of them
 *     a database   branches alone: they have the numbers of their leaves. Where it has large values its leaves, too
 *
 * So a gigabyte of short messages is a hundredth of that to read. A page that is damaged, or that the disk does not
 * give, is told and gone around: what hung from it is not known to be in use.
 *
 * Pages that a large value keeps behind its end, for it became shorter within the transaction that wrote it, are not
 * seen. Knows no LMDB: that the commit stays as it is meanwhile is the caller's.
 */
#ifndef LEAFD_DISK_REACH_H
#define LEAFD_DISK_REACH_H

#include "disk/tree.h"

#define REACH_NAME_MAX 32u /* of a database, with its end */

typedef struct reach reach_t;

/* Of the commit that trees read now; trees are the caller's, whose map this reads, until reach_close. */
LEAF_MUST_USE status_t reach_open(const trees_t *trees, reach_t **out);
void reach_close(reach_t *reach); /* NULL is fine */
/* Goes on until that time (thread_elapsed_ns), or until there is damage to tell. STATUS_AGAIN: there is more to do.
 * STATUS_CORRUPT, at the end: a page is both. STATUS_OK: none is, of all that could be reached. */
LEAF_MUST_USE status_t reach_step(reach_t *reach, int64_t until_ns);
/* The place of a page in its tree, and that tree. */
#define REACH_KEY_MAX 511u
typedef struct reach_place {
    size_t page;
    unsigned below;            /* levels; 0: a leaf */
    uint32_t value_size;       /* it is the first page of a value of so many bytes, with the key `low`; 0: of a tree */
    char name[REACH_NAME_MAX]; /* of the database; empty: it is of another tree */
    uint32_t low_size, high_size; /* bounds of its keys; 0: none */
    uint8_t low[REACH_KEY_MAX], high[REACH_KEY_MAX];
    uint64_t branches, leaves;           /* as the database says .. */
    uint64_t entries;                    /* likewise, in all of it */
    uint64_t seen_branches, seen_leaves; /* .. and as they were reached, with the page itself */
} reach_place_t;
/* That page is known to be damaged: it is no doubt, and its place is noted. */
void reach_expect(reach_t *reach, size_t page);
/* At the end. false: nothing leads to it. */
bool reach_place(const reach_t *reach, reach_place_t *place);
/* At the end: is it neither used nor on the list? Then it hung from a damaged page, or is nobody's. */
bool reach_is_orphan(const reach_t *reach, size_t page);
/* At the end: were the lists and all branches sound, and no page reached twice? Then a leaf that is damaged is that
 * leaf, and no page of others to which damage leads. */
bool reach_is_apart(const reach_t *reach);
/* The damage that the last step met, and where; NULL: none. */
const char *reach_wrong(const reach_t *reach, size_t *page);

#endif
