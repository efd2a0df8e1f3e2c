/* waiting.c: messages that cannot be stored or refused within one turn, and what is published behind them.
 *
 * An expectation with wildcards may be about a million subjects. Then the store looks for the answer in slices and says
 * APPEND_LATER until it has it. The message waits here, and so does everything that is published to its stream
 * meanwhile, so that the order stays that of the publishers. Other streams go on. The queue is bounded, as the
 * reference's: beyond that publishers are told so.
 *
 * Not here: which looks may take long (store/append.c), what becomes of a message (publish.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"

#define LATER_MESSAGES 10000u
#define LATER_BYTES (UINT64_C(16) << 20)
#define LATER_STEP 2048u /* messages that one step stores */

/* A message in `held`: this, then the bytes of each. */
typedef struct later_sizes {
    uint32_t subject;
    uint32_t reply;
    uint32_t header;
    uint32_t payload;
} later_sizes_t;

struct later {
    job_t job;
    buffer_t held;
    uint64_t at; /* of the first that waits */
    uint32_t count;
    bool trying; /* that one, just now */
    bool again;  /* and it has to be tried once more */
};

static bytes_t later_part(const uint8_t **at, uint32_t size) {
    bytes_t part = size != 0 ? bytes_of(*at, size) : BYTES_NONE;
    *at += size;
    return part;
}

/* The first that waits; what it takes in `held`. */
static uint64_t later_read(const later_t *later, message_t *message) {
    const uint8_t *begin = later->held.at + later->at;
    const uint8_t *at = begin;
    later_sizes_t sizes;
    memcpy(&sizes, at, sizeof(sizes));
    at += sizeof(sizes);
    *message = (message_t){.subject = later_part(&at, sizes.subject)};
    message->reply = later_part(&at, sizes.reply);
    message->header = later_part(&at, sizes.header);
    message->payload = later_part(&at, sizes.payload);
    return (uint64_t)(at - begin);
}

static bool later_hold(later_t *later, const message_t *message) {
    const bytes_t parts[] = {message->subject, message->reply, message->header, message->payload};
    later_sizes_t sizes = {message->subject.size, message->reply.size, message->header.size, message->payload.size};
    uint64_t begin = later->held.size;
    status_t status = buffer_append(&later->held, &sizes, sizeof(sizes));
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(*parts) && status == STATUS_OK; i++) {
        status = parts[i].size != 0 ? buffer_append(&later->held, parts[i].at, parts[i].size) : STATUS_OK;
    }
    if (status != STATUS_OK) {
        later->held.size = begin;
        return false;
    }
    later->count++;
    return true;
}

static bool later_step(js_t *js, job_t *job) {
    later_t *later = (later_t *)job;
    stream_t *stream = job->stream;
    for (uint32_t done = 0; later->at < later->held.size; done++) {
        if (done == LATER_STEP || js_lagging(js, stream->which_store)) {
            return false;
        }
        message_t message;
        uint64_t size = later_read(later, &message);
        later->trying = true;
        later->again = false;
        js_publish_held(js, stream, &message);
        later->trying = false;
        if (later->again) {
            return false;
        }
        later->at += size;
        later->count--;
    }
    return true;
}

static void later_end(js_t *js, job_t *job, status_t status) {
    later_t *later = (later_t *)job;
    (void)js;
    (void)status; /* a stream that goes answers none of its publishers */
    job->stream->later = NULL;
    buffer_free(&later->held);
    free(later);
}

static later_t *later_begin(js_t *js, stream_t *stream) {
    later_t *later = calloc(1, sizeof(*later));
    if (later != NULL) {
        later->job = (job_t){.stream = stream, .step = later_step, .end = later_end};
        buffer_init(&later->held, LATER_BYTES);
        buffer_count(&later->held, &js->staged);
        stream->later = later;
        job_wait(js, &later->job);
    }
    return later;
}

void js_later(js_t *js, stream_t *stream, const message_t *message) {
    later_t *later = stream->later;
    if (later != NULL && later->trying) {
        later->again = true;
        return;
    }
    later = later != NULL ? later : later_begin(js, stream);
    if (later == NULL || later->count == LATER_MESSAGES || !later_hold(later, message)) {
        js_answer_refused(js, stream, message->reply, &refused_crowded);
    }
}
