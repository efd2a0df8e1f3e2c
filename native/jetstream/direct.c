/* direct.c: direct gets: $JS.API.DIRECT.GET.<stream>[.<subject>], answered with raw messages and bare statuses.
 *
 *     single      seq | last_by_subj | next_by_subj[+seq] | start_time, or the subject behind the stream's name
 *     batch       up to `batch` messages from seq | start_time, next_by_subj as filter; ends with 204 EOB
 *     multi_last  the last message of each subject that matches, in sequence order; ends with 204 EOB
 *
 * Only what is on disk is served; a single message that is stored and not there yet is waited for. A batch ends early
 * at max_bytes, which is never more than half of what may be queued to one connection: the client goes on behind
 * Nats-Last-Sequence. Reference: tests/wire/jetstream.md. How requests are read: direct_request.c.
 *
 * An answer is made in steps, and what is not ready with the first one is a job (jobs.c). As of when:
 *     single      the last step: nothing that matches and is nearer has been there since
 *     batch       Nats-Num-Pending is the number when the counting ended, less what was sent since; uncounted (a field
 *                 of ours: who reads many parts would have each of them counted to the end): 1 while there may be more
 *     multi_last  up_to is fixed at the first step, so what comes meanwhile is not looked at; what leaves meanwhile is
 *                 not sent, as in the reference, which reads messages after it has selected them
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/status.h"
#include "jetstream/direct_request.h"
#include "jetstream/found_seqs.h"
#include "jetstream/host.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/store.h"
#include "text/subject.h"
#include "text/text.h"
#include "text/time_text.h"
#include "wire/emit.h"

#define SEND_MESSAGES 1024u /* in one step */
#define SEND_BYTES (1u << 20)
#define NAMES_BYTES_MAX (64u << 20)
#define MULTI_LITERALS 512u /* subjects without wildcards, in one step */
#define DIRECT_BUSY "503 Insufficient Resources"
#define DIRECT_NONE "404 Message Not Found" /* which is known not to be there */
typedef enum direct_stage {
    DIRECT_SINGLE = 0,
    DIRECT_FIRST, /* a batch's first message */
    DIRECT_COUNT,
    DIRECT_SEND,
    DIRECT_WALK,   /* the subjects of multi_last */
    DIRECT_BEFORE, /* those whose last is behind up_to */
    DIRECT_SEND_MULTI,
} direct_stage_t;

typedef struct last_seqs last_seqs_t;

typedef struct direct {
    js_t *js;
    stream_t *stream;
    bytes_t reply;
    direct_stage_t stage;
    search_t search;
    store_tally_t *tally;
    uint64_t upto;
    uint64_t sent;
    uint64_t bytes;
    uint64_t pending;
    uint64_t last_seq;
    bool early; /* of what is sent, not all is on disk yet */
    last_seqs_t *multi;
    direct_request_t asked;
} direct_t;

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Says an answer: a message that is not on disk yet leaves when it is. */
static void direct_say(const direct_t *direct, bytes_t header, bytes_t payload) {
    if (direct->early || direct->search.early) {
        js_hold(direct->js, direct->stream, direct->reply, header, payload);
    } else {
        js_say(direct->js, direct->stream->account, direct->reply, header, payload);
    }
}

/* As much waits for the disk as may. */
static bool direct_crowded(const direct_t *direct) {
    const js_t *js = direct->js;
    return (direct->early || direct->search.early) && js->held[direct->stream->which_store].bytes > js->held_max;
}

static void answer_status(const direct_t *direct, const char *status) {
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0 ");
    text_add_literal(&header, status);
    text_add_literal(&header, "\r\n\r\n");
    direct_say(direct, text_bytes(&header), BYTES_NONE);
}

static void text_field(text_t *text, const char *name, uint64_t value) {
    text_add_literal(text, name);
    text_add_number(text, value);
    text_add_literal(text, "\r\n");
}

