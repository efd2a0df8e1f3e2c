/* Measured first and written then: the caller hands out memory of exactly that size. */
#include "arrow/publish.h"

#include <stddef.h>

#include "text/decimal.h"

#define VERB BYTES_LITERAL("HPUB ")
#define VERSION BYTES_LITERAL("NATS/1.0\r\n")
#define ID BYTES_LITERAL("Nats-Msg-Id: ")
#define LINE_END BYTES_LITERAL("\r\n")
#define BLOCK_END BYTES_LITERAL("\r\n\r\n")
#define AHEAD 8u       /* digests whose slots are on their way from memory */
#define DIGITS_MAX 18u /* of a number that fits 63 bits */

static inline bytes_t element(const publish_text_t *text, uint32_t row) {
    return bytes_of(text->at + text->ends[row], (uint32_t)(text->ends[row + 1] - text->ends[row]));
}

static inline uint32_t digits_of(uint64_t value) {
    uint32_t count = 1;
    while (value >= 10) {
        value /= 10;
        count++;
    }
    return count;
}

static inline uint64_t count_of(const publish_ids_t *ids, uint32_t row) {
    return ids->counts == NULL ? 0 : (uint64_t)ids->counts[row];
}

static uint64_t id_size(const publish_ids_t *ids, uint32_t row) {
    if (ids->text != NULL) {
        return element(ids->text, row).size;
    }
    uint64_t count = count_of(ids, row);
    return (uint64_t)ids->scope.size + 1 + 2 * (uint64_t)BLAKE2_DIGEST + (count > 0 ? 1 + digits_of(count) : 0);
}

static uint8_t *id_write(const publish_ids_t *ids, uint32_t row, uint8_t *to) {
    static const char hex[] = "0123456789abcdef";
    if (ids->text != NULL) {
        return bytes_write(to, element(ids->text, row));
    }
    to = bytes_write(to, ids->scope);
    *to++ = '-';
    const uint8_t *digest = ids->digests + (size_t)row * BLAKE2_DIGEST;
    for (uint32_t i = 0; i < BLAKE2_DIGEST; i++) {
        *to++ = (uint8_t)hex[digest[i] >> 4];
        *to++ = (uint8_t)hex[digest[i] & 15];
    }
    uint64_t count = count_of(ids, row);
    if (count > 0) {
        *to++ = '.';
        to = decimal_write(to, count);
    }
    return to;
}

static uint64_t head_size(const publish_rows_t *rows, const publish_ids_t *ids, uint32_t row) {
    return (uint64_t)VERSION.size + element(&rows->lines, row).size + ID.size + id_size(ids, row) + BLOCK_END.size;
}

void publish_digests(const publish_rows_t *rows, uint8_t *digests) {
    for (uint32_t row = 0; row < rows->count; row++) {
        blake2_t hash;
        blake2_begin(&hash);
        blake2_add(&hash, element(&rows->subject, row));
        blake2_add(&hash, LINE_END);
        blake2_add(&hash, element(&rows->lines, row));
        blake2_add(&hash, LINE_END);
        blake2_add(&hash, element(&rows->data, row));
        blake2_end(&hash, digests + (size_t)row * BLAKE2_DIGEST);
    }
}

static inline uint8_t *slot_of(uint8_t *table, uint64_t slots, uint64_t head) {
    return table + (head & (slots - 1)) * BLAKE2_DIGEST;
}

uint32_t publish_seen(uint8_t *table, uint64_t slots, const uint8_t *digests, uint32_t count, int64_t *again) {
    static const uint8_t none[BLAKE2_DIGEST];
    uint32_t found = 0;
    for (uint32_t row = 0; row < count; row++) {
        const uint8_t *digest = digests + (size_t)row * BLAKE2_DIGEST;
        if (row + AHEAD < count) {
            __builtin_prefetch(slot_of(table, slots, load_u64(digest + (size_t)AHEAD * BLAKE2_DIGEST)), 1);
        }
        uint64_t head = load_u64(digest);
        uint8_t *slot = slot_of(table, slots, head);
        while (memcmp(slot, none, BLAKE2_DIGEST) != 0 && memcmp(slot, digest, BLAKE2_DIGEST) != 0) {
            slot = slot_of(table, slots, ++head);
        }
        if (memcmp(slot, digest, BLAKE2_DIGEST) == 0) {
            again[found++] = row;
        } else {
            memcpy(slot, digest, BLAKE2_DIGEST);
        }
    }
    return found;
}

