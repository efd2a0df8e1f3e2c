/* room.c: see room.h.
 */
#include "store/room.h"

#include "base/number.h"
#include "disk/space.h"
#include "store/append.h"
#include "store/message.h"
#include "store/overlay.h"

#define NARROWED 4 /* clients that wait for each answer need no more than a part of the ring, nor does a short burst */
#define NARROW_MIN (UINT64_C(4) << 20)
#define RING_USUAL_MAX (UINT64_C(8) << 20)
#define RING_LOGGED_PART 16 /* entries of logs that take so much of it are those of a load */
#define TRIM_BYTES (UINT64_C(1) << 20)

void room_take(store_t *store) {
    store->room.admits = atomic_load_explicit(&store->keeper.admits, memory_order_acquire);
    store->room.grants = atomic_load_explicit(&store->keeper.grants, memory_order_acquire);
}

void room_open(store_t *store) {
    store->room.largest = store->options.message_max;
    room_take(store);
    store->room.resident = sizes_ring_within(store->batches.size, store->options.ring_max);
    store->room.narrowed = store->room.resident < store->batches.size ? 1 : NARROWED;
}

/* The largest message that a batch can hold at all, so that a message that never fits is not told to come again. */
uint64_t room_message_max(const store_t *store) {
    return number_least(sizes_message_max(store->batches.size), STORE_MESSAGE_MAX);
}

/* How much may be taken so that one more message of any size finds room: in the ring, and in the open batch. Asked
 * after each message, so it is one position, which holds until the open batch is another or something was freed. */
void room_measure(store_t *store) {
    const batches_t *batches = &store->batches;
    store->room.holds = number_least(store->room.admits, number_least(store->room.resident, batches->room) / 8 * 7);
    store->room.most = store->room.holds;
    if (store->trouble.space || store->trouble.io) {
        store->room.end = UINT64_MAX; /* publishers are to hear that they are refused, not to hang */
        return;
    }
    /* Larger ones than a batch can hold at all are refused: room is not kept for them, or there would never be any. */
    uint64_t largest = number_least(store->room.largest, room_message_max(store));
    uint64_t one = number_least(number_most(largest + ROOM_ONE_MORE, store->room.wanted), store->room.holds / 2);
    uint64_t open = number_less(batches->room / 2 - batches->room / SIZES_RESERVE_PART, one);
    store->room.most = number_least(store->room.holds / 7 * 6, store->room.holds - one);
    store->room.end =
        number_least(batches->begin + number_least(open, store->room.holds / 7), batches->freed + store->room.most);
}

bool store_refuses(const store_t *store) {
    return store->trouble.space || store->trouble.io;
}

bool store_tight(const store_t *store) {
    bool bounded = store->room.admits < store->batches.size / 8 * 7;
    return store_refuses(store) || (bounded && batches_used(&store->batches) > store->room.admits);
}

bool store_room(const store_t *store) {
    return store->batches.end + store->batches.promised < store->room.end;
}

/* In the ring, which disk (space.h) and memory may not be large enough to have filled. */
bool room_for(store_t *store, uint64_t need) {
    return batches_used(&store->batches) + store->batches.promised + need <= store->room.holds
           && overlay_fits(store, need + store->batches.room / SIZES_RESERVE_PART);
}

uint64_t room_agreed_most(const store_t *store) {
    return number_least(store->room.grants, number_least(store->room.resident, store->batches.room) / 8 * 7);
}

bool room_for_agreed(store_t *store, uint64_t need) {
    const batches_t *batches = &store->batches;
    return batches_used(batches) + batches->promised + need <= room_agreed_most(store)
           && overlay_fits(store, need + batches->room / SIZES_RESERVE_PART);
}

void room_want(store_t *store, uint64_t need) {
    if (store->room.wanted != need) {
        store->room.wanted = need;
        room_measure(store);
    }
}

void room_cramped(store_t *store, uint64_t need) {
    store->room.largest_refused = number_most(store->room.largest_refused, need);
}

