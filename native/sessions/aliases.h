/* aliases.h: topic aliases (MQTT 5: 3.3.2.3.4), one table a direction of a connection.
 *
 *     from the client   it names the number; a number may get another topic     alias_set, alias_topic
 *     to the client     we number topics in the order in which they come, until all numbers are given   alias_of
 *
 * The numbers are 1 to the maximum that the receiver has named, which the sender must not go beyond. Not here: packets,
 * and what memory all tables may take.
 */
#ifndef LEAFD_SESSIONS_ALIASES_H
#define LEAFD_SESSIONS_ALIASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define ALIASES_SENT_MAX 64u /* that we give: they are looked for one by one */

typedef struct aliases {
    bytes_t *topics; /* own copies; the first is that of 1 */
    uint32_t max;
    uint32_t count; /* of those that we gave */
    uint64_t bytes; /* of all topics */
} aliases_t;

/* Empty: it was never set, or cannot be an alias. */
bytes_t alias_topic(const aliases_t *aliases, uint32_t alias);
/* STATUS_INVALID: not a number that there may be. STATUS_NO_MEMORY: as before. */
LEAF_MUST_USE status_t alias_set(aliases_t *aliases, uint32_t alias, bytes_t topic);
/* 0: it has none and gets none. *known: the client has been told. */
uint32_t alias_of(aliases_t *aliases, bytes_t topic, bool *known);
void aliases_free(aliases_t *aliases);

#endif
