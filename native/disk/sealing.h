/* sealing.h: encryption at rest of one store: which key it is encrypted with, whether that is the one that was given,
 * and the change from one key to another, or from none. Knows META's record "key", the ciphers and env.h; no journal,
 * no stream.
 *
 *     start: key, and the one before       replay by the older one; then, in one transaction, the record names both;
 *                                          entries with a text in the key are sealed anew before anybody reads
 *     running                              the keeper seals the others anew, some at a time; reads try both
 *     all are                              the record names the new one alone
 *
 * A kill in between: the next start goes on where the record says, and needs both keys until the end.
 */
#ifndef LEAFD_DISK_SEALING_H
#define LEAFD_DISK_SEALING_H

#include <stddef.h>

#include "disk/cipher.h"
#include "disk/env.h"

#define SEALING_RECORD "key"
#define SEALING_RECORD_SIZE (VALUE_CRC_SIZE + 4 + 2 * SEALER_HIDDEN_SIZE)

typedef enum sealing_state {
    SEALING_DONE = 0, /* all is sealed with one key */
    SEALING_TEXTS,    /* entries with a text in the key are sealed anew, nobody reads */
    SEALING_VALUES,   /* the others are, while the store is in use */
} sealing_state_t;

typedef struct sealing {
    const plane_keys_t *keys; /* NULL: none. The caller's, until the store is open */
    const sealer_t *sealer;   /* NULL: nothing is sealed. Of the cipher, or of tests */
    cipher_t *cipher;
    cipher_t *older; /* NULL while a change goes on: nothing was sealed */
    sealer_t both;
    uint32_t kind;
    uint32_t older_kind; /* 0: none */
    sealing_state_t state;
    bool change;   /* is to begin: sealing_change */
    bool mend;     /* the record is to be made anew: sealing_mend */
    bool surveyed; /* the entries told the key, because META could not be believed */
    /* keeper */
    uint32_t index;
    store_key_t from;
} sealing_t;

/* The functions below get the store's id, in a write transaction of env, whose entries are sealed from then on. On
 * failure `why` goes on behind "the store in DIRECTORY ". */

/* A new store: it is sealed from its first byte on. */
LEAF_MUST_USE status_t sealing_begin(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], char *why,
                                     size_t why_size);
/* One that is there. sealed: what its format says. Writes nothing. STATUS_INVALID: the keys that were given are not the
 * store's. Where the record is destroyed, or was not written with the key, the entries tell: all of them have to
 * open with the keys that were given, unless the loss of the others is accepted. They tell as well where the format
 * says that nothing is sealed: what is in plain beside one that opens is not the store's. */
LEAF_MUST_USE status_t sealing_resume(sealing_t *sealing, env_t *env, const uint8_t id[CIPHER_SALT_SIZE], bool sealed,
                                      bool accepted, char *why, size_t why_size);
/* Opens the entries of a store that is not being started, from META's record as it was read elsewhere. Writes nothing.
 * Where the record is not sound: STATUS_CORRUPT. */
LEAF_MUST_USE status_t sealing_look(sealing_t *sealing, bytes_t record, const uint8_t id[CIPHER_SALT_SIZE], char *why,
                                    size_t why_size);
/* The journal has nothing any more that LMDB has not: from here on the new key seals. In a write transaction. */
LEAF_MUST_USE status_t sealing_change(sealing_t *sealing, env_t *env);
/* The record that the entries told. In a write transaction. */
LEAF_MUST_USE status_t sealing_mend(sealing_t *sealing, env_t *env);
/* Before anybody reads; transactions of its own. What has a text in its key, if a change goes on. */
LEAF_MUST_USE status_t sealing_texts(sealing_t *sealing, env_t *env);
/* The keeper, between its own transactions. STATUS_AGAIN: there is more to do. */
LEAF_MUST_USE status_t sealing_step(sealing_t *sealing, env_t *env);
void sealing_close(sealing_t *sealing);

#endif
