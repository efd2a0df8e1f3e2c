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

bool job_takes(js_t *js, uint32_t work) {
    bool turn = job_turn(js);
    js->job_work += turn ? work : 0;
    return turn;
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

static seek_outcome_t search_newest(const stream_t *stream, search_t *search, uint64_t *seq) {
    uint64_t upto = search_upto(stream, search);
    /* one subject: back over what is not on disk yet */
    uint32_t budget = pattern_wildcards(search->pattern) ? SEARCH_SUBJECTS : SEARCH_MESSAGES;
    return store_newest(stream->store, &search->newest, search->pattern, upto, budget, seq);
}

static search_outcome_t search_sought(seek_outcome_t outcome) {
    switch (outcome) {
    case SEEK_FOUND: return SEARCH_FOUND;
    case SEEK_NONE: return SEARCH_NONE;
    case SEEK_MORE: return SEARCH_MORE;
    case SEEK_UNKNOWN: break;
    }
    return SEARCH_UNKNOWN;
}

static search_outcome_t search_last(const stream_t *stream, search_t *search, stored_message_t *out) {
    uint64_t seq = 0;
    seek_outcome_t newest = search_newest(stream, search, &seq);
    switch (newest) {
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_MORE: return search_sought(newest);
    case SEEK_FOUND: break;
    }
    entry_outcome_t outcome = store_read(stream->store, seq, out);
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_FOUND: return search_outcome(outcome);
    case ENTRY_NONE: break;
    }
    if (!pattern_wildcards(search->pattern) || search->tries++ >= SEARCH_TRIES) {
        return SEARCH_NONE;
    }
    store_newest_end(&search->newest); /* it was removed while the others were looked at: once more */
    return SEARCH_MORE;
}

/* The heads of the subjects say at which message the scan may end. A pattern with wildcards has many: they are read
 * only when a first scan found nothing, and when that is less work than to scan on. */
static seek_outcome_t search_bound(const stream_t *stream, search_t *search) {
    uint64_t seq = 0;
    seek_outcome_t outcome = search_newest(stream, search, &seq);
    switch (outcome) {
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_MORE: return outcome;
    case SEEK_FOUND: break;
    }
    search->bound = seq;
    search->bounding = false;
    return seq < search->from ? SEEK_NONE : SEEK_FOUND;
}

/* Where the heads do not bound it, perhaps they can. */
static void search_widens(const stream_t *stream, search_t *search, uint64_t upto) {
    stream_state_t state;
    if (search->bound == 0) {
        store_stream_state(stream->store, &state);
        search->bounding = search->from < upto && state.subjects < upto - search->from;
    }
}

static search_outcome_t search_next(const stream_t *stream, search_t *search, stored_message_t *out) {
    uint64_t upto = search_upto(stream, search);
    filters_t filters = {.patterns = &search->pattern, .count = search->pattern.size != 0 ? 1 : 0};
    if (filters.count != 0 && !search->bounding && !subject_has_wildcard(search->pattern)) {
        search->newest = (store_newest_t){0};
        search->bounding = true;
    }
    if (search->bounding) {
        seek_outcome_t bound = search_bound(stream, search);
        switch (bound) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return search_sought(bound);
        case SEEK_FOUND: break;
        }
    }
    upto = search->bound != 0 ? search->bound : upto;
    seek_outcome_t outcome = store_next(stream->store, filters, &search->from, upto, SEARCH_MESSAGES, out);
    switch (outcome) {
    case SEEK_MORE: search_widens(stream, search, upto); break;
    case SEEK_UNKNOWN:
    case SEEK_NONE:
    case SEEK_FOUND: break;
    }
    return search_sought(outcome);
}

static search_outcome_t search_once(const stream_t *stream, search_t *search, stored_message_t *out) {
    return search->last ? search_last(stream, search, out) : search_next(stream, search, out);
}

search_outcome_t search_step(const stream_t *stream, search_t *search, stored_message_t *out) {
    search_outcome_t outcome = search_once(stream, search, out);
    switch (outcome) {
    case SEARCH_UNKNOWN:
    case SEARCH_DAMAGED:
    case SEARCH_MORE:
    case SEARCH_FOUND: return outcome;
    case SEARCH_NONE: break;
    }
    bool extends = (search->last || search->single) && !search->early;
    if (!extends || last_stored(stream) <= store_stream_visible(stream->store)) {
        return outcome;
    }
    search_end(search);
    search->bounding = false;
    search->bound = 0;
    search->early = true;
    return search_once(stream, search, out); /* among those that are not on disk yet, too */
}

void search_end(search_t *search) {
    store_newest_end(&search->newest);
}