static void direct_answer_end(const direct_t *direct, uint64_t pending, uint64_t last_seq, uint64_t up_to) {
    text_t header;
    header.size = 0;
    text_add_literal(&header, "NATS/1.0 204 EOB\r\n");
    text_field(&header, "Nats-Num-Pending: ", pending);
    text_field(&header, "Nats-Last-Sequence: ", last_seq);
    if (up_to != 0) {
        text_field(&header, "Nats-UpTo-Sequence: ", up_to);
    }
    text_add_literal(&header, "\r\n");
    direct_say(direct, text_bytes(&header), BYTES_NONE);
}

typedef struct batch_place {
    uint64_t pending;
    uint64_t last_seq;
} batch_place_t;

/* The stored headers, then ours. place: the two further fields of a batch, or NULL. */
static bool answer_message(const direct_t *direct, const stored_message_t *message, const batch_place_t *place) {
    if (direct->asked.no_header && direct->multi == NULL) { /* as in the reference, which sends these with headers */
        direct_say(direct, BYTES_NONE, message->payload);
        return true;
    }
    text_t fields;
    fields.size = 0;
    text_add_literal(&fields, "Nats-Stream: ");
    text_add(&fields, direct->stream->name);
    text_add_literal(&fields, "\r\nNats-Subject: ");
    text_add(&fields, message->subject);
    text_add_literal(&fields, "\r\n");
    text_field(&fields, "Nats-Sequence: ", message->seq);
    uint8_t stamp[TIME_TEXT_MAX];
    text_add_literal(&fields, "Nats-Time-Stamp: ");
    text_add(&fields, bytes_of(stamp, time_format(message->ts, stamp)));
    text_add_literal(&fields, "\r\n");
    if (place != NULL) {
        text_field(&fields, "Nats-Num-Pending: ", place->pending);
        text_field(&fields, "Nats-Last-Sequence: ", place->last_seq);
    }
    text_add_literal(&fields, "\r\n");
    bytes_t stored = message->header;
    bool whole = stored.size >= 12 && memcmp(stored.at + stored.size - 4, "\r\n\r\n", 4) == 0;
    bytes_t front = whole ? bytes_of(stored.at, stored.size - 2) : BYTES_LITERAL("NATS/1.0\r\n");
    buffer_t *out = &direct->js->scratch;
    out->size = 0;
    bytes_t added = text_bytes(&fields);
    if (added.size == 0 || buffer_append(out, front.at, front.size) != STATUS_OK
        || buffer_append(out, added.at, added.size) != STATUS_OK) {
        return false;
    }
    direct_say(direct, bytes_of(out->at, (uint32_t)out->size), message->payload);
    return true;
}

/* ---- one, and a batch -------------------------------------------------------------------------------------------- */

static bool direct_is_over(const direct_t *direct, const char *status) {
    if (status != NULL) {
        answer_status(direct, status);
    }
    return true;
}

static bool step_single(direct_t *direct) {
    stored_message_t message;
    store_stream_t *store = direct->stream->store;
    bool searches = direct->search.last || direct->asked.next_by.size != 0 || direct->asked.has_time;
    direct->early = !searches && direct->asked.seq > store_stream_visible(store);
    status_t status = searches ? search_step(direct->stream, &direct->search, &message)
                               : store_read(store, direct->asked.seq, &message);
    if (status == STATUS_AGAIN) {
        return false;
    }
    bool crowded = direct_crowded(direct);
    bool answered = status == STATUS_OK && !crowded && answer_message(direct, &message, NULL);
    return direct_is_over(direct, answered ? NULL : crowded || status_unknown(status) ? DIRECT_BUSY : DIRECT_NONE);
}

static uint64_t bytes_bound(const direct_t *direct) {
    uint64_t most = direct->js->limits->max_pending / 2;
    return direct->asked.max_bytes != 0 && direct->asked.max_bytes < most ? direct->asked.max_bytes : most;
}

