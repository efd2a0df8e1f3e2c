/* duration.c: see duration.h. */
#include "text/duration.h"

#include "text/decimal.h"

#define TOTAL_MAX (UINT64_C(1) << 63) /* the magnitude of the most negative value; the most positive one is one less */

typedef struct unit {
    const char *name;
    uint64_t ns;
} unit_t;

static const unit_t units[] = {
    {"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
    {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

static const unit_t *unit_find(bytes_t name) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (name.size == strlen(units[i].name) && memcmp(name.at, units[i].name, name.size) == 0) return &units[i];
    }
    return NULL;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

/* One number with its unit; `total` grows by it. Digits of the fraction beyond what 64 bits hold are dropped, as Go
 * does. */
static bool duration_element(const uint8_t **cursor, const uint8_t *end, uint64_t *total) {
    const uint8_t *at = *cursor;
    uint64_t whole = 0, fraction = 0;
    double scale = 1;
    const uint8_t *start = at;
    for (; at < end && is_digit(*at); at++) {
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *at - '0', &whole)) return false;
    }
    bool digits = at > start;
    if (at < end && *at == '.') {
        const uint8_t *point = ++at;
        for (; at < end && is_digit(*at); at++) {
            if (fraction < UINT64_MAX / 20) {
                fraction = fraction * 10 + (uint64_t)(*at - '0');
                scale *= 10;
            }
        }
        digits = digits || at > point;
    }
    if (!digits) return false;
    const uint8_t *name = at;
    while (at < end && *at != '.' && !is_digit(*at)) at++;
    const unit_t *unit = unit_find(bytes_of(name, (uint32_t)(at - name)));
    if (!unit) return false;
    if (__builtin_mul_overflow(whole, unit->ns, &whole)) return false;
    uint64_t part = fraction > 0 ? (uint64_t)((double)fraction * ((double)unit->ns / scale)) : 0;
    if (__builtin_add_overflow(whole, part, &whole)) return false;
    *cursor = at;
    return !__builtin_add_overflow(*total, whole, total) && *total <= TOTAL_MAX;
}

status_t duration_parse(bytes_t text, int64_t *ns) {
    if (text.size == 0) return STATUS_INVALID;
    const uint8_t *at = text.at;
    const uint8_t *end = at + text.size;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if (end - at == 1 && *at == '0') {
        *ns = 0;
        return STATUS_OK;
    }
    if (at == end) return STATUS_INVALID;
    uint64_t total = 0;
    while (at < end) {
        if (!duration_element(&at, end, &total)) return STATUS_INVALID;
    }
    if (total == TOTAL_MAX && !negative) return STATUS_INVALID;
    *ns = negative ? (int64_t)(0 - total) : (int64_t)total;
    return STATUS_OK;
}

/* value / 10^digits without trailing zeros. */
static uint8_t *decimal_digits(uint8_t *to, uint64_t value, uint32_t digits) {
    uint64_t scale = 1;
    for (uint32_t i = 0; i < digits; i++) scale *= 10;
    to = decimal_write(to, value / scale);
    uint64_t rest = value % scale;
    if (rest == 0) return to;
    *to++ = '.';
    while (rest > 0) {
        scale /= 10;
        *to++ = (uint8_t)('0' + rest / scale);
        rest %= scale;
    }
    return to;
}

uint32_t duration_format(int64_t ns, uint8_t to[DURATION_TEXT_MAX]) {
    uint8_t *at = to;
    if (ns < 0) *at++ = '-';
    uint64_t left = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    if (left < 1000) {
        at = decimal_write(at, left);
        return (uint32_t)(bytes_write(at, left == 0 ? BYTES_LITERAL("s") : BYTES_LITERAL("ns")) - to);
    }
    if (left < 1000000) return (uint32_t)(bytes_write(decimal_digits(at, left, 3), BYTES_LITERAL("\xc2\xb5s")) - to);
    if (left < 1000000000) return (uint32_t)(bytes_write(decimal_digits(at, left, 6), BYTES_LITERAL("ms")) - to);
    uint64_t minutes = left / UINT64_C(60000000000);
    if (minutes >= 60) {
        at = decimal_write(at, minutes / 60);
        *at++ = 'h';
    }
    if (minutes > 0) {
        at = decimal_write(at, minutes % 60);
        *at++ = 'm';
    }
    at = decimal_digits(at, left % UINT64_C(60000000000), 9);
    *at++ = 's';
    return (uint32_t)(at - to);
}
