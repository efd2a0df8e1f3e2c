/* test_trace_request.c: which header blocks ask for a trace, as the reference reads them. */
#include "text/trace_request.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

/* "destination hop only refused" of a block with these fields; "-": it asks for none. */
static const char *asked(const char *fields, bool outside) {
    static char result[200];
    char block[400];
    snprintf(block, sizeof(block), "NATS/1.0\r\n%s\r\n", fields);
    trace_request_t request;
    bool found = trace_request_read(text(block), outside, &request);
    if (found && !trace_request_likely(text(block), outside)) {
        FAIL("%s is not likely", fields);
    }
    if (!found) {
        return "-";
    }
    snprintf(result, sizeof(result), "%.*s|%.*s|%d|%d", (int)request.destination.size,
             (const char *)request.destination.at, (int)request.hop.size, (const char *)request.hop.at, request.only,
             request.refused);
    return result;
}

static void expect(const char *expected, const char *fields, bool outside) {
    const char *real = asked(fields, outside);
    if (strcmp(expected, real) != 0) {
        FAIL("%s: expected \"%s\", is \"%s\"", fields, expected, real);
    }
}

static void a_destination_asks(void) {
    expect("t||0|0", "Nats-Trace-Dest: t\r\n", false);
    expect("t|1.2|0|0", "Nats-Trace-Hop: 1.2\r\nNats-Trace-Dest: t\r\n", false);
    expect("t||1|0", "Nats-Trace-Only: True\r\nNats-Trace-Dest: t\r\nNats-Trace-Dest: u\r\n", false);
    expect("t||0|0", "Nats-Trace-Only: yes\r\nNats-Trace-Dest: t\r\n", false);
    expect("t||0|1", "Nats-Trace-Origin-Account: A\r\nNats-Trace-Dest: t\r\n", false);
    expect("-", "Nats-Trace-Dest:\r\n", false);
    expect("-", "nats-trace-dest: t\r\n", false);
    expect("-", "Nats-Trace-Only: true\r\n", false);
    expect("-", "Nats-Trace-Dest: trace disabled\r\n", true);
    expect("-", "Nats-Msg-Id: 1\r\n", true);
}

static void a_sampled_parent_asks_where_the_account_wants_it(void) {
    expect("||0|0", "TraceParent: 00-a-b-01\r\n", true);
    expect("-", "TraceParent: 00-a-b-01\r\n", false);
    expect("-", "traceparent: 00-a-b-00\r\n", true);
    expect("-", "traceparent: 00-a-b-1\r\n", true);
    expect("-", "traceparent: 00-a-b-g1\r\n", true);
    expect("-", "traceparent: 00-a-b-81\r\n", true);
    expect("||0|0", "traceparent: 00-a-b-7f\r\n", true);
    expect("-", "traceparent: 00-a-01\r\n", true);
    expect("-", "traceparent: 00-a-b-01\r\nNats-Trace-Dest: trace disabled\r\n", true);
    expect("t||0|0", "traceparent: 00-a-b-01\r\nNats-Trace-Dest: t\r\n", true);
}

static void nearly_every_block_is_passed_over(void) {
    const char *blocks[] = {"", "N", "NATS/1.0\r\n\r\n", "NATS/1.0\r\ntraceparen\r\n\r\n", "traceparent"};
    for (uint32_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (trace_request_likely(text(blocks[i]), true) && i != 4) {
            FAIL("%s is likely", blocks[i]);
        }
    }
}

int main(void) {
    RUN("Nats-Trace-Dest asks for a trace, as it is spelled, and its companions count beside it only",
        a_destination_asks);
    RUN("a sampled traceparent asks for one where the account wants it",
        a_sampled_parent_asks_where_the_account_wants_it);
    RUN("a block with neither is passed over", nearly_every_block_is_passed_over);
    return TEST_RESULT();
}
