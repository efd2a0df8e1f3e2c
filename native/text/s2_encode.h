/* s2_encode.h: one block of an S2 stream from bytes: the other direction of s2.h, which draws the format.
 *
 * Three searches for what came before. Fast looks at one earlier place for each hash; better at a few and best at many,
 * and both ask whether a match that begins a byte later is worth more. A block knows nothing of the blocks before it,
 * so the tables, which outlive it, hold places that only grow: an older block's are below the present one's first, and
 * nothing has to be cleared.
 *
 * Not here: chunks and checksums (net/compress.h).
 */
#ifndef LEAFD_TEXT_S2_ENCODE_H
#define LEAFD_TEXT_S2_ENCODE_H

#include <stdint.h>

#include "base/bytes.h"

#define S2_ENCODE_MAX (256u * 1024u) /* bytes of one block */

typedef enum s2_effort { S2_EFFORT_FAST, S2_EFFORT_BETTER, S2_EFFORT_BEST } s2_effort_t;

typedef struct s2_encoder s2_encoder_t;

/* NULL: no memory. Fast takes 64 KB, the others 1.3 MB. */
s2_encoder_t *s2_encoder_new(s2_effort_t effort);
void s2_encoder_free(s2_encoder_t *encoder); /* NULL: nothing */
/* Fills to, which has room bytes, and returns how many it took; 0: more than that, it is not worth it. from has at most
 * S2_ENCODE_MAX bytes. */
uint32_t s2_encode(s2_encoder_t *encoder, bytes_t from, uint8_t *to, uint32_t room);

#endif