static bool step_first(direct_t *direct) {
    stored_message_t message = {.seq = direct->search.from};
    status_t status = direct->asked.batch < 0 ? STATUS_OK : search_step(direct->stream, &direct->search, &message);
    if (status == STATUS_AGAIN) {
        return false;
    }
    if (direct->asked.uncounted && status == STATUS_OK) {
        direct->pending = 1;
        direct->stage = DIRECT_SEND;
        return false;
    }
    filters_t filters = {.patterns = &direct->asked.next_by, .count = direct->asked.next_by.size != 0 ? 1 : 0};
    direct->tally = status == STATUS_OK ? store_tally_open(direct->stream->store, filters, message.seq) : NULL;
    if (direct->tally == NULL) {
        return direct_is_over(direct, status == STATUS_OK || status_unknown(status) ? DIRECT_BUSY : DIRECT_NONE);
    }
    direct->stage = DIRECT_COUNT;
    return false;
}

static bool step_count(direct_t *direct) {
    switch (store_tally_step(direct->tally, SEARCH_MESSAGES)) {
    case STEP_UNKNOWN: /* the job pauses */
    case STEP_MORE: break;
    case STEP_OVER:
        direct->pending = store_tally_now(direct->tally);
        store_tally_close(direct->tally);
        direct->tally = NULL;
        direct->stage = DIRECT_SEND;
    }
    return false;
}

static bool end_batch(const direct_t *direct) {
    direct_answer_end(direct, direct->pending, direct->last_seq, direct->upto);
    return true;
}

static bool step_send(direct_t *direct) {
    uint64_t bound = bytes_bound(direct), stop = direct->bytes + SEND_BYTES;
    for (uint32_t i = 0; i < SEND_MESSAGES && direct->bytes < stop; i++) {
        stored_message_t message;
        if ((int64_t)direct->sent >= direct->asked.batch || direct->bytes >= bound) {
            return end_batch(direct);
        }
        status_t status = search_step(direct->stream, &direct->search, &message);
        if (status == STATUS_AGAIN) {
            return false;
        }
        if (status != STATUS_OK) {
            direct->pending = direct->asked.uncounted && !status_unknown(status) ? 0 : direct->pending;
            return end_batch(direct);
        }
        bool told = direct->asked.no_header || direct->asked.uncounted; /* at the end, of all then (as the reference) */
        direct->pending -= direct->pending != 0 && !told;
        direct->bytes += stored_size(&message);
        batch_place_t place = {direct->pending, direct->last_seq};
        if (!answer_message(direct, &message, &place)) {
            return end_batch(direct);
        }
        direct->last_seq = message.seq;
        direct->sent++;
        direct->search.from = message.seq + 1;
    }
    return false;
}

/* ---- the last of many subjects ----------------------------------------------------------------------------------- */

struct last_seqs {
    buffer_t filters; /* multi_last as the request has it */
    uint32_t filters_at;
    bool filters_done;
    bool literal; /* the filter at hand */
    store_walk_t *walk;
    uint32_t first; /* to be sent, and what is next */
    uint32_t next;
    bool too_many;
    bool failed;
    buffer_t names; /* subjects of the last step whose last is behind up_to: size 4, bytes */
    uint64_t names_at;
    uint64_t chain_at;
    found_seqs_t found;
};

static void direct_collect(direct_t *direct, uint64_t seq) {
    last_seqs_t *all = direct->multi;
    all->too_many = all->too_many || !found_seqs_add(&all->found, seq);
}

static bool collect_last(void *context, bytes_t subject, uint64_t count, uint64_t last_seq) {
    direct_t *direct = context;
    last_seqs_t *all = direct->multi;
    (void)count;
    if (last_seq <= direct->upto) {
        direct_collect(direct, last_seq);
    } else {
        uint8_t size[4];
        store_be32(size, subject.size);
        all->failed = all->failed || buffer_append(&all->names, size, 4) != STATUS_OK
                      || buffer_append(&all->names, subject.at, subject.size) != STATUS_OK;
    }
    return !all->too_many && !all->failed;
}

static bool direct_is_collected(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    if (all->found.count == 0) {
        return direct_is_over(direct, "404 No Results");
    }
    if (!found_seqs_settle(&all->found)) {
        return direct_is_over(direct, "413 Too Many Results");
    }
    all->first = all->next = found_seqs_below(&all->found, direct->asked.seq);
    direct->pending = all->found.count - all->first;
    direct->stage = DIRECT_SEND_MULTI;
    return false;
}

