/* integer.h: whole numbers of any size, in decimal digits as they are sent and stored: read, added, taken from one
 * another. For counters, where a sum may be larger than any machine's number; what fits 64 bits is in decimal.h.
 */
#ifndef LEAFD_TEXT_INTEGER_H
#define LEAFD_TEXT_INTEGER_H

#include <stdbool.h>

#include "base/bytes.h"

typedef struct integer {
    bool negative;  /* not of zero */
    bytes_t digits; /* without leading zeros; none: zero */
} integer_t;

/* Digits with or without a sign. false: something else; *out is zero then. */
bool integer_parse(bytes_t text, integer_t *out);
static inline integer_t integer_negated(integer_t a) {
    return (integer_t){.negative = !a.negative && a.digits.size != 0, .digits = a.digits};
}
/* The size of the sum as text, at most. */
static inline uint32_t integer_room(integer_t a, integer_t b) {
    return (a.digits.size > b.digits.size ? a.digits.size : b.digits.size) + 2;
}
/* The sum, as text in the caller's room (integer_room), which overlaps neither. */
bytes_t integer_add(integer_t a, integer_t b, uint8_t *room);

#endif
