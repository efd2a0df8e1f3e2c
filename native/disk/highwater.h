/* highwater.h: the high-water mark: up to where the journal was on disk when that was noted last. In a file of its own,
 * so that the loss of the journal's end does not go unnoticed: what was acknowledged last has no batch behind it that
 * would witness it. Knows no batches, no journal, no thread.
 *
 *   file "highwater": magic "leafdhwm" 8, position 8 (of the next batch), number 8 and checksum 4 (of the last one),
 *                     crc 4 (over the rest), store id 16, zeros up to 4 KiB
 *
 * Written over after each sync of the journal, and not synced itself: that costs a microsecond, and is enough, because
 * the page cache outlives the process. After a power cut the mark may be an older one, which says less and nothing
 * wrong: what it speaks of was on disk before it was written.
 */
#ifndef LEAFD_DISK_HIGHWATER_H
#define LEAFD_DISK_HIGHWATER_H

#include <stdint.h>

#include "base/outcome.h"

#define HIGHWATER_ID_SIZE 16

typedef struct highwater {
    int fd; /* -1: none, and nothing is noted: the disk had no room for the file, or refused it */
} highwater_t;

typedef struct highwater_mark {
    uint64_t position;
    uint64_t number;
    uint32_t chain;
} highwater_mark_t;

/* Opens the file in directory, or makes it. ENTRY_FOUND: *found is that store's mark. Notes can be made after each
 * outcome, if fd is not -1. */
LEAF_MUST_USE entry_outcome_t highwater_open(highwater_t *highwater, const char *directory,
                                             const uint8_t store_id[HIGHWATER_ID_SIZE], highwater_mark_t *found);
/* Best effort: a mark that is not written leaves the one before, which holds as well. */
void highwater_note(const highwater_t *highwater, const uint8_t store_id[HIGHWATER_ID_SIZE], highwater_mark_t mark);
void highwater_close(highwater_t *highwater);

#endif
