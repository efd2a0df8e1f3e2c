/* follow.h: the newest message of a pattern with wildcards, in slices (follow.c). Nobody outside native/store includes
 * this.
 */
#ifndef LEAFD_STORE_FOLLOW_H
#define LEAFD_STORE_FOLLOW_H

#include "store/core.h"

typedef struct follow follow_t;
void follows_appended(store_stream_t *stream, uint64_t seq, bytes_t subject);
void follows_removed(store_stream_t *stream, uint64_t seq);
void follows_emptied(store_stream_t *stream); /* all messages have gone */
void follows_end(store_stream_t *stream);
/* The sequence of the newest message that matches a pattern with wildcards, 0 = none. STEP_MORE: not known yet; it
 * will be, when that is asked again in later turns. *searches: how many more questions may search in this turn. keep:
 * it will be asked again, so the answer is to be there then. */
LEAF_MUST_USE step_outcome_t follow_newest(store_stream_t *stream, bytes_t pattern, uint32_t *searches, bool keep,
                                           uint64_t *seq);

#endif
