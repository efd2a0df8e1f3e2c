/* keys.c: builds and takes apart what keys.h draws. No input can make these read outside what they were given. */
#include "disk/keys.h"

#include "base/abi_types.h"
#include "base/check.h"
#include "base/crc.h"
#include "base/leb.h"

/* Stable 128-bit hash for cut texts (it is on disk, so base/hash.h with its seed per process will not do):
 * MurmurHash3's x64 finish over 16-byte blocks. A collision is no danger to data: the whole text is in the value and is
 * compared. */
static uint64_t hash_rotate(uint64_t x, uint32_t by) {
    return x << by | x >> (64 - by);
}

static uint64_t hash_finish(uint64_t x) {
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static void text_hash(bytes_t text, uint8_t out[16]) {
    const uint64_t c1 = UINT64_C(0x87c37b91114253d5);
    const uint64_t c2 = UINT64_C(0x4cf5ad432745937f);
    uint64_t h1 = 0;
    uint64_t h2 = 0;
    for (uint32_t at = 0; at < text.size; at += 16) {
        uint8_t block[16] = {0};
        uint32_t size = text.size - at < 16 ? text.size - at : 16;
        memcpy(block, text.at + at, size);
        h1 ^= hash_rotate(load_be64(block) * c1, 31) * c2;
        h1 = (hash_rotate(h1, 27) + h2) * 5 + 0x52dce729;
        h2 ^= hash_rotate(load_be64(block + 8) * c2, 33) * c1;
        h2 = (hash_rotate(h2, 31) + h1) * 5 + 0x38495ab5;
    }
    h1 ^= text.size;
    h2 ^= text.size;
    h1 += h2;
    h2 += h1;
    h1 = hash_finish(h1);
    h2 = hash_finish(h2);
    h1 += h2;
    h2 += h1;
    store_be64(out, h1);
    store_be64(out + 8, h2);
}

void key_message(store_key_t *key, uint32_t stream, uint64_t seq) {
    key->size = MESSAGE_KEY_SIZE;
    store_be32(key->at, stream);
    store_be64(key->at + 4, seq);
}

void key_expiry(store_key_t *key, uint32_t stream, int64_t expires, uint64_t seq) {
    key->size = EXPIRY_KEY_SIZE;
    store_be32(key->at, stream);
    store_be64(key->at + 4, (uint64_t)expires);
    store_be64(key->at + 12, seq);
}

void key_ledger(store_key_t *key, uint32_t group, uint64_t index) {
    key->at[0] = KEY_LEDGER;
    store_be32(key->at + 1, group);
    store_be64(key->at + 5, index);
    key->size = LEDGER_KEY_SIZE;
}

/* A text of exactly KEY_TEXT_MAX bytes is cut as well, so the size of a key says whether it was. */
bool key_text_is_cut(bytes_t text) {
    return text.size >= KEY_TEXT_MAX;
}

void key_text(store_key_t *key, uint32_t stream, bytes_t text) {
    store_be32(key->at, stream);
    if (!key_text_is_cut(text)) {
        if (text.size > 0) {
            memcpy(key->at + 4, text.at, text.size);
        }
        key->size = 4 + text.size;
        return;
    }
    memcpy(key->at + 4, text.at, KEY_TEXT_PREFIX);
    text_hash(text, key->at + 4 + KEY_TEXT_PREFIX);
    key->size = 4 + KEY_TEXT_MAX;
}

void key_record(store_key_t *key, uint32_t kind, bytes_t record_key) {
    check(kind <= UINT8_MAX);
    check(record_key.size <= KEY_RECORD_MAX);
    key->at[0] = (uint8_t)kind;
    if (record_key.size > 0) {
        memcpy(key->at + 1, record_key.at, record_key.size);
    }
    key->size = 1 + record_key.size;
}

void key_name(store_key_t *key, bytes_t record) {
    key_record(key, RECORD_NAME, record);
}

uint32_t key_numbers(store_db_t db, bytes_t key) {
    uint32_t numbers = key.size;
    if (db == DB_HEADS || db == DB_IDS) {
        numbers = 4;
    } else if (db == DB_RECORDS && key.size > 0) {
        numbers = key.at[0] == RECORD_CONTROL ? 1 : key.at[0] == RECORD_SOURCE ? 5 : key.size;
    }
    return numbers < key.size ? numbers : key.size;
}

void value_seal(bytes_t key, uint8_t *value, uint32_t size) {
    uint32_t crc = crc32c(0, key.at, key.size);
    store_be32(value, crc32c(crc, value + VALUE_CRC_SIZE, size - VALUE_CRC_SIZE));
}

bool value_sound(bytes_t key, bytes_t value) {
    if (value.size < VALUE_CRC_SIZE) {
        return false;
    }
    uint32_t crc = crc32c(0, key.at, key.size);
    return load_be32(value.at) == crc32c(crc, value.at + VALUE_CRC_SIZE, value.size - VALUE_CRC_SIZE);
}

/* Of a value of at least VALUE_CRC_SIZE bytes. */
static uint32_t crc_apart(bytes_t key, bytes_t head, bytes_t rest) {
    uint32_t crc = crc32c(0, key.at, key.size);
    crc = crc32c(crc, head.at + VALUE_CRC_SIZE, head.size - VALUE_CRC_SIZE);
    return crc32c(crc, rest.at, rest.size);
}

bool value_sound_apart(bytes_t key, bytes_t head, bytes_t rest) {
    return head.size >= VALUE_CRC_SIZE && load_be32(head.at) == crc_apart(key, head, rest);
}

/* What is at least this needs so many bytes that the numbers could take more than MESSAGE_FIXED_SIZE. */
#define BRIEF_BORN_END (UINT64_C(1) << 56) /* in zigzag, so more than a year in ns, ahead and back */
#define BRIEF_SEQ_END (UINT64_C(1) << 42)

/* Can its numbers be short? */
static bool is_brief(uint64_t seq, const message_record_t *message) {
    return (message->flags & MESSAGE_BRIEF) != 0 && zigzag((uint64_t)message->born) < BRIEF_BORN_END
           && message->previous < seq && seq < BRIEF_SEQ_END;
}

static uint64_t message_back(uint64_t seq, const message_record_t *message) {
    return message->previous != 0 ? seq - message->previous : 0;
}

static uint32_t numbers_size(uint64_t seq, const message_record_t *message) {
    return is_brief(seq, message)
               ? VALUE_CRC_SIZE + 1 + leb_size(message->subject.size) + leb_size(message->header.size) + 8
                     + leb_size(zigzag((uint64_t)message->born)) + leb_size(message_back(seq, message))
               : MESSAGE_FIXED_SIZE;
}

static uint32_t text_size(const message_record_t *message) {
    return message->subject.size + message->header.size + message->payload.size;
}

uint32_t message_size(uint64_t seq, const message_record_t *message) {
    return numbers_size(seq, message) + text_size(message);
}

uint32_t message_most(const message_record_t *message) {
    return MESSAGE_FIXED_SIZE + text_size(message);
}

uint8_t *message_write_numbers(uint8_t *value, uint64_t seq, const message_record_t *message) {
    if (LEAF_LIKELY(is_brief(seq, message))) {
        value[4] = message->flags;
        uint8_t *at = leb_put(leb_put(value + 5, message->subject.size), message->header.size);
        store_be64(at, (uint64_t)message->ts);
        return leb_put(leb_put(at + 8, zigzag((uint64_t)message->born)), message_back(seq, message));
    }
    value[4] = message->flags & (uint8_t)~MESSAGE_BRIEF;
    store_be16(value + 5, (uint16_t)message->subject.size);
    store_be32(value + 7, message->header.size);
    store_be64(value + 11, (uint64_t)message->ts);
    store_be64(value + 19, (uint64_t)message->born);
    store_be64(value + 27, message->previous);
    return value + MESSAGE_FIXED_SIZE;
}

static uint8_t *key_copy(uint8_t *to, bytes_t from) {
    if (from.size > 0) {
        memcpy(to, from.at, from.size);
    }
    return to + from.size;
}

#define PAYLOAD_LONG 512 /* its checksum is taken where it comes from */

void message_write(uint8_t *value, bytes_t key, const message_record_t *message) {
    uint8_t *to = message_write_numbers(value, load_be64(key.at + 4), message);
    to = key_copy(to, message->subject);
    to = key_copy(to, message->header);
    uint32_t begin = (uint32_t)(to - value);
    if (message->payload.size < PAYLOAD_LONG) {
        to = key_copy(to, message->payload);
        value_seal(key, value, (uint32_t)(to - value));
        return;
    }
    /* There it is in the processor's cache; where it goes to, memory is still on its way. */
    uint32_t crc = crc32c(crc32c(0, key.at, key.size), value + VALUE_CRC_SIZE, begin - VALUE_CRC_SIZE);
    store_be32(value, crc32c(crc, message->payload.at, message->payload.size));
    memcpy(to, message->payload.at, message->payload.size);
}

uint32_t message_head_size(uint64_t seq, const message_record_t *message) {
    return numbers_size(seq, message) + message->subject.size;
}

void message_write_head(uint8_t *value, bytes_t key, const message_record_t *message, bytes_t rest) {
    uint8_t *to = message_write_numbers(value, load_be64(key.at + 4), message);
    to = key_copy(to, message->subject);
    store_be32(value, crc_apart(key, bytes_of(value, (uint32_t)(to - value)), rest));
}

/* Takes off value what stands before the subject. */
static bool read_brief(bytes_t key, bytes_t *value, uint64_t *subject, uint64_t *header, message_record_t *message) {
    uint64_t seq = load_be64(key.at + 4), born, back;
    *value = bytes_after(*value, VALUE_CRC_SIZE + 1);
    if (!leb_take(value, subject) || !leb_take(value, header) || value->size < 8) {
        return false;
    }
    message->ts = (int64_t)load_be64(value->at);
    *value = bytes_after(*value, 8);
    if (!leb_take(value, &born) || !leb_take(value, &back) || born >= BRIEF_BORN_END || back >= seq) {
        return false;
    }
    message->born = (int64_t)unzigzag(born);
    message->previous = back != 0 ? seq - back : 0;
    return true;
}

static bool read_whole(bytes_t *value, uint64_t *subject, uint64_t *header, message_record_t *message) {
    if (value->size < MESSAGE_FIXED_SIZE) {
        return false;
    }
    *subject = load_be16(value->at + 5);
    *header = load_be32(value->at + 7);
    message->ts = (int64_t)load_be64(value->at + 11);
    message->born = (int64_t)load_be64(value->at + 19);
    message->previous = load_be64(value->at + 27);
    *value = bytes_after(*value, MESSAGE_FIXED_SIZE);
    return true;
}

static inline bool read_numbers(bytes_t key, bytes_t *value, uint64_t *subject, uint64_t *header,
                                message_record_t *message) {
    if (value->size <= VALUE_CRC_SIZE || key.size != MESSAGE_KEY_SIZE) {
        return false;
    }
    message->flags = value->at[VALUE_CRC_SIZE];
    return LEAF_LIKELY((message->flags & MESSAGE_BRIEF) != 0) ? read_brief(key, value, subject, header, message)
                                                              : read_whole(value, subject, header, message);
}

bool message_read_apart(bytes_t key, bytes_t head, bytes_t rest, message_record_t *message) {
    uint64_t subject, header;
    if (!read_numbers(key, &head, &subject, &header, message) || subject != head.size || header > rest.size) {
        return false;
    }
    message->subject = head;
    message->header = bytes_of(rest.at, (uint32_t)header);
    message->payload = bytes_after(rest, (uint32_t)header);
    return true;
}

bool message_read(bytes_t key, bytes_t value, message_record_t *message) {
    uint64_t subject, header;
    if (!read_numbers(key, &value, &subject, &header, message) || subject > value.size
        || header > value.size - subject) {
        return false;
    }
    message->subject = bytes_of(value.at, (uint32_t)subject);
    message->header = bytes_of(value.at + subject, (uint32_t)header);
    message->payload = bytes_after(value, (uint32_t)(subject + header));
    return true;
}

uint32_t head_size(bytes_t subject) {
    return HEAD_FIXED_SIZE + (key_text_is_cut(subject) ? subject.size : 0);
}

void head_write(uint8_t *value, bytes_t key, bytes_t subject, head_t head) {
    store_be64(value + 4, head.first);
    store_be64(value + 12, head.last);
    store_be64(value + 20, head.count);
    if (key_text_is_cut(subject)) {
        memcpy(value + HEAD_FIXED_SIZE, subject.at, subject.size);
    }
    value_seal(key, value, head_size(subject));
}

/* The text behind a key of HEADS or IDS whose value has `fixed` bytes of numbers. */
static bool text_read(bytes_t key, bytes_t value, uint32_t fixed, bytes_t *text) {
    if (key.size < 4 || value.size < fixed) {
        return false;
    }
    if (key.size < 4 + KEY_TEXT_MAX) {
        *text = bytes_of(key.at + 4, key.size - 4);
        return value.size == fixed;
    }
    *text = bytes_of(value.at + fixed, value.size - fixed);
    return key_text_is_cut(*text);
}

bool head_read(bytes_t key, bytes_t value, bytes_t *subject, head_t *head) {
    if (!text_read(key, value, HEAD_FIXED_SIZE, subject)) {
        return false;
    }
    *head =
        (head_t){.first = load_be64(value.at + 4), .last = load_be64(value.at + 12), .count = load_be64(value.at + 20)};
    return true;
}

uint32_t id_size(bytes_t id) {
    return ID_FIXED_SIZE + (key_text_is_cut(id) ? id.size : 0);
}

void id_write(uint8_t *value, bytes_t key, bytes_t id, uint64_t seq, int64_t born) {
    store_be64(value + 4, seq);
    store_be64(value + 12, (uint64_t)born);
    if (key_text_is_cut(id)) {
        memcpy(value + ID_FIXED_SIZE, id.at, id.size);
    }
    value_seal(key, value, id_size(id));
}

bool id_read(bytes_t key, bytes_t value, bytes_t *id, uint64_t *seq, int64_t *born) {
    if (!text_read(key, value, ID_FIXED_SIZE, id)) {
        return false;
    }
    *seq = load_be64(value.at + 4);
    *born = (int64_t)load_be64(value.at + 12);
    return true;
}
