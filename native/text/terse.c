/* terse.c: see terse.h: a line and its numbers, and what is written. */
#include "text/terse.h"

#include <stdlib.h>
#include <string.h>

#include "base/leb.h"
#include "text/terse_private.h"

/* ---- a line ------------------------------------------------------------------------------------------------------ */

static bool terse_bounds(uint8_t c) {
    return c == ' ' || c == '.' || c == '@';
}

static bool terse_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

void terse_parse(terse_line_t *line) {
    line->count = 0;
    uint32_t at = 0;
    while (at < line->size && line->count < TERSE_NUMBERS) {
        uint32_t end = at;
        uint64_t value = 0;
        for (; end < line->size && terse_digit(line->text[end]) && end - at < TERSE_DIGITS; end++) {
            value = 10 * value + (line->text[end] - '0');
        }
        bool whole = end > at && (end == line->size || terse_bounds(line->text[end]));
        if (whole && (line->text[at] != '0' || end == at + 1)) {
            line->numbers[line->count++] = (terse_number_t){value, 0, (uint16_t)at, (uint16_t)end};
        }
        for (; end < line->size && !terse_bounds(line->text[end]); end++) {
        }
        at = end + 1;
    }
}

static uint32_t terse_digits(uint64_t value, uint8_t to[TERSE_DIGITS]) {
    uint32_t count = 1;
    for (uint64_t rest = value; rest >= 10; rest /= 10) {
        count++;
    }
    for (uint32_t i = count; i-- > 0; value /= 10) {
        to[i] = (uint8_t)('0' + value % 10);
    }
    return count;
}

bool terse_compose(terse_line_t *line, uint32_t count, bytes_t tail) {
    uint8_t made[TERSE_LINE_MAX];
    uint32_t size = 0, from = 0;
    for (uint32_t i = 0; i < count; i++) {
        terse_number_t *number = &line->numbers[i];
        uint8_t digits[TERSE_DIGITS];
        if (number->value > TERSE_NUMBER_MAX) {
            return false;
        }
        uint32_t more = terse_digits(number->value, digits), between = number->at - from;
        if (between + more > TERSE_LINE_MAX - size) {
            return false;
        }
        memcpy(made + size, line->text + from, between);
        memcpy(made + size + between, digits, more);
        from = number->end;
        number->at = (uint16_t)(size + between);
        size += between + more;
        number->end = (uint16_t)size;
    }
    if (tail.size > TERSE_LINE_MAX - size) {
        return false;
    }
    bytes_write(made + size, tail);
    line->size = size + tail.size;
    memcpy(line->text, made, line->size);
    return true;
}

terse_line_t *terse_place(terse_t *terse, uint32_t place) {
    if (terse->places[place] == NULL) {
        terse->places[place] = calloc(1, sizeof(terse_line_t));
    }
    return terse->places[place];
}

terse_t *terse_new(void) {
    return calloc(1, sizeof(terse_t));
}

void terse_free(terse_t *terse) {
    for (uint32_t i = 0; terse != NULL && i < TERSE_PLACES; i++) {
        free(terse->places[i]);
    }
    free(terse);
}

/* ---- where lines begin ------------------------------------------------------------------------------------------- */

/* Is a line that begins so followed by as many bytes as its last word says? */
static bool terse_carries(const uint8_t verb[4]) {
    return memcmp(verb, "LMSG", 4) == 0 || memcmp(verb, "HMSG", 4) == 0;
}

/* One byte of a line that is not looked at as a whole. */
static void step_over(terse_t *terse, uint8_t c) {
    if (terse->begun < sizeof terse->verb) {
        terse->verb[terse->begun] = c;
    }
    terse->begun += terse->begun < UINT32_MAX;
    if (terse_digit(c)) {
        terse->number = terse->number > UINT32_MAX ? terse->number : 10 * terse->number + (c - '0');
    } else if (c == ' ') {
        terse->number = 0;
    } else if (c == '\n') {
        terse->left = terse->begun > sizeof terse->verb && terse_carries(terse->verb) ? terse->number + 2 : 0;
        terse->begun = 0;
        terse->number = 0;
    }
}

