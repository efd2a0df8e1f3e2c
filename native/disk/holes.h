/* holes.h: blocks of LMDB's free pages go back to the file system. LMDB's file never becomes shorter; but where a run
 * of its pages is free for good, a hole can be punched: the file keeps its length and its page numbers, `du` and the
 * file system count the hole no more, and no page is written for that. LMDB writes a free page before it reads it
 * again.
 *
 *     free pages, as LMDB will take them     | kept: blocks stay | a hole where the run is long ............ |
 *
 * What is kept is at the front, so that the next checkpoints find blocks whatever the file system has: while that is
 * short, the front gets its blocks again (holes_fill). How much it is, space.h says. Knows no ring and no thread; the
 * keeper calls between two transactions.
 */
#ifndef LEAFD_DISK_HOLES_H
#define LEAFD_DISK_HOLES_H

#include "disk/env.h"

#define HOLES_STEP 128 /* runs at a time */
#define HOLES_RUN_MIN (UINT64_C(64) << 10)

typedef struct holes {
    bool running;
    bool ripens;  /* it is worth it, and begins soon */
    bool refused; /* the file system cannot */
    uint64_t keep;
    uint64_t kept; /* so far in this round */
    env_free_place_t at;
    int64_t looked_at;
    uint64_t looked_upto; /* the checkpoint at which it was looked */
} holes_t;

/* From the front. */
void holes_begin(holes_t *holes, uint64_t keep);
/* STATUS_AGAIN: there is more; any other ends the round. */
LEAF_MUST_USE status_t holes_dig(holes_t *holes, env_t *env, int fd);
/* The first `keep` bytes of free pages get blocks, as far as the file system has any. */
void holes_fill(env_t *env, int fd, uint64_t keep);

#endif
