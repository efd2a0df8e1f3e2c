/* Invariant: any bytes are a block or are refused; nothing is read behind the block or written behind its result (the
 * sanitizers look), and a block has the same result each time. */
#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "text/s2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes_t block = bytes_of(data, (uint32_t)size);
    uint32_t length;
    if (size > 4096 || s2_size(block, &length) != STATUS_OK || length > 1 << 16) {
        return 0;
    }
    uint8_t *first = malloc(length + 1), *second = malloc(length + 1);
    check(first != NULL && second != NULL);
    memset(first, 0xaa, length + 1);
    memset(second, 0x55, length + 1);
    status_t status = s2_decode(block, first, length);
    check(s2_decode(block, second, length) == status);
    if (status == STATUS_OK) {
        check(memcmp(first, second, length) == 0);
    }
    check(first[length] == 0xaa && second[length] == 0x55);
    free(first);
    free(second);
    return 0;
}
