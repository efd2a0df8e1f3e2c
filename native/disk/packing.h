/* packing.h: a message's value on its way into LMDB and back, for streams that want to be compressed. Pure functions on
 * bytes.
 *
 *     value     crc 4, flags 1 (with MESSAGE_PACK), the rest                      as keys.h draws it: what everybody
 *                                                                                 but LMDB sees, the journal too
 *     packed    crc 4, flags 1 (with MESSAGE_PACKED, too), S2 block of the rest   in LMDB, where that is smaller
 *     primed    crc 4, flags 1 (with MESSAGE_PRIMED, too), numbers, S2 block of   likewise, where the stream has a
 *               subject, header and payload behind a dictionary                   dictionary (dictionary.h)
 *     numbers   id of the dictionary, size of the subject, size of the header, ts less the dictionary's ts, born less
 *               ts less the dictionary's gap, sequence less previous: each LEB128, those that may be below 0 in zigzag
 *
 * The checksum stays that of the value: what does not come out as it went in fails it, like any damaged value. Each
 * value is packed by itself, so one that is deleted or damaged concerns no other. A sealer seals what is packed.
 *
 * Not here: which dictionary (packer.h); the note in META that keeps an older leafd from opening the
 * store (env.c).
 */
#ifndef LEAFD_DISK_PACKING_H
#define LEAFD_DISK_PACKING_H

#include <stdbool.h>

#include "base/bytes.h"
#include "disk/dictionary.h"
#include "disk/keys.h"
#include "disk/sealer.h"
#include "text/s2_encode.h"
#include "text/s2_primed.h"

#define PACKED_MAX (VALUE_CRC_SIZE + 1 + S2_ENCODE_MAX) /* of a packed value; longer ones stay as they are */

/* Is it one that is to be packed, and is not? */
static inline bool packing_wanted(store_db_t db, bytes_t value) {
    return db == DB_MESSAGES && value.size > VALUE_CRC_SIZE
           && (value.at[VALUE_CRC_SIZE] & (MESSAGE_PACK | MESSAGE_PACKED)) == MESSAGE_PACK;
}
static inline bool packing_done(store_db_t db, bytes_t value) {
    return db == DB_MESSAGES && value.size > VALUE_CRC_SIZE && (value.at[VALUE_CRC_SIZE] & MESSAGE_PACKED) != 0;
}
/* Does it say which dictionary it needs? */
static inline bool packing_primed(bytes_t packed) {
    return (packed.at[VALUE_CRC_SIZE] & MESSAGE_PRIMED) != 0;
}

/* The packed value, in `to`, which has room for PACKED_MAX bytes; the value itself where that would not be smaller. */
bytes_t packing_pack(s2_encoder_t *encoder, bytes_t value, uint8_t *to);
/* The same behind a dictionary, with which the primer was made. */
bytes_t packing_prime(s2_primer_t *primer, const dictionary_t *dictionary, uint32_t id, bytes_t key, bytes_t value,
                      uint8_t *to);
/* The value that was packed under that key, in room of `unsealed`: empty, which no value is, where the value or its
 * dictionary is damaged. Any other than STATUS_OK: it is not known whether it is. */
LEAF_MUST_USE status_t packing_unpack(unsealed_t *unsealed, const finder_t *finder, bytes_t key, bytes_t packed,
                                      bytes_t *value);

#endif
