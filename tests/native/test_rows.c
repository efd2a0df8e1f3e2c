/* test_rows.c: rows of a report from records. That they are what Python's json makes of the same objects is held by
 * tests/unit/monitor/test_encoding.py; here are the bounds. */
#include "text/rows.h"

#include "test.h"

#define RECORDS 2
#define RECORD_SIZE 32
#define ROOM_MAX 512

static const char literals[] = "{\"name\":,\"n\":,\"some\":,\"at\":}";
static const row_column_t columns[] = {
    {.literal = 8, .kind = ROW_TEXT, .at = 0},      {.literal = 5, .kind = ROW_NUMBER, .at = 8},
    {.literal = 8, .kind = ROW_OPTIONAL, .at = 16}, {.literal = 6, .kind = ROW_STAMP, .at = 24},
    {.literal = 1, .kind = ROW_NOTHING, .at = 0},
};
static const uint64_t records[RECORDS][RECORD_SIZE / 8] = {{3, UINT64_MAX, 0, 0}, {4, 0, 7, 1000000000}};
static const char texts[] = "\"A\"\"BC\"";
static const char expected[] = "{\"name\":\"A\",\"n\":18446744073709551615,\"at\":\"0001-01-01T00:00:00Z\"}"
                               "{\"name\":\"BC\",\"n\":0,\"some\":7,\"at\":\"1970-01-01T00:00:01Z\"}";

static row_format_t format_of(const row_column_t *some) {
    return (row_format_t){
        .columns = some,
        .literals = (const uint8_t *)literals,
        .column_count = sizeof columns / sizeof *columns,
        .literals_size = sizeof literals - 1,
        .record_size = RECORD_SIZE,
    };
}

static int64_t write_with(const row_format_t *format, uint32_t texts_size, uint8_t *to, uint64_t room) {
    return rows_write(format, (const uint8_t *)records, RECORDS, bytes_of(texts, texts_size), to, room);
}

static void written(void) {
    uint8_t to[ROOM_MAX];
    row_format_t format = format_of(columns);
    int64_t size = write_with(&format, sizeof texts - 1, to, sizeof to);
    CHECK_EQ_I64((int64_t)sizeof expected - 1, size);
    CHECK_BYTES(expected, sizeof expected - 1, to, size);
    CHECK_EQ_I64(0, rows_write(&format, NULL, 0, BYTES_NONE, to, 0));
}

static void room_that_is_too_small(void) {
    row_format_t format = format_of(columns);
    for (uint64_t room = 0; room < sizeof expected; room++) {
        uint8_t *exact = malloc(room != 0 ? room : 1); /* so that a byte too many is seen */
        CHECK(exact != NULL);
        CHECK_EQ_I64(room == sizeof expected - 1 ? (int64_t)room : -1,
                     write_with(&format, sizeof texts - 1, exact, room));
        free(exact);
    }
}

static void texts_that_are_cut(void) {
    row_format_t format = format_of(columns);
    uint8_t to[ROOM_MAX];
    for (uint32_t size = 0; size < sizeof texts - 1; size++) {
        CHECK_EQ_I64(-1, write_with(&format, size, to, sizeof to));
    }
}

static void columns_outside(void) {
    uint8_t to[ROOM_MAX];
    row_column_t some[sizeof columns / sizeof *columns] = {0};
    row_format_t format = format_of(some);
    static const uint32_t behind[] = {RECORD_SIZE - 7, RECORD_SIZE, UINT32_MAX - 3, UINT32_MAX};
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        memcpy(some, columns, sizeof columns);
        some[1].at = behind[i];
        CHECK_EQ_I64(-1, write_with(&format, sizeof texts - 1, to, sizeof to));
    }
    memcpy(some, columns, sizeof columns);
    some[4].literal = 2; /* one more than there is */
    CHECK_EQ_I64(-1, write_with(&format, sizeof texts - 1, to, sizeof to));
    some[4].literal = UINT32_MAX;
    CHECK_EQ_I64(-1, write_with(&format, sizeof texts - 1, to, sizeof to));
    memcpy(some, columns, sizeof columns);
    some[2].kind = ROW_SECONDS + 1;
    CHECK_EQ_I64(-1, write_with(&format, sizeof texts - 1, to, sizeof to));
    memcpy(some, columns, sizeof columns);
    format.record_size = 7;
    CHECK_EQ_I64(-1, write_with(&format, sizeof texts - 1, to, sizeof to));
}

static void left_out_where_it_is_0(void) {
    static const char parts[] = "{,\"at\":,\"is\":,\"s\":}";
    static const row_column_t kinds[] = {{.literal = 1, .kind = ROW_NOTHING},
                                         {.literal = 6, .kind = ROW_MOMENT, .at = 0},
                                         {.literal = 6, .kind = ROW_TRUE, .at = 8},
                                         {.literal = 5, .kind = ROW_SECONDS, .at = 16},
                                         {.literal = 1, .kind = ROW_NOTHING, .at = 0}};
    static const uint64_t values[][3] = {{0, 0, 0}, {1000000000, 2, 12000000034}, {0, 1, UINT64_MAX}};
    static const char wanted[] = "{,\"s\":0.000000000}"
                                 "{,\"at\":\"1970-01-01T00:00:01Z\",\"is\":true,\"s\":12.000000034}"
                                 "{,\"is\":true,\"s\":18446744073.709551615}";
    row_format_t format = {.columns = kinds,
                           .literals = (const uint8_t *)parts,
                           .column_count = sizeof kinds / sizeof *kinds,
                           .literals_size = sizeof parts - 1,
                           .record_size = sizeof *values};
    uint8_t to[ROOM_MAX];
    int64_t size = rows_write(&format, (const uint8_t *)values, 3, BYTES_NONE, to, sizeof to);
    CHECK_EQ_I64((int64_t)sizeof wanted - 1, size);
    CHECK_BYTES(wanted, sizeof wanted - 1, to, size);
}

int main(void) {
    RUN("a time, or true, is left out where the record has 0, and seconds have nine digits", left_out_where_it_is_0);
    RUN("rows have what their records say, and an optional number only where it is not 0", written);
    RUN("room that is too small is refused, by whichever byte, and nothing is written past it", room_that_is_too_small);
    RUN("texts that end too early are refused", texts_that_are_cut);
    RUN("a column outside of the record, a literal that is not there and an unknown kind are refused", columns_outside);
    return TEST_RESULT();
}
