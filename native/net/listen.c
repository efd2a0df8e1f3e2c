/* listen.c: see listen.h. */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPARE "/dev/null"
#define DEAD_MAX 16 /* connections that died in the backlog, skipped in one call */

static void set_options(int fd) {
    int on = 1;
    /* Not TCP (a socket pair in a test): nothing to set. We coalesce writes ourselves. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static bool is_set(int fd, int level, int option) {
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, level, option, &value, &size) == 0 && value != 0;
}

status_t listener_open(listener_t *listener, int fd) {
    *listener = (listener_t){.fd = fd, .spare_fd = -1};
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return STATUS_IO;
    }
    listener->inherited = is_set(fd, IPPROTO_TCP, TCP_NODELAY) && is_set(fd, SOL_SOCKET, SO_KEEPALIVE);
    listener->spare_fd = open(SPARE, O_RDONLY | O_CLOEXEC);
    return listener->spare_fd >= 0 ? STATUS_OK : STATUS_IO;
}

void listener_close(listener_t *listener) {
    if (listener->fd >= 0) {
        close(listener->fd);
    }
    if (listener->spare_fd >= 0) {
        close(listener->spare_fd);
    }
    listener->fd = -1;
    listener->spare_fd = -1;
}

static void address_describe(const struct sockaddr_storage *address, char peer[LISTEN_PEER_SIZE]) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
        snprintf(peer, LISTEN_PEER_SIZE, "%s:%u", host, (unsigned)ntohs(v4.sin_port));
    } else if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        /* A listener of all addresses is one of IPv6 that takes IPv4, too: ::ffff:10.0.0.1 is 10.0.0.1. */
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
        const void *bytes = mapped ? &v6.sin6_addr.s6_addr[12] : &v6.sin6_addr.s6_addr[0];
        inet_ntop(mapped ? AF_INET : AF_INET6, bytes, host, sizeof host);
        snprintf(peer, LISTEN_PEER_SIZE, mapped ? "%s:%u" : "[%s]:%u", host, (unsigned)ntohs(v6.sin6_port));
    } else {
        snprintf(peer, LISTEN_PEER_SIZE, "local");
    }
}

/* No descriptor is left: give up the spare one, take the connection, close it, take the spare one again. */
static status_t listener_refuse(listener_t *listener) {
    if (listener->spare_fd < 0) {
        listener->spare_fd = open(SPARE, O_RDONLY | O_CLOEXEC);
        if (listener->spare_fd < 0) {
            return STATUS_AGAIN; /* try again in the next tick */
        }
    }
    close(listener->spare_fd);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        listener->refused++;
        close(fd);
    }
    listener->spare_fd = open(SPARE, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? STATUS_FULL : STATUS_AGAIN;
}

status_t listener_accept(listener_t *listener, int *fd, char peer[LISTEN_PEER_SIZE]) {
    for (int dead = 0; dead < DEAD_MAX; dead++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;
        int accepted = accept4(listener->fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            if (listener->spare_fd < 0) {
                listener->spare_fd = open(SPARE, O_RDONLY | O_CLOEXEC); /* missing when that failed before */
            }
            if (!listener->inherited) {
                set_options(accepted);
            }
            address_describe(&address, peer);
            *fd = accepted;
            return STATUS_OK;
        }
        switch (errno) {
        case EAGAIN: return STATUS_AGAIN;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM: return listener_refuse(listener);
        case EBADF:
        case EINVAL:
        case ENOTSOCK:
        case EOPNOTSUPP: return STATUS_IO;
        /* that connection died before it was taken (ECONNABORTED, EINTR, network errors): the next one */
        default: break;
        }
    }
    return STATUS_AGAIN;
}

status_t listen_adopt(int fd, char peer[LISTEN_PEER_SIZE]) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return STATUS_IO;
    }
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0) {
        return STATUS_CLOSED;
    }
    set_options(fd);
    address_describe(&address, peer);
    return STATUS_OK;
}
