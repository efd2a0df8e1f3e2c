/* memory_transport.h: a transport without a socket: a test puts in what the connection receives and looks at what it
 * sends. It hands over and takes at most so many bytes a call, one by one if need be. All input that it holds is
 * pending, since there is no descriptor that could be ready. */
#ifndef LEAFD_TESTS_MEMORY_TRANSPORT_H
#define LEAFD_TESTS_MEMORY_TRANSPORT_H

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "net/conn.h"
#include "test.h"

typedef struct memory_transport {
    buffer_t input; /* still to be received */
    buffer_t output;
    size_t receive_max; /* bytes a call */
    size_t send_max;
    uint32_t wants;
    uint32_t calls; /* of send without anything to send */
    uint32_t sends; /* with something */
    uint32_t place; /* of the last of these among those of all transports */
    bool *closed;   /* told when the connection lets go of it; may be NULL */
} memory_transport_t;

static inline status_t memory_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
    memory_transport_t *memory = state;
    (void)fd;
    size_t size = memory->input.size < room ? (size_t)memory->input.size : room;
    size = size < memory->receive_max ? size : memory->receive_max;
    if (size == 0) {
        return STATUS_AGAIN;
    }
    memcpy(to, memory->input.at, size);
    buffer_consume(&memory->input, size);
    *got = size;
    return STATUS_OK;
}

static uint32_t memory_sends;

static inline status_t memory_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    memory_transport_t *memory = state;
    (void)fd;
    *taken = 0;
    memory->calls += count == 0;
    memory->sends += count != 0;
    memory->place = count != 0 ? ++memory_sends : memory->place;
    for (int i = 0; i < count && *taken < memory->send_max; i++) {
        size_t room = memory->send_max - *taken;
        size_t size = iov[i].iov_len < room ? iov[i].iov_len : room;
        CHECK_EQ_I64(STATUS_OK, buffer_append(&memory->output, iov[i].iov_base, (uint32_t)size));
        *taken += size;
    }
    return STATUS_OK;
}

static inline size_t memory_pending(const void *state) {
    return (size_t)((const memory_transport_t *)state)->input.size;
}

static inline uint32_t memory_wanted(const void *state) {
    return ((const memory_transport_t *)state)->wants;
}

static inline void memory_close(void *state, int fd) {
    memory_transport_t *memory = state;
    (void)fd;
    if (memory->closed != NULL) *memory->closed = true;
    buffer_free(&memory->input);
    buffer_free(&memory->output);
    free(memory);
}

static const transport_t transport_memory = {memory_receive, memory_send, memory_pending, memory_wanted, memory_close};

static inline memory_transport_t *memory_transport(size_t receive_max, size_t send_max) {
    memory_transport_t *memory = calloc(1, sizeof(*memory));
    CHECK(memory != NULL);
    memory->receive_max = receive_max;
    memory->send_max = send_max;
    buffer_init(&memory->input, UINT64_MAX);
    buffer_init(&memory->output, UINT64_MAX);
    return memory;
}

#endif
