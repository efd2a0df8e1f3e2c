/* chacha20.h: the block function of ChaCha20 (RFC 8439, 2.3) for many counters and nonces at once. For short texts, of
 * which each has a nonce of its own: OpenSSL takes one nonce at a time and is fast where a text has kilobytes. In
 * constant time: neither branches nor addresses depend on key, counters or nonces.
 */
#ifndef LEAFD_TEXT_CHACHA20_H
#define LEAFD_TEXT_CHACHA20_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHACHA20_KEY_SIZE 32
#define CHACHA20_INPUT_SIZE 16 /* counter 4 (little-endian), nonce 12 */
#define CHACHA20_BLOCK_SIZE 64

/* blocks: room for count of them; may not be where the inputs are. */
void chacha20_blocks(const uint8_t key[CHACHA20_KEY_SIZE], const uint8_t *inputs, size_t count, uint8_t *blocks);

/* The same by one of the ways to do it, for tests. false: this processor does not know it. */
typedef enum chacha20_way { CHACHA20_ROWS_16 = 0, CHACHA20_ROWS_32, CHACHA20_ROWS_64, CHACHA20_WAYS } chacha20_way_t;
bool chacha20_blocks_by(chacha20_way_t way, const uint8_t key[CHACHA20_KEY_SIZE], const uint8_t *inputs, size_t count,
                        uint8_t *blocks);

#endif
