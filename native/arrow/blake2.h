/* blake2.h: BLAKE2b (RFC 7693) without a key, for digests of 16 bytes: what hashlib.blake2b(digest_size=16) says. Ids
 * of messages are made of it, and a batch that is published again by other machine code, or by none, has to have the
 * same ones.
 */
#ifndef LEAFD_ARROW_BLAKE2_H
#define LEAFD_ARROW_BLAKE2_H

#include "base/bytes.h"

#define BLAKE2_DIGEST 16u
#define BLAKE2_BLOCK 128u

typedef struct blake2 {
    uint64_t state[8];
    uint64_t total;              /* bytes that were compressed */
    uint8_t block[BLAKE2_BLOCK]; /* of which `held` are there; the last block is compressed at the end */
    uint32_t held;
} blake2_t;

void blake2_begin(blake2_t *hash);
void blake2_add(blake2_t *hash, bytes_t bytes);
void blake2_end(blake2_t *hash, uint8_t digest[BLAKE2_DIGEST]);

#endif
