/* sizes.h: how large a store's parts are: the map, the journal, what may lie in LMDB's pages. Arithmetic only, so that
 * a 64-bit machine can test what a 32-bit one gets.
 *
 * On 32 bit the file store's map, the memory store's map and both rings (each mapped twice) share one address space
 * with the process; a kernel that splits it in halves leaves 2 GiB. All four together take at most SIZES_ADDRESS_32 of
 * it.
 */
#ifndef LEAFD_DISK_SIZES_H
#define LEAFD_DISK_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"

#define SIZES_ADDRESS_32 (UINT64_C(1280) << 20)
#define SIZES_MEMORY_RING (UINT64_C(32) << 20)
#define SIZES_MESSAGE_MORE (UINT64_C(128) * 1024) /* what a batch has beside one message */
#define SIZES_RESERVE_PART 8                      /* of a ring: for deletions, acks and consumer states */
#define SIZES_MEMORY_RING_32 (UINT64_C(16) << 20)

typedef struct store_sizes {
    uint64_t ring;   /* bytes of the byte ring; a new journal has as many */
    uint64_t map;    /* of LMDB's map */
    uint64_t budget; /* LMDB's pages in use may come to so much: beyond it publishers are refused */
} store_sizes_t;

/* max_bytes: what the files may take, 0 = no bound. journal_size: 0 = to be chosen, so that messages of message_max
 * bytes find room. pointer_size: of the machine. */
store_sizes_t sizes_choose(uint64_t max_bytes, uint64_t journal_size, uint64_t message_max, bool memory,
                           uint32_t pointer_size);
/* The ring in which a message of that size finds room, see sizes_message_max. */
uint64_t sizes_ring_for(uint64_t message_max);
/* The largest batch of one message that the ring can hold at all: half the ring, but for the part that is left to
 * deletions, acks and consumer states when publishers fill it. */
static inline uint64_t sizes_message_max(uint64_t ring) {
    return number_less(ring / 2 - ring / SIZES_RESERVE_PART, SIZES_MESSAGE_MORE);
}
/* A ring of at most ring_max bytes (0 = as it is). */
uint64_t sizes_ring_within(uint64_t ring, uint64_t ring_max);

#endif
