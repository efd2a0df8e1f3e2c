/* queued.c: see queued.h. */
#include "jetstream/queued.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"

#define QUEUED_BYTES (UINT64_C(16) << 20)
#define QUEUED_KEEP (UINT64_C(64) << 10) /* of what has gone on: more is given back when it is half */

/* A message in `held`: this, then the bytes of each. */
typedef struct queued_sizes {
    uint32_t subject;
    uint32_t reply;
    uint32_t header;
    uint32_t payload;
} queued_sizes_t;

void queued_init(queued_t *queued, share_t *share, uint32_t most) {
    *queued = (queued_t){.most = most};
    buffer_init(&queued->held, QUEUED_BYTES);
    buffer_count(&queued->held, share);
}

void queued_free(queued_t *queued) {
    buffer_free(&queued->held);
    queued->at = 0;
    queued->count = 0;
}

bool queued_put(queued_t *queued, const message_t *message) {
    const bytes_t parts[] = {message->subject, message->reply, message->header, message->payload};
    queued_sizes_t sizes = {message->subject.size, message->reply.size, message->header.size, message->payload.size};
    if (queued->count == queued->most) {
        return false;
    }
    if (queued->at > QUEUED_KEEP && queued->at * 2 >= queued->held.size) {
        buffer_consume(&queued->held, queued->at);
        queued->at = 0;
    }
    uint64_t begin = queued->held.size;
    status_t status = buffer_append(&queued->held, &sizes, sizeof(sizes));
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(*parts) && status == STATUS_OK; i++) {
        status = parts[i].size != 0 ? buffer_append(&queued->held, parts[i].at, parts[i].size) : STATUS_OK;
    }
    if (status != STATUS_OK) {
        queued->held.size = begin;
        return false;
    }
    queued->count++;
    return true;
}

static bytes_t queued_part(const uint8_t **at, uint32_t size) {
    bytes_t part = size != 0 ? bytes_of(*at, size) : BYTES_NONE;
    *at += size;
    return part;
}

bool queued_first(const queued_t *queued, message_t *message) {
    queued_sizes_t sizes;
    if (queued->count == 0) {
        return false;
    }
    const uint8_t *at = queued->held.at + queued->at;
    memcpy(&sizes, at, sizeof(sizes));
    at += sizeof(sizes);
    *message = (message_t){.subject = queued_part(&at, sizes.subject)};
    message->reply = queued_part(&at, sizes.reply);
    message->header = queued_part(&at, sizes.header);
    message->payload = queued_part(&at, sizes.payload);
    return true;
}

void queued_drop(queued_t *queued) {
    queued_sizes_t sizes;
    memcpy(&sizes, queued->held.at + queued->at, sizeof(sizes));
    queued->at += sizeof(sizes) + (uint64_t)sizes.subject + sizes.reply + sizes.header + sizes.payload;
    if (--queued->count == 0) {
        queued->at = queued->held.size = 0;
        buffer_trim(&queued->held, QUEUED_KEEP);
    }
}
