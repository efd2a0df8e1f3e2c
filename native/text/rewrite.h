/* rewrite.h: a subject carried from one pattern into another, and what two patterns have in common. Values only; who
 * may import what is decided elsewhere.
 *
 *     from  wild.*.x.*    to  w.*.*    order  1, 0       wild.a.x.b --> w.b.a
 *
 * order[i] says which wildcard of `from` the i-th wildcard of `to` stands for. A last '>' is a wildcard like the others
 * and takes the rest. With the patterns exchanged and the order inverted the way back is the same function.
 */
#ifndef LEAFD_TEXT_REWRITE_H
#define LEAFD_TEXT_REWRITE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"

#define REWRITE_WILDCARDS_MAX 32u

typedef struct rewrite {
    bytes_t from; /* the owner's text, valid as long as this is used */
    bytes_t to;
    uint32_t count; /* wildcards of either pattern */
    uint8_t order[REWRITE_WILDCARDS_MAX];
    bool same; /* both patterns are one text: nothing changes */
} rewrite_t;

/* STATUS_INVALID: the patterns' wildcards are not those of order, or '>' would end in the middle. */
LEAF_MUST_USE status_t rewrite_make(rewrite_t *rewrite, bytes_t from, bytes_t to, bytes_t order);
rewrite_t rewrite_inverse(const rewrite_t *rewrite);
/* subject has to match from (a pattern that is a subset of it will do). Fills out[0..*size).
 * STATUS_FULL: it is longer than max; STATUS_INVALID: it does not match. */
LEAF_MUST_USE status_t rewrite_subject(const rewrite_t *rewrite, bytes_t subject, uint8_t *out, uint32_t max,
                                       uint32_t *size);
/* The pattern of exactly those subjects that both patterns match. STATUS_NOT_FOUND: there are none. */
LEAF_MUST_USE status_t rewrite_common(bytes_t a, bytes_t b, uint8_t *out, uint32_t max, uint32_t *size);

#endif
