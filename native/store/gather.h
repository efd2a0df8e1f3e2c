/* gather.h: for how long the open batch waits for changes that are about to come. Knows no store.
 *
 * Publishers that wait for each acknowledgement part into two groups that take turns, and each waits for the other's
 * sync as well as for its own:
 *
 *     journal   | A | B | A | B | ..      two syncs for one message of each
 *     journal   | A + B |  | A + B | ..   one
 *
 * So when a batch is on disk, the open one waits a moment: until as many changes are in it as both had, but for no more
 * than half of the time that the sync took. Where they do not come so soon, a while goes by before it waits again.
 *
 * Devices that send by one clock come together after a rest, and the first one of them begins a sync that the others
 * then wait for:
 *
 *     journal   | first |  the nine others |                rest | first | ..    two blocks written for ten messages
 *     journal           | all ten |                         rest           | ..  one
 *
 * So when the batch after a rest was followed by one with as many changes, the next batch after a rest waits for as
 * many as both had, for half of the time that a sync takes at most. The first one's answer comes later by that, and
 * those of the others sooner: they do not wait for its sync any more. Whether a batch comes after a rest is asked when
 * it gets its first change: on a slow disk one that waits behind a sync waits for longer than a rest is.
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
#define GATHER_REST_NS (10 * NS_PER_MS)

/* Waits of one kind, and how many were in vain. */
typedef struct gather_luck {
    uint32_t skip;   /* so many batches do not wait, .. */
    uint32_t misses; /* .. since so many in a row waited in vain */
} gather_luck_t;

typedef struct gather {
    int64_t sealed_at;   /* mono ns at which the last batch was closed .. */
    int64_t durable_at;  /* .. and at which the last one was on the disk, .. */
    int64_t took_ns;     /* .. after so long */
    int64_t until;       /* mono ns at which the wait of the open one ends; 0: it does not wait */
    uint32_t sealed;     /* changes in the last batch */
    uint32_t awaited;    /* so many in the open one end its wait */
    uint32_t burst;      /* so many came together after the last rest; 0: no more than the first batch had */
    bool opened;         /* the open batch has had its first change */
    bool rested;         /* the open batch, or the one that is on its way, came after a rest */
    gather_luck_t usual; /* waits behind a sync */
    gather_luck_t first; /* waits after a rest */
} gather_t;

/* Does a batch with so many changes wait? */
static inline bool gather_waits(const gather_t *gather, uint32_t count, int64_t mono_ns) {
    return mono_ns < gather->until && count < gather->awaited;
}

/* A wait has ended. came: nearly all that was waited for is there. */
static inline void gather_learn(gather_luck_t *luck, bool came) {
    luck->misses = came ? 0 : luck->misses < GATHER_MISSES ? luck->misses + 1 : GATHER_MISSES;
    luck->skip = came ? 0 : 1u << luck->misses;
}

/* Whether the next wait is left out. */
static inline bool gather_skips(gather_luck_t *luck) {
    if (luck->skip == 0) {
        return false;
    }
    luck->skip--;
    return true;
}

/* The open batch has changes, and none is on its way: said again and again until it is closed. */
static inline void gather_opened(gather_t *gather, int64_t mono_ns) {
    bool first = !gather->opened;
    gather->opened = true;
    if (!first || mono_ns - gather->durable_at < GATHER_REST_NS || mono_ns < gather->until) {
        return;
    }
    if (gather->until != 0) {
        gather_learn(&gather->usual, false); /* nobody came behind the last sync */
        gather->until = 0;
    }
    gather->rested = true;
    if (gather->burst > 0 && gather->took_ns > 0 && !gather_skips(&gather->first)) {
        gather->until = mono_ns + gather->took_ns / 2;
        gather->awaited = gather->burst;
    }
}

/* A batch with so many changes is closed. */
static inline void gather_sealed(gather_t *gather, uint32_t count, int64_t mono_ns) {
    if (gather->until != 0) {
        bool came = (uint64_t)count * 8 >= (uint64_t)gather->awaited * 7;
        gather_learn(gather->rested ? &gather->first : &gather->usual, came);
    }
    gather->sealed_at = mono_ns;
    gather->sealed = count;
    gather->until = 0;
    gather->opened = false;
}

/* A batch that came after a rest is on the disk, and so many changes have come since. */
static inline void gather_burst(gather_t *gather, uint32_t count) {
    uint64_t both = (uint64_t)gather->sealed + count;
    bool many = count >= gather->sealed;
    bool came = gather->burst > 0 && (uint64_t)gather->sealed * 8 >= (uint64_t)gather->burst * 7;
    gather->burst = (many || came) && both <= GATHER_OPS ? (uint32_t)both : 0;
    gather->rested = false;
}

/* Notes that a batch is on disk, and that the open one has so many. */
static inline void gather_durable(gather_t *gather, uint32_t count, int64_t mono_ns) {
    int64_t took = mono_ns - gather->sealed_at;
    uint64_t both = (uint64_t)gather->sealed + count;
    gather->durable_at = mono_ns;
    gather->took_ns = took < GATHER_MIN_NS || took > GATHER_MAX_NS ? 0 : took;
    if (gather->rested) {
        gather_burst(gather, count);
        return;
    }
    if (gather->took_ns == 0 || both < 2 || both > GATHER_OPS || gather_skips(&gather->usual)) {
        return;
    }
    gather->until = mono_ns + took / 2;
    gather->awaited = (uint32_t)both;
}

#endif
