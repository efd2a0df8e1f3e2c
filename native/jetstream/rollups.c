/* rollups.c: rollups that take out more messages than one step may, and ends of schedules that could not be carried out
 * at once: a job goes on with them, and the answer to the publisher waits for its end, so that nobody is told that
 * something is done which a crash could leave undone.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/copies.h"
#include "base/status.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/store.h"

typedef struct roll {
    bytes_t subject; /* own copy; empty: of every subject */
    uint64_t below_seq;
    bool ends; /* a schedule of that subject; what else it has stays */
} roll_t;

struct rolls {
    job_t job;
    store_purge_t purge; /* of the one at `at` */
    bytes_t reply;       /* own copies; empty: nobody is told */
    bytes_t answer;
    uint32_t count;
    uint32_t at;
    bool lacks; /* there was no memory for all of it: the publisher is refused */
    roll_t list[];
};

static void roll_begin(rolls_t *rolls) {
    const roll_t *roll = &rolls->list[rolls->at];
    rolls->purge = (store_purge_t){.filter = roll->subject, .below_seq = roll->below_seq, .left = roll->below_seq};
}

/* One step of the one that is at hand. */
static status_t roll_step(rolls_t *rolls, step_outcome_t *step) {
    const roll_t *roll = &rolls->list[rolls->at];
    stream_t *stream = rolls->job.stream;
    uint64_t purged;
    if (roll->ends) {
        *step = js_schedule_end(stream, roll->subject, roll->below_seq) ? STEP_OVER : STEP_MORE;
        return STATUS_OK;
    }
    return store_purge(stream->store, &rolls->purge, &purged, step);
}

static bool rolls_step(js_t *js, job_t *job) {
    rolls_t *rolls = (rolls_t *)job;
    step_outcome_t step;
    status_t status = roll_step(rolls, &step);
    if (status == STATUS_OK && !job_over(job, step)) {
        return false;
    }
    store_purge_end(&rolls->purge);
    if (status == STATUS_OK && ++rolls->at < rolls->count) {
        roll_begin(rolls);
        return false;
    }
    if (rolls->reply.size != 0 && status == STATUS_OK && !rolls->lacks) {
        js_hold(js, job->stream, rolls->reply, BYTES_NONE, rolls->answer);
    } else {
        js_answer_refused(js, job->stream, rolls->reply, &refused_space);
    }
    return true;
}

static void rolls_end(js_t *js, job_t *job, status_t status) {
    rolls_t *rolls = (rolls_t *)job;
    if (status == STATUS_FULL) {
        js_answer_refused(js, job->stream, rolls->reply, &refused_space);
    }
    store_purge_end(&rolls->purge);
    for (uint32_t i = 0; i < rolls->count; i++) {
        bytes_release(&rolls->list[i].subject);
    }
    bytes_release(&rolls->reply);
    bytes_release(&rolls->answer);
    free(rolls);
}

rolls_t *rolls_new(uint32_t room) {
    return calloc(1, sizeof(rolls_t) + room * sizeof(roll_t));
}

static bool roll_add(rolls_t *rolls, bytes_t subject, uint64_t below_seq, bool ends) {
    roll_t *roll = &rolls->list[rolls->count];
    *roll = (roll_t){.subject = bytes_copy(subject), .below_seq = below_seq, .ends = ends};
    bool good = subject.size == 0 || roll->subject.size != 0; /* without its subject it would take out all */
    rolls->count += good;
    return good;
}

bool rolls_add(rolls_t *rolls, bytes_t subject, uint64_t below_seq) {
    return roll_add(rolls, subject, below_seq, false);
}

bool rolls_add_ending(rolls_t *rolls, bytes_t subject, uint64_t below_seq) {
    return roll_add(rolls, subject, below_seq, true);
}

void js_rolls_start(js_t *js, stream_t *stream, rolls_t *rolls, bytes_t reply, bytes_t answer) {
    rolls->job = (job_t){.stream = stream, .refusable = true, .step = rolls_step, .end = rolls_end};
    rolls->reply = bytes_copy(reply);
    rolls->answer = bytes_copy(answer);
    if (rolls->count == 0 || rolls->reply.size != reply.size || rolls->answer.size != answer.size) {
        js_answer_refused(js, stream, reply, &refused_space);
        rolls_end(js, &rolls->job, STATUS_OK);
        return;
    }
    roll_begin(rolls);
    job_start(js, &rolls->job);
}

static bool roll_gather_rest(rolls_t *rolls, const stream_t *stream, const appended_t *appended) {
    stored_message_t message; /* its subject may have been transformed */
    switch (store_read(stream->store, appended->seq, &message)) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return false;
    case ENTRY_FOUND: break;
    }
    return rolls_add(rolls, appended->rolling == 1 ? message.subject : BYTES_NONE, appended->seq);
}

/* What is left of it all. false: no memory, or it cannot be read. */
static bool roll_gather(rolls_t *rolls, const stream_t *stream, const appended_t *appended, bytes_t ends) {
    bool good = appended->rolling == 0 || roll_gather_rest(rolls, stream, appended);
    return good && (ends.size == 0 || rolls_add_ending(rolls, ends, appended->seq));
}

void js_roll(js_t *js, stream_t *stream, const appended_t *appended, bytes_t ends, bytes_t reply) {
    rolls_t *rolls = rolls_new(2);
    if (rolls == NULL) {
        js_answer_refused(js, stream, reply, &refused_space);
        return;
    }
    text_t text;
    ack_text(stream, appended->seq, false, &text);
    rolls->lacks = !roll_gather(rolls, stream, appended, ends);
    js_rolls_start(js, stream, rolls, reply, text_bytes(&text));
}
