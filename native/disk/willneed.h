/* willneed.h: asks the kernel for the pages of a file that a reader is about to come to. Knows memory that a file is
 * mapped to, by page; knows no LMDB.
 *
 * The kernel's own guess is turned off for LMDB's file (MDB_NORDAHEAD), because most reads of a store that is larger
 * than memory are of one page somewhere: a subject's head, an id, a message that is asked for. For each of them it read
 * 128 KB around it, and put as much out of memory. What goes through a stream is seen here instead: pages that follow
 * each other, nearly all of them, since LMDB takes new ones and used ones in ascending order.
 *
 *     page  .. 7 8 9 11 12 13 | 14 .......................... 14 + WINDOW
 *              a row of NEAR   | asked for at once, again when half of it is read
 */
#ifndef LEAFD_DISK_WILLNEED_H
#define LEAFD_DISK_WILLNEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

#define WILLNEED_ROWS 8u /* readers of different parts at the same time */

typedef struct willneed_row {
    uintptr_t page;  /* the last one that was read */
    uintptr_t until; /* asked for up to here */
    uint32_t length; /* pages in a row so far */
} willneed_row_t;

typedef struct willneed {
    bool off; /* not a file on a disk */
    uint32_t last;
    uint32_t oldest;
    willneed_row_t rows[WILLNEED_ROWS];
} willneed_t;

void willneed_turn(willneed_t *willneed, uintptr_t page);

/* Something at that address is read. */
static inline void willneed_note(willneed_t *willneed, const void *at) {
    uintptr_t page = (uintptr_t)at >> 12;
    if (LEAF_UNLIKELY(willneed->rows[willneed->last].page != page)) {
        willneed_turn(willneed, page);
    }
}

#endif
