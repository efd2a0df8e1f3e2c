/* places.c: the small containers of a stream's part of the overlay: places of messages by sequence, expiry times,
 * newly born subjects. They grow by doubling and are bounded by the ops that the byte ring can hold. */
#include <stdlib.h>
#include <string.h>

#include "store/places.h"
#include "base/array.h"

#define CAPACITY_MIN 64
#define RUNS_MIN 16
#define CAPACITY_KEEP 4096

/* ---- places ------------------------------------------------------------------------------------------------------ */

status_t places_reserve(places_t *places, uint64_t more) {
    uint64_t count = places->end - places->begin;
    if (count + more <= places->capacity) {
        return STATUS_OK;
    }
    uint64_t capacity = places->capacity > 0 ? places->capacity * 2 : CAPACITY_MIN;
    while (capacity < count + more) {
        capacity *= 2;
    }
    place_t *at = malloc(capacity * sizeof *at);
    if (at == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (uint64_t i = 0; i < count; i++) {
        at[i] = places_get(places, places->begin + i);
    }
    free(places->at);
    *places = (places_t){.at = at, .capacity = capacity, .begin = 0, .end = count};
    return STATUS_OK;
}

void places_push(places_t *places, uint64_t seq, uint64_t position) {
    places->at[places->end++ & (places->capacity - 1)] = (place_t){.seq = seq, .position = position};
}

place_t places_get(const places_t *places, uint64_t index) {
    return places->at[index & (places->capacity - 1)];
}

uint64_t places_first(const places_t *places) {
    return places->begin == places->end ? UINT64_MAX : places_get(places, places->begin).seq;
}

uint64_t places_find(const places_t *places, uint64_t seq) {
    uint64_t low = places->begin;
    uint64_t high = places->end;
    if (low == high) {
        return high;
    }
    uint64_t first = places_get(places, low).seq;
    if (seq <= first) {
        return low;
    }
    /* Without gaps the distance is the index; with gaps it is an upper bound. */
    uint64_t guess = seq - first;
    if (guess < high - low) {
        if (places_get(places, low + guess).seq == seq) {
            return low + guess;
        }
        high = low + guess;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (places_get(places, middle).seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void places_drop_below(places_t *places, uint64_t seq) {
    places->begin = places_find(places, seq);
    if (places->begin == places->end) {
        if (places->capacity > CAPACITY_KEEP) {
            free(places->at);
            *places = (places_t){0};
        }
        places->begin = places->end = 0;
    }
}

/* ---- expiries: a binary heap, by time, then by sequence ---------------------------------------------------------- */

static bool expiry_is_sooner(expiry_t a, expiry_t b) {
    return a.expires != b.expires ? a.expires < b.expires : a.seq < b.seq;
}

status_t expiries_reserve(expiries_t *expiries, uint64_t more) {
    return array_reserve(&expiries->at, &expiries->capacity, expiries->count + more, CAPACITY_MIN, sizeof(expiry_t));
}

void expiries_push(expiries_t *expiries, expiry_t entry) {
    check(expiries->count < expiries->capacity);
    uint64_t i = expiries->count++;
    while (i > 0 && expiry_is_sooner(entry, expiries->at[(i - 1) / 2])) {
        expiries->at[i] = expiries->at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    expiries->at[i] = entry;
}

static void expiries_sink(expiries_t *expiries, uint64_t i) {
    expiry_t entry = expiries->at[i];
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= expiries->count) {
            break;
        }
        if (child + 1 < expiries->count && expiry_is_sooner(expiries->at[child + 1], expiries->at[child])) {
            child++;
        }
        if (!expiry_is_sooner(expiries->at[child], entry)) {
            break;
        }
        expiries->at[i] = expiries->at[child];
        i = child;
    }
    expiries->at[i] = entry;
}

void expiries_pop(expiries_t *expiries) {
    expiries->at[0] = expiries->at[--expiries->count];
    if (expiries->count > 0) {
        expiries_sink(expiries, 0);
    }
}

void expiries_drop_below(expiries_t *expiries, uint64_t position) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < expiries->count; i++) {
        if (expiries->at[i].position >= position) {
            expiries->at[kept++] = expiries->at[i];
        }
    }
    expiries->count = kept;
    for (uint64_t i = kept / 2; i-- > 0;) {
        expiries_sink(expiries, i);
    }
    if (kept == 0) {
        free(expiries->at);
        *expiries = (expiries_t){0};
    }
}

/* ---- newcomers --------------------------------------------------------------------------------------------------- */

status_t newcomers_reserve(newcomers_t *newcomers, uint64_t more) {
    return array_reserve(&newcomers->at, &newcomers->capacity, newcomers->count + more, CAPACITY_MIN, sizeof(uint64_t));
}

void newcomers_push(newcomers_t *newcomers, uint64_t position) {
    check(newcomers->count < newcomers->capacity);
    newcomers->at[newcomers->count++] = position;
}

void newcomers_drop(newcomers_t *newcomers) {
    if (newcomers->boundary == 0) {
        return;
    }
    newcomers->count -= newcomers->boundary;
    if (newcomers->count > 0) {
        memmove(newcomers->at, newcomers->at + newcomers->boundary, newcomers->count * sizeof *newcomers->at);
    } else if (newcomers->capacity > CAPACITY_KEEP) {
        free(newcomers->at);
        newcomers->at = NULL;
        newcomers->capacity = 0;
    }
    newcomers->boundary = 0;
}

/* ---- births: newcomers in runs ----------------------------------------------------------------------------------- */

status_t births_reserve(births_t *births, uint64_t more) {
    uint64_t runs = births->run_count + more / BIRTH_RUN + 2; /* the last one may be closed, or full before its end */
    status_t status = array_reserve(&births->runs, &births->run_capacity, runs, RUNS_MIN, sizeof(run_t));
    return status == STATUS_OK ? newcomers_reserve(&births->list, more) : status;
}

void births_push(births_t *births, uint64_t position) {
    run_t *last = births->run_count > 0 ? &births->runs[births->run_count - 1] : NULL;
    uint64_t begin = births->run_count > 1 ? births->runs[births->run_count - 2].end : 0;
    if (last == NULL || last->closed || last->end - begin == BIRTH_RUN) {
        check(births->run_count < births->run_capacity);
        last = &births->runs[births->run_count];
        *last = (run_t){.end = births->list.count};
        births->run_count++;
    }
    newcomers_push(&births->list, position);
    last->end++;
    last->sorted = false;
}

void births_rotate(births_t *births) {
    births->list.boundary = births->list.count;
    if (births->run_count > 0) {
        births->runs[births->run_count - 1].closed = true;
    }
}

void births_drop(births_t *births) {
    uint64_t boundary = births->list.boundary;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < births->run_count; i++) {
        run_t run = births->runs[i];
        if (run.end > boundary) {
            run.end -= boundary;
            births->runs[kept++] = run;
        }
    }
    births->run_count = kept;
    newcomers_drop(&births->list);
}

void births_free(births_t *births) {
    free(births->list.at);
    free(births->runs);
    *births = (births_t){0};
}
