/* sample_request.c: see sample_request.h. Not here: what is measured (plane/latency.c). */
#include "text/sample_request.h"

#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "text/headers.h"
#include "text/trace_request.h"

static const char jaeger[] = "uber-trace-id";
static const char jaeger_context[] = "uberctx-";
static const char zipkin_sampled[] = "x-b3-sampled";
static const char zipkin_trace[] = "x-b3-traceid";
static const char zipkin_short[] = "b3";
static const char w3c[] = "traceparent";

static const char *const jaeger_fields[] = {jaeger, NULL};
static const char *const zipkin_fields[] = {zipkin_sampled, zipkin_trace, "x-b3-parentspanid", "x-b3-spanid", NULL};
static const char *const zipkin_short_fields[] = {zipkin_short, NULL};
static const char *const w3c_fields[] = {w3c, "tracestate", NULL};

static bool name_is(bytes_t name, const char *wanted) {
    return name.size == strlen(wanted) && strncasecmp((const char *)name.at, wanted, name.size) == 0;
}

static bool name_begins(bytes_t name, const char *wanted) {
    size_t size = strlen(wanted);
    return name.size >= size && strncasecmp((const char *)name.at, wanted, size) == 0;
}

/* The first field of that name. */
static bool field_find(bytes_t header, const char *wanted, bytes_t *value) {
    uint32_t cursor = 0;
    bytes_t name;
    while (headers_next(header, &cursor, &name, value)) {
        if (name_is(name, wanted)) {
            return true;
        }
    }
    return false;
}

/* The part of that number between separators; parts: how many there are. */
static bytes_t part_of(bytes_t value, char separator, uint32_t number, uint32_t *parts) {
    bytes_t found = BYTES_NONE;
    uint32_t start = 0;
    *parts = 0;
    for (uint32_t i = 0; i <= value.size; i++) {
        if (i == value.size || value.at[i] == (uint8_t)separator) {
            if ((*parts)++ == number) {
                found = bytes_of(value.at + start, i - start);
            }
            start = i + 1;
        }
    }
    return found;
}

/* trace:span:parent:flags, of which the last bit counts. */
static bool jaeger_samples(bytes_t value) {
    uint32_t parts;
    bytes_t flags = part_of(value, ':', 3, &parts);
    if (parts != 4 || flags.size == 0 || flags.size > 2) {
        return false;
    }
    int digit = hex_digit(flags.at[flags.size - 1]);
    return digit >= 0 && (digit & 1) != 0;
}

/* trace-span-sampled-parent, or sampled alone. */
static bool zipkin_short_samples(bytes_t value) {
    uint32_t parts;
    bytes_t sampled = part_of(value, '-', 2, &parts);
    if (parts == 1) {
        sampled = value;
    }
    return (parts != 1 && parts <= 2) || !bytes_equal(sampled, BYTES_LITERAL("0"));
}

static const char *const *fields_that_ask(bytes_t header) {
    bytes_t value, trace;
    if (field_find(header, jaeger, &value)) {
        return jaeger_samples(value) ? jaeger_fields : NULL;
    }
    bool said = field_find(header, zipkin_sampled, &value);
    if (said && bytes_equal(value, BYTES_LITERAL("1"))) {
        return zipkin_fields;
    }
    if (said && bytes_equal(value, BYTES_LITERAL("0"))) {
        return NULL;
    }
    if (field_find(header, zipkin_trace, &trace)) {
        return zipkin_fields;
    }
    if (field_find(header, zipkin_short, &value)) {
        return zipkin_short_samples(value) ? zipkin_short_fields : NULL;
    }
    return field_find(header, w3c, &value) && trace_parent_sampled(value) ? w3c_fields : NULL;
}

static bool sample_belongs(bytes_t name, const char *const *fields) {
    for (uint32_t i = 0; fields[i] != NULL; i++) {
        if (name_is(name, fields[i])) {
            return true;
        }
    }
    return fields == jaeger_fields && name_begins(name, jaeger_context);
}

static status_t sample_add_field(buffer_t *out, bytes_t name, bytes_t value) {
    const bytes_t parts[] = {name, BYTES_LITERAL(": "), value, BYTES_LITERAL("\r\n")};
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (out->size + parts[i].size > SAMPLE_FIELDS_MAX) {
            return STATUS_FULL;
        }
        status_t status = buffer_append(out, parts[i].at, parts[i].size);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

bool sample_request_read(bytes_t header, buffer_t *out) {
    out->size = 0;
    const char *const *fields = header.size == 0 ? NULL : fields_that_ask(header);
    if (fields == NULL) {
        return false;
    }
    uint32_t cursor = 0;
    bytes_t name, value;
    while (headers_next(header, &cursor, &name, &value)) {
        if (sample_belongs(name, fields) && sample_add_field(out, name, value) != STATUS_OK) {
            out->size = 0; /* some of them would mean something else */
            break;
        }
    }
    return true;
}
