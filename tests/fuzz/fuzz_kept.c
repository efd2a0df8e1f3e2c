/* Invariant: a record of a kept session is read, or refused, whatever its bytes are; and one that was read is the same
 * when it is written and read again.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "sessions/kept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool damaged;
    buffer_t first, second;
    if (size > 65536) {
        return 0;
    }
    kept_t *kept = kept_read(bytes_of(data, (uint32_t)size), &damaged);
    if (kept == NULL) {
        return 0;
    }
    check(!damaged);
    check(kept->client.name.size != 0);
    check(kept->filter_count <= KEPT_FILTERS_MAX);
    check(kept_size(kept) != 0);
    buffer_init(&first, 1 << 20);
    buffer_init(&second, 1 << 20);
    check(kept_write(kept, &first) == STATUS_OK);
    kept_t *again = kept_read(bytes_of(first.at, (uint32_t)first.size), &damaged);
    check(again != NULL);
    check(kept_write(again, &second) == STATUS_OK);
    check(first.size == second.size);
    check(memcmp(first.at, second.at, (size_t)first.size) == 0);
    for (uint32_t i = 0; i < kept->filter_count; i++) {
        check(kept_find(again, kept->filters[i].text) != NULL);
    }
    buffer_free(&first);
    buffer_free(&second);
    kept_free(again);
    kept_free(kept);
    return 0;
}
