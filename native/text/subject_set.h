/* subject_set.h: many subject patterns, and whether one of them matches, covers or overlaps a subject.
 *
 * The answers are those of asking each pattern in turn (subject.h). Up to SUBJECT_SET_SMALL patterns that is how they
 * are found; more are sorted by tokens, so that the patterns with the same first tokens stand side by side: the array
 * is a trie without nodes, and each token of the subject narrows a range of it by bisection.
 *
 *     a.*   a.*.c   a.b   a.b.>   b.>          range of "a": 0..3    of "a.b": 2..3    "a.b" itself is the first of
 *                                                                                      that
 *
 * The caller owns the array and the bytes, and leaves both alone while the set is used.
 */
#ifndef LEAFD_TEXT_SUBJECT_SET_H
#define LEAFD_TEXT_SUBJECT_SET_H

#include <stdbool.h>

#include "base/bytes.h"

#define SUBJECT_SET_SMALL 16u /* up to so many it is faster to compare them one by one */

typedef struct subject_set {
    const bytes_t *at;
    uint32_t count;
    uint32_t sorted; /* the first so many; the others are asked one by one */
} subject_set_t;

/* Reorders the array. Patterns that are not valid may be in it. */
subject_set_t subject_set_make(bytes_t *at, uint32_t count);
/* Does any pattern match the literal subject? */
bool subject_set_matches(const subject_set_t *set, bytes_t literal);
/* Is there one of which the pattern is a subset? */
bool subject_set_covers(const subject_set_t *set, bytes_t pattern);
/* Is there one that can match a subject which the pattern matches too? */
bool subject_set_collides(const subject_set_t *set, bytes_t pattern);

#endif
