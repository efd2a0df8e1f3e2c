/* commit_hold.h: a commit of an LMDB environment that another process uses, kept readable in its file for as long as
 * it is held: LMDB does not use its pages again. Reads nothing and writes nothing but a place in LMDB's own table of
 * readers; whose process ends loses it (env_write_begin).
 */
#ifndef LEAFD_DISK_COMMIT_HOLD_H
#define LEAFD_DISK_COMMIT_HOLD_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

typedef struct hold hold_t;

/* The environment is in use: its lock file is there. */
LEAF_MUST_USE status_t hold_open(const char *directory, hold_t **out, char *reason, size_t reason_size);
/* The newest commit in place of the one that was held. */
LEAF_MUST_USE status_t hold_newest(hold_t *hold);
uint64_t hold_commit(const hold_t *hold); /* its number */
void hold_close(hold_t *hold);            /* NULL is fine */

#endif
