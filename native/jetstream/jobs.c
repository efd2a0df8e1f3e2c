/* jobs.c: work on a stream that may take longer than one tick: a queue of jobs, each of which runs in bounded steps.
 *
 *     job_start --> first step at once, if this tick has not made its share of steps --> over: done
 *                                                                                    --> into the queue
 *     jobs_step, once a tick --> the oldest ones make a step each, and go to the end of the queue
 *
 * One that could not read what it needs pauses, longer each time; others go on.
 * Quick work is done in its first step and never enters the queue. A job's `end` answers and frees it. Every job
 * belongs to a stream and ends with it; none keeps a connection, only the subject to answer to.
 */
#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/status.h"
#include "jetstream/host.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/stream.h"
#include "store/store.h"
#include "text/subject.h"

#define JOBS_MAX 4096u           /* of clients; control's are as many as it has commands in flight */
#define SEARCH_TRIES 8u          /* then publishers replace the newest message faster than it is read: none is found */
#define JOB_WORK (3u * JOB_STEP) /* in one tick, all jobs together; a step takes about a millisecond */

static bool job_pauses(const js_t *js, const job_t *job) {
    return job->again_ns > js->now->mono_ns;
}

static bool job_run(js_t *js, job_t *job) {
    const store_t *store = js->stores[job->stream->which_store];
    uint64_t unknown = store_unknown(store);
    job->stuck = false;
    if (job->step(js, job)) {
        js->job_work += JOB_LAST;
        return true;
    }
    js->job_work += JOB_STEP;
    int64_t longer = job->pause_ns == 0 ? JOB_PAUSE_MIN_NS : job->pause_ns * 2;
    longer = longer < JOB_PAUSE_MAX_NS ? longer : JOB_PAUSE_MAX_NS;
    job->pause_ns = store_unknown(store) == unknown && !job->stuck ? 0 : longer;
    job->again_ns = js->now->mono_ns + job->pause_ns;
    return false;
}

static void job_append(js_t *js, job_t *job) {
    job->next = NULL;
    if (js->jobs_last == NULL) {
        js->jobs = job;
    } else {
        js->jobs_last->next = job;
    }
    js->jobs_last = job;
}

/* An account has at most as many jobs as it leaves free, so that there is always room for another account's. */
static bool jobs_room(const js_t *js, const js_account_t *account) {
    return js->job_count < JOBS_MAX && account->job_count < JOBS_MAX - js->job_count;
}

void job_wait(js_t *js, job_t *job) {
    if (job->refusable && !jobs_room(js, job->stream->account)) {
        job->end(js, job, STATUS_FULL);
        return;
    }
    js->more = true;
    js->job_count++;
    job->stream->account->job_count++;
    job_append(js, job);
}

bool job_turn(const js_t *js) {
    return js->job_work < JOB_WORK;
}

bool job_refused(const js_t *js, const js_account_t *account) {
    return !job_turn(js) && !jobs_room(js, account);
}

void job_start(js_t *js, job_t *job) {
    if (job_turn(js) && job_run(js, job)) {
        job->end(js, job, STATUS_OK);
        return;
    }
    job_wait(js, job);
}

void jobs_step(js_t *js) {
    uint32_t left = js->job_count;
    bool more = false;
    js->jobs_due_ns = INT64_MAX;
    /* waiting jobs get at least one step, however many new ones came in this tick */
    js->job_work = js->job_work < JOB_WORK ? js->job_work : JOB_WORK - 1;
    for (; left > 0 && job_turn(js); left--) {
        job_t *job = js->jobs;
        js->jobs = job->next;
        js->jobs_last = js->jobs == NULL ? NULL : js->jobs_last;
        js_account_t *account = job->stream->account;
        if (!job_pauses(js, job) && job_run(js, job)) {
            js->job_count--;
            account->job_count--;
            job->end(js, job, STATUS_OK);
            continue;
        }
        job_append(js, job);
        bool pauses = job_pauses(js, job);
        more = more || !pauses;
        js->jobs_due_ns = pauses && job->again_ns < js->jobs_due_ns ? job->again_ns : js->jobs_due_ns;
    }
    js->more = js->more || more || left > 0;
    js->job_work = 0;
}

