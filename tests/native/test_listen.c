/* test_listen.c: taking connections off a listening socket on loopback, also when descriptors run out. */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/loop.h"
#include "test.h"

static struct sockaddr_in address;

static void bind_and_listen(int fd) {
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
}

static void start(listener_t *listener) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bind_and_listen(fd);
    CHECK_EQ_I64(STATUS_OK, listener_open(listener, fd));
}

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void wait_readable(int fd) {
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    CHECK(poll(&waiting, 1, 5000) == 1);
}

static bool has(int fd, int level, int option) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, level, option, &value, &size) == 0 && value != 0;
}

static void takes_what_waits(void) {
    listener_t listener;
    start(&listener);
    int fd;
    char peer[LISTEN_PEER_SIZE];
    CHECK_EQ_I64(STATUS_AGAIN, listener_accept(&listener, &fd, peer));
    int dialled = dial();
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    CHECK(getsockname(dialled, (struct sockaddr *)&own, &size) == 0);
    wait_readable(listener.fd);
    CHECK_EQ_I64(STATUS_OK, listener_accept(&listener, &fd, peer));
    char expected[LISTEN_PEER_SIZE];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", (unsigned)ntohs(own.sin_port));
    CHECK_TEXT(expected, peer, strlen(peer));
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(has(fd, IPPROTO_TCP, TCP_NODELAY) && has(fd, SOL_SOCKET, SO_KEEPALIVE));
    CHECK_EQ_I64(STATUS_AGAIN, listener_accept(&listener, &fd, peer));
    close(fd);
    close(dialled);
    listener_close(&listener);
}

/* Who came before the listener was ours is no exception: the socket has the options, or gets them. */
static void accepted_ones_have_the_options_of_a_connection(void) {
    static const int options[][2] = {{SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_NODELAY}};
    for (uint32_t given = 0; given <= 2; given++) {
        int on = 1, own = socket(AF_INET, SOCK_STREAM, 0), fd;
        for (uint32_t i = 0; i < given; i++) {
            CHECK(setsockopt(own, options[i][0], options[i][1], &on, sizeof on) == 0);
        }
        bind_and_listen(own);
        int early = dial();
        listener_t listener;
        char peer[LISTEN_PEER_SIZE];
        CHECK_EQ_I64(STATUS_OK, listener_open(&listener, own));
        CHECK_EQ_I64(given == 2, listener.inherited);
        wait_readable(listener.fd);
        CHECK_EQ_I64(STATUS_OK, listener_accept(&listener, &fd, peer));
        CHECK(has(fd, IPPROTO_TCP, TCP_NODELAY) && has(fd, SOL_SOCKET, SO_KEEPALIVE));
        close(fd);
        close(early);
        listener_close(&listener);
    }
}

/* As where a server listens on all addresses: one socket of IPv6 that takes IPv4, too. */
static void writes_addresses_of_ipv4_as_such(void) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (fd < 0) {
        return; /* no IPv6 here */
    }
    int both = 0;
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) == 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    socklen_t size = sizeof any;
    CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
    CHECK(listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&any, &size) == 0);
    address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = any.sin6_port};
    listener_t listener;
    CHECK_EQ_I64(STATUS_OK, listener_open(&listener, fd));
    int dialled = dial();
    wait_readable(listener.fd);
    char peer[LISTEN_PEER_SIZE];
    CHECK_EQ_I64(STATUS_OK, listener_accept(&listener, &fd, peer));
    CHECK_TEXT("127.0.0.1:", peer, strlen("127.0.0.1:"));
    close(fd);
    close(dialled);
    listener_close(&listener);
}

static void adopts_what_was_dialled(void) {
    listener_t listener;
    start(&listener);
    int dialled = dial();
    char peer[LISTEN_PEER_SIZE], expected[LISTEN_PEER_SIZE];
    CHECK_EQ_I64(STATUS_OK, listen_adopt(dialled, peer));
    snprintf(expected, sizeof expected, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    CHECK_TEXT(expected, peer, strlen(peer));
    CHECK((fcntl(dialled, F_GETFL) & O_NONBLOCK) != 0);
    close(dialled);
    listener_close(&listener);
}

static void no_descriptors_left(void) {
    listener_t listener;
    start(&listener);
    loop_t loop;
    CHECK_EQ_I64(STATUS_OK, loop_open(&loop));
    CHECK_EQ_I64(STATUS_OK, loop_add(&loop, listener.fd, LOOP_READ, &listener));
    int dialled = dial();
    wait_readable(listener.fd);
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 0; /* no new one; the spare one's place is not to be had again either */
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int fd;
    char peer[LISTEN_PEER_SIZE];
    status_t first = listener_accept(&listener, &fd, peer);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(first == STATUS_FULL || first == STATUS_AGAIN);
    /* Fill the table for real: up to a low limit every number is taken. */
    none.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int taken[64], count = 0;
    if (first == STATUS_AGAIN) {
        status_t status = listener_accept(&listener, &fd, peer); /* with descriptors again: an ordinary connection */
        CHECK_EQ_I64(STATUS_OK, status);
        close(fd);
    }
    int second = dial();
    while (count < 64 && (taken[count] = dup(0)) >= 0) {
        count++;
    }
    CHECK(errno == EMFILE);
    wait_readable(listener.fd);
    CHECK_EQ_I64(STATUS_FULL, listener_accept(&listener, &fd, peer));
    CHECK_EQ_I64(STATUS_AGAIN, listener_accept(&listener, &fd, peer));
    CHECK_EQ_U64(1, listener.refused);
    loop_ready_t ready[4];
    CHECK_EQ_U64(0, loop_wait(&loop, 0, ready, 4)); /* not reported for ever */
    wait_readable(second);
    char byte;
    CHECK(recv(second, &byte, 1, 0) <= 0); /* the refused peer knows */
    for (int i = 0; i < count; i++) {
        close(taken[i]);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    int third = dial();
    wait_readable(listener.fd);
    CHECK_EQ_I64(STATUS_OK, listener_accept(&listener, &fd, peer));
    close(fd);
    close(third);
    close(second);
    close(dialled);
    loop_close(&loop);
    listener_close(&listener);
}

static void a_broken_listener_says_so(void) {
    listener_t listener;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK_EQ_I64(STATUS_OK, listener_open(&listener, pair[0]));
    int fd;
    char peer[LISTEN_PEER_SIZE];
    CHECK_EQ_I64(STATUS_IO, listener_accept(&listener, &fd, peer));
    close(pair[1]);
    listener_close(&listener);
}

int main(void) {
    RUN("addresses of IPv4 are written as such", writes_addresses_of_ipv4_as_such);
    RUN("a connection is taken non-blocking, without delay, with its peer's address", takes_what_waits);
    RUN("an accepted socket has the options that its listener had before, and gets those that it had not",
        accepted_ones_have_the_options_of_a_connection);
    RUN("a dialled socket gets the same options", adopts_what_was_dialled);
    RUN("without descriptors a connection is refused, and the listener works again when there are some",
        no_descriptors_left);
    RUN("a listener that is none says so instead of going round", a_broken_listener_says_so);
    return TEST_RESULT();
}
