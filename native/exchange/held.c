/* held.c: see held.h. */
#include "exchange/held.h"

#include <stdlib.h>

#include "base/check.h"

#define CHUNK_BYTES (64u * 1024u - 64u)

struct held_chunk {
    held_chunk_t *next;
    uint64_t capacity;
    uint64_t head;
    uint64_t tail;
    _Alignas(8) uint8_t bytes[];
};

/* One that nothing is in any more. */
static void put_away(held_t *held, held_chunk_t *chunk) {
    if (held->spare == NULL && chunk->capacity <= CHUNK_BYTES) {
        held->spare = chunk;
    } else {
        free(chunk);
    }
}

/* The last one if there is room in it, else a new one. Only when nothing is held the first one may be empty. */
static held_chunk_t *chunk_for(held_t *held, uint64_t size) {
    held_chunk_t *chunk = held->last;
    if (chunk != NULL && chunk->capacity - chunk->tail >= size) {
        return chunk;
    }
    if (chunk != NULL && held->count == 0) {
        put_away(held, chunk); /* empty: in front of another one it would be what held_first reads */
        held->first = held->last = NULL;
    }
    chunk = held->spare;
    if (chunk != NULL && chunk->capacity >= size) {
        held->spare = NULL;
    } else {
        uint64_t capacity = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        chunk = malloc(sizeof(*chunk) + capacity);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->capacity = capacity;
    }
    chunk->next = NULL;
    chunk->head = chunk->tail = 0;
    if (held->last == NULL) {
        held->first = chunk;
    } else {
        held->last->next = chunk;
    }
    held->last = chunk;
    return chunk;
}

static held_entry_t *entry_push(held_t *held, uint64_t batch, uint64_t bytes) {
    uint64_t size = (sizeof(held_entry_t) + bytes + 7) & ~UINT64_C(7);
    if (size > UINT32_MAX) {
        return NULL;
    }
    held_chunk_t *chunk = chunk_for(held, size);
    if (chunk == NULL) {
        return NULL;
    }
    held_entry_t *entry = (held_entry_t *)(void *)(chunk->bytes + chunk->tail);
    chunk->tail += size;
    *entry = (held_entry_t){.batch = batch, .size = (uint32_t)size};
    held->count++;
    held->bytes += size;
    return entry;
}

static uint8_t *held_take(uint8_t *at, bytes_t slice) {
    if (slice.size != 0) {
        memcpy(at, slice.at, slice.size);
    }
    return at + slice.size;
}

status_t held_message(held_t *held, uint64_t batch, uint32_t account, uint32_t flags, bytes_t subject, bytes_t reply,
                      bytes_t header, bytes_t payload) {
    held_entry_t *entry = entry_push(held, batch, (uint64_t)subject.size + reply.size + header.size + payload.size);
    if (entry == NULL) {
        return STATUS_NO_MEMORY;
    }
    entry->account = account;
    entry->flags = flags;
    entry->subject_size = subject.size;
    entry->reply_size = reply.size;
    entry->header_size = header.size;
    entry->payload_size = payload.size;
    held_take(held_take(held_take(held_take(entry->bytes, subject), reply), header), payload);
    return STATUS_OK;
}

status_t held_deferred(held_t *held, uint32_t account, uint32_t flags, const bytes_t slices[5]) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < 5; i++) {
        size += slices[i].size;
    }
    held_entry_t *entry = entry_push(held, 0, size);
    if (entry == NULL) {
        return STATUS_NO_MEMORY;
    }
    entry->account = account;
    entry->flags = flags;
    entry->subject_size = slices[0].size;
    entry->reply_size = slices[1].size;
    entry->header_size = slices[2].size;
    entry->payload_size = slices[3].size;
    entry->copied_size = slices[4].size;
    uint8_t *at = entry->bytes;
    for (uint32_t i = 0; i < 5; i++) {
        at = held_take(at, slices[i]);
    }
    return STATUS_OK;
}

status_t held_event(held_t *held, uint64_t batch, void *event) {
    held_entry_t *entry = entry_push(held, batch, 0);
    if (entry == NULL) {
        return STATUS_NO_MEMORY;
    }
    entry->event = event;
    return STATUS_OK;
}

const held_entry_t *held_first(const held_t *held, uint64_t durable) {
    if (held->count == 0) {
        return NULL;
    }
    const held_entry_t *entry = (const held_entry_t *)(const void *)(held->first->bytes + held->first->head);
    return entry->batch <= durable ? entry : NULL;
}

void held_pop(held_t *held) {
    check(held->count != 0);
    held_chunk_t *chunk = held->first;
    const held_entry_t *entry = (const held_entry_t *)(const void *)(chunk->bytes + chunk->head);
    held->bytes -= entry->size;
    held->count--;
    chunk->head += entry->size;
    if (chunk->head < chunk->tail) {
        return;
    }
    if (chunk == held->last) {
        chunk->head = chunk->tail = 0;
        if (chunk->capacity <= CHUNK_BYTES) {
            return; /* kept for the next one */
        }
        held->last = NULL;
    }
    held->first = chunk->next;
    put_away(held, chunk);
}

void held_free(held_t *held) {
    while (held->count != 0) {
        free(held_first(held, UINT64_MAX)->event);
        held_pop(held);
    }
    free(held->first);
    free(held->spare);
    *held = (held_t){0};
}
