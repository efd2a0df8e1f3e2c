/* schedule.c: see schedule.h. Read as nats-server reads them, its peculiarities included: six cron fields, names of
 * months and days, "N/step" goes to the field's end, day of month and day of week are both wanted when one of them has
 * a star and else either. A cron pattern that is not due within five years is refused.
 *
 * Theory of the search: a candidate second goes forward, field by field from the month down; a field that does not
 * match is stepped until it does, everything below it begins anew, and a wrap of a field starts over from the top.
 */
#include "text/schedule.h"

#include <strings.h>

#include "base/clock.h"
#include "text/blank.h"
#include "text/decimal.h"
#include "text/duration.h"
#include "text/time_text.h"

#define STAR (UINT64_C(1) << 63)
#define YEARS_MAX 5
#define SECONDS_PER_DAY INT64_C(86400)
#define STEPPED_NS (2 * NS_PER_SECOND) /* beyond that the wall clock was set back since the schedule was last due */

typedef struct field {
    uint64_t low, high;
    const char *const *names; /* three letters each, beginning at low; NULL = none */
} field_t;

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const day_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const field_t fields[FIELDS] = {{0, 59, NULL}, {0, 59, NULL},        {0, 23, NULL},
                                       {1, 31, NULL}, {1, 12, month_names}, {0, 6, day_names}};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Cuts the text off at the separator; the rest is behind it. false: there was none, *part is all. */
static bool text_split(bytes_t text, char separator, bytes_t *part, bytes_t *rest) {
    const uint8_t *at = text.size > 0 ? memchr(text.at, separator, text.size) : NULL;
    if (at == NULL) {
        *part = text;
        *rest = BYTES_NONE;
        return false;
    }
    uint32_t size = (uint32_t)(at - text.at);
    *part = bytes_of(text.at, size);
    *rest = bytes_of(at + 1, text.size - size - 1);
    return true;
}

static bool cron_number(bytes_t text, uint64_t *out) {
    if (text.size > 1 && text.at[0] == '+') {
        text = bytes_of(text.at + 1, text.size - 1);
    }
    return decimal_parse(text, out);
}

static bool number_or_name(const field_t *field, bytes_t text, uint64_t *out) {
    if (field->names != NULL && text.size == 3) {
        for (uint64_t i = 0; i <= field->high - field->low; i++) {
            if (strncasecmp((const char *)text.at, field->names[i], 3) == 0) {
                *out = field->low + i;
                return true;
            }
        }
    }
    return cron_number(text, out);
}

/* value, low-high, * or ?, each perhaps with /step */
static bool read_range(const field_t *field, bytes_t text, uint64_t *bits) {
    bytes_t range, step_text, low_text, high_text, more;
    uint64_t low = field->low, high = field->high, step = 1, star = 0;
    bool stepped = text_split(text, '/', &range, &step_text);
    bool single = !text_split(range, '-', &low_text, &high_text);
    if (bytes_equal(low_text, BYTES_LITERAL("*")) || bytes_equal(low_text, BYTES_LITERAL("?"))) {
        star = STAR;
    } else {
        if (!number_or_name(field, low_text, &low)) {
            return false;
        }
        high = low;
        if (!single && (text_split(high_text, '-', &high_text, &more) || !number_or_name(field, high_text, &high))) {
            return false;
        }
    }
    if (stepped) {
        if (!cron_number(step_text, &step) || step == 0) {
            return false;
        }
        high = single ? field->high : high;
        star = step > 1 ? 0 : star;
    }
    if (low < field->low || high > field->high || low > high) {
        return false;
    }
    for (uint64_t i = low; i <= high; i += step) {
        *bits |= UINT64_C(1) << i;
    }
    *bits |= star;
    return true;
}

static bool cron_field(const field_t *field, bytes_t text, uint64_t *bits) {
    bool more = true;
    *bits = 0;
    while (more) {
        bytes_t part;
        more = text_split(text, ',', &part, &text);
        if (part.size > 0 && !read_range(field, part, bits)) {
            return false;
        }
    }
    return true;
}