/* What belongs to a message or to a line that was begun before: so many of the bytes. */
static uint32_t pass_begun(terse_t *terse, bytes_t text) {
    uint32_t done = 0;
    while (done < text.size && (terse->left != 0 || terse->begun != 0)) {
        if (terse->left == 0) {
            step_over(terse, text.at[done++]);
            continue;
        }
        uint32_t part = terse->left < text.size - done ? (uint32_t)terse->left : text.size - done;
        terse->left -= part;
        done += part;
    }
    return done;
}

/* The number at its end, before CRLF. */
static uint64_t last_number(bytes_t line) {
    uint32_t end = line.size - 1, at;
    end -= end != 0 && line.at[end - 1] == '\r';
    for (at = end; at != 0 && end - at < TERSE_DIGITS && terse_digit(line.at[at - 1]); at--) {
    }
    uint64_t number = 0;
    for (; at < end; at++) {
        number = 10 * number + (line.at[at] - '0');
    }
    return number;
}

/* A line from its first byte on, and what follows it: so many of the bytes. */
static uint32_t pass_line(terse_t *terse, bytes_t text) {
    const uint8_t *end = memchr(text.at, '\n', text.size);
    uint32_t done = end == NULL ? 0 : (uint32_t)(end - text.at) + 1;
    if (end == NULL) {
        while (done < text.size) {
            step_over(terse, text.at[done++]);
        }
    } else if (done > sizeof terse->verb && terse_carries(text.at)) {
        terse->left = last_number(bytes_of(text.at, done)) + 2;
    }
    return terse->left == 0 ? done : done + pass_begun(terse, bytes_after(text, done));
}

void terse_pass(terse_t *terse, bytes_t text) {
    uint32_t done = pass_begun(terse, text);
    while (done < text.size) {
        done += pass_line(terse, bytes_after(text, done));
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static uint8_t *terse_copy(uint8_t *to, bytes_t text) {
    if (text.size == 0) {
        return to;
    }
    *to++ = (uint8_t)(TERSE_COPY | (text.size < TERSE_INLINE ? text.size : TERSE_INLINE));
    to = text.size < TERSE_INLINE ? to : leb_put(to, text.size);
    return bytes_write(to, text);
}

/* Of the verb and the subject, without numbers: a consumer's deliveries have one. */
static uint32_t terse_key(const terse_line_t *line) {
    uint32_t key = 2166136261u, words = 0, number = 0;
    for (uint32_t at = 0; at < line->size && words < 2; at++) {
        while (number < line->count && line->numbers[number].end <= at) {
            number++;
        }
        if (number == line->count || at < line->numbers[number].at) {
            key = (key ^ line->text[at]) * 16777619u;
        }
        words += line->text[at] == ' ';
    }
    return key;
}

/* The place of such lines, else the one that was not used for longest. */
static uint32_t find_place(const terse_t *terse, uint32_t key) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < TERSE_PLACES; i++) {
        const terse_line_t *line = terse->places[i];
        if (line != NULL && line->size != 0 && line->key == key) {
            return i;
        }
        if (line == NULL || (terse->places[oldest] != NULL && line->used < terse->places[oldest]->used)) {
            oldest = terse->places[oldest] == NULL ? oldest : i;
        }
    }
    return oldest;
}

/* Of the numbers that both have, how many have the same text before them. *same: and nothing differs behind them. */
static uint32_t count_alike(const terse_line_t *old, const terse_line_t *fresh, bool *same) {
    uint32_t alike = 0, old_at = 0, at = 0;
    for (; alike < old->count && alike < fresh->count; alike++) {
        const terse_number_t *before = &old->numbers[alike], *now = &fresh->numbers[alike];
        bytes_t one = bytes_of(old->text + old_at, before->at - old_at);
        if (!bytes_equal(one, bytes_of(fresh->text + at, now->at - at))) {
            break;
        }
        old_at = before->end;
        at = now->end;
    }
    bytes_t rest = bytes_of(old->text + old_at, old->size - old_at);
    *same =
        alike == old->count && alike == fresh->count && bytes_equal(rest, bytes_of(fresh->text + at, fresh->size - at));
    return alike;
}

static uint8_t *write_news(uint8_t *to, const terse_line_t *old, terse_line_t *fresh, uint32_t count) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < count; i++) {
        fresh->numbers[i].step = fresh->numbers[i].value - old->numbers[i].value;
        mask |= (uint64_t)(fresh->numbers[i].step != old->numbers[i].step) << i;
    }
    to = leb_put(to, mask);
    for (uint32_t i = 0; i < count; i++) {
        if ((mask >> i & 1) != 0) {
            to = leb_put(to, zigzag(fresh->numbers[i].step - old->numbers[i].step));
        }
    }
    return to;
}

