/* overlay_lists.c: see overlay_lists.h. The lists grow by doubling, which moves no bytes once they are large (the C
 * library maps their pages anew), and are bounded by the ops that the byte ring can hold.
 */
#include "store/overlay_lists.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/check.h"
#include "base/heap.h"

#define CAPACITY_MIN 64
#define RUNS_MIN 16

/* The older half is gone since its checkpoint was there. Each half of `list` has at, count and capacity. */
#define ROTATE(list)                                                                                                   \
    do {                                                                                                               \
        check((list)[OLDER].count == 0);                                                                               \
        free((list)[OLDER].at);                                                                                        \
        (list)[OLDER] = (list)[NEWER];                                                                                 \
        (list)[NEWER].at = NULL;                                                                                       \
        (list)[NEWER].count = (list)[NEWER].capacity = 0;                                                              \
    } while (0)

#define DROP(list, which)                                                                                              \
    do {                                                                                                               \
        free((list)[which].at);                                                                                        \
        (list)[which].at = NULL;                                                                                       \
        (list)[which].count = (list)[which].capacity = 0;                                                              \
    } while (0)

/* ---- ops by sequence --------------------------------------------------------------------------------------------- */

status_t op_index_reserve(op_index_t *list, uint64_t more) {
    return array_reserve(&list->half[NEWER].at, &list->half[NEWER].capacity, list->half[NEWER].count + more,
                         CAPACITY_MIN, sizeof(indexed_op_t));
}

void op_index_push(op_index_t *list, uint64_t seq, uint64_t position) {
    check(list->half[NEWER].count < list->half[NEWER].capacity);
    list->half[NEWER].at[list->half[NEWER].count++] = (indexed_op_t){.seq = seq, .position = position};
}

uint64_t op_index_count(const op_index_t *list) {
    return list->half[OLDER].count + list->half[NEWER].count;
}

indexed_op_t op_index_get(const op_index_t *list, uint64_t index) {
    uint64_t older = list->half[OLDER].count;
    return index < older ? list->half[OLDER].at[index] : list->half[NEWER].at[index - older];
}

uint64_t op_index_first(const op_index_t *list) {
    return op_index_count(list) == 0 ? UINT64_MAX : op_index_get(list, 0).seq;
}

