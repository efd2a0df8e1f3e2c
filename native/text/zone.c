/* zone.c: the TZif format (RFC 8536), version 2 and up, read only:
 *
 *     header 44 | block with 4-byte times, passed over | header 44 | transitions 8 each | their types 1 each
 *     | types: offset 4, daylight 1, name 1 | names, leap seconds, indicators: unused | \n POSIX rule \n
 *
 * Behind the last transition the rule counts: "CET-1CEST,M3.5.0,M10.5.0/3" (POSIX TZ, in the rule's own signs: west is
 * positive).
 */
#include "text/zone.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "text/decimal.h"
#include "text/time_text.h"

#define FILE_MAX (UINT32_C(256) << 10)
#define NAME_MAX_BYTES 128u
#define HEADER_SIZE 44u
#define SECONDS_PER_DAY INT64_C(86400)

typedef struct rule_date {
    char kind; /* 'M' month.week.day, 'J' day without leap days, 'n' day from 0 */
    int64_t month, week, day;
    int64_t time; /* seconds after local midnight */
} rule_date_t;

typedef struct rule {
    bool known;
    bool daylight;
    int64_t standard_offset, daylight_offset; /* east */
    rule_date_t begin, end;
} rule_t;

struct zone {
    uint8_t *file;
    const uint8_t *times;
    const uint8_t *kinds;
    const uint8_t *types;
    uint32_t time_count, type_count;
    rule_t rule;
};

/* ---- a zone's rule ----------------------------------------------------------------------------------------------- */

