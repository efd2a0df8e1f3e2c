/* names.h: things by a name that is unique within their owner, in a map (map.h): the client identifiers of an account,
 * the streams of an account, the batches of a stream.
 *
 *     owner (a number)  +  name (bytes)   -->   the entry of which this link is a member
 *
 * An entry is taken out with map_take, and a walk is map_next. Not here: where the bytes of a name are kept, and for
 * how long. They stay as they are while their entry is in the map.
 */
#ifndef LEAFD_BASE_NAMES_H
#define LEAFD_BASE_NAMES_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/status.h"

/* A member of each entry. Owner and name are filled in before it is put into a map. */
typedef struct name_link {
    map_link_t link;
    uint32_t owner;
    bytes_t name;
} name_link_t;

/* NULL: there is none. */
name_link_t *names_find(const map_t *names, uint32_t owner, bytes_t name);
/* Adds an entry without looking for it. STATUS_NO_MEMORY: nothing has changed. */
LEAF_MUST_USE status_t names_put(map_t **names, name_link_t *entry);

#endif
