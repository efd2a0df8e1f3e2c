/* pages_private.h: what pages.c, which goes through the trees of a file of LMDB's, and orphans.c, which finds what hung
 * from a lost page, share. Nobody outside native/recovery includes this.
 */
#ifndef LEAFD_RECOVERY_PAGES_PRIVATE_H
#define LEAFD_RECOVERY_PAGES_PRIVATE_H

#include "disk/page.h"
#include "recovery/pages.h"

#define OTHER_HEAD (PAGE_WORD == 8 ? 12u : 16u) /* where a word has 32 bits, or 64 */
#define PAGES_NAME_MAX 64                       /* of a database */

typedef struct pages {
    int fd;
    uint32_t size; /* of a page */
    page_meta_t meta;
    uint64_t there;   /* bytes of the file */
    uint8_t *reached; /* a bit for each page */
    uint8_t *listed;  /* a bit for each page of the free list */
    uint8_t *kept;    /* a bit for each that is reached or listed in the whole file; NULL: not known yet */
    uint8_t *levels;  /* a page for each level: of the free list and of main, of a database within main */
    const char *wrong;
    size_t where;
    const pages_visit_t *visit; /* NULL: the first damage ends the walk .. */
    bool lenient;               /* .. unless this is set */
    bool few;                   /* only the databases that a start reads */
    bool roots;                 /* only which databases there are */
    bool behind;                /* a page is reached that the file has not */
    bool list_lost;             /* some of the list of free pages */
    bool visiting;              /* in a database that is wanted */
    char name[PAGES_NAME_MAX];
    uint8_t *large; /* the last large value */
    size_t large_size;
} pages_t;

/* A tree, or the part of one below `level`: db says the root of that part, and how deep it is. */
typedef struct tree {
    page_db_t db;
    page_bounds_t bounds;
    unsigned base; /* of the places of its levels */
    unsigned level;
    bool of_names; /* the main one */
} tree_t;

/* ---- pages.c ----------------------------------------------------------------------------------------------------- */
status_t pages_wrong(pages_t *pages, size_t page, const char *what);
/* Damage that somebody hears of is gone around. */
status_t pages_pass(pages_t *pages, status_t status);
status_t pages_read(pages_t *pages, uint8_t *to, size_t size, uint64_t offset);
status_t pages_trees(pages_t *pages);
status_t pages_tree(pages_t *pages, tree_t tree);
status_t pages_visit_database(pages_t *pages, bytes_t name, page_db_t db, unsigned base);

/* ---- orphans.c --------------------------------------------------------------------------------------------------- */
/* Visits the pages that hung from the lost page at the root of that part of a tree. */
status_t orphans_visit(pages_t *pages, tree_t tree);

#endif
