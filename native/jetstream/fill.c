/* fill.c: COMMAND_STREAM_FILL of abi.h: a message of a mirror or source that damage took, put back where it was.
 *
 * What the message orders by its headers is done as when it came (ingest.c): a time to live holds, of which a part has
 * gone by at the origin; nothing is rolled up, since what it would take out has gone already. A source's message gets
 * its subject and its Nats-Stream-Source from the slot that takes from its origin now.
 *
 *     origin: empty (of a mirror, or nothing is to be put there), or slot 4, the origin's sequence 8 (big-endian)
 *
 * Not here: the hole, and what the stream's limits say of it (store/fill.c); who asks the origin
 * (links/holes.py), which of a source's messages are missing (links/source_holes.py).
 */
#include "base/abi_types.h"
#include "exchange/strings.h"
#include "jetstream/commands.h"
#include "jetstream/ingest_private.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/fill.h"
#include "text/headers.h"
#include "text/text.h"
#include "text/ttl.h"

#define FILL_ORIGIN_SIZE 12

/* Wall ns, as append_t.expires_ts. */
static int64_t end_of(const stream_t *stream, bytes_t header, int64_t ts) {
    bytes_t value;
    int64_t ttl_ns = 0;
    if ((stream->config.flags & STREAM_ALLOW_TTL) == 0 || header.size == 0
        || !headers_find(header, BYTES_LITERAL("Nats-TTL"), &value) || !ttl_parse(value, &ttl_ns)) {
        return 0;
    }
    return ttl_ns == TTL_NEVER || ts > INT64_MAX - ttl_ns ? TTL_NEVER : ts + ttl_ns;
}

/* STATUS_FULL: its slot does not take anything in now. */
static status_t fill_source(js_t *js, const stream_t *stream, bytes_t origin, append_t *append, text_t names[2]) {
    const ingest_t *ingest = ingest_find(js, stream, load_be32(origin.at));
    if (ingest == NULL) {
        return STATUS_FULL;
    }
    status_t status = ingest_source(js, ingest, load_be64(origin.at + 4), append, &names[0]);
    append->subject = js_stored_subject(js, stream, append->subject, &names[1]);
    if (status == STATUS_FULL) {
        append->subject = BYTES_NONE; /* no room for its header: it was not taken when it came, either */
        status = STATUS_OK;
    }
    return status;
}

static status_t fill_one(js_t *js, const plane_command_t *command, stream_t *stream, bool *stored) {
    strings_t strings = strings_of(command);
    append_t append = {.force_seq = command->arg, .force_ts = (int64_t)command->arg2};
    append.subject = strings_next(&strings);
    append.header = strings_next(&strings);
    append.payload = bytes_of(command->body, (uint32_t)command->body_size);
    bytes_t upto = strings_next(&strings), origin = strings_next(&strings);
    bool mirror = (stream->config.flags & STREAM_MIRROR) != 0, counter = (stream->config.flags & STREAM_COUNTER) != 0;
    bool source = origin.size == FILL_ORIGIN_SIZE && !mirror && !counter;
    if (upto.size != 8 || append.force_seq == 0 || append.force_ts < 0
        || (append.subject.size != 0 && !mirror && !source) || (origin.size != 0 && !source)) {
        return STATUS_INVALID;
    }
    text_t names[2];
    status_t status = STATUS_OK;
    js->scratch.size = 0;
    append.expires_ts = end_of(stream, append.header, append.force_ts);
    if (source) {
        status = fill_source(js, stream, origin, &append, names);
    } else {
        status = ingest_mirror_header(js, append.header, &append.header);
    }
    return status != STATUS_OK ? status : store_fill(stream->store, load_be64(upto.at), &append, *js->now, stored);
}

void stream_fill(js_t *js, const plane_command_t *command, stream_t *stream) {
    bool stored = false;
    status_t status = fill_one(js, command, stream, &stored);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, stream->which_store, stored, BYTES_NONE);
}
