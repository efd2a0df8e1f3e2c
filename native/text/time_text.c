/* time_text.c: see the header. Days are counted in the proleptic Gregorian calendar from 1970-01-01; no library call,
 * because timegm and strftime know neither nanoseconds nor a buffer that is not a string. */
#include "text/time_text.h"

#include "base/clock.h"
#include "text/decimal.h"

#define DAYS_PER_ERA 146097 /* 400 years */
#define SECONDS_PER_DAY 86400
#define SECONDS_MIN (-INT64_C(9214560000)) /* 1678-01-01 */
#define SECONDS_MAX INT64_C(9214646399)    /* 2261-12-31T23:59:59 */

int64_t days_from_date(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - 719468;
}

void date_from_days(int64_t days, int64_t *year, int64_t *month, int64_t *day) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    int64_t day_of_era = days - era * DAYS_PER_ERA;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted + (shifted < 10 ? 3 : -9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

static uint8_t *time_digits(uint8_t *to, int64_t value, uint32_t count) {
    for (uint32_t i = count; i > 0; i--) {
        to[i - 1] = (uint8_t)('0' + value % 10);
        value /= 10;
    }
    return to + count;
}

uint32_t time_format(int64_t ns, uint8_t to[TIME_TEXT_MAX]) {
    int64_t fraction = ns % NS_PER_SECOND;
    int64_t seconds = ns / NS_PER_SECOND - (fraction < 0);
    fraction += fraction < 0 ? NS_PER_SECOND : 0;
    int64_t second = seconds % SECONDS_PER_DAY;
    int64_t days = seconds / SECONDS_PER_DAY - (second < 0);
    second += second < 0 ? SECONDS_PER_DAY : 0;
    int64_t year, month, day;
    date_from_days(days, &year, &month, &day);
    uint8_t *at = time_digits(to, year, 4);
    *at++ = '-';
    at = time_digits(at, month, 2);
    *at++ = '-';
    at = time_digits(at, day, 2);
    *at++ = 'T';
    at = time_digits(at, second / 3600, 2);
    *at++ = ':';
    at = time_digits(at, second / 60 % 60, 2);
    *at++ = ':';
    at = time_digits(at, second % 60, 2);
    if (fraction != 0) {
        *at++ = '.';
        at = time_digits(at, fraction, 9);
        while (at[-1] == '0') {
            at--;
        }
    }
    *at++ = 'Z';
    return (uint32_t)(at - to);
}

/* `count` digits at *text, cut off its front. */
static bool time_number(bytes_t *text, uint32_t count, int64_t *out) {
    uint32_t value;
    uint32_t taken = decimal_take(text, count, &value);
    *out = value;
    return taken == count;
}

static bool take_fraction(bytes_t *text, int64_t *ns) {
    int64_t scale = NS_PER_SECOND;
    uint32_t count = 0;
    *ns = 0;
    while (text->size > 0 && text->at[0] >= '0' && text->at[0] <= '9') {
        scale /= 10;
        *ns += (text->at[0] - '0') * scale;
        *text = bytes_of(text->at + 1, text->size - 1);
        count++;
    }
    return count > 0;
}

static bool take_zone(bytes_t *text, int64_t *seconds) {
    *seconds = 0;
    if (bytes_take(text, 'Z')) {
        return true;
    }
    bool east = bytes_take(text, '+');
    int64_t hour, minute;
    if ((!east && !bytes_take(text, '-')) || !time_number(text, 2, &hour) || !bytes_take(text, ':')
        || !time_number(text, 2, &minute)) {
        return false;
    }
    if (hour > 23 || minute > 59) {
        return false;
    }
    *seconds = (east ? 1 : -1) * (hour * 3600 + minute * 60);
    return true;
}

static bool parse_seconds(bytes_t text, int64_t *seconds, int64_t *fraction) {
    int64_t year, month, day, hour, minute, second, zone;
    *fraction = 0;
    if (!time_number(&text, 4, &year) || !bytes_take(&text, '-') || !time_number(&text, 2, &month)
        || !bytes_take(&text, '-') || !time_number(&text, 2, &day) || !bytes_take(&text, 'T')
        || !time_number(&text, 2, &hour) || !bytes_take(&text, ':') || !time_number(&text, 2, &minute)
        || !bytes_take(&text, ':') || !time_number(&text, 2, &second)) {
        return false;
    }
    if (bytes_take(&text, '.') && !take_fraction(&text, fraction)) {
        return false;
    }
    if (!take_zone(&text, &zone) || text.size != 0) {
        return false;
    }
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59) {
        return false;
    }
    int64_t days = days_from_date(year, month, day), same_year, same_month, same_day;
    date_from_days(days, &same_year, &same_month, &same_day);
    if (same_month != month) {
        return false; /* the 31st of a month that has 30 days */
    }
    *seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - zone;
    return true;
}

bool time_parse_nearest(bytes_t text, int64_t *ns) {
    int64_t seconds, fraction;
    if (!parse_seconds(text, &seconds, &fraction)) {
        return false;
    }
    if (__builtin_mul_overflow(seconds, NS_PER_SECOND, ns) || __builtin_add_overflow(*ns, fraction, ns)) {
        *ns = seconds < 0 ? INT64_MIN : INT64_MAX;
    }
    return true;
}

bool time_parse(bytes_t text, int64_t *ns) {
    int64_t seconds, fraction;
    if (!parse_seconds(text, &seconds, &fraction) || seconds < SECONDS_MIN || seconds > SECONDS_MAX) {
        return false;
    }
    *ns = seconds * NS_PER_SECOND + fraction;
    return true;
}
