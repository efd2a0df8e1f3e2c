/* trace_request.h: what a header block says about tracing its message's route: Nats-Trace-Dest with its companions, or
 * the traceparent of other systems.
 */
#ifndef LEAFD_TEXT_TRACE_REQUEST_H
#define LEAFD_TEXT_TRACE_REQUEST_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

typedef struct trace_request {
    bytes_t destination; /* of Nats-Trace-Dest; empty: traceparent asks, and the account says where to */
    bytes_t hop;
    bool only;    /* nobody is to get the message */
    bool refused; /* by a header of old servers: not traced, and not delivered either if only */
} trace_request_t;

/* May there be anything for trace_request_read? One search of the bytes, since nearly no message has it. outside: also
 * traceparent counts. */
/* Does the value of traceparent ask for it? */
bool trace_parent_sampled(bytes_t value);
bool trace_request_likely(bytes_t header, bool outside);
/* false: nothing asks for a trace. As in the reference, names are compared as they are spelled, but for traceparent;
 * Nats-Trace-Only counts only beside a destination. */
bool trace_request_read(bytes_t header, bool outside, trace_request_t *out);

/* Into out, in place of what it has: the header with another destination, or with a hop. */
LEAF_MUST_USE status_t trace_header_redirected(buffer_t *out, bytes_t header, bytes_t destination);
LEAF_MUST_USE status_t trace_header_with_hop(buffer_t *out, bytes_t header, bytes_t hop);

#endif
