/* decimal.c: see the header. */
#include "text/decimal.h"

#include "base/check.h"

bool decimal_parse_upto(bytes_t text, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    bool over = false;
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t digit = (uint8_t)(text.at[i] - '0');
        if (digit > 9) {
            return false;
        }
        over = over || __builtin_mul_overflow(value, (uint64_t)10, &value)
               || __builtin_add_overflow(value, (uint64_t)digit, &value);
        over = over || value > most;
    }
    *out = over ? most : value;
    return text.size != 0;
}

bool decimal_parse(bytes_t text, uint64_t *out) {
    uint64_t value = 0;
    if (text.size == 0) {
        return false;
    }
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t digit = (uint8_t)(text.at[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(value, (uint64_t)10, &value)
            || __builtin_add_overflow(value, (uint64_t)digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool decimal_parse_signed(bytes_t text, int64_t *out) {
    bool negative = text.size != 0 && text.at[0] == '-';
    uint64_t value;
    if (!decimal_parse(negative ? bytes_of(text.at + 1, text.size - 1) : text, &value)
        || value > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) {
        return false;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

uint32_t decimal_take(bytes_t *text, uint32_t max, uint32_t *out) {
    check(max <= DECIMAL_SHORT_MAX);
    uint32_t count = 0;
    while (count < max && count < text->size && text->at[count] >= '0' && text->at[count] <= '9') {
        count++;
    }
    *out = 0;
    (void)decimal_parse_short(bytes_of(text->at, count), out);
    *text = bytes_of(text->at + count, text->size - count);
    return count;
}