static uint64_t op_search(const indexed_op_t *at, uint64_t count, uint64_t seq) {
    uint64_t low = 0;
    uint64_t high = count;
    if (count == 0 || seq <= at[0].seq) {
        return 0;
    }
    /* Without gaps the distance is the index; with gaps it is an upper bound. */
    uint64_t guess = seq - at[0].seq;
    if (guess < count) {
        if (at[guess].seq == seq) {
            return guess;
        }
        high = guess;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (at[middle].seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t op_index_find(const op_index_t *list, uint64_t seq) {
    uint64_t older = list->half[OLDER].count;
    if (older > 0 && list->half[OLDER].at[older - 1].seq >= seq) {
        return op_search(list->half[OLDER].at, older, seq);
    }
    return older + op_search(list->half[NEWER].at, list->half[NEWER].count, seq);
}

void op_index_rotate(op_index_t *list) {
    ROTATE(list->half);
}

void op_index_drop(op_index_t *list) {
    DROP(list->half, OLDER);
}

void op_index_free(op_index_t *list) {
    DROP(list->half, OLDER);
    DROP(list->half, NEWER);
}

/* ---- expiries ---------------------------------------------------------------------------------------------------- */

static bool expiry_sooner(const void *one, const void *other) {
    const expiry_t *a = one, *b = other;
    return a->expires != b->expires ? a->expires < b->expires : a->seq < b->seq;
}

static const heap_kind_t by_time = {.size = sizeof(expiry_t), .sooner = expiry_sooner};

status_t expiries_reserve(expiries_t *expiries, uint64_t more) {
    return array_reserve(&expiries->half[NEWER].at, &expiries->half[NEWER].capacity, expiries->half[NEWER].count + more,
                         CAPACITY_MIN, sizeof(expiry_t));
}

void expiries_push(expiries_t *expiries, expiry_t entry) {
    check(expiries->half[NEWER].count < expiries->half[NEWER].capacity);
    uint64_t number = expiries->half[NEWER].count++;
    expiries->half[NEWER].at[number] = entry;
    heap_rise(&by_time, expiries->half[NEWER].at, number);
}

/* The half that has the soonest. */
static int soonest_half(const expiries_t *expiries) {
    bool older = expiries->half[OLDER].count > 0;
    bool newer = expiries->half[NEWER].count > 0;
    if (older && newer) {
        return expiry_sooner(&expiries->half[NEWER].at[0], &expiries->half[OLDER].at[0]) ? NEWER : OLDER;
    }
    return newer ? NEWER : OLDER;
}

const expiry_t *expiries_first(const expiries_t *expiries) {
    int half = soonest_half(expiries);
    return expiries->half[half].count > 0 ? &expiries->half[half].at[0] : NULL;
}

void expiries_pop(expiries_t *expiries) {
    int half = soonest_half(expiries);
    heap_take(&by_time, expiries->half[half].at, &expiries->half[half].count, 0);
}

void expiries_rotate(expiries_t *expiries) {
    ROTATE(expiries->half);
}

void expiries_drop(expiries_t *expiries) {
    DROP(expiries->half, OLDER);
}

void expiries_free(expiries_t *expiries) {
    DROP(expiries->half, OLDER);
    DROP(expiries->half, NEWER);
}

/* ---- newcomers --------------------------------------------------------------------------------------------------- */

status_t newcomers_reserve(newcomers_t *newcomers, uint64_t more) {
    return array_reserve(&newcomers->half[NEWER].at, &newcomers->half[NEWER].capacity,
                         newcomers->half[NEWER].count + more, CAPACITY_MIN, sizeof(uint64_t));
}

void newcomers_push(newcomers_t *newcomers, uint64_t position) {
    check(newcomers->half[NEWER].count < newcomers->half[NEWER].capacity);
    newcomers->half[NEWER].at[newcomers->half[NEWER].count++] = position;
}

void newcomers_rotate(newcomers_t *newcomers) {
    ROTATE(newcomers->half);
}

void newcomers_drop(newcomers_t *newcomers) {
    DROP(newcomers->half, OLDER);
}

void newcomers_free(newcomers_t *newcomers) {
    DROP(newcomers->half, OLDER);
    DROP(newcomers->half, NEWER);
}

/* ---- births: newcomers in runs ----------------------------------------------------------------------------------- */

status_t births_reserve(births_t *births, uint64_t more) {
    uint64_t runs = births->runs[NEWER].count + more / BIRTH_RUN + 2; /* the last one may be full before its end */
    status_t status =
        array_reserve(&births->runs[NEWER].at, &births->runs[NEWER].capacity, runs, RUNS_MIN, sizeof(run_t));
    return status == STATUS_OK ? newcomers_reserve(&births->list, more) : status;
}

void births_push(births_t *births, uint64_t position) {
    uint64_t count = births->runs[NEWER].count;
    run_t *last = count > 0 ? &births->runs[NEWER].at[count - 1] : NULL;
    if (last == NULL || last->end - last->begin == BIRTH_RUN) {
        check(count < births->runs[NEWER].capacity);
        uint64_t begin = births->list.half[NEWER].count;
        last = &births->runs[NEWER].at[births->runs[NEWER].count++];
        *last = (run_t){.begin = begin, .end = begin};
    }
    newcomers_push(&births->list, position);
    last->end++;
    last->sorted = false;
}

void births_rotate(births_t *births) {
    newcomers_rotate(&births->list);
    ROTATE(births->runs);
}

void births_drop(births_t *births) {
    newcomers_drop(&births->list);
    DROP(births->runs, OLDER);
}

void births_free(births_t *births) {
    newcomers_free(&births->list);
    DROP(births->runs, OLDER);
    DROP(births->runs, NEWER);
}
