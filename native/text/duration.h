/* duration.h: durations as Go writes and reads them ("1h30m", "1.5s"): clients send them in -NAK, statuses show them.
 */
#ifndef LEAFD_TEXT_DURATION_H
#define LEAFD_TEXT_DURATION_H

#include "base/bytes.h"
#include "base/status.h"

#define DURATION_TEXT_MAX 32

/* Any text that Go's time.ParseDuration takes, with its sign, fractions and units; STATUS_INVALID otherwise or on
 * overflow. */
LEAF_MUST_USE status_t duration_parse(bytes_t text, int64_t *ns);
/* As Go's Duration.String; returns the size. */
uint32_t duration_format(int64_t ns, uint8_t to[DURATION_TEXT_MAX]);

#endif
