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

#define EIGHT_DIGITS 100000000u

#define ZEROS UINT64_C(0x3030303030303030)

/* Eight digits in eight bytes, the first one lowest: pairs, then fours, then all, in one multiplication each. */
static inline bool eight_digits(uint64_t text, uint64_t *out) {
    const uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0), zeros = ZEROS;
    if ((text & high) != zeros || ((text + UINT64_C(0x0606060606060606)) & high) != zeros) {
        return false;
    }
    text = (text & UINT64_C(0x0f0f0f0f0f0f0f0f)) * (10 * 256 + 1) >> 8;
    text = (text & UINT64_C(0x00ff00ff00ff00ff)) * (100 * 65536 + 1) >> 16;
    *out = (text & UINT64_C(0x0000ffff0000ffff)) * (UINT64_C(10000) * (UINT64_C(1) << 32) + 1) >> 32;
    return true;
}

/* Four to seven digits behind zeros, as eight. Both loads hold the bytes that they share. */
static inline uint64_t with_zeros(const uint8_t *at, uint32_t size) {
    uint64_t first = (uint64_t)load_u32(at) << 8 * (8 - size);
    return first | (uint64_t)load_u32(at + size - 4) << 32 | ZEROS >> 8 * size;
}

/* So few digits that nothing can overflow. */
static inline bool parse_few(bytes_t text, uint64_t *out) {
    uint64_t value = 0, eight;
    uint32_t i = 0;
    for (; i + 8 <= text.size; i += 8) {
        if (!eight_digits(load_u64(text.at + i), &eight)) {
            return false;
        }
        value = value * EIGHT_DIGITS + eight;
    }
    if (text.size >= 4 && text.size < 8) {
        return eight_digits(with_zeros(text.at, text.size), out);
    }
    for (; i < text.size; i++) {
        uint8_t digit = (uint8_t)(text.at[i] - '0');
        if (digit > 9) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool decimal_parse(bytes_t text, uint64_t *out) {
    uint64_t value = 0;
    if (text.size == 0) {
        return false;
    }
    if (text.size < DECIMAL_MAX) {
        return parse_few(text, out);
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
