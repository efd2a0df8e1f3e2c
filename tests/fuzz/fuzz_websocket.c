/* Invariant: any bytes are frames or are refused, and what they mean does not depend on the pieces in which they come
 * or on the room for what they become; nothing is read or written out of bounds (the sanitizers look). */
#include <stddef.h>

#include "base/buffer.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "net/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct given {
    bytes_t left;
    size_t piece;
} given_t;

static status_t given_receive(void *state, int fd, uint8_t *to, size_t room, size_t *got) {
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

static status_t given_send(void *state, int fd, const struct iovec *iov, int count, size_t *taken) {
    (void)state;
    (void)fd;
    *taken = 0;
    for (int i = 0; i < count; i++) *taken += iov[i].iov_len;
    return STATUS_OK;
}

static size_t given_pending(const void *state) {
    return ((const given_t *)state)->left.size;
}

static uint32_t given_wanted(const void *state) {
    (void)state;
    return 0;
}

static void given_close(void *state, int fd) {
    (void)state;
    (void)fd;
}

static const transport_t transport_given = {given_receive, given_send, given_pending, given_wanted, given_close};

static bytes_t understood(websocket_desk_t *desk, uint32_t flags, bytes_t frames, size_t piece, size_t room,
                          buffer_t *to) {
    given_t given = {frames, piece};
    websocket_wish_t wish = {.flags = flags, .inflated_max = 1 << 16};
    websocket_t *websocket = websocket_new(desk, &wish, &transport_given, &given);
    check(websocket != NULL);
    uint8_t *place = malloc(room);
    check(place != NULL);
    status_t status;
    do {
        size_t got = 0, taken;
        status = transport_websocket.receive(websocket, -1, place, room, &got);
        if (status == STATUS_OK) {
            check(got > 0 && got <= room);
            check(buffer_append(to, place, got) == STATUS_OK);
        }
        check(transport_websocket.send(websocket, -1, NULL, 0, &taken) == STATUS_OK);
    } while (status == STATUS_OK || (status == STATUS_AGAIN && transport_websocket.pending(websocket) != 0));
    bytes_t fault = websocket_fault(websocket);
    transport_websocket.close(websocket, -1);
    free(place);
    return fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static websocket_desk_t *desk;
    if (desk == NULL) {
        desk = websocket_desk_open();
        check(desk != NULL);
    }
    fuzz_input_t input = {data, size};
    uint32_t flags = fuzz_byte(&input) & (WEBSOCKET_CLIENT | WEBSOCKET_UNMASKED | WEBSOCKET_DEFLATE);
    size_t piece = 1u + fuzz_byte(&input), room = 1u + fuzz_byte(&input);
    bytes_t frames = fuzz_slice(&input, 4096);
    buffer_t first, second;
    buffer_init(&first, UINT64_MAX);
    buffer_init(&second, UINT64_MAX);
    bytes_t one = understood(desk, flags, frames, SIZE_MAX, 1 << 17, &first);
    bytes_t other = understood(desk, flags, frames, piece, room, &second);
    check(bytes_equal(one, other));
    uint64_t same = first.size < second.size ? first.size : second.size;
    check(memcmp(first.at != NULL ? first.at : data, second.at != NULL ? second.at : data, same) == 0);
    check(one.size != 0 || first.size == second.size);
    buffer_free(&first);
    buffer_free(&second);
    return 0;
}
