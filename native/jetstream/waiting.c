/* waiting.c: messages that cannot be stored or refused within one turn, and what is published behind them.
 *
 * An expectation with wildcards may be about a million subjects. Then the store looks for the answer in slices and says
 * APPEND_LATER until it has it. The message waits here, and so does everything that is published to its stream
 * meanwhile, so that the order stays that of the publishers. Other streams go on. The queue is bounded: queued.h.
 *
 * Not here: which looks may take long (store/append.c), what becomes of a message (publish.c).
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/queued.h"
#include "jetstream/stream.h"

struct later {
    job_t job;
    queued_t queued;
    bool trying; /* the first of them, just now */
    bool again;  /* and it has to be tried once more */
};

static bool later_step(js_t *js, job_t *job) {
    later_t *later = (later_t *)job;
    stream_t *stream = job->stream;
    message_t message;
    for (uint32_t done = 0; queued_first(&later->queued, &message); done++) {
        if (done == QUEUED_STEP || js_lagging(js, stream->which_store)) {
            return false;
        }
        later->trying = true;
        later->again = false;
        js_publish_held(js, stream, &message);
        later->trying = false;
        if (later->again) {
            return false;
        }
        queued_drop(&later->queued);
    }
    return true;
}

static void later_end(js_t *js, job_t *job, status_t status) {
    later_t *later = (later_t *)job;
    (void)js;
    (void)status; /* a stream that goes answers none of its publishers */
    job->stream->later = NULL;
    queued_free(&later->queued);
    free(later);
}

static later_t *later_begin(js_t *js, stream_t *stream) {
    later_t *later = calloc(1, sizeof(*later));
    if (later != NULL) {
        later->job = (job_t){.stream = stream, .step = later_step, .end = later_end};
        queued_init(&later->queued, &js->staged, QUEUED_MESSAGES);
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
    if (later == NULL || !queued_put(&later->queued, message)) {
        js_answer_refused(js, stream, message->reply, &refused_crowded);
    }
}
