/* positions.h: where the newest entries of a ledger lie in the batches' ring, by their index, and how many bytes they
 * are: reading one back takes no look for its key, and to count those that go takes no look at them. An entry that is
 * in LMDB alone has none here. Knows indexes and numbers; reads nothing.
 *
 *     LMDB has these   first          first + count
 *     ---------------+--------------+
 *      no position      position 900, 1130, 1250 ..       both ascend
 */
#ifndef LEAFD_STORE_POSITIONS_H
#define LEAFD_STORE_POSITIONS_H

#include <stdint.h>

#include "base/status.h"

typedef struct positioned {
    uint64_t position;
    uint64_t before; /* the bytes of all that came before it, modulo 2^64 */
} positioned_t;

/* Begun with zeros, or positions_begin. */
typedef struct positions { /* only positions.c writes to it */
    uint64_t *rooms;       /* NULL: nobody asks for the sum */
    positioned_t *at;      /* that of index i: at[i % room] */
    uint64_t room;         /* a power of two, or 0 */
    uint64_t first;
    uint64_t count;
    uint64_t bytes; /* of all up to the last, modulo 2^64 */
} positions_t;

/* rooms: what it adds its room to. Nobody then walks over a thousand of them. */
void positions_begin(positions_t *positions, uint64_t *rooms);
/* Room for so many more. Those before `freed` are done with, and make room first. */
LEAF_MUST_USE status_t positions_reserve(positions_t *positions, uint64_t more, uint64_t freed);
/* The one behind the last, for which there is room. */
void positions_add(positions_t *positions, uint64_t index, uint64_t position, uint64_t bytes);
/* Of those from index to upto; all of them have a position. */
uint64_t positions_bytes(const positions_t *positions, uint64_t index, uint64_t upto);
/* Those behind index go. */
void positions_cut(positions_t *positions, uint64_t index);
/* Those up to index go. */
void positions_pass(positions_t *positions, uint64_t index);
void positions_free(positions_t *positions);

/* 0: none. */
static inline uint64_t positions_of(const positions_t *positions, uint64_t index) {
    return index - positions->first < positions->count ? positions->at[index & (positions->room - 1)].position : 0;
}

#endif
