/* notes.c: see notes.h.
 */
#include "store/notes.h"

#include <stdlib.h>

#include "store/core.h"
#include "store/message.h"

status_t notes_reserve(store_stream_t *stream, uint64_t messages, uint64_t times) {
    status_t status = places_reserve(&stream->notes.places, messages);
    if (messages > 0 && status == STATUS_OK) {
        status = births_reserve(&stream->notes.births, messages);
    }
    return times > 0 && status == STATUS_OK ? expire_reserve(stream, times) : status;
}

void notes_message(store_stream_t *stream, uint64_t seq, uint64_t position, bool born) {
    places_push(&stream->notes.places, seq, position);
    if (born) {
        births_push(&stream->notes.births, position);
    }
}

void notes_deleted(store_stream_t *stream, uint64_t count) {
    stream->notes.deletes[0] += count;
}

uint64_t notes_hide(store_stream_t *stream) {
    uint8_t prefix[4];
    store_be32(prefix, stream->id);
    stream->notes.hidden_until =
        memtable_covers(&stream->store->memtable, DB_MESSAGES, bytes_of(prefix, sizeof prefix));
    return stream->notes.hidden_until;
}

void notes_rotate(store_stream_t *stream) {
    notes_t *notes = &stream->notes;
    notes->boundary = stream->log.last_seq + 1;
    notes->deletes[1] = notes->deletes[0];
    notes->deletes[0] = 0;
    births_rotate(&notes->births);
}

void notes_drop(store_stream_t *stream) {
    notes_t *notes = &stream->notes;
    places_drop_below(&notes->places, notes->boundary);
    births_drop(&notes->births);
    notes->deletes[1] = 0;
    if (notes->hidden_until < stream->store->batches.freed) {
        notes->hidden_until = 0;
    }
}

void notes_free(store_stream_t *stream) {
    free(stream->notes.places.at);
    births_free(&stream->notes.births);
}
