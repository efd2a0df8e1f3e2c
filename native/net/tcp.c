/* tcp.c: see tcp.h. */
#include "net/tcp.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/hash.h"

#define PROBES 3
#define LIFE_MS 86400000 /* a day: that the plane ends a connection long before is its own business */
#define RTO_MAX_MS 44    /* TCP_RTO_MAX_MS, which older headers lack */
#define HEADERS_SIZE 52  /* of TCP with a timestamp, and of IP */

static uint64_t held_by(int fd) {
    int size = 0;
    return ioctl(fd, SIOCOUTQ, &size) == 0 && size > 0 ? (uint64_t)size : 0;
}

bool tcp_look(int fd, tcp_look_t *out) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    memset(&info, 0, sizeof info);
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0
        || size < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt) {
        return false;
    }
    /* Linux 4.19; before it, what was sent again is not in it. */
    uint64_t sent = info.tcpi_bytes_sent != 0 ? info.tcpi_bytes_sent : info.tcpi_bytes_acked;
    uint64_t out_bytes = sent + (uint64_t)info.tcpi_segs_out * HEADERS_SIZE;
    *out = (tcp_look_t){.acked = info.tcpi_bytes_acked,
                        .held = held_by(fd),
                        .beyond = (uint64_t)info.tcpi_sacked * info.tcpi_snd_mss,
                        .packet = info.tcpi_snd_mss,
                        .wire = out_bytes + info.tcpi_bytes_received + (uint64_t)info.tcpi_segs_in * HEADERS_SIZE,
                        .out = out_bytes,
                        .unsent = info.tcpi_notsent_bytes,
                        .round_trip_ns = (int64_t)info.tcpi_rtt * 1000,
                        .round_trip_min_ns = (int64_t)info.tcpi_min_rtt * 1000,
                        .sent = info.tcpi_bytes_sent, /* these are 0 where the kernel is too old to tell them */
                        .resent = info.tcpi_bytes_retrans,
                        .received = info.tcpi_bytes_received,
                        .rate = info.tcpi_delivery_rate_app_limited ? 0 : info.tcpi_delivery_rate,
                        .recovers = info.tcpi_ca_state >= TCP_CA_Recovery};
    if (info.tcpi_min_rtt == 0 || info.tcpi_min_rtt == UINT32_MAX) {
        out->round_trip_min_ns = out->round_trip_ns;
    }
    return true;
}

uint64_t tcp_place(int fd) {
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    memset(&at, 0, sizeof at);
    if (fd < 0 || getpeername(fd, (struct sockaddr *)&at, &size) != 0) {
        return 0;
    }
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&at;
        return hash_bytes(&four->sin_addr, sizeof four->sin_addr) | 1;
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&at;
    return at.ss_family == AF_INET6 ? hash_bytes(&six->sin6_addr, sizeof six->sin6_addr) | 1 : 0;
}

void tcp_expect_life(int fd, int64_t patience_ns) {
    int on = 1, idle = (int)(patience_ns / NS_PER_SECOND / 2), each = idle / PROBES > 0 ? idle / PROBES : 1;
    int probes = PROBES;
    const unsigned int life_ms = LIFE_MS;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &life_ms, sizeof life_ms);
}

void tcp_expect_end(int fd, int64_t patience_ns) {
    unsigned int patience_ms = (unsigned int)(patience_ns / NS_PER_MS);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

void tcp_expect_outages(int fd, int64_t at_least_each_ns) {
    unsigned int each_ms = (unsigned int)(at_least_each_ns / NS_PER_MS);
    (void)setsockopt(fd, IPPROTO_TCP, RTO_MAX_MS, &each_ms, sizeof each_ms);
}

static const char bbr[] = "bbr";

void tcp_expect_loss(int fd) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, bbr, sizeof bbr - 1);
}

void tcp_spare_probe(int fd) {
    static const char reno[] = "reno"; /* which every kernel has and lets everybody have */
    char name[16] = "";
    socklen_t size = sizeof name;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 || strcmp(name, bbr) != 0
        || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof reno - 1) != 0) {
        return;
    }
    tcp_expect_loss(fd); /* to set what is set already would do nothing */
}
