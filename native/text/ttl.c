/* ttl.c: see the header. */
#include "text/ttl.h"

#include <strings.h>

#include "base/clock.h"
#include "text/decimal.h"
#include "text/duration.h"

bool ttl_parse(bytes_t value, int64_t *ns) {
    static const bytes_t never = {(const uint8_t *)"never", 5};
    uint64_t seconds;
    if (value.size == never.size && strncasecmp((const char *)value.at, (const char *)never.at, never.size) == 0) {
        *ns = TTL_NEVER;
        return true;
    }
    if (decimal_parse(value, &seconds)) {
        *ns = seconds < (uint64_t)(INT64_MAX / NS_PER_SECOND) ? (int64_t)seconds * NS_PER_SECOND : TTL_NEVER;
        return seconds > 0 && seconds <= INT64_MAX;
    }
    return duration_parse(value, ns) == STATUS_OK && *ns >= NS_PER_SECOND;
}
