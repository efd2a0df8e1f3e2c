/* sealing.h: encryption at rest of one store: which key it is encrypted with, and whether that is the one that was
 * given. Knows META's record "key" and the ciphers; knows no journal, no stream.
 */
#ifndef LEAFD_DISK_SEALING_H
#define LEAFD_DISK_SEALING_H

#include <stddef.h>

#include "disk/cipher.h"
#include "disk/env.h"

#define SEALING_RECORD "key"
#define SEALING_RECORD_SIZE (VALUE_CRC_SIZE + 2 + SEALER_HIDDEN_SIZE)

typedef struct sealing {
    const plane_keys_t *keys; /* NULL: none. The caller's, until the store is open */
    const sealer_t *sealer;   /* NULL: nothing is sealed. Of the cipher, or of tests */
    cipher_t *cipher;
} sealing_t;

/* These are given the store's id, in a write transaction of env, whose entries are sealed from then on. On failure
 * `why` goes on behind "the store in DIRECTORY ". */

/* A new store: it is sealed from its first byte on. */
LEAF_MUST_USE status_t sealing_begin(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], char *why,
                                     size_t why_size);
/* One that is there. sealed: what its format says. Writes nothing. STATUS_INVALID: the keys that were given are not the
 * store's. */
LEAF_MUST_USE status_t sealing_resume(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], bool sealed,
                                      char *why, size_t why_size);
void sealing_close(sealing_t *sealing);

#endif
