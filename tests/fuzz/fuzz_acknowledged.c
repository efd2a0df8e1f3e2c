/* Invariant: of any bytes what is taken is a front of them, no more numbers than there is room for, none negative; with
 * more bytes behind, the same are taken first.
 */
#include <stddef.h>

#include "arrow/publish.h"
#include "base/check.h"
#include "fuzz_input.h"

#define ROOM 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input_t input = {data, size};
    uint32_t room = fuzz_byte(&input) % ROOM, cut = fuzz_byte(&input);
    bytes_t rest = fuzz_slice(&input, input.left), prefix = BYTES_LITERAL("MSG _INBOX.1.");
    uint8_t *copy = fuzz_copy(rest);
    int64_t all[ROOM], first[ROOM];
    uint32_t taken, part;
    uint32_t count = publish_acknowledged(bytes_of(copy, rest.size), prefix, all, room, &taken);
    check(count <= room);
    check(taken <= rest.size);
    uint32_t size_cut = cut < rest.size ? cut : rest.size;
    uint32_t early = publish_acknowledged(bytes_of(copy, size_cut), prefix, first, room, &part);
    check(early <= count);
    check(part <= taken);
    for (uint32_t i = 0; i < count; i++) {
        check(all[i] >= 0);
        check(i >= early || all[i] == first[i]);
    }
    free(copy);
    return 0;
}
