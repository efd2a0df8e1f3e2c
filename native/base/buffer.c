/* buffer.c: see buffer.h. A failed call leaves the buffer as it was. */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define FIRST_CAPACITY 512
#define DOUBLES_BELOW (UINT64_C(1) << 18)

void buffer_init(buffer_t *buffer, uint64_t max) {
    *buffer = (buffer_t){.max = max};
}

void buffer_count(buffer_t *buffer, share_t *share) {
    check(buffer->capacity == 0);
    buffer->share = share;
}

void buffer_free(buffer_t *buffer) {
    free(buffer->at);
    if (buffer->share != NULL) {
        buffer->share->used -= buffer->capacity;
    }
    *buffer = (buffer_t){.max = buffer->max, .share = buffer->share};
}

/* The capacity to have for `needed` bytes. Small ones double; a large one is moved by its pages, so growing it often
 * costs little, and its spare capacity is a noticeable part of all memory. */
static uint64_t buffer_larger(const buffer_t *buffer, uint64_t needed) {
    uint64_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    while (capacity < needed) {
        uint64_t step = capacity < DOUBLES_BELOW ? capacity : capacity / 4;
        capacity = capacity > UINT64_MAX - step ? needed : capacity + step;
    }
    return capacity < buffer->max ? capacity : buffer->max;
}

static status_t buffer_grow(buffer_t *buffer, uint64_t more) {
    share_t *share = buffer->share;
    uint64_t capacity = buffer_larger(buffer, buffer->size + more);
    if (share != NULL && !share_has(share, capacity - buffer->capacity)
        && share_has(share, buffer->size + more - buffer->capacity)) {
        capacity = buffer->size + more; /* what it needs is there, only nothing to spare */
    }
    if (share != NULL && !share_has(share, capacity - buffer->capacity)) {
        if (share->make_room == NULL || !share->make_room(share->context, buffer, capacity - buffer->capacity)) {
            return STATUS_FULL;
        }
        if (more <= buffer->capacity - buffer->size) {
            return STATUS_OK;
        }
        capacity = buffer_larger(buffer, buffer->size + more);
    }
    if (capacity > SIZE_MAX) {
        return STATUS_NO_MEMORY;
    }
    uint8_t *at = realloc(buffer->at, (size_t)capacity);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (share != NULL) {
        share->used += capacity - buffer->capacity;
    }
    buffer->at = at;
    buffer->capacity = capacity;
    return STATUS_OK;
}

status_t buffer_reserve(buffer_t *buffer, uint64_t more, uint8_t **place) {
    check(buffer->size <= buffer->capacity);
    if (LEAF_UNLIKELY(more > buffer->capacity - buffer->size)) {
        if (buffer->size > buffer->max || more > buffer->max - buffer->size) {
            return STATUS_FULL;
        }
        status_t status = buffer_grow(buffer, more);
        if (status != STATUS_OK) {
            return status;
        }
    }
    *place = buffer->at + buffer->size;
    return STATUS_OK;
}

status_t buffer_append(buffer_t *buffer, const void *at, uint64_t size) {
    if (size == 0) {
        return STATUS_OK;
    }
    uint8_t *place;
    status_t status = buffer_reserve(buffer, size, &place);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(place, at, (size_t)size);
    buffer->size += size;
    return STATUS_OK;
}

void buffer_consume(buffer_t *buffer, uint64_t size) {
    check(size <= buffer->size);
    buffer->size -= size;
    if (size > 0 && buffer->size > 0) {
        memmove(buffer->at, buffer->at + size, (size_t)buffer->size);
    }
}

void buffer_fit(buffer_t *buffer) {
    if (buffer->size == 0) {
        buffer_free(buffer);
        return;
    }
    uint8_t *at = buffer->capacity > buffer->size ? realloc(buffer->at, (size_t)buffer->size) : NULL;
    if (at != NULL) {
        if (buffer->share != NULL) {
            buffer->share->used -= buffer->capacity - buffer->size;
        }
        buffer->at = at;
        buffer->capacity = buffer->size;
    }
}

void buffer_trim(buffer_t *buffer, uint64_t keep) {
    if (buffer->size == 0 && buffer->capacity > keep) {
        buffer_free(buffer);
    }
}
