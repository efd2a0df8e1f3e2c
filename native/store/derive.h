/* derive.h: the entries of a damaged leaf of heads, message ids or names, from what they follow from, in steps. Knows
 * the commit in which it was met, by a view; changes nothing.
 *
 *     heads        of the messages of that commit: first, last and how many of each subject
 *     ids          of the order of ids, which has each of them, too
 *     id order     of the ids. Of an id that came twice the older row stays away: nobody looks for it
 *
 *     names        of the definitions of that commit. The page is left to a start where a definition does not prove
 *                  itself, or where other names are missing: those are of definitions that are lost
 *
 * A message whose checksum fails counts for no subject, as in a recount (recount.h).
 */
#ifndef LEAFD_STORE_DERIVE_H
#define LEAFD_STORE_DERIVE_H

#include "disk/env.h"

typedef struct derive derive_t;

struct store;
/* NULL: no memory. */
derive_t *derive_new(const struct store *store);
void derive_free(derive_t *derive); /* NULL is fine */
/* What env_regrow_begin is given. */
env_supply_t derive_supply(derive_t *derive);

#endif
