/* terse_read.c: see terse.h: what is read. It comes from the network: each size is looked at before it is used. */
#include <string.h>

#include "base/leb.h"
#include "text/terse.h"
#include "text/terse_private.h"

typedef struct reading {
    bytes_t from; /* what is left of it */
    uint8_t *to;
    uint32_t room; /* so much is still to be made */
} reading_t;

static status_t read_terse_number(bytes_t *from, uint64_t *number) {
    return leb_take(from, number) ? STATUS_OK : STATUS_CORRUPT;
}

/* As many bytes as are said next. */
static status_t read_sized(bytes_t *from, bytes_t *part) {
    uint64_t size;
    status_t status = read_terse_number(from, &size);
    if (status != STATUS_OK || size > from->size) {
        return STATUS_CORRUPT;
    }
    *part = bytes_of(from->at, (uint32_t)size);
    *from = bytes_after(*from, (uint32_t)size);
    return STATUS_OK;
}

static status_t terse_make(reading_t *reading, bytes_t bytes) {
    if (bytes.size > reading->room) {
        return STATUS_CORRUPT;
    }
    reading->to = bytes_write(reading->to, bytes);
    reading->room -= bytes.size;
    return STATUS_OK;
}

static status_t read_copy(reading_t *reading, uint32_t size) {
    bytes_t part;
    if (size == TERSE_INLINE) {
        status_t status = read_sized(&reading->from, &part);
        return status != STATUS_OK ? status : terse_make(reading, part);
    }
    if (size > reading->from.size) {
        return STATUS_CORRUPT;
    }
    part = bytes_of(reading->from.at, size);
    reading->from = bytes_after(reading->from, size);
    return terse_make(reading, part);
}

static status_t read_set(reading_t *reading, terse_line_t *line) {
    bytes_t text;
    status_t status = read_sized(&reading->from, &text);
    if (status != STATUS_OK || text.size > TERSE_LINE_MAX) {
        return STATUS_CORRUPT;
    }
    line->size = text.size;
    bytes_write(line->text, text);
    terse_parse(line);
    return STATUS_OK;
}

/* The first numbers change as is said, or as the time before. */
static status_t read_news(reading_t *reading, terse_line_t *line, uint64_t count) {
    uint64_t mask;
    status_t status = read_terse_number(&reading->from, &mask);
    if (status != STATUS_OK || count > line->count || mask >> count != 0) {
        return STATUS_CORRUPT;
    }
    for (uint32_t i = 0; i < count; i++) {
        terse_number_t *number = &line->numbers[i];
        uint64_t said = 0;
        if ((mask >> i & 1) != 0 && (status = read_terse_number(&reading->from, &said)) != STATUS_OK) {
            return status;
        }
        number->step += unzigzag(said);
        number->value += number->step;
    }
    return STATUS_OK;
}

static status_t read_same(reading_t *reading, terse_line_t *line) {
    uint8_t text[TERSE_LINE_MAX];
    status_t status = line->count == 0 ? STATUS_CORRUPT : read_news(reading, line, line->count);
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t from = line->numbers[line->count - 1].end;
    bytes_t tail = bytes_of(text, line->size - from);
    memcpy(text, line->text + from, tail.size);
    return terse_compose(line, line->count, tail) ? STATUS_OK : STATUS_CORRUPT;
}

static status_t read_tail(reading_t *reading, terse_line_t *line) {
    uint64_t count, steps[TERSE_NUMBERS];
    bytes_t tail;
    status_t status = read_terse_number(&reading->from, &count);
    if (status != STATUS_OK || count == 0 || read_news(reading, line, count) != STATUS_OK
        || read_sized(&reading->from, &tail) != STATUS_OK || !terse_compose(line, (uint32_t)count, tail)) {
        return STATUS_CORRUPT;
    }
    for (uint32_t i = 0; i < count; i++) {
        steps[i] = line->numbers[i].step;
    }
    terse_parse(line);
    for (uint32_t i = 0; i < count && i < line->count; i++) {
        line->numbers[i].step = steps[i];
    }
    return STATUS_OK;
}

/* The line, and of what follows it as much as there is room for. */
static status_t make_message(reading_t *reading, const terse_line_t *line) {
    if (line->count == 0 || line->numbers[line->count - 1].end != line->size) {
        return STATUS_CORRUPT;
    }
    uint64_t payload = line->numbers[line->count - 1].value;
    status_t status = terse_make(reading, bytes_of(line->text, line->size));
    status = status == STATUS_OK ? terse_make(reading, BYTES_LITERAL("\r\n")) : status;
    uint32_t part = payload < reading->room ? (uint32_t)payload : reading->room;
    if (status != STATUS_OK || part > reading->from.size) {
        return STATUS_CORRUPT;
    }
    status = terse_make(reading, bytes_of(reading->from.at, part));
    reading->from = bytes_after(reading->from, part);
    bytes_t end = BYTES_LITERAL("\r\n");
    end.size = reading->room < end.size ? reading->room : end.size;
    return status != STATUS_OK ? status : terse_make(reading, end);
}

static status_t read_one(terse_t *terse, reading_t *reading) {
    uint8_t first = reading->from.at[0];
    reading->from = bytes_after(reading->from, 1);
    if ((first & TERSE_KIND) == TERSE_COPY) {
        return read_copy(reading, first);
    }
    uint32_t place = first & (uint8_t)~TERSE_KIND;
    if (place >= TERSE_PLACES) {
        return STATUS_CORRUPT;
    }
    terse_line_t *line = terse_place(terse, place);
    if (line == NULL) {
        return STATUS_NO_MEMORY;
    }
    status_t status = (first & TERSE_KIND) == TERSE_SET    ? read_set(reading, line)
                      : (first & TERSE_KIND) == TERSE_SAME ? read_same(reading, line)
                                                           : read_tail(reading, line);
    return status != STATUS_OK ? status : make_message(reading, line);
}

status_t terse_read(terse_t *terse, bytes_t from, uint8_t *to, uint32_t size) {
    reading_t reading = {.from = from, .to = to, .room = size};
    while (reading.from.size != 0) {
        status_t status = read_one(terse, &reading);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return reading.room == 0 ? STATUS_OK : STATUS_CORRUPT;
}
