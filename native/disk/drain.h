/* drain.h: a checkpoint when room is short. The keeper's ordinary one applies batches in their order and commits once;
 * when that found no room, this one takes more time and as little room as can be:
 *
 *     removals first     of all durable batches, those behind the checkpoint too: they free pages
 *     then what stays    a put whose key a later op changes or removes, durable but behind the checkpoint perhaps, is
 *                        left out
 *     in pieces          of a few ops each, so that the pages that one piece freed serve a later one
 *
 * A commit in the middle is safe: LMDB's note of how far it has come is written with the last piece, so that after a
 * crash all is applied again, and a reader of a later snapshot asks the memtable first, which still has every op. The
 * plane has to renew its snapshot between pieces (`pieces`), or LMDB keeps the pages that it could read.
 */
#ifndef LEAFD_DISK_DRAIN_H
#define LEAFD_DISK_DRAIN_H

#include "disk/batch.h"
#include "disk/env.h"

#define DRAIN_PIECE 4096
#define DRAIN_PIECE_MIN 16

typedef struct drain {
    env_t *env;
    batches_t batches; /* the keeper's own view: from `from` to `durable`, nothing else of it is looked at */
    uint64_t from;     /* LMDB has everything before it */
    uint64_t to;       /* the checkpoint's end */
    uint64_t durable;  /* ops up to here count as later ones */
    uint32_t piece;    /* ops in one commit */
    /* kept from one try to the next: removals and puts before these positions are in LMDB. A removal must not be done
     * again, it would take a later put along that is in LMDB already. */
    uint64_t removed;
    uint64_t put;
    void (*told)(void *context); /* a piece is in LMDB */
    void *context;
    /* out: of the last batch before `to` */
    uint64_t number;
    uint32_t chain;
} drain_t;

/* STATUS_NO_SPACE: some of it may be in LMDB. Leaves the last piece in an open write transaction, for the caller's note
 * and commit. */
LEAF_MUST_USE status_t drain_run(drain_t *drain);

#endif
