/* transform.h: renaming subjects: a source pattern, and a destination whose tokens are literals, the source's
 * wildcards, or functions of them. Compiled once, applied without allocating.
 *
 *     orders.*.*   ->   eu.{{partition(4,1)}}.$2.$1       orders.c17.new   ->   eu.3.new.c17
 *     in.>         ->   out.>                             in.a.b           ->   out.a.b
 *
 * Functions (the first letter of each word in either case), w = number of a wildcard of the source, from 1:
 *     $w, wildcard(w)                    the token                  split(w,text)         at every text, none left
 *                                                                                         empty
 *     partition(n[,w...])                hash of the tokens, or     splitFromLeft(w,n)    in two, behind n bytes
 *                                                                                         (splitFromRight)
 *                                        of the subject, modulo n   sliceFromLeft(w,n)    in pieces of n bytes
 *                                                                                         (sliceFromRight)
 *     random(n)                          below n                    left(w,n), right(w,n) n bytes of it
 *
 * What the reference does with odd arguments is done here: a wildcard numbered 0 or less is the first token of the
 * subject, a partition or random of 0 is "0", a cut that does not fit leaves the token whole. Not here:
 * texts of errors (control judges a transform before it gets here), which subjects are published or stored.
 */
#ifndef LEAFD_TEXT_TRANSFORM_H
#define LEAFD_TEXT_TRANSFORM_H

#include "base/bytes.h"
#include "base/status.h"

typedef struct transform transform_t;

/* source empty: ">". STATUS_INVALID: they do not fit each other, or one is no subject; STATUS_NO_MEMORY. Both are
 * copied. */
LEAF_MUST_USE status_t transform_new(bytes_t source, bytes_t destination, transform_t **out);
void transform_free(transform_t *transform); /* NULL is fine */

/* Renames a literal subject into out (max bytes). STATUS_NOT_FOUND: the source does not match it, or it is no literal
 * subject; STATUS_FULL: its new name is longer than max. random: fresh bits for each call. */
LEAF_MUST_USE status_t transform_apply(const transform_t *transform, bytes_t subject, uint64_t random, uint8_t *out,
                                       uint32_t max, uint32_t *size);

#endif
