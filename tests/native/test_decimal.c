/* test_decimal.c: whole numbers in digits, both ways. Written ones are held against printf, read ones against the
 * bounds of their types. */
#include "text/decimal.h"

#include "test.h"

static bytes_t text(const char *string) {
    return bytes_of(string, (uint32_t)strlen(string));
}

static void same_as_printf(uint64_t value) {
    char expected[32];
    uint8_t real[DECIMAL_MAX];
    (void)snprintf(expected, sizeof expected, "%" PRIu64, value);
    bytes_t digits = decimal_text(real, value);
    CHECK_TEXT(expected, digits.at, digits.size);
    uint64_t back = 0;
    CHECK(decimal_parse(digits, &back));
    CHECK_EQ_U64(value, back);
}

static void written(void) {
    static const uint64_t values[] = {0,         9, 10, 99, 100, 101, 999, 1000, 65535, UINT32_MAX, 1700000000000000001,
                                      UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        same_as_printf(values[i]);
    }
    uint64_t seed = 7;
    for (int i = 0; i < 100000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        same_as_printf(seed >> (seed % 64));
    }
}

static const char *const no_numbers[] = {"", "-", "+", "+1", " 1", "1 ", "0x1", "1e3", "1.0", "\xd9\xa1", ":", "/"};

static void no_number_is_read_as_one(void) {
    for (size_t i = 0; i < sizeof no_numbers / sizeof *no_numbers; i++) {
        uint64_t number;
        int64_t with_sign;
        uint32_t small;
        CHECK(!decimal_parse(text(no_numbers[i]), &number));
        CHECK(!decimal_parse_upto(text(no_numbers[i]), 7, &number));
        CHECK(!decimal_parse_signed(text(no_numbers[i]), &with_sign));
        CHECK(!decimal_parse_short(text(no_numbers[i]), &small));
    }
}

/* One byte that is no digit, at each place of numbers of each length. */
static void no_other_byte_is_a_digit(void) {
    for (uint32_t size = 1; size < DECIMAL_MAX; size++) {
        for (uint32_t place = 0; place < size * 256; place++) {
            uint8_t digits[DECIMAL_MAX], other = (uint8_t)(place % 256);
            memset(digits, '1', sizeof digits);
            digits[place / 256] = other;
            uint64_t number;
            CHECK_EQ_U64(other >= '0' && other <= '9', decimal_parse(bytes_of(digits, size), &number));
        }
    }
}

static void bounds(void) {
    uint64_t number = 0;
    CHECK(decimal_parse(text("18446744073709551615"), &number));
    CHECK_EQ_U64(UINT64_MAX, number);
    CHECK(!decimal_parse(text("18446744073709551616"), &number));
    CHECK(!decimal_parse(text("100000000000000000000"), &number));
    CHECK(decimal_parse(text("00000000000000000000000000000000007"), &number));
    CHECK_EQ_U64(7, number);
    int64_t with_sign = 0;
    CHECK(decimal_parse_signed(text("9223372036854775807"), &with_sign));
    CHECK_EQ_I64(INT64_MAX, with_sign);
    CHECK(!decimal_parse_signed(text("9223372036854775808"), &with_sign));
    CHECK(decimal_parse_signed(text("-9223372036854775808"), &with_sign));
    CHECK_EQ_I64(INT64_MIN, with_sign);
    CHECK(!decimal_parse_signed(text("-9223372036854775809"), &with_sign));
    CHECK(!decimal_parse_signed(text("--1"), &with_sign));
    uint32_t small = 0;
    CHECK(decimal_parse_short(text("999999999"), &small));
    CHECK_EQ_U64(999999999, small);
    CHECK(!decimal_parse_short(text("0000000001"), &small));
}

static void too_much_is_the_most_there_is(void) {
    static const char *const large[] = {"9", "10", "18446744073709551616", "99999999999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        uint64_t number = 0;
        CHECK(decimal_parse_upto(text(large[i]), 8, &number));
        CHECK_EQ_U64(8, number);
    }
    uint64_t number = 0;
    CHECK(decimal_parse_upto(text("7"), 8, &number));
    CHECK_EQ_U64(7, number);
    CHECK(decimal_parse_upto(text("18446744073709551615"), UINT64_MAX, &number));
    CHECK_EQ_U64(UINT64_MAX, number);
    CHECK(!decimal_parse_upto(text("99999999999999999999999999x"), 8, &number));
}

static void taken_from_the_front(void) {
    bytes_t left = text("20261122T");
    uint32_t number = 0;
    CHECK_EQ_U64(4, decimal_take(&left, 4, &number));
    CHECK_EQ_U64(2026, number);
    CHECK_EQ_U64(4, decimal_take(&left, DECIMAL_SHORT_MAX, &number));
    CHECK_EQ_U64(1122, number);
    CHECK_EQ_U64(0, decimal_take(&left, 2, &number));
    CHECK_EQ_U64(0, number);
    CHECK_TEXT("T", left.at, left.size);
}

int main(void) {
    RUN("numbers are written as printf writes them, and read back", written);
    RUN("what is no number is not read as one", no_number_is_read_as_one);
    RUN("no byte but a digit is read as one, wherever it is", no_other_byte_is_a_digit);
    RUN("the largest number of each type is read, one more is refused", bounds);
    RUN("with a bound, whatever is above it is the bound", too_much_is_the_most_there_is);
    RUN("digits are cut off the front, so many and no more", taken_from_the_front);
    return TEST_RESULT();
}
