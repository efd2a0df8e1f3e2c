/* reckon.h: a stream's numbers and heads are counted again when damage took messages of it: which ones, and how large
 * they were, nobody knew then. Until that is done its messages, bytes and subjects are too many.
 *
 *     a commit of LMDB   messages, one by one  -->  how many, of how many bytes; of each subject how many, which last
 *                        heads                 -->  those that say something else
 *     the open batch     what the commit's own numbers and heads have too much is taken off those of now
 *
 * So it does not matter what comes and goes meanwhile. A message that is damaged is counted among the messages, until
 * it is removed, and neither in bytes nor in its subject's head, as it will be then.
 *
 * One stream at a time, in short steps with rests between them, once no hole of it is being filled (fill.h): a message
 * that takes the place of a damaged one relies on the numbers that counted that. Subjects of which there are too many
 * for the memory here take further rounds through the stream.
 *
 * Not here: a head that cannot be read (recount.h).
 */
#ifndef LEAFD_STORE_RECKON_H
#define LEAFD_STORE_RECKON_H

#include <stdbool.h>
#include <stdint.h>

typedef struct store store_t;
typedef struct store_stream store_stream_t;

/* Of a stream. */
typedef struct doubt { /* only reckon.c writes to it */
    bool wanted;
    uint32_t holes; /* that are being filled */
} doubt_t;

/* Of the store. */
typedef struct reckoning { /* only reckon.c writes to it */
    struct reckon *job;    /* NULL: none is under way */
    uint32_t wanted;       /* so many streams may want it */
    int64_t at;            /* mono ns of the next step */
    bool unsettled;        /* that batch has something that no commit has .. */
    uint64_t batch;
    uint64_t upto; /* .. and it ends there */
} reckoning_t;

void reckon_want(store_stream_t *stream);
/* One of its holes is to be filled / is filled, or left. */
void reckon_hole(store_stream_t *stream, bool begins);
/* Its numbers were set otherwise than by a message that came or went, or one came that they had counted. */
void reckon_disturb(store_stream_t *stream);
void reckon_leave(store_stream_t *stream); /* it is closed */
/* A step, where one is due; in each tick. */
void reckon_tick(store_t *store);
int64_t reckon_deadline(const store_t *store); /* mono ns; INT64_MAX: none is due */
void reckon_end(store_t *store);               /* before env_close */

#endif