static bool next_filter(direct_t *direct, uint32_t *at, bytes_t *filter) {
    const buffer_t *filters = &direct->multi->filters;
    return direct_request_filter(&direct->asked, bytes_of(filters->at, (uint32_t)filters->size), at, filter);
}

/* One slice of the subjects of one filter. What the last one finds is sent in this turn, before others replace it. */
static void walk_some(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    bytes_t filter;
    if (all->walk == NULL) {
        all->filters_done = !next_filter(direct, &all->filters_at, &filter);
        if (all->filters_done) {
            return;
        }
        all->literal = !subject_has_wildcard(filter);
        all->walk = store_walk_open(direct->stream->store, filter);
    }
    uint32_t at = all->filters_at;
    step_outcome_t step =
        all->walk != NULL ? store_walk_step(all->walk, SEARCH_SUBJECTS, collect_last, direct) : STEP_UNKNOWN;
    switch (step) {
    case STEP_UNKNOWN: all->failed = true; break;
    case STEP_MORE: break;
    case STEP_OVER:
        store_walk_close(all->walk);
        all->walk = NULL;
        all->filters_done = !next_filter(direct, &at, &filter);
    }
}

static bool step_walk(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint32_t budget = MULTI_LITERALS;
    for (all->literal = true; all->literal && !all->filters_done && budget > 0; budget--) {
        walk_some(direct);
        if (all->too_many || all->failed) {
            return direct_is_over(direct, all->too_many ? "413 Too Many Results" : DIRECT_BUSY);
        }
    }
    if (all->names.size != 0) {
        direct->stage = DIRECT_BEFORE;
    } else if (all->filters_done) {
        return direct_is_collected(direct);
    }
    return false;
}

/* A newer message took the place of what was the last on disk: that one, then, as with search_t. */
static status_t newest_at_all(direct_t *direct, bytes_t subject) {
    direct->multi->chain_at = 0;
    direct->early = true;
    uint32_t budget = 1;
    return store_newest_of(direct->stream->store, subject, UINT64_MAX, &budget, &direct->multi->chain_at);
}

/* Looks for the last message of the subject at up_to. */
static bool step_before(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint32_t budget = SEARCH_SUBJECTS;
    while (all->names_at + 4 <= all->names.size) {
        bytes_t subject = bytes_of(all->names.at + all->names_at + 4, load_be32(all->names.at + all->names_at));
        status_t status = store_newest_of(direct->stream->store, subject, direct->upto, &budget, &all->chain_at);
        if (status == STATUS_AGAIN) {
            break;
        }
        if (status == STATUS_NOT_FOUND && direct->asked.up_to_seq == 0 && !direct->asked.has_up_to_time) {
            status = newest_at_all(direct, subject);
        }
        if (status == STATUS_OK) {
            direct_collect(direct, all->chain_at);
        }
        if (all->too_many || status_unknown(status)) {
            return direct_is_over(direct, all->too_many ? "413 Too Many Results" : DIRECT_BUSY);
        }
        all->chain_at = 0;
        all->names_at += 4 + (uint64_t)subject.size;
    }
    if (all->names_at + 4 > all->names.size) {
        all->names.size = all->names_at = 0;
        direct->stage = DIRECT_WALK;
    }
    return false;
}

static bool step_send_multi(direct_t *direct) {
    last_seqs_t *all = direct->multi;
    uint64_t bound = bytes_bound(direct), stop = direct->bytes + SEND_BYTES;
    while (direct->bytes < stop) {
        if (all->next == all->found.count || direct->bytes >= bound || direct_crowded(direct)
            || (direct->asked.batch > 0 && all->next - all->first == direct->asked.batch)) {
            return end_batch(direct);
        }
        stored_message_t message;
        status_t status = store_read(direct->stream->store, all->found.seqs[all->next], &message);
        if (status_unknown(status)) {
            return false; /* the next step tries it again */
        }
        all->next++;
        direct->pending--;
        if (status != STATUS_OK) {
            continue;
        }
        direct->bytes += stored_size(&message);
        batch_place_t place = {direct->pending, direct->last_seq};
        if (!answer_message(direct, &message, &place)) {
            return end_batch(direct);
        }
        direct->last_seq = message.seq;
    }
    return false;
}

