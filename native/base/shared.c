/* shared.c: see shared.h. */
#include "base/shared.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"

static uint64_t whole_size(uint32_t size) {
    return (uint64_t)size + offsetof(shared_t, at);
}

status_t shared_new(share_t *share, uint32_t size, shared_t **shared) {
    uint64_t whole = whole_size(size);
    if (share != NULL && !share_has(share, whole)
        && (share->make_room == NULL || !share->make_room(share->context, NULL, whole))) {
        return STATUS_FULL;
    }
    shared_t *made = whole <= SIZE_MAX ? malloc((size_t)whole) : NULL;
    if (made == NULL) {
        return STATUS_NO_MEMORY;
    }
    *made = (shared_t){.share = share, .references = 1, .size = size};
    if (share != NULL) {
        share->used += whole;
    }
    *shared = made;
    return STATUS_OK;
}

void shared_release(shared_t *shared) {
    check(shared->references > 0);
    if (--shared->references > 0) {
        return;
    }
    if (shared->share != NULL) {
        shared->share->used -= whole_size(shared->size);
    }
    free(shared);
}
