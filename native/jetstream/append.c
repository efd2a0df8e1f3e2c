/* append.c: the last step into a stream's store, the same for what clients publish and what mirrors and sources take
 * in.
 *
 *     subject transform > is it wanted (interest) > store_append > republish, held with the batch
 *
 * A stream that neither renames nor republishes has no stored_rewrite_t: one branch. What is published again
 * leaves like an acknowledgement: when the message is on disk, in front of its PubAck. Order and headers are the
 * reference's (its stream.go). A subject that a transform made and that no client could publish is stored all the same,
 * and is not published again.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "consume/consume.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/retention.h"
#include "store/store.h"
#include "text/decimal.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/time_text.h"
#include "text/transform.h"

struct stored_rewrite {
    transform_t *stored_as; /* NULL: as it came */
    transform_t *republish; /* NULL: not published again */
    bool headers_only;
    buffer_t header; /* of the message that is published again; kept for the next one */
};

static status_t rewrite_part(bytes_t source, bytes_t destination, transform_t **out) {
    return destination.size == 0 ? STATUS_OK : transform_new(source, destination, out);
}

status_t rewrite_new(const bytes_t texts[4], bool headers_only, stored_rewrite_t **out) {
    *out = NULL;
    if (texts[1].size == 0 && texts[3].size == 0) {
        return STATUS_OK;
    }
    stored_rewrite_t *rewrite = calloc(1, sizeof(*rewrite));
    if (rewrite == NULL) {
        return STATUS_NO_MEMORY;
    }
    rewrite->headers_only = headers_only;
    buffer_init(&rewrite->header, HEADER_BYTES_MAX + sizeof(text_t));
    status_t status = rewrite_part(texts[0], texts[1], &rewrite->stored_as);
    if (status == STATUS_OK) {
        status = rewrite_part(texts[2], texts[3], &rewrite->republish);
    }
    if (status != STATUS_OK) {
        rewrite_free(rewrite);
        return status;
    }
    *out = rewrite;
    return STATUS_OK;
}

void rewrite_free(stored_rewrite_t *rewrite) {
    if (rewrite != NULL) {
        transform_free(rewrite->stored_as);
        transform_free(rewrite->republish);
        buffer_free(&rewrite->header);
        free(rewrite);
    }
}

bytes_t js_transformed(js_t *js, const transform_t *transform, bytes_t subject, text_t *out) {
    uint32_t size;
    switch (transform_apply(transform, subject, random_next(&js->random), out->at, SUBJECT_BYTES_MAX, &size)) {
    case STATUS_OK: out->size = size; return text_bytes(out);
    case STATUS_NOT_FOUND: return subject;
    default: return BYTES_NONE;
    }
}

bytes_t js_stored_subject(js_t *js, const stream_t *stream, bytes_t subject, text_t *out) {
    bool renames = stream->rewrite != NULL && stream->rewrite->stored_as != NULL;
    return renames ? js_transformed(js, stream->rewrite->stored_as, subject, out) : subject;
}

/* ---- publishing again -------------------------------------------------------------------------------------------- */

static bool headers_add(buffer_t *out, bytes_t text) {
    return buffer_append(out, text.at, text.size) == STATUS_OK;
}

static bool add_field(buffer_t *out, bytes_t name, bytes_t value) {
    return headers_add(out, name) && headers_add(out, value) && headers_add(out, BYTES_LITERAL("\r\n"));
}

static bool add_number_field(buffer_t *out, bytes_t name, uint64_t number) {
    uint8_t digits[DECIMAL_MAX];
    return add_field(out, name, decimal_text(digits, number));
}

/* Where the message stands, and behind which one of its subject: what is not known is left out, so nothing is said. */
static bool add_place(buffer_t *out, uint64_t seq, int64_t ts, seek_outcome_t last, uint64_t last_seq) {
    uint8_t stamp[TIME_TEXT_MAX];
    bool good = add_number_field(out, BYTES_LITERAL("Nats-Sequence: "), seq)
                && add_field(out, BYTES_LITERAL("Nats-Time-Stamp: "), bytes_of(stamp, time_format(ts, stamp)));
    switch (last) {
    case SEEK_UNKNOWN:
    case SEEK_MORE: return good;
    case SEEK_NONE: last_seq = 0; break;
    case SEEK_FOUND: break;
    }
    return good && add_number_field(out, BYTES_LITERAL("Nats-Last-Sequence: "), last_seq);
}

