/* keys.h: every key and every value that the store keeps in LMDB, drawn. Pure functions on bytes; knows no LMDB and no
 * batch.
 *
 * Integers are big-endian, so that byte order is number order and a file can move between machines. Every value begins
 * with a CRC32C over the key and the rest of the value: a value that lost its way to another key fails too.
 *
 *  db          key                                     value (after crc 4)
 *  META        "format"                                version 4, store id 16
 *              "applied"                               position 8, batch number 8, chain 4    (see journal.h)
 *              "clock"                                 see clockwork.c
 *  RECORDS     kind 1, key ..                          as given                               (RECORD_* of abi.h,
 *                                                                                             store.h, below)
 *  MESSAGES    stream 4, seq 8                         flags 1, subject size 2, header size 4, ts 8, born 8, previous
 *                                                      8, subject, header, payload
 *              .. with MESSAGE_BRIEF                   flags 1, subject size, header size, ts 8, born, how far back
 *                                                      `previous` is (0: none), subject, header, payload; the sizes
 *                                                      and the distance are LEB128, born too, in zigzag
 *  HEADS       stream 4, subject ..                    first 8, last 8, count 8, [whole subject]
 *  IDS         stream 4, message id ..                 seq 8, born 8, [whole id]
 *  ID_ORDER    stream 4, seq 8                         born 8, message id
 *  EXPIRY      stream 4, expires 8, seq 8              -                                   (also schedules:
 *                                                                                          EXPIRY_SCHEDULE)
 *  DICTIONARIES, DICTIONARY_COPIES                         see dictionary.h; never in the journal
 *  RECORD_COPIES, META_COPIES                              see env_twins.c; never in the journal
 *  NAMES                                                   see env_names.c; never in the journal
 *  LEDGER      KEY_LEDGER 1, group 4, index 8          term 8, kind 1, bytes                  (store/ledger.h)
 *
 * - Messages lie in a database for each stream (env.c says why); the key has the stream all the same, for the shared
 *   database of those over the limit and for the checksum.
 * - LMDB's keys end at 511 bytes. A subject or id over KEY_TEXT_MAX is cut to a prefix plus a 16-byte hash, and the
 *   value then carries the whole text behind the numbers.
 * - ts is the stamp that people see (wall clock, never backwards within a stream); born is the store's own age clock
 *   (clockwork.c), which no wall clock step moves; expires is on the age clock.
 * - A schedule (schedules.c) waits in EXPIRY among the times to live, with the top bit of its message's sequence set.
 *   What is in force is its record RECORD_SCHEDULE: an entry of EXPIRY that does not agree with it is an old one.
 * - previous: the sequence of the message before on the same subject when this one was appended, 0 = none. It may be
 *   gone by now: a chain ends where it goes below the head's `first`, and a message deleted out of the middle leaves a
 *   GONE record (no subject, no payload) that keeps its link. So "the last N of a subject" needs no further index.
 * - LEDGER comes to LMDB with a store's first entry. Its keys begin with a byte that no other key begins with: bytes of
 *   an entry come from others, and code that names entries by their form (look.c) takes none for a message.
 * - head.first is a lower bound: nothing of the subject lies below it. last and count are exact.
 */
#ifndef LEAFD_DISK_KEYS_H
#define LEAFD_DISK_KEYS_H

#include <stdbool.h>

#include "base/bytes.h"

#define STORE_FORMAT 1
/* In the format of META, so that a leafd which does not know of them refuses the store: with a sealer (sealer.h), with
 * values that are compressed (packing.h), some of them behind dictionaries, with stamps in the records of sources, with
 * twins (env_twins.c), with ledgers, with batches of the journal that are compressed (squeeze.h), with messages whose
 * numbers are short, with operations of the journal that share bytes of earlier ones (batch.h). */
#define STORE_FORMAT_SEALED (UINT32_C(1) << 31)
#define STORE_FORMAT_PACKED (UINT32_C(1) << 30)
#define STORE_FORMAT_PRIMED (UINT32_C(1) << 29)
#define STORE_FORMAT_STAMPED (UINT32_C(1) << 28)
#define STORE_FORMAT_TWICE (UINT32_C(1) << 27)
#define STORE_FORMAT_LEDGERS (UINT32_C(1) << 26)
#define STORE_FORMAT_SQUEEZED (UINT32_C(1) << 25)
#define STORE_FORMAT_BRIEF (UINT32_C(1) << 24)
#define STORE_FORMAT_SHARED (UINT32_C(1) << 23)
#define STORE_FORMAT_KEPT                                                                                              \
    (STORE_FORMAT_PACKED | STORE_FORMAT_PRIMED | STORE_FORMAT_STAMPED | STORE_FORMAT_TWICE | STORE_FORMAT_LEDGERS      \
     | STORE_FORMAT_SQUEEZED | STORE_FORMAT_BRIEF | STORE_FORMAT_SHARED)
#define STORE_FORMAT_FLAGS (STORE_FORMAT_SEALED | STORE_FORMAT_KEPT)
#define STORE_FORMAT_KEY "format"
#define STORE_ID_SIZE 16
#define STORE_FORMAT_SIZE (VALUE_CRC_SIZE + 4 + STORE_ID_SIZE) /* of the record */

typedef enum store_db {
    DB_META = 0,
    DB_RECORDS,
    DB_MESSAGES,
    DB_HEADS,
    DB_IDS,
    DB_ID_ORDER,
    DB_EXPIRY,
    DB_DICTIONARIES,
    DB_DICTIONARY_COPIES,
    DB_RECORD_COPIES,
    DB_META_COPIES,
    DB_NAMES,
    DB_LEDGER,
    DB_COUNT
} store_db_t;