/* A field of commas alone has no values, and the search would go through five years of seconds before it gave up. */
static bool can_match(const uint64_t bits[FIELDS]) {
    return (bits[SECOND] & ~STAR) != 0 && (bits[MINUTE] & ~STAR) != 0 && (bits[HOUR] & ~STAR) != 0
           && (bits[MONTH] & ~STAR) != 0;
}

static bool read_cron(bytes_t text, uint64_t bits[FIELDS]) {
    uint32_t count = 0;
    uint32_t at = 0;
    for (;;) {
        while (at < text.size && is_white(text.at[at])) {
            at++;
        }
        if (at == text.size) {
            return count == FIELDS && can_match(bits);
        }
        uint32_t from = at;
        while (at < text.size && !is_white(text.at[at])) {
            at++;
        }
        if (count == FIELDS || !cron_field(&fields[count], bytes_of(text.at + from, at - from), &bits[count])) {
            return false;
        }
        count++;
    }
}

/* ---- searching --------------------------------------------------------------------------------------------------- */

typedef struct local {
    int64_t year, month, day, hour, minute, second, weekday;
} local_t;

typedef struct search {
    const zone_t *zone;
    int64_t at; /* Unix seconds */
    local_t local;
    bool begun; /* a field was stepped, so the smaller ones began anew */
} search_t;

static void move_to(search_t *search, int64_t at) {
    int64_t seconds = at + zone_offset(search->zone, at);
    int64_t second = (seconds % SECONDS_PER_DAY + SECONDS_PER_DAY) % SECONDS_PER_DAY;
    int64_t days = (seconds - second) / SECONDS_PER_DAY;
    local_t *local = &search->local;
    search->at = at;
    date_from_days(days, &local->year, &local->month, &local->day);
    local->weekday = ((days + 4) % 7 + 7) % 7;
    local->hour = second / 3600;
    local->minute = second / 60 % 60;
    local->second = second % 60;
}

/* A day of any number goes on into the months behind. Of a local time that the zone has twice or not at all, one of the
 * readings. */
static void move_to_date(search_t *search, int64_t year, int64_t month, int64_t day, int64_t second) {
    year += month > 12;
    month -= month > 12 ? 12 : 0;
    int64_t local = (days_from_date(year, month, 1) + day - 1) * SECONDS_PER_DAY + second;
    int64_t offset = zone_offset(search->zone, local);
    offset = offset != 0 ? zone_offset(search->zone, local - offset) : 0;
    move_to(search, local - offset);
}

static bool bits_have(uint64_t bits, int64_t value) {
    return (bits >> value & 1) != 0;
}

static bool day_matches(const uint64_t bits[FIELDS], const local_t *local) {
    bool day = bits_have(bits[DAY], local->day), weekday = bits_have(bits[WEEKDAY], local->weekday);
    return ((bits[DAY] | bits[WEEKDAY]) & STAR) != 0 ? day && weekday : day || weekday;
}

static int64_t second_of_day(const local_t *local) {
    return local->hour * 3600 + local->minute * 60 + local->second;
}

/* The three larger fields. false: wrapped, look from the top again. */
static bool settle_date(search_t *search, const uint64_t bits[FIELDS]) {
    local_t *local = &search->local;
    while (!bits_have(bits[MONTH], local->month)) {
        if (!search->begun) {
            search->begun = true;
            move_to_date(search, local->year, local->month, 1, 0);
        }
        move_to_date(search, local->year, local->month + 1, local->day, second_of_day(local));
        if (local->month == 1) {
            return false;
        }
    }
    while (!day_matches(bits, local)) {
        if (!search->begun) {
            search->begun = true;
            move_to_date(search, local->year, local->month, local->day, 0);
        }
        move_to_date(search, local->year, local->month, local->day + 1, second_of_day(local));
        if (local->day == 1) {
            return false;
        }
    }
    while (!bits_have(bits[HOUR], local->hour)) {
        if (!search->begun) {
            search->begun = true;
            move_to_date(search, local->year, local->month, local->day, local->hour * 3600);
        }
        move_to(search, search->at + 3600);
        if (local->hour == 0) {
            return false;
        }
    }
    return true;
}

