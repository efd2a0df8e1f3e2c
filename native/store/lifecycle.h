/* lifecycle.h: a store between its start and its end, for native/recovery: made without files, filled by a start with
 * what the directory holds (environment, journal, ring), loaded, run; ended, freed.
 * Nobody outside native/store and native/recovery includes this.
 */
#ifndef LEAFD_STORE_LIFECYCLE_H
#define LEAFD_STORE_LIFECYCLE_H

#include "store/core.h"

/* Sizes are chosen, nothing is open. NULL: no memory. */
store_t *store_new(const store_options_t *options);
/* Loads the memory of a store. end: of the journal's batches. checkpoint: up to where LMDB has them; the batches
 * between lie in the ring. clockless: it does without the clock's record, which cannot be read. */
LEAF_MUST_USE status_t store_load(store_t *store, keeper_mark_t checkpoint, keeper_mark_t end, bool clockless);
/* Starts the store's threads. */
LEAF_MUST_USE status_t store_run(store_t *store, keeper_mark_t checkpoint, keeper_mark_t end);
/* Makes everything durable, checkpoints, ends the threads. true: LMDB has everything before keeper.committed. */
bool store_end(store_t *store);
/* Closes what is open. No thread runs: after store_end, or without store_run. */
void store_free(store_t *store);

#endif
