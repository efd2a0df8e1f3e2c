/* keeper_room.c: how much room LMDB's file and the disk leave, as the keeper sees it between two transactions: what
 * publishers may take (space.h), what is reserved ahead (blocks.h), what is given back (holes.h).
 */
#include "base/number.h"
#include "disk/keeper.h"
#include "disk/space.h"
#include "disk/waiting.h"

#define HOLES_MS 10000  /* so often is it looked whether many pages are free .. */
#define HOLES_WORTH 2   /* .. so many times as many as are kept */
#define HOLES_STEP_MS 5 /* between two steps */
#define RIPE_MS 500     /* the plane has renewed its snapshot meanwhile */

bool keeper_is_bounded(const keeper_t *keeper) {
    return atomic_load_explicit(&keeper->admits, memory_order_relaxed) < keeper->batches->size / 8 * 7;
}

/* Free pages without blocks, as far as the file system tells. */
static uint64_t keeper_holes(const keeper_t *keeper, uint64_t used) {
    uint64_t expected = keeper->blocks.reserved > used ? keeper->blocks.reserved : used;
    return keeper->blocks.loose ? 0 : number_less(expected, blocks_taken(&keeper->blocks));
}

/* Outside a write transaction. *whole: bytes of free pages with blocks. *keep: how many are to have some. */
static bool keeper_counts_free(keeper_t *keeper, uint64_t *whole, uint64_t *keep) {
    env_usage_t usage = {0};
    if (env_usage_exact(keeper->env, &usage) != STATUS_OK) {
        return false;
    }
    const space_t space = {.ring = keeper->batches->size, .used = usage.used_bytes, .free_pages = usage.free_bytes};
    *whole = number_less(usage.free_bytes, keeper_holes(keeper, usage.used_bytes));
    *keep = space_keep(&space);
    return true;
}

/* Where the disk is short, reserves blocks for the pages that LMDB takes next, so that no other program can take them
 * then. */
static void keeper_firm_up(keeper_t *keeper, const space_t *space, bool committed) {
    bool scarce = space_scarce(space);
    bool news = committed || !keeper->disk_scarce;
    uint64_t whole;
    uint64_t keep;
    keeper->disk_scarce = scarce && !keeper->writing;
    if (keeper->disk_scarce && news && space->holes > 0 && keeper_counts_free(keeper, &whole, &keep)) {
        holes_fill(keeper->env, keeper->blocks.fd, keep);
    }
}

/* A commit that changes nothing: LMDB uses pages again that were freed two commits ago, so what a checkpoint freed
 * serves the next one. */
void keeper_age(keeper_t *keeper) {
    if (env_write_begin(keeper->env) == STATUS_OK) {
        (void)!keeper_commit(keeper->env, keeper->committed, keeper->committed_number, keeper->committed_chain);
    }
}

/* Is it worth it to begin? Pages that the last commits freed are free for good two commits later, when the plane has
 * renewed its snapshot: that comes first. */
static void keeper_considers_holes(keeper_t *keeper) {
    holes_t *holes = &keeper->holes;
    int64_t now = thread_elapsed_ns();
    bool due = holes->ripens || keeper->committed != holes->looked_upto;
    uint64_t whole;
    uint64_t keep;
    if (!due || now - holes->looked_at < INT64_C(1000000) * (holes->ripens ? RIPE_MS : HOLES_MS)) {
        return;
    }
    bool ripe = holes->ripens;
    holes->ripens = false;
    holes->looked_at = now;
    holes->looked_upto = keeper->committed;
    if (!keeper_counts_free(keeper, &whole, &keep) || whole / HOLES_WORTH <= keep) {
        return;
    }
    if (ripe) {
        holes_begin(holes, keep);
        return;
    }
    holes->ripens = true;
    keeper_age(keeper);
    keeper_age(keeper);
    atomic_fetch_add_explicit(&keeper->pieces, 1, memory_order_release);
    keeper_wake_plane(keeper);
}

int keeper_digs(keeper_t *keeper) {
    holes_t *holes = &keeper->holes;
    if (keeper->writing || keeper->journal == NULL || keeper->blocks.loose || holes->refused || keeper->scarce) {
        return -1;
    }
    if (!holes->running) {
        keeper_considers_holes(keeper);
    }
    if (holes->running && holes_dig(holes, keeper->env, keeper->blocks.fd) == STATUS_AGAIN) {
        return HOLES_STEP_MS;
    }
    return holes->ripens ? RIPE_MS : -1;
}

/* At these publishers, or what groups have agreed on, begin to wait or go on. */
static bool passes_mark(uint64_t before, uint64_t now) {
    return (before < SPACE_RESUME) != (now < SPACE_RESUME) || (before < SPACE_STOP) != (now < SPACE_STOP);
}

/* How much room there is, and what publishers may take of it. After a commit the free pages are counted, where that
 * matters. */
void keeper_look(keeper_t *keeper, bool committed) {
    env_usage_t usage = {0};
    space_short_t by = SPACE_ENOUGH;
    blocks_t *blocks = &keeper->blocks;
    uint64_t before = atomic_load_explicit(&keeper->admits, memory_order_relaxed);
    uint64_t granted = atomic_load_explicit(&keeper->grants, memory_order_relaxed);
    env_usage(keeper->env, &usage);
    usage.free_bytes = atomic_load_explicit(&keeper->free_bytes, memory_order_relaxed);
    if (committed && (keeper->scarce || keeper_is_bounded(keeper) || usage.used_bytes > keeper->budget / 2)) {
        if (env_usage_exact(keeper->env, &usage) == STATUS_OK) { /* else what was counted last holds */
            atomic_store_explicit(&keeper->free_bytes, usage.free_bytes, memory_order_relaxed);
        }
    }
    blocks_look(blocks);
    space_t space = {.memory = keeper->journal == NULL,
                     .ring = keeper->batches->size,
                     .budget = keeper->budget,
                     .used = usage.used_bytes,
                     .free_pages = usage.free_bytes,
                     .holes = keeper_holes(keeper, usage.used_bytes),
                     .map_left = usage.map_bytes > usage.used_bytes ? usage.map_bytes - usage.used_bytes : 0,
                     .disk_free = blocks->free,
                     .agreed = keeper->agreed};
    keeper_firm_up(keeper, &space, committed);
    uint64_t wanted = space_wanted(&space);
    blocks_reserve(blocks, space.used, space.used + (wanted < space.map_left ? wanted : space.map_left), SPACE_LEAVE);
    space.firm = !blocks->loose;
    space.ahead = space.firm && blocks->reserved > space.used ? blocks->reserved - space.used : 0;
    space.disk_free = blocks->free;
    uint64_t admits = space_admits(&space, &by);
    uint64_t grants = space_grants(&space);
    keeper->looked_at = thread_elapsed_ns();
    atomic_store_explicit(&keeper->used_bytes, space.used, memory_order_relaxed);
    atomic_store_explicit(&keeper->ahead_bytes, space.ahead, memory_order_relaxed);
    atomic_store_explicit(&keeper->disk_free, space.disk_free, memory_order_relaxed);
    atomic_store_explicit(&keeper->short_by, (int)by, memory_order_relaxed);
    atomic_store_explicit(&keeper->grants, grants, memory_order_release);
    atomic_store_explicit(&keeper->admits, admits, memory_order_release);
    if (passes_mark(before, admits) || passes_mark(granted, grants)) {
        keeper_wake_plane(keeper);
    }
}
