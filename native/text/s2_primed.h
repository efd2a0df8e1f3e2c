/* s2_primed.h: blocks of S2 that begin with something behind them: a dictionary, which both sides have and the block
 * has not. A small block alone has little to copy from; behind a dictionary of blocks like it, it is what is new.
 *
 *     dictionary  [ older ................ newer ]   block's bytes
 *                                            <------- an offset goes back over the block's beginning
 *
 * Otherwise the block is one of s2.h. Without the same dictionary it says nothing: its keeper has a checksum of what is
 * to come out.
 *
 * Beside dictionaries of zstd (packaging/doc/figures.md, 2026-11-27) messages of 90 bytes come out smaller by a sixth,
 * those of 300 larger by a third and in two to three times the time: zstd's entropy coding is what these have not.
 */
#ifndef LEAFD_TEXT_S2_PRIMED_H
#define LEAFD_TEXT_S2_PRIMED_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define S2_DICTIONARY_MAX 8192u /* bytes of a dictionary */
#define S2_PRIMED_MAX 8192u     /* bytes of a block */

typedef struct s2_primer s2_primer_t;

/* 57 KB. NULL: no memory. It has an empty dictionary. */
s2_primer_t *s2_primer_new(void);
void s2_primer_free(s2_primer_t *primer); /* NULL: nothing */
/* From now on blocks are made behind this dictionary, of which the end counts most: of one that is too long, its last
 * bytes. Takes about 10 us. */
void s2_prime(s2_primer_t *primer, bytes_t dictionary);
/* Fills to, which has room bytes, and returns how many it took; 0: more than that, or `from` is larger than
 * S2_PRIMED_MAX. */
uint32_t s2_encode_primed(s2_primer_t *primer, bytes_t from, uint8_t *to, uint32_t room);

#endif
