/* due.h: what is due at a time, the earliest first: a heap of members of the caller's structs.
 *
 * A member knows its place, so it can be taken out before its time. Not here: the heap (base/heap.h), what is done
 * when a member is due.
 */
#ifndef LEAFD_SESSIONS_DUE_H
#define LEAFD_SESSIONS_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct due {
    int64_t at_ns;  /* mono */
    uint32_t place; /* 1 and up; 0: it waits for nothing */
} due_t;

typedef struct due_list {
    due_t **heap;
    uint32_t count;
    uint32_t room;
} due_list_t;

/* Puts an entry, which may wait already for another time. STATUS_NO_MEMORY: as it was. */
LEAF_MUST_USE status_t due_put(due_list_t *list, due_t *due, int64_t at_ns);
void due_take(due_list_t *list, due_t *due); /* fine if it waits for nothing */
/* Taken out. NULL: nothing is due. */
due_t *due_next(due_list_t *list, int64_t now_ns);
void due_free(due_list_t *list);

#endif