uint64_t store_group_most(const store_t *store) {
    uint64_t most = number_least(room_message_max(store) + ROOM_ONE_MORE,
                                 number_least(store->room.admits, store->room.resident / 8 * 7) / 2);
    return number_less(most, ROOM_EVICTION + STREAM_PROMISE);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Would a message of that size find room in a ring of that size? */
static bool ring_takes(uint64_t ring, uint64_t need) {
    return sizes_message_max(ring) >= need;
}

void room_rest(store_t *store) {
    batches_t *batches = &store->batches;
    uint32_t part = store->room.narrowed;
    while (part > 1 && (batches->size / part < NARROW_MIN || !ring_takes(batches->size / part, store->room.largest))) {
        part /= 2;
    }
    while (batches->size / part > batches->lap) {
        part *= 2;
    }
    batches_narrow(batches, part);
    store->room.largest_refused = 0;
    store->room.trimmed = batches->begin;
}

bool room_trim_pays(const store_t *store) {
    return store->batches.begin - store->room.trimmed >= TRIM_BYTES;
}

bool room_is_drained(const store_t *store) {
    return store->pipeline.boundary == 0 && store->batches.begin == store->batches.freed && store_batch_empty(store);
}

/* Idle: the memory of the ring and of the notes on it goes back. Not at every checkpoint: faulting it in again costs
 * 0.15 us a message, a third of an append. And not while an open batch without an op has promised some. */
void room_trim(store_t *store) {
    check(room_is_drained(store));
    room_rest(store);
    memtable_rest(&store->memtable);
}

bool room_is_spread(const store_t *store) {
    return atomic_load_explicit(&store->keeper.scattered, memory_order_relaxed);
}

/* A replicated message is in the ring twice, and a checkpoint waits for its entry to go (linger.h). */
static uint64_t ring_usual(const store_t *store) {
    bool logged = store->ledgers.bytes >= RING_USUAL_MAX / RING_LOGGED_PART;
    return logged ? RING_USUAL_MAX * 2 : RING_USUAL_MAX;
}

/* A small load goes round in little memory, which stays in the processor's cache, too. Publishers and removals that
 * wait for room, mostly since the disk takes its time, get twice as much, up to what is usual: with more they are no
 * faster, since a checkpoint has the same size. What is large gets what it needs; and where each message changes pages
 * all over LMDB, as many subjects and ids do, all of the ring is used, and a larger checkpoint writes fewer of them.
 * The journal thread has nothing in its hands just now. */
void room_widen(store_t *store) {
    batches_t *batches = &store->batches;
    uint64_t wanted = number_most(store->room.largest, store->room.wanted);
    bool spread = room_is_spread(store);
    bool more = batches->lap < ring_usual(store) || store->room.largest_refused > batches->lap / WIDEN_PART || spread;
    bool full = !store_room(store) || store->room.largest_refused > 0
                || (spread && batches_used(batches) >= batches->lap / WIDEN_PART);
    uint64_t lap = batches->lap;
    if (more && full) {
        lap *= 2;
    }
    while (lap < batches->size && !ring_takes(lap, wanted)) {
        lap *= 2;
    }
    if (lap > batches->lap && batches->room == batches->lap && batches_widen(batches, lap)) {
        store->room.largest_refused = 0;
        room_measure(store);
    }
}

/* So large a message does not fit into a narrow ring. false: it cannot be widened just now, but is soon. */
bool room_widen_for(store_t *store, uint64_t need) {
    if (LEAF_LIKELY(store->batches.lap == store->batches.size || ring_takes(store->batches.lap, need))) {
        return false; /* it waits for room as others do */
    }
    store->room.largest = number_most(store->room.largest, need); /* more of them are likely */
    if (store->pipeline.durable == store->pipeline.flight_number) {
        room_widen(store);
    }
    return ring_takes(store->batches.room, need);
}

/* A ring that is larger than it may be in memory goes on through its places all the same: what is checkpointed goes
 * back at once. */
void room_give_back(store_t *store) {
    if (store->room.resident == store->batches.size) {
        return;
    }
    const uint64_t step = 64 * 1024; /* what batches_trim gives back is whole ones of these */
    uint64_t from = store->room.trimmed / step * step;
    uint64_t lap = store->pipeline.boundary > store->batches.size ? store->pipeline.boundary - store->batches.size : 0;
    batches_trim(&store->batches, from > lap ? from : lap, store->pipeline.boundary);
    store->room.trimmed = store->pipeline.boundary;
}
