/* array.c: see array.h. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

status_t array_grow(void *array, uint64_t *capacity, uint64_t needed, uint64_t first, size_t size) {
    uint64_t wanted = *capacity > 0 ? *capacity : first;
    while (wanted < needed) {
        wanted *= 2;
    }
    void *at;
    memcpy(&at, array, sizeof at);
    size_t bytes;
    if (__builtin_mul_overflow(wanted, size, &bytes) || (at = realloc(at, bytes)) == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(array, &at, sizeof at);
    *capacity = wanted;
    return STATUS_OK;
}
