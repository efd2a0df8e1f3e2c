/* store.c: the pipeline. One store_tick: what came back from the journal and the keeper, background work, then the open
 * batch is closed and handed over when the journal is idle; when enough waits for it, a checkpoint is begun at that
 * batch's end.
 *
 * What does not live here: how a store begins and ends (life.c), its start over files (native/recovery).
 */
#include "store/dedupe.h"
#include "store/message.h"
#include "store/overlay.h"

#include <stdlib.h>

#include "base/check.h"
#include "disk/space.h"

#define CHECKPOINT_NS (5 * NS_PER_SECOND) /* the oldest batch in the overlay waits no longer */
/* a checkpoint begins when the ring is 1/8 full: CPU and rate are the same from 1/3 to 1/24, and replay after a kill is
 * the shorter the earlier */
#define CHECKPOINT_PART 8
#define CHECKPOINT_PART_NARROW 4 /* likewise of a narrow ring's memory */
#define NARROW_MIN (UINT64_C(4) << 20)
#define RING_USUAL_MAX (UINT64_C(8) << 20)
#define SPREAD 3 /* bytes of pages that are changed for a byte of a message: more than of those that lie in a row */
#define CHECKPOINT_SHORT_NS (200 * NS_PER_MS)
#define CHECKPOINT_MIN (UINT64_C(64) << 10)
#define HAND_BYTES (UINT64_C(256) << 10) /* the keeper is woken for so much, not for each batch */
#define TRIM_BYTES (UINT64_C(1) << 20)
#define REST_NS (250 * NS_PER_MS)       /* without a batch: then memory that is worth it goes back */
#define BACKGROUND_NS (100 * NS_PER_MS) /* how soon after appends deadlines are looked at */
#define UNREAD_NS (10 * NS_PER_SECOND)  /* without a read that failed, until that is called over */
#define POLL_NS (50 * NS_PER_MS)        /* a memory store's keeper is asked so often */

void store_clock(store_t *store, moment_t now) {
    if (LEAF_LIKELY(now.mono_ns == store->clock.mono && now.wall_ns == store->clock.wall && store->clock.running)) {
        return; /* a turn has one moment for all its messages */
    }
    int64_t step = clockwork_advance(&store->clock, now);
    store->now_mono = now.mono_ns;
    if (step != 0) {
        store_alarm(store, ALARM_CLOCK, 0, 0, "the wall clock stepped by %lld ms; ages go on by elapsed time",
                    (long long)(step / NS_PER_MS));
    }
}

/* ---- closing a batch --------------------------------------------------------------------------------------------- */

static void keep_clock(store_t *store) {
    static const char name[] = "clock";
    bytes_t key = bytes_of(name, sizeof name - 1);
    if (store->clock.kept && store->clock.mono - store->clock.kept_mono < CLOCK_KEEP_NS) {
        return;
    }
    if (!overlay_fits(store, op_size(key.size, VALUE_CRC_SIZE + CLOCK_RECORD_SIZE))) {
        return;
    }
    uint8_t *value = overlay_put(store, DB_META, key, VALUE_CRC_SIZE + CLOCK_RECORD_SIZE, false, NULL);
    clockwork_save(&store->clock, value + VALUE_CRC_SIZE);
    value_seal(key, value, VALUE_CRC_SIZE + CLOCK_RECORD_SIZE);
}

