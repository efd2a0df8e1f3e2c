/* decode.h: what a client receives, answers of direct gets or deliveries of a consumer, to rows of a table.
 *
 * Works on what has arrived and is called again with more. It takes whole messages that are rows, and stops in front of
 * everything else: what that is, the caller's slow way finds out. leafd_spark/source/batches.py is the same in Python,
 * and where the shape of answers and deliveries is drawn; tests/unit/spark hold the two to each other.
 */
#ifndef LEAFD_ARROW_DECODE_H
#define LEAFD_ARROW_DECODE_H

#include "arrow/table.h"

/* The first four are Verdict in agent/leafd_spark/wire.py. */
typedef enum decode_verdict {
    DECODE_MORE = 0,    /* what is left is the beginning of a message */
    DECODE_FULL = 1,    /* the rows or the bytes wanted are there, or the table has no room for the next message */
    DECODE_STATUS = 2,  /* a message that is no row */
    DECODE_CONTROL = 3, /* a line that is no message */
    DECODE_BAD = 4,     /* something that no server sends */
    DECODE_OTHER = 5,   /* an answer of another stream */
    DECODE_MISSED = 6,  /* a delivery was lost on its way */
    DECODE_ROOM = 7,    /* an empty table has no room for the next message */
} decode_verdict_t;

typedef struct decode_want {
    bool deliveries; /* of a consumer; otherwise answers of direct gets */
    bool with_headers;
    bytes_t stream;
    uint64_t bytes_max; /* of messages with their lines; the first always fits */
    int64_t last;       /* deliveries: the sequence that ends them, as does one with nothing pending */
} decode_want_t;

typedef struct decode_progress {
    uint64_t bytes;            /* of the messages in the table */
    int64_t consumer_sequence; /* of the last delivery */
    int64_t pending;           /* as the last delivery said it */
} decode_progress_t;

#define DECODE_LINE_MAX 16384u /* LINE_MAX in agent/leafd_spark/wire.py */

/* Takes rows from the front of `received`; *taken says how many bytes they were. */
decode_verdict_t decode(bytes_t received, const decode_want_t *want, decode_progress_t *progress, arrow_table_t *table,
                        uint32_t *taken);

#endif
