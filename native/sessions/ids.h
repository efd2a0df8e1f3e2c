/* ids.h: a set of packet identifiers (1 to 65,535): which of them are in use in one direction of one session.
 *
 *     pages   [ 0 ][ 1 ] .. [ 255 ]      NULL until an identifier of that page comes
 *     page    256 bits                   identifiers of a client are near each other, so a set is a page or two
 *
 * Not here: what an identifier stands for.
 */
#ifndef LEAFD_SESSIONS_IDS_H
#define LEAFD_SESSIONS_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define IDS_PAGES 256u
#define IDS_PAGE_BYTES 32u

typedef struct ids {
    uint8_t **pages; /* NULL: the set is empty, and was always */
    uint32_t count;
} ids_t;

bool ids_has(const ids_t *ids, uint16_t id);
/* STATUS_EXISTS: it is in already. */
LEAF_MUST_USE status_t ids_add(ids_t *ids, uint16_t id);
bool ids_take(ids_t *ids, uint16_t id); /* false: it was not in */
void ids_free(ids_t *ids);

#endif
