/* Invariant: a text is a pattern of scheduled messages or is refused, in bounded time; what is due next lies ahead, or
 * is of the past only when it does not repeat; the same question has the same answer. A zone's name with "/" or ".." in
 * it opens no file outside the database.
 *
 * Input: 8 bytes of time, one byte of zone, the pattern.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "text/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BASE_MIN (INT64_C(-2208988800) * 1000000000)  /* 1900 */
#define BASE_SPAN (UINT64_C(9467539200) * 1000000000) /* to 2200 */

static const char *const zones[] = {
    "UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "../../../etc/passwd", ""};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t raw;
    if (size < sizeof(raw) + 1 || size > 256) {
        return 0;
    }
    memcpy(&raw, data, sizeof(raw));
    int64_t base = (int64_t)((uint64_t)BASE_MIN + raw % BASE_SPAN);
    const char *name = zones[data[sizeof(raw)] % (sizeof(zones) / sizeof(zones[0]))];
    zone_t *zone = zone_open(bytes_of((const uint8_t *)name, (uint32_t)strlen(name)));
    check(zone == NULL || name[0] != '.');
    bytes_t pattern = bytes_of(data + sizeof(raw) + 1, (uint32_t)(size - sizeof(raw) - 1));
    int64_t next = 0, again = 0;
    bool repeats = false, repeats_again = false;
    bool is = schedule_next(pattern, zone, base, base, &next, &repeats);
    check(is == schedule_next(pattern, zone, base, base, &again, &repeats_again));
    if (is) {
        check(next == again && repeats == repeats_again);
        check(!repeats || next > base);
    }
    zone_close(zone);
    zone_t *other = zone_open(pattern); /* any name */
    if (other != NULL) {
        int64_t offset = zone_offset(other, base / 1000000000);
        check(offset >= -26 * 3600 && offset <= 26 * 3600);
    }
    zone_close(other);
    return 0;
}
