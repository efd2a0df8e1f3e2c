/* stream_jobs.c: the commands that ask a stream for something or take something out: its state, a message, a purge.
 * Those that may have to go through many messages or subjects are jobs (jobs.c), and their commands are completed when
 * they are over.
 *
 * As of when: a purge takes what was there when it began. A state has the counters of the moment when it was asked for;
 * behind them, each deleted sequence and each subject is as it was when the listing came to it, and what existed
 * throughout is listed exactly once. So on a stream that nobody writes to the three agree. The reference takes them one
 * after the other, too, but faster.
 *
 * Not here: commands that make and end streams (stream.c), direct gets (direct.c).
 */
#include <stdlib.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/copies.h"
#include "base/status.h"
#include "exchange/exchange.h"
#include "exchange/strings.h"
#include "jetstream/commands.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/fill.h"
#include "store/store.h"

/* ---- state ------------------------------------------------------------------------------------------------------- */

#define SUBJECT_COST 12u /* of each subject beside its bytes, here and in the answer */

typedef struct state_job {
    job_t job;
    plane_command_t command;
    stream_state_t state;
    bytes_t filter; /* own copy */
    store_walk_t *walk;
    bool settles; /* the first message is being looked for */
    bool deleted; /* still listing those */
    uint64_t deleted_from;
    uint64_t deleted_upto;
    uint64_t subjects;
    uint64_t room; /* for subjects: those behind it are for another page */
    bool full;
    bool failed;
    buffer_t out;
} state_job_t;

