/* sums.h: all that a stream's count of messages and bytes changes by while it is open, and with it the sums over it: of
 * the store, and of the allowance that it is charged to. They are here so that there is no other place.
 */
#ifndef LEAFD_STORE_SUMS_H
#define LEAFD_STORE_SUMS_H

#include "base/check.h"
#include "store/core.h"

void allowance_rise(store_t *store, allowance_t *allowance); /* it is above `near` */
void allowance_fall(store_t *store, allowance_t *allowance); /* it is below `clear` */
void allowance_refuse(store_t *store, allowance_t *allowance);

static inline void stream_gain(store_stream_t *stream, uint64_t messages, uint64_t bytes) {
    store_t *store = stream->store;
    allowance_t *allowance = stream->allowance;
    stream->messages += messages;
    stream->bytes += bytes;
    store->messages += messages;
    store->bytes += bytes;
    allowance->bytes += bytes;
    if (LEAF_UNLIKELY(allowance->bytes > allowance->near)) {
        allowance_rise(store, allowance);
    }
}

static inline void stream_lose(store_stream_t *stream, uint64_t messages, uint64_t bytes) {
    store_t *store = stream->store;
    allowance_t *allowance = stream->allowance;
    stream->messages -= messages;
    stream->bytes -= bytes;
    store->messages -= messages;
    store->bytes -= bytes;
    allowance->bytes -= bytes;
    if (LEAF_UNLIKELY(allowance->bytes < allowance->clear)) {
        allowance_fall(store, allowance);
    }
}

#endif
