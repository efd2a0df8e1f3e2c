/* tls_ends.h: both ends of connections with TLS over socket pairs, and the turns of the loop that they have in common.
 *
 * Not here: certificates and contexts (tls_rig.h).
 */
#ifndef LEAFD_TESTS_TLS_ENDS_H
#define LEAFD_TESTS_TLS_ENDS_H

#include "tls_rig.h"
#include "test.h"
#include <sys/ioctl.h>

#define ROOM (256u * 1024u)
#define LONG_TEXT 300000u

static tls_desk_t *desk;
static tls_pem_t pem;
static int64_t now_ns = NS_PER_SECOND;
static int64_t round_trip_ns; /* to the peers that come next */

typedef struct end {
    tls_t *tls;
    int fd;
    bool closed;
    uint32_t size; /* received */
    uint8_t *at;
} end_t;

typedef struct ends {
    tls_context_t *server_context;
    tls_context_t *client_context;
    end_t server;
    end_t client;
    int relay[2]; /* with a relay: the far ends of both */
} ends_t;

static inline void make_pair(int pair[2]) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
}

static inline void start_end(end_t *end, tls_context_t *context, int fd, tls_wish_t wish) {
    wish.tag = end;
    wish.round_trip_ns = round_trip_ns;
    *end = (end_t){.fd = fd, .tls = tls_new(desk, context, &wish), .at = malloc(2 * LONG_TEXT)};
    CHECK(end->tls != NULL && end->at != NULL);
}

static inline void start_with(ends_t *ends, tls_context_t *server, tls_context_t *client, const char *name,
                              bool relay) {
    int near[2], far[2];
    *ends = (ends_t){.server_context = server, .client_context = client, .relay = {-1, -1}};
    CHECK(server != NULL && client != NULL);
    make_pair(near);
    if (relay) {
        make_pair(far);
        ends->relay[0] = near[1];
        ends->relay[1] = far[1];
    }
    start_end(&ends->server, server, near[0], (tls_wish_t){.flags = SECURE_FIRST});
    start_end(&ends->client, client, relay ? far[0] : near[1],
              (tls_wish_t){.name = bytes_of(name, (uint32_t)strlen(name))});
}

static inline void start(ends_t *ends, bool relay) {
    start_with(ends, tls_rig_context(&pem, 0, NULL, 0), tls_rig_context(&pem, TLS_CLIENT | TLS_VERIFY, NULL, 0),
               TLS_RIG_NAME, relay);
}

static inline void stop_end(end_t *end) {
    transport_tls.close(end->tls, end->fd);
    close(end->fd);
    free(end->at);
}

static inline void stop(ends_t *ends) {
    stop_end(&ends->server);
    stop_end(&ends->client);
    for (uint32_t i = 0; i < 2; i++) {
        if (ends->relay[i] >= 0) close(ends->relay[i]);
    }
    tls_context_release(ends->server_context);
    tls_context_release(ends->client_context);
    CHECK_EQ_U64(0, tls_desk_shaking(desk));
}

static inline void receive(end_t *end) {
    size_t got = 0;
    status_t status =
        end->closed ? STATUS_CLOSED
                    : transport_tls.receive(end->tls, end->fd, end->at + end->size, 2 * LONG_TEXT - end->size, &got);
    CHECK(status != STATUS_OK || got != 0);
    end->size += (uint32_t)got;
    end->closed = status == STATUS_CLOSED;
}

static inline size_t send_text(end_t *end, const void *at, size_t size) {
    struct iovec text = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
    size_t taken = 0;
    status_t status = transport_tls.send(end->tls, end->fd, &text, size != 0, &taken);
    end->closed = end->closed || status == STATUS_CLOSED;
    return taken;
}

/* As the loop does: whoever is called goes on. */
static inline void call(void) {
    for (end_t *end; (end = tls_desk_next(desk)) != NULL;) send_text(end, NULL, 0);
}

static inline void next_turn(void) {
    tls_desk_turn(desk, now_ns);
    call();
}

/* One turn may have no time left, where the machine is busy: as many as it takes. */
static inline void turns(void) {
    for (uint32_t i = 0; i < 50; i++) next_turn();
}

/* One byte each way, or what there is room for. */
static inline void relay(ends_t *ends, size_t most) {
    for (uint32_t i = 0; i < 2 && ends->relay[0] >= 0; i++) {
        uint8_t some[4096];
        ssize_t size = read(ends->relay[i], some, most < sizeof some ? most : sizeof some);
        if (size > 0) CHECK_EQ_I64(size, write(ends->relay[1 - i], some, (size_t)size));
    }
}

/* Turns, as the loop makes them. */
static inline void turn(ends_t *ends, size_t relayed) {
    next_turn();
    relay(ends, relayed);
    send_text(&ends->client, NULL, 0);
    receive(&ends->server);
    send_text(&ends->server, NULL, 0);
    receive(&ends->client);
}

static inline int arrived(const end_t *end) {
    int size = 0;
    CHECK(ioctl(end->fd, FIONREAD, &size) == 0);
    return size;
}

#endif