/* The stored header block, and behind its fields where the message stands in the stream. */
static bool republish_header(stored_rewrite_t *rewrite, const stream_t *stream, const append_t *append,
                             const appended_t *appended, seek_outcome_t last, uint64_t last_seq) {
    buffer_t *out = &rewrite->header;
    out->size = 0;
    return headers_add(out, append->header.size < 2 ? BYTES_LITERAL("NATS/1.0\r\n")
                                                    : bytes_of(append->header.at, append->header.size - 2))
           && add_field(out, BYTES_LITERAL("Nats-Stream: "), stream->name)
           && add_field(out, BYTES_LITERAL("Nats-Subject: "), append->subject)
           && add_place(out, appended->seq, appended->ts, last, last_seq)
           && (!rewrite->headers_only || add_number_field(out, BYTES_LITERAL("Nats-Msg-Size: "), append->payload.size))
           && headers_add(out, BYTES_LITERAL("\r\n"));
}

typedef appended_t (*put_t)(store_stream_t *stream, const append_t *append, moment_t now);

static appended_t append_and_republish(js_t *js, stream_t *stream, const append_t *append, put_t put) {
    stored_rewrite_t *rewrite = stream->rewrite;
    text_t name;
    uint32_t size;
    if (transform_apply(rewrite->republish, append->subject, random_next(&js->random), name.at, SUBJECT_BYTES_MAX,
                        &size)
            != STATUS_OK
        || !subject_valid_literal(bytes_of(name.at, size))) {
        return put(stream->store, append, *js->now);
    }
    uint64_t last_seq = 0;
    uint32_t budget = 1;
    seek_outcome_t last = store_newest_of(stream->store, append->subject, UINT64_MAX, &budget, &last_seq);
    appended_t appended = put(stream->store, append, *js->now);
    if (appended.verdict == APPEND_STORED && republish_header(rewrite, stream, append, &appended, last, last_seq)) {
        bytes_t header = bytes_of(rewrite->header.at, (uint32_t)rewrite->header.size);
        js_hold_republished(js, stream, bytes_of(name.at, size), header,
                            rewrite->headers_only ? BYTES_NONE : append->payload);
    }
    return appended;
}

/* ---- appending --------------------------------------------------------------------------------------------------- */

bool js_nobody_wants(js_t *js, const stream_t *stream, const append_t *append) {
    return retention_traits(&stream->config)->only_wanted && append->force_seq == 0
           && (stream->config.flags & STREAM_LACKS_CONSUMERS) == 0
           && (stream->replicated == NULL || replicated_complete_stream(js, stream->id))
           && !consume_wanted(js->consume, stream->id, append->subject);
}

static appended_t append_rewritten(js_t *js, stream_t *stream, const append_t *append) {
    text_t name;
    append_t renamed = *append; /* the new name lives here only; the caller's append must not point to it */
    if (stream->rewrite->stored_as != NULL) {
        renamed.subject = js_transformed(js, stream->rewrite->stored_as, append->subject, &name);
        if (renamed.subject.size == 0) {
            return (appended_t){.verdict = APPEND_TOO_LARGE};
        }
    }
    renamed.skip = js_nobody_wants(js, stream, &renamed);
    if (stream->rewrite->republish != NULL) {
        return append_and_republish(js, stream, &renamed, store_append);
    }
    return store_append(stream->store, &renamed, *js->now);
}

appended_t js_append(js_t *js, stream_t *stream, append_t *append) {
    if (LEAF_UNLIKELY(stream->rewrite != NULL)) {
        return append_rewritten(js, stream, append);
    }
    append->skip = js_nobody_wants(js, stream, append);
    return store_append(stream->store, append, *js->now);
}

static appended_t put_timed(store_stream_t *stream, const append_t *append, moment_t now) {
    (void)now; /* the log's time is the stream's already */
    return store_append_timed(stream, append);
}

static appended_t put_grouped_timed(store_stream_t *stream, const append_t *append, moment_t now) {
    (void)now; /* likewise */
    return store_group_append_timed(stream, append);
}

appended_t js_append_timed(js_t *js, stream_t *stream, const append_t *append, bool grouped, bool again) {
    put_t put = grouped ? put_grouped_timed : put_timed;
    return again && stream->rewrite != NULL && stream->rewrite->republish != NULL
               ? append_and_republish(js, stream, append, put)
               : put(stream->store, append, *js->now);
}

appended_t js_append_grouped(js_t *js, stream_t *stream, append_t *append) {
    append->skip = js_nobody_wants(js, stream, append);
    if (stream->rewrite != NULL && stream->rewrite->republish != NULL) {
        return append_and_republish(js, stream, append, store_group_append);
    }
    return store_group_append(stream->store, append, *js->now);
}
