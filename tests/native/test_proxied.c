/* test_proxied.c: headers of the PROXY protocol over a pair of sockets, in pieces of any size; what is behind a header
 * stays in the socket. */
#include "net/proxied.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "test.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"

/* Sends it in pieces, each looked at; returns the stage. rest: what is left in the socket then. */
static proxied_stage_t read_header(const void *at, size_t size, size_t piece, proxied_t *out, char *rest,
                                   size_t rest_room) {
    int pair[2];
    CHECK_EQ_I64(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    proxied_t *proxied = proxied_new(pair[0]);
    CHECK(proxied != NULL);
    for (size_t done = 0; done < size; done += piece) {
        size_t part = size - done < piece ? size - done : piece;
        CHECK_EQ_I64((ssize_t)part, send(pair[1], (const uint8_t *)at + done, part, 0));
        uint8_t to[16];
        size_t got = 0;
        status_t status = transport_proxied.receive(proxied, pair[0], to, sizeof to, &got);
        CHECK_EQ_U64(0, got);
        CHECK_EQ_I64(proxied->stage == PROXIED_FAILED ? STATUS_CLOSED : STATUS_AGAIN, status);
    }
    memset(rest, 0, rest_room);
    ssize_t left = recv(pair[0], rest, rest_room - 1, MSG_DONTWAIT);
    (void)left;
    *out = *proxied;
    transport_proxied.close(proxied, pair[0]);
    close(pair[0]);
    close(pair[1]);
    return out->stage;
}

static void tells(const char *address, const void *header, size_t size, const char *behind) {
    char all[2000], rest[100];
    CHECK(size + strlen(behind) < sizeof all);
    memcpy(all, header, size);
    memcpy(all + size, behind, strlen(behind));
    for (size_t piece = 1; piece <= sizeof all; piece = piece * 2 + 1) {
        proxied_t proxied;
        CHECK_EQ_I64(PROXIED_DONE, read_header(all, size + strlen(behind), piece, &proxied, rest, sizeof rest));
        CHECK_TEXT(address, proxied.address, strlen(proxied.address));
        CHECK_TEXT(behind, rest, strlen(rest));
    }
}

#define TELLS(address, header, behind) tells(address, header, sizeof(header) - 1, behind)

static void addresses_are_told(void) {
    TELLS("192.0.2.1:40001", "PROXY TCP4 192.0.2.1 198.51.100.2 40001 4222\r\n", "CONNECT {}\r\n");
    TELLS("[2001:db8::7]:1", "PROXY TCP6 2001:db8::7 ::1 1 2\r\n", "\x16\x03\x01");
    TELLS("192.0.2.9:0", "PROXY TCP6 ::ffff:192.0.2.9 ::1 0 65535\r\n", "");
    TELLS("", "PROXY UNKNOWN something else\r\n", "PING\r\n");
    TELLS("1.2.3.4:258", V2 "\x21\x11\0\x0c\1\2\3\4\5\6\7\x08\1\2\3\4", "PING\r\n");
    TELLS("1.2.3.4:258", V2 "\x21\x11\0\x0e\1\2\3\4\5\6\7\x08\1\2\3\4ab", "PING\r\n");
    TELLS("", V2 "\x20\0\0\0", "PING\r\n");
    TELLS("", V2 "\x20\x11\0\3abc", "PING\r\n");
    TELLS("", V2 "\x21\1\0\3abc", "PING\r\n");
}

static void who_sends_no_header_loses_nothing(void) {
    TELLS("", "", "PING\r\nPING\r\n");
    TELLS("", "", "PUB x 1\r\n1\r\n");
    TELLS("", "", "CONNECT {}\r\n");
    TELLS("", "", "\x16\x03\x01\x02\x03\x04\x05");
}

static void a_line_has_at_most_107_bytes(void) {
    char line[200], rest[100];
    proxied_t proxied;
    for (int blanks = 50; blanks < 80; blanks++) {
        int size = snprintf(line, sizeof line, "PROXY TCP4%*s1.2.3.4 5.6.7.8 1 2\r\n", blanks, "");
        proxied_stage_t stage = read_header(line, (size_t)size, 9, &proxied, rest, sizeof rest);
        CHECK_EQ_I64(size <= 107 ? PROXIED_DONE : PROXIED_FAILED, stage);
    }
    CHECK_TEXT("v1 line too long", proxied.fault, strlen(proxied.fault));
}

static void no_bytes_do_harm(void) {
    uint64_t random = 17;
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t header[120];
        char rest[200];
        proxied_t proxied;
        size_t size = 16 + random_below(&random, sizeof header - 15);
        for (size_t i = 0; i < size; i++) header[i] = (uint8_t)(random_next(&random) >> 33);
        if ((round & 1) != 0) {
            memcpy(header, V2, 12);
            header[12] = (uint8_t)(0x20 | (header[12] & 1));
            header[13] = (uint8_t)((header[13] & 0x30) | 1);
            header[14] = 0;
        } else {
            memcpy(header, "PROXY ", 6);
            for (size_t i = 6; i < size; i++) header[i] = (uint8_t)"TCP46: 0123.afx\r\n"[header[i] % 18];
        }
        (void)read_header(header, size, 1 + random_below(&random, 130), &proxied, rest, sizeof rest);
        CHECK(strlen(proxied.address) < sizeof proxied.address);
    }
}

int main(void) {
    RUN("both versions tell whom the proxy speaks for, and what is behind them stays", addresses_are_told);
    RUN("who sends no header loses nothing", who_sends_no_header_loses_nothing);
    RUN("a line of version 1 has at most 107 bytes", a_line_has_at_most_107_bytes);
    RUN("no bytes do harm", no_bytes_do_harm);
    return TEST_RESULT();
}
