/* salvage.h: between salvage.c, which finds out what a damaged journal still proves, rescue.c, which finds out what a
 * damaged data.mdb still holds, and rebuild.c, which brings it into LMDB. Nobody outside native/recovery includes
 * this. */
#ifndef LEAFD_RECOVERY_SALVAGE_H
#define LEAFD_RECOVERY_SALVAGE_H

#include "recovery/recover.h"

/* Behind replay's end: damage is told from a torn tail, repaired where one bit is wrong, and what is proven behind it
 * is applied. In the write transaction, which it begins when replay has not. Moves opening's position on;
 * opening->damage says what there was. */
LEAF_MUST_USE status_t salvage_tail(opening_t *opening);

/* data.mdb has damaged pages: `what` is the first. STATUS_OK: a sound one is in its place, and alarms say what is lost.
 * STATUS_CORRUPT: too many for a start that nobody has asked to do without what they held. Any other: an alarm says
 * that it could not be made, and the start goes on with what there is. */
LEAF_MUST_USE status_t mend_store(opening_t *opening, const char *what);

typedef struct rebuild rebuild_t;
rebuild_t *rebuild_new(store_t *store); /* NULL: no memory */
void rebuild_free(rebuild_t *rebuild);
/* Something is missing between what was applied and what comes. */
void rebuild_hole(rebuild_t *rebuild);
/* A sound batch behind a hole. */
LEAF_MUST_USE status_t rebuild_batch(rebuild_t *rebuild, const uint8_t *batch, uint32_t size);
/* A damaged batch: the ops in [BATCH_HEADER_SIZE, end) whose own checksum holds. whole: its structure is sound up to
 * the end. */
LEAF_MUST_USE status_t rebuild_pieces(rebuild_t *rebuild, const uint8_t *batch, uint32_t end, bool whole);
/* One entry that is sound in itself, in the write transaction. One that there cannot be is left out. */
LEAF_MUST_USE status_t rebuild_op(rebuild_t *rebuild, const batch_op_t *op);
/* Writes the streams' states, and raises the alarms of what they lost. */
LEAF_MUST_USE status_t rebuild_end(rebuild_t *rebuild);

#endif
