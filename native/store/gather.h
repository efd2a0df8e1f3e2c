/* gather.h: for how long the open batch waits for those whose changes have just come to the disk. Knows no store.
 *
 * Publishers that wait for each acknowledgement part into two groups that take turns, and each waits for the other's
 * sync as well as for its own:
 *
 *     journal   | A | B | A | B | ..      two syncs for one message of each
 *     journal   | A + B |  | A + B | ..   one
 *
 * So when a batch is on disk, the open one waits a moment: until as many changes are in it as both had, but for no more
 * than half of the time that the sync took. Where they do not come so soon, a while goes by before it waits again.
 */
#ifndef LEAFD_STORE_GATHER_H
#define LEAFD_STORE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define GATHER_OPS 128u                 /* more are worth a sync of their own */
#define GATHER_MIN_NS INT64_C(150000)   /* an answer and the next request take longer than half of it */
#define GATHER_MAX_NS (200 * NS_PER_MS) /* a disk that is so slow has other troubles */
#define GATHER_MISSES 6u

typedef struct gather {
    int64_t sealed_at; /* mono ns at which the last batch was closed */
    int64_t until;     /* mono ns at which the wait of the open one ends; 0: it does not wait */
    uint32_t sealed;   /* changes in the last batch */
    uint32_t awaited;  /* so many in the open one end its wait */
    uint32_t skip;     /* so many batches do not wait, .. */
    uint32_t misses;   /* .. since so many in a row waited in vain */
} gather_t;

/* Does a batch with so many changes wait? */
static inline bool gather_waits(const gather_t *gather, uint32_t count, int64_t mono_ns) {
    return mono_ns < gather->until && count < gather->awaited;
}

/* A batch with so many changes is closed. */
static inline void gather_sealed(gather_t *gather, uint32_t count, int64_t mono_ns) {
    if (gather->until != 0) {
        bool came = (uint64_t)count * 8 >= (uint64_t)gather->awaited * 7;
        gather->misses = came ? 0 : gather->misses < GATHER_MISSES ? gather->misses + 1 : GATHER_MISSES;
        gather->skip = came ? 0 : 1u << gather->misses;
    }
    *gather = (gather_t){.sealed_at = mono_ns, .sealed = count, .skip = gather->skip, .misses = gather->misses};
}

/* Notes that a batch is on disk, and that the open one has so many. */
static inline void gather_durable(gather_t *gather, uint32_t count, int64_t mono_ns) {
    int64_t took = mono_ns - gather->sealed_at;
    uint64_t both = (uint64_t)gather->sealed + count;
    if (took < GATHER_MIN_NS || took > GATHER_MAX_NS || both < 2 || both > GATHER_OPS) {
        return;
    }
    if (gather->skip > 0) {
        gather->skip--;
        return;
    }
    gather->until = mono_ns + took / 2;
    gather->awaited = (uint32_t)both;
}

#endif
