/* meta_rows.h: the table that the servers of a cluster have in common: key > revision and value. Rows are records of
 * the store, written by entries of the group's log alone: every member has the same rows at the same index.
 *
 *     entry     0 version  1 change ...                all of its changes are made, or none
 *     change    0 flags  1 size of key  2 size of value 4  6 revision 8  14 key  value
 *     record    RECORD_META, key                       revision 8, value
 *     state     size of key 1, size of value 4, revision 8, key, value ...        a copy, and what is shown
 *
 * A change names the revision that its row has to have (0: there is none; META_ANY). A row's revision is the index of
 * the entry that wrote it, so who decides by a row and is late changes nothing.
 *
 * Not here: who proposes what (agent/leafd/cluster), the group (meta.h).
 */
#ifndef LEAFD_META_META_ROWS_H
#define LEAFD_META_META_ROWS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "store/store.h"

#define META_ANY UINT64_MAX /* whatever its revision is */
#define META_REMOVES 1u     /* of a change: the row goes */
#define META_KEY_MAX 255u

typedef struct meta_verdict {
    bool made;
    uint64_t revision; /* of the row that stood in the way, or of those that were written */
} meta_verdict_t;

/* An entry with one change. STATUS_INVALID: its key has no size, or too large a one. */
LEAF_MUST_USE status_t meta_entry(buffer_t *to, bytes_t key, bytes_t value, uint64_t revision, bool removes);
/* false: there is no room just now, or a row cannot be read, and nothing was done. */
bool meta_rows_apply(store_t *store, uint64_t index, bytes_t entry, meta_verdict_t *verdict);
/* false: some cannot be read, or there is no memory. */
bool meta_rows_save(store_t *store, buffer_t *to);
/* In the place of all that are there. false: there is no room just now, and nothing was done; or these are no rows. */
bool meta_rows_restore(store_t *store, bytes_t state);

#endif