/* The first message at or behind that time, as far as needed: what is below is older, and all of it. */
static status_t first_at(const direct_t *direct, int64_t ts, uint64_t *seq) {
    status_t status = store_seq_at_time(direct->stream->store, ts, SEARCH_MESSAGES, seq);
    *seq = status == STATUS_NOT_FOUND ? UINT64_MAX : *seq;
    return status_unknown(status) && status != STATUS_AGAIN ? status : STATUS_OK;
}

static status_t multi_upto(direct_t *direct) {
    uint64_t visible = store_stream_visible(direct->stream->store);
    uint64_t end = direct->asked.up_to_seq + (direct->asked.up_to_seq != 0); /* 0: no other than what is visible */
    status_t status = direct->asked.has_up_to_time ? first_at(direct, direct->asked.up_to_ts, &end) : STATUS_OK;
    direct->upto = end - 1 < visible ? end - 1 : visible;
    return status;
}

/* ---- gets of many messages, step by step ------------------------------------------------------------------------- */

typedef struct direct_job {
    job_t job;
    direct_t direct;
} direct_job_t;

static void direct_end(direct_t *direct) {
    search_end(&direct->search);
    store_tally_close(direct->tally);
    if (direct->multi != NULL) {
        store_walk_close(direct->multi->walk);
        buffer_free(&direct->multi->names);
        buffer_free(&direct->multi->filters);
        free(direct->multi);
    }
}

/* Goes on until a stage wants another step; true: it is answered. */
static bool direct_step(direct_t *direct) {
    static bool (*const stages[])(direct_t *direct) = {step_single, step_first,  step_count,     step_send,
                                                       step_walk,   step_before, step_send_multi};
    direct_stage_t stage;
    do {
        stage = direct->stage;
        if (stages[stage](direct)) {
            return true;
        }
    } while (direct->stage > stage);
    return false;
}

static bool job_step(js_t *js, job_t *job) {
    (void)js;
    direct_t *direct = &((direct_job_t *)job)->direct;
    return direct->stream->half ? direct_is_over(direct, DIRECT_BUSY) : direct_step(direct);
}

static void job_end(js_t *js, job_t *job, status_t status) {
    (void)js;
    direct_job_t *own = (direct_job_t *)job;
    if (status == STATUS_FULL) {
        answer_status(&own->direct, DIRECT_BUSY);
    }
    direct_end(&own->direct);
    bytes_release(&own->direct.reply);
    free(own);
}

/* The first step is made where the request lies; what takes longer moves into a job of its own. cheap: one look is all
 * it takes. */
static void direct_run(direct_t *direct, bool cheap) {
    js_t *js = direct->js;
    bool turn = cheap || job_turn(js);
    if (turn && direct_step(direct)) {
        uint32_t work = direct->bytes > SEND_BYTES / 4 ? JOB_STEP : JOB_LOOK;
        js->job_work += cheap ? 0 : direct->stage == DIRECT_SINGLE ? JOB_GLANCE : work;
        direct_end(direct);
        return;
    }
    js->job_work += turn ? JOB_STEP : 0;
    direct_job_t *own = malloc(sizeof(*own));
    bytes_t reply = bytes_copy(direct->reply);
    if (own == NULL || reply.size == 0) {
        bytes_release(&reply);
        free(own);
        answer_status(direct, DIRECT_BUSY);
        direct_end(direct);
        return;
    }
    own->job = (job_t){.stream = direct->stream, .refusable = true, .step = job_step, .end = job_end};
    own->direct = *direct;
    own->direct.reply = reply;
    direct_request_moved(&own->direct.asked, &direct->asked);
    own->direct.search.pattern = own->direct.search.last ? own->direct.asked.last_by : own->direct.asked.next_by;
    job_wait(js, &own->job);
}

