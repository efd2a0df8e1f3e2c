/* test_headers.c: header blocks: fields found, listed, removed and added, and the one that says who asks, whatever the
 * block looks like. */
#include "text/headers.h"

#include <stdlib.h>

#include "test.h"
#include "text/request_info.h"

static bytes_t text(const char *c) {
    return bytes_of(c, (uint32_t)strlen(c));
}

static const char *const block =
    "NATS/1.0\r\nNats-Msg-Id: abc\r\nX-Other:no blank\r\nx-other: \t two \t\r\nEmpty:\r\nNats-Rollup: sub\r\n\r\n";

static const char *found(const char *in, const char *name) {
    static char result[100];
    bytes_t value;
    if (!headers_find(text(in), text(name), &value)) {
        return "(none)";
    }
    snprintf(result, sizeof result, "%.*s", (int)value.size, (const char *)value.at);
    return result;
}

static void expect_found(const char *expected, const char *in, const char *name) {
    const char *real = found(in, name);
    if (strcmp(expected, real) != 0) {
        FAIL("%s: expected \"%s\", is \"%s\"", name, expected, real);
    }
}

static void finds_exact_names(void) {
    expect_found("abc", block, "Nats-Msg-Id");
    expect_found("no blank", block, "X-Other");
    expect_found("two", block, "x-other");
    expect_found("", block, "Empty");
    expect_found("sub", block, "Nats-Rollup");
    expect_found("(none)", block, "nats-msg-id");
    expect_found("(none)", block, "Nats-Msg");
    expect_found("(none)", block, "Msg-Id");
    CHECK(headers_has_prefix(text(block), text("Nats-")));
    CHECK(headers_has_prefix(text(block), text("Emp")));
    CHECK(!headers_has_prefix(text(block), text("nats-")));
}

static void first_of_two_counts(void) {
    expect_found("1", "NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n", "A");
}

static void odd_blocks_have_no_fields(void) {
    static const char *const odd[] = {"",
                                      "a",
                                      "NATS/1.0",
                                      "NATS/1.0\r\n",
                                      "NATS/1.0\r\n\r\n",
                                      "ABCD/1.0\r\nA: 1\r\n\r\n",
                                      "NATS/1.0\r\nA: 1",
                                      "NATS/1.0\r\nno colon\r\n\r\n",
                                      "NATS/1.0\r\n: 1\r\n\r\n",
                                      "NATS/1.0\r\n\r\nA: 1\r\n\r\n",
                                      "NATS/1.0\nA: 1\n\n"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        if (headers_has_prefix(text(odd[i]), BYTES_NONE)) {
            FAIL("row %zu has a field", i);
        }
    }
    expect_found("2", "NATS/1.0\r\nno colon\r\nA: 2\r\n\r\n", "A");
    expect_found("a\nb\rc", "NATS/1.0\r\nA: a\nb\rc\r\n\r\n", "A");
    expect_found("1", "NATS/1.0 503 No Responders\r\nA: 1\r\n\r\n", "A");
}

static bool drop_nats(bytes_t name) {
    return bytes_starts(name, text("Nats-"));
}

static bool drop_all(bytes_t name) {
    (void)name;
    return true;
}

static void expect_copy(const char *expected, const char *in, bool (*drop)(bytes_t name), bool strip_status) {
    buffer_t out;
    buffer_init(&out, 4096);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&out, "##", 2));
    bool empty;
    CHECK_EQ_I64(STATUS_OK, headers_copy_without(&out, text(in), drop, strip_status, &empty));
    CHECK_BYTES("##", 2, out.at, 2);
    CHECK_TEXT(expected, out.at + 2, out.size - 2);
    CHECK_EQ_U64(*expected == 0, empty);
    buffer_free(&out);
}

static void copies_without(void) {
    expect_copy("NATS/1.0\r\nX-Other:no blank\r\nx-other: \t two \t\r\nEmpty:\r\n\r\n", block, drop_nats, false);
    expect_copy("", block, drop_all, false);
    expect_copy("", "NATS/1.0\r\nNats-A: 1\r\n\r\n", drop_nats, false);
    expect_copy("NATS/1.0 503\r\n\r\n", "NATS/1.0 503\r\nNats-A: 1\r\n\r\n", drop_nats, false);
    expect_copy("", "NATS/1.0 503\r\nNats-A: 1\r\n\r\n", drop_nats, true);
    expect_copy("NATS/1.0\r\nB: 1\r\n\r\n", "NATS/1.0 100 Idle\r\nB: 1\r\n\r\n", drop_nats, true);
    expect_copy("", "garbage", drop_nats, true);
    expect_copy("", "", drop_nats, true);
}

static void copy_is_all_or_nothing(void) {
    for (uint64_t max = 1; max < 200; max++) {
        buffer_t out;
        buffer_init(&out, max);
        CHECK_EQ_I64(STATUS_OK, buffer_append(&out, "#", 1));
        bool empty;
        status_t status = headers_copy_without(&out, text(block), drop_nats, false, &empty);
        CHECK(status == STATUS_OK || out.size == 1);
        CHECK(status
              == (max >= 1 + strlen(block) - strlen("Nats-Msg-Id: abc\r\nNats-Rollup: sub\r\n") ? STATUS_OK
                                                                                                : STATUS_FULL));
        buffer_free(&out);
    }
}

