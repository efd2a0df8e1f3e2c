/* keeper.c: see keeper.h. The keeper thread's loop (the journal's is in writer.c); what an op does in LMDB is apply.c.
 *
 * LMDB keeps a changed page in memory until the commit. When these are more than there is memory for, the keeper
 * commits in between, and leaves the note of how far it came as it is (apply.c): what waits for the checkpoint's end is
 * not in LMDB yet. The plane hears of checkpoints only, and stays on its snapshot.
 */
#include "disk/keeper.h"
#include "disk/sealing.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "disk/drain.h"
#include "disk/waiting.h"

/* Bytes of changed pages for 10 bytes of batches: from SCATTERED on keys count as scattered, below SCATTERED_STILL they
 * no longer do. Messages of few streams take 11 to 15, as they lie in a row. Those of 1,000 streams take 20 and more,
 * since each stream has a last page of its own; a checkpoint as large as it may be brings that down to 14 to 16. */
#define SCATTERED 20
#define SCATTERED_STILL 13
#define SEAL_MS 5  /* between two slices of a change of key */
#define PROOF_MS 5 /* of each step of LMDB's proof, and of the pause behind it */
/* The pause before a refused checkpoint is tried again grows from RETRY_MS to this: each try applies it all again. */
#define RETRY_MS_MAX 1000
#define GIVE_BACK_NS INT64_C(4000000000)
#define FREED_KEEP (8 << 20) /* bytes that each of malloc's heaps keeps until then */
#define LOOK_MS 1000         /* between two looks at the disk's free room, which other programs take, too .. */
#define LOOK_IDLE_MS 10000   /* .. and while the store is at rest */

/* One write for any number of news: the plane reads the eventfd, clears the mark, then looks (keeper_heard). When the
 * mark is there and the write is not yet, the mark stays until the write is there: cleared before, what is written then
 * would never be read, and a poll on it would return at once, for ever. */
void keeper_wake_plane(keeper_t *keeper) {
    if (!atomic_exchange(&keeper->signalled, true)) {
        thread_wake(keeper->plane_fd);
    }
}

void keeper_heard(keeper_t *keeper) {
    if (atomic_load(&keeper->signalled)) {
        uint64_t count;
        ssize_t got = read(keeper->plane_fd, &count, sizeof count);
        check(got == (ssize_t)sizeof count || errno == EAGAIN || errno == EINTR);
        if (got == (ssize_t)sizeof count) {
            atomic_store(&keeper->signalled, false);
        }
    }
}

void keeper_took(const keeper_t *keeper, uint32_t which, int64_t since_ns) {
    if (keeper->took != NULL) {
        histogram_add(&keeper->took[which], thread_elapsed_ns() - since_ns);
    }
}

static int keeper_longer(int ms) {
    return ms * 2 < RETRY_MS_MAX ? ms * 2 : RETRY_MS_MAX;
}

/* ---- keeper thread ----------------------------------------------------------------------------------------------- */

static const char applied_name[] = "applied";

status_t keeper_noted(env_t *env, uint64_t *position, uint64_t *number, uint32_t *chain) {
    bytes_t key = bytes_of(applied_name, sizeof applied_name - 1);
    bytes_t value = BYTES_NONE;
    switch (env_write_get(env, DB_META, key, &value)) {
    case READ_UNKNOWN: return env_write_why(env);
    case READ_NONE: return STATUS_CORRUPT;
    case READ_FOUND: break;
    }
    if (value.size != 24 || !value_sound(key, value)) {
        return STATUS_CORRUPT;
    }
    *position = load_be64(value.at + 4);
    *number = load_be64(value.at + 12);
    *chain = load_be32(value.at + 20);
    return STATUS_OK;
}

status_t keeper_commit(env_t *env, uint64_t position, uint64_t number, uint32_t chain) {
    bytes_t key = bytes_of(applied_name, sizeof applied_name - 1);
    uint8_t value[24];
    store_be64(value + 4, position);
    store_be64(value + 12, number);
    store_be32(value + 20, chain);
    value_seal(key, value, sizeof value);
    status_t status = env_write_put(env, DB_META, key, bytes_of(value, sizeof value));
    if (status != STATUS_OK) {
        env_write_abort(env);
        return status;
    }
    env_write_whole(env);
    return env_write_commit(env);
}

static status_t commit_timed(keeper_t *keeper, uint64_t position, uint64_t number, uint32_t chain) {
    int64_t since_ns = thread_elapsed_ns();
    status_t status = keeper_commit(keeper->env, position, number, chain);
    keeper_took(keeper, HISTOGRAM_COMMIT, since_ns);
    return status;
}

