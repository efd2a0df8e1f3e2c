/* env_large.h: values that have pages of their own have as many as they need. A value that takes the place of a larger
 * one keeps all of its pages where LMDB has written these in the same transaction: then nobody could say whether the
 * number in the first page's head is right, which LMDB believes when it frees them (page.h). So the larger one is
 * removed first.
 */
#ifndef LEAFD_DISK_ENV_LARGE_H
#define LEAFD_DISK_ENV_LARGE_H

#include "disk/env_lmdb.h"

#define LARGE_PART 4 /* of a page: LMDB gives no smaller value pages of its own */

/* A write transaction has begun. */
void env_large_begin(env_t *env);
/* Before each put that may find another value under its key. */
LEAF_MUST_USE status_t env_large_put(env_t *env, uint32_t index, bytes_t key, uint32_t size);

#endif
