/* notes.h: what the overlay has of a stream: where the messages are that no checkpoint covers yet, which subjects came
 * with them, and how many were deleted.
 *
 *     by_seq     messages behind all that LMDB has
 *     fills      messages that were put, or written anew, in front of others (fill.c): few, by sequence
 */
#ifndef LEAFD_STORE_NOTES_H
#define LEAFD_STORE_NOTES_H

#include "base/status.h"
#include "store/overlay_lists.h"
#include "store/store.h"

#define FILLS_MAX 256

typedef struct fills { /* only notes.c writes to it */
    indexed_op_t *at;  /* FILLS_MAX of them, NULL: there were none yet; ascending */
    uint32_t count;
    uint64_t ever;         /* so many were there */
    uint64_t seek_of;      /* the message whose neighbour above is looked for, 0 = none .. */
    uint64_t seek_back;    /* .. from there down its subject's chain .. */
    uint64_t seek_forward; /* .. and from there up the stream */
} fills_t;

typedef struct notes { /* only notes.c writes to it */
    op_index_t by_seq;
    fills_t fills;
    births_t births;       /* only notes.c and walk.c */
    uint64_t deletes[2];   /* of deleted messages: current, previous */
    uint64_t hidden_until; /* a position: LMDB's entries are an earlier stream's of this id until it is checkpointed */
} notes_t;

/* Memory for so many messages, those of them that may be their subject's first, and entries in the index by time: no
 * note of them fails afterwards. */
LEAF_MUST_USE status_t notes_reserve(store_stream_t *stream, uint64_t messages, uint64_t born, uint64_t times);
/* The message's op is there. born: its subject has no other. */
void notes_message(store_stream_t *stream, uint64_t seq, uint64_t position, bool born);
void notes_deleted(store_stream_t *stream, uint64_t count);
/* Room for two fills. STATUS_FULL: with the next checkpoint. */
LEAF_MUST_USE status_t notes_reserve_fills(store_stream_t *stream);
void notes_fill(store_stream_t *stream, uint64_t seq, uint64_t position);
void notes_born(store_stream_t *stream, uint64_t position); /* its subject has no other message */
void notes_seek(store_stream_t *stream, uint64_t seq, uint64_t back, uint64_t forward);
/* Index of the first fill at or above seq; == count when none. */
uint32_t notes_fill_from(const notes_t *notes, uint64_t seq);
/* Hides the entries that LMDB still has of that id: they are another stream's, if a removal is not checkpointed yet.
 * Returns up to where it is. */
uint64_t notes_hide(store_stream_t *stream);
void notes_rotate(store_stream_t *stream); /* a checkpoint begins, .. */
void notes_drop(store_stream_t *stream);   /* .. and is there */
void notes_free(store_stream_t *stream);

#endif
