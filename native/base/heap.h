/* heap.h: a binary heap in an array of items of any kind: the first item is the soonest one.
 *
 *     items       [ 3 | 5 | 4 | 9 | 6 ]        below number i are 2 * i + 1 and 2 * i + 2, neither sooner than it
 *
 * A kind of item is a constant that its file has for itself. Everything here is inline, so a heap costs what one that
 * is written for its kind alone does. Not here: room in the array (array.h), what an item is.
 */
#ifndef LEAFD_BASE_HEAP_H
#define LEAFD_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

#define HEAP_ITEM_MAX 128u /* bytes of an item */

typedef struct heap_kind {
    size_t size; /* of an item */
    bool (*sooner)(const void *one, const void *other);
    void (*placed)(void *item, uint64_t number); /* told where an item is now, unless NULL */
} heap_kind_t;

static inline void *heap_item(const heap_kind_t *kind, void *items, uint64_t number) {
    return (uint8_t *)items + number * kind->size;
}

static inline void heap_put(const heap_kind_t *kind, void *items, uint64_t number, const void *item) {
    void *to = heap_item(kind, items, number);
    memcpy(to, item, kind->size);
    if (kind->placed != NULL) {
        kind->placed(to, number);
    }
}

/* The item of that number has come, or is sooner than it was. */
static inline void heap_rise(const heap_kind_t *kind, void *items, uint64_t number) {
    _Alignas(max_align_t) uint8_t moving[HEAP_ITEM_MAX];
    check(kind->size <= sizeof moving);
    memcpy(moving, heap_item(kind, items, number), kind->size);
    while (number > 0 && kind->sooner(moving, heap_item(kind, items, (number - 1) / 2))) {
        heap_put(kind, items, number, heap_item(kind, items, (number - 1) / 2));
        number = (number - 1) / 2;
    }
    heap_put(kind, items, number, moving);
}

/* The item of that number is later than it was. */
static inline void heap_sink(const heap_kind_t *kind, void *items, uint64_t count, uint64_t number) {
    _Alignas(max_align_t) uint8_t moving[HEAP_ITEM_MAX];
    check(kind->size <= sizeof moving && number < count);
    memcpy(moving, heap_item(kind, items, number), kind->size);
    for (;;) {
        uint64_t child = number * 2 + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && kind->sooner(heap_item(kind, items, child + 1), heap_item(kind, items, child))) {
            child++;
        }
        if (!kind->sooner(heap_item(kind, items, child), moving)) {
            break;
        }
        heap_put(kind, items, number, heap_item(kind, items, child));
        number = child;
    }
    heap_put(kind, items, number, moving);
}

/* Takes out the item of that number. *count: one fewer afterwards. */
static inline void heap_take(const heap_kind_t *kind, void *items, uint64_t *count, uint64_t number) {
    check(number < *count);
    uint64_t last = --*count;
    if (number == last) {
        return;
    }
    heap_put(kind, items, number, heap_item(kind, items, last));
    if (number > 0 && kind->sooner(heap_item(kind, items, number), heap_item(kind, items, (number - 1) / 2))) {
        heap_rise(kind, items, number);
    } else {
        heap_sink(kind, items, *count, number);
    }
}

/* Makes a heap of items in any order. */
static inline void heap_make(const heap_kind_t *kind, void *items, uint64_t count) {
    for (uint64_t number = count / 2; number-- > 0;) {
        heap_sink(kind, items, count, number);
    }
}

#endif
