/* ingest_private.h: one mirror or source while it takes in: ingest.c takes messages, ingest_refused.c has what its own
 * stream refuses, ingest_life.c starts and ends it.
 */
#ifndef LEAFD_JETSTREAM_INGEST_PRIVATE_H
#define LEAFD_JETSTREAM_INGEST_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/status.h"
#include "jetstream/lag.h"
#include "jetstream/host.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/span.h"
#include "store/append.h"
#include "text/text.h"
#include "text/transform.h"

struct ingest {
    ingest_t *next;
    map_link_t named; /* in named_ingests */
    stream_t *stream;
    sink_t *sink; /* NULL: it does not listen */
    uint32_t slot;
    bool mirror;
    bool durable;    /* the consumer belongs to somebody who may set it back, or make it anew, at any time */
    bool spared;     /* the origin tells of the consumer's end: what is heard by the link is heard of it */
    bool by_time;    /* .. or one that begins at what is newer than what was taken */
    bool running;    /* false: a delivery was missing; it waits for a new start */
    uint32_t untold; /* INGEST_* of a failure whose event found no memory; 0 = none */
    status_t untold_status;
    bytes_t consumer;      /* own copies */
    bytes_t origin_stream; /* whose consumer it is, where that is acknowledged to */
    bytes_t key;
    bytes_t source_head;      /* "<name> " */
    bytes_t source_tail;      /* " <filter> <destination> " */
    bytes_t identity;         /* " <identity>" or empty */
    transform_t **transforms; /* the first one that is for the subject renames it */
    uint32_t transform_count;
    uint64_t run;          /* of this start; no two have the same */
    progress_t begun;      /* what was stored when it began */
    uint64_t before_seq;   /* origin sequence that the stream has, or a log was asked for, last */
    bool chained;          /* a log was asked for what it may refuse: what is on its way is not taken yet */
    bool refused;          /* .. and it refused something: no more is said to be taken */
    uint64_t on_its_way;   /* so many of these are not answered */
    uint64_t last_seq;     /* origin sequence stored last */
    int64_t newest_ts;     /* stamp of the newest message that came of the origin; 0: not known */
    uint64_t consumer_seq; /* delivered last */
    uint64_t other_seq;    /* by another consumer, whose deliveries come to the same subject; 0: there was none */
    uint64_t taken_seq;    /* its origin sequence; before the first one, of what the consumer is behind */
    lag_t behind;
    span_t span;
    bool span_by_flow; /* what it takes is acknowledged by the answers to flow control */
    uint64_t messages;
    uint64_t bytes;
    int64_t last_frame_ns; /* mono; 0 = none yet */
    int64_t heard_ns;      /* how long its link had been heard then, or at the start */
    int64_t started_ns;
    int64_t silence_ns;
    uint64_t link;   /* that its frames come by; 0: not known */
    uint64_t origin; /* the connection that answered for the origin; 0: this server */
};

/* Control is told, now or with the next chores, and nothing is taken until it starts anew. */
void ingest_fail(js_t *js, ingest_t *ingest, uint32_t code, status_t status);
/* false: no memory, control was not told. */
/* A header as a mirror keeps it; perhaps in js->scratch, which the caller has emptied. */
status_t ingest_mirror_header(js_t *js, bytes_t header, bytes_t *out);
/* A source's message, as it came, becomes what is stored: renamed, perhaps in `renamed`, and with its origin's sequence
 * in its header, in js->scratch, which the caller has emptied. STATUS_FULL: the header has no room for that. */
status_t ingest_source(js_t *js, const ingest_t *ingest, uint64_t seq, append_t *append, text_t *renamed);
/* Whose flow control that subject of "$JS.FC." answers; empty: it names none. */
bytes_t ingest_flow_consumer(bytes_t subject);
/* The position behind which a next start is to begin, and the newest stamp. Where it cannot be read it is that of the
 * start, which is never too far: what follows on it and was taken is passed over by the next start, which reads it. */
progress_t ingest_kept(js_t *js, const ingest_t *ingest);
/* The message, of that sequence at the origin, for the log of several servers. STATUS_OK: go on behind it. */
LEAF_MUST_USE status_t ingest_propose(js_t *js, ingest_t *ingest, append_t *append, uint64_t seq);
/* Its stream has refused a message. */
void ingest_was_refused(js_t *js, ingest_t *ingest, append_verdict_t verdict);
/* NULL: that slot does not take in now, or its origin's consumer is being asked for. */
const ingest_t *ingest_find(js_t *js, const stream_t *stream, uint64_t slot);
bool ingest_tell(js_t *js, const ingest_t *ingest, uint32_t code, status_t status);

#endif
