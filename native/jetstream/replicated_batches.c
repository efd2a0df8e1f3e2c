/* replicated_batches.c: batches into a stream that several servers keep (replicated.h).
 *
 *     atomic.c collects --> atomic_commit.c packs --> one entry --> applied by each member --> PubAck or refusal
 *     fast_replicated.c, each message --> an entry --> applied by each member --> fast_replicated.c
 */
#include "group/replica.h"
#include "jetstream/atomic.h"
#include "jetstream/js.h"
#include "jetstream/replicated_private.h"

status_t replicated_pack(const stream_t *stream, const append_t *append, uint32_t before, buffer_t *packed) {
    return replica_pack_batched(stream->replicated->replica, append, before, packed);
}

status_t replicated_batch(js_t *js, const stream_t *stream, bytes_t packed, bytes_t id, uint32_t count, bytes_t reply) {
    replicated_t *replicated = stream->replicated;
    buffer_t *asker = &js->scratch;
    uint8_t *at;
    reply = (stream->config.flags & STREAM_NO_ACK) != 0 ? BYTES_NONE : reply;
    if (!replicated_proposes(replicated)) {
        return STATUS_CLOSED;
    }
    asker->size = 0;
    if (buffer_reserve(asker, 8 + (uint64_t)id.size + reply.size, &at) != STATUS_OK) {
        return STATUS_AGAIN;
    }
    store_be32(at, count);
    store_be32(at + 4, id.size);
    const uint8_t *end = bytes_write(bytes_write(at + 8, id), reply);
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = asked_put(&replicated->asked, ASKED_BATCH, bytes_of(at, (uint32_t)(end - at)));
    if (token == 0) {
        return STATUS_AGAIN;
    }
    status_t status = replica_publish_batch(replicated->replica, packed, token, *js->now);
    replicated_went(replicated, before, status);
    if (status == STATUS_OK) {
        store_stream_promise(stream->store, packed.size); /* a little more than it is */
    }
    return status;
}

void replicated_answer_batch(js_t *js, const stream_t *stream, bytes_t bytes, const appended_t *appended) {
    bytes_t id = bytes_of(bytes.at + 8, load_be32(bytes.at + 4));
    bytes_t reply = bytes_after(bytes, 8 + id.size);
    atomic_answer_applied(js, stream, reply, id, load_be32(bytes.at), appended);
}

status_t replicated_fast(js_t *js, stream_t *stream, const append_t *append, bytes_t asked, bytes_t words) {
    return replicated_proposes(stream->replicated) ? replicated_propose(js, stream, append, ASKED_FAST, asked, words)
                                                   : STATUS_AGAIN;
}

status_t replicated_ride_fast(const stream_t *stream, bytes_t asked) {
    return asked_ride(&stream->replicated->asked, ASKED_FAST, asked);
}
