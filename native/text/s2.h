/* s2.h: one compressed block of an S2 (or Snappy) stream back into bytes. Pure; bytes from the network come in here.
 *
 *     block:  length of the result (LEB128, at most 5 bytes), then elements, by the low 2 bits of their first byte:
 *     00  literal   length-1 in the upper 6 bits; 60..63: in the 1..4 bytes behind it (little-endian); then the bytes
 *     01  copy      length-4 in bits 2..4, offset: bits 5..7 and 8 of the next byte
 *                   offset 0: the last offset again; that length 5, 6, 7: longer ones behind it (1, 2, 3 bytes)
 *     10  copy      length-1 in the upper 6 bits, offset of 2 bytes
 *     11  copy      likewise, offset of 4 bytes
 *
 * A copy may overlap what it writes. Not here: the chunks around a block and their checksums, which
 * Python takes apart (agent/leafd/jetstream/backup/s2.py); compression (s2_encode.h).
 */
#ifndef LEAFD_TEXT_S2_H
#define LEAFD_TEXT_S2_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

/* How long the result will be, without making it. STATUS_CORRUPT: there is no such block. */
LEAF_MUST_USE status_t s2_size(bytes_t block, uint32_t *size);
/* Fills out, which has exactly the size that s2_size gave. STATUS_CORRUPT: damaged; out then holds anything. */
LEAF_MUST_USE status_t s2_decode(bytes_t block, uint8_t *out, uint32_t out_size);
/* The same of a block that was made behind a dictionary (s2_primed.h). With another dictionary, out holds anything. */
LEAF_MUST_USE status_t s2_decode_primed(bytes_t dictionary, bytes_t block, uint8_t *out, uint32_t out_size);

#endif
