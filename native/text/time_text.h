/* time_text.h: Unix nanoseconds as RFC 3339 text and back, in UTC, the way Go writes and reads them. */
#ifndef LEAFD_TEXT_TIME_TEXT_H
#define LEAFD_TEXT_TIME_TEXT_H

#include <stdbool.h>

#include "base/bytes.h"

#define TIME_TEXT_MAX 40u

/* "2026-11-21T03:36:37.80638555Z": up to nine digits of fraction, trailing zeros trimmed. Returns the size. */
uint32_t time_format(int64_t ns, uint8_t to[TIME_TEXT_MAX]);
/* Days since 1970-01-01 and back, proleptic Gregorian; month 1..12, day 1..31. */
int64_t days_from_date(int64_t year, int64_t month, int64_t day);
void date_from_days(int64_t days, int64_t *year, int64_t *month, int64_t *day);
/* With any fraction and a zone ("Z" or "+02:00"). false: not a time, or outside 1678..2262. */
bool time_parse(bytes_t text, int64_t *ns);
/* The same of any year: what 64 bits of nanoseconds do not reach is the first or the last of them. */
bool time_parse_nearest(bytes_t text, int64_t *ns);

#endif
