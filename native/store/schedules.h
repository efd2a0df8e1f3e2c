/* schedules.h: the times of messages that are to do something (schedules.c): asked for, set and ended by the code that
 * carries out what store_hooks_t.due tells of. A first time comes with the message (append.h).
 */
#ifndef LEAFD_STORE_SCHEDULES_H
#define LEAFD_STORE_SCHEDULES_H

#include "store/store.h"

/* Only from inside the hook `due`, for that message: the schedule's next time, as wall ns. Waits for as long as lies
 * between now and then, whatever the wall clock does meanwhile. A message that a limit took meanwhile gets none. */
LEAF_MUST_USE status_t store_schedule(store_stream_t *stream, uint64_t seq, int64_t due_ts, moment_t now);
/* The same from anywhere else. STATUS_FULL: no room, later */
LEAF_MUST_USE status_t store_schedule_again(store_stream_t *stream, uint64_t seq, int64_t due_ts, moment_t now);
/* Is that its time, due or not? ENTRY_NONE: it has another one, or is no schedule. */
LEAF_MUST_USE entry_outcome_t store_schedule_asked(store_stream_t *stream, uint64_t seq, int64_t due_ts);
/* It has no time any more. STATUS_FULL: no room, later. */
LEAF_MUST_USE status_t store_schedule_over(store_stream_t *stream, uint64_t seq);

#endif