static status_t keeper_begin(keeper_t *keeper) {
    status_t status = keeper->writing ? STATUS_OK : env_write_begin(keeper->env);
    keeper->writing = status == STATUS_OK;
    return status;
}

static status_t commit_between(keeper_t *keeper) {
    keeper->writing = false;
    return env_write_commit(keeper->env);
}

/* Up to where batches may be applied. A commit in between has part of their effects: they have to be in the journal. */
static uint64_t keeper_handed(const keeper_t *keeper) {
    uint64_t handed = atomic_load_explicit(&keeper->handed, memory_order_acquire);
    if (LEAF_LIKELY(keeper->journal == NULL || keeper->sync_interval_ns == 0)) {
        return handed;
    }
    uint64_t synced = atomic_load_explicit(&keeper->synced, memory_order_acquire);
    return synced < handed ? synced : handed;
}

static status_t apply_handed(keeper_t *keeper) {
    uint64_t handed = keeper_handed(keeper);
    while (keeper->applied < handed) {
        status_t status = keeper_begin(keeper);
        if (status != STATUS_OK) {
            return status;
        }
        env_write_lasts(keeper->env, thread_elapsed_ns());
        const uint8_t *batch = batches_at(keeper->batches, keeper->applied);
        batch_header_t header;
        check(batch_header_read(batch, &header));
        check(header.position == keeper->applied);
        status = apply_batch(keeper->env, keeper->batches, batch, header.size, &keeper->late);
        atomic_store_explicit(&keeper->changed, changed_bytes(env_changed(keeper->env)), memory_order_relaxed);
        if (status != STATUS_OK) {
            return status;
        }
        keeper->applied += batch_padded(keeper->batches, header.size);
        keeper->applied_number = header.number;
        keeper->applied_chain = header.crc;
        if (changed_full(env_changed(keeper->env)) && (status = commit_between(keeper)) != STATUS_OK) {
            return status;
        }
        handed = keeper_handed(keeper);
    }
    return STATUS_OK;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static void committed_upto(keeper_t *keeper, uint64_t position, uint64_t number, uint32_t chain) {
    keeper->applied = keeper->committed = position;
    keeper->applied_number = keeper->committed_number = number;
    keeper->applied_chain = keeper->committed_chain = chain;
    if (keeper->scarce || keeper_is_bounded(keeper)) {
        keeper_age(keeper);
    }
    keeper_look(keeper, true);
    atomic_fetch_add_explicit(&keeper->checkpoints, 1, memory_order_relaxed);
    atomic_store_explicit(&keeper->checkpointed, keeper->committed, memory_order_release);
}

/* Tells from the bytes of pages that the checkpoint changed, for each byte of batches, whether its keys are scattered.
 * Heads of subjects wait from then on, and are written together: that changes fewer pages, so the bound to stop waiting
 * is lower than the one to begin. */
static void keeper_measure(keeper_t *keeper, uint64_t batches) {
    changed_t *changed = env_changed(keeper->env);
    uint64_t most = changed_in_all(changed) * 10 / (batches + 1);
    bool scattered = atomic_load_explicit(&keeper->scattered, memory_order_relaxed);
    scattered = most >= (scattered ? SCATTERED_STILL : SCATTERED);
    atomic_store_explicit(&keeper->scattered, scattered, memory_order_relaxed);
    keeper->late.heads_wait = scattered;
    changed->earlier = 0;
}

static status_t keeper_checkpoint(keeper_t *keeper) {
    status_t status = STATUS_OK;
    uint64_t batches = keeper->applied - keeper->committed;
    if (batches > 0) { /* else a drain has committed it already */
        uint64_t synced = atomic_load_explicit(&keeper->synced, memory_order_acquire);
        status = keeper_begin(keeper);
        status = status == STATUS_OK ? late_look_ahead(&keeper->late, keeper->applied, synced) : status;
        status = status == STATUS_OK ? late_apply(&keeper->late, keeper->env) : status;
        if (status == STATUS_OK) {
            status = commit_timed(keeper, keeper->applied, keeper->applied_number, keeper->applied_chain);
            keeper->writing = false;
        }
        keeper_measure(keeper, batches);
    }
    atomic_store_explicit(&keeper->changed, 0, memory_order_relaxed);
    if (status == STATUS_OK) {
        committed_upto(keeper, keeper->applied, keeper->applied_number, keeper->applied_chain);
    }
    return status;
}

static void piece_done(void *context) {
    keeper_t *keeper = context;
    atomic_fetch_add_explicit(&keeper->pieces, 1, memory_order_release);
    keeper_wake_plane(keeper);
}

/* Makes the checkpoint up to `wanted` in pieces, for want of room. Each refusal makes the pieces smaller. */
static status_t keeper_drain(keeper_t *keeper, uint64_t wanted) {
    const batches_t *ring = keeper->batches;
    uint64_t durable = atomic_load_explicit(&keeper->durable, memory_order_acquire);
    drain_t work = {.env = keeper->env,
                    .batches = {.at = ring->at,
                                .size = ring->size,
                                .lap = atomic_load_explicit(&ring->lap, memory_order_relaxed),
                                .alignment = ring->alignment,
                                .overhead = ring->overhead,
                                .freed = keeper->committed,
                                .end = durable},
                    .from = keeper->committed,
                    .to = wanted,
                    .durable = durable,
                    .piece = keeper->piece,
                    .removed = keeper->removed,
                    .put = keeper->put,
                    .told = piece_done,
                    .context = keeper};
    status_t status = drain_run(&work);
    keeper->removed = work.removed;
    keeper->put = work.put;
    if (status == STATUS_OK) {
        status = commit_timed(keeper, wanted, work.number, work.chain);
    } else {
        env_write_abort(keeper->env);
    }
    if (status == STATUS_OK) {
        committed_upto(keeper, wanted, work.number, work.chain);
    } else if (status == STATUS_NO_SPACE) {
        keeper_age(keeper); /* what the removals freed may serve the next try */
        keeper->piece = keeper->piece / 4 > DRAIN_PIECE_MIN ? keeper->piece / 4 : DRAIN_PIECE_MIN;
        piece_done(keeper);
    }
    return status;
}

/* Back to the last commit: what was applied since is applied again. */
static void fall_back(keeper_t *keeper) {
    env_write_abort(keeper->env);
    late_forget(&keeper->late);
    keeper->writing = false;
    keeper->applied = keeper->committed;
    keeper->applied_number = keeper->committed_number;
    keeper->applied_chain = keeper->committed_chain;
}

/* A checkpoint leaves LMDB's dirty pages in malloc's hands, and the next one wants as many: under load malloc keeps
 * what it would give back at each of them (page faults cost a message of 16 KB a fifth of its time), and gives it back
 * after a while. */
static void keeper_keep_freed(void) {
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, FREED_KEEP);
#endif
}

