/* dedupe.h: the ids of a stream's messages within its duplicate window: see dedupe.c.
 */
#ifndef LEAFD_STORE_DEDUPE_H
#define LEAFD_STORE_DEDUPE_H

#include "store/core.h"

uint64_t dedupe_need(bytes_t id);
LEAF_MUST_USE read_outcome_t dedupe_find(store_stream_t *stream, bytes_t id, int64_t age_now, uint64_t *seq);
void dedupe_put(store_stream_t *stream, bytes_t id, uint64_t seq, int64_t born);
void dedupe_expire(store_stream_t *stream, int64_t age_now, uint32_t *steps);
int64_t dedupe_deadline(store_stream_t *stream);
void dedupe_look_again(store_stream_t *stream); /* what LMDB has next is not known any more */
void dedupe_end(store_stream_t *stream);

#endif
