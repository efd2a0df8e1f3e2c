/* test_text_languages.c: the small languages of text/ that clients write: Go durations, times to live, JSON objects. */
#include <stdlib.h>

#include "text/duration.h"
#include "text/json.h"
#include "text/ttl.h"
#include "test.h"

static bytes_t text(const char *string) {
    return bytes_of(string, (uint32_t)strlen(string));
}

/* From the documentation and tests of Go's time package. */
static void durations_read(void) {
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"0", 0},
                {"5s", 5000000000},
                {"30s", 30000000000},
                {"1478s", 1478000000000},
                {"-5s", -5000000000},
                {"+5s", 5000000000},
                {"-0", 0},
                {"5.0s", 5000000000},
                {"5.6s", 5600000000},
                {"5.s", 5000000000},
                {".5s", 500000000},
                {"1.004s", 1004000000},
                {"1.00400s", 1004000000},
                {"100.00100s", 100001000000},
                {"10ns", 10},
                {"11us", 11000},
                {"12\xc2\xb5s", 12000},
                {"12\xce\xbcs", 12000},
                {"13ms", 13000000},
                {"15m", 900000000000},
                {"16h", 57600000000000},
                {"3h30m", 12600000000000},
                {"10.5s4m", 250500000000},
                {"-2m3.4s", -123400000000},
                {"39h9m14.425s", 140954425000000},
                {"0.3333333333333333333h", 1200000000000},
                {"9223372036854775807ns", INT64_MAX},
                {"-9223372036854775808ns", INT64_MIN},
                {"-2562047h47m16.854775808s", INT64_MIN}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ns = -1;
        CHECK_EQ_I64(STATUS_OK, duration_parse(text(good[i].text), &ns));
        CHECK_EQ_I64(good[i].ns, ns);
    }
    static const char *const bad[] = {"",
                                      "3",
                                      "-",
                                      "s",
                                      ".",
                                      "-.",
                                      ".s",
                                      "+.s",
                                      "1d",
                                      "1 s",
                                      " 1s",
                                      "1s ",
                                      "3000000h",
                                      "9223372036854775808ns",
                                      "x",
                                      "18446744073.709551616s",
                                      "-9223372036854775809ns",
                                      "9223372036.854775808s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ns;
        CHECK_EQ_I64(STATUS_INVALID, duration_parse(text(bad[i]), &ns));
    }
}

