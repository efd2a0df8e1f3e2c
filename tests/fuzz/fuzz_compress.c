/* Invariant: any bytes are an S2 stream or end it, and what they become does not depend on the pieces in which they
 * come or on the room for it; what is sent of any bytes is such a stream; nothing is read or written out of bounds (the
 * sanitizers look). */
#include <stddef.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/check.h"
#include "fuzz_input.h"
#include "given_transport.h"
#include "net/compress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bytes_t understood(compress_desk_t *desk, bytes_t stream, size_t piece, size_t room, buffer_t *to) {
    given_t given = {stream, piece, NULL};
    compress_wish_t wish = {.how = {.terse = 1}, .stranger = true};
    compress_t *compress = compress_new(desk, &wish, &transport_given, &given);
    check(compress != NULL);
    uint8_t *place = malloc(room);
    check(place != NULL);
    status_t status;
    do {
        size_t got = 0;
        status = transport_compress.receive(compress, -1, place, room, &got);
        if (status == STATUS_OK) {
            check(got > 0 && got <= room);
            check(buffer_append(to, place, got) == STATUS_OK);
        }
    } while ((status == STATUS_OK || (status == STATUS_AGAIN && transport_compress.pending(compress) != 0))
             && to->size < 1 << 22);
    bytes_t fault = compress_fault(compress);
    transport_compress.close(compress, -1);
    free(place);
    return fault;
}

/* What is sent of these bytes is understood as these bytes. */
static void there_and_back(compress_desk_t *desk, bytes_t text, uint32_t level) {
    buffer_t sent, heard;
    buffer_init(&sent, UINT64_MAX);
    buffer_init(&heard, UINT64_MAX);
    given_t given = {BYTES_NONE, 0, &sent};
    compress_wish_t wish = {.how = {.level = level, .terse = 1}};
    compress_t *compress = compress_new(desk, &wish, &transport_given, &given);
    check(compress != NULL);
    struct iovec iov[2] = {{(void *)(uintptr_t)text.at, text.size / 2},
                           {(void *)(uintptr_t)(text.at + text.size / 2), text.size - text.size / 2}};
    size_t taken;
    status_t status = transport_compress.send(compress, -1, iov, 2, &taken);
    transport_compress.close(compress, -1);
    /* It ends where a message does not end as it says. */
    check(status == STATUS_OK ? taken == text.size : status == STATUS_CLOSED);
    check(understood(desk, bytes_of(sent.at, (uint32_t)sent.size), SIZE_MAX, 1 << 17, &heard).size == 0);
    check(status != STATUS_OK
          || (heard.size == text.size && (text.size == 0 || memcmp(heard.at, text.at, text.size) == 0)));
    buffer_free(&sent);
    buffer_free(&heard);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static compress_desk_t *desk;
    if (desk == NULL) {
        desk = compress_desk_open();
        check(desk != NULL);
    }
    fuzz_input_t input = {data, size};
    size_t piece = 1u + fuzz_byte(&input), room = 1u + 64u * fuzz_byte(&input);
    uint32_t level = fuzz_byte(&input) & 3u;
    bytes_t stream = fuzz_slice(&input, 4096);
    buffer_t first, second;
    buffer_init(&first, UINT64_MAX);
    buffer_init(&second, UINT64_MAX);
    bytes_t one = understood(desk, stream, SIZE_MAX, 1 << 17, &first);
    bytes_t other = understood(desk, stream, piece, room, &second);
    check(first.size >= 1 << 22 || second.size >= 1 << 22
          || (bytes_equal(one, other) && first.size == second.size
              && (first.size == 0 || memcmp(first.at, second.at, first.size) == 0)));
    there_and_back(desk, stream, level);
    buffer_free(&first);
    buffer_free(&second);
    return 0;
}
