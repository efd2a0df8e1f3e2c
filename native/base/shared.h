/* shared.h: bytes that several queues wait to write, once in memory: the body of a large message on its way to many.
 * Counted by references, and as a whole against one share of memory. Only one thread uses them, so a count is a plain
 * number. What lies in them does not change once they are shared. */
#ifndef LEAFD_BASE_SHARED_H
#define LEAFD_BASE_SHARED_H

#include <stdint.h>

#include "base/share.h"
#include "base/status.h"

typedef struct shared {
    share_t *share; /* its size is counted there; NULL: nowhere */
    uint32_t references;
    uint32_t size;
    uint8_t at[];
} shared_t;

/* One reference, the caller's; the bytes are still to be written. STATUS_FULL: the share has no room. */
LEAF_MUST_USE status_t shared_new(share_t *share, uint32_t size, shared_t **shared);
static inline shared_t *shared_keep(shared_t *shared) {
    shared->references++;
    return shared;
}
void shared_release(shared_t *shared); /* the last reference frees it */

#endif
