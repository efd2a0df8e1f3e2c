/* packing.h: a message's value on its way into LMDB and back, for streams that want to be compressed.
 *
 *     value     crc 4, flags 1 (with MESSAGE_PACK), the rest                      as keys.h draws it: what everybody
 *                                                                                 but LMDB sees, the journal too
 *     packed    crc 4, flags 1 (with MESSAGE_PACKED, too), S2 block of the rest   in LMDB, where that is smaller
 *
 * The checksum stays that of the value: what does not come out as it went in fails it, like any damaged value. Each
 * value is packed by itself, so one that is deleted or damaged concerns no other. A sealer seals what is packed.
 *
 * Packing happens on the keeper's thread. What is longer than S2_ENCODE_MAX stays as it is. What does not live here:
 * the note in META that keeps an older leafd from opening the store (env.c).
 */
#ifndef LEAFD_DISK_PACKING_H
#define LEAFD_DISK_PACKING_H

#include <stdbool.h>

#include "base/bytes.h"
#include "disk/keys.h"
#include "disk/sealer.h"

typedef struct packer packer_t;

/* NULL: no memory; values then stay as they are. */
packer_t *packer_new(void);
void packer_free(packer_t *packer); /* NULL: nothing */

/* Is it one that is to be packed, and is not? */
static inline bool packing_wanted(store_db_t db, bytes_t value) {
    return db == DB_MESSAGES && value.size > VALUE_CRC_SIZE
           && (value.at[VALUE_CRC_SIZE] & (MESSAGE_PACK | MESSAGE_PACKED)) == MESSAGE_PACK;
}
static inline bool packing_done(store_db_t db, bytes_t value) {
    return db == DB_MESSAGES && value.size > VALUE_CRC_SIZE && (value.at[VALUE_CRC_SIZE] & MESSAGE_PACKED) != 0;
}
/* The packed value, until the next call; the value itself where that would not be smaller. */
bytes_t packing_pack(packer_t *packer, bytes_t value);
/* What was packed, in room of `unsealed`. Empty, which no value is: it is damaged, or there is no memory. */
bytes_t packing_unpack(unsealed_t *unsealed, bytes_t packed);

#endif
