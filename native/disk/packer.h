/* packer.h: what compresses messages on their way into LMDB, for the keeper: it knows which dictionary a stream has,
 * and makes one of its recent messages when that pays.
 *
 *     a stream's first 32 KB                each message for itself
 *     then, and after each further 1 MB     a trial: of 64 messages since the last one half become a dictionary, the
 *     (up to 16 MB, while none pays)        other half are compressed with it and with what is in use; it is taken
 *                                           where it makes them an eighth smaller
 *
 * A dictionary of which all messages are gone goes with the next trial, and all of them go when the stream has no
 * message any more: they are made of whole messages, which are not to outlive a purge. PACKER_LIVE_MAX are kept of a
 * stream at most: while so many have messages, the newest goes on. Of however many streams the encoders of
 * PACKER_PRIMED are at hand; for another one 8 KB are read, which takes 10 us.
 *
 * Reads and writes by env.h's write side, inside the write transaction: what that takes back is taken back here.
 */
#ifndef LEAFD_DISK_PACKER_H
#define LEAFD_DISK_PACKER_H

#include "disk/env.h"
#include "disk/packing.h"

#define PACKER_LIVE_MAX 16
#define PACKER_PRIMED 8
#define PACKER_FIRST (32u << 10) /* bytes of a stream, before the first trial */

typedef struct packer packer_t;

/* first: PACKER_FIRST, or less for tests. NULL: no memory; values then stay as they are. */
packer_t *packer_new(uint64_t first);
void packer_free(packer_t *packer); /* NULL: nothing */
/* The value that LMDB gets, until the next call; packer: NULL leaves the value. slot: of the stream (slots.h), 0: it
 * has none, and so no dictionary. Fails as writes do. */
LEAF_MUST_USE status_t packer_pack(packer_t *packer, env_t *env, uint32_t slot, bytes_t key, bytes_t *value);
/* The stream has no message any more, and so no dictionary; the next trial is after a megabyte. packer: NULL where it
 * has packed nothing. */
LEAF_MUST_USE status_t packer_drop(packer_t *packer, env_t *env, uint32_t slot, uint32_t stream);
/* The transaction has come to its end. Without a commit, no trial before there is one: the disk may be full. */
void packer_ended(packer_t *packer, bool committed);

#endif
