/* squeeze.h: a batch on its way to the journal and back, compressed, so that it takes fewer blocks of the disk. Pure
 * functions on bytes; knows no file, no thread.
 *
 *     on the disk   header, whose `blocks` is not 0; pieces; zeros up to so many whole blocks
 *     piece         plain 4, packed 4, crc 4, then `packed` bytes: an S2 block of `plain` bytes, which are whole ops;
 *                   the ops as they are where `packed` is `plain`. Its first byte is 0, which begins no op
 *
 * Only the disk sees a batch so. In the ring it is plain, at the same position and with the same span: a position is
 * one place in memory and in the file, and what of its span a compressed batch does not write stays as an earlier lap
 * left it.
 *
 * The header's checksum covers all of its blocks. A piece has its own, so that damage costs the pieces that it hit and
 * no others. It is salted with the store's id, which nobody but the files knows, and with the position: a payload
 * cannot hold a forged piece, and what an earlier lap left is none.
 *
 * Not here: which batches are compressed (writer.c).
 */
#ifndef LEAFD_DISK_SQUEEZE_H
#define LEAFD_DISK_SQUEEZE_H

#include "disk/batch.h"
#include "text/s2_encode.h"

#define SQUEEZE_MAX (512u << 10)  /* larger batches stay as they are: memory for one as it goes to the disk is kept */
#define SQUEEZE_PIECE (16u << 10) /* a larger one makes 1 to 5 bytes of a message less, and damage costs more of them */

uint32_t squeeze_salt(const uint8_t store_id[WITNESS_ID_SIZE], uint64_t position);
/* Fills to, which has `room` bytes, with header and pieces, and returns how many it took; 0: it does not fit. batch has
 * size bytes, at most SQUEEZE_MAX, in sound ops. The same bytes in are the same bytes out. */
uint32_t squeeze_batch(s2_encoder_t *encoder, uint32_t salt, const uint8_t *batch, uint32_t size, uint8_t *to,
                       uint32_t room);
/* The other way: fills to, which has `size` bytes. false: these are not the pieces of such a batch. */
LEAF_MUST_USE bool squeeze_open(uint32_t salt, const uint8_t *stored, uint32_t stored_size, uint8_t *to, uint32_t size);
/* For damage: the ops of the next sound piece at or behind *offset, in `to`, which has room bytes. *skipped: something
 * lay before it. false: there is none. */
LEAF_MUST_USE bool squeeze_piece(uint32_t salt, bytes_t stored, uint32_t *offset, uint8_t *to, uint32_t room,
                                 uint32_t *plain, bool *skipped);

#endif
