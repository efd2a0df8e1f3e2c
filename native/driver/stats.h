/* stats.h: the plane's counters, published once a tick for other threads to read.
 */
#ifndef LEAFD_DRIVER_STATS_H
#define LEAFD_DRIVER_STATS_H

#include <stdint.h>

#include "base/abi_types.h"

void stats_publish(plane_t *plane);
void stats_tick(plane_t *plane, uint64_t took_ns);

#endif