static void little_endian(uint8_t *to, uint64_t value, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static bool list_deleted(void *context, uint64_t seq) {
    state_job_t *job = context;
    uint8_t le[8];
    little_endian(le, seq, 8);
    job->failed = buffer_append(&job->out, le, 8) != STATUS_OK;
    job->state.deleted_count++;
    return !job->failed && job->state.deleted_count < STATE_LISTED_MAX;
}

static bool list_subject(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    (void)last_seq;
    state_job_t *job = context;
    if (job->state.subjects_matched++ < job->command.arg2 || job->full) {
        return true;
    }
    uint64_t cost = SUBJECT_COST + subject.size;
    job->full = job->subjects == STATE_LISTED_MAX || (job->subjects != 0 && cost > job->room);
    if (job->full) {
        return true;
    }
    job->room -= cost < job->room ? cost : job->room;
    uint8_t head[4], tail[8];
    little_endian(head, subject.size, 4);
    little_endian(tail, count, 8);
    job->failed = buffer_append(&job->out, head, 4) != STATUS_OK
                  || buffer_append(&job->out, subject.at, subject.size) != STATUS_OK
                  || buffer_append(&job->out, tail, 8) != STATUS_OK;
    job->subjects++;
    return !job->failed;
}

static bool state_answer(js_t *js, state_job_t *job) {
    if (job->failed || job->out.size > UINT32_MAX) {
        js_done(js, &job->command, STATUS_NO_MEMORY);
        return true;
    }
    memcpy(job->out.at, &job->state, sizeof(job->state));
    js_answer(js, &job->command, STATUS_OK, 0, 0, bytes_of(job->out.at, (uint32_t)job->out.size));
    return true;
}

static void state_begin(state_job_t *job) {
    stream_state_of(job->job.stream, &job->state);
    job->deleted = job->command.arg == 1 && job->state.deleted_count != 0;
    job->deleted_from = job->state.first_seq;
    job->deleted_upto = job->state.last_seq;
    job->state.deleted_count = job->deleted ? 0 : job->state.deleted_count;
}

static bool stream_state_step(js_t *js, job_t *base) {
    state_job_t *job = (state_job_t *)base;
    step_outcome_t step = STEP_OVER;
    if (job->settles) {
        if (!store_first_settled(base->stream->store)) {
            return false;
        }
        job->settles = false;
        state_begin(job);
    }
    if (job->deleted) {
        step = store_deleted(base->stream->store, &job->deleted_from, job->deleted_upto, SEARCH_MESSAGES, list_deleted,
                             job);
    } else if (job->walk != NULL) {
        step = store_walk_step(job->walk, SEARCH_SUBJECTS, list_subject, job);
    }
    switch (step) {
    case STEP_MORE:
        if (!job->failed) {
            return false;
        }
        break;
    case STEP_UNKNOWN: job->failed = true; break;
    case STEP_OVER: job->deleted = false; break;
    }
    if (job->failed) {
        return state_answer(js, job);
    }
    if (job->walk == NULL && job->filter.size != 0) {
        job->walk = store_walk_open(base->stream->store, job->filter); /* behind the deleted ones */
        job->failed = job->walk == NULL;
        return stream_state_step(js, base);
    }
    return state_answer(js, job);
}

static void stream_state_end(js_t *js, job_t *base, status_t status) {
    state_job_t *job = (state_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    store_walk_close(job->walk);
    bytes_release(&job->filter);
    buffer_free(&job->out);
    free(job);
}

void stream_state(js_t *js, const plane_command_t *command, stream_t *stream) {
    stream_state_t state;
    strings_t strings = strings_of(command);
    bytes_t filter = strings_next(&strings);
    stream_state_of(stream, &state);
    bool settled = store_first_settled(stream->store);
    if (command->arg != 1 && filter.size == 0 && settled) {
        js_answer(js, command, STATUS_OK, 0, 0, bytes_of(&state, sizeof(state)));
        return;
    }
    state_job_t *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    job->job = (job_t){.stream = stream, .step = stream_state_step, .end = stream_state_end};
    job->command = command_kept(command);
    job->filter = bytes_copy(filter); /* looked at below, with what else may fail */
    job->settles = !settled;
    job->room = js->listing_max;
    state_begin(job);
    buffer_init(&job->out, UINT64_C(1) << 32);
    job->failed = buffer_append(&job->out, &state, sizeof(state)) != STATUS_OK || job->filter.size != filter.size;
    job_start(js, &job->job);
}

/* ---- purge ------------------------------------------------------------------------------------------------------- */

typedef struct purge_job {
    job_t job;
    plane_command_t command;
    store_purge_t purge;
    bytes_t filter; /* own copy */
    uint64_t purged;
} purge_job_t;

static bool purge_step(js_t *js, job_t *base) {
    purge_job_t *job = (purge_job_t *)base;
    uint64_t purged = 0;
    step_outcome_t step;
    status_t status = store_purge(base->stream->store, &job->purge, &purged, &step);
    job->purged += purged;
    if (status == STATUS_OK && !job_over(base, step)) {
        return false;
    }
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    } else {
        js_done_durable(js, &job->command, base->stream->which_store, job->purged, BYTES_NONE);
    }
    return true;
}

static void purge_end(js_t *js, job_t *base, status_t status) {
    purge_job_t *job = (purge_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    store_purge_end(&job->purge);
    bytes_release(&job->filter);
    free(job);
}

void stream_purge(js_t *js, const plane_command_t *command, stream_t *stream) {
    strings_t strings = strings_of(command);
    bytes_t filter = strings_next(&strings);
    if (stream->replicated != NULL) {
        replicated_purge(js, command, stream, filter);
        return;
    }
    purge_job_t *job = calloc(1, sizeof(*job));
    bytes_t copy = bytes_copy(filter);
    status_t status = job == NULL || copy.size != filter.size /* without its filter it would take out all */
                          ? STATUS_NO_MEMORY
                          : store_holes_forget(stream->store);
    if (status != STATUS_OK) {
        bytes_release(&copy);
        free(job);
        js_done(js, command, status);
        return;
    }
    job->job = (job_t){.stream = stream, .step = purge_step, .end = purge_end};
    job->command = command_kept(command);
    job->filter = copy;
    job->purge = (store_purge_t){.filter = copy, .below_seq = command->arg, .keep = command->arg2};
    job_start(js, &job->job);
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

typedef struct get_job {
    job_t job;
    plane_command_t command;
    search_t search;
    bytes_t subject; /* own copy */
} get_job_t;

/* early: the message is not on disk yet, and the answer waits for that. */
static void answer_get(js_t *js, const plane_command_t *command, const stream_t *stream, entry_outcome_t outcome,
                       const stored_message_t *message, bool early) {
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: js_done(js, command, entry_status(outcome)); return;
    case ENTRY_FOUND: break;
    }
    if (command->token == 0) {
        return; /* nobody asked: no answer was reserved for it, and the next one is another command's */
    }
    event_entry_t *entry = event_answer(js->exchange, STATUS_OK, message->subject, message->header, message->payload);
    if (entry != NULL) {
        entry->event.token = command->token;
        entry->event.target = command->target;
        entry->event.arg = message->seq;
        entry->event.arg2 = (uint64_t)message->ts;
    }
    if (early && entry != NULL) {
        js_hold_event(js, stream->which_store, entry);
        return;
    }
    event_post(js->exchange, entry);
}

static bool get_step(js_t *js, job_t *base) {
    get_job_t *job = (get_job_t *)base;
    stored_message_t message;
    entry_outcome_t outcome = ENTRY_UNKNOWN;
    switch (search_step(base->stream, &job->search, &message)) {
    case SEARCH_MORE: return false;
    case SEARCH_FOUND: outcome = ENTRY_FOUND; break;
    case SEARCH_NONE: outcome = ENTRY_NONE; break;
    case SEARCH_DAMAGED: outcome = ENTRY_DAMAGED; break;
    case SEARCH_UNKNOWN: break;
    }
    answer_get(js, &job->command, base->stream, outcome, &message, job->search.early);
    return true;
}

static void get_end(js_t *js, job_t *base, status_t status) {
    get_job_t *job = (get_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    search_end(&job->search);
    bytes_release(&job->subject);
    free(job);
}

static void get_by_search(js_t *js, const plane_command_t *command, stream_t *stream, const message_query_t *query,
                          uint64_t from) {
    strings_t strings = strings_of(command);
    bytes_t subject = query->mode == QUERY_START_TIME ? BYTES_NONE : strings_next(&strings);
    get_job_t *job = calloc(1, sizeof(*job));
    bytes_t copy = bytes_copy(subject);
    if (job == NULL || copy.size != subject.size) {
        bytes_release(&copy);
        free(job);
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    job->job = (job_t){.stream = stream, .step = get_step, .end = get_end};
    job->command = command_kept(command);
    job->subject = copy;
    job->search =
        (search_t){.pattern = copy, .from = from, .last = query->mode == QUERY_LAST_BY_SUBJECT, .single = true};
    job_start(js, &job->job);
}

void message_get(js_t *js, const plane_command_t *command, stream_t *stream) {
    message_query_t query;
    memcpy(&query, command->body, sizeof(query));
    stored_message_t message;
    status_t status = replicated_newest(js, stream) ? STATUS_OK : STATUS_AGAIN;
    uint64_t from = query.sequence == 0 ? 1 : query.sequence;
    if (status == STATUS_OK && query.start_ts != 0
        && (query.mode == QUERY_NEXT_BY_SUBJECT || query.mode == QUERY_START_TIME)) {
        switch (store_seq_at_time(stream->store, query.start_ts, SEARCH_MESSAGES, &from)) {
        case SEEK_UNKNOWN: status = STATUS_IO; break;
        case SEEK_NONE: status = STATUS_NOT_FOUND; break;
        case SEEK_MORE: /* the search goes on from there */
        case SEEK_FOUND: break;
        }
    }
    if (status != STATUS_OK || query.mode > QUERY_START_TIME) {
        js_done(js, command, status != STATUS_OK ? status : STATUS_INVALID);
    } else if (query.mode != QUERY_SEQUENCE) {
        get_by_search(js, command, stream, &query, from);
    } else {
        entry_outcome_t outcome = store_read(stream->store, query.sequence, &message);
        answer_get(js, command, stream, outcome, &message, query.sequence > store_stream_visible(stream->store));
    }
}

typedef struct delete_job {
    job_t job;
    plane_command_t command;
} delete_job_t;

static bool delete_step(js_t *js, job_t *base) {
    const delete_job_t *job = (const delete_job_t *)base;
    status_t status = store_delete(base->stream->store, job->command.arg);
    if (status == STATUS_AGAIN) {
        return false;
    }
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    } else {
        js_done_durable(js, &job->command, base->stream->which_store, 0, BYTES_NONE);
    }
    return true;
}

static void delete_end(js_t *js, job_t *base, status_t status) {
    delete_job_t *job = (delete_job_t *)base;
    if (status != STATUS_OK) {
        js_done(js, &job->command, status);
    }
    free(job);
}

void message_delete(js_t *js, const plane_command_t *command, stream_t *stream) {
    delete_job_t own = {.job = {.stream = stream, .step = delete_step, .end = delete_end},
                        .command = command_kept(command)};
    if (stream->replicated != NULL) {
        replicated_delete(js, command, stream);
        return;
    }
    if (delete_step(js, &own.job)) {
        return;
    }
    delete_job_t *job = malloc(sizeof(*job));
    if (job == NULL) {
        js_done(js, command, STATUS_NO_MEMORY);
        return;
    }
    *job = own;
    job_wait(js, &job->job);
}
