/* Invariant: however the same bytes are cut into pieces, the parser reads the same ops and ends the same way; every
 * slice lies inside the input; every call that is no WIRE_MORE makes progress (all of this is checked in
 * wire_transcript.h).
 *
 * First byte of the input: bit 0 = leaf, bits 1.. = size of the pieces. */
#include <stddef.h>

#include "wire_transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) {
        return 0;
    }
    wire_kind_t kind = (data[0] & 1) != 0 ? WIRE_LEAF : WIRE_CLIENT;
    uint32_t step = 1 + (uint32_t)(data[0] >> 1);
    bytes_t input = bytes_of(data + 1, (uint32_t)size - 1);
    buffer_t whole, pieces;
    buffer_init(&whole, 1 << 20);
    buffer_init(&pieces, 1 << 20);
    transcript_of(&whole, kind, 100, 64, input, 0);
    transcript_of(&pieces, kind, 100, 64, input, step);
    check(whole.size == pieces.size);
    check(memcmp(whole.at, pieces.at, (size_t)whole.size) == 0);
    buffer_free(&whole);
    buffer_free(&pieces);
    return 0;
}
