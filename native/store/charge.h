/* charge.h: a stream and the allowance that it is charged to (allowance.c), for the files that make the store.
 */
#ifndef LEAFD_STORE_CHARGE_H
#define LEAFD_STORE_CHARGE_H

#include "store/core.h"

/* Tells that the allowance's use is above `near`, or below `clear`. */
void allowance_turn(store_t *store, allowance_t *allowance, uint32_t level);
void allowance_refuse(store_t *store, allowance_t *allowance);
void allowance_weigh(store_stream_t *stream); /* its configuration is another one */

/* Each server that keeps a stream has a copy, and all count. */
static inline uint32_t copies_of(const stream_config_t *config) {
    return config->replicas > 1 ? config->replicas : 1;
}

/* Would so many bytes more be too many? A stream of several servers stores what its log has, whatever there is. */
static inline bool stream_lacks(const store_stream_t *stream, uint64_t bytes) {
    return (stream->config.flags & STREAM_REPLICATED) == 0
           && allowance_lacks(stream->allowance, bytes * stream->copies);
}

#endif
