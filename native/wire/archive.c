/* archive.c: what archive.h draws. */
#include "wire/archive.h"

#define NUMBER_BYTES_MAX 10u

/* STATUS_AGAIN: it does not end here. */
static status_t number_read(bytes_t from, uint32_t *at, uint64_t *number) {
    *number = 0;
    for (uint32_t i = 0; i < NUMBER_BYTES_MAX; i++) {
        if (*at >= from.size) {
            return STATUS_AGAIN;
        }
        uint8_t byte = from.at[(*at)++];
        if (i == NUMBER_BYTES_MAX - 1 && byte > 1) {
            return STATUS_CORRUPT; /* more than 64 bits */
        }
        *number |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            return STATUS_OK;
        }
    }
    return STATUS_CORRUPT;
}

static int64_t zigzag_back(uint64_t number) {
    return (int64_t)(number >> 1 ^ (~(number & 1) + 1));
}

static uint64_t zigzag_encode(int64_t number) {
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

status_t archive_read(bytes_t from, archive_entry_t *entry, uint64_t *used) {
    enum { NAME, TIME, SEQUENCE, HEADER, PAYLOAD, NUMBERS };
    uint64_t numbers[NUMBERS];
    uint32_t at = 0;
    *used = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        status_t status = number_read(from, &at, &numbers[i]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (numbers[NAME] > ARCHIVE_NAME_MAX || numbers[HEADER] > INT64_MAX
        || numbers[PAYLOAD] > INT64_MAX - numbers[HEADER]) {
        return STATUS_CORRUPT;
    }
    *entry = (archive_entry_t){.seq = numbers[SEQUENCE],
                               .ts = zigzag_back(numbers[TIME]),
                               .header_size = numbers[HEADER],
                               .payload_size = numbers[PAYLOAD]};
    *used = at + numbers[NAME] + numbers[HEADER] + numbers[PAYLOAD];
    if (*used > from.size) {
        return STATUS_AGAIN;
    }
    /* All of it is there, so every size fits the 32 bits of a slice. */
    entry->name = bytes_of(from.at + at, (uint32_t)numbers[NAME]);
    at += entry->name.size;
    entry->header = bytes_of(from.at + at, (uint32_t)numbers[HEADER]);
    at += entry->header.size;
    entry->payload = bytes_of(from.at + at, (uint32_t)numbers[PAYLOAD]);
    return STATUS_OK;
}

static uint32_t number_write(uint8_t *to, uint64_t number) {
    uint32_t size = 0;
    for (; number >= 0x80; number >>= 7) {
        to[size++] = (uint8_t)(number | 0x80);
    }
    to[size++] = (uint8_t)number;
    return size;
}

status_t archive_write(buffer_t *out, uint64_t seq, int64_t ts, bytes_t name, bytes_t header, bytes_t payload) {
    uint8_t *at;
    uint64_t bytes = (uint64_t)name.size + header.size + payload.size;
    status_t status = buffer_reserve(out, 5 * NUMBER_BYTES_MAX + bytes, &at);
    if (status != STATUS_OK) {
        return status;
    }
    const uint64_t numbers[5] = {name.size, zigzag_encode(ts), seq, header.size, payload.size};
    uint32_t size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        size += number_write(at + size, numbers[i]);
    }
    const bytes_t parts[3] = {name, header, payload};
    for (uint32_t i = 0; i < 3; i++) {
        if (parts[i].size != 0) {
            memcpy(at + size, parts[i].at, parts[i].size);
        }
        size += parts[i].size;
    }
    out->size += size;
    return STATUS_OK;
}
