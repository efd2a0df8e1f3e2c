/* test_overlay_lists.c: the lists of what no checkpoint covers yet: what is in them, in which order, while checkpoints
 * begin and end at any moment. */
#include <stdlib.h>

#include "base/visits.h"
#include "store/overlay_lists.h"
#include "test.h"

#define MANY 20000u

static uint64_t seed = 7;

static uint64_t drawn(uint64_t below) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 33) % below;
}

/* Sequences with gaps, against a plain array: [older, newer, end) of it are in the list. */
static void ops_by_sequence_between_checkpoints(void) {
    static uint64_t seqs[MANY];
    op_index_t list = {0};
    uint64_t seq = 0;
    uint32_t begin = 0, newer = 0, end = 0;
    while (end < MANY) {
        if (drawn(500) == 0) {
            begin = newer;
            op_index_drop(&list);
            CHECK_EQ_U64(end - begin, op_index_count(&list));
            if (drawn(2) == 0) {
                op_index_rotate(&list);
                newer = end;
            }
        }
        seq += 1 + (drawn(10) == 0 ? drawn(50) : 0);
        CHECK_EQ_I64(STATUS_OK, op_index_reserve(&list, 1));
        op_index_push(&list, seq, seq * 3);
        seqs[end++] = seq;
        CHECK_EQ_U64(seqs[begin], op_index_first(&list));
        uint64_t asked = seqs[begin] + drawn(seq - seqs[begin] + 2);
        uint64_t index = op_index_find(&list, asked);
        CHECK(index == op_index_count(&list) || op_index_get(&list, index).seq >= asked);
        CHECK(index == 0 || op_index_get(&list, index - 1).seq < asked);
        uint32_t any = (uint32_t)drawn(end - begin);
        CHECK_EQ_U64(seqs[begin + any], op_index_get(&list, any).seq);
        CHECK_EQ_U64(seqs[begin + any] * 3, op_index_get(&list, any).position);
    }
    op_index_free(&list);
    CHECK_EQ_U64(UINT64_MAX, op_index_first(&list));
}

/* What is not checkpointed comes up in the order of its time, from both halves; the rest is left to LMDB. */
static void expiries_between_checkpoints(void) {
    expiries_t expiries = {0};
    uint32_t older = 0, newer = 0;
    expiry_t last = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ_I64(STATUS_OK, expiries_reserve(&expiries, 1));
        expiries_push(&expiries, (expiry_t){.expires = (int64_t)drawn(1000), .seq = i});
        newer++;
        if (i == MANY / 4 || i == MANY / 2) {
            expiries_drop(&expiries);
            expiries_rotate(&expiries);
            older = newer;
            newer = 0;
        }
    }
    for (uint32_t left = older + newer; left > 0; left--) {
        const expiry_t *first = expiries_first(&expiries);
        CHECK(first != NULL);
        CHECK(first->expires > last.expires || (first->expires == last.expires && first->seq >= last.seq));
        last = *first;
        expiries_pop(&expiries);
    }
    CHECK(expiries_first(&expiries) == NULL);
    expiries_free(&expiries);
}

static void births_between_checkpoints(void) {
    births_t births = {0};
    for (uint64_t i = 0; i < 3 * BIRTH_RUN + 5; i++) {
        CHECK_EQ_I64(STATUS_OK, births_reserve(&births, 1));
        births_push(&births, i);
    }
    births_rotate(&births);
    CHECK_EQ_I64(STATUS_OK, births_reserve(&births, 1));
    births_push(&births, 9);
    CHECK_EQ_U64(4, births.runs[OLDER].count);
    CHECK_EQ_U64(3 * BIRTH_RUN + 5, births.runs[OLDER].at[3].end);
    CHECK_EQ_U64(1, births.runs[NEWER].count);
    births_drop(&births);
    CHECK_EQ_U64(0, births.runs[OLDER].count);
    CHECK_EQ_U64(0, births.runs[NEWER].at[0].begin);
    CHECK_EQ_U64(9, births.list.half[NEWER].at[0]);
    births_free(&births);
}

/* A checkpoint's end costs nothing for each of what it covers, nor of what came since. */
static void an_end_costs_nothing(void) {
    uint64_t blocks[2];
    for (uint32_t round = 0; round < 2; round++) {
        expiries_t expiries = {0};
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t i = 0; i < (round == 0 ? 1 : MANY); i++) {
                CHECK_EQ_I64(STATUS_OK, expiries_reserve(&expiries, 1));
                expiries_push(&expiries, (expiry_t){.expires = (int64_t)i, .seq = i});
            }
            if (half == 0) {
                expiries_rotate(&expiries);
            }
        }
        (void)blocks_take();
        expiries_drop(&expiries);
        blocks[round] = blocks_take();
        expiries_free(&expiries);
    }
    CHECK_EQ_U64(blocks[0], blocks[1]);
}

int main(void) {
    RUN("a message is found by its sequence, whenever a checkpoint begins or ends",
        ops_by_sequence_between_checkpoints);
    RUN("what expires comes in the order of its time, whenever a checkpoint begins or ends",
        expiries_between_checkpoints);
    RUN("no run of new subjects goes across the begin of a checkpoint", births_between_checkpoints);
    RUN("the end of a checkpoint costs the same, however much it covers", an_end_costs_nothing);
    return TEST_RESULT();
}
