/* transcript.h: what a line of a transcript is made of: words, and fields, which are left out where they are empty or
 * zero.
 *
 * Not here: what is written of a protocol's input (wire_transcript.h, mqtt_transcript.h).
 */
#ifndef LEAFD_TESTS_TRANSCRIPT_H
#define LEAFD_TESTS_TRANSCRIPT_H

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"

static inline void transcript_text(buffer_t *out, const char *text) {
    check(buffer_append(out, text, strlen(text)) == STATUS_OK);
}

static inline void transcript_field(buffer_t *out, const char *name, bytes_t value) {
    if (value.size > 0) {
        transcript_text(out, " ");
        transcript_text(out, name);
        transcript_text(out, "=");
        check(buffer_append(out, value.at, value.size) == STATUS_OK);
    }
}

static inline void transcript_number(buffer_t *out, const char *name, uint64_t value) {
    if (value > 0) {
        char text[64];
        snprintf(text, sizeof text, " %s=%llu", name, (unsigned long long)value);
        transcript_text(out, text);
    }
}

#endif