bool jobs_wait(const js_t *js, const stream_t *stream) {
    const job_t *job = js->jobs;
    while (job != NULL && job->stream != stream) {
        job = job->next;
    }
    return job != NULL;
}

void jobs_forget(js_t *js, const stream_t *stream) {
    job_t *job = js->jobs;
    js->jobs = js->jobs_last = NULL;
    while (job != NULL) {
        job_t *next = job->next;
        if (job->stream == stream) {
            js->job_count--;
            stream->account->job_count--;
            job->end(js, job, STATUS_NOT_FOUND);
        } else {
            job_append(js, job);
        }
        job = next;
    }
}

/* ---- looking for one message ------------------------------------------------------------------------------------- */

static bool pattern_wildcards(bytes_t pattern) {
    return pattern.size != 0 && subject_has_wildcard(pattern);
}

static uint64_t last_stored(const stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream->store, &state);
    return state.last_seq;
}

static uint64_t search_upto(const stream_t *stream, const search_t *search) {
    return search->early ? last_stored(stream) : store_stream_visible(stream->store);
}

static status_t search_newest(const stream_t *stream, search_t *search, uint64_t *seq) {
    uint64_t upto = search_upto(stream, search);
    /* one subject: back over what is not on disk yet */
    uint32_t budget = pattern_wildcards(search->pattern) ? SEARCH_SUBJECTS : SEARCH_MESSAGES;
    return store_newest(stream->store, &search->newest, search->pattern, upto, budget, seq);
}

static status_t search_last(const stream_t *stream, search_t *search, stored_message_t *out) {
    uint64_t seq = 0;
    status_t status = search_newest(stream, search, &seq);
    if (status != STATUS_OK) {
        return status;
    }
    status = store_read(stream->store, seq, out);
    if (status == STATUS_NOT_FOUND && pattern_wildcards(search->pattern) && search->tries++ < SEARCH_TRIES) {
        store_newest_end(&search->newest); /* it was removed while the others were looked at: once more */
        return STATUS_AGAIN;
    }
    return status;
}

/* The heads of the subjects say at which message the scan may end. A pattern with wildcards has many: they are read
 * only when a first scan found nothing, and when that is less work than to scan on. */
static status_t search_bound(const stream_t *stream, search_t *search) {
    uint64_t seq = 0;
    status_t status = search_newest(stream, search, &seq);
    if (status != STATUS_OK) {
        return status;
    }
    search->bound = seq;
    search->bounding = false;
    return seq < search->from ? STATUS_NOT_FOUND : STATUS_AGAIN;
}

static status_t search_next(const stream_t *stream, search_t *search, stored_message_t *out) {
    uint64_t upto = search_upto(stream, search);
    filters_t filters = {.patterns = &search->pattern, .count = search->pattern.size != 0 ? 1 : 0};
    if (filters.count != 0 && !search->bounding && !subject_has_wildcard(search->pattern)) {
        search->newest = (store_newest_t){0};
        search->bounding = true;
    }
    if (search->bounding) {
        status_t status = search_bound(stream, search);
        if (status != STATUS_AGAIN || search->bounding) {
            return status;
        }
    }
    upto = search->bound != 0 ? search->bound : upto;
    status_t status = store_next(stream->store, filters, &search->from, upto, SEARCH_MESSAGES, out);
    if (status == STATUS_AGAIN && search->bound == 0) {
        stream_state_t state;
        store_stream_state(stream->store, &state);
        search->bounding = search->from < upto && state.subjects < upto - search->from;
    }
    return status;
}

static status_t search_once(const stream_t *stream, search_t *search, stored_message_t *out) {
    return search->last ? search_last(stream, search, out) : search_next(stream, search, out);
}

status_t search_step(const stream_t *stream, search_t *search, stored_message_t *out) {
    status_t status = search_once(stream, search, out);
    bool extends = (search->last || search->single) && !search->early;
    if (status == STATUS_NOT_FOUND && extends && last_stored(stream) > store_stream_visible(stream->store)) {
        search_end(search);
        search->bounding = false;
        search->bound = 0;
        search->early = true;
        status = search_once(stream, search, out); /* among those that are not on disk yet, too */
    }
    return status;
}

void search_end(search_t *search) {
    store_newest_end(&search->newest);
}
