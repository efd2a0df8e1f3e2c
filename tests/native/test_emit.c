/* test_emit.c: frames byte for byte as nats-server 2.15.1 sends them, all or nothing at a buffer's bound, and readable
 * for the parser. */
#include "wire/emit.h"

#include <stdlib.h>

#include "test.h"
#include "wire/parse.h"

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

#define EMITTED(expected, call)                                                                                        \
    do {                                                                                                               \
        buffer_t out;                                                                                                  \
        buffer_init(&out, 1 << 20);                                                                                    \
        CHECK_EQ_I64(STATUS_OK, call);                                                                                 \
        CHECK_TEXT(expected, out.at, out.size);                                                                        \
        buffer_free(&out);                                                                                             \
    } while (0)

static void client_frames(void) {
    message_t plain = {.subject = text("foo"), .payload = text("ab")};
    message_t full = {
        .subject = text("foo"), .reply = text("bar"), .header = text("NATS/1.0\r\n\r\n"), .payload = text("ab")};
    message_t empty = {.subject = text("foo")};
    EMITTED("MSG foo 1 2\r\nab\r\n", emit_client_message(&out, &plain, text("1"), true));
    EMITTED("MSG foo 1 2\r\nab\r\n", emit_client_message(&out, &plain, text("1"), false));
    EMITTED("HMSG foo 1 bar 12 14\r\nNATS/1.0\r\n\r\nab\r\n", emit_client_message(&out, &full, text("1"), true));
    EMITTED("MSG foo 1 bar 2\r\nab\r\n", emit_client_message(&out, &full, text("1"), false));
    EMITTED("MSG foo 77 0\r\n\r\n", emit_client_message(&out, &empty, text("77"), true));
}

static void leaf_frames(void) {
    message_t plain = {.subject = text("foo"), .payload = text("ab")};
    message_t reply = {.subject = text("foo"), .reply = text("bar"), .payload = text("ab")};
    message_t full = {
        .subject = text("foo"), .reply = text("bar"), .header = text("NATS/1.0\r\n\r\n"), .payload = text("ab")};
    bytes_t queues[2] = {text("q1"), text("q2")};
    EMITTED("LMSG foo 2\r\nab\r\n", emit_leaf_message(&out, &plain, NULL, 0, true));
    EMITTED("LMSG foo bar 2\r\nab\r\n", emit_leaf_message(&out, &reply, NULL, 0, true));
    EMITTED("LMSG foo + bar q1 q2 2\r\nab\r\n", emit_leaf_message(&out, &reply, queues, 2, true));
    EMITTED("LMSG foo | q1 2\r\nab\r\n", emit_leaf_message(&out, &plain, queues, 1, true));
    EMITTED("HMSG foo bar 12 14\r\nNATS/1.0\r\n\r\nab\r\n", emit_leaf_message(&out, &full, NULL, 0, true));
    EMITTED("HMSG foo + bar q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n", emit_leaf_message(&out, &full, queues, 1, true));
    EMITTED("LMSG foo bar 2\r\nab\r\n", emit_leaf_message(&out, &full, NULL, 0, false));
    EMITTED("LS+ foo.>\r\n", emit_leaf_sub(&out, text("foo.>"), BYTES_NONE, 0));
    EMITTED("LS+ foo q1 12\r\n", emit_leaf_sub(&out, text("foo"), text("q1"), 12));
    EMITTED("LS- foo\r\n", emit_leaf_unsub(&out, text("foo"), BYTES_NONE));
    EMITTED("LS- foo q1\r\n", emit_leaf_unsub(&out, text("foo"), text("q1")));
    EMITTED("-ERR 'Stale Connection'\r\n", emit_err(&out, text("Stale Connection")));
}

static void all_or_nothing(void) {
    message_t message = {.subject = text("foo"), .payload = text("0123456789")};
    for (uint64_t max = 0; max < 200; max++) {
        buffer_t out;
        buffer_init(&out, max);
        status_t status = emit_client_message(&out, &message, text("1"), true);
        CHECK(status == STATUS_OK || status == STATUS_FULL);
        CHECK_EQ_U64(status == STATUS_OK ? 26 : 0, out.size);
        CHECK_EQ_I64(max >= 150 ? STATUS_OK : status, status);
        buffer_free(&out);
    }
}

