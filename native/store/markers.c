/* markers.c: subject delete markers. Where time takes the last message of a subject (max_age, or the message's own time
 * to live) and the stream asks for it, an empty message with a reason takes its place, so that a watcher of the subject
 * hears of it:
 *
 *     Nats-Marker-Reason: MaxAge        Nats-TTL: the marker's own time to live        Nats-Rollup: sub
 *
 * Where the owner's allowance (or the store) has no room for what the marker is larger than the message, the message
 * goes without one: it must not stay for ever because the account is full, nor make it fuller. A message that itself
 * says that something was deleted (a marker, a purged key) leaves none behind. Nor do deletions and purges that
 * somebody asked for. Marker and removal are in one batch.
 */
#include <stdio.h>

#include "base/check.h"
#include "store/charge.h"
#include "store/message.h"
#include "store/overlay.h"
#include "text/duration.h"
#include "text/headers.h"
#include "text/subject.h"

#define HEADER_SIZE 128

static bool says_deleted(bytes_t header) {
    bytes_t value;
    if (headers_find(header, BYTES_LITERAL("Nats-Marker-Reason"), &value) && value.size > 0) {
        return true;
    }
    return headers_find(header, BYTES_LITERAL("KV-Operation"), &value) && bytes_equal(value, BYTES_LITERAL("PURGE"));
}

static read_outcome_t marker_is_wanted(store_stream_t *stream, const message_row_t *found) {
    head_t head;
    if (stream->config.marker_ttl_ns < NS_PER_SECOND || !found->sound || (stream->config.flags & STREAM_SEALED) != 0
        || !subject_storable(found->message.subject)) {
        return READ_NONE;
    }
    switch (head_look(stream, found->message.subject, &head)) {
    case READ_UNKNOWN: return READ_UNKNOWN;
    case READ_NONE: return READ_NONE;
    case READ_FOUND: break;
    }
    return head.count == 1 && !says_deleted(found->message.header) ? READ_FOUND : READ_NONE;
}

/* More than the message has, at most as much as there is room for? */
static bool marker_is_allowed(const store_stream_t *stream, const message_row_t *found, bytes_t header) {
    message_record_t marker = {.subject = found->message.subject, .header = header};
    uint64_t more = number_less(stream_message_bytes(stream, &marker), stream_message_bytes(stream, &found->message));
    uint64_t most = stream->store->options.max_bytes;
    return !stream_lacks(stream, more) && (most == 0 || more <= number_less(most, stream->store->sums.bytes));
}

status_t marker_or_remove(store_stream_t *stream, const message_row_t *found, uint32_t *steps) {
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STATUS_FULL;
    }
    switch (marker_is_wanted(stream, found)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return message_remove(stream, found, false, steps); /* an exempt one of its subject may be older */
    case READ_FOUND: break;
    }
    int64_t seconds = stream->config.marker_ttl_ns / NS_PER_SECOND;
    uint8_t life[DURATION_TEXT_MAX];
    char header[HEADER_SIZE];
    int size = snprintf(header, HEADER_SIZE,
                        "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %.*s\r\nNats-Rollup: sub\r\n\r\n",
                        (int)duration_format(seconds * NS_PER_SECOND, life), (const char *)life);
    check(size > 0 && size < HEADER_SIZE);
    if (!marker_is_allowed(stream, found, bytes_of(header, (uint32_t)size))) {
        return message_remove(stream, found, false, steps);
    }
    return append_instead(stream, found, bytes_of(header, (uint32_t)size), seconds * NS_PER_SECOND, steps);
}
