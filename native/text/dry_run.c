/* dry_run.c: messages that only ask for a trace of their route (Nats-Trace-Dest with Nats-Trace-Only). There is no
 * tracing yet, but such a message must have no effect. As in the reference, Nats-Trace-Only counts only beside a
 * destination, names are compared as they are spelled, and 1, true and on mean yes. What does not live here: traces.
 */
#include "text/dry_run.h"

#include <strings.h>

#include "text/headers.h"

static bool value_says(bytes_t value, const char *word) {
    return value.size == strlen(word) && strncasecmp((const char *)value.at, word, value.size) == 0;
}

bool is_dry_run(bytes_t header) {
    static const char only[] = "Nats-Trace-Only";
    bytes_t value;
    /* Nearly no message has it: one search of the bytes, before they are read line by line. */
    if (memmem(header.at, header.size, only, sizeof(only) - 1) == NULL
        || !headers_find(header, BYTES_LITERAL("Nats-Trace-Only"), &value)
        || !(value_says(value, "1") || value_says(value, "true") || value_says(value, "on"))) {
        return false;
    }
    return headers_find(header, BYTES_LITERAL("Nats-Trace-Dest"), &value) && value.size != 0
           && !value_says(value, "trace disabled");
}
