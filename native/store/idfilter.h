/* idfilter.h: a stream's answer to "was this message id here within the window?" when it is no, which it nearly always
 * is: from a little memory, where a look into LMDB would touch pages all over the index.
 *
 * Blocked Bloom filters, one word an id, in layers. New ids go to the last layer; when it is full a larger one follows,
 * and when it has been taking ids for a whole window another one. A layer goes when the last of its ids has left its
 * window. Nothing is ever taken out of a layer, so an id that is gone may be asked for in vain; and where memory is
 * refused the last layer takes more than it is made for, which costs looks in vain, too. What is never wrong is `no`.
 */
#ifndef LEAFD_STORE_IDFILTER_H
#define LEAFD_STORE_IDFILTER_H

#include <stdbool.h>
#include <stdint.h>

#define IDFILTER_LAYERS 6
#define IDFILTER_ALL_MAX (UINT64_C(8) << 20) /* bytes, of all streams of a store */

typedef struct id_layer {
    uint64_t *words;
    uint64_t count; /* of words, a power of two; it is made for eight times as many ids */
    uint64_t ids;
    int64_t begun;  /* when the first of its ids came, on the age clock */
    int64_t counts; /* an id of it counts before that */
} id_layer_t;

typedef struct id_filter {
    int64_t window_ns;
    int64_t complete; /* from here on, on the age clock, no id counts that is not in it */
    uint32_t layers;
    id_layer_t layer[IDFILTER_LAYERS]; /* the oldest first */
} id_filter_t;

/* complete: as in the struct. *bytes: what all filters of the store take, which stays within IDFILTER_ALL_MAX. */
void idfilter_open(id_filter_t *filter, int64_t window_ns, int64_t complete);
void idfilter_close(id_filter_t *filter, uint64_t *bytes);
/* true: no id with this hash that counts at age_now was noted, nor put before there was a filter. */
bool idfilter_absent(const id_filter_t *filter, uint64_t hash, int64_t age_now);
/* An id that counts from born on for the window; it is age_now. */
void idfilter_note(id_filter_t *filter, uint64_t hash, int64_t born, int64_t age_now, uint64_t *bytes);

#endif
