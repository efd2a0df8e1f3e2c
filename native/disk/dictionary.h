/* dictionary.h: a dictionary of a stream whose messages are compressed: its record in LMDB, and those that a side has
 * read lately. Knows no LMDB: env.c fetches.
 *
 *     DICTIONARIES, and as a copy in another tree of pages DICTIONARY_COPIES
 *     key      stream 4, id 2                      ids count up; the greatest is in use, older ones have older messages
 *     value    crc 4, from 8, ts 8, gap 8, text    from: no message of a sequence from here on needs an older one
 *                                                  ts, gap: about what a message's ts, and its born less ts, is
 *
 * A dictionary comes into LMDB in the transaction of the first message that needs it, so none is ever missing: journal
 * and overlay have messages as they were sent. What a damaged one made unreadable is named like any damaged message; it
 * takes damage in both trees.
 *
 * Not here: when a stream gets one, and of what (packer.h).
 */
#ifndef LEAFD_DISK_DICTIONARY_H
#define LEAFD_DISK_DICTIONARY_H

#include <stdbool.h>

#include "base/check.h"
#include "base/status.h"
#include "base/bytes.h"
#include "disk/keys.h"

#define DICTIONARY_KEY_SIZE 6
#define DICTIONARY_FIXED_SIZE 28
/* Two pages of LMDB's, with its head, hold a whole value, which a sealer makes longer. */
#define DICTIONARY_VALUE_MAX 8128
#define DICTIONARY_TEXT_MAX (DICTIONARY_VALUE_MAX - DICTIONARY_FIXED_SIZE)
#define DICTIONARY_COPIES 2

typedef struct dictionary {
    uint64_t from;
    int64_t ts;
    int64_t gap;
    bytes_t text;
} dictionary_t;

void key_dictionary(store_key_t *key, uint32_t stream, uint32_t id);
static inline store_db_t dictionary_db(uint32_t copy) {
    return copy == 0 ? DB_DICTIONARIES : DB_DICTIONARY_COPIES;
}
/* value: room for DICTIONARY_VALUE_MAX bytes. Returns how many it is. */
uint32_t dictionary_write(uint8_t *value, bytes_t key, const dictionary_t *dictionary);
/* false: it is damaged. The text stays where it is. */
bool dictionary_read(bytes_t key, bytes_t value, dictionary_t *dictionary);

/* The finder of the dictionary that a message names. *found NULL: there is none, or it is damaged. Any other than
 * STATUS_OK: that is not known. */
typedef struct finder {
    void *context;
    status_t (*find)(void *context, uint32_t stream, uint32_t id, const dictionary_t **found);
} finder_t;

/* ---- those that were read lately --------------------------------------------------------------------------------- */

#define DICTIONARIES_KEPT 8

typedef struct dictionary_kept {
    uint32_t stream;
    uint32_t id;
    uint64_t version;
    bool known;  /* what is there: a sound one, or none */
    uint8_t *at; /* DICTIONARY_VALUE_MAX bytes; NULL: nothing kept yet */
    dictionary_t is;
} dictionary_kept_t;

typedef struct dictionaries {
    dictionary_kept_t kept[DICTIONARIES_KEPT];
} dictionaries_t;

/* The value of one copy in plain, until the next call; empty: there is none. */
typedef status_t (*dictionary_fetch_t)(void *context, store_db_t db, bytes_t key, bytes_t *value);
/* version: of what is read; what was kept of another one is read again. As a finder finds. */
LEAF_MUST_USE status_t dictionaries_find(dictionaries_t *dictionaries, uint32_t stream, uint32_t id, uint64_t version,
                                         dictionary_fetch_t fetch, void *context, const dictionary_t **found);
void dictionaries_forget(dictionaries_t *dictionaries);

#endif
