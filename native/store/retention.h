/* retention.h: what the retention of a stream means: one row a kind, read wherever kinds differ. Not here: which
 * messages go (consume/retention.c), limits (limits.c), which hold for every kind.
 */
#ifndef LEAFD_STORE_RETENTION_H
#define LEAFD_STORE_RETENTION_H

#include <stdbool.h>

#include "base/abi_types.h"

typedef struct retention_traits {
    bool acks_remove; /* a message goes when the consumers that it is for have acknowledged it */
    bool only_wanted; /* one that no consumer is there for is not taken, and is not kept */
} retention_traits_t;

static inline const retention_traits_t *retention_traits(const stream_config_t *config) {
    static const retention_traits_t rows[] = {
        {.acks_remove = false, .only_wanted = false}, /* 0 limits */
        {.acks_remove = true, .only_wanted = true},   /* 1 interest */
        {.acks_remove = true, .only_wanted = false},  /* 2 workqueue */
    };
    return &rows[config->retention < sizeof rows / sizeof rows[0] ? config->retention : 0];
}

#endif
