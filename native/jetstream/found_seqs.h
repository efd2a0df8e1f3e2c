/* found_seqs.h: sequences that a search over several subjects found: each once, in order, up to a bound. Knows no
 * stream. Who searches: direct.c. */
#ifndef LEAFD_JETSTREAM_FOUND_SEQS_H
#define LEAFD_JETSTREAM_FOUND_SEQS_H

#include <stdbool.h>
#include <stdint.h>

#define FOUND_SEQS_MAX 1024u

typedef struct found_seqs {
    uint32_t count;
    uint64_t seqs[2 * FOUND_SEQS_MAX]; /* some of them twice, until they are settled */
} found_seqs_t;

/* false: there are more than FOUND_SEQS_MAX, in add at times only when twice as many are there. */
bool found_seqs_add(found_seqs_t *found, uint64_t seq);
bool found_seqs_settle(found_seqs_t *found);
/* The number of settled sequences below seq. */
uint32_t found_seqs_below(const found_seqs_t *found, uint64_t seq);

#endif
