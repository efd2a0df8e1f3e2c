/* gaps.h: long rows of sequences that no message has any more, as they were met by those that went over them. What is
 * gone never comes back, so a row that was gone over once is jumped over from then on. In memory only, the longest few.
 */
#ifndef LEAFD_STORE_GAPS_H
#define LEAFD_STORE_GAPS_H

#include <stdint.h>

#define GAPS_MAX 16
#define GAP_STEPS 64 /* a shorter row is gone over again */

typedef struct gap {
    uint64_t from;
    uint64_t to; /* included */
} gap_t;

typedef struct gaps {
    uint32_t count;
    gap_t at[GAPS_MAX]; /* none touches another */
} gaps_t;

/* The first sequence from seq on, and the last one down from it, that lies in no row. */
uint64_t gaps_over(const gaps_t *gaps, uint64_t seq);
uint64_t gaps_back(const gaps_t *gaps, uint64_t seq);
/* No message has a sequence of [from, to]; rows below `floor` are of no use any more. */
void gaps_learn(gaps_t *gaps, uint64_t from, uint64_t to, uint64_t floor);

#endif
