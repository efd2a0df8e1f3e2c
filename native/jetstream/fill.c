/* fill.c: COMMAND_STREAM_FILL of abi.h: a mirror's message that damage took, put back where it was.
 *
 * What the message orders by its headers is done as when it came (ingest.c): a time to live holds, of which a part has
 * gone by at the origin; nothing is rolled up, since what it would take out has gone already.
 *
 * What does not live here: the hole, and what the stream's limits say of it (store/fill.c); who asks the origin
 * (links/holes.py).
 */
#include "base/abi_types.h"
#include "exchange/strings.h"
#include "jetstream/commands.h"
#include "jetstream/ingest_private.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/fill.h"
#include "text/headers.h"
#include "text/ttl.h"

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

void stream_fill(js_t *js, const plane_command_t *command, stream_t *stream) {
    strings_t strings = strings_of(command);
    append_t append = {.force_seq = command->arg, .force_ts = (int64_t)command->arg2};
    append.subject = strings_next(&strings);
    bytes_t header = strings_next(&strings);
    append.payload = bytes_of(command->body, (uint32_t)command->body_size);
    bytes_t upto = strings_next(&strings);
    bool stored = false;
    if (upto.size != 8 || (stream->config.flags & STREAM_MIRROR) == 0 || append.force_seq == 0 || append.force_ts < 0) {
        js_done(js, command, STATUS_INVALID);
        return;
    }
    js->scratch.size = 0;
    append.expires_ts = end_of(stream, header, append.force_ts);
    status_t status = ingest_mirror_header(js, header, &append.header);
    status = status != STATUS_OK ? status : store_fill(stream->store, load_be64(upto.at), &append, *js->now, &stored);
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    js_done_durable(js, command, stream->which_store, stored, BYTES_NONE);
}