static bool settle_time(search_t *search, const uint64_t bits[FIELDS]) {
    local_t *local = &search->local;
    while (!bits_have(bits[MINUTE], local->minute)) {
        if (!search->begun) {
            search->begun = true;
            move_to(search, search->at - search->at % 60);
        }
        move_to(search, search->at + 60);
        if (local->minute == 0) {
            return false;
        }
    }
    while (!bits_have(bits[SECOND], local->second)) {
        search->begun = true;
        move_to(search, search->at + 1);
        if (local->second == 0) {
            return false;
        }
    }
    return true;
}

static bool cron_next(const uint64_t bits[FIELDS], const zone_t *zone, int64_t base_ns, int64_t *next_ns) {
    search_t search = {.zone = zone};
    move_to(&search, base_ns / NS_PER_SECOND - (base_ns % NS_PER_SECOND < 0) + 1);
    int64_t last_year = search.local.year + YEARS_MAX;
    while (search.local.year <= last_year) {
        if (settle_date(&search, bits) && settle_time(&search, bits)) {
            *next_ns = search.at * NS_PER_SECOND;
            return true;
        }
    }
    return false;
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

static bytes_t cron_of(bytes_t pattern) {
    static const struct {
        const char *name;
        const char *cron;
    } names[] = {{"@yearly", "0 0 0 1 1 *"}, {"@annually", "0 0 0 1 1 *"}, {"@monthly", "0 0 0 1 * *"},
                 {"@weekly", "0 0 0 * * 0"}, {"@daily", "0 0 0 * * *"},    {"@midnight", "0 0 0 * * *"},
                 {"@hourly", "0 0 * * * *"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (bytes_equal(pattern, bytes_of(names[i].name, (uint32_t)strlen(names[i].name)))) {
            return bytes_of(names[i].cron, (uint32_t)strlen(names[i].cron));
        }
    }
    return pattern;
}

static int64_t whole_seconds(int64_t ns) {
    int64_t half = ns + NS_PER_SECOND / 2;
    return half - (half % NS_PER_SECOND + NS_PER_SECOND) % NS_PER_SECOND;
}

bool schedule_next(bytes_t pattern, const zone_t *zone, int64_t base_ns, int64_t now_ns, int64_t *next_ns,
                   bool *repeats) {
    int64_t every;
    uint64_t bits[FIELDS];
    *repeats = false;
    if (bytes_starts(pattern, BYTES_LITERAL("@at "))) {
        return zone == NULL && time_parse(bytes_after(pattern, 4), next_ns);
    }
    *repeats = true;
    /* A schedule fires on elapsed time, never early; so a base that lies ahead tells that the wall clock was set back
     * meanwhile. */
    base_ns = base_ns > now_ns + STEPPED_NS ? now_ns : base_ns;
    if (bytes_starts(pattern, BYTES_LITERAL("@every "))) {
        if (zone != NULL || duration_parse(bytes_after(pattern, 7), &every) != STATUS_OK || every < NS_PER_SECOND) {
            return false;
        }
        int64_t from = whole_seconds(base_ns);
        if (__builtin_add_overflow(from, every, next_ns)) {
            return false;
        }
        return *next_ns >= now_ns || !__builtin_add_overflow(whole_seconds(now_ns), every, next_ns);
    }
    if (!read_cron(cron_of(pattern), bits) || !cron_next(bits, zone, base_ns, next_ns)) {
        return false;
    }
    return *next_ns >= now_ns || cron_next(bits, zone, whole_seconds(now_ns), next_ns);
}