static void get_multi(direct_t *direct) {
    const direct_request_t *asked = &direct->asked;
    direct->multi = job_refused(direct->js, direct->stream->account) ? NULL : calloc(1, sizeof(*direct->multi));
    if (direct->multi == NULL) {
        answer_status(direct, DIRECT_BUSY);
        return;
    }
    buffer_init(&direct->multi->names, NAMES_BYTES_MAX);
    buffer_init(&direct->multi->filters, UINT32_MAX);
    buffer_count(&direct->multi->filters, &direct->js->filters);
    if (buffer_append(&direct->multi->filters, asked->multi.at, asked->multi.size) != STATUS_OK
        || multi_upto(direct) != STATUS_OK) {
        answer_status(direct, DIRECT_BUSY);
        direct_end(direct);
        return;
    }
    direct->stage = DIRECT_WALK;
    direct_run(direct, false);
}

static void get_messages(direct_t *direct) {
    const direct_request_t *asked = &direct->asked;
    uint64_t from = asked->seq;
    if (asked->has_time && first_at(direct, asked->start_ts, &from) != STATUS_OK) {
        answer_status(direct, DIRECT_BUSY);
        return;
    }
    bool last = asked->last_by.size != 0;
    direct->search = (search_t){
        .pattern = last ? asked->last_by : asked->next_by, .from = from, .last = last, .single = asked->batch == 0};
    direct->stage = asked->batch != 0 ? DIRECT_FIRST : DIRECT_SINGLE;
    direct_run(direct, asked->batch == 0 && (last ? !subject_has_wildcard(asked->last_by) : asked->next_by.size == 0));
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static void direct_body(direct_t *direct, bytes_t body) {
    const direct_request_t *asked = &direct->asked;
    if (body.size == 0) {
        answer_status(direct, "408 Empty Request");
    } else if (!direct_request_read(&direct->asked, body)) {
        answer_status(direct, "408 Malformed Request");
    } else if (asked->seq == 0 && asked->last_by.size == 0 && asked->next_by.size == 0 && asked->multi.size == 0
               && !asked->has_time) {
        answer_status(direct, "408 Empty Request");
    } else if (direct_request_conflicts(asked)) {
        answer_status(direct, "408 Bad Request");
    } else if (asked->multi.size != 0) {
        get_multi(direct);
    } else {
        get_messages(direct);
    }
}

void js_direct(js_t *js, stream_t *stream, const message_t *message) {
    if (message->reply.size == 0) {
        return;
    }
    direct_t direct;
    memset(&direct, 0, offsetof(direct_t, asked.text));
    direct.js = js;
    direct.stream = stream;
    direct.reply = message->reply;
    if (js_level_too_high(message->header)) {
        answer_status(&direct, "412 Required Api Level");
        return;
    }
    bytes_t prefix = BYTES_LITERAL("$JS.API.DIRECT.GET.");
    check(bytes_starts(message->subject, prefix));
    bytes_t tail = bytes_of(message->subject.at + prefix.size, message->subject.size - prefix.size);
    if (tail.size == stream->name.size) {
        direct_body(&direct, message->payload);
        return;
    }
    /* $JS.API.DIRECT.GET.<stream>.<subject>: the newest on that subject; the body may only ask for no headers. */
    if (message->payload.size != 0 && !direct_request_read(&direct.asked, message->payload)) {
        answer_status(&direct, "408 Malformed Request");
        return;
    }
    const direct_request_t *asked = &direct.asked;
    if (asked->seq != 0 || asked->last_by.size != 0 || asked->next_by.size != 0 || asked->multi.size != 0
        || asked->has_time || asked->batch != 0 || asked->up_to_seq != 0 || asked->has_up_to_time) {
        answer_status(&direct, "408 Bad Request");
        return;
    }
    direct.asked.last_by = bytes_of(tail.at + stream->name.size + 1, tail.size - stream->name.size - 1);
    get_messages(&direct);
}
