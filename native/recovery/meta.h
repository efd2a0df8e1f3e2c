/* meta.h: the few records of LMDB that a start depends on (META of keys.h), and what becomes of a start when one is
 * damaged. Nobody outside native/recovery includes this.
 */
#ifndef LEAFD_RECOVERY_META_H
#define LEAFD_RECOVERY_META_H

#include "recovery/recover.h"

typedef enum meta_record {
    META_FORMAT = 0,
    META_APPLIED,
    META_JOURNAL,
    META_CLOCK,
    META_KEY,
    META_COUNT
} meta_record_t;

typedef struct meta {
    bool empty; /* there is not one record: LMDB is new */
    bool has[META_COUNT];
    bool strange; /* there are others, which may be one of these once */
} meta_t;

/* Looks at all of them before anything else of LMDB is used. Those that are kept twice are put right and alarmed. */
LEAF_MUST_USE status_t meta_look(opening_t *opening, meta_t *meta);
/* Without format or note: writes them anew from what the journal says; refuses when it does not say enough, unless the
 * loss is accepted. */
LEAF_MUST_USE status_t meta_replace(opening_t *opening, const meta_t *meta);
/* The store's id is known: is it sealed as the options say? Inside a write transaction. */
LEAF_MUST_USE status_t meta_unseal(opening_t *opening, bool fresh, bool sealed);

#endif
