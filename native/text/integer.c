/* integer.c: see integer.h. Digit by digit, as on paper. */
#include "text/integer.h"

bool integer_parse(bytes_t text, integer_t *out) {
    *out = (integer_t){.digits = BYTES_NONE};
    uint32_t at = text.size > 0 && (text.at[0] == '-' || text.at[0] == '+') ? 1 : 0;
    if (at == text.size) {
        return false;
    }
    for (uint32_t i = at; i < text.size; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
    }
    bool negative = text.at[0] == '-';
    while (at < text.size && text.at[at] == '0') {
        at++;
    }
    out->digits = bytes_of(text.at + at, text.size - at);
    out->negative = negative && out->digits.size != 0;
    return true;
}

static bool digits_below(bytes_t a, bytes_t b) {
    return a.size != b.size ? a.size < b.size : a.size > 0 && memcmp(a.at, b.at, a.size) < 0;
}

/* The digit that is `place` places before the last one. */
static int digit_at(bytes_t digits, uint32_t place) {
    return place < digits.size ? digits.at[digits.size - 1 - place] - '0' : 0;
}

/* larger + sign * smaller, written in front of end. Returns where it begins, perhaps with zeros. */
static uint8_t *combine(bytes_t larger, bytes_t smaller, int sign, uint8_t *end) {
    int carry = 0;
    for (uint32_t place = 0; place < larger.size; place++) {
        int sum = digit_at(larger, place) + sign * digit_at(smaller, place) + carry;
        carry = sum > 9 ? 1 : sum < 0 ? -1 : 0;
        *--end = (uint8_t)('0' + sum - 10 * carry);
    }
    if (carry > 0) {
        *--end = '1';
    }
    return end;
}

bytes_t integer_add(integer_t a, integer_t b, uint8_t *room) {
    if (digits_below(a.digits, b.digits)) {
        integer_t other = a;
        a = b;
        b = other;
    }
    uint8_t *end = room + integer_room(a, b);
    uint8_t *at = combine(a.digits, b.digits, a.negative == b.negative ? 1 : -1, end);
    while (at < end && *at == '0') {
        at++;
    }
    if (at == end) {
        *--at = '0';
    } else if (a.negative) {
        *--at = '-';
    }
    return bytes_of(at, (uint32_t)(end - at));
}
