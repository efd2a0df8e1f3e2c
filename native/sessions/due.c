/* due.c: see due.h. */
#include "sessions/due.h"

#include <stdlib.h>

static void put_at(due_list_t *list, uint32_t at, due_t *due) {
    list->heap[at] = due;
    due->place = at + 1;
}

static void move_up(due_list_t *list, uint32_t at) {
    due_t *due = list->heap[at];
    for (; at > 0 && due->at_ns < list->heap[(at - 1) / 2]->at_ns; at = (at - 1) / 2) {
        put_at(list, at, list->heap[(at - 1) / 2]);
    }
    put_at(list, at, due);
}

static void move_down(due_list_t *list, uint32_t at) {
    due_t *due = list->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < list->count; at = child) {
        child += child + 1 < list->count && list->heap[child + 1]->at_ns < list->heap[child]->at_ns;
        if (list->heap[child]->at_ns >= due->at_ns) {
            break;
        }
        put_at(list, at, list->heap[child]);
    }
    put_at(list, at, due);
}

status_t due_put(due_list_t *list, due_t *due, int64_t at_ns) {
    if (due->place == 0) {
        if (list->count == list->room) {
            uint32_t room = list->room == 0 ? 16 : 2 * list->room;
            due_t **heap = realloc(list->heap, room * sizeof(due_t *));
            if (heap == NULL) {
                return STATUS_NO_MEMORY;
            }
            list->heap = heap;
            list->room = room;
        }
        put_at(list, list->count++, due);
    }
    due->at_ns = at_ns;
    move_up(list, due->place - 1);
    move_down(list, due->place - 1);
    return STATUS_OK;
}

void due_take(due_list_t *list, due_t *due) {
    if (due->place == 0) {
        return;
    }
    uint32_t at = due->place - 1;
    due_t *last = list->heap[--list->count];
    due->place = 0;
    if (last != due) {
        put_at(list, at, last);
        move_up(list, at);
        move_down(list, last->place - 1);
    }
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
