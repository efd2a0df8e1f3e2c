/* store.c: the pipeline. One store_tick: what came back from the journal and the keeper, background work, then the open
 * batch is closed and handed over when the journal is idle; when enough waits for it, a checkpoint is begun at that
 * batch's end.
 *
 * Not here: how a store begins and ends (lifecycle.c), its start over files (native/recovery).
 */
#include "store/dedupe.h"
#include "store/mending.h"
#include "store/message.h"
#include "store/overlay.h"
#include "store/recount.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/number.h"
#include "base/visits.h"
#include "disk/space.h"

/* The oldest batch in the overlay waits no longer. A checkpoint for one message writes ten pages of LMDB. */
#define CHECKPOINT_NS (20 * NS_PER_SECOND)
/* a checkpoint begins when the ring is 1/8 full: CPU and rate are the same from 1/3 to 1/24, and replay after a kill is
 * the shorter the earlier */
#define CHECKPOINT_PART 8
/* .. and half of what there is memory for, where changes are spread: a page that two messages change is written once */
#define CHECKPOINT_PART_SPREAD 2
#define CHECKPOINT_PART_ADMITTED 4 /* of what publishers may hold */
/* .. and half of a narrow ring, while no more comes than that in a second: each checkpoint writes some ten pages again,
 * and the kernel counts some thirty more. What comes in the meantime has the other half, and nobody waits for it. */
#define CHECKPOINT_PART_CALM 2
#define CALM_RATE UINT64_C(8000000)
#define CHECKPOINT_SHORT_NS (200 * NS_PER_MS)
#define CHECKPOINT_MIN (UINT64_C(64) << 10)
#define HAND_BYTES (UINT64_C(256) << 10) /* the keeper is woken for so much, not for each batch */
#define REST_NS (250 * NS_PER_MS)        /* without a batch: then memory that is worth it goes back */
#define BACKGROUND_NS (100 * NS_PER_MS)  /* how soon after appends deadlines are looked at */
#define UNREAD_NS (10 * NS_PER_SECOND)   /* without a read that failed, until that is called over */
#define POLL_NS (50 * NS_PER_MS)         /* a memory store's keeper is asked so often */
#define LOOK_STREAMS 1024u               /* in one turn: some tenths of a millisecond where nothing is due */