/* Record kinds that only the store itself uses. */
#define RECORD_STATE 200    /* key = stream id */
#define RECORD_SCHEDULE 201 /* key = stream id, seq 8; value: due 8 on the age clock, due 8 as wall ns */
#define RECORD_THIN 202     /* key = stream id; no value: subjects are being held to their limit */
#define RECORD_NAME 203     /* NAMES alone; key = kind and key of the record that has the name */

/* store/ledger.h: key = group; promise; how far it is applied. Without a key: the disk's id */
#define RECORD_PROMISE 204
#define RECORD_APPLIED 205
#define RECORD_DISK 206
#define KEY_LEDGER 207 /* LEDGER alone */

#define KEY_MAX 511
#define KEY_TEXT_MAX 480
/* + 16 bytes of hash = KEY_TEXT_MAX, so a cut text is one of exactly that size: see keys.c */
#define KEY_TEXT_PREFIX 464

#define VALUE_CRC_SIZE 4
#define MESSAGE_KEY_SIZE 12
#define MESSAGE_FIXED_SIZE 35 /* crc included; the most that its numbers take, brief or not */
#define HEAD_FIXED_SIZE 28
#define ID_FIXED_SIZE 20
#define ID_ORDER_FIXED_SIZE 12
#define EXPIRY_KEY_SIZE 20
#define LEDGER_KEY_SIZE 13
#define LEDGER_FIXED_SIZE 13 /* crc included */

#define MESSAGE_GONE 1     /* deleted; only the link is left */
#define MESSAGE_NEVER 2    /* exempt from max_age */
#define MESSAGE_SCHEDULE 4 /* has a schedule */
#define MESSAGE_PACK 8     /* LMDB is to have it compressed .. */
#define MESSAGE_PACKED 16  /* .. and has: see packing.h. Only env.c and readers of LMDB's file see such a value */
#define MESSAGE_PRIMED 32  /* .. behind a dictionary of the stream's */
#define MESSAGE_FILLED 64  /* written when newer ones were there: fill.c */
#define MESSAGE_BRIEF 128  /* its numbers are short. A record to be written: where they can be */

#define EXPIRY_SCHEDULE (UINT64_C(1) << 63) /* in the sequence of an EXPIRY key */

typedef struct message_record {
    uint8_t flags;
    int64_t ts;
    int64_t born;
    uint64_t previous;
    bytes_t subject;
    bytes_t header;
    bytes_t payload;
} message_record_t;

typedef struct head {
    uint64_t first;
    uint64_t last;
    uint64_t count;
} head_t;

typedef struct key {
    uint32_t size;
    uint8_t at[KEY_MAX + 1];
} store_key_t;

static inline bytes_t key_bytes(const store_key_t *key) {
    return bytes_of(key->at, key->size);
}

void key_message(store_key_t *key, uint32_t stream, uint64_t seq); /* MESSAGES and ID_ORDER */
void key_expiry(store_key_t *key, uint32_t stream, int64_t expires, uint64_t seq);
void key_ledger(store_key_t *key, uint32_t group, uint64_t index);
void key_text(store_key_t *key, uint32_t stream, bytes_t text); /* HEADS and IDS: cut when long */
bool key_text_is_cut(bytes_t text);
void key_record(store_key_t *key, uint32_t kind, bytes_t record_key); /* record_key at most KEY_RECORD_MAX */
void key_name(store_key_t *key, bytes_t record);                      /* NAMES: of a record's whole key */
/* How many of its bytes are numbers; what follows is a text that somebody chose. */
uint32_t key_numbers(store_db_t db, bytes_t key);
#define KEY_RECORD_MAX (KEY_MAX - 1)

/* Sizes include the crc; the writers fill in everything, the crc too. */
uint32_t message_size(uint64_t seq, const message_record_t *message);
uint32_t message_most(const message_record_t *message); /* under whatever sequence */
void message_write(uint8_t *value, bytes_t key, const message_record_t *message);
/* What stands between crc and subject, and no more. Returns where the subject goes. */
uint8_t *message_write_numbers(uint8_t *value, uint64_t seq, const message_record_t *message);
/* false: the lengths do not add up. Does not look at the checksum. */
bool message_read(bytes_t key, bytes_t value, message_record_t *message);
/* A value in two places: what stands before the header, and the rest. The header and the payload of one that is written
 * lie in a row already. */
uint32_t message_head_size(uint64_t seq, const message_record_t *message);
void message_write_head(uint8_t *value, bytes_t key, const message_record_t *message, bytes_t rest);
bool message_read_apart(bytes_t key, bytes_t head, bytes_t rest, message_record_t *message);
/* What stands behind the numbers of a value that was read. */
static inline bytes_t message_text(bytes_t value, const message_record_t *message) {
    return bytes_after(value, (uint32_t)(message->subject.at - value.at));
}

uint32_t head_size(bytes_t subject);
void head_write(uint8_t *value, bytes_t key, bytes_t subject, head_t head);
/* The subject of a head, from its key or, when cut, its value. false: malformed. */
bool head_read(bytes_t key, bytes_t value, bytes_t *subject, head_t *head);

uint32_t id_size(bytes_t id);
void id_write(uint8_t *value, bytes_t key, bytes_t id, uint64_t seq, int64_t born);
bool id_read(bytes_t key, bytes_t value, bytes_t *id, uint64_t *seq, int64_t *born);

/* Stamps the crc into the first four bytes of a value that is otherwise complete. */
void value_seal(bytes_t key, uint8_t *value, uint32_t size);
bool value_sound(bytes_t key, bytes_t value);
bool value_sound_apart(bytes_t key, bytes_t head, bytes_t rest);

#endif
