/* space.c: see space.h. */
#include "disk/space.h"
#include "base/number.h"

#define MIB (UINT64_C(1) << 20)
#define RESERVE_MIN (2 * MIB)
#define RESERVE_MIN_MEMORY (1 * MIB)
/* of the pages in use: a large removal's list of freed pages takes 1/512 of them, in one piece */
#define RESERVE_PART 256
#define AHEAD_MIN (6 * MIB)
#define AHEAD_IDLE (16 * MIB)
#define PLENTY (1024 * MIB)
#define SAFE (512 * MIB) /* what others may take between two looks */
#define SAFE_MEMORY (8 * MIB)
#define SAFE_LOOSE (32 * MIB)
/* Bytes of file for a byte of the ring, 5/2: a message of 100 bytes takes 1.4, one that is a little more than fits into
 * its pages 2, and pages of entries in no order are two thirds full. */
#define GROWTH_UP 5
#define GROWTH_DOWN 2
#define KEEP_PART 8
#define PUBLISHERS_PART 8 /* the ring's last eighth is left to deletions, acks and consumer states */

static uint64_t space_ceiling(const space_t *space) {
    return space->ring - space->ring / PUBLISHERS_PART;
}

uint64_t space_reserve(const space_t *space) {
    return (space->memory ? RESERVE_MIN_MEMORY : RESERVE_MIN) + space->used / RESERVE_PART;
}

uint64_t space_wanted(const space_t *space) {
    uint64_t reserve = space_reserve(space);
    uint64_t full = space_ceiling(space) / GROWTH_DOWN * GROWTH_UP;
    if (space->memory) {
        return reserve;
    }
    if (space->disk_free > PLENTY) {
        return reserve + number_least(full, AHEAD_IDLE);
    }
    uint64_t part = space->disk_free / 8;
    reserve += space->agreed / GROWTH_DOWN * GROWTH_UP;
    return reserve + number_least(full, part > AHEAD_MIN ? part : AHEAD_MIN);
}

uint64_t space_keep(const space_t *space) {
    uint64_t full = space_ceiling(space) / GROWTH_DOWN * GROWTH_UP + space_reserve(space);
    return number_most(full, number_less(space->used, space->free_pages) / KEEP_PART);
}

bool space_scarce(const space_t *space) {
    return space->disk_free <= PLENTY;
}

/* Behind the pages in use. */
static uint64_t space_free(const space_t *space) {
    uint64_t safe = space->memory ? SAFE_MEMORY : space->firm ? SAFE : SAFE_LOOSE;
    return space->ahead + number_less(space->disk_free, safe);
}

static uint64_t space_by_disk(const space_t *space) {
    uint64_t room = number_least(space_free(space), space->map_left)
                    + number_less(space->free_pages, space->holes) / 2; /* free pages may lie in pieces */
    return number_less(room, space_reserve(space)) / GROWTH_UP * GROWTH_DOWN;
}

uint64_t space_grants(const space_t *space) {
    return number_least(space_by_disk(space), space_ceiling(space));
}

uint64_t space_admits(const space_t *space, space_short_t *by) {
    uint64_t by_disk = number_less(space_by_disk(space), space->agreed);
    uint64_t by_limit = number_less(space->budget, number_less(space->used, space->free_pages)) / 2;
    uint64_t admits = number_least(number_least(by_disk, by_limit), space_ceiling(space));
    *by = admits >= SPACE_RESUME                                       ? SPACE_ENOUGH
          : by_disk < by_limit && space_free(space) <= space->map_left ? SPACE_DISK
                                                                       : SPACE_LIMIT;
    return admits;
}
