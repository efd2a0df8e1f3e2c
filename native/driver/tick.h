/* tick.h: one tick of the sans-IO core, and what driver.c or a test calls of it.
 */
#ifndef LEAFD_DRIVER_TICK_H
#define LEAFD_DRIVER_TICK_H

#include <stdint.h>

#include "base/abi_types.h"
#include "base/clock.h"
#include "base/status.h"

#define COMMANDS_A_TICK 256u
#define CHORES_INTERVAL_NS (500 * NS_PER_MS)

void core_commands(plane_t *plane);          /* everything that waits in the ring */
void core_backlog(plane_t *plane);           /* input that waited: backlog_add */
void core_settle(plane_t *plane);            /* batch, release, consumers, sweep; ends a tick */
int64_t core_sleep_ns(const plane_t *plane); /* until the next thing to do without input */
LEAF_MUST_USE status_t core_open(plane_t *plane, const plane_limits_t *limits, const char *directory,
                                 const char *memory_directory, char *reason);
void core_close(plane_t *plane);
void core_shutdown(plane_t *plane); /* everything appended becomes durable */

/* One turn of driver.c: waits, reads, acts, settles, writes; the thread does nothing else. */
void plane_turn(plane_t *plane);

#endif
