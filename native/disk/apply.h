/* apply.h: the one way ops get into LMDB, for the keeper and for replay. Knows write transactions; begins none.
 *
 * Ids come in any order, and each has its page somewhere in a large index. So the keeper lets ops on ids wait for the
 * others of the transaction, and does them in the order of their keys: a page is looked for, copied and changed once.
 */
#ifndef LEAFD_DISK_APPLY_H
#define LEAFD_DISK_APPLY_H

#include "base/order.h"
#include "disk/batch.h"
#include "disk/env.h"

typedef struct late {
    const batches_t *batches; /* where they lie */
    order_item_t *at;         /* rank: the op's position */
    uint32_t count;
} late_t;

/* Applies the ops of one batch inside the write transaction; commits in between when a removal is large. late: where
 * ops on ids may wait, NULL: they do not. */
LEAF_MUST_USE status_t apply_batch(env_t *env, const uint8_t *batch, uint32_t size, late_t *late);
/* What waits is done. Before the transaction is committed. */
LEAF_MUST_USE status_t late_apply(late_t *late, env_t *env);
void late_give_back(late_t *late); /* its memory, if nothing waits */

#endif
