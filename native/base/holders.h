/* holders.h: a share of memory whose oldest things may be given up. When it is full, the holder with the most in it
 * gives up its oldest, until there is room: the user that makes the daemon remember most loses it first.
 *
 * The one with the most is known while holders only grow. When things go, it is looked for among the last one that was
 * known and some others, which take turns, so that a full share costs the same however many holders there are.
 */
#ifndef LEAFD_BASE_HOLDERS_H
#define LEAFD_BASE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/share.h"

typedef struct holder holder_t;

/* Whose things are in the share; a member of what it is for, all zero but for drop_oldest at first. */
struct holder {
    uint64_t bytes;
    holder_t *next; /* ring of all that hold anything */
    holder_t *previous;
    void (*drop_oldest)(holder_t *holder, void *context); /* and calls holders_give for it */
};

typedef struct holders {
    share_t share;
    holder_t *turn; /* in the ring; NULL: nobody holds anything */
    holder_t *most; /* NULL: not known */
} holders_t;

/* context: of drop_oldest. */
void holders_open(holders_t *holders, uint64_t limit, void *context);
/* false: more than the whole share. */
bool holders_take(holders_t *holders, holder_t *holder, uint64_t bytes);
void holders_give(holders_t *holders, holder_t *holder, uint64_t bytes);

#endif
