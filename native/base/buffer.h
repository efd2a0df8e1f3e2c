/* buffer.h: a growable byte buffer with an upper bound, for bytes that are collected before they are passed on (an
 * output queue, a batch). Grows by doubling, when large by a quarter; never shrinks by itself; buffer_trim gives memory
 * back when idle. */
#ifndef LEAFD_BASE_BUFFER_H
#define LEAFD_BASE_BUFFER_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/share.h"
#include "base/status.h"

struct buffer {
    uint8_t *at;
    uint64_t size;     /* bytes in use */
    uint64_t capacity; /* bytes allocated */
    uint64_t max;      /* bound of capacity; reaching it is STATUS_FULL */
    share_t *share;    /* its capacity is counted there; NULL: nowhere */
};

void buffer_init(buffer_t *buffer, uint64_t max); /* allocates nothing */
/* before it has anything; without room in the share: STATUS_FULL */
void buffer_count(buffer_t *buffer, share_t *share);
void buffer_free(buffer_t *buffer);
/* Room for `more` bytes behind `size`; *place points there. size is not changed: add what was written. */
LEAF_MUST_USE status_t buffer_reserve(buffer_t *buffer, uint64_t more, uint8_t **place);
LEAF_MUST_USE status_t buffer_append(buffer_t *buffer, const void *at, uint64_t size);
void buffer_consume(buffer_t *buffer, uint64_t size); /* drops bytes from the front (memmove) */
void buffer_fit(buffer_t *buffer);                    /* gives back what it does not use */
void buffer_trim(buffer_t *buffer, uint64_t keep);    /* when empty and larger than keep: free */

#endif
