/* clockwork.h: the age clock. Ages, windows and expiries are measured on it: nanoseconds that have passed for this
 * store, which no step of the wall clock moves.
 *
 * While the process runs it goes with mono_ns. Over a restart in the same boot too (the boot's id is kept with it).
 * Over a reboot it goes on by what the wall clock says has passed, but only when both readings are believable (after
 * CLOCK_SANE, not backwards): a box without a clock battery wakes up in 1970, and what it slept through cannot be
 * known. Then messages live longer, never shorter.
 *
 * Record META "clock": age 8, mono 8, wall 8, boot id 16.
 */
#ifndef LEAFD_DISK_CLOCKWORK_H
#define LEAFD_DISK_CLOCKWORK_H

#include "base/bytes.h"
#include "base/clock.h"

#define CLOCK_SANE INT64_C(1577836800000000000) /* 2020-01-01 */
#define CLOCK_STEP (2 * NS_PER_SECOND)
#define CLOCK_RECORD_SIZE 40
#define CLOCK_KEEP_NS NS_PER_SECOND
#define BOOT_ID_SIZE 16

typedef struct clockwork {
    int64_t age; /* at mono, wall */
    int64_t mono;
    int64_t wall;
    int64_t kept_mono; /* when it was last written down */
    bool running;      /* has seen a moment since the start */
    bool kept;
    uint8_t boot[BOOT_ID_SIZE];
    uint8_t kept_boot[BOOT_ID_SIZE];
} clockwork_t;

void clockwork_open(clockwork_t *clock, const uint8_t boot[BOOT_ID_SIZE]);
void clockwork_load(clockwork_t *clock, const uint8_t record[CLOCK_RECORD_SIZE]);
void clockwork_save(clockwork_t *clock, uint8_t record[CLOCK_RECORD_SIZE]);
/* Returns the ns by which the wall clock stepped, 0 = it did not. */
int64_t clockwork_advance(clockwork_t *clock, moment_t now);
static inline int64_t clockwork_mono_at(const clockwork_t *clock, int64_t age) {
    return age == INT64_MAX ? INT64_MAX : clock->mono + (age - clock->age);
}
/* The id of this boot of the machine; zeros where the system does not say. */
void clockwork_boot(uint8_t out[BOOT_ID_SIZE]);

#endif
