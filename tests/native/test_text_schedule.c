/* test_text_schedule.c: the patterns of scheduled messages, and time zones. Expected times are those of the reference's
 * rules: its own tests' where it has one, otherwise its calendar worked out by hand or by Python's zoneinfo. */
#include "text/schedule.h"

#include "base/clock.h"
#include "text/time_text.h"
#include "test.h"

static bytes_t text_of(const char *text) {
    return bytes_of(text, (uint32_t)strlen(text));
}

static int64_t at(const char *text) {
    int64_t ns = 0;
    CHECK(time_parse(text_of(text), &ns));
    return ns;
}

/* The next time behind `base`, with the clock at `now`; "" = no pattern. */
static const char *next(const char *pattern, const char *zone_name, const char *base, const char *now) {
    static uint8_t text[TIME_TEXT_MAX + 1];
    int64_t ns;
    bool repeats;
    zone_t *zone = *zone_name != 0 ? zone_open(text_of(zone_name)) : NULL;
    bool good = schedule_next(text_of(pattern), zone, at(base), at(now), &ns, &repeats);
    zone_close(zone);
    text[good ? time_format(ns, text) : 0] = 0;
    return (const char *)text;
}

/* The clock stands at the base. */
#define CHECK_FROM(expected, pattern, zone, base)                                                                      \
    do {                                                                                                               \
        const char *real = next(pattern, zone, base, base);                                                            \
        CHECK_TEXT(expected, real, strlen(real));                                                                      \
    } while (0)

static void exact(void) {
    int64_t ns;
    bool repeats = true;
    CHECK(schedule_next(text_of("@at 2026-11-21T03:36:37.5+01:00"), NULL, 0, 0, &ns, &repeats));
    CHECK(!repeats);
    CHECK_EQ_I64(at("2026-11-21T02:36:37.5Z"), ns);
    CHECK_FROM("", "@at 2026-11-21", "", "2026-01-01T00:00:00Z");
    CHECK_FROM("", "@at 2026-11-21T00:00:00Z", "UTC", "2026-01-01T00:00:00Z");
}

static void intervals(void) {
    CHECK_FROM("2026-01-01T00:00:05Z", "@every 5s", "", "2026-01-01T00:00:00Z");
    CHECK_FROM("2026-01-01T00:00:06Z", "@every 5s", "", "2026-01-01T00:00:00.5Z");
    CHECK_FROM("2026-01-01T00:00:05Z", "@every 5s", "", "2026-01-01T00:00:00.499Z");
    CHECK_FROM("2026-01-01T00:00:03.5Z", "@every 1500ms", "", "2026-01-01T00:00:01.5Z");
    CHECK_FROM("2026-01-01T01:30:00Z", "@every 1h30m", "", "2026-01-01T00:00:00Z");
    CHECK_FROM("", "@every 999ms", "", "2026-01-01T00:00:00Z");
    CHECK_FROM("", "@every 5s", "UTC", "2026-01-01T00:00:00Z");
    CHECK_FROM("", "@every 5", "", "2026-01-01T00:00:00Z");
    CHECK_FROM("", "@every 2562047h", "", "2026-01-01T00:00:00Z");
}

static void missed(void) {
    const char *real = next("@every 5s", "", "2026-01-01T00:00:00Z", "2026-01-01T00:01:02.4Z");
    CHECK_TEXT("2026-01-01T00:01:07Z", real, strlen(real));
    real = next("0 * * * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T07:01:02Z");
    CHECK_TEXT("2026-01-01T07:02:00Z", real, strlen(real));
}