static bool take_digits(bytes_t *text, int64_t *out) {
    uint32_t value;
    uint32_t count = decimal_take(text, 4, &value);
    *out = value;
    return count > 0;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(bytes_t *text, int64_t *seconds) {
    int64_t hours, minutes = 0, rest = 0;
    bool negative = bytes_take(text, '-');
    if (!negative) {
        (void)bytes_take(text, '+');
    }
    if (!take_digits(text, &hours)) {
        return false;
    }
    if (bytes_take(text, ':') && !take_digits(text, &minutes)) {
        return false;
    }
    if (bytes_take(text, ':') && !take_digits(text, &rest)) {
        return false;
    }
    *seconds = (negative ? -1 : 1) * (hours * 3600 + minutes * 60 + rest);
    return true;
}

static bool take_zone_name(bytes_t *text) {
    uint32_t size = 0;
    if (bytes_take(text, '<')) {
        while (text->size > 0 && !bytes_take(text, '>')) {
            *text = bytes_of(text->at + 1, text->size - 1);
        }
        return true;
    }
    while (size < text->size && ((text->at[size] | 0x20) >= 'a' && (text->at[size] | 0x20) <= 'z')) {
        size++;
    }
    *text = bytes_of(text->at + size, text->size - size);
    return size >= 3;
}

static bool take_date(bytes_t *text, rule_date_t *date) {
    *date = (rule_date_t){.kind = 'n', .time = 2 * 3600};
    if (!bytes_take(text, ',')) {
        return false;
    }
    if (bytes_take(text, 'M')) {
        date->kind = 'M';
        if (!take_digits(text, &date->month) || !bytes_take(text, '.') || !take_digits(text, &date->week)
            || !bytes_take(text, '.') || !take_digits(text, &date->day)) {
            return false;
        }
        if (date->month < 1 || date->month > 12 || date->week < 1 || date->week > 5 || date->day > 6) {
            return false;
        }
    } else {
        date->kind = bytes_take(text, 'J') ? 'J' : 'n';
        if (!take_digits(text, &date->day) || date->day > 365) {
            return false;
        }
    }
    return !bytes_take(text, '/') || take_time(text, &date->time);
}

static bool rule_read(bytes_t text, rule_t *rule) {
    int64_t west;
    if (!take_zone_name(&text) || !take_time(&text, &west)) {
        return false;
    }
    rule->standard_offset = -west;
    rule->daylight_offset = 3600 - west;
    rule->daylight = text.size > 0;
    if (!rule->daylight) {
        return true;
    }
    if (!take_zone_name(&text)) {
        return false;
    }
    if (text.size > 0 && text.at[0] != ',') {
        if (!take_time(&text, &west)) {
            return false;
        }
        rule->daylight_offset = -west;
    }
    return take_date(&text, &rule->begin) && take_date(&text, &rule->end) && text.size == 0;
}

/* Local seconds since 1970 at which the date falls in that year. */
static int64_t date_in(const rule_date_t *date, int64_t year) {
    int64_t first = days_from_date(year, 1, 1);
    int64_t day;
    if (date->kind == 'M') {
        day = days_from_date(year, date->month, 1);
        int64_t weekday = ((day + 4) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
        day += (date->day - weekday + 7) % 7 + (date->week - 1) * 7;
        int64_t behind = date->month == 12 ? days_from_date(year + 1, 1, 1) : days_from_date(year, date->month + 1, 1);
        day -= day >= behind ? 7 : 0;
    } else if (date->kind == 'J') {
        bool leap = days_from_date(year + 1, 1, 1) - first == 366;
        day = first + date->day - 1 + (leap && date->day >= 60);
    } else {
        day = first + date->day;
    }
    return day * SECONDS_PER_DAY + date->time;
}

static int64_t rule_offset(const rule_t *rule, int64_t at) {
    if (!rule->daylight) {
        return rule->standard_offset;
    }
    int64_t local = at + rule->standard_offset;
    int64_t year, month, day;
    date_from_days(local / SECONDS_PER_DAY - (local % SECONDS_PER_DAY < 0), &year, &month, &day);
    int64_t begin = date_in(&rule->begin, year) - rule->standard_offset;
    int64_t end = date_in(&rule->end, year) - rule->daylight_offset;
    bool daylight = begin < end ? at >= begin && at < end : at >= begin || at < end;
    return daylight ? rule->daylight_offset : rule->standard_offset;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct counts {
    uint64_t indicators, standards, leaps, times, types, names;
} counts_t;

static bool counts_read(bytes_t file, uint64_t at, counts_t *counts) {
    if (at > file.size || file.size - at < HEADER_SIZE || memcmp(file.at + at, "TZif", 4) != 0) {
        return false;
    }
    const uint8_t *from = file.at + at + 20;
    *counts = (counts_t){load_be32(from),      load_be32(from + 4),  load_be32(from + 8),
                         load_be32(from + 12), load_be32(from + 16), load_be32(from + 20)};
    return true;
}

static uint64_t block_size(const counts_t *counts, uint64_t time_size) {
    return counts->times * (time_size + 1) + counts->types * 6 + counts->names + counts->leaps * (time_size + 4)
           + counts->standards + counts->indicators;
}

static bool zone_read(zone_t *zone, bytes_t file) {
    counts_t counts;
    if (!counts_read(file, 0, &counts) || file.at[4] < '2') {
        return false;
    }
    uint64_t at = HEADER_SIZE + block_size(&counts, 4);
    if (!counts_read(file, at, &counts)) {
        return false;
    }
    at += HEADER_SIZE;
    uint64_t size = block_size(&counts, 8);
    if (size > file.size - at || counts.types == 0) {
        return false;
    }
    zone->times = file.at + at;
    zone->kinds = zone->times + counts.times * 8;
    zone->types = zone->kinds + counts.times;
    zone->time_count = (uint32_t)counts.times;
    zone->type_count = (uint32_t)counts.types;
    for (uint32_t i = 0; i < zone->time_count; i++) {
        if (zone->kinds[i] >= zone->type_count) {
            return false;
        }
    }
    at += size;
    bytes_t rule = bytes_of(file.at + at, (uint32_t)(file.size - at));
    if (bytes_take(&rule, '\n') && rule.size > 1 && rule.at[rule.size - 1] == '\n') {
        zone->rule.known = rule_read(bytes_of(rule.at, rule.size - 1), &zone->rule);
    }
    return true;
}

static uint32_t file_read(const char *path, uint8_t *to) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, to, FILE_MAX) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return size > 0 ? (uint32_t)size : 0;
}

/* No name that leads out of the database's directory. */
static bool name_allowed(bytes_t name) {
    if (name.size == 0 || name.size > NAME_MAX_BYTES || name.at[0] == '/' || name.at[0] == '\\') {
        return false;
    }
    for (uint32_t i = 0; i < name.size; i++) {
        if (name.at[i] == 0 || (name.at[i] == '.' && i + 1 < name.size && name.at[i + 1] == '.')) {
            return false;
        }
    }
    return true;
}

zone_t *zone_open(bytes_t name) {
    char path[sizeof("/usr/share/zoneinfo/") + NAME_MAX_BYTES] = "/etc/localtime";
    zone_t *zone = name_allowed(name) ? calloc(1, sizeof(*zone)) : NULL;
    if (zone == NULL || bytes_equal(name, BYTES_LITERAL("UTC"))) {
        return zone;
    }
    if (!bytes_equal(name, BYTES_LITERAL("Local"))) {
        static const char folder[] = "/usr/share/zoneinfo/";
        memcpy(path, folder, sizeof(folder) - 1);
        memcpy(path + sizeof(folder) - 1, name.at, name.size);
        path[sizeof(folder) - 1 + name.size] = 0;
    }
    zone->file = malloc(FILE_MAX);
    uint32_t size = zone->file != NULL ? file_read(path, zone->file) : 0;
    if (!zone_read(zone, bytes_of(zone->file, size))) {
        zone_close(zone);
        return NULL;
    }
    return zone;
}

void zone_close(zone_t *zone) {
    if (zone != NULL) {
        free(zone->file);
        free(zone);
    }
}

int64_t zone_offset(const zone_t *zone, int64_t at) {
    if (zone == NULL || zone->type_count == 0) {
        return 0;
    }
    uint32_t low = 0, high = zone->time_count; /* the first transition behind `at` */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((int64_t)load_be64(zone->times + (size_t)middle * 8) <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == zone->time_count && zone->rule.known) {
        return rule_offset(&zone->rule, at);
    }
    uint32_t type = low == 0 ? 0 : zone->kinds[low - 1];
    return (int32_t)load_be32(zone->types + (size_t)type * 6);
}
