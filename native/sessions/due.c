/* due.c: see due.h. */
#include "sessions/due.h"

#include <stdlib.h>

#include "base/heap.h"

static bool due_sooner(const void *one, const void *other) {
    return (*(due_t *const *)one)->at_ns < (*(due_t *const *)other)->at_ns;
}

static void due_placed(void *item, uint64_t number) {
    (*(due_t **)item)->place = (uint32_t)number + 1;
}

static const heap_kind_t BY_TIME = {.size = sizeof(due_t *), .sooner = due_sooner, .placed = due_placed};

status_t due_put(due_list_t *list, due_t *due, int64_t at_ns) {
    bool waits = due->place != 0;
    if (!waits && list->count == list->room) {
        uint32_t room = list->room == 0 ? 16 : 2 * list->room;
        due_t **heap = realloc(list->heap, room * sizeof(due_t *));
        if (heap == NULL) {
            return STATUS_NO_MEMORY;
        }
        list->heap = heap;
        list->room = room;
    }
    if (waits) {
        due_take(list, due);
    }
    due->at_ns = at_ns;
    list->heap[list->count] = due;
    heap_rise(&BY_TIME, list->heap, list->count++);
    return STATUS_OK;
}

void due_take(due_list_t *list, due_t *due) {
    if (due->place == 0) {
        return;
    }
    uint64_t count = list->count;
    heap_take(&BY_TIME, list->heap, &count, due->place - 1);
    list->count = (uint32_t)count;
    due->place = 0;
}

due_t *due_next(due_list_t *list, int64_t now_ns) {
    due_t *first = list->count == 0 ? NULL : list->heap[0];
    if (first == NULL || first->at_ns > now_ns) {
        return NULL;
    }
    due_take(list, first);
    return first;
}

void due_free(due_list_t *list) {
    free(list->heap);
    *list = (due_list_t){0};
}
