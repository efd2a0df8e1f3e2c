/* changed.h: about how much memory the pages take that LMDB's open write transaction has changed. LMDB changes a copy
 * of a page and keeps all copies until the commit, but does not say how many; they lie where it shows the values that
 * were put. Counted are frames of memory of a page's size, by a table that forgets some: rather too many than too few.
 */
#ifndef LEAFD_DISK_CHANGED_H
#define LEAFD_DISK_CHANGED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CHANGED_SEEN 4096u
#define CHANGED_FRAME_BITS 12u

typedef struct changed {
    uint64_t max; /* bytes, 0 = no bound */
    uint64_t frames;
    uint64_t earlier;             /* of transactions that are over, until somebody sets it to 0 */
    uintptr_t seen[CHANGED_SEEN]; /* frames that were counted, by their last bits */
} changed_t;

/* A value was put there. */
static inline void changed_note(changed_t *changed, const void *at, uint64_t size) {
    uintptr_t frame = (uintptr_t)at >> CHANGED_FRAME_BITS;
    uintptr_t *seen = &changed->seen[frame % CHANGED_SEEN];
    if (*seen != frame) {
        *seen = frame;
        changed->frames += 1 + (size >> CHANGED_FRAME_BITS);
    }
}

static inline uint64_t changed_bytes(const changed_t *changed) {
    return changed->frames << CHANGED_FRAME_BITS;
}

/* With those of earlier transactions. */
static inline uint64_t changed_in_all(const changed_t *changed) {
    return (changed->earlier + changed->frames) << CHANGED_FRAME_BITS;
}

static inline bool changed_full(const changed_t *changed) {
    return changed->max != 0 && changed_bytes(changed) > changed->max;
}

/* The transaction is over. */
static inline void changed_forget(changed_t *changed) {
    if (changed->frames != 0) {
        changed->earlier += changed->frames;
        changed->frames = 0;
        memset(changed->seen, 0, sizeof changed->seen);
    }
}

#endif
