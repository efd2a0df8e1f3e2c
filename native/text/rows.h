/* rows.h: many objects of JSON that differ in a few places only, such as a report's rows of streams. What they have in
 * common is given once, as literals; what differs lies in records of one size:
 *
 *     literals   ,\n{"name": | ,"created": | ,"messages": | ,"deleted": | }
 *     columns                ROW_TEXT     ROW_TIME       ROW_NUMBER    ROW_OPTIONAL   ROW_NOTHING
 *     a record               size 8       ns 8           uint64 8      uint64 8
 *     texts                  "ORDERS" "EVENTS" ...        JSON already, one behind the other
 *
 * Pure, and allocates nothing. Not here: what the rows say, and how strings are escaped (Python).
 * A text may be of any kind, as metrics have them.
 */
#ifndef LEAFD_TEXT_ROWS_H
#define LEAFD_TEXT_ROWS_H

#include "base/abi_types.h"
#include "base/bytes.h"

/* Writes `count` rows; returns what they take. -1: a column, its literal or a text lies outside of what was given, or
 * `room` is too small; what `to` has is of no use then. */
int64_t rows_write(const row_format_t *format, const uint8_t *records, uint32_t count, bytes_t texts, uint8_t *to,
                   uint64_t room);

#endif
