/* job.h: work on a stream that may take longer than a tick may (jobs.c), and looking for one message in steps.
 */
#ifndef LEAFD_JETSTREAM_JOB_H
#define LEAFD_JETSTREAM_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/outcome.h"
#include "base/status.h"
#include "jetstream/host.h"
#include "store/store.h"

typedef struct js js_t;
typedef struct stream stream_t;
typedef struct job job_t;

/* The share of a step in the work of its tick. Requests that one look answers count, too: a client may send thousands
 * at once. */
#define JOB_STEP 16u
#define JOB_LAST (JOB_STEP / 2) /* the last step of a job */
#define JOB_LOOK (JOB_STEP / 4) /* a first step over many subjects or messages, which was also the last */
#define JOB_GLANCE 1u           /* one message, found at once */
/* A step that gets no further since something could not be read is tried again after so long, then after twice as
 * long. */
#define JOB_PAUSE_MIN_NS (10 * NS_PER_MS)
#define JOB_PAUSE_MAX_NS NS_PER_SECOND

/* Work on a stream in bounded steps; the first member of a struct of the owner's. */
struct job {
    job_t *next;
    stream_t *stream;
    int64_t pause_ns;                   /* 0: the last step could read what it needs, else the next one is made .. */
    int64_t again_ns;                   /* .. not before this, on the plane's clock */
    bool refusable;                     /* a client asks: may be refused when there are too many */
    bool stuck;                         /* the step's word: it got no further, whatever the store could read */
    bool (*step)(js_t *js, job_t *job); /* true: over, and answered */
    /* Frees it. STATUS_OK: it is done; STATUS_NOT_FOUND: the stream goes; STATUS_FULL: there are too many jobs
     * (refusable ones only), which it answers. */
    void (*end)(js_t *js, job_t *job, status_t status);
};
/* Is the job over with that step? What could not be read is tried again, behind a pause. */
static inline bool job_over(job_t *job, step_outcome_t step) {
    switch (step) {
    case STEP_UNKNOWN: job->stuck = true; return false;
    case STEP_MORE: return false;
    case STEP_OVER: break;
    }
    return true;
}
void job_start(js_t *js, job_t *job);    /* it may be gone when this returns */
bool job_turn(const js_t *js);           /* has this tick a step left? */
bool job_takes(js_t *js, uint32_t work); /* if so, that much of it is taken; for work that is no job */
/* it has not, and there is no room to wait: job_wait would end it at once */
bool job_refused(const js_t *js, const js_account_t *account);
void job_wait(js_t *js, job_t *job); /* the same for one that has made its first step */
void jobs_step(js_t *js);
bool jobs_wait(const js_t *js, const stream_t *stream); /* are there any of that one? */
void jobs_forget(js_t *js, const stream_t *stream);

#define SEARCH_MESSAGES 7168u /* one step looks at so many messages, or subjects */
#define SEARCH_SUBJECTS 4096u

/* The newest message of a subject or pattern, or the next one from a sequence on, among those on disk. Begun with zeros
 * but for the first four. The answer to `next` is that of the moment of the last step; to `last`, one that is there
 * then, and none that was there all the while is newer.
 *
 * A message whose place a newer one takes is gone at once, and the newer one is not on disk for a while. `last` finds
 * that one then, and says so by `early`: its answer has to wait for the open batch. So does `next` where one message is
 * asked for (`single`): what a stream's state counts is never said not to be there. */
typedef struct search {
    bytes_t pattern; /* the caller's; empty = every message (next only) */
    uint64_t from;
    bool last;
    bool single;
    bool bounding;
    bool early;
    uint32_t tries;
    uint64_t bound;
    store_newest_t newest;
} search_t;
/* Of one step. SEARCH_DAMAGED: the message that it comes to. */
typedef enum search_outcome { SEARCH_FOUND, SEARCH_NONE, SEARCH_MORE, SEARCH_DAMAGED, SEARCH_UNKNOWN } search_outcome_t;
LEAF_MUST_USE search_outcome_t search_step(const stream_t *stream, search_t *search, stored_message_t *out);
/* What a read of one message says where a search could have been made. */
static inline search_outcome_t search_outcome(entry_outcome_t outcome) {
    switch (outcome) {
    case ENTRY_FOUND: return SEARCH_FOUND;
    case ENTRY_NONE: return SEARCH_NONE;
    case ENTRY_DAMAGED: return SEARCH_DAMAGED;
    case ENTRY_UNKNOWN: break;
    }
    return SEARCH_UNKNOWN;
}
void search_end(search_t *search);

static inline uint64_t stored_size(const stored_message_t *message) {
    return (uint64_t)message->subject.size + message->header.size + message->payload.size;
}

#endif
