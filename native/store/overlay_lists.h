/* overlay_lists.h: lists of positions of ops that no checkpoint covers yet, each for one question: where is the message
 * of a sequence, what expires next, which ops are new since the checkpoint began. Numbers only; knows neither the ring
 * nor a stream.
 *
 * Each list is two: what the running checkpoint covers, and what came since. A checkpoint begins: the newer one becomes
 * the older one. It is there: the older one goes as a whole, and nobody looks at its entries.
 */
#ifndef LEAFD_STORE_OVERLAY_LISTS_H
#define LEAFD_STORE_OVERLAY_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define HALVES 2 /* of a list: the older one, then the newer one */
#define OLDER 0
#define NEWER 1

/* A message in the overlay, and where in the log its op is. Sequences ascend; skipped ones have no entry. */
typedef struct indexed_op {
    uint64_t seq;
    uint64_t position;
} indexed_op_t;

typedef struct op_index {
    struct {
        indexed_op_t *at;
        uint64_t count;
        uint64_t capacity;
    } half[HALVES];
} op_index_t;

typedef struct expiry {
    int64_t expires;
    uint64_t seq; /* as in the key: perhaps with EXPIRY_SCHEDULE */
} expiry_t;

/* TTL messages and schedules of the overlay, binary heaps by time, then by sequence; what is checkpointed is found
 * there by key order. */
typedef struct expiries {
    struct {
        expiry_t *at;
        uint64_t count;
        uint64_t capacity;
    } half[HALVES];
} expiries_t;

/* Positions of ops of the overlay. */
typedef struct newcomers {
    struct {
        uint64_t *at;
        uint64_t count;
        uint64_t capacity;
    } half[HALVES];
} newcomers_t;

/* Subjects born in the overlay: the message ops that brought them; some may be gone again. In runs, which walk.c
 * sorts when it needs them; no run goes across what a checkpoint covers and what it does not. */
#define BIRTH_RUN 1024
typedef struct run {
    uint64_t begin; /* of half[].at of the list */
    uint64_t end;
    bool sorted;
} run_t;

typedef struct births {
    newcomers_t list;
    struct {
        run_t *at;
        uint64_t count;
        uint64_t capacity;
    } runs[HALVES];
} births_t;

/* Pushing needs room that was reserved before: what is noted of a message that was written cannot fail. */
LEAF_MUST_USE status_t op_index_reserve(op_index_t *list, uint64_t more);
void op_index_push(op_index_t *list, uint64_t seq, uint64_t position);
void op_index_rotate(op_index_t *list);
void op_index_drop(op_index_t *list);
void op_index_free(op_index_t *list);
/* How many there are: an op's index is below it, and holds until the next push or drop. */
uint64_t op_index_count(const op_index_t *list);
/* Index of the first op at or above seq; == op_index_count when there is none. */
uint64_t op_index_find(const op_index_t *list, uint64_t seq);
indexed_op_t op_index_get(const op_index_t *list, uint64_t index);
/* First sequence in the overlay, UINT64_MAX when there is none. */
uint64_t op_index_first(const op_index_t *list);
LEAF_MUST_USE status_t expiries_reserve(expiries_t *expiries, uint64_t more);
void expiries_push(expiries_t *expiries, expiry_t entry);
/* The soonest, NULL: there is none. Holds until the next push, pop or drop. */
const expiry_t *expiries_first(const expiries_t *expiries);
void expiries_pop(expiries_t *expiries);
void expiries_rotate(expiries_t *expiries);
void expiries_drop(expiries_t *expiries);
void expiries_free(expiries_t *expiries);
LEAF_MUST_USE status_t newcomers_reserve(newcomers_t *newcomers, uint64_t more);
void newcomers_push(newcomers_t *newcomers, uint64_t position);
void newcomers_rotate(newcomers_t *newcomers);
void newcomers_drop(newcomers_t *newcomers);
void newcomers_free(newcomers_t *newcomers);
LEAF_MUST_USE status_t births_reserve(births_t *births, uint64_t more);
void births_push(births_t *births, uint64_t position);
void births_rotate(births_t *births);
void births_drop(births_t *births);
void births_free(births_t *births);

#endif
