/* open.h: a store's start and its end, over the files that an earlier process left. What is asked of it in between is
 * in store/store.h.
 */
#ifndef LEAFD_RECOVERY_OPEN_H
#define LEAFD_RECOVERY_OPEN_H

#include "store/store.h"

/* Opens or makes a store and replays the journal's valid tail. On failure *out is NULL and reason (size reason_size)
 * says what is wrong, where, and what to do: STATUS_IN_USE, STATUS_VERSION, STATUS_CORRUPT, STATUS_IO, STATUS_NO_SPACE,
 * STATUS_NO_MEMORY. */
LEAF_MUST_USE status_t store_open(const store_options_t *options, store_t **out, char *reason, size_t reason_size);
/* Makes everything durable, checkpoints, ends the threads, frees. NULL is fine. */
void store_close(store_t *store);

#endif
