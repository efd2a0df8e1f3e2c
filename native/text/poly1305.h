/* poly1305.h: the hash of RFC 8439 (2.5) over two texts, one behind the other. For short ones: OpenSSL's is faster per
 * byte, but makes itself ready anew for each text, which costs more than hashing 200 bytes. In constant time: neither
 * branches nor addresses depend on what is hashed, or on the key.
 */
#ifndef LEAFD_TEXT_POLY1305_H
#define LEAFD_TEXT_POLY1305_H

#include "base/bytes.h"

#define POLY1305_KEY_SIZE 32
#define POLY1305_SIZE 16

#ifdef __SIZEOF_INT128__
#define POLY1305_IS_THERE 1
/* key: r (clamped here), s. */
void poly1305_hash(const uint8_t key[POLY1305_KEY_SIZE], bytes_t first, bytes_t second, uint8_t hash[POLY1305_SIZE]);
/* Two of them under one key, in less time than one after the other. */
void poly1305_two(const uint8_t key[POLY1305_KEY_SIZE], const bytes_t firsts[2], const bytes_t seconds[2],
                  uint8_t hashes[2 * POLY1305_SIZE]);
#else
#define POLY1305_IS_THERE 0
#endif

#endif
