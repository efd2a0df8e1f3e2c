/* rows.c: see the header. */
#include "text/rows.h"

#include "text/decimal.h"
#include "text/time_text.h"

#define VALUE_SIZE 8u
#define ROW_SECOND UINT64_C(1000000000)
#define VALUE_TEXT_MAX (TIME_TEXT_MAX + 2) /* a time in quotes; a number is shorter */

static const bytes_t row_true = BYTES_LITERAL("true");
static const bytes_t row_no_time = BYTES_LITERAL("\"0001-01-01T00:00:00Z\"");

/* The place where the next row is written, and the rest of the texts. */
typedef struct rows_place {
    uint8_t *at;
    uint64_t room;
    bytes_t texts;
} rows_place_t;

static bool row_put(rows_place_t *place, bytes_t bytes) {
    if (bytes.size > place->room) {
        return false;
    }
    place->at = bytes_write(place->at, bytes);
    place->room -= bytes.size;
    return true;
}

static bytes_t row_time(uint8_t to[VALUE_TEXT_MAX], uint64_t ns) {
    to[0] = '"';
    uint32_t size = time_format((int64_t)ns, to + 1);
    to[size + 1] = '"';
    return bytes_of(to, size + 2);
}

static bytes_t row_signed(uint8_t to[VALUE_TEXT_MAX], uint64_t value) {
    if (value >> 63 == 0) {
        return decimal_text(to, value);
    }
    to[0] = '-';
    return bytes_of(to, (uint32_t)(decimal_write(to + 1, 0 - value) - to));
}

/* A fraction of nine digits. */
static bytes_t row_seconds(uint8_t to[VALUE_TEXT_MAX], uint64_t ns) {
    uint8_t *at = decimal_write(to, ns / ROW_SECOND);
    *at++ = '.';
    for (uint64_t unit = ROW_SECOND / 10; unit != 0; unit /= 10) {
        *at++ = (uint8_t)('0' + ns / unit % 10);
    }
    return bytes_of(to, (uint32_t)(at - to));
}

/* Whether a value of 0 is left out, and what stands before it. */
static bool row_optional(uint32_t kind) {
    return kind == ROW_OPTIONAL || kind == ROW_MOMENT || kind == ROW_TRUE;
}

static bool row_put_value(rows_place_t *place, uint32_t kind, uint64_t value) {
    uint8_t text[VALUE_TEXT_MAX];
    switch (kind) {
    case ROW_NUMBER:
    case ROW_OPTIONAL: return row_put(place, decimal_text(text, value));
    case ROW_SIGNED: return row_put(place, row_signed(text, value));
    case ROW_MOMENT:
    case ROW_TIME: return row_put(place, row_time(text, value));
    case ROW_STAMP: return row_put(place, value != 0 ? row_time(text, value) : row_no_time);
    case ROW_TRUE: return row_put(place, row_true);
    case ROW_SECONDS: return row_put(place, row_seconds(text, value));
    case ROW_TEXT:
        if (value > place->texts.size || !row_put(place, bytes_of(place->texts.at, (uint32_t)value))) {
            return false;
        }
        place->texts = bytes_after(place->texts, (uint32_t)value);
        return true;
    default: return false;
    }
}

static bool row_put_all(rows_place_t *place, const row_format_t *format, const uint8_t *record) {
    bytes_t literals = bytes_of(format->literals, format->literals_size);
    for (uint32_t i = 0; i < format->column_count; i++) {
        const row_column_t *column = &format->columns[i];
        if (column->literal > literals.size) {
            return false;
        }
        bytes_t literal = bytes_of(literals.at, column->literal);
        literals = bytes_after(literals, column->literal);
        if (column->kind == ROW_NOTHING) {
            if (!row_put(place, literal)) {
                return false;
            }
            continue;
        }
        if (format->record_size < VALUE_SIZE || column->at > format->record_size - VALUE_SIZE) {
            return false;
        }
        uint64_t value = load_u64(record + column->at);
        if (row_optional(column->kind) && value == 0) {
            continue;
        }
        if (!row_put(place, literal) || !row_put_value(place, column->kind, value)) {
            return false;
        }
    }
    return true;
}

int64_t rows_write(const row_format_t *format, const uint8_t *records, uint32_t count, bytes_t texts, uint8_t *to,
                   uint64_t room) {
    rows_place_t place = {.at = to, .room = room, .texts = texts};
    for (uint32_t i = 0; i < count; i++) {
        if (!row_put_all(&place, format, records + (size_t)i * format->record_size)) {
            return -1;
        }
    }
    return place.at - to;
}
