/* Invariant: any bytes are frames or are refused, and what they mean does not depend on the pieces in which they come
 * or on the room for what they become; nothing is read or written out of bounds (the sanitizers look). */
#include <stddef.h>

#include "base/buffer.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "given_transport.h"
#include "net/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bytes_t understood(websocket_desk_t *desk, uint32_t flags, bytes_t frames, size_t piece, size_t room,
                          buffer_t *to) {
    given_t given = {frames, piece, NULL};
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
