/* apply.h: the one way ops get into LMDB, for the keeper and for replay. Knows write transactions; begins none.
 *
 * Subjects and ids come in any order, and each has its page somewhere in a large index. So the keeper lets ops on them
 * wait until its checkpoint's end and does them in the order of their keys, the last one of each key alone: a page is
 * looked for, copied, changed and written once, however many batches changed something on it.
 *
 *     batches    message, head of t.7, id x | message, head of t.2 | message, head of t.7
 *     LMDB       message        message        message                       head of t.2, head of t.7, id x
 *
 * Streams' states do the same: each batch has the state of each stream that it changed, and with 1,000 streams that is
 * nearly one for each message, written twice (env_twins.c).
 *
 * Heads do so where the last checkpoint's changes were scattered, and after a start. With a sealer, whose keys have
 * another order, none of them waits.
 *
 * Entries of ledgers wait always: mostly the same checkpoint has what they did and the removal of those below the
 * floor. An entry that a removal behind it takes is not put at all, so that few ever come to LMDB. That removal may
 * also be in a later batch, if that one is synced: a start would do it again.
 */
#ifndef LEAFD_DISK_APPLY_H
#define LEAFD_DISK_APPLY_H

#include "base/order.h"
#include "disk/batch.h"
#include "disk/env.h"
#include "disk/ranges.h"

#define LATE_MAX 32768u /* of one index: more than these are done, and others wait anew */

typedef struct late_row {
    order_item_t *at; /* rank: the op's position; head: a number of the key, until they are sorted */
    uint64_t room;
    uint32_t count;
    uint32_t *places; /* by that number: place in `at` + 1, 0 = none; NULL where equal keys are not put together */
    uint32_t size;    /* a power of two, twice as many as there is room for */
} late_row_t;

typedef struct late {
    const batches_t *batches; /* where they lie */
    late_row_t ids;
    late_row_t heads;
    late_row_t states;  /* of streams */
    late_row_t entries; /* .. of ledgers, and what removes some of them */
    ranges_t removed;
    bool heads_wait; /* changes only while none does: where subjects come in order, sorting them is only work */
} late_t;

/* Applies the ops of one batch inside the write transaction; commits in between when a removal is large, or when what
 * waited is much. batches: where what they share lies. late: where ops may wait, NULL: they do not. */
LEAF_MUST_USE status_t apply_batch(env_t *env, const batches_t *batches, const uint8_t *batch, uint32_t size,
                                   late_t *late);
/* A put alone, at once. */
LEAF_MUST_USE status_t apply_put(env_t *env, const batches_t *batches, const batch_op_t *op);
/* Sees what the batches in [from, to), which are synced and come behind those that were applied, remove of ledgers. */
LEAF_MUST_USE status_t late_look_ahead(late_t *late, uint64_t from, uint64_t to);
/* Carries out the ops that wait; commits in between when the transaction has changed as many pages as it may. */
LEAF_MUST_USE status_t late_apply(late_t *late, env_t *env);
void late_forget(late_t *late);    /* what waits will come again */
void late_give_back(late_t *late); /* its memory, if nothing waits */

#endif
