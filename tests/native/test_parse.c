/* test_parse.c: what the parser makes of lines, as nats-server 2.15.1 answered to the same bytes; each row whole, in
 * pieces, with more behind it, and ending at the end of the readable memory. */
#include "wire/parse.h"

#include <sys/mman.h>
#include <unistd.h>

#include "test.h"
#include "wire_transcript.h"

#define MAX_PAYLOAD 1048576u
#define MAX_LINE 4096u

typedef struct row {
    const char *input;
    const char *expected;
} row_t;

static const row_t client_rows[] = {
    {"PUB foo 2\r\nab\r\n", "PUB subject=foo payload=ab\nend\n"},
    {"PUB foo bar 2\r\nab\r\n", "PUB subject=foo reply=bar payload=ab\nend\n"},
    {"pub foo 2 \r\nab\r\nPuB foo 0\r\n\r\n", "PUB subject=foo payload=ab\nPUB subject=foo\nend\n"},
    {"PUB\tfoo\t \tbar\t02\r\nab\r\n", "PUB subject=foo reply=bar payload=ab\nend\n"},
    {"PUB foo 0\n\r\n", "PUB subject=foo\nend\n"},
    {"PUB telemetry.station.0001.temperature _INBOX.abcdefghijklmnop.1 16\r\n0123456789abcdef\r\nPING\r\n",
     "PUB subject=telemetry.station.0001.temperature reply=_INBOX.abcdefghijklmnop.1 "
     "payload=0123456789abcdef\nPING\nend\n"},
    {"PUB foo 2\r\n\r\n\r\n", "PUB subject=foo payload=\r\n\nend\n"},
    {"PUB foo 2\r\nabc\r\n", "bad: unknown operation\n"},
    {"PUB foo 2\r\nab\n", "bad: unknown operation\n"},
    {"PUB foo 2\r\nab\rx", "bad: unknown operation\n"},
    {"PUB foo 2\r\nabx", "bad: unknown operation\n"},
    {"PUB foo 2\r\nab\r", "more\n"},
    {"PUB foo 2\r\na", "more\n"},
    {"PUB foo 2", "more\n"},
    {"PUB foo 2\r", "more\n"},
    {"PUB foo -1\r\n\r\n", "bad: silent\n"},
    {"PUB foo +2\r\nab\r\n", "bad: silent\n"},
    {"PUB foo x\r\n", "bad: silent\n"},
    {"PUB foo\r\n", "bad: silent\n"},
    {"PUB \r\n", "bad: silent\n"},
    {"PUB\r\n", "bad: unknown operation\n"},
    {"PUB foo bar baz 2\r\n", "bad: silent\n"},
    {"PUB foo 0000000000002\r\n", "bad: silent\n"},
    {"PUB foo 99999999999999\r\n", "bad: silent\n"},
    {"PUB foo 999999999\r\n", "bad: max payload\n"},
    {"PUB foo 1048577\r\n", "bad: max payload\n"},
    {"PUB foo 1048576\r\n", "more\n"},
    {"PUBfoo 2\r\n", "bad: unknown operation\n"},
    {"PUB foo\001bar 2\r\nab\r\n", "PUB subject=foo\001bar payload=ab\nend\n"},
    {"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nab\r\n", "HPUB subject=foo header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"hpub foo r 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "HPUB subject=foo reply=r header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n", "HPUB subject=foo header=NATS/1.0\r\n\r\n\nend\n"},
    {"HPUB foo 0 2\r\nab\r\n", "HPUB subject=foo payload=ab\nend\n"},
    {"HPUB foo 15 14\r\n", "bad: silent\n"},
    {"HPUB foo 2\r\nab\r\n", "bad: silent\n"},
    {"HPUB foo r x 12 14\r\n", "bad: silent\n"},
    {"HPUB foo -1 14\r\n", "bad: silent\n"},
    {"HPUB foo 0 1048577\r\n", "bad: max payload\n"},
    {"SUB foo 1\r\n", "SUB subject=foo sid=1\nend\n"},
    {"SUB foo workers 1\r\n", "SUB subject=foo queue=workers sid=1\nend\n"},
    {"SUB  foo\t 1  \r\n", "SUB subject=foo sid=1\nend\n"},
    {"SUB foo 1\nPING\n", "SUB subject=foo sid=1\nPING\nend\n"},
    {"SUB foo\r 1\r\n", "SUB subject=foo sid=1\nend\n"},
    {"SUB foo q 1 2\r\n", "bad: silent\n"},
    {"SUB foo\r\n", "bad: silent\n"},
    {"SUB \r\n", "bad: silent\n"},
    {"SUB\r\n", "bad: unknown operation\n"},
    {"SUBfoo 1\r\n", "bad: unknown operation\n"},
    {"UNSUB 1\r\n", "UNSUB sid=1\nend\n"},
    {"UNSUB   1    5  \r\n", "UNSUB sid=1 max=5\nend\n"},
    {"UNSUB 1 x\r\nUNSUB 1 -5\r\nUNSUB 1 99999999999999999999999\r\n", "UNSUB sid=1\nUNSUB sid=1\nUNSUB sid=1\nend\n"},
    {"UNSUB 1 5 6\r\n", "bad: silent\n"},
    {"UNSUB  \r\n", "bad: silent\n"},
    {"UNSUB\r\n", "bad: unknown operation\n"},
    {"PING\r\nping  \r\npInGxx\r\nPONGabc\r\nPING\rx\n", "PING\nPING\nPING\nPONG\nPING\nend\n"},
    {"+OK\r\n+okabc\r\n", "OK\nOK\nend\n"},
    {"-ERR 'x y'\r\n", "ERR body=x y\nend\n"},
    {"-ERR x\r\n", "ERR body=x\nend\n"},
    {"-ERR\r\n", "bad: unknown operation\n"},
    {"CONNECT {}\r\nconnect\t{\"a\":1}\r\nCONNECT{}\r\n",
     "CONNECT body={}\nCONNECT body={\"a\":1}\nCONNECT body={}\nend\n"},
    {"CONNECT\r\n", "CONNECT\nend\n"},
    {"INFO {}\r\n", "INFO body={}\nend\n"},
    {"", "end\n"},
    {"P", "more\n"},
    {"PIN", "more\n"},
    {"F", "bad: unknown operation\n"},
    {"PIX", "bad: unknown operation\n"},
    {"CONNECX", "bad: unknown operation\n"},
    {"+OX", "bad: unknown operation\n"},
    {"\r\nPING\r\n", "bad: unknown operation\n"},
    {"  SUB foo 1\r\n", "bad: unknown operation\n"},
    {"PING\r\n PING\r\n", "PING\nbad: unknown operation\n"},
    {"GET / HTTP/1.1\r\n", "bad: unknown operation\n"},
    {"MSG foo 1 2\r\nab\r\n", "bad: unknown operation\n"},
    {"RS+ foo\r\n", "bad: unknown operation\n"},
    {"LS+ foo\r\n", "bad: unknown operation\n"},
    {"LMSG foo 2\r\nab\r\n", "bad: unknown operation\n"},
};