static void clock_set_back(void) {
    const char *real = next("@every 5s", "", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z");
    CHECK_TEXT("2026-01-01T00:00:05Z", real, strlen(real));
    real = next("0 0 * * * *", "", "2026-01-02T00:00:00Z", "2026-01-01T07:30:00Z");
    CHECK_TEXT("2026-01-01T08:00:00Z", real, strlen(real));
    /* only a little, as clocks are slewed */
    real = next("0 0 * * * *", "", "2026-01-01T08:00:00Z", "2026-01-01T07:59:59.9Z");
    CHECK_TEXT("2026-01-01T09:00:00Z", real, strlen(real));
}

static void cron(void) {
    static const char *const rows[][3] = {
        {"* * * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"},
        {"* * * * * *", "2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:01Z"},
        {"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@annually", "2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@monthly", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@weekly", "2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"},
        {"@daily", "2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
        {"@midnight", "2024-02-28T12:00:00Z", "2024-02-29T00:00:00Z"},
        {"@hourly", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"},
        {"*/15 * * * * *", "2026-01-01T00:00:46Z", "2026-01-01T00:01:00Z"},
        {"50/5 * * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:50Z"},
        {"5,10-12 30 4 * * *", "2026-01-01T04:30:05Z", "2026-01-01T04:30:10Z"},
        {"0 0 0 29 feb ?", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        {"0 0 0 13 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}, /* either of both */
        {"0 0 0 * * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
        {"0 0 0 */2 * fri", "2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z"}, /* a stepped star is no star */
        {"0 0 9 1-7 * mon-mon", "2026-01-07T10:00:00Z", "2026-01-12T09:00:00Z"},
        {" 0\t0  0 1 1 * ", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"*-5 0 0 1 1 *", "2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z"}, /* a star's end is not looked at */
        {",7 0 0 1 1 *", "2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_FROM(rows[i][2], rows[i][0], "", rows[i][1]);
    }
}

static void no_cron(void) {
    static const char *const rows[] = {"x",
                                       "* * * * *",
                                       "* * * * * * *",
                                       "60 * * * * *",
                                       "-1 * * * * *",
                                       "* * 24 * * *",
                                       "* * * 0 * *",
                                       "* * * * 13 *",
                                       "* * * * * 7",
                                       "1-2-3 * * * * *",
                                       "5-1 * * * * *",
                                       "*/0 * * * * *",
                                       "*/2/2 * * * * *",
                                       "*/ * * * * *",
                                       "a * * * * *",
                                       "99999999999999999999 * * * * *",
                                       "0 0 0 30 2 ?",
                                       "0 0 0 31 4,6,9,11 *",
                                       ", * * * * *",
                                       "* , * * * *",
                                       "* * , * * *",
                                       "* * * , * ,",
                                       "* * * * , *",
                                       "@sometimes",
                                       "@at",
                                       "@every"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_FROM("", rows[i], "", "2026-01-01T00:00:00Z");
    }
}

static void zones(void) {
    static const char *const rows[][4] = {
        {"0 0 12 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-01-01T11:00:00Z"},
        {"0 0 12 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-01T10:00:00Z"},
        {"0 0 12 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T10:00:00Z"},
        {"0 0 12 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T11:00:00Z"},
        /* behind the table: by its rule */
        {"0 0 12 * * *", "Europe/Berlin", "2061-07-01T00:00:00Z", "2061-07-01T10:00:00Z"},
        {"0 0 12 * * *", "Europe/Berlin", "2061-12-01T00:00:00Z", "2061-12-01T11:00:00Z"},
        {"0 0 12 * * *", "Australia/Sydney", "2061-12-01T00:00:00Z", "2061-12-01T01:00:00Z"},
        {"0 0 12 * * *", "Australia/Sydney", "2061-07-01T00:00:00Z", "2061-07-01T02:00:00Z"},
        {"0 0 12 * * *", "America/New_York", "2026-01-01T00:00:00Z", "2026-01-01T17:00:00Z"},
        {"0 0 12 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", "2026-01-01T06:30:00Z"},
        {"0 30 2 29 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2027-03-29T00:30:00Z"}, /* 2026 has no such hour */
        {"0 0 0 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_FROM(rows[i][3], rows[i][0], rows[i][1], rows[i][2]);
    }
}

static void no_zones(void) {
    static const char *const rows[] = {
        "Europe/Atlantis", "../zoneinfo/UTC", "/etc/localtime", "Europe", "", "Europe/..", "zone.tab", "\\x"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zone_t *zone = zone_open(text_of(rows[i]));
        CHECK(zone == NULL);
        zone_close(zone);
    }
}

int main(void) {
    RUN("@at is due at its time, once", exact);
    RUN("@every goes on from the full second nearest to the time before", intervals);
    RUN("what was missed is made up for once", missed);
    RUN("a wall clock that was set back holds nothing up", clock_set_back);
    RUN("cron patterns are due when the reference says", cron);
    RUN("what is no pattern, or is never due, is refused", no_cron);
    RUN("cron patterns follow their zone through summer and winter, today and in forty years", zones);
    RUN("only names of the system's database are zones", no_zones);
    return TEST_RESULT();
}
