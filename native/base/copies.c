/* copies.c: see the header. */
#include "base/copies.h"

#include <stdlib.h>

bytes_t bytes_copy(bytes_t bytes) {
    if (bytes.size == 0) {
        return BYTES_NONE;
    }
    uint8_t *copy = malloc(bytes.size);
    if (copy == NULL) {
        return BYTES_NONE;
    }
    memcpy(copy, bytes.at, bytes.size);
    return bytes_of(copy, bytes.size);
}

bool bytes_copy_all(bytes_t *to, const bytes_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = bytes_copy(from[i]);
        if (to[i].size != from[i].size) {
            while (i-- != 0) {
                bytes_release(&to[i]);
            }
            return false;
        }
    }
    return true;
}

void bytes_release(bytes_t *bytes) {
    free((void *)(uintptr_t)bytes->at);
    *bytes = BYTES_NONE;
}