static const row_t leaf_rows[] = {
    {"LS+ foo.>\r\n", "LS+ subject=foo.>\nend\n"},
    {"LS+ foo workers 3\r\n", "LS+ subject=foo queue=workers weight=3\nend\n"},
    {"LS+ foo workers 9999999999\r\n", "LS+ subject=foo queue=workers weight=999999999\nend\n"},
    {"LS+ foo workers x1\r\n", "LS+ subject=foo queue=workers weight=1\nend\n"},
    {"LS+ foo workers\r\n", "bad: silent\n"},
    {"LS- foo\r\nls- foo workers\r\n", "LS- subject=foo\nLS- subject=foo queue=workers\nend\n"},
    {"LMSG foo 2\r\nab\r\n", "LMSG subject=foo payload=ab\nend\n"},
    {"LMSG foo bar 2\r\nab\r\n", "LMSG subject=foo reply=bar payload=ab\nend\n"},
    {"LMSG foo + bar q1 q2 2\r\nab\r\n", "LMSG subject=foo reply=bar for=q1 for=q2 payload=ab\nend\n"},
    {"LMSG foo + bar 2\r\nab\r\n", "LMSG subject=foo reply=bar payload=ab\nend\n"},
    {"LMSG foo | q1 2\r\nab\r\n", "LMSG subject=foo for=q1 payload=ab\nend\n"},
    {"LMSG foo bar q1 2\r\nab\r\n", "bad: silent\n"},
    {"LMSG foo\r\n", "bad: silent\n"},
    {"LMSG foo 1048577\r\n", "bad: max payload\n"},
    {"HMSG foo 12 14\r\nNATS/1.0\r\n\r\nab\r\n", "HMSG subject=foo header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG foo bar 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "HMSG subject=foo reply=bar header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG foo + bar q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "HMSG subject=foo reply=bar for=q1 header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG foo | q1 q2 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "HMSG subject=foo for=q1 for=q2 header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG foo 15 14\r\n", "bad: silent\n"},
    {"INFO {\"a\":1} \r\nPING\r\nPONG\r\n-ERR 'Loop detected'\r\n",
     "INFO body={\"a\":1} \nPING\nPONG\nERR body=Loop detected\nend\n"},
    {"PUB foo 2\r\nab\r\n", "bad: unknown operation\n"},
    {"SUB foo 1\r\n", "bad: unknown operation\n"},
};

static const row_t route_rows[] = {
    {"RS+ A foo.>\r\nRS+ A foo workers 3\r\n",
     "RS+ account=A subject=foo.>\nRS+ account=A subject=foo queue=workers weight=3\nend\n"},
    {"RS+ A foo workers\r\n", "bad: silent\n"},
    {"RS+ A\r\n", "bad: silent\n"},
    {"RS- A foo\r\nrs- A foo workers\r\n", "RS- account=A subject=foo\nRS- account=A subject=foo queue=workers\nend\n"},
    {"RS- A foo workers 1\r\n", "bad: silent\n"},
    {"LS+ leafs A foo\r\nLS+ leafs A foo workers 2\r\n",
     "RS+ origin=leafs account=A subject=foo\nRS+ origin=leafs account=A subject=foo queue=workers weight=2\nend\n"},
    {"LS+ leafs A\r\n", "bad: silent\n"},
    {"RMSG A foo 2\r\nab\r\n", "RMSG account=A subject=foo payload=ab\nend\n"},
    {"RMSG A foo bar 2\r\nab\r\n", "RMSG account=A subject=foo reply=bar payload=ab\nend\n"},
    {"RMSG A foo + bar q1 q2 2\r\nab\r\n", "RMSG account=A subject=foo reply=bar for=q1 for=q2 payload=ab\nend\n"},
    {"RMSG A foo | q1 2\r\nab\r\n", "RMSG account=A subject=foo for=q1 payload=ab\nend\n"},
    {"RMSG A foo bar q1 2\r\nab\r\n", "bad: silent\n"},
    {"RMSG A 2\r\nab\r\n", "bad: silent\n"},
    {"RMSG A foo 1048577\r\n", "bad: max payload\n"},
    {"HMSG A foo 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "RMSG account=A subject=foo header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG A foo + bar q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "RMSG account=A subject=foo reply=bar for=q1 header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"HMSG A foo 15 14\r\n", "bad: silent\n"},
    {"LMSG leafs A foo 0 2\r\nab\r\n", "RMSG origin=leafs account=A subject=foo payload=ab\nend\n"},
    {"LMSG leafs A foo | q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "RMSG origin=leafs account=A subject=foo for=q1 header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"LMSG leafs A foo 2\r\nab\r\n", "bad: silent\n"},
    {"INFO {\"a\":1} \r\nPING\r\nPONG\r\n-ERR 'No'\r\n", "INFO body={\"a\":1} \nPING\nPONG\nERR body=No\nend\n"},
    {"PUB foo 2\r\nab\r\n", "bad: unknown operation\n"},
    {"SUB foo 1\r\n", "bad: unknown operation\n"},
};

/* Without TRANSCRIPT_UNSUB_ORIGINS the end of what leafs want is told without their cluster. */
static const row_t older_rows[] = {
    {"LS- A foo\r\nLS- A foo workers\r\n", "RS- account=A subject=foo\nRS- account=A subject=foo queue=workers\nend\n"},
    {"LS- leafs A foo workers\r\n", "bad: silent\n"}};
static const row_t newer_rows[] = {
    {"LS- leafs A foo\r\nLS- leafs A foo workers\r\n",
     "RS- origin=leafs account=A subject=foo\nRS- origin=leafs account=A subject=foo queue=workers\nend\n"},
    {"LS- A foo\r\n", "bad: silent\n"}};
/* Of a route for one account. */
static const row_t pinned_rows[] = {
    {"RS+ foo\r\nRS+ foo workers 3\r\nRS- foo\r\n",
     "RS+ subject=foo\nRS+ subject=foo queue=workers weight=3\nRS- subject=foo\nend\n"},
    {"LS+ leafs foo\r\nLS- leafs foo workers\r\n",
     "RS+ origin=leafs subject=foo\nRS- origin=leafs subject=foo queue=workers\nend\n"},
    {"RMSG foo bar 2\r\nab\r\nRMSG foo | q1 2\r\nab\r\n",
     "RMSG subject=foo reply=bar payload=ab\nRMSG subject=foo for=q1 payload=ab\nend\n"},
    {"LMSG leafs foo 0 2\r\nab\r\n", "RMSG origin=leafs subject=foo payload=ab\nend\n"},
    {"RMSG 2\r\nab\r\n", "bad: silent\n"},
    {"RS+ \r\n", "bad: silent\n"},
};

static const row_t gateway_rows[] = {
    {"RS+ A foo.>\r\nRS+ A foo workers 1\r\nRS- A foo workers\r\n",
     "RS+ account=A subject=foo.>\nRS+ account=A subject=foo queue=workers weight=1\n"
     "RS- account=A subject=foo queue=workers\nend\n"},
    {"A+ A\r\na- B \r\n", "A account=A\nA account=B\nend\n"},
    {"A+\r\n", "bad: unknown operation\n"},
    {"A- \r\n", "bad: silent\n"},
    {"A+ A B\r\n", "bad: silent\n"},
    {"RMSG A foo + _GR_.cccccc.ssssss.bar q1 q2 2\r\nab\r\n",
     "RMSG account=A subject=foo reply=_GR_.cccccc.ssssss.bar for=q1 for=q2 payload=ab\nend\n"},
    {"HMSG A foo | q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n",
     "RMSG account=A subject=foo for=q1 header=NATS/1.0\r\n\r\n payload=ab\nend\n"},
    {"RMSG A 2\r\nab\r\n", "bad: silent\n"},
    {"LS+ leafs A foo\r\n", "bad: unknown operation\n"},
    {"LMSG leafs A foo 0 2\r\nab\r\n", "bad: unknown operation\n"},
    {"PUB foo 2\r\nab\r\n", "bad: unknown operation\n"},
};

static void expect(uint32_t kind, const char *input, size_t size, const char *expected, uint32_t step) {
    buffer_t out;
    buffer_init(&out, 1 << 20);
    transcript_of(&out, kind, MAX_PAYLOAD, MAX_LINE, bytes_of(input, (uint32_t)size), step);
    CHECK_TEXT(expected, out.at, out.size);
    buffer_free(&out);
}

#define ALL_ROWS(rows, kind)                                                                                           \
    for (size_t row_at = 0; row_at < sizeof(rows) / sizeof((rows)[0]); row_at++) act(kind, &(rows)[row_at])

static void each_row(void (*act)(uint32_t kind, const row_t *row)) {
    ALL_ROWS(route_rows, WIRE_ROUTE);
    ALL_ROWS(gateway_rows, WIRE_GATEWAY);
    ALL_ROWS(older_rows, WIRE_ROUTE);
    ALL_ROWS(newer_rows, WIRE_ROUTE | TRANSCRIPT_UNSUB_ORIGINS);
    ALL_ROWS(pinned_rows, WIRE_ROUTE | TRANSCRIPT_ONE_ACCOUNT | TRANSCRIPT_UNSUB_ORIGINS);
    for (size_t i = 0; i < sizeof client_rows / sizeof client_rows[0]; i++) {
        act(WIRE_CLIENT, &client_rows[i]);
    }
    for (size_t i = 0; i < sizeof leaf_rows / sizeof leaf_rows[0]; i++) {
        act(WIRE_LEAF, &leaf_rows[i]);
    }
}

static void whole(uint32_t kind, const row_t *row) {
    expect(kind, row->input, strlen(row->input), row->expected, 0);
}

static void rows_whole(void) {
    each_row(whole);
}

static void in_pieces(uint32_t kind, const row_t *row) {
    for (uint32_t step = 1; step <= 20; step++) {
        expect(kind, row->input, strlen(row->input), row->expected, step);
    }
}

static void rows_in_pieces(void) {
    each_row(in_pieces);
}

/* Behind each row that ends cleanly an op more, and bytes that are none: what came before stays the same. */
static void with_more_behind(uint32_t kind, const row_t *row) {
    size_t size = strlen(row->expected);
    if (size < 4 || strcmp(row->expected + size - 4, "end\n") != 0) {
        return;
    }
    char input[512], expected[512];
    snprintf(input, sizeof input, "%sPONG\r\n\001\002", row->input);
    snprintf(expected, sizeof expected, "%.*sPONG\nbad: unknown operation\n", (int)(size - 4), row->expected);
    expect(kind, input, strlen(input), expected, 0);
    expect(kind, input, strlen(input), expected, 1);
}

static void rows_with_more_behind(void) {
    each_row(with_more_behind);
}

static char *page_end; /* nothing is readable from here on */

static void before_a_wall(uint32_t kind, const row_t *row) {
    size_t size = strlen(row->input);
    for (size_t cut = 0; cut <= size; cut++) {
        memcpy(page_end - cut, row->input, cut);
        buffer_t out;
        buffer_init(&out, 1 << 20);
        transcript_of(&out, kind, MAX_PAYLOAD, MAX_LINE, bytes_of(page_end - cut, (uint32_t)cut), 0);
        if (cut == size) {
            CHECK_TEXT(row->expected, out.at, out.size);
        }
        buffer_free(&out);
    }
}

static void rows_before_a_wall(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    page_end = pages + page;
    each_row(before_a_wall);
    munmap(pages, 2 * page);
}

/* A SUB whose argument (subject, blanks, sid) is `size` bytes long. */
static size_t long_sub(char *to, size_t size, const char *before, const char *behind) {
    size_t at = (size_t)sprintf(to, "SUB %s", before);
    memset(to + at, 'a', size - 2 - strlen(behind));
    at += size - 2 - strlen(behind);
    at += (size_t)sprintf(to + at, " 1%s\r\n", behind);
    return at;
}

static void control_line_limit(void) {
    static char input[3 * MAX_LINE];
    static char expected[2 * MAX_LINE];
    int start = sprintf(expected, "SUB subject=");
    memset(expected + start, 'a', MAX_LINE - 2);
    sprintf(expected + start + MAX_LINE - 2, " sid=1\nend\n");
    for (uint32_t step = 0; step < 3; step++) {
        expect(WIRE_CLIENT, input, long_sub(input, MAX_LINE, "", ""), expected, step);
        expect(WIRE_CLIENT, input, long_sub(input, MAX_LINE, "    ", ""), expected, step);
        expect(WIRE_CLIENT, input, long_sub(input, MAX_LINE + 1, "", ""), "bad: max control line\n", step);
        expect(WIRE_CLIENT, input, long_sub(input, MAX_LINE + 4, "", "    "), "bad: max control line\n", step);
        memset(input, 'a', sizeof input);
        memcpy(input, "SUB ", 4);
        expect(WIRE_CLIENT, input, 4090, "more\n", step);
        expect(WIRE_CLIENT, input, 5000, "bad: max control line\n", step);
        memcpy(input, "PING", 4);
        expect(WIRE_CLIENT, input, 5000, "bad: max control line\n", step);
        memcpy(input, "CONNECT ", 8);
        expect(WIRE_CLIENT, input, 5000, "bad: max control line\n", step);
        memset(input + 4, ' ', sizeof input - 4);
        memcpy(input, "PUB ", 4);
        expect(WIRE_CLIENT, input, 5000, "bad: max control line\n", step);
    }
}

static void headers_switched_off(void) {
    wire_parser_t parser;
    wire_parser_init(&parser, WIRE_CLIENT, MAX_PAYLOAD, MAX_LINE);
    op_t op;
    uint32_t used;
    wire_error_t error;
    bytes_t input = BYTES_LITERAL("HPUB foo 12 14\r\nNATS/1.0\r\n\r\nab\r\n");
    CHECK_EQ_I64(WIRE_BAD, wire_parse(&parser, input, &op, &used, &error));
    CHECK_EQ_I64(WIRE_ERROR_SILENT, error);
    parser.headers = true;
    CHECK_EQ_I64(WIRE_OP, wire_parse(&parser, input, &op, &used, &error));
    CHECK_EQ_U64(input.size, used);
}

static void need_is_exact_for_payloads(void) {
    wire_parser_t parser;
    wire_parser_init(&parser, WIRE_CLIENT, MAX_PAYLOAD, MAX_LINE);
    op_t op;
    uint32_t used;
    wire_error_t error;
    CHECK_EQ_I64(WIRE_MORE, wire_parse(&parser, BYTES_LITERAL("PUB foo 1000000\r\nabc"), &op, &used, &error));
    CHECK_EQ_U64(17 + 1000000 + 2, parser.need);
}

static void too_many_queues(void) {
    char input[2048];
    for (uint32_t queues = OP_QUEUES_MAX; queues <= OP_QUEUES_MAX + 8; queues++) {
        int at = sprintf(input, "LMSG foo + r");
        for (uint32_t i = 0; i < queues; i++) {
            at += sprintf(input + at, " q%u", i);
        }
        at += sprintf(input + at, " 2\r\nab\r\n");
        wire_parser_t parser;
        wire_parser_init(&parser, WIRE_LEAF, MAX_PAYLOAD, MAX_LINE);
        op_t op;
        uint32_t used;
        wire_error_t error;
        wire_verdict_t verdict = wire_parse(&parser, bytes_of(input, (uint32_t)at), &op, &used, &error);
        CHECK_EQ_I64(queues == OP_QUEUES_MAX ? WIRE_OP : WIRE_BAD, verdict);
    }
}

static void long_sid(void) {
    char input[200];
    memset(input, '7', sizeof input);
    memcpy(input, "SUB foo ", 8);
    memcpy(input + 8 + 64, "\r\n", 3);
    char expected[200];
    snprintf(expected, sizeof expected, "SUB subject=foo sid=%.64s\nend\n", input + 8);
    expect(WIRE_CLIENT, input, strlen(input), expected, 0);
    memcpy(input + 8 + 64, "7\r\n", 4);
    expect(WIRE_CLIENT, input, strlen(input), "bad: silent\n", 0);
}

int main(void) {
    RUN("each line is taken as nats-server takes it", rows_whole);
    RUN("bytes that come in pieces of any size give the same", rows_in_pieces);
    RUN("what stands behind an op changes nothing about it", rows_with_more_behind);
    RUN("no byte behind the input is ever read", rows_before_a_wall);
    RUN("the control-line limit counts as nats-server counts", control_line_limit);
    RUN("HPUB from a client that did not ask for headers closes silently", headers_switched_off);
    RUN("a missing payload says exactly how many bytes are missing", need_is_exact_for_payloads);
    RUN("a leaf message may name 64 queue groups and no more", too_many_queues);
    RUN("a sid may be 64 bytes long and no longer", long_sid);
    return TEST_RESULT();
}
