/* willneed.c: see willneed.h. */
#include "disk/willneed.h"

#include <sys/mman.h>

#define NEAR 32u   /* pages: so far ahead the next one of a row may lie */
#define LENGTH 4u  /* pages that make a row */
#define WINDOW 64u /* pages */

static void ask(willneed_row_t *row) {
    uintptr_t from = row->until > row->page ? row->until : row->page + 1;
    row->until = row->page + 1 + WINDOW;
    /* Pages behind the file's end, or that cannot be had, are found out by the reader. */
    void *at = (void *)(from << 12); /* NOLINT(performance-no-int-to-ptr) */
    (void)madvise(at, (row->until - from) << 12, MADV_WILLNEED);
}

static uint32_t row_of(const willneed_t *willneed, uintptr_t page) {
    uint32_t found = 0;
    while (found < WILLNEED_ROWS && page - willneed->rows[found].page > NEAR) {
        found++;
    }
    return found;
}

void willneed_turn(willneed_t *willneed, uintptr_t page) {
    if (willneed->off) {
        return;
    }
    uint32_t found = row_of(willneed, page);
    if (found == WILLNEED_ROWS) {
        found = willneed->oldest++ % WILLNEED_ROWS;
        willneed->rows[found] = (willneed_row_t){.page = page};
    }
    willneed_row_t *row = &willneed->rows[found];
    willneed->last = found;
    if (row->page == page) {
        return;
    }
    row->page = page;
    row->length++;
    if (row->length >= LENGTH && row->page + WINDOW / 2 >= row->until) {
        ask(row);
    }
}
