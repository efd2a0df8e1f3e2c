/* sequences.h: which sequence of the stream a packet identifier stands for, of the messages that were sent to a client
 * and are not acknowledged: what it acknowledges by its identifier is acknowledged in the stream by its sequence.
 *
 *     slots    [ 7: 7006 ][ .. ][ 9: 9008 ]      open addressing by the identifier; at most half of them are taken
 *
 * It grows with what is under way at once and not with each message. Not here: whether an identifier is
 * in use (ids.h).
 */
#ifndef LEAFD_SESSIONS_SEQUENCES_H
#define LEAFD_SESSIONS_SEQUENCES_H

#include <stdint.h>

#include "base/status.h"

typedef struct sequence_slot {
    uint64_t seq;   /* 0: the slot is free */
    uint32_t share; /* of which shared subscription; 0: of none */
    uint16_t id;
} sequence_slot_t;

typedef struct sequences {
    sequence_slot_t *slots;
    uint32_t room; /* a power of two, or 0 */
    uint32_t count;
} sequences_t;

LEAF_MUST_USE status_t sequences_put(sequences_t *sequences, uint16_t id, uint64_t seq); /* replaces */
uint64_t sequences_find(const sequences_t *sequences, uint16_t id);                      /* 0: it stands for none */
void sequences_mark(const sequences_t *sequences, uint16_t id, uint32_t share);
uint32_t sequences_share(const sequences_t *sequences, uint16_t id);
uint64_t sequences_take(sequences_t *sequences, uint16_t id); /* the same, and it is free then */
/* All identifiers, by their sequences; the caller frees them. NULL: there are none, or there is no memory. */
uint16_t *sequences_in_order(const sequences_t *sequences);
void sequences_free(sequences_t *sequences);

#endif