/* Returns how long until the next time, -1: nothing to give back. */
static int keeper_give_back(keeper_t *keeper) {
    if (!keeper->freed_pages) {
        return -1;
    }
    int64_t now = thread_elapsed_ns(), left = keeper->gave_back_at + GIVE_BACK_NS - now;
    if (left > 0) {
        return (int)(left / 1000000) + 1;
    }
    late_give_back(&keeper->late);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    keeper->gave_back_at = now;
    keeper->freed_pages = false;
    return -1;
}

static status_t keeper_try(keeper_t *keeper, bool *due) {
    status_t status = keeper->scarce ? STATUS_OK : apply_handed(keeper);
    uint64_t wanted = atomic_load_explicit(&keeper->wanted, memory_order_acquire);
    uint64_t told = atomic_load_explicit(&keeper->checkpointed, memory_order_relaxed);
    *due = status == STATUS_OK && wanted > told && (keeper->scarce || keeper->applied >= wanted);
    if (*due) {
        status =
            keeper->scarce && keeper->committed < wanted ? keeper_drain(keeper, wanted) : keeper_checkpoint(keeper);
        keeper->freed_pages = true;
    }
    return status;
}

static void keeper_step(keeper_t *keeper) {
    bool due = false;
    status_t status = keeper_try(keeper, &due);
    if (status != STATUS_OK) {
        fall_back(keeper);
        if (status == STATUS_NO_SPACE) {
            (void)!env_proof_whole(keeper->env); /* the refused commit is already told of */
        }
        if (status == STATUS_NO_SPACE && !keeper->scarce) {
            keeper->scarce = true;
            keeper->piece = DRAIN_PIECE;
            keeper->removed = keeper->put = keeper->committed;
        }
    } else if (due) {
        keeper->scarce = false;
    }
    /* Cleared only by a commit: that is the proof that the disk takes writes again. */
    if (status != STATUS_OK || due) {
        atomic_store_explicit(&keeper->keeper_trouble, status, memory_order_release);
        keeper_wake_plane(keeper);
    }
}

