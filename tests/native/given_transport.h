/* given_transport.h: a transport for fuzz targets: it hands over given bytes in pieces of a given size and keeps what
 * is sent, or counts it only. Nothing ever waits for a descriptor. */
#ifndef LEAFD_TESTS_GIVEN_TRANSPORT_H
#define LEAFD_TESTS_GIVEN_TRANSPORT_H

#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "net/transport.h"

typedef struct given {
    bytes_t left;
    size_t piece;
    buffer_t *sent; /* NULL: what is sent is counted only */
} given_t;

static inline status_t given_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    given_t *given = state;
    (void)fd;
    size_t size = given->left.size < given->piece ? given->left.size : given->piece;
    size = size < room ? size : room;
    if (size == 0) return STATUS_AGAIN;
    memcpy(to, given->left.at, size);
    given->left = bytes_after(given->left, (uint32_t)size);
    *got = size;
    return STATUS_OK;
}

static inline status_t given_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    given_t *given = state;
    (void)fd;
    *taken = 0;
    for (int i = 0; i < count; i++) {
        check(given->sent == NULL || buffer_append(given->sent, iov[i].iov_base, iov[i].iov_len) == STATUS_OK);
        *taken += iov[i].iov_len;
    }
    return STATUS_OK;
}

static inline size_t given_pending(const void *state) {
    return ((const given_t *)state)->left.size;
}

static inline uint32_t given_wanted(const void *state) {
    (void)state;
    return 0;
}

static inline void given_close(void *state, int fd) {
    (void)state;
    (void)fd;
}

static const transport_t transport_given = {given_receive, given_send, given_pending, given_wanted, given_close};

#endif