/* The operation that makes the line, where it has a place. */
static uint8_t *write_line(uint8_t *to, uint32_t place, const terse_line_t *old, terse_line_t *fresh) {
    uint8_t form[TERSE_LINE_MAX + (TERSE_NUMBERS + 4) * LEB_MAX];
    bool same;
    uint32_t alike = old->size != 0 && old->key == fresh->key ? count_alike(old, fresh, &same) : 0;
    if (alike != 0) {
        uint8_t *end = form;
        *end++ = (uint8_t)((same ? TERSE_SAME : TERSE_TAIL) | place);
        end = same ? end : leb_put(end, alike);
        end = write_news(end, old, fresh, alike);
        if (!same) {
            uint32_t from = fresh->numbers[alike - 1].end;
            end = leb_put(end, fresh->size - from);
            end = bytes_write(end, bytes_of(fresh->text + from, fresh->size - from));
        }
        if ((size_t)(end - form) <= fresh->size) {
            return bytes_write(to, bytes_of(form, (uint32_t)(end - form)));
        }
    }
    for (uint32_t i = 0; i < fresh->count; i++) {
        fresh->numbers[i].step = 0;
    }
    *to++ = (uint8_t)(TERSE_SET | place);
    to = leb_put(to, fresh->size);
    return bytes_write(to, bytes_of(fresh->text, fresh->size));
}

/* The line at the front of text, if it is worth it: fresh has it with its numbers, *whole with its CRLF. */
static bool find_line(bytes_t text, terse_line_t *fresh, uint32_t *whole) {
    const uint8_t *end = text.size < TERSE_LINE_MIN || !terse_carries(text.at)
                             ? NULL
                             : memchr(text.at, '\r', text.size < TERSE_LINE_MAX ? text.size : TERSE_LINE_MAX);
    if (end == NULL || (uint32_t)(end - text.at) + 2 > text.size || end[1] != '\n'
        || (uint32_t)(end - text.at) < TERSE_LINE_MIN) {
        return false;
    }
    fresh->size = (uint32_t)(end - text.at);
    memcpy(fresh->text, text.at, fresh->size);
    terse_parse(fresh);
    *whole = fresh->size + 2;
    return fresh->count != 0 && fresh->numbers[fresh->count - 1].end == fresh->size;
}

/* A message whose line is said by what is new in it: so many bytes of text. 0: its end is not where it has to be. */
static uint32_t terse_message(terse_t *terse, bytes_t text, uint32_t line, uint64_t payload, uint8_t **to) {
    uint32_t left = text.size - line;
    uint32_t part = payload < left ? (uint32_t)payload : left;
    *to = bytes_write(*to, bytes_of(text.at + line, part));
    uint32_t end = left - part < 2 ? left - part : 2;
    if (memcmp(text.at + line + part, "\r\n", end) != 0) {
        return 0;
    }
    terse->left = payload + 2 - part - end;
    return line + part + end;
}

uint32_t terse_write(terse_t *terse, bytes_t text, uint8_t *to) {
    uint8_t *begin = to;
    uint32_t copied = 0, done = pass_begun(terse, text);
    while (done < text.size) {
        terse_line_t fresh = {0};
        uint32_t whole;
        bytes_t rest = bytes_after(text, done);
        if (!find_line(rest, &fresh, &whole)) {
            done += pass_line(terse, rest);
            continue;
        }
        fresh.key = terse_key(&fresh);
        fresh.used = ++terse->clock;
        uint32_t place = find_place(terse, fresh.key);
        terse_line_t *old = terse_place(terse, place);
        if (old == NULL) {
            done += pass_line(terse, rest);
            continue;
        }
        to = terse_copy(to, bytes_of(text.at + copied, done - copied));
        to = write_line(to, place, old, &fresh);
        *old = fresh;
        uint32_t took = terse_message(terse, rest, whole, fresh.numbers[fresh.count - 1].value, &to);
        if (took == 0) {
            return 0;
        }
        copied = done += took;
    }
    return (uint32_t)(terse_copy(to, bytes_of(text.at + copied, done - copied)) - begin);
}
