/* status.h: the one status type of the C rooms.
 *
 * Every function that can fail returns a status and is marked LEAF_MUST_USE: callers act on it or hand it up.
 * Its values are in abi.h, because completions carry them to Python.
 * Not here: JetStream error codes; those are rows in agent/leafd/jetstream/errors.py, and the few that
 * the hot path answers itself are in jetstream/publish.c and jetstream/fast.c.
 */
#ifndef LEAFD_BASE_STATUS_H
#define LEAFD_BASE_STATUS_H

#include "base/abi_types.h"

#define LEAF_MUST_USE __attribute__((warn_unused_result))

/* A short English name, for logs and failing tests. Never NULL. */
const char *status_name(status_t status);

#endif
