/* array.c: see array.h. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

status_t array_grow(void *array, uint64_t *capacity, uint64_t needed, uint64_t first, size_t size) {
    uint64_t wanted = *capacity > 0 ? *capacity : first;
    while (wanted < needed) {
        if (__builtin_mul_overflow(wanted, 2u, &wanted)) {
            return STATUS_NO_MEMORY;
        }
    }
    void *at;
    memcpy(&at, array, sizeof at);
    size_t bytes;
    if (__builtin_mul_overflow(wanted, size, &bytes)) {
        return STATUS_NO_MEMORY;
    }
    void *grown = realloc(at, bytes); /* a failure leaves what is there to its owner */
    if (grown == NULL) {
        return STATUS_NO_MEMORY;
    }
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return STATUS_OK;
}