void store_seal(store_t *store) {
    gather_sealed(&store->gather, store->batches.count, store->now_mono);
    keep_clock(store);
    heads_settle(store);
    for (uint32_t i = 0; i < store->touched.count; i++) {
        store_stream_t *stream = store->touched.at[i];
        stream_settle(stream);
        stream->flight_last = stream->log.last_seq;
    }
    check(store->batches.promised == 0);
    check(store->flying.count == 0);
    stream_list_t empty = store->flying;
    store->flying = store->touched;
    store->touched = empty;
    store->flight_number = store->batches.number;
    batch_seal(&store->batches);
    store->flight_end = store->batches.begin;
    if (store->pending_since == INT64_MAX) {
        store->pending_since = store->now_mono;
    }
    keeper_seal(&store->keeper, store->flight_end);
    append_measure_room(store);
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

static void advance_visible(store_t *store) {
    for (uint32_t i = 0; i < store->flying.count; i++) {
        store_stream_t *stream = store->flying.at[i];
        commit_durable(stream, store->flight_number, stream->flight_last);
    }
    store->flying.count = 0;
}

static void take_durable(store_t *store) {
    uint64_t durable = atomic_load_explicit(&store->keeper.durable, memory_order_acquire);
    if (store->durable != store->flight_number && durable >= store->flight_end) {
        store->durable = store->flight_number;
        gather_durable(&store->gather, store->batches.count, store->now_mono);
        advance_visible(store);
    }
    bool checkpoint = store->boundary != 0 && !store->boundary_sent && durable >= store->boundary;
    uint64_t upto = checkpoint ? store->boundary : durable;
    if (store->boundary != 0 && store->boundary_sent) {
        return; /* what comes behind the running checkpoint waits for it, so that the commit ends at the boundary */
    }
    if (checkpoint || upto - store->handed >= HAND_BYTES) {
        store->handed = upto;
        store->boundary_sent = checkpoint;
        keeper_hand(&store->keeper, upto, checkpoint);
    }
}

/* Would a message of that size find room in a ring of that size? */
static bool ring_takes(uint64_t ring, uint64_t need) {
    return sizes_message_max(ring) >= need;
}

void store_rest(store_t *store) {
    batches_t *batches = &store->batches;
    uint32_t part = store->narrowed;
    while (part > 1
           && (batches->size / part < NARROW_MIN || !ring_takes(batches->size / part, store->options.message_max))) {
        part /= 2;
    }
    while (batches->size / part > batches->lap) {
        part *= 2;
    }
    batches_narrow(batches, part);
    store->cramped = 0;
    store->trimmed = batches->begin;
}

static bool trim_pays(const store_t *store) {
    return store->batches.begin - store->trimmed >= TRIM_BYTES;
}

/* Idle: the memory of the ring and of the notes on it goes back. Not at every checkpoint: faulting it in again costs
 * 0.15 us a message, a third of an append. */
static void ring_trim(store_t *store) {
    if (store->batches.begin == store->boundary && batch_is_empty(&store->batches) && trim_pays(store)) {
        store_rest(store);
        memtable_rest(&store->memtable);
    }
}

/* A small load goes round in little memory, which stays in the processor's cache, too. Publishers and removals that
 * wait for room, mostly since the disk takes its time, get twice as much, up to RING_USUAL_MAX: with more they are no
 * faster, since a checkpoint has the same size. What is large gets what it needs; and where each message changes pages
 * all over LMDB, as ids do, a larger checkpoint writes fewer of them. The journal thread has nothing in its hands just
 * now. */
static void ring_widen(store_t *store) {
    batches_t *batches = &store->batches;
    uint64_t wanted = number_most(store->options.message_max, store->wanted);
    bool more = batches->lap < RING_USUAL_MAX || store->cramped > batches->lap / CHECKPOINT_PART_NARROW
                || atomic_load_explicit(&store->keeper.spread, memory_order_relaxed) >= SPREAD;
    uint64_t lap = batches->lap;
    if (more && (!store_room(store) || store->cramped > 0)) {
        lap *= 2;
    }
    while (lap < batches->size && !ring_takes(lap, wanted)) {
        lap *= 2;
    }
    if (lap > batches->lap && batches->room == batches->lap && batches_widen(batches, lap)) {
        store->cramped = 0;
        append_measure_room(store);
    }
}

/* So large a message does not fit into a narrow ring. false: it cannot be widened just now, but is soon. */
bool store_widen_for(store_t *store, uint64_t need) {
    if (LEAF_LIKELY(store->batches.lap == store->batches.size || ring_takes(store->batches.lap, need))) {
        return false; /* it waits for room as others do */
    }
    store->options.message_max = number_most(store->options.message_max, need); /* more of them are likely */
    if (store->durable == store->flight_number) {
        ring_widen(store);
    }
    return ring_takes(store->batches.room, need);
}

/* A ring that is larger than it may be in memory goes on through its places all the same: what is checkpointed goes
 * back at once. */
static void ring_give_back(store_t *store) {
    const uint64_t step = 64 * 1024; /* what batches_trim gives back is whole ones of these */
    uint64_t from = store->trimmed / step * step;
    uint64_t lap = store->boundary > store->batches.size ? store->boundary - store->batches.size : 0;
    batches_trim(&store->batches, from > lap ? from : lap, store->boundary);
    store->trimmed = store->boundary;
}

/* The keeper has committed in the middle of a checkpoint for lack of room. The newer snapshot serves as well (the
 * memtable is asked first), and LMDB may use again what only the older one could see. */
static void take_pieces(store_t *store) {
    uint64_t pieces = atomic_load_explicit(&store->keeper.pieces, memory_order_acquire);
    if (pieces != store->pieces && env_renew(store->env) == STATUS_OK) {
        store->pieces = pieces;
        store->cursor_seq = 0;
    }
    if (LEAF_UNLIKELY(atomic_load_explicit(&store->keeper.sealed_anew, memory_order_acquire))) {
        atomic_store(&store->keeper.sealed_anew, false);
        store_alarm(store, ALARM_KEY, 0, 0, "%s is encrypted with the new key alone: prev_key is not needed any more",
                    store->directory);
    }
}

/* LMDB takes no more writes since one of them failed, and is likely to take them when it was opened again. Between two
 * ticks nobody holds anything of it. The memtable has all that LMDB may lack. */
static void take_parked(store_t *store) {
    if (!atomic_load_explicit(&store->keeper.parked, memory_order_acquire)) {
        return;
    }
    bool unreadable = env_reopen(store->env) != STATUS_OK;
    if (unreadable && !store->unreadable) {
        store_alarm(store, ALARM_IO, 0, 0, "what is stored in %s cannot be opened again: it is not served until it can",
                    store->directory);
    }
    store->unreadable = unreadable;
    store->cursor_seq = 0;
    keeper_unpark(&store->keeper);
}

static void take_checkpoint(store_t *store) {
    uint64_t done = atomic_load_explicit(&store->keeper.checkpointed, memory_order_acquire);
    if (store->boundary == 0 || done < store->boundary || !keeper_free(&store->keeper, store->boundary)) {
        return;
    }
    if (env_renew(store->env) != STATUS_OK) {
        return; /* the old snapshot with all of the overlay over it stays right; the next tick tries again */
    }
    store->cursor_seq = 0;
    batches_free(&store->batches, store->boundary);
    if (store->resident < store->batches.size) {
        ring_give_back(store);
    }
    adopted_drop(store);
    memtable_drop(&store->memtable);
    newcomers_drop(&store->record_ops);
    for (uint32_t i = 0; i < store->streams.count; i++) {
        stream_drop(store->streams.at[i]);
    }
    ring_trim(store);
    store->boundary = 0;
    store->background_at = store->now_mono;
}

static void space_alarm(store_t *store, bool limit) {
    uint64_t free_mb = atomic_load_explicit(&store->keeper.disk_free, memory_order_relaxed) >> 20;
    if (!store->space_trouble) {
        store_alarm(store, ALARM_DISK_OK, 0, 0, "%s has room again", store->directory);
    } else if (limit) {
        store_alarm(store, ALARM_DISK_FULL, 0, 0,
                    "%s has reached its limit: publishers are refused until something is removed", store->directory);
    } else {
        store_alarm(
            store, ALARM_DISK_FULL, 0, 0,
            "the disk of %s is full (%llu MB free): publishers are refused until there is room again, all else goes on",
            store->directory, (unsigned long long)free_mb);
    }
}

static void take_trouble(store_t *store) {
    int journal = atomic_load_explicit(&store->keeper.journal_trouble, memory_order_acquire);
    int keeper = atomic_load_explicit(&store->keeper.keeper_trouble, memory_order_acquire);
    store->admits = atomic_load_explicit(&store->keeper.admits, memory_order_acquire);
    bool space = journal == STATUS_NO_SPACE || keeper == STATUS_NO_SPACE;
    bool io = (journal != STATUS_OK || keeper != STATUS_OK) && !space;
    bool tight = store->admits < (store->space_trouble ? SPACE_RESUME : SPACE_STOP);
    if ((space || tight) != store->space_trouble) {
        store->space_trouble = space || tight;
        space_alarm(store,
                    !space && atomic_load_explicit(&store->keeper.short_by, memory_order_relaxed) == SPACE_LIMIT);
    }
    if (io != store->io_trouble) {
        store->io_trouble = io;
        store_alarm(store, io ? ALARM_IO : ALARM_DISK_OK, 0, 0,
                    io ? "writing to %s fails: publishers are refused, it is tried again" : "writing to %s works again",
                    store->directory);
    }
    append_measure_room(store);
}

/* What was asked when LMDB could not be read waits or was refused. */
static void take_unread(store_t *store) {
    uint64_t unread = env_unread(store->env);
    if (LEAF_LIKELY(unread == store->unread_seen && !store->unread)) {
        return;
    }
    if (unread != store->unread_seen) {
        store->unread_seen = unread;
        store->unread_at = store->now_mono;
    }
    bool now = store->now_mono - store->unread_at < UNREAD_NS;
    if (now != store->unread) {
        store->unread = now;
        store_alarm(store, now ? ALARM_IO : ALARM_DISK_OK, 0, 0,
                    now ? "reading %s fails: what needs what cannot be read waits or is refused, it is tried again"
                        : "reading %s works again",
                    store->directory);
    }
}

/* ---- background -------------------------------------------------------------------------------------------------- */

/* However much is due, and in however many streams: so much of it, and then everybody else's messages before more. */
static void store_background(store_t *store) {
    int64_t age_now = store->clock.age;
    int64_t next = INT64_MAX;
    bool room = store_room(store);
    uint64_t unread = env_unread(store->env);
    uint32_t steps = LOOK_STEPS;
    for (uint32_t left = store->streams.count; left > 0; left--) {
        if (steps == 0) {
            next = age_now;
            break;
        }
        store_stream_t *stream = store->streams.at[store->looked++ % store->streams.count];
        if (LEAF_UNLIKELY(stream->log.first_open)) {
            (void)!log_seek_first(stream, &steps);
        }
        room = limits_expire(stream, age_now, &steps) && room;
        if (stream->config.duplicate_window_ns > 0) {
            dedupe_expire(stream, age_now, &steps);
        }
        if (stream->over_limit) {
            limits_enforce(stream, &steps);
        }
        int64_t deadline = limits_deadline(stream);
        int64_t ids = dedupe_deadline(stream);
        deadline = ids < deadline ? ids : deadline;
        deadline = stream->over_limit || stream->log.first_open ? age_now : deadline;
        next = deadline < next ? deadline : next;
    }
    next = clockwork_mono_at(&store->clock, next);
    /* What is due and found no room is tried again soon, not at once: the plane would go round at full speed until
     * there is some. */
    room = room && unread == env_unread(store->env);
    int64_t soonest = room ? store->now_mono : store->now_mono + BACKGROUND_NS;
    store->background_at = next > soonest ? next : soonest;
}

/* The less publishers may hold in the ring, the smaller the checkpoints. */
static uint64_t checkpoint_bytes(const store_t *store) {
    uint64_t usual = number_least(store->resident / CHECKPOINT_PART, store->batches.room / CHECKPOINT_PART_NARROW);
    uint64_t part = store->admits / 4 > CHECKPOINT_MIN ? store->admits / 4 : CHECKPOINT_MIN;
    return part < usual ? part : usual;
}

/* When the next one is due, however little it is for. Without room, what a removal frees is wanted soon. */
static int64_t checkpoint_at(const store_t *store) {
    int64_t at = store->pending_since + (store->space_trouble ? CHECKPOINT_SHORT_NS : CHECKPOINT_NS);
    int64_t rest = trim_pays(store) ? store->gather.sealed_at + REST_NS : INT64_MAX;
    return rest < at ? rest : at;
}

static bool checkpoint_due(const store_t *store) {
    if (store->boundary != 0 || store->pending_since == INT64_MAX) {
        return false;
    }
    if (batches_used(&store->batches) >= checkpoint_bytes(store) || store->batches.room < store->batches.lap) {
        return true;
    }
    return store->now_mono >= checkpoint_at(store);
}

/* At the end of a batch, before the next one has an op. */
static void begin_checkpoint(store_t *store) {
    check(batch_is_empty(&store->batches));
    store->boundary = store->batches.begin;
    store->boundary_sent = false;
    store->pending_since = INT64_MAX;
    memtable_rotate(&store->memtable);
    store->record_ops.boundary = store->record_ops.count;
    for (uint32_t i = 0; i < store->streams.count; i++) {
        stream_rotate(store->streams.at[i]);
    }
}

static void take_news(store_t *store) {
    keeper_heard(&store->keeper);
    take_parked(store);
    take_durable(store);
    commit_follow(store);
    take_pieces(store);
    take_checkpoint(store);
    take_trouble(store);
    take_unread(store);
}

void store_tick(store_t *store, moment_t now) {
    store_clock(store, now);
    store->spare_spent = 0;
    env_forget(store->env);
    take_news(store);
    if (store->now_mono >= store->background_at) {
        store_background(store);
    }
    bool idle = store->durable == store->flight_number;
    if (idle && store->batches.lap < store->batches.size) {
        ring_widen(store);
    }
    if (idle && !store_batch_empty(store) && !store_gathers(store)) {
        if (store->background_at > store->now_mono + BACKGROUND_NS) {
            store->background_at = store->now_mono + BACKGROUND_NS;
        }
        store_seal(store);
        if (checkpoint_due(store)) {
            begin_checkpoint(store);
        }
    } else if (store_batch_empty(store) && checkpoint_due(store)) {
        begin_checkpoint(store);
    }
    if (store->options.memory || (store->boundary != 0 && !store->boundary_sent)) {
        take_durable(store);
    }
}

bool store_gathers(const store_t *store) {
    return gather_waits(&store->gather, store->batches.count, store->now_mono);
}

int64_t store_next_deadline(const store_t *store) {
    int64_t deadline = store->background_at;
    if (store_gathers(store) && !store_batch_empty(store) && store->gather.until < deadline) {
        deadline = store->gather.until;
    }
    if (store->boundary != 0) {
        int64_t poll = store->options.memory ? store->now_mono + POLL_NS : INT64_MAX;
        return poll < deadline ? poll : deadline;
    }
    int64_t checkpoint = store->pending_since != INT64_MAX ? checkpoint_at(store) : INT64_MAX;
    return checkpoint < deadline ? checkpoint : deadline;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

int store_wake_fd(const store_t *store) {
    return store->options.memory ? -1 : store->keeper.plane_fd;
}

uint64_t store_batch(const store_t *store) {
    return store->batches.number;
}

bool store_batch_empty(const store_t *store) {
    return batch_is_empty(&store->batches) && store->touched.count == 0 && store->heads.dirty_count == 0;
}

uint64_t store_durable(const store_t *store) {
    return store->durable;
}

bool store_room(const store_t *store) {
    return store->batches.end + store->batches.promised < store->room_end;
}

store_stream_t *store_advanced_next(store_t *store) {
    if (store->advanced.count == 0) {
        return NULL;
    }
    store_stream_t *stream = store->advanced.at[--store->advanced.count];
    stream->advanced = false;
    return stream;
}

bool store_alarm_next(store_t *store, store_alarm_t *alarm) {
    if (store->alarm_count == 0) {
        return false;
    }
    *alarm = store->alarms[store->alarm_begin];
    store->alarm_begin = (store->alarm_begin + 1) % STORE_ALARMS_MAX;
    store->alarm_count--;
    return true;
}

void store_set_hooks(store_t *store, store_hooks_t hooks) {
    store->hooks = hooks;
}

void store_stats(const store_t *store, plane_stats_t *stats) {
    const keeper_t *keeper = &store->keeper;
    stats->streams += store->streams.count;
    stats->store_messages += store->sums.messages;
    *(store->options.memory ? &stats->memory_bytes : &stats->store_bytes) += store->sums.bytes;
    if (!store->options.memory) {
        stats->disk_bytes += atomic_load_explicit(&keeper->used_bytes, memory_order_relaxed) + store->journal.size;
        stats->disk_free += atomic_load_explicit(&keeper->disk_free, memory_order_relaxed);
        stats->disk_reserved += atomic_load_explicit(&keeper->ahead_bytes, memory_order_relaxed);
    }
    if (store->space_trouble || store->io_trouble) {
        stats->refusing += store->options.memory ? 2 : 1;
    }
    stats->journal_batches += store->options.memory ? 0 : store->durable - store->first_batch;
    stats->journal_bytes += atomic_load_explicit(&keeper->journal_bytes, memory_order_relaxed);
    stats->journal_syncs += atomic_load_explicit(&keeper->journal_syncs, memory_order_relaxed);
    stats->journal_rounds += atomic_load_explicit(&keeper->journal_rounds, memory_order_relaxed);
    if (!store->options.memory) {
        /* In this order: durable never passes what was sealed before it was read. */
        uint64_t durable = atomic_load_explicit(&keeper->durable, memory_order_acquire);
        stats->journal_waiting += atomic_load_explicit(&keeper->sealed, memory_order_relaxed) - durable;
    }
    stats->checkpoints += atomic_load_explicit(&keeper->checkpoints, memory_order_relaxed);
    stats->overlay_bytes += batches_used(&store->batches);
    *(store->options.memory ? &stats->memory_memory_ring : &stats->memory_ring) += batches_used(&store->batches);
    stats->memory_overlay += memtable_bytes(&store->memtable) + heads_bytes(&store->heads) + store->ids_bytes;
    stats->memory_keeper += atomic_load_explicit(&keeper->changed, memory_order_relaxed);
    stats->corrupt_records += store->corrupt;
    stats->events_dropped += store->alarms_dropped;
    stats->replayed_batches += store->replayed;
}
