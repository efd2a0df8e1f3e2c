/* linger.c: see linger.h. */
#include "store/linger.h"

#include "base/number.h"
#include "store/core.h"

/* of what publishers could still take when the checkpoint began */
#define CROWDED 3
#define CROWDED_OF 4

/* What is in LMDB already is not waited for. */
static bool has_before(const ledger_t *ledger, uint64_t boundary) {
    uint64_t position = positions_of(&ledger->young, ledger->floor + 1);
    return position >= ledger->store->batches.freed && position != 0 && position < boundary;
}

void linger_begin(store_t *store, bool large) {
    lingering_t *linger = &store->linger;
    bool wanted = large && store->ledgers.bytes > 0;
    linger->until = wanted && linger->skip == 0 ? store->turn.now_mono + LINGER_NS : 0;
    linger->skip -= wanted && linger->skip > 0 ? 1 : 0;
    linger->passed = 0;
    linger->batch = 0;
    linger->began = batches_used(&store->batches);
    linger->count += linger->until != 0 ? 1 : 0;
}

uint64_t store_lingers(const store_t *store) {
    return store->linger.count;
}

/* Those that have been looked at have none again: what comes lies behind the boundary. One that takes the place of a
 * ledger that goes may be passed over; then its entries come to LMDB. */
static bool all_have_passed(store_t *store) {
    lingering_t *linger = &store->linger;
    const ledgers_t *ledgers = &store->ledgers;
    while (linger->passed < ledgers->count && !has_before(ledgers->at[linger->passed], store->pipeline.boundary)) {
        linger->passed++;
    }
    return linger->passed >= ledgers->count;
}

static void linger_end(lingering_t *linger, bool came) {
    linger->until = 0;
    linger->skip = came ? 0 : (1u << linger->misses) - 1;
    linger->misses = came ? 0 : (uint32_t)number_least(linger->misses + 1, LINGER_MISSES_MAX);
}

/* Publishers are not to wait for the checkpoint: what is left is for those that come while it ends. */
static bool is_crowded(const store_t *store) {
    uint64_t began = store->linger.began;
    uint64_t most = began + number_less(store->room.most, began) / CROWDED_OF * CROWDED;
    return batches_used(&store->batches) + store->batches.promised > most;
}

bool linger_waits(store_t *store) {
    lingering_t *linger = &store->linger;
    if (linger->until == 0) {
        return false;
    }
    if (linger->batch == 0 && all_have_passed(store)) {
        /* The open one, at the latest, has what removes them. */
        linger->batch = store_batch_empty(store) ? store->pipeline.flight_number : store->batches.number;
    }
    bool came = linger->batch != 0 && store->pipeline.durable >= linger->batch;
    if (came || store->turn.now_mono >= linger->until || is_crowded(store) || store->pipeline.wanted) {
        linger_end(linger, came);
    }
    return linger->until != 0;
}

bool store_ledger_awaited(const ledger_t *ledger) {
    const store_t *store = ledger->store;
    return store->linger.until != 0 && store->linger.batch == 0 && has_before(ledger, store->pipeline.boundary);
}
