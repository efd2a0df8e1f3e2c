/* linger.h: for how long a checkpoint waits at its boundary for entries of ledgers that are about to go. Knows ledgers
 * and batches; tells no thread anything.
 *
 * An entry goes when all members have it and it is applied: some syncs after it came. A checkpoint is as large as what
 * a thousand messages in flight put into the ring, so at its boundary nearly all entries before it are still there, and
 * each would be written to LMDB and removed from there a moment later.
 *
 *     ring    | entries 1..900 | what 1..400 did | boundary | what 401..900 did, floor 900 | ..
 *                                                     '-- waits --------------------------^ on the disk: none of them
 *                                                                                           comes to LMDB (apply.h)
 *
 * It waits no longer than LINGER_NS, and only while publishers have room: the ring holds what comes meanwhile, and is
 * wider for it (room.c). Where entries did not go in that time again and again, as when a member is slow or away, more
 * and more of the next checkpoints do not wait. One that is due by its time has next to no entries before it: the
 * groups have raised their floors as far as they can.
 */
#ifndef LEAFD_STORE_LINGER_H
#define LEAFD_STORE_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define LINGER_NS (500 * NS_PER_MS)
#define LINGER_MISSES_MAX 6u

typedef struct store store_t;
typedef struct ledger ledger_t;

typedef struct lingering { /* only linger.c writes to it */
    int64_t until;         /* mono ns; 0: the checkpoint does not wait */
    uint64_t passed;       /* of the ledgers so many have no entry before the boundary any more .. */
    uint64_t batch;        /* .. and all of them have none as of this one; 0: some has */
    uint32_t skip;         /* so many checkpoints do not wait, .. */
    uint32_t misses;       /* .. since so many in a row waited in vain */
    uint64_t began;        /* bytes that were in the ring when it began */
    uint64_t count;        /* checkpoints that have begun to wait */
} lingering_t;

/* A checkpoint has begun. large: since so much waits for it, and not since time has passed. */
void linger_begin(store_t *store, bool large);
/* All before the boundary is durable: does the checkpoint wait? */
bool linger_waits(store_t *store);
/* How many checkpoints have begun to wait. A group at rest has a turn at each, or nobody would remove its entries. */
uint64_t store_lingers(const store_t *store);
/* Does a checkpoint wait for entries of this one? */
bool store_ledger_awaited(const ledger_t *ledger);

#endif