/* Whether LMDB would open again, once it is closed. On a file system that takes no more writes it would not: it stays
 * open, and serves reads. */
static bool keeper_can_mend(const keeper_t *keeper) {
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int size = snprintf(path, sizeof path, "%s/%s", keeper->directory, names[i]);
        if (size < 0 || (size_t)size >= sizeof path || access(path, R_OK | W_OK) != 0) {
            return false;
        }
    }
    int fd = env_file(keeper->env);
    return fd < 0 || fdatasync(fd) == 0;
}

/* LMDB has ended its work (env_broken): the plane, whose reads it serves, opens LMDB again while this thread keeps out
 * of it. */
static void keeper_park(keeper_t *keeper) {
    atomic_store_explicit(&keeper->parked, true, memory_order_release);
    keeper_wake_plane(keeper);
    while (atomic_load_explicit(&keeper->parked, memory_order_acquire)
           && !atomic_load_explicit(&keeper->stop_keeper, memory_order_acquire)) {
        thread_sleep(keeper->keeper_fd, -1);
    }
    keeper->blocks.fd = env_file(keeper->env);
}

/* Does the chores that are due. Returns the milliseconds until the next one. */
static int next_chore(keeper_t *keeper) {
    int give_back_ms = keeper_give_back(keeper);
    bool rests =
        keeper->committed == atomic_load_explicit(&keeper->durable, memory_order_acquire) && !keeper_is_bounded(keeper);
    int64_t every = INT64_C(1000000) * (rests ? LOOK_IDLE_MS : LOOK_MS);
    int64_t left = keeper->looked_at + every - thread_elapsed_ns();
    if (left <= 0) {
        keeper_look(keeper, false);
        left = every;
    }
    int look_ms = (int)(left / 1000000) + 1;
    return give_back_ms >= 0 && give_back_ms < look_ms ? give_back_ms : look_ms;
}

/* Goes on with a change of key between two transactions. The plane renews its snapshot, or LMDB keeps every page that
 * was changed. false: there is nothing more to do for now. */
static bool keeper_seals_anew(keeper_t *keeper) {
    if (keeper->sealing == NULL || keeper->writing) {
        return false;
    }
    status_t status = sealing_step(keeper->sealing, keeper->env);
    if (status == STATUS_OK) {
        keeper->sealing = NULL;
        atomic_store(&keeper->sealed_anew, true);
    }
    atomic_fetch_add_explicit(&keeper->pieces, 1, memory_order_release);
    keeper_wake_plane(keeper);
    return status == STATUS_AGAIN;
}

/* Goes on with LMDB's proof; it reads alone. false: there is nothing more to do. */
static bool keeper_proves(keeper_t *keeper) {
    status_t status = env_proof_step(keeper->env, thread_elapsed_ns() + PROOF_MS * NS_PER_MS);
    if (LEAF_UNLIKELY(status == STATUS_CORRUPT)) {
        keeper_wake_plane(keeper);
    }
    return status == STATUS_AGAIN;
}

static void *keeper_main(void *context) {
    (void)pthread_setname_np(pthread_self(), "leafd-keeper");
    keeper_t *keeper = context;
    int retry_ms = RETRY_MS;
    for (;;) {
        bool stopping = atomic_load_explicit(&keeper->stop_keeper, memory_order_acquire);
        if (!stopping && env_broken(keeper->env) && keeper_can_mend(keeper)) {
            keeper_park(keeper);
        }
        keeper_step(keeper);
        bool trouble = atomic_load_explicit(&keeper->keeper_trouble, memory_order_relaxed) != STATUS_OK;
        if (stopping) {
            if (trouble) {
                keeper_step(keeper); /* nobody hears of it any more; what fails twice is replayed by the next start */
            }
            break;
        }
        int chore_ms = next_chore(keeper);
        if (trouble) {
            thread_back_off(keeper->keeper_fd, &keeper->stop_keeper, retry_ms);
            retry_ms = keeper_longer(retry_ms);
        } else {
            retry_ms = RETRY_MS;
            bool seals = keeper_seals_anew(keeper);
            int digs_ms = seals ? SEAL_MS : keeper_proves(keeper) ? PROOF_MS : keeper_digs(keeper);
            thread_sleep(keeper->keeper_fd, digs_ms >= 0 && digs_ms < chore_ms ? digs_ms : chore_ms);
        }
    }
    fall_back(keeper);
    late_give_back(&keeper->late);
    return NULL;
}

