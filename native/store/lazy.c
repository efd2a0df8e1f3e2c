/* lazy.c: see lazy.h. */
#include "store/lazy.h"

#include "store/core.h"

void lazy_begin(store_t *store) {
    lazy_t *lazy = &store->lazy;
    if (lazy->batch != store->batches.number) {
        int64_t moment_ns = lazy->took_ns / 2;
        moment_ns = moment_ns < LAZY_MIN_NS ? LAZY_MIN_NS : moment_ns > LAZY_MAX_NS ? LAZY_MAX_NS : moment_ns;
        lazy->batch = store->batches.number;
        lazy->count = 0;
        lazy->until = store->turn.now_mono + moment_ns;
    }
    lazy->begun = store->batches.count;
}

void lazy_end(store_t *store) {
    store->lazy.count += store->batches.count - store->lazy.begun;
    store->lazy.shown = false;
}

void lazy_durable(store_t *store, int64_t took_ns) {
    store->lazy.took_ns = took_ns;
}

void lazy_show(store_t *store) {
    if (!store->lazy.shown) {
        carried_show_applied(store);
        store->lazy.shown = true;
    }
}

void store_hurry(store_t *store) {
    store->lazy.hurried = store->batches.number;
}

bool lazy_waits(const store_t *store) {
    const lazy_t *lazy = &store->lazy;
    return lazy->batch == store->batches.number && lazy->count == store->batches.count && lazy->hurried != lazy->batch
           && store->turn.now_mono < lazy->until;
}