static void route_frames(void) {
    buffer_t out;
    buffer_init(&out, 1 << 20);
    bytes_t queues[2] = {text("q1"), text("q2")};
    route_names_t pool = {.account = text("A")}, pinned = {.account = BYTES_NONE};
    route_names_t leafs = {.origin = text("leafs"), .account = text("A")};
    message_t plain = {.subject = text("foo"), .payload = text("ab")}, asking = plain, headed = plain;
    asking.reply = text("bar");
    headed.header = text("NATS/1.0\r\n\r\n");
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &plain, &pool, NULL, 0));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &asking, &pool, NULL, 0));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &asking, &pool, queues, 2));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &plain, &pool, queues, 1));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &headed, &pool, queues, 1));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &plain, &pinned, NULL, 0));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &plain, &leafs, NULL, 0));
    CHECK_EQ_I64(STATUS_OK, emit_route_message(&out, &headed, &leafs, queues, 1));
    static const char messages[] = "RMSG A foo 2\r\nab\r\nRMSG A foo bar 2\r\nab\r\nRMSG A foo + bar q1 q2 2\r\nab\r\n"
                                   "RMSG A foo | q1 2\r\nab\r\nHMSG A foo | q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n"
                                   "RMSG foo 2\r\nab\r\nLMSG leafs A foo 0 2\r\nab\r\n"
                                   "LMSG leafs A foo | q1 12 14\r\nNATS/1.0\r\n\r\nab\r\n";
    CHECK_TEXT(messages, out.at, out.size);
    out.size = 0;
    CHECK_EQ_I64(STATUS_OK, emit_route_sub(&out, &pool, text("foo"), BYTES_NONE, 1));
    CHECK_EQ_I64(STATUS_OK, emit_route_sub(&out, &pinned, text("foo"), text("q1"), 3));
    CHECK_EQ_I64(STATUS_OK, emit_route_sub(&out, &leafs, text("foo"), text("q1"), 3));
    CHECK_EQ_I64(STATUS_OK, emit_route_unsub(&out, &pool, true, text("foo"), text("q1")));
    CHECK_EQ_I64(STATUS_OK, emit_route_unsub(&out, &leafs, true, text("foo"), BYTES_NONE));
    CHECK_EQ_I64(STATUS_OK, emit_route_unsub(&out, &leafs, false, text("foo"), BYTES_NONE));
    CHECK_TEXT("RS+ A foo\r\nRS+ foo q1 3\r\nLS+ leafs A foo q1 3\r\nRS- A foo q1\r\nLS- leafs A foo\r\nLS- A foo\r\n",
               out.at, out.size);
    buffer_free(&out);
}

/* Every length of every word around the places where copying changes its way. */
static void parser_reads_it_back(void) {
    static char filler[6000];
    for (size_t i = 0; i < sizeof filler; i++) {
        filler[i] = (char)('a' + i % 23);
    }
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 999, 1000, 1001, 5000};
    uint32_t count = sizeof sizes / sizeof sizes[0];
    for (uint32_t i = 0; i < count * count; i++) {
        bytes_t subject = bytes_of(filler, sizes[i % count]);
        bytes_t reply = bytes_of(filler + 1, i % 3 == 0 ? 0 : sizes[i / count]);
        bytes_t payload = bytes_of(filler + 2, sizes[(i * 7) % count]);
        bytes_t header = bytes_of(filler + 3, i % 2 == 0 ? 0 : sizes[(i * 3) % count]);
        message_t message = {.subject = subject, .reply = reply, .header = header, .payload = payload};
        buffer_t out;
        buffer_init(&out, 1 << 20);
        CHECK_EQ_I64(STATUS_OK, emit_leaf_message(&out, &message, NULL, 0, true));
        wire_parser_t parser;
        wire_parser_init(&parser, WIRE_LEAF, 1 << 20, 1 << 16);
        op_t op;
        uint32_t used;
        wire_error_t error;
        CHECK_EQ_I64(WIRE_OP, wire_parse(&parser, bytes_of(out.at, (uint32_t)out.size), &op, &used, &error));
        CHECK_EQ_U64(out.size, used);
        CHECK_BYTES(subject.at, subject.size, op.subject.at, op.subject.size);
        CHECK_BYTES(reply.at, reply.size, op.reply.at, op.reply.size);
        CHECK_BYTES(header.at, header.size, op.header.at, op.header.size);
        CHECK_BYTES(payload.at, payload.size, op.payload.at, op.payload.size);
        buffer_free(&out);
    }
}

int main(void) {
    RUN("client frames look as nats-server's", client_frames);
    RUN("leaf frames look as nats-server's", leaf_frames);
    RUN("route frames look as nats-server's", route_frames);
    RUN("a frame that does not fit leaves the buffer as it was", all_or_nothing);
    RUN("the parser reads back what was emitted, for all lengths of its parts", parser_reads_it_back);
    return TEST_RESULT();
}
