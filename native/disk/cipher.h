/* cipher.h: encryption at rest: makes the sealer of a store (sealer.h) from the key that the operator gave. Knows keys
 * and bytes; knows no file, no LMDB, no stream.
 *
 *     key, as it was given --HKDF-SHA-256, salt: the store's id--> three keys, by label: hash, tag, text
 *
 *     T       = PRF(tag key, Poly1305(hash key, place, size of name, name, plain))      16 bytes
 *     sealed  = plain XOR stream(text key, beginning at T), T
 *     hidden  = PRF(tag key, Poly1305(hash key, place | 64, size of name, name, text))  16 bytes, in place of a text
 *
 *     aes       PRF: AES-256 of the block.  stream: AES-256 in counter mode, T is the first counter block
 *     chacha    PRF: the first 16 bytes of ChaCha20's stream that begins at the block.  stream: ChaCha20, T is the
 *               first counter (31 bits of it) and the nonce
 *
 * The argument. This is SIV, the deterministic encryption of Rogaway and Shrimpton (2006, as in RFC 5297), over a hash
 * that is put through a block cipher (as in RFC 8452): the initialization vector is a keyed hash over place, name and
 * plain text, and is the proof of authenticity as well. There is no nonce that could come twice: not after a crash, not
 * when the image of a disk is put back or copied to other boxes. Equal bytes come out only for the same text at the
 * same place under the same name, and that it is the same is all that they tell. Poly1305 with a fixed key is safe here
 * because nobody sees its result, only what the cipher makes of it. Two of n texts of up to 2 ^ l blocks of 16 bytes
 * collide with a probability of less than n * n * 2 ^ (l - 103): 2 ^ -17 after 2 ^ 40 messages of a kilobyte.
 *
 * Texts of more than a kilobyte (batches of the journal) are OpenSSL's from end to end. For shorter ones its setting-up
 * costs more than its work: they are hashed by poly1305.c, and the blocks of several texts go through the cipher in one
 * call, OpenSSL's for AES, chacha20.c for ChaCha20. Measured (OpenSSL 3.0, 200 bytes): AES-SIV of RFC 5297 4.0 us, its
 * calls text by text 0.33 (aes) and 0.66 us (chacha), this 0.13 to 0.15 us; AES-GCM-SIV came with OpenSSL 3.2 only.
 * On 2026-11-27, at a load of 10 and so by processor time: EVP_chacha20_poly1305 with a nonce of its own for each text
 * of 200 bytes 1.03 to 1.16 us, the same work by poly1305.c and chacha20.c 0.42 to 0.46, and 0.23 to 0.26 where 16
 * share.
 *
 * OpenSSL's libcrypto is loaded by the first cipher_open: a process without a key neither loads nor pays for it. A
 * process with a key writes no core dump: it would put on the disk in plain what the store keeps from it, and the key
 * beside it. Keys lie in locked memory that is overwritten at the end, but for AES's, which OpenSSL has, and
 * overwrites.
 */
#ifndef LEAFD_DISK_CIPHER_H
#define LEAFD_DISK_CIPHER_H

#include <stddef.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "disk/sealer.h"

#define CIPHER_SALT_SIZE 16
#define CIPHER_KEY_SIZE_MAX 4096

typedef struct cipher cipher_t;

/* kind: CIPHER_* of abi.h. The key is not needed any more afterwards. On failure reason says why: STATUS_INVALID,
 * STATUS_NO_MEMORY. */
LEAF_MUST_USE status_t cipher_open(uint32_t kind, bytes_t key, const uint8_t salt[CIPHER_SALT_SIZE], cipher_t **out,
                                   char *reason, size_t reason_size);
/* Overwrites the keys. NULL is fine. */
void cipher_close(cipher_t *cipher);
/* Lives as long as the cipher. */
const sealer_t *cipher_sealer(const cipher_t *cipher);
/* The check of an empty text: tells a wrong key from the right one, and nothing else of either. Of a text: proves that
 * who has the key said it. */
void cipher_check(const cipher_t *cipher, bytes_t text, uint8_t check[SEALER_HIDDEN_SIZE]);

#endif
