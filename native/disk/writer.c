/* writer.c: the journal thread: chains and checksums what is sealed, writes and syncs it, and tries again where the
 * disk refuses.
 *
 * A batch of more than one block is compressed (squeeze.h) while no more than SQUEEZE_RATE comes: what wears a flash
 * disk is what it writes for months, and that is not much at a time. A load beyond that has other use for the
 * processor: 3 to 6 ns a byte are a tenth of what a message costs at 10,000 a second, and more than half at 700,000. */
#include "base/check.h"
#include "base/clock.h"
#include "disk/keeper.h"
#include "disk/waiting.h"

#define MARK_MS 1000                             /* so long after the last batch its end is marked */
#define SQUEEZE_RATE INT64_C(8000000)            /* bytes a second */
#define SQUEEZE_BURST (2 * (int64_t)SQUEEZE_MAX) /* that may come at once */

/* Positions: what is chained and checksummed, what was written, what a sync covers. */
typedef struct journal_state {
    uint64_t stamped;
    uint64_t written;
    uint64_t synced;
    uint64_t marked;
    bool failed;
    int64_t synced_at;
    int64_t credit; /* bytes that may still be compressed .. */
    int64_t credited_at;
} journal_state_t;

/* What is too much takes the credit, too: a load that is always too much is never compressed. */
static bool can_squeeze(const keeper_t *keeper, journal_state_t *state, uint32_t size) {
    if (!keeper->journal->squeezes || size <= BATCH_BLOCK) {
        return false;
    }
    int64_t now = thread_elapsed_ns(), passed = now - state->credited_at;
    state->credited_at = now;
    state->credit += passed < NS_PER_SECOND ? passed * (SQUEEZE_RATE / 1000000) / 1000 : SQUEEZE_BURST;
    state->credit = state->credit < SQUEEZE_BURST ? state->credit : SQUEEZE_BURST;
    bool within = size <= SQUEEZE_MAX && (int64_t)size <= state->credit;
    state->credit = (int64_t)size < state->credit ? state->credit - size : 0;
    return within;
}

/* Chains and checksums the next batch, which is written when everything before `synced` is on disk. */
static status_t stamp_batch(keeper_t *keeper, journal_state_t *state, batch_header_t *header) {
    uint64_t position = state->stamped;
    uint8_t *batch = batches_at(keeper->batches, position);
    check(batch_header_read(batch, header));
    check(header->position == position);
    header->chain = keeper->chain;
    batch_header_write(batch, header);
    if (keeper->batches->witnessed) {
        witness_stamp(batch, header->size, state->synced);
    }
    if (LEAF_UNLIKELY(keeper->journal->sealer != NULL)) {
        status_t status = journal_seal(keeper->journal, batch, position, header->size);
        check(batch_header_read(batch, header));
        return status;
    }
    if (can_squeeze(keeper, state, header->size) && journal_squeeze(keeper->journal, batch, position, header->size)) {
        check(batch_header_read(batch, header));
        return STATUS_OK;
    }
    header->crc = batch_crc(batch, header->size);
    batch_header_write(batch, header);
    return STATUS_OK;
}

/* After a refusal nobody knows which of the blocks since the last sync the disk has (a kernel that failed to write
 * pages back takes them for clean all the same): everything since then is written again, but for what LMDB has
 * meanwhile: its memory may be gone. */
static void write_again(keeper_t *keeper, journal_state_t *state) {
    atomic_store(&keeper->rewriting, state->synced);
    uint64_t freed = atomic_load(&keeper->freed);
    state->written = freed > state->synced ? freed : state->synced;
}

static status_t stamp_sealed(keeper_t *keeper, journal_state_t *state, uint64_t sealed) {
    while (state->stamped < sealed) {
        batch_header_t header;
        status_t status = stamp_batch(keeper, state, &header);
        if (status != STATUS_OK) {
            return status;
        }
        state->stamped += batch_padded(keeper->batches, header.size);
        keeper->chain = header.crc;
        keeper->number = header.number;
    }
    return STATUS_OK;
}

static status_t write_plain(keeper_t *keeper, uint64_t from, uint64_t to) {
    if (from == to) {
        return STATUS_OK;
    }
    atomic_fetch_add_explicit(&keeper->journal_bytes, to - from, memory_order_relaxed);
    return journal_write(keeper->journal, batches_at(keeper->batches, from), from, to - from);
}

