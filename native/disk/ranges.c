/* ranges.c: see ranges.h. */
#include "disk/ranges.h"

#include <stdlib.h>

#include "base/array.h"

#define RANGES_MIN 256 /* that there is room for at first */

status_t ranges_add(ranges_t *ranges, const batch_op_t *op, uint64_t position) {
    if (ranges->count > 0) {
        range_t *last = &ranges->at[ranges->count - 1];
        if (last->db == op->db && op->db == DB_MESSAGES && bytes_equal(last->to, op->key)) {
            last->to = op->value; /* a stream's first message moves on: sequences below never come back */
            last->position = position;
            return STATUS_OK;
        }
    }
    status_t status = array_reserve(&ranges->at, &ranges->room, ranges->count + 1, RANGES_MIN, sizeof(range_t));
    if (status == STATUS_OK) {
        ranges->at[ranges->count++] = (range_t){.db = op->db, .from = op->key, .to = op->value, .position = position};
    }
    return status;
}

static int range_order(const void *a, const void *b) {
    const range_t *left = a;
    const range_t *right = b;
    return left->db != right->db ? (left->db > right->db) - (left->db < right->db)
                                 : bytes_compare(left->from, right->from);
}

/* In order the ranges are a tree: the middle of a part is its root. A part whose highest end lies below a key has none
 * that holds it. */
static bytes_t ranges_reach(range_t *ranges, uint64_t begin, uint64_t end) {
    uint64_t middle = begin + (end - begin) / 2;
    bytes_t reach = ranges[middle].to;
    bytes_t below = begin < middle ? ranges_reach(ranges, begin, middle) : reach;
    bytes_t above = middle + 1 < end ? ranges_reach(ranges, middle + 1, end) : reach;
    reach = bytes_compare(below, reach) > 0 ? below : reach;
    reach = bytes_compare(above, reach) > 0 ? above : reach;
    ranges[middle].reach = reach;
    return reach;
}

static bool holds(const range_t *range, bytes_t key, uint64_t position) {
    return range->position > position && bytes_compare(range->from, key) <= 0 && bytes_compare(key, range->to) < 0;
}

/* NULL: none. */
static const range_t *part_holder(const range_t *ranges, uint64_t begin, uint64_t end, bytes_t key, uint64_t position) {
    while (begin < end) {
        uint64_t middle = begin + (end - begin) / 2;
        const range_t *range = &ranges[middle];
        if (bytes_compare(range->reach, key) <= 0) {
            return NULL;
        }
        const range_t *below = part_holder(ranges, begin, middle, key, position);
        if (below != NULL) {
            return below;
        }
        if (bytes_compare(range->from, key) > 0) {
            return NULL;
        }
        if (range->position > position && bytes_compare(key, range->to) < 0) {
            return range;
        }
        begin = middle + 1;
    }
    return NULL;
}

void ranges_sort(ranges_t *ranges) {
    if (ranges->count > 0) {
        qsort(ranges->at, ranges->count, sizeof *ranges->at, range_order);
    }
    uint64_t end = 0;
    for (uint32_t db = 0; db < DB_COUNT; db++) {
        uint64_t begin = end;
        while (end < ranges->count && ranges->at[end].db == db) {
            end++;
        }
        ranges->end[db] = end;
        if (begin < end) {
            (void)ranges_reach(ranges->at, begin, end);
        }
    }
}

bool ranges_hold(const ranges_t *ranges, store_db_t db, bytes_t key, uint64_t position, const range_t **last) {
    if (*last != NULL && (*last)->db == db && holds(*last, key, position)) {
        return true;
    }
    *last = part_holder(ranges->at, db == 0 ? 0 : ranges->end[db - 1], ranges->end[db], key, position);
    return *last != NULL;
}

void ranges_free(ranges_t *ranges) {
    free(ranges->at);
    *ranges = (ranges_t){0};
}
