/* notes.c: see notes.h.
 */
#include "store/notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/core.h"
#include "store/message.h"

status_t notes_reserve(store_stream_t *stream, uint64_t messages, uint64_t born, uint64_t times) {
    status_t status = op_index_reserve(&stream->notes.by_seq, messages);
    if (born > 0 && status == STATUS_OK) {
        status = births_reserve(&stream->notes.births, born);
    }
    return times > 0 && status == STATUS_OK ? expire_reserve(stream, times) : status;
}

void notes_message(store_stream_t *stream, uint64_t seq, uint64_t position, bool born) {
    op_index_push(&stream->notes.by_seq, seq, position);
    if (born) {
        births_push(&stream->notes.births, position);
    }
}

void notes_deleted(store_stream_t *stream, uint64_t count) {
    stream->notes.deletes[0] += count;
}

/* ---- messages put in front of others ----------------------------------------------------------------------------- */

uint32_t notes_fill_from(const notes_t *notes, uint64_t seq) {
    uint32_t low = 0;
    uint32_t high = notes->fills.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (notes->fills.at[middle].seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

status_t notes_reserve_fills(store_stream_t *stream) {
    fills_t *fills = &stream->notes.fills;
    fills->at = fills->at != NULL ? fills->at : malloc(FILLS_MAX * sizeof *fills->at);
    return fills->at == NULL ? STATUS_NO_MEMORY : fills->count + 2 <= FILLS_MAX ? STATUS_OK : STATUS_FULL;
}

void notes_fill(store_stream_t *stream, uint64_t seq, uint64_t position) {
    fills_t *fills = &stream->notes.fills;
    uint32_t i = notes_fill_from(&stream->notes, seq);
    if (i == fills->count || fills->at[i].seq != seq) {
        check(fills->count < FILLS_MAX);
        memmove(&fills->at[i + 1], &fills->at[i], (fills->count - i) * sizeof *fills->at);
        fills->count++;
    }
    fills->at[i] = (indexed_op_t){.seq = seq, .position = position};
    fills->ever++;
}

/* LMDB has what lies in front of that position. */
static void fills_drop(fills_t *fills, uint64_t freed) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fills->count; i++) {
        if (fills->at[i].position >= freed) {
            fills->at[kept++] = fills->at[i];
        }
    }
    fills->count = kept;
}

void notes_born(store_stream_t *stream, uint64_t position) {
    births_push(&stream->notes.births, position);
}

void notes_seek(store_stream_t *stream, uint64_t seq, uint64_t back, uint64_t forward) {
    fills_t *fills = &stream->notes.fills;
    fills->seek_of = seq;
    fills->seek_back = back;
    fills->seek_forward = forward;
}

/* ---- the overlay's course ---------------------------------------------------------------------------------------- */

uint64_t notes_hide(store_stream_t *stream) {
    uint8_t prefix[4];
    store_be32(prefix, stream->id);
    stream->notes.hidden_until =
        memtable_covers(&stream->store->memtable, DB_MESSAGES, bytes_of(prefix, sizeof prefix));
    return stream->notes.hidden_until;
}

void notes_rotate(store_stream_t *stream) {
    notes_t *notes = &stream->notes;
    op_index_rotate(&notes->by_seq);
    notes->deletes[1] = notes->deletes[0];
    notes->deletes[0] = 0;
    births_rotate(&notes->births);
}

void notes_drop(store_stream_t *stream) {
    notes_t *notes = &stream->notes;
    op_index_drop(&notes->by_seq);
    births_drop(&notes->births);
    if (LEAF_UNLIKELY(notes->fills.count > 0)) {
        fills_drop(&notes->fills, stream->store->batches.freed);
    }
    notes->deletes[1] = 0;
    if (notes->hidden_until < stream->store->batches.freed) {
        notes->hidden_until = 0;
    }
}

void notes_free(store_stream_t *stream) {
    op_index_free(&stream->notes.by_seq);
    free(stream->notes.fills.at);
    births_free(&stream->notes.births);
}
