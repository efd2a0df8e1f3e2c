/* Invariant: a text is a duration or is refused; a duration is written so that it reads as itself again. The same for
 * times. A time to live is never, or at least a second. */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "text/duration.h"
#include "text/time_text.h"
#include "text/ttl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void written_reads_again(int64_t ns) {
    uint8_t text[DURATION_TEXT_MAX];
    int64_t again = 0;
    uint32_t length = duration_format(ns, text);
    check(length > 0 && length <= sizeof(text));
    check(duration_parse(bytes_of(text, length), &again) == STATUS_OK && again == ns);
}

#define TIME_MIN (INT64_C(-9214560000) * 1000000000)    /* 1678; a whole year below the first that does not fit */
#define TIME_MAX (INT64_C(9214646400) * 1000000000 - 1) /* the end of 2261 */

static void time_reads_again(int64_t ns) {
    if (ns < TIME_MIN || ns > TIME_MAX) {
        return;
    }
    uint8_t text[TIME_TEXT_MAX];
    int64_t again = 0;
    uint32_t length = time_format(ns, text);
    check(length > 0 && length <= sizeof(text));
    check(time_parse(bytes_of(text, length), &again) && again == ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 256) {
        return 0;
    }
    bytes_t text = bytes_of(data, (uint32_t)size);
    int64_t ns;
    if (duration_parse(text, &ns) == STATUS_OK) {
        written_reads_again(ns);
    }
    if (ttl_parse(text, &ns)) {
        check(ns == TTL_NEVER || ns >= NS_PER_SECOND);
    }
    if (time_parse(text, &ns)) {
        time_reads_again(ns);
    }
    if (size >= sizeof(ns)) {
        memcpy(&ns, data, sizeof(ns));
        written_reads_again(ns);
        time_reads_again(ns);
    }
    return 0;
}