static void durations_written(void) {
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {{"0s", 0},
                 {"1ns", 1},
                 {"1.1\xc2\xb5s", 1100},
                 {"2.2ms", 2200000},
                 {"3.3s", 3300000000},
                 {"4m5s", 245000000000},
                 {"4m5.001s", 245001000000},
                 {"5h6m7.001s", 18367001000000},
                 {"8m0.000000001s", 480000000001},
                 {"2562047h47m16.854775807s", INT64_MAX},
                 {"-2562047h47m16.854775808s", INT64_MIN},
                 {"1h0m0s", 3600000000000},
                 {"-1.5s", -1500000000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t real[DURATION_TEXT_MAX];
        uint32_t size = duration_format(cases[i].ns, real);
        CHECK_TEXT(cases[i].text, real, size);
    }
}

static void json_fields(void) {
    bytes_t object =
        text(" { \"a\" : 1 , \"b\":\"x\\\"y\",\"c\":[1,{\"d\":2}],\"\":null, \"e\":{},\"f\":-0.5e+3,\"g\":true } ");
    json_error_t error;
    CHECK(json_valid(object, &error));
    while (object.at[0] == ' ') object = bytes_of(object.at + 1, object.size - 1);
    static const char *const names[] = {"a", "b", "c", "", "e", "f", "g"};
    static const char *const values[] = {"1", "x\\\"y", "[1,{\"d\":2}]", "null", "{}", "-0.5e+3", "true"};
    static const json_kind_t kinds[] = {JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_NULL,
                                        JSON_OBJECT, JSON_NUMBER, JSON_BOOL};
    json_field_t field;
    uint32_t at = 0;
    for (size_t i = 0; i < 7; i++) {
        CHECK(json_next(object, &at, &field));
        CHECK_TEXT(names[i], field.name.at, field.name.size);
        CHECK_TEXT(values[i], field.value.at, field.value.size);
        CHECK_EQ_U64(kinds[i], field.kind);
    }
    CHECK(!json_next(object, &at, &field));
    at = 0;
    CHECK(!json_next(text("{}"), &at, &field));
}

static void json_integers(void) {
    int64_t value;
    CHECK(json_integer(text("-9223372036854775808"), &value) && value == INT64_MIN);
    CHECK(json_integer(text("9223372036854775807"), &value) && value == INT64_MAX);
    CHECK(!json_integer(text("9223372036854775808"), &value));
    CHECK(!json_integer(text("-"), &value));
    CHECK(!json_integer(text(""), &value));
    CHECK(!json_integer(text("1.0"), &value));
}

static void deep_json(void) {
    json_error_t error;
    char deep[4096];
    memset(deep, '[', sizeof deep);
    CHECK(!json_valid(bytes_of(deep, sizeof deep), &error));
    CHECK_TEXT("exceeded max depth", error.text, strlen(error.text));
}

/* Each buffer is as large as its text to the byte, so that AddressSanitizer sees a step over the end. */
static void cut_json(void) {
    static const char whole[] =
        "{\"batch\":10,\"a\":[true,false,null,\"\\u00e9\\n\"],\"x\":{\"y\":-1.5e-3},\"expires\":5}";
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t size = (uint32_t)((seed >> 33) % sizeof whole);
        uint8_t *exact = malloc(size > 0 ? size : 1);
        CHECK(exact != NULL);
        memcpy(exact, whole, size);
        if (size > 0 && round % 2) exact[(seed >> 20) % size] = (uint8_t)(seed >> 50);
        json_error_t error;
        json_field_t field;
        uint32_t at = 0;
        bool valid = json_valid(bytes_of(exact, size), &error);
        if (valid && size > 0 && exact[0] == '{') {
            while (json_next(bytes_of(exact, size), &at, &field)) CHECK(at <= size);
        }
        CHECK(valid || error.text[0] != 0);
        for (const char *c = error.text; !valid && *c; c++) CHECK((uint8_t)*c >= 0x20); /* it goes into a header */
        free(exact);
    }
}

static void errors_stay_on_their_line(void) {
    static const char *const bad[] = {
        "{\xc3\r\n", "{\"a\":\xe2\r\nX: y", "{\"\\\r\nX: y", "{\"\\u\r\nX: y\"}", "{\r\n\x01", "\n\x7f", "{\"a\":t\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_error_t error;
        CHECK(!json_valid(text(bad[i]), &error));
        CHECK(error.text[0] != 0);
        for (const char *c = error.text; *c; c++) CHECK((uint8_t)*c >= 0x20);
    }
}

/* Asked of nats-server 2.15.1: it takes and refuses these; of those that overflow in its sum (see ttl.h) it takes the
 * header, too. */
static void times_to_live(void) {
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"never", TTL_NEVER},       {"NEVER", TTL_NEVER},      {"Never", TTL_NEVER},
                {"1", 1000000000},          {"1s", 1000000000},        {"1.5s", 1500000000},
                {"+5s", 5000000000},        {"1h", 3600000000000},     {"2562047h", 9223369200000000000},
                {"99999999999", TTL_NEVER}, {"9223372037", TTL_NEVER}, {"9223372036854775807", TTL_NEVER}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ns = 0;
        if (!ttl_parse(text(good[i].text), &ns)) FAIL("refused: %s", good[i].text);
        CHECK_EQ_I64(good[i].ns, ns);
    }
    static const char *const bad[] = {
        "", "0", "0s", "999ms", "-1", "+5", "5 s", "2562048h", "9223372036854775808", "nev", "nevers"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ns = 0;
        if (ttl_parse(text(bad[i]), &ns)) FAIL("taken: %s", bad[i]);
    }
}

int main(void) {
    RUN("durations are read as Go reads them", durations_read);
    RUN("durations are written as Go writes them", durations_written);
    RUN("a time to live is read as the reference reads it", times_to_live);
    RUN("the fields of an object come in order, nested values whole", json_fields);
    RUN("integers are 64 bits and nothing else", json_integers);
    RUN("deep nesting is refused", deep_json);
    RUN("no error text can end the header line it is put into", errors_stay_on_their_line);
    RUN("cut and damaged JSON is refused without reading past its end", cut_json);
    return TEST_RESULT();
}
