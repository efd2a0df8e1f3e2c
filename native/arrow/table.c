/* table.c: adds a row to the columns of a batch. The row is written behind the last one that counts. It counts from the
 * moment at which all its parts have found room, so a row that did not fit leaves nothing behind. */
#include "arrow/table.h"

#include "text/decimal.h"

#define DIGITS_MAX 18u /* of a sequence: what has more does not fit 63 bits, or nearly so */

typedef struct origin {
    bytes_t stream, api;
    uint64_t sequence;
} origin_t;

static bool text_put(arrow_text_t *text, uint32_t index, bytes_t value) {
    uint32_t used = (uint32_t)text->ends[index];
    if (value.size > text->size - used) {
        return false;
    }
    bytes_write(text->at + used, value);
    text->ends[index + 1] = (int32_t)(used + value.size);
    return true;
}

/* Cuts the first line off; what has no line end is one line. */
static bytes_t header_line_take(bytes_t *text) {
    const uint8_t *from = text->at, *end = text->at + text->size;
    while (from < end) {
        const uint8_t *newline = memchr(from, '\n', (size_t)(end - from));
        if (newline == NULL) {
            break;
        }
        if (newline > text->at && newline[-1] == '\r') {
            bytes_t line = bytes_of(text->at, (uint32_t)(newline - 1 - text->at));
            *text = bytes_of(newline + 1, (uint32_t)(end - newline - 1));
            return line;
        }
        from = newline + 1;
    }
    bytes_t line = *text;
    *text = bytes_of(end, 0);
    return line;
}

static bytes_t without_blanks(bytes_t value) {
    while (value.size > 0 && (value.at[0] == ' ' || value.at[0] == '\t')) {
        value = bytes_after(value, 1);
    }
    while (value.size > 0 && (value.at[value.size - 1] == ' ' || value.at[value.size - 1] == '\t')) {
        value.size--;
    }
    return value;
}

static bool field_split(bytes_t line, bytes_t *name, bytes_t *value) {
    const uint8_t *colon = line.size > 0 ? memchr(line.at, ':', line.size) : NULL;
    if (colon == NULL || colon == line.at) {
        return false;
    }
    *name = bytes_of(line.at, (uint32_t)(colon - line.at));
    *value = without_blanks(bytes_after(line, name->size + 1));
    return true;
}

/* Cuts off what stands before the first c, which goes too; all of it where there is none. */
static bytes_t upto(bytes_t *text, char c) {
    const uint8_t *found = text->size > 0 ? memchr(text->at, c, text->size) : NULL;
    bytes_t before = found == NULL ? *text : bytes_of(text->at, (uint32_t)(found - text->at));
    *text = bytes_after(*text, before.size + (found == NULL ? 0 : 1));
    return before;
}

/* The value of a Nats-Stream-Source: <name>[:<hash>][:C=<hash>] <sequence> ... */
static bool origin_parse(bytes_t value, origin_t *origin) {
    bytes_t whole = upto(&value, ' '), digits = upto(&value, ' ');
    if (digits.size > DIGITS_MAX || !decimal_parse(digits, &origin->sequence)) {
        return false;
    }
    origin->stream = upto(&whole, ':');
    origin->api = upto(&whole, ':');
    if (bytes_starts(origin->api, BYTES_LITERAL("C="))) {
        origin->api = BYTES_NONE;
    }
    return origin->stream.size > 0;
}

bool arrow_table_add(arrow_table_t *table, const arrow_row_t *row, bool with_headers) {
    uint32_t at = table->rows, fields = table->fields;
    if (at >= table->rows_max || !text_put(&table->subject, at, row->subject)
        || !text_put(&table->data, at, row->data)) {
        return false;
    }
    bytes_t rest = row->stored, name, value;
    origin_t origin = {BYTES_NONE, BYTES_NONE, 0};
    bool sourced = false;
    while (rest.size > 0) {
        if (!field_split(header_line_take(&rest), &name, &value)) {
            continue;
        }
        if (bytes_equal(name, BYTES_LITERAL("Nats-Stream-Source"))) {
            sourced = origin_parse(value, &origin);
        }
        if (with_headers) {
            if (fields >= table->fields_max || !text_put(&table->key, fields, name)
                || !text_put(&table->value, fields, value)) {
                return false;
            }
            fields++;
        }
    }
    if (!sourced) {
        origin = (origin_t){BYTES_NONE, BYTES_NONE, 0};
    }
    if (!text_put(&table->origin_stream, at, origin.stream) || !text_put(&table->origin_api, at, origin.api)) {
        return false;
    }
    table->sequence[at] = row->sequence;
    table->nanoseconds[at] = row->nanoseconds;
    table->origin_sequence[at] = (int64_t)origin.sequence;
    table->origin_valid[at / 8] = (uint8_t)(table->origin_valid[at / 8] | (sourced ? 1u << (at % 8) : 0));
    table->field_ends[at + 1] = (int32_t)fields;
    table->sourced |= sourced;
    table->fields = fields;
    table->rows = at + 1;
    return true;
}
