/* schedule.h: the patterns of scheduled messages: "@at TIME", "@every DURATION", cron with seconds. Pure: texts and
 * times in, times out. */
#ifndef LEAFD_TEXT_SCHEDULE_H
#define LEAFD_TEXT_SCHEDULE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "text/zone.h"

/* When the pattern is due next after `base_ns` (Unix ns), which is the time before, or that of the publish. What was
 * missed until `now_ns` counts once. zone: NULL where the message names none. false: not a pattern. */
bool schedule_next(bytes_t pattern, const zone_t *zone, int64_t base_ns, int64_t now_ns, int64_t *next_ns,
                   bool *repeats);

#endif
