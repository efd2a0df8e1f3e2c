/* progress.h: how far a source has come at its origin, as it is stored: a record for each slot's key (RECORD_SOURCE).
 *
 *     sequence 8      of the message that was taken last
 *     newest 8        stamp of the newest message that was taken (ns); 0, or missing in older stores: not known
 *
 * With a message the record is written by store_append, in the same batch. Where it is damaged in both places that
 * have it, the stream's newest messages tell: each names its origin's sequence in Nats-Stream-Source. Not here: who
 * asks when (ingest.c); a mirror's progress, which is its last sequence.
 */
#ifndef LEAFD_JETSTREAM_PROGRESS_H
#define LEAFD_JETSTREAM_PROGRESS_H

#include "base/bytes.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"

#define PROGRESS_KEY_MAX 500u /* + 4 is a record key that LMDB takes */

typedef struct progress {
    uint64_t seq;
    int64_t newest_ts;
} progress_t;

/* Which source brought a message with that header, by the key of its progress, which is written to `at`
 * (PROGRESS_KEY_MAX), and its sequence at the origin. false: it names none. */
bool progress_named(bytes_t header, uint8_t *at, bytes_t *key, uint64_t *seq);
/* Zeros where nothing is stored. ENTRY_DAMAGED: nobody knows it any more. */
LEAF_MUST_USE entry_outcome_t progress_read(js_t *js, const stream_t *stream, bytes_t key, progress_t *progress);
LEAF_MUST_USE status_t progress_write(js_t *js, const stream_t *stream, bytes_t key, progress_t progress);
LEAF_MUST_USE status_t progress_forget(js_t *js, const stream_t *stream, bytes_t key);

#endif
