/* trace_request.c: see trace_request.h. Not here: traces (plane/trace.c). */
#include "text/trace_request.h"
#include "base/hex.h"

#include <string.h>
#include <strings.h>

#include "text/headers.h"

static const char parent[] = "traceparent";
#define PARENT_SIZE (sizeof(parent) - 1)

static bool value_says(bytes_t value, const char *word) {
    return value.size == strlen(word) && strncasecmp((const char *)value.at, word, value.size) == 0;
}

static bool has_parent(bytes_t header) {
    for (uint32_t i = 0; i + PARENT_SIZE < header.size; i++) {
        if ((header.at[i] | 0x20) == 't' && strncasecmp((const char *)header.at + i, parent, PARENT_SIZE) == 0) {
            return true;
        }
    }
    return false;
}

bool trace_request_likely(bytes_t header, bool outside) {
    static const char own[] = "Nats-Trace-";
    return memmem(header.at, header.size, own, sizeof(own) - 1) != NULL || (outside && has_parent(header));
}

/* version-trace-parent-flags: the last bit of the flags. As the reference reads them: as a signed number. */
bool trace_parent_sampled(bytes_t value) {
    uint32_t dashes = 0;
    for (uint32_t i = 0; i < value.size; i++) {
        dashes += value.at[i] == '-';
    }
    if (dashes != 3 || value.size < 3 || value.at[value.size - 3] != '-') {
        return false;
    }
    int high = hex_digit(value.at[value.size - 2]), low = hex_digit(value.at[value.size - 1]);
    return high >= 0 && high < 8 && low >= 0 && (low & 1) != 0;
}

bool trace_request_read(bytes_t header, bool outside, trace_request_t *out) {
    uint32_t cursor = 0;
    bytes_t name, value, only = BYTES_NONE;
    bool sampled = false;
    *out = (trace_request_t){.destination = BYTES_NONE, .hop = BYTES_NONE};
    while (headers_next(header, &cursor, &name, &value)) {
        if (value.size == 0) {
            continue;
        }
        if (bytes_equal(name, BYTES_LITERAL("Nats-Trace-Dest")) && out->destination.size == 0) {
            if (bytes_equal(value, BYTES_LITERAL("trace disabled"))) {
                return false;
            }
            out->destination = value;
        } else if (bytes_equal(name, BYTES_LITERAL("Nats-Trace-Only")) && only.size == 0) {
            only = value;
        } else if (bytes_equal(name, BYTES_LITERAL("Nats-Trace-Hop")) && out->hop.size == 0) {
            out->hop = value;
        } else if (bytes_equal(name, BYTES_LITERAL("Nats-Trace-Origin-Account"))) {
            out->refused = true;
        } else if (outside && name.size == PARENT_SIZE && strncasecmp((const char *)name.at, parent, name.size) == 0) {
            sampled = sampled || trace_parent_sampled(value);
        }
    }
    if (out->destination.size != 0) {
        out->only = value_says(only, "1") || value_says(only, "true") || value_says(only, "on");
        return true;
    }
    return sampled;
}

static bool is_destination_field(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Trace-Dest"));
}

static bool is_hop_field(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Trace-Hop"));
}

static status_t header_with(buffer_t *out, bytes_t header, bool (*drop)(bytes_t name), bytes_t name, bytes_t value) {
    bool empty;
    out->size = 0;
    status_t status = headers_copy_without(out, header, drop, false, &empty);
    return status == STATUS_OK ? headers_append(out, 0, name, value) : status;
}

status_t trace_header_redirected(buffer_t *out, bytes_t header, bytes_t destination) {
    return header_with(out, header, is_destination_field, BYTES_LITERAL("Nats-Trace-Dest"), destination);
}

status_t trace_header_with_hop(buffer_t *out, bytes_t header, bytes_t hop) {
    return header_with(out, header, is_hop_field, BYTES_LITERAL("Nats-Trace-Hop"), hop);
}
