/* time_text.h: Unix nanoseconds as RFC 3339 text and back, in UTC, the way Go writes and reads them. */
#ifndef LEAFD_PLANE_TIME_TEXT_H
#define LEAFD_PLANE_TIME_TEXT_H

#include <stdbool.h>

#include "base/bytes.h"

#define TIME_TEXT_MAX 40u

/* "2026-11-21T03:36:37.80638555Z": up to nine digits of fraction, trailing zeros trimmed. Returns the size. */
uint32_t time_format(int64_t ns, uint8_t to[TIME_TEXT_MAX]);
/* With any fraction and a zone ("Z" or "+02:00"). false: not a time, or outside 1678..2262. */
bool time_parse(bytes_t text, int64_t *ns);

#endif
