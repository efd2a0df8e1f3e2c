/* packing.c: see packing.h. */
#include "disk/packing.h"

#include "base/leb.h"
#include "text/s2.h"

#define PLAIN (VALUE_CRC_SIZE + 1) /* in front of the block */
#define WORTH_PART 16              /* so much smaller it has to become: reading it costs time */

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static bytes_t finish_packed(bytes_t value, uint8_t *to, uint32_t size, uint8_t flags) {
    memcpy(to, value.at, PLAIN);
    to[VALUE_CRC_SIZE] |= flags;
    return bytes_of(to, size);
}

bytes_t packing_pack(s2_encoder_t *encoder, bytes_t value, uint8_t *to) {
    if (encoder == NULL || value.size <= PLAIN || value.size - PLAIN > S2_ENCODE_MAX) {
        return value;
    }
    bytes_t rest = bytes_after(value, PLAIN);
    uint32_t size = s2_encode(encoder, rest, to + PLAIN, rest.size - rest.size / WORTH_PART);
    return size == 0 ? value : finish_packed(value, to, PLAIN + size, MESSAGE_PACKED);
}

bytes_t packing_prime(s2_primer_t *primer, const dictionary_t *dictionary, uint32_t id, bytes_t key, bytes_t value,
                      uint8_t *to) {
    message_record_t message;
    if (key.size != MESSAGE_KEY_SIZE || !message_read(key, value, &message)) {
        return value;
    }
    uint64_t ts = (uint64_t)message.ts, born = (uint64_t)message.born;
    uint8_t *at = leb_put(to + PLAIN, id);
    at = leb_put(at, message.subject.size);
    at = leb_put(at, message.header.size);
    at = leb_put(at, zigzag(ts - (uint64_t)dictionary->ts));
    at = leb_put(at, zigzag(born - ts - (uint64_t)dictionary->gap));
    at = leb_put(at, load_be64(key.at + 4) - message.previous);
    uint32_t head = (uint32_t)(at - to), room = value.size - value.size / WORTH_PART;
    uint32_t size = room > head ? s2_encode_primed(primer, message_text(value, &message), at, room - head) : 0;
    return size == 0 ? value : finish_packed(value, to, head + size, MESSAGE_PACKED | MESSAGE_PRIMED);
}

/* ---- unpacking --------------------------------------------------------------------------------------------------- */

static bytes_t finish_unpacked(bytes_t packed, uint8_t *to, uint32_t size) {
    memcpy(to, packed.at, PLAIN);
    to[VALUE_CRC_SIZE] &= (uint8_t)~(MESSAGE_PACKED | MESSAGE_PRIMED);
    return bytes_of(to, size);
}

static status_t unpack_primed(unsealed_t *unsealed, const finder_t *finder, bytes_t key, bytes_t packed,
                              bytes_t *value) {
    bytes_t block = bytes_after(packed, PLAIN);
    uint64_t id, subject, header, ts, gap, back;
    uint32_t size;
    if (key.size != MESSAGE_KEY_SIZE || !leb_take(&block, &id) || !leb_take(&block, &subject)
        || !leb_take(&block, &header) || !leb_take(&block, &ts) || !leb_take(&block, &gap) || !leb_take(&block, &back)
        || id > UINT16_MAX || subject > UINT16_MAX || header > S2_PRIMED_MAX || s2_size(block, &size) != STATUS_OK
        || size > S2_PRIMED_MAX) {
        return STATUS_OK;
    }
    const dictionary_t *dictionary = NULL;
    status_t status = finder->find(finder->context, load_be32(key.at), (uint32_t)id, &dictionary);
    if (status != STATUS_OK || dictionary == NULL) {
        return status;
    }
    uint8_t *to = unsealed_room(unsealed, (size_t)MESSAGE_FIXED_SIZE + size);
    if (to == NULL) {
        return STATUS_NO_MEMORY;
    }
    /* What the numbers are written from: of subject and header the sizes alone. */
    message_record_t message = {.flags = packed.at[VALUE_CRC_SIZE],
                                .ts = (int64_t)(unzigzag(ts) + (uint64_t)dictionary->ts),
                                .previous = load_be64(key.at + 4) - back,
                                .subject = bytes_of(NULL, (uint32_t)subject),
                                .header = bytes_of(NULL, (uint32_t)header)};
    message.born = (int64_t)(unzigzag(gap) + (uint64_t)message.ts + (uint64_t)dictionary->gap);
    uint8_t *text = message_write_numbers(to, load_be64(key.at + 4), &message);
    if (s2_decode_primed(dictionary->text, block, text, size) == STATUS_OK) {
        *value = finish_unpacked(packed, to, (uint32_t)(text - to) + size);
    }
    return STATUS_OK;
}

status_t packing_unpack(unsealed_t *unsealed, const finder_t *finder, bytes_t key, bytes_t packed, bytes_t *value) {
    *value = BYTES_NONE;
    if (packing_primed(packed)) {
        return unpack_primed(unsealed, finder, key, packed, value);
    }
    bytes_t block = bytes_after(packed, PLAIN);
    uint32_t size = 0;
    if (s2_size(block, &size) != STATUS_OK || size > S2_ENCODE_MAX) {
        return STATUS_OK;
    }
    uint8_t *to = unsealed_room(unsealed, (size_t)PLAIN + size);
    if (to == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (s2_decode(block, to + PLAIN, size) == STATUS_OK) {
        *value = finish_unpacked(packed, to, PLAIN + size);
    }
    return STATUS_OK;
}
