/* sizes.c: see sizes.h. */
#include "disk/sizes.h"

#include "disk/batch.h"

#define MIB (UINT64_C(1) << 20)
#define MAP_UNLIMITED (UINT64_C(1) << 40)
#define MAP_MAX (UINT64_C(16) << 40)
#define MAP_MAX_32 (UINT64_C(832) << 20)
#define MAP_MAX_32_MEMORY (UINT64_C(192) << 20)
#define MAP_MIN (64 * MIB)
/* The size of a journal that leafd chooses. The ring in memory is as large, and one of 64 MiB was no faster, but took
 * more processor time (memory that is not in the cache) and more disk. */
#define JOURNAL_USUAL (16 * MIB)
#define JOURNAL_MAX (64 * MIB)
#define JOURNAL_MAX_32 (32 * MIB)
#define JOURNAL_STEP UINT64_C(65536)
#define BUDGET_MIN (16 * MIB) /* below it a limit counts messages alone: LMDB's own pages would be most of it */

_Static_assert(MAP_MAX_32 + MAP_MAX_32_MEMORY + 2 * (JOURNAL_MAX_32 + SIZES_MEMORY_RING_32) <= SIZES_ADDRESS_32,
               "both maps and both doubled rings fit beside the process on 32 bit");

uint64_t sizes_ring_for(uint64_t message_max) {
    uint64_t most = number_least(message_max, JOURNAL_MAX) + SIZES_MESSAGE_MORE + JOURNAL_STEP; /* with the subject */
    return most * 2 * SIZES_RESERVE_PART / (SIZES_RESERVE_PART - 2);
}

static uint64_t ring_of(uint64_t max_bytes, uint64_t journal_size, uint64_t message_max, bool memory, bool narrow) {
    if (memory) {
        return narrow ? SIZES_MEMORY_RING_32 : SIZES_MEMORY_RING;
    }
    uint64_t ring = journal_size;
    if (ring == 0) {
        uint64_t most = max_bytes == 0 ? JOURNAL_MAX : number_least(max_bytes / 8, JOURNAL_MAX);
        ring = number_most(number_least(sizes_ring_for(message_max), most), JOURNAL_USUAL);
    }
    ring = narrow ? number_least(ring, JOURNAL_MAX_32) : ring;
    return (number_most(ring, BATCH_RING_MIN) + JOURNAL_STEP - 1) / JOURNAL_STEP * JOURNAL_STEP;
}

uint64_t sizes_ring_within(uint64_t ring, uint64_t ring_max) {
    return ring_max == 0 ? ring
                         : number_least(ring, number_most(ring_max, BATCH_RING_MIN) / JOURNAL_STEP * JOURNAL_STEP);
}

store_sizes_t sizes_choose(uint64_t max_bytes, uint64_t journal_size, uint64_t message_max, bool memory,
                           uint32_t pointer_size) {
    bool narrow = pointer_size <= 4;
    store_sizes_t sizes = {.ring = ring_of(max_bytes, journal_size, message_max, memory, narrow)};
    uint64_t limit = !narrow ? MAP_MAX : memory ? MAP_MAX_32_MEMORY : MAP_MAX_32;
    uint64_t reserve = 3 * sizes.ring + MAP_MIN;
    uint64_t data = max_bytes == 0 ? MAP_UNLIMITED : number_least(max_bytes, limit);
    sizes.map = number_least(data + data / 2 + reserve, limit); /* free pages, page ends */
    sizes.budget = sizes.map > 2 * reserve ? sizes.map - reserve : sizes.map / 2;
    if (max_bytes != 0) {
        uint64_t journal = memory ? 0 : number_least(sizes.ring, max_bytes / 4);
        sizes.budget = number_least(sizes.budget, number_most(max_bytes - journal, BUDGET_MIN));
    }
    return sizes;
}
