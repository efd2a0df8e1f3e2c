/* suspect.h: a data.mdb that may be damaged in its structure: what makes it suspect, and what a start does about it.
 * Nobody outside native/recovery includes this.
 */
#ifndef LEAFD_RECOVERY_SUSPECT_H
#define LEAFD_RECOVERY_SUSPECT_H

#include "recovery/recover.h"

/* Before LMDB is opened. Damage is alarmed; where it has ended a process already, or would, the start is refused. */
LEAF_MUST_USE status_t suspect_look(opening_t *opening);
/* LMDB itself complains: the next start looks before it opens. */
void suspect_mark(const store_t *store);
/* From here on, and not any more: a fault of memory says what is going to be done about it, and marks the file. */
void suspect_watch(const store_t *store);
void suspect_unwatch(const store_t *store);

#endif