/* Plain ones that follow each other in one piece. */
static status_t write_batches(keeper_t *keeper, uint64_t from, uint64_t to) {
    const batches_t *batches = keeper->batches;
    status_t status = STATUS_OK;
    uint64_t plain = from;
    while (status == STATUS_OK && from < to) {
        batch_header_t header;
        check(batch_header_read(batches_at(batches, from), &header));
        uint64_t next = from + batch_padded(batches, header.size);
        if (keeper->journal->sealer != NULL || header.blocks != 0) {
            uint64_t stored = header.blocks != 0 ? (uint64_t)header.blocks * BATCH_BLOCK : next - from;
            status = write_plain(keeper, plain, from);
            status = status == STATUS_OK ? journal_write_staged(keeper->journal, batches, from) : status;
            atomic_fetch_add_explicit(&keeper->journal_bytes, stored, memory_order_relaxed);
            plain = next;
        }
        from = next;
    }
    return status == STATUS_OK ? write_plain(keeper, plain, to) : status;
}

static status_t journal_bring(keeper_t *keeper, journal_state_t *state, uint64_t sealed, bool stopping) {
    if (state->written < sealed) {
        status_t status = write_batches(keeper, state->written, sealed);
        if (status != STATUS_OK) {
            return status;
        }
        state->written = sealed;
    }
    bool due = keeper->sync_interval_ns == 0 || stopping || state->failed
               || atomic_load_explicit(&keeper->wanted, memory_order_acquire) > state->synced
               || thread_elapsed_ns() - state->synced_at >= keeper->sync_interval_ns;
    if (!due || state->synced == state->written) {
        return STATUS_OK;
    }
    atomic_fetch_add_explicit(&keeper->journal_syncs, 1, memory_order_relaxed);
    state->synced_at = thread_elapsed_ns();
    status_t status = journal_sync(keeper->journal);
    keeper_took(keeper, HISTOGRAM_SYNC, state->synced_at);
    if (status == STATUS_OK) {
        state->synced = state->written;
        atomic_store_explicit(&keeper->synced, state->synced, memory_order_release);
        if (keeper->sync_interval_ns != 0) {
            thread_wake(keeper->keeper_fd);
        }
        const highwater_mark_t mark = {.position = state->synced, .number = keeper->number, .chain = keeper->chain};
        highwater_note(keeper->highwater, keeper->batches->store_id, mark);
    }
    return status;
}

static void journal_step(keeper_t *keeper, journal_state_t *state, bool stopping) {
    uint64_t sealed = atomic_load_explicit(&keeper->sealed, memory_order_acquire);
    if (state->failed) {
        write_again(keeper, state);
    }
    status_t status = stamp_sealed(keeper, state, sealed);
    if (status == STATUS_OK) {
        status = journal_bring(keeper, state, sealed, stopping);
    }
    if (state->failed) {
        atomic_store(&keeper->rewriting, UINT64_MAX);
    }
    state->failed = status != STATUS_OK;
    if (status == STATUS_OK) {
        atomic_store_explicit(&keeper->durable, sealed, memory_order_release);
    }
    atomic_store_explicit(&keeper->journal_trouble, status, memory_order_release);
    keeper_wake_plane(keeper);
}

/* The last batch has none behind it that would witness that it is durable: when no further one comes, a mark does. */
static void mark_end(keeper_t *keeper, journal_state_t *state) {
    state->marked = state->synced;
    journal_rest(keeper->journal);
    if (keeper->batches->witnessed) {
        /* No sync: it only has to survive a kill. Nothing is lost where it does not come out. */
        (void)!journal_mark(keeper->journal, state->synced, keeper->number + 1, keeper->chain,
                            keeper->batches->store_id);
    }
}

static int journal_patience(const keeper_t *keeper, const journal_state_t *state) {
    if (state->synced < state->written) {
        return (int)(keeper->sync_interval_ns / 1000000) + 1;
    }
    return state->marked == state->synced ? -1 : MARK_MS;
}

void *keeper_journal_main(void *context) {
    (void)pthread_setname_np(pthread_self(), "leafd-journal");
    keeper_t *keeper = context;
    uint64_t begin = atomic_load(&keeper->durable);
    journal_state_t state = {.stamped = begin,
                             .written = begin,
                             .synced = begin,
                             .marked = begin,
                             .synced_at = thread_elapsed_ns(),
                             .credit = SQUEEZE_BURST,
                             .credited_at = thread_elapsed_ns()};
    for (;;) {
        atomic_fetch_add_explicit(&keeper->journal_rounds, 1, memory_order_relaxed);
        bool stopping = atomic_load_explicit(&keeper->stop_journal, memory_order_acquire);
        if (atomic_load_explicit(&keeper->sealed, memory_order_acquire) > state.synced || state.failed) {
            journal_step(keeper, &state, stopping);
        }
        bool more = atomic_load_explicit(&keeper->sealed, memory_order_acquire) > state.written;
        if (stopping && (state.failed || !more)) {
            return NULL;
        }
        if (state.failed) {
            thread_back_off(keeper->journal_fd, &keeper->stop_journal, RETRY_MS);
        } else if (!more) {
            if (!thread_sleep(keeper->journal_fd, journal_patience(keeper, &state)) && state.synced == state.written) {
                mark_end(keeper, &state);
            }
        }
    }
}
