/* held.h: what may leave only when a batch is on disk: PubAcks, double acks, API replies that say "done", completions.
 *
 *   chunk: | entry | entry | ...        a list of chunks, first in first out; entries never move
 *   entry: batch number, what, slices behind it
 *
 * Batch numbers only grow, so releasing is taking from the front. Nothing leaves any other way: that is the guarantee.
 */
#ifndef LEAFD_EXCHANGE_HELD_H
#define LEAFD_EXCHANGE_HELD_H

#include <stdbool.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"

typedef struct held_entry {
    uint64_t batch;
    void *event;   /* event_entry_t of a completion; NULL: a message */
    uint32_t size; /* of the entry with all behind it, rounded up */
    uint32_t account;
    uint32_t flags; /* of its publication when it leaves */
    uint32_t subject_size;
    uint32_t reply_size;
    uint32_t header_size;
    uint32_t payload_size;
    uint32_t copied_size; /* deferred deliveries: the subject in the stream that they come from */
    uint8_t bytes[];
} held_entry_t;

typedef struct held_chunk held_chunk_t;

typedef struct held {
    held_chunk_t *first;
    held_chunk_t *last;
    held_chunk_t *spare;
    uint64_t count;
    uint64_t bytes;
} held_t;

LEAF_MUST_USE status_t held_message(held_t *held, uint64_t batch, uint32_t account, uint32_t flags, bytes_t subject,
                                    bytes_t reply, bytes_t header, bytes_t payload);
/* The same with the subject for copies, which lies behind the payload. */
LEAF_MUST_USE status_t held_deferred(held_t *held, uint32_t account, uint32_t flags, const bytes_t slices[5]);
LEAF_MUST_USE status_t held_event(held_t *held, uint64_t batch, void *event);
/* The oldest entry if its batch is durable, else NULL. It stays until held_pop; pushing meanwhile does not move it. */
const held_entry_t *held_first(const held_t *held, uint64_t durable);
void held_pop(held_t *held);
void held_free(held_t *held); /* entries' events are freed */

#endif
