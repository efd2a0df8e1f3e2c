/* mending.h: what a store does about a damaged page of data.mdb that it met while it runs. Nobody outside native/store
 * includes this.
 */
#ifndef LEAFD_STORE_MENDING_H
#define LEAFD_STORE_MENDING_H

#include "disk/env.h"
#include "store/derive.h"
#include "store/store.h"

/* A damaged page that is being made anew. */
typedef struct patching { /* only mending.c writes to it */
    env_patch_t *patch;   /* a leaf of messages; NULL: there is none */
    env_regrow_t *regrow; /* another one, likewise .. */
    derive_t *derive;     /* .. and what may belong on it */
    uint64_t page;
    const char *what;
    uint32_t stream;
} patching_t;

static inline bool mending_runs(const patching_t *patching) {
    return patching->patch != NULL || patching->regrow != NULL;
}
/* Takes up what reads and writes met, in each tick. */
void mending_tick(store_t *store);
/* Ends what is under way. Before env_close. */
void mending_end(store_t *store);

#endif