/* ---- plane ------------------------------------------------------------------------------------------------------- */

status_t keeper_open(keeper_t *keeper, keeper_mark_t checkpoint, keeper_mark_t end) {
    keeper->chain = end.chain;
    keeper->number = end.number - 1;
    keeper->applied = keeper->committed = checkpoint.position;
    keeper->applied_number = keeper->committed_number = checkpoint.number - 1;
    keeper->applied_chain = keeper->committed_chain = checkpoint.chain;
    keeper->late = (late_t){.batches = keeper->batches, .heads_wait = true};
    keeper->scarce = checkpoint.position != end.position;
    keeper->piece = DRAIN_PIECE;
    keeper->removed = keeper->put = checkpoint.position;
    atomic_store(&keeper->sealed, end.position);
    atomic_store(&keeper->durable, end.position);
    atomic_store(&keeper->synced, end.position);
    atomic_store(&keeper->handed, checkpoint.position);
    atomic_store(&keeper->wanted, checkpoint.position);
    atomic_store(&keeper->checkpointed, checkpoint.position);
    atomic_store(&keeper->freed, checkpoint.position);
    atomic_store(&keeper->rewriting, UINT64_MAX);
    keeper->journal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    keeper->keeper_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    keeper->plane_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (keeper->journal_fd < 0 || keeper->keeper_fd < 0 || keeper->plane_fd < 0) {
        keeper_close(keeper);
        return STATUS_IO;
    }
    keeper->blocks = (blocks_t){.fd = env_file(keeper->env)};
    keeper->holes = (holes_t){.looked_at = thread_elapsed_ns(), .looked_upto = checkpoint.position};
    keeper_keep_freed();
    keeper_look(keeper, true);
    if (keeper->journal != NULL) {
        keeper->journal_running = pthread_create(&keeper->journal_thread, NULL, keeper_journal_main, keeper) == 0;
    }
    keeper->keeper_running = pthread_create(&keeper->keeper_thread, NULL, keeper_main, keeper) == 0;
    if (!keeper->keeper_running || (keeper->journal != NULL && !keeper->journal_running)) {
        keeper_close(keeper);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

static void close_fd(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

void keeper_close(keeper_t *keeper) {
    if (keeper->journal_running) {
        atomic_store_explicit(&keeper->stop_journal, true, memory_order_release);
        thread_wake(keeper->journal_fd);
        pthread_join(keeper->journal_thread, NULL);
        keeper->journal_running = false;
    }
    if (keeper->keeper_running) {
        uint64_t durable = atomic_load(&keeper->durable);
        atomic_store_explicit(&keeper->handed, durable, memory_order_release);
        atomic_store_explicit(&keeper->wanted, durable, memory_order_release);
        atomic_store_explicit(&keeper->stop_keeper, true, memory_order_release);
        thread_wake(keeper->keeper_fd);
        pthread_join(keeper->keeper_thread, NULL);
        keeper->keeper_running = false;
    }
    close_fd(keeper->journal_fd);
    close_fd(keeper->keeper_fd);
    close_fd(keeper->plane_fd);
    keeper->journal_fd = keeper->keeper_fd = keeper->plane_fd = -1;
}

void keeper_seal(keeper_t *keeper, uint64_t position) {
    atomic_store_explicit(&keeper->sealed, position, memory_order_release);
    if (keeper->journal != NULL) {
        thread_wake(keeper->journal_fd);
    } else {
        atomic_store_explicit(&keeper->durable, position, memory_order_release);
    }
}

/* Both sides say what they do before they look at what the other does, so at least one of them sees it. */
bool keeper_free(keeper_t *keeper, uint64_t position) {
    atomic_store(&keeper->freed, position);
    return atomic_load(&keeper->rewriting) >= position;
}

void keeper_unpark(keeper_t *keeper) {
    atomic_store_explicit(&keeper->parked, false, memory_order_release);
    thread_wake(keeper->keeper_fd);
}

void keeper_hand(keeper_t *keeper, uint64_t position, bool checkpoint_too) {
    atomic_store_explicit(&keeper->handed, position, memory_order_release);
    if (checkpoint_too) {
        atomic_store_explicit(&keeper->wanted, position, memory_order_release);
        if (keeper->journal != NULL && keeper->sync_interval_ns != 0) {
            thread_wake(keeper->journal_fd);
        }
    }
    thread_wake(keeper->keeper_fd);
}
