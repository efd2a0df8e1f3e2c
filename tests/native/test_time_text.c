/* test_time_text.c: RFC 3339 both ways, against the C library's calendar. */
#include <stdio.h>
#include <time.h>

#include "text/time_text.h"
#include "test.h"

static bytes_t text_of(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

static void known_stamp(void) {
    int64_t ns = 0;
    uint8_t text[TIME_TEXT_MAX];
    CHECK(time_parse(text_of("2026-11-21T03:36:37.80638555Z"), &ns));
    CHECK(ns == INT64_C(1795232197806385550));
    CHECK_TEXT("2026-11-21T03:36:37.80638555Z", text, time_format(ns, text));
}

static void zones(void) {
    int64_t utc = 0;
    int64_t east = 0;
    CHECK(time_parse(text_of("2024-02-29T23:30:00Z"), &utc));
    CHECK(time_parse(text_of("2024-03-01T01:30:00+02:00"), &east));
    CHECK(utc == east);
}

static void refusals(void) {
    static const char *const bad[] = {"",
                                      "2024",
                                      "2024-02-29",
                                      "2024-02-29T23:30:00",
                                      "2024-13-01T00:00:00Z",
                                      "2024-02-29T23:30:00.Z",
                                      "2024-02-29T23:30:00Zx",
                                      "2024-02-29 23:30:00Z",
                                      "0001-01-01T00:00:00Z",
                                      "2024-02-29T25:30:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "2026-02-31T00:00:00Z",
                                      "2026-01-00T00:00:00Z"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int64_t ns;
        CHECK(!time_parse(text_of(bad[i]), &ns));
    }
}

static void any_year(void) {
    int64_t ns = 0;
    CHECK(time_parse_nearest(text_of("0001-01-01T00:00:00Z"), &ns));
    CHECK(ns == INT64_MIN);
    CHECK(time_parse_nearest(text_of("9999-12-31T23:59:59Z"), &ns));
    CHECK(ns == INT64_MAX);
    CHECK(time_parse_nearest(text_of("2262-04-11T23:47:16.854775807Z"), &ns));
    CHECK(ns == INT64_MAX);
    CHECK(!time_parse_nearest(text_of("2026-02-31T00:00:00Z"), &ns));
}

static void calendar(void) {
    for (int64_t day = -100000; day < 100000; day += 13) {
        time_t seconds = (time_t)(day * 86400 + 12345);
        struct tm parts;
        CHECK(gmtime_r(&seconds, &parts) != NULL);
        char expected[64];
        (void)strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ", &parts);
        uint8_t text[TIME_TEXT_MAX];
        CHECK_TEXT(expected, text, time_format((int64_t)seconds * 1000000000, text));
    }
}

int main(void) {
    RUN("a stamp as the reference wrote it reads back to the same nanoseconds", known_stamp);
    RUN("a zone is taken off, a missing fraction is zero", zones);
    RUN("what is no time is refused, whatever is missing or too much", refusals);
    RUN("any year is taken where it is asked for, as the first or last time that can be told", any_year);
    RUN("every day over four centuries has the C library's date", calendar);
    return TEST_RESULT();
}
