/* places.h: lists of positions of ops that no checkpoint covers yet, each for one question: where is the message of a
 * sequence, what expires next, which ops are new since the checkpoint began. Numbers only; knows neither the ring nor a
 * stream.
 */
#ifndef LEAFD_STORE_PLACES_H
#define LEAFD_STORE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A message in the overlay: where its op is. Sequences ascend; skipped ones have no entry. */
typedef struct place {
    uint64_t seq;
    uint64_t position;
} place_t;

typedef struct places {
    place_t *at; /* circular */
    uint64_t capacity;
    uint64_t begin; /* free-running; index & (capacity - 1) */
    uint64_t end;
} places_t;

typedef struct expiry {
    int64_t expires;
    uint64_t seq;      /* as in the key: perhaps with EXPIRY_SCHEDULE */
    uint64_t position; /* of its op: behind what is checkpointed */
} expiry_t;

/* TTL messages and schedules of the overlay, a binary heap by time; what is checkpointed is found there by key
 * order. */
typedef struct expiries {
    expiry_t *at;
    uint64_t count;
    uint64_t capacity;
} expiries_t;

/* Positions of ops of the overlay. */
typedef struct newcomers {
    uint64_t *at;
    uint64_t count;
    uint64_t capacity;
    uint64_t boundary; /* the first so many are covered by the running checkpoint */
} newcomers_t;

/* Subjects born in the overlay: the message ops that brought them; some may be gone again. In runs, which walk.c
 * sorts when it needs them; no run goes across what a checkpoint covers and what it does not. */
#define BIRTH_RUN 1024
typedef struct run {
    uint64_t end; /* index behind its last; it begins where the one before ends */
    bool sorted;
    bool closed;
} run_t;

typedef struct births {
    newcomers_t list;
    run_t *runs;
    uint32_t run_count;
    uint64_t run_capacity;
} births_t;

/* Pushing needs room that was reserved before: what is noted of a message that was written cannot fail. */
LEAF_MUST_USE status_t places_reserve(places_t *places, uint64_t more);
void places_push(places_t *places, uint64_t seq, uint64_t position);
void places_drop_below(places_t *places, uint64_t seq);
/* Index of the first place at or above seq; == end when none. */
uint64_t places_find(const places_t *places, uint64_t seq);
place_t places_get(const places_t *places, uint64_t index);
/* First sequence in the overlay, UINT64_MAX when there is none. */
uint64_t places_first(const places_t *places);
LEAF_MUST_USE status_t expiries_reserve(expiries_t *expiries, uint64_t more);
void expiries_push(expiries_t *expiries, expiry_t entry);
void expiries_pop(expiries_t *expiries);
void expiries_drop_below(expiries_t *expiries, uint64_t position);
LEAF_MUST_USE status_t newcomers_reserve(newcomers_t *newcomers, uint64_t more);
void newcomers_push(newcomers_t *newcomers, uint64_t position);
void newcomers_drop(newcomers_t *newcomers);
LEAF_MUST_USE status_t births_reserve(births_t *births, uint64_t more);
void births_push(births_t *births, uint64_t position);
void births_rotate(births_t *births);
void births_drop(births_t *births);
void births_free(births_t *births);

#endif
