/* recount.h: a subject's head that cannot be read is counted again, from the messages of its stream. Until that is
 * done nobody is told that the subject has none: an operation that needs the head waits or is refused (STATUS_IO). So
 * no message of the subject comes or goes meanwhile, and what is counted stays true.
 *
 *     head in LMDB  | fails its checksum |  -->  the stream, slice by slice  -->  first, last, count  -->  open batch
 *
 * One head of a stream at a time, known by its key in LMDB: a damaged record need not say which subject it is of. Where
 * no message has that key, damage made it of another one: each message's head is asked for, and those that are missing
 * are counted. A message that is damaged itself counts for nobody. subjects.c and walk.c ask for heads.
 */
#ifndef LEAFD_STORE_RECOUNT_H
#define LEAFD_STORE_RECOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "disk/keys.h"

typedef struct store_stream store_stream_t;
typedef struct recount recount_t;

/* stored: the head's key in LMDB; plain: the store's own, empty where a sealed store hides it. Nothing happens while
 * another one is counted, or without memory: the next call begins it then. */
void recount_begin(store_stream_t *stream, bytes_t stored, bytes_t plain);
/* Is a head being counted? And is it the one with this key in LMDB? */
bool recount_runs(const store_stream_t *stream);
bool recount_is_of(const store_stream_t *stream, bytes_t stored);
/* The store's own key of the head that was counted last, when it has this key in LMDB. false: it was another one. An
 * empty key: no message has such a subject. */
bool recount_key(const store_stream_t *stream, bytes_t stored, bytes_t *plain);
void recount_step(store_stream_t *stream, uint32_t *steps);
/* When the next step is due, on the age clock; INT64_MAX: none is. */
int64_t recount_deadline(const store_stream_t *stream, int64_t age_now);
void recount_end(store_stream_t *stream);

/* ---- subjects.c -------------------------------------------------------------------------------------------------- */
/* Takes in a head that was counted, where the batch has room for it. */
LEAF_MUST_USE status_t head_counted(store_stream_t *stream, bytes_t subject, head_t head);

#endif
