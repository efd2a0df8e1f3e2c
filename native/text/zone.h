/* zone.h: time zones by their IANA names ("Europe/Berlin"), from the system's database: how far a zone is from UTC at a
 * moment. */
#ifndef LEAFD_TEXT_ZONE_H
#define LEAFD_TEXT_ZONE_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct zone zone_t;

/* Reads a file, so not for the hot path. The caller frees. NULL: no such zone (or no memory). "UTC" needs no
 * database. */
zone_t *zone_open(bytes_t name);
void zone_close(zone_t *zone); /* NULL is allowed */
/* Seconds east of UTC at that moment (Unix seconds). NULL is UTC. */
int64_t zone_offset(const zone_t *zone, int64_t at);

#endif
