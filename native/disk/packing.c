/* packing.c: see packing.h. */
#include "disk/packing.h"

#include <stdlib.h>

#include "text/s2.h"
#include "text/s2_encode.h"

#define PLAIN (VALUE_CRC_SIZE + 1) /* in front of the block */
#define WORTH_PART 16              /* so much smaller it has to become: reading it costs time */

struct packer {
    s2_encoder_t *encoder;
    uint8_t at[PLAIN + S2_ENCODE_MAX];
};

packer_t *packer_new(void) {
    packer_t *packer = malloc(sizeof *packer);
    if (packer != NULL) {
        packer->encoder = s2_encoder_new(S2_EFFORT_FAST);
        if (packer->encoder == NULL) {
            free(packer);
            return NULL;
        }
    }
    return packer;
}

void packer_free(packer_t *packer) {
    if (packer != NULL) {
        s2_encoder_free(packer->encoder);
        free(packer);
    }
}

bytes_t packing_pack(packer_t *packer, bytes_t value) {
    if (packer == NULL || value.size <= PLAIN || value.size - PLAIN > S2_ENCODE_MAX) {
        return value;
    }
    bytes_t rest = bytes_after(value, PLAIN);
    uint32_t size = s2_encode(packer->encoder, rest, packer->at + PLAIN, rest.size - rest.size / WORTH_PART);
    if (size == 0) {
        return value;
    }
    memcpy(packer->at, value.at, PLAIN);
    packer->at[VALUE_CRC_SIZE] |= MESSAGE_PACKED;
    return bytes_of(packer->at, PLAIN + size);
}

bytes_t packing_unpack(unsealed_t *unsealed, bytes_t packed) {
    bytes_t block = packed.size > PLAIN ? bytes_after(packed, PLAIN) : BYTES_NONE;
    uint32_t size = 0;
    if (s2_size(block, &size) != STATUS_OK || size > S2_ENCODE_MAX) {
        return BYTES_NONE;
    }
    uint8_t *to = unsealed_room(unsealed, (size_t)PLAIN + size);
    if (to == NULL || s2_decode(block, to + PLAIN, size) != STATUS_OK) {
        return BYTES_NONE;
    }
    memcpy(to, packed.at, PLAIN);
    to[VALUE_CRC_SIZE] &= (uint8_t)~MESSAGE_PACKED;
    return bytes_of(to, PLAIN + size);
}