void publish_measure(const publish_rows_t *rows, const publish_ids_t *ids, const publish_line_t *line,
                     int64_t *bounds) {
    bounds[0] = 0;
    for (uint32_t row = 0; row < rows->count; row++) {
        uint64_t head = head_size(rows, ids, row), total = head + element(&rows->data, row).size;
        uint64_t size = (uint64_t)VERB.size + element(&rows->subject, row).size + 1 + line->inbox.size + 1;
        size += digits_of(line->first + row) + 1 + digits_of(head) + 1 + digits_of(total) + LINE_END.size;
        bounds[row + 1] = bounds[row] + (int64_t)(size + total + LINE_END.size);
    }
}

void publish_write(const publish_rows_t *rows, const publish_ids_t *ids, const publish_line_t *line, uint8_t *to) {
    for (uint32_t row = 0; row < rows->count; row++) {
        bytes_t data = element(&rows->data, row);
        uint64_t head = head_size(rows, ids, row);
        to = bytes_write(to, VERB);
        to = bytes_write(to, element(&rows->subject, row));
        *to++ = ' ';
        to = bytes_write(to, line->inbox);
        *to++ = '.';
        to = decimal_write(to, line->first + row);
        *to++ = ' ';
        to = decimal_write(to, head);
        *to++ = ' ';
        to = decimal_write(to, head + data.size);
        to = bytes_write(to, LINE_END);
        to = bytes_write(to, VERSION);
        to = bytes_write(to, element(&rows->lines, row));
        to = bytes_write(to, ID);
        to = id_write(ids, row, to);
        to = bytes_write(to, BLOCK_END);
        to = bytes_write(to, data);
        to = bytes_write(to, LINE_END);
    }
}

/* --- acknowledgements --------------------------------------------------- */

/* Cuts digits and what follows them off the front. */
static bool number_take(bytes_t *text, bytes_t behind, uint64_t *number) {
    uint32_t size = 0;
    while (size < text->size && size <= DIGITS_MAX && text->at[size] >= '0' && text->at[size] <= '9') {
        size++;
    }
    if (size > DIGITS_MAX || !decimal_parse(bytes_of(text->at, size), number)) {
        return false;
    }
    *text = bytes_after(*text, size);
    if (!bytes_starts(*text, behind)) {
        return false;
    }
    *text = bytes_after(*text, behind.size);
    return true;
}

/* True for a stream's plain answer about a message that it has just stored. */
static bool plain_answer(bytes_t body) {
    return body.size >= 2 && body.at[0] == '{' && body.at[body.size - 1] == '}'
           && memmem(body.at, body.size, "\"duplicate\"", 11) == NULL
           && memmem(body.at, body.size, "\"error\"", 7) == NULL;
}

uint32_t publish_acknowledged(bytes_t received, bytes_t prefix, int64_t *numbers, uint32_t room, uint32_t *taken) {
    bytes_t rest = received;
    uint32_t count = 0;
    while (count < room && bytes_starts(rest, prefix)) {
        bytes_t text = bytes_after(rest, prefix.size);
        uint64_t number, size;
        /* 2: the subscription, SUBSCRIPTION in agent/leafd_spark/sink/publish.py */
        if (!number_take(&text, BYTES_LITERAL(" 2 "), &number) || !number_take(&text, LINE_END, &size)
            || text.size < LINE_END.size || size > text.size - LINE_END.size
            || !plain_answer(bytes_of(text.at, (uint32_t)size))) {
            break;
        }
        text = bytes_after(text, (uint32_t)size);
        if (!bytes_starts(text, LINE_END)) {
            break;
        }
        numbers[count++] = (int64_t)number;
        rest = bytes_after(text, LINE_END.size);
    }
    *taken = received.size - rest.size;
    return count;
}