static void expect_append(const char *expected, const char *before) {
    buffer_t out;
    buffer_init(&out, 4096);
    CHECK_EQ_I64(STATUS_OK, buffer_append(&out, "##", 2));
    CHECK_EQ_I64(STATUS_OK, buffer_append(&out, before, strlen(before)));
    CHECK_EQ_I64(STATUS_OK, headers_append(&out, 2, text("Nats-Sequence"), text("22")));
    CHECK_TEXT(expected, out.at + 2, out.size - 2);
    bytes_t value;
    bool readable = headers_find(bytes_of(out.at + 2, (uint32_t)out.size - 2), text("Nats-Sequence"), &value);
    CHECK(!readable || bytes_equal(value, text("22")));
    buffer_free(&out);
}

static void appends(void) {
    expect_append("NATS/1.0\r\nNats-Sequence: 22\r\n\r\n", "");
    expect_append("NATS/1.0\r\nNats-Sequence: 22\r\n\r\n", "NATS/1.0\r\n\r\n");
    expect_append("NATS/1.0\r\nA: 1\r\nNats-Sequence: 22\r\n\r\n", "NATS/1.0\r\nA: 1\r\n\r\n");
    expect_append("NATS/1.0\r\nNats-Sequence: 22\r\n\r\n", "NATS/1.0\r\n");
    expect_append("x\r\nNats-Sequence: 22\r\n\r\n", "x");
}

static void append_refuses_line_ends(void) {
    buffer_t out;
    buffer_init(&out, 4096);
    CHECK_EQ_I64(STATUS_INVALID, headers_append(&out, 0, text("A"), text("x\r\nB: 2")));
    CHECK_EQ_I64(STATUS_INVALID, headers_append(&out, 0, text("A\n"), text("x")));
    CHECK_EQ_I64(STATUS_INVALID, headers_append(&out, 0, BYTES_NONE, text("x")));
    CHECK_EQ_U64(0, out.size);
    CHECK_EQ_I64(STATUS_OK, headers_append(&out, 0, text("A"), BYTES_NONE));
    CHECK_TEXT("NATS/1.0\r\nA: \r\n\r\n", out.at, out.size);
    buffer_free(&out);
}

static void appends_parts(void) {
    const bytes_t parts[] = {text("S "), BYTES_NONE, text("22"), text(" > ")}, broken[] = {text("S"), text("\n")};
    buffer_t out;
    buffer_init(&out, 4096);
    CHECK_EQ_I64(STATUS_OK, headers_append_joined(&out, 0, text("A"), parts, 4));
    CHECK_TEXT("NATS/1.0\r\nA: S 22 > \r\n\r\n", out.at, out.size);
    CHECK_EQ_I64(STATUS_INVALID, headers_append_joined(&out, 0, text("B"), broken, 2));
    CHECK_TEXT("NATS/1.0\r\nA: S 22 > \r\n\r\n", out.at, out.size);
    buffer_free(&out);
}

#define INFO "Nats-Request-Info: {\"acc\":\"B\"}\r\n"
#define FORGED "Nats-Request-Info: {\"acc\":\"A\"}\r\n"

static void requester_is_said_by_the_server_alone(void) {
    static const char *const cases[][2] = {
        {"", "NATS/1.0\r\n" INFO "\r\n"},
        {"NATS/1.0\r\nA: b\r\n\r\n", "NATS/1.0\r\nA: b\r\n" INFO "\r\n"},
        {"NATS/1.0\r\n" FORGED "A: b\r\n" FORGED "\r\n", "NATS/1.0\r\nA: b\r\n" INFO "\r\n"},
        {"NATS/1.0\r\n\r\n" FORGED "\r\n", "NATS/1.0\r\n" INFO "\r\n"},
        {"NATS/1.0\r\nA: b\r\n\r\n" FORGED "\r\n", "NATS/1.0\r\nA: b\r\n" INFO "\r\n"},
        {"NATS/1.0\r\nA: b\r\n" FORGED "A: cut off", "NATS/1.0\r\nA: b\r\n" INFO "\r\n"},
        {"NATS/1.1\r\n" FORGED "\r\n", "NATS/1.0\r\n" INFO "\r\n"},
        {"\r\n" FORGED "\r\n", "NATS/1.0\r\n" INFO "\r\n"},
        {FORGED FORGED "\r\n", "NATS/1.0\r\n" INFO "\r\n"},
    };
    request_info_t info;
    memset(&info, 0, sizeof info);
    info.account = text("B");
    buffer_t out;
    buffer_init(&out, 4096);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ_I64(STATUS_OK, request_info_header(&out, text(cases[i][0]), &info));
        CHECK_TEXT(cases[i][1], out.at, out.size);
    }
    buffer_free(&out);
}

int main(void) {
    RUN("a field is found by its exact name, with the blanks around its value gone", finds_exact_names);
    RUN("of two fields with one name the first counts", first_of_two_counts);
    RUN("a block that does not look like one has no fields", odd_blocks_have_no_fields);
    RUN("copying leaves out what it is told to, and the whole block when no field is left", copies_without);
    RUN("a copy that does not fit leaves the buffer as it was", copy_is_all_or_nothing);
    RUN("a field is added at the end of the block, and begins one where there is none", appends);
    RUN("a field cannot smuggle in a second line", append_refuses_line_ends);
    RUN("a field's value is its parts, and a line end in one of them changes nothing", appends_parts);
    RUN("who asks is what the server says, whatever the client wrote", requester_is_said_by_the_server_alone);
    return TEST_RESULT();
}
