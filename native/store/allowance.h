/* allowance.h: how much the streams of one owner, an account, may have in a store, and how much they have.
 *
 *     append --> allowance_lacks? refused, nothing is done        gain, lose (core.h) --> bytes
 *                                                                        |
 *     80 % reached, refused, below 75 % again: `level` --> store_allowance_next, once for each change
 *
 * Counted are the bytes that streams report (store_stream_bytes), as the reference counts them: subject, header and
 * payload with 30, 34 or 16 bytes of its own a message, before compression; neither consumers' state nor message ids.
 * A message has to fit beside all that is there, also where its own stream's limits would take out an older one for it.
 * Of a stream of several servers each copy counts, and its leader asks before it asks the log (store_stream_lacks).
 * What has been agreed on is stored without a look at this: members would differ.
 * Not here: who the owner is and what it was granted (control), the limit of the whole store (append.c).
 */
#ifndef LEAFD_STORE_ALLOWANCE_H
#define LEAFD_STORE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/number.h"

/* The owner's, which keeps it as long as the store is open. Begun by allowance_begin. */
typedef struct allowance {
    uint64_t bytes;     /* the sum over its streams, the open batch included */
    uint64_t elsewhere; /* of streams that other stores have, as its owner was told */
    uint64_t promised;  /* asked of logs, and not stored or refused yet */
    uint64_t limit;     /* UINT64_MAX = none */
    uint64_t near;      /* above this the level rises; UINT64_MAX when it has */
    uint64_t clear;     /* below this it falls; 0 when it has */
    uint32_t owner;     /* the caller's number for it */
    uint8_t kind;       /* likewise: what of the owner's */
    uint8_t level;      /* ALLOWANCE_LEVEL_* */
    bool noted;         /* in the store's list of those that have news */
    struct allowance *next;
} allowance_t;

/* 80 and 75 percent: between the two a level stays what it is, so that it is told once for each crossing. */
static inline void allowance_arm(allowance_t *allowance) {
    bool bounded = allowance->limit != UINT64_MAX;
    bool below = allowance->level == ALLOWANCE_LEVEL_BELOW;
    uint64_t near = number_less(allowance->limit - allowance->limit / 5, allowance->elsewhere);
    uint64_t clear = number_less(allowance->limit - allowance->limit / 4, allowance->elsewhere);
    allowance->near = bounded && below ? near : UINT64_MAX;
    allowance->clear = below ? 0 : bounded ? clear : UINT64_MAX;
}

static inline void allowance_begin(allowance_t *allowance, uint32_t owner) {
    *allowance = (allowance_t){.limit = UINT64_MAX, .near = UINT64_MAX, .owner = owner};
}

/* Would so many bytes more be too many? */
static inline bool allowance_lacks(const allowance_t *allowance, uint64_t bytes) {
    uint64_t taken = number_sum(allowance->bytes, number_sum(allowance->elsewhere, allowance->promised));
    return bytes > number_less(allowance->limit, taken);
}

/* ---- streams of several servers, whose leader asks a log first (store.h has the rest) ---------------------------- */
struct store_stream;
bool store_stream_lacks_bytes(struct store_stream *stream, uint64_t bytes); /* as store_stream_lacks */
uint64_t store_stream_size(const struct store_stream *stream, bytes_t subject, bytes_t header, bytes_t payload);
/* So many bytes more are asked of the stream's log, and count until they are stored or refused; UINT64_MAX: all. */
void store_stream_promise(struct store_stream *stream, uint64_t bytes);
void store_stream_kept(struct store_stream *stream, uint64_t bytes);

#endif
