/* Invariant: however the same bytes are cut into pieces, the parser reads the same ops and ends the same way; every
 * slice lies inside the input; every call that is no WIRE_MORE makes progress (all of this is checked in
 * wire_transcript.h).
 *
 * First byte of the input: bit 0 = leaf, bits 1.. = size of the pieces. If those are 126 (a route) or 127 (a gateway),
 * the next byte says what a route's lines name (bits 0 and 1), and the size of the pieces (bits 2..). */
#include <stddef.h>

#include "wire_transcript.h"

#define A_ROUTE 127u
#define A_GATEWAY 128u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 4096) {
        return 0;
    }
    uint32_t kind = (data[0] & 1) != 0 ? WIRE_LEAF : WIRE_CLIENT;
    uint32_t step = 1 + (uint32_t)(data[0] >> 1);
    bytes_t input = bytes_of(data + 1, (uint32_t)size - 1);
    if (step >= A_ROUTE && input.size != 0) {
        kind = step == A_GATEWAY ? (uint32_t)WIRE_GATEWAY : (uint32_t)WIRE_ROUTE;
        kind |= ((data[1] & 1) != 0 ? TRANSCRIPT_ONE_ACCOUNT : 0) | ((data[1] & 2) != 0 ? TRANSCRIPT_UNSUB_ORIGINS : 0);
        step = 1 + (uint32_t)(data[1] >> 2);
        input = bytes_after(input, 1);
    }
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