void store_clock(store_t *store, moment_t now) {
    if (LEAF_LIKELY(now.mono_ns == store->clock.mono && now.wall_ns == store->clock.wall && store->clock.running)) {
        return; /* a turn has one moment for all its messages */
    }
    int64_t step = clockwork_advance(&store->clock, now);
    store->turn.now_mono = now.mono_ns;
    if (now.mono_ns - store->turn.judged_at >= NS_PER_SECOND) {
        store->turn.judged_at = now.mono_ns;
        env_judge_again(store->env);
    }
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

void store_look_soon(store_t *store) {
    store->turn.background_at = store->turn.now_mono;
    store->turn.look_again = true;
}

void store_look_over(store_t *store) {
    if (store->turn.look_left > 0) {
        store->turn.look_again = true;
    }
}

void store_seal(store_t *store) {
    gather_sealed(&store->pipeline.gather, store->batches.count, store->turn.now_mono);
    keep_clock(store);
    heads_settle(store);
    carried_seal(store);
    ledgers_settle(store);
    check(store->batches.promised == 0);
    store->pipeline.flight_number = store->batches.number;
    batch_seal(&store->batches);
    store->pipeline.flight_end = store->batches.begin;
    if (store->pipeline.pending_since == INT64_MAX) {
        store->pipeline.pending_since = store->turn.now_mono;
    }
    if (LEAF_UNLIKELY(store->ledgers.count > 0 && store->options.sync_interval_ns != 0)) {
        ledgers_sealed(store, store->pipeline.flight_number, store->pipeline.flight_end);
    }
    keeper_seal(&store->keeper, store->pipeline.flight_end);
    room_measure(store);
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

static void take_durable(store_t *store) {
    uint64_t durable = atomic_load_explicit(&store->keeper.durable, memory_order_acquire);
    if (store->pipeline.durable != store->pipeline.flight_number && durable >= store->pipeline.flight_end) {
        store->pipeline.durable = store->pipeline.flight_number;
        lazy_durable(store, store->turn.now_mono - store->pipeline.gather.sealed_at);
        gather_durable(&store->pipeline.gather, store->batches.count, store->turn.now_mono);
        carried_durable(store, store->pipeline.durable);
    }
    if (LEAF_UNLIKELY(store->ledgers.oldest.number != 0)) {
        ledgers_follow(store);
    }
    uint64_t boundary = store->pipeline.boundary;
    if (boundary != 0 && store->pipeline.boundary_sent) {
        return; /* what comes behind the running checkpoint waits for it, so that the commit ends at the boundary */
    }
    bool checkpoint = boundary != 0 && durable >= boundary && !linger_waits(store);
    uint64_t upto = boundary != 0 ? number_least(durable, boundary) : durable;
    if (checkpoint || upto - store->pipeline.handed >= HAND_BYTES) {
        store->pipeline.handed = upto;
        store->pipeline.boundary_sent = checkpoint;
        keeper_hand(&store->keeper, upto, checkpoint);
    }
}

/* The keeper has committed in the middle of a checkpoint for lack of room. The newer snapshot serves as well (the
 * memtable is asked first), and LMDB may use again what only the older one could see. */
static void take_pieces(store_t *store) {
    uint64_t pieces = atomic_load_explicit(&store->keeper.pieces, memory_order_acquire);
    if (pieces != store->pipeline.pieces && env_renew(store->env) == STATUS_OK) {
        store->pipeline.pieces = pieces;
        read_forget(store);
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
    if (unreadable && !store->trouble.unreadable) {
        store_alarm(store, ALARM_IO, 0, 0, "what is stored in %s cannot be opened again: it is not served until it can",
                    store->directory);
    }
    store->trouble.unreadable = unreadable;
    read_forget(store);
    keeper_unpark(&store->keeper);
}

static void take_checkpoint(store_t *store) {
    uint64_t done = atomic_load_explicit(&store->keeper.checkpointed, memory_order_acquire);
    if (store->pipeline.boundary == 0 || done < store->pipeline.boundary
        || !keeper_free(&store->keeper, store->pipeline.boundary)) {
        return;
    }
    if (env_renew(store->env) != STATUS_OK) {
        return; /* the old snapshot with all of the overlay over it stays right; the next tick tries again */
    }
    read_forget(store);
    batches_free(&store->batches, store->pipeline.boundary);
    room_give_back(store);
    adopted_drop(store);
    memtable_drop(&store->memtable);
    newcomers_drop(&store->record_ops);
    for (uint32_t i = 0; i < store->streams.count; i++) {
        stream_drop(store->streams.at[i]);
    }
    store->pipeline.boundary = 0;
    store_look_soon(store);
}

static void space_alarm(store_t *store, bool limit) {
    uint64_t free_mb = atomic_load_explicit(&store->keeper.disk_free, memory_order_relaxed) >> 20;
    if (!store->trouble.space) {
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
    bool space = journal == STATUS_NO_SPACE || keeper == STATUS_NO_SPACE;
    bool io = (journal != STATUS_OK || keeper != STATUS_OK) && !space;
    room_take(store);
    bool tight = store->room.admits < (store->trouble.space ? SPACE_RESUME : SPACE_STOP);
    store->trouble.last = space || store->room.grants < (store->trouble.last ? SPACE_RESUME : SPACE_STOP);
    if ((space || tight) != store->trouble.space) {
        store->trouble.space = space || tight;
        space_alarm(store,
                    !space && atomic_load_explicit(&store->keeper.short_by, memory_order_relaxed) == SPACE_LIMIT);
    }
    if (io != store->trouble.io) {
        store->trouble.io = io;
        store_alarm(store, io ? ALARM_IO : ALARM_DISK_OK, 0, 0,
                    io ? "writing to %s fails: publishers are refused, it is tried again" : "writing to %s works again",
                    store->directory);
    }
    room_measure(store);
}

void store_note_unknown(store_t *store) {
    store->trouble.unknown++;
}

uint64_t store_unknown(const store_t *store) {
    return env_unread(store->env) + store->trouble.unknown;
}

/* Takes up operations that waited or were refused when LMDB could not be read. */
static void take_unread(store_t *store) {
    uint64_t unread = env_unread(store->env);
    if (LEAF_LIKELY(unread == store->trouble.unread_seen && !store->trouble.unread)) {
        return;
    }
    if (unread != store->trouble.unread_seen) {
        store->trouble.unread_seen = unread;
        store->trouble.unread_at = store->turn.now_mono;
    }
    bool now = store->turn.now_mono - store->trouble.unread_at < UNREAD_NS;
    if (now != store->trouble.unread) {
        store->trouble.unread = now;
        store_alarm(store, now ? ALARM_IO : ALARM_DISK_OK, 0, 0,
                    now ? "reading %s fails: what needs what cannot be read waits or is refused, it is tried again"
                        : "reading %s works again",
                    store->directory);
    }
}

/* ---- background -------------------------------------------------------------------------------------------------- */

/* false: it was not all done, for lack of room. */
static bool stream_look(store_stream_t *stream, int64_t age_now, uint32_t *steps) {
    if (LEAF_UNLIKELY(stream->log.first_open)) {
        (void)!log_seek_first(stream, steps);
    }
    /* What goes by a time of its own goes when its owner says what time it is. */
    bool own = stream->timeline.own;
    bool room = own || limits_expire(stream, age_now, steps);
    if (stream->config.duplicate_window_ns > 0) {
        dedupe_expire(stream, own ? stream->timeline.age : age_now, steps);
    }
    if (stream->limits.over) {
        limits_enforce(stream, steps);
    }
    if (LEAF_UNLIKELY(recount_runs(stream))) {
        recount_step(stream, steps);
    }
    int64_t deadline = own ? INT64_MAX : limits_deadline(stream);
    int64_t ids = own ? INT64_MAX : dedupe_deadline(stream);
    deadline = ids < deadline ? ids : deadline;
    int64_t recount = recount_deadline(stream, age_now);
    deadline = recount < deadline ? recount : deadline;
    deadline = stream->limits.over || stream->log.first_open ? age_now : deadline;
    turn_t *turn = &stream->store->turn;
    turn->look_next = deadline < turn->look_next ? deadline : turn->look_next;
    return room;
}

/* However much is due, and however many streams there are: so much of it, and then everybody else's messages before
 * more. What comes up while the look itself is at work belongs to a stream whose deadline says so. */
static void store_background(store_t *store) {
    turn_t *turn = &store->turn;
    bool room = store_room(store);
    uint64_t unread = env_unread(store->env);
    uint32_t steps = LOOK_STEPS;
    if (turn->look_left == 0) {
        turn->look_left = store->streams.count;
        turn->look_next = INT64_MAX;
        turn->look_again = false;
    }
    turn->look_left = (uint32_t)number_least(turn->look_left, store->streams.count);
    bool again = turn->look_again;
    for (uint32_t left = LOOK_STREAMS; left > 0 && steps > 0 && turn->look_left > 0; left--) {
        turn->look_left--;
        visits_add(1);
        room = stream_look(store->streams.at[turn->looked++ % store->streams.count], store->clock.age, &steps) && room;
    }
    turn->look_again = again;
    bool goes_on = turn->look_left > 0 || steps == 0 || again;
    int64_t next = goes_on ? turn->now_mono : clockwork_mono_at(&store->clock, turn->look_next);
    /* Work that is due and found no room is tried again soon, not at once: the plane would go round at full speed until
     * there is some. */
    room = room && unread == env_unread(store->env);
    int64_t soonest = room ? turn->now_mono : turn->now_mono + BACKGROUND_NS;
    turn->background_at = next > soonest ? next : soonest;
}

/* Did what waits for a checkpoint come slowly? */
static bool is_calm(const store_t *store) {
    int64_t since = store->pipeline.pending_since;
    int64_t passed = since < store->turn.now_mono ? store->turn.now_mono - since : 0;
    return batches_used(&store->batches) <= (uint64_t)(passed / NS_PER_MS) * (CALM_RATE / 1000);
}

/* The less publishers may hold in the ring, the smaller the checkpoints. */
static uint64_t checkpoint_bytes(const store_t *store) {
    bool spread = room_is_spread(store);
    uint64_t narrow = store->batches.room / (is_calm(store) ? CHECKPOINT_PART_CALM : CHECKPOINT_PART_NARROW);
    uint64_t usual = spread ? number_least(store->room.resident, store->batches.room) / CHECKPOINT_PART_SPREAD
                            : number_least(store->room.resident / CHECKPOINT_PART, narrow);
    uint64_t part = store->room.admits / (spread ? CHECKPOINT_PART_SPREAD : CHECKPOINT_PART_ADMITTED);
    return number_least(number_most(part, CHECKPOINT_MIN), usual);
}

/* A store that is written to has all of the ring empty now and then, right behind a checkpoint: it rests only when
 * there was no batch for a while. */
static int64_t rest_at(const store_t *store) {
    return room_trim_pays(store) ? store->pipeline.gather.sealed_at + REST_NS : INT64_MAX;
}

/* Nothing is to be checkpointed any more, and its memory goes back. INT64_MAX: nothing goes. */
static int64_t trim_at(const store_t *store) {
    return room_is_drained(store) ? rest_at(store) : INT64_MAX;
}

/* When the next one is due, however little it is for. Without room, what a removal frees is wanted soon; so is what a
 * copy is to begin with; and after a failure, the commit that proves that the disk takes writes again: publishers are
 * refused until then. */
static int64_t checkpoint_at(const store_t *store) {
    int64_t usual = store->options.checkpoint_ns != 0 ? store->options.checkpoint_ns : CHECKPOINT_NS;
    bool soon = store->trouble.space || store->trouble.io || store->pipeline.wanted;
    int64_t at = store->pipeline.pending_since + (soon ? CHECKPOINT_SHORT_NS : usual);
    int64_t rest = rest_at(store);
    return rest < at ? rest : at;
}

static bool checkpoint_is_large(const store_t *store) {
    return batches_used(&store->batches) >= checkpoint_bytes(store) || store->batches.room < store->batches.lap;
}

static bool checkpoint_due(const store_t *store, int64_t now_mono) {
    if (store->pipeline.boundary != 0 || store->pipeline.pending_since == INT64_MAX) {
        return false;
    }
    return checkpoint_is_large(store) || now_mono >= checkpoint_at(store);
}

bool store_checkpoint_soon(const store_t *store, moment_t now) {
    return checkpoint_due(store, now.mono_ns);
}

void store_checkpoint_want(store_t *store) {
    store->pipeline.wanted = true;
}

/* At the end of a batch, before the next one has an op. */
static void begin_checkpoint(store_t *store) {
    bool large = checkpoint_is_large(store);
    check(batch_is_empty(&store->batches));
    store->pipeline.wanted = false;
    store->pipeline.boundary = store->batches.begin;
    sharing_cut(store, store->batches.begin);
    store->pipeline.boundary_sent = false;
    store->pipeline.pending_since = INT64_MAX;
    linger_begin(store, large);
    memtable_rotate(&store->memtable);
    newcomers_rotate(&store->record_ops);
    for (uint32_t i = 0; i < store->streams.count; i++) {
        stream_rotate(store->streams.at[i]);
    }
}

static void take_news(store_t *store) {
    keeper_heard(&store->keeper);
    take_parked(store);
    take_durable(store);
    carried_follow(store);
    take_pieces(store);
    take_checkpoint(store);
    take_trouble(store);
    take_unread(store);
    mending_tick(store);
    reckon_tick(store);
}

void store_tick(store_t *store, moment_t now) {
    store_clock(store, now);
    store->turn.spare_spent = 0;
    env_forget(store->env);
    take_news(store);
    lazy_show(store);
    if (store->turn.now_mono >= store->turn.background_at) {
        store_background(store);
    }
    bool idle = store->pipeline.durable == store->pipeline.flight_number;
    if (idle && store->batches.lap < store->batches.size) {
        room_widen(store);
    }
    if (idle && !store_batch_empty(store)) {
        gather_opened(&store->pipeline.gather, store->turn.now_mono);
    }
    if (idle && !store_batch_empty(store) && !store_gathers(store)) {
        if (store->turn.background_at > store->turn.now_mono + BACKGROUND_NS) {
            store->turn.background_at = store->turn.now_mono + BACKGROUND_NS;
        }
        store_seal(store);
        if (checkpoint_due(store, store->turn.now_mono)) {
            begin_checkpoint(store);
        }
    } else if (store_batch_empty(store) && checkpoint_due(store, store->turn.now_mono)) {
        begin_checkpoint(store);
    }
    if (store->turn.now_mono >= trim_at(store)) {
        room_trim(store);
    }
    if (store->options.memory || (store->pipeline.boundary != 0 && !store->pipeline.boundary_sent)) {
        take_durable(store);
    }
}

bool store_gathers(const store_t *store) {
    bool gathers = gather_waits(&store->pipeline.gather, store->batches.count, store->turn.now_mono);
    return store->lazy.shown && (gathers || lazy_waits(store));
}

int64_t store_next_deadline(const store_t *store) {
    if (LEAF_UNLIKELY(mending_runs(&store->patching))) {
        return store->turn.now_mono;
    }
    int64_t deadline = reckon_deadline(store);
    deadline = store->turn.background_at < deadline ? store->turn.background_at : deadline;
    if (store_gathers(store) && !store_batch_empty(store)) {
        int64_t until = lazy_waits(store) ? store->lazy.until : store->pipeline.gather.until;
        deadline = until < deadline ? until : deadline;
    }
    if (store->pipeline.boundary != 0) {
        int64_t poll = store->options.memory ? store->turn.now_mono + POLL_NS : INT64_MAX;
        int64_t until = store->linger.until;
        until = until > store->turn.now_mono ? until : INT64_MAX; /* else it is the journal that is waited for */
        poll = until < poll ? until : poll;
        return poll < deadline ? poll : deadline;
    }
    /* A checkpoint begins between two batches. One that is due while a batch is open and another one is being written
     * waits for the journal, whose news wakes the plane: a deadline in the past would have it go round until then. */
    bool between = store_batch_empty(store) && store->pipeline.pending_since != INT64_MAX;
    int64_t next = between ? checkpoint_at(store) : trim_at(store);
    return next < deadline ? next : deadline;
}

/* ---- looks ------------------------------------------------------------------------------------------------------- */

int store_wake_fd(const store_t *store) {
    return store->options.memory ? -1 : store->keeper.plane_fd;
}

uint64_t store_batch(const store_t *store) {
    return store->batches.number;
}

bool store_batch_empty(const store_t *store) {
    return batch_is_empty(&store->batches) && store->carried.touched.count == 0 && store->heads.dirty_count == 0
           && store->ledgers.touched_count == 0;
}

uint64_t store_durable(const store_t *store) {
    return store->pipeline.durable;
}

int64_t store_age(const store_t *store) {
    return store->clock.age;
}

void store_set_hooks(store_t *store, store_hooks_t hooks) {
    store->hooks = hooks;
}

bool store_was_closed(const store_t *store) {
    /* A start without room leaves the word of the end before. */
    return store->closed && store->replayed == 0;
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
    if (store_refuses(store)) {
        stats->refusing += store->options.memory ? 2 : 1;
    }
    stats->journal_batches += store->options.memory ? 0 : store->pipeline.durable - store->pipeline.first_batch;
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
    stats->memory_overlay += ledgers_memory(store);
    stats->memory_keeper += atomic_load_explicit(&keeper->changed, memory_order_relaxed);
    stats->corrupt_records += store->alarms.damage;
    stats->events_dropped += store->alarms.dropped;
    stats->replayed_batches += store->replayed;
}
