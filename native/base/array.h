/* array.h: room in an array that grows by doubling.
 */
#ifndef LEAFD_BASE_ARRAY_H
#define LEAFD_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/status.h"

/* array: the address of the pointer to its elements, of `size` bytes each; *capacity: how many it has room for. Begins
 * with room for `first`. On STATUS_NO_MEMORY nothing has changed. */
LEAF_MUST_USE status_t array_grow(void *array, uint64_t *capacity, uint64_t needed, uint64_t first, size_t size);

static inline LEAF_MUST_USE status_t array_reserve(void *array, uint64_t *capacity, uint64_t needed, uint64_t first,
                                                   size_t size) {
    return LEAF_LIKELY(needed <= *capacity) ? STATUS_OK : array_grow(array, capacity, needed, first, size);
}

#endif
