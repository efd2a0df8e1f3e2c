/* changes.h: what a leader writes of a stream's consumers and sessions, as bytes of an entry: the same writes to the
 * records of each member, and the same messages removed, which the consumers need no more. Each is absolute, so that
 * doing them again changes nothing.
 *
 *     n times   0 act 1 (RECORD_PUT ..)  1 kind 1  2 key's size 1  3 value's size 4  7 key, without the stream's id,
 *               which is each member's own; value
 *     a message 0 CHANGE_REMOVE 1  1 0  2 8  3 0 4  7 sequence 8
 */
#ifndef LEAFD_GROUP_CHANGES_H
#define LEAFD_GROUP_CHANGES_H

#include "base/buffer.h"
#include "store/record.h"

#define CHANGE_REMOVE 4u                  /* beside the acts of record.h */
#define CHANGES_MAX (UINT64_C(256) << 10) /* bytes of one entry, but for a single change that is larger */

/* STATUS_FULL: what is there has to go first. */
LEAF_MUST_USE status_t changes_add(buffer_t *changes, const record_change_t *change);
LEAF_MUST_USE status_t changes_add_removal(buffer_t *changes, uint64_t seq); /* likewise */
/* STATUS_OK; STATUS_INVALID: these are no changes, and nothing was done; any other: later, from the first one on. */
LEAF_MUST_USE status_t changes_apply(store_stream_t *stream, bytes_t changes);
/* Of changes that only put what was not there: it is not there any more. */
LEAF_MUST_USE status_t changes_take_back(store_stream_t *stream, bytes_t changes);

#endif
