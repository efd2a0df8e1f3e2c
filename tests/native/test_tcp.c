/* test_tcp.c: what a connection is told, on loopback, by what the kernel tells of it then. */
#include "net/tcp.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#include "test.h"

#define LOADED_BYTES (4u << 20)

typedef struct both {
    int fd, other;
} both_t;

static both_t connected_from(uint32_t host) {
    both_t both = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    CHECK(bind(both.fd, (struct sockaddr *)&own, sizeof own) == 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(connect(both.fd, (struct sockaddr *)&address, sizeof address) == 0);
    both.other = accept(listener, NULL, NULL);
    CHECK(both.other >= 0);
    close(listener);
    return both;
}

static both_t connected(void) {
    return connected_from(INADDR_LOOPBACK);
}

static void ended(both_t both) {
    close(both.fd);
    close(both.other);
}

static const char *looked_after_by(int fd) {
    static char name[16];
    socklen_t size = sizeof name;
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
    return name;
}

/* Bytes a second that BBR has seen; 0: none were seen since it began. */
static uint64_t bbr_rate(int fd) {
    struct tcp_bbr_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &info, &size) == 0 && size >= sizeof info);
    return (uint64_t)info.bbr_bw_hi << 32 | info.bbr_bw_lo;
}

static void loaded(both_t both) {
    static char some[65536];
    for (uint64_t sent = 0; sent < LOADED_BYTES; sent += sizeof some) {
        CHECK(write(both.fd, some, sizeof some) == (ssize_t)sizeof some);
        for (size_t left = sizeof some; left != 0;) {
            ssize_t got = read(both.other, some, left);
            CHECK(got > 0);
            left -= (size_t)got;
        }
    }
}

static void bbr_begins_anew(void) {
    both_t both = connected();
    tcp_expect_loss(both.fd);
    if (strcmp(looked_after_by(both.fd), "bbr") != 0) {
        fprintf(stderr, "  (this system has no BBR, or lets nobody have it)\n");
        ended(both);
        return;
    }
    loaded(both);
    CHECK(bbr_rate(both.fd) != 0);
    tcp_spare_probe(both.fd);
    CHECK_TEXT("bbr", looked_after_by(both.fd), 3);
    CHECK_EQ_U64(0, bbr_rate(both.fd));
    loaded(both);
    CHECK(bbr_rate(both.fd) != 0);
    ended(both);
}

static void another_is_left_alone(void) {
    both_t both = connected();
    CHECK(setsockopt(both.fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0);
    tcp_spare_probe(both.fd);
    CHECK_TEXT("reno", looked_after_by(both.fd), 4);
    ended(both);
}

static int64_t told(int fd, int level, int option) {
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(getsockopt(fd, level, option, &value, &size) == 0);
    return value;
}

/* The kernel counts from the first of a row of losses, whatever arrives meanwhile: with the plane's own patience it
 * ended links that lived, at 20 % loss one in five minutes, and at 5 % one in an hour. */
static void the_plane_is_first_to_give_up(void) {
    both_t both = connected();
    tcp_expect_life(both.fd, 43 * NS_PER_SECOND);
    CHECK_EQ_I64(1, told(both.fd, SOL_SOCKET, SO_KEEPALIVE));
    CHECK(told(both.fd, IPPROTO_TCP, TCP_KEEPIDLE) < 43);
    CHECK(told(both.fd, IPPROTO_TCP, TCP_USER_TIMEOUT) >= 12 * 3600 * 1000);
    tcp_expect_end(both.fd, 43 * NS_PER_SECOND); /* or what nobody takes would be sent again for a day */
    CHECK_EQ_I64(43000, told(both.fd, IPPROTO_TCP, TCP_USER_TIMEOUT));
    ended(both);
}

static void those_of_one_address_come_from_one_place(void) {
    both_t first = connected(), second = connected(), elsewhere = connected_from(INADDR_LOOPBACK + 1);
    int none[2];
    CHECK(tcp_place(first.other) != 0);
    CHECK_EQ_U64(tcp_place(first.other), tcp_place(second.other));
    CHECK(tcp_place(first.other) != tcp_place(elsewhere.other));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, none) == 0);
    CHECK_EQ_U64(0, tcp_place(none[0]));
    CHECK_EQ_U64(0, tcp_place(-1));
    ended(first);
    ended(second);
    ended(elsewhere);
    ended((both_t){none[0], none[1]});
}

int main(void) {
    RUN("a connection is ended by the plane, and by the kernel only when it is closed", the_plane_is_first_to_give_up);
    RUN("BBR looks for the rate anew, and brings all", bbr_begins_anew);
    RUN("whoever is looked after by something else stays so", another_is_left_alone);
    RUN("connections of one address come from one place, whatever their ports",
        those_of_one_address_come_from_one_place);
    return TEST_RESULT();
}
