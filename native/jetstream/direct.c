/* direct.c: direct gets: $JS.API.DIRECT.GET.<stream>[.<subject>], answered with raw messages and bare statuses.
 *
 *     single      seq | last_by_subj | next_by_subj[+seq] | start_time, or the subject behind the stream's name
 *     batch       up to `batch` messages from seq | start_time, next_by_subj as filter; ends with 204 EOB
 *     multi_last  the last message of each subject that matches, in sequence order; ends with 204 EOB
 *
 * Only what is on disk is served; a single message that is stored and not there yet is waited for. A batch ends early
 * at max_bytes, which is never more than half of what may be queued to one connection: the client goes on behind
 * Nats-Last-Sequence. Reference: tests/wire/jetstream.md. How requests are read: direct_request.c; multi_last:
 * direct_last.c.
 *
 * An answer is made in steps, and what is not ready with the first one is a job (jobs.c). As of when:
 *     single      the last step: nothing that matches and is nearer has been there since
 *     batch       Nats-Num-Pending is the number when the counting ended, less what was sent since; uncounted (a field
 *                 of ours: a reader of many parts would have each of them counted to the end): 1 while there may be
 *                 more
 *     multi_last  up_to is fixed at the first step, so what comes meanwhile is not looked at; what leaves meanwhile is
 *                 not sent, as in the reference, which reads messages after it has selected them
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/copies.h"
#include "base/status.h"
#include "jetstream/direct_private.h"
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

#define SEND_MESSAGES 1024u                 /* in one step */
#define DIRECT_NONE "404 Message Not Found" /* only for a message that is known not to be there */

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Sends an answer. A message that is not on disk yet leaves once it is. */
static void direct_say(const direct_t *direct, bytes_t header, bytes_t payload) {
    if (direct->early || direct->search.early) {
        js_hold(direct->js, direct->stream, direct->reply, header, payload);
    } else {
        js_say(direct->js, direct->stream->account, direct->reply, header, payload);
    }
}

/* Whether as much waits for the disk as may wait. */
bool direct_crowded(const direct_t *direct) {
    const js_t *js = direct->js;
    return (direct->early || direct->search.early) && js->held[direct->stream->which_store].bytes > js->held_max;
}

void direct_answer_status(const direct_t *direct, const char *status) {
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

/* The stored headers, then ours. place: the two further fields of a batch, or NULL. */
bool direct_answer_message(const direct_t *direct, const stored_message_t *message, const batch_place_t *place) {
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

bool direct_is_over(const direct_t *direct, const char *status) {
    if (status != NULL) {
        direct_answer_status(direct, status);
    }
    return true;
}

static bool step_single(direct_t *direct) {
    stored_message_t message;
    store_stream_t *store = direct->stream->store;
    bool searches = direct->search.last || direct->asked.next_by.size != 0 || direct->asked.has_time;
    direct->early = !searches && direct->asked.seq > store_stream_visible(store);
    search_outcome_t outcome = searches ? search_step(direct->stream, &direct->search, &message)
                                        : search_outcome(store_read(store, direct->asked.seq, &message));
    bool answered = false, busy = direct_crowded(direct);
    switch (outcome) {
    case SEARCH_MORE: return false;
    case SEARCH_UNKNOWN: busy = true; break;
    case SEARCH_NONE:
    case SEARCH_DAMAGED: break;
    case SEARCH_FOUND: answered = !busy && direct_answer_message(direct, &message, NULL); break;
    }
    return direct_is_over(direct, answered ? NULL : busy ? DIRECT_BUSY : DIRECT_NONE);
}

uint64_t direct_bytes_bound(const direct_t *direct) {
    uint64_t most = direct->js->limits->max_pending / 2;
    return direct->asked.max_bytes != 0 && direct->asked.max_bytes < most ? direct->asked.max_bytes : most;
}

static bool step_first(direct_t *direct) {
    stored_message_t message = {.seq = direct->search.from};
    search_outcome_t outcome =
        direct->asked.batch < 0 ? SEARCH_FOUND : search_step(direct->stream, &direct->search, &message);
    switch (outcome) {
    case SEARCH_MORE: return false;
    case SEARCH_UNKNOWN: return direct_is_over(direct, DIRECT_BUSY);
    case SEARCH_NONE:
    case SEARCH_DAMAGED: return direct_is_over(direct, DIRECT_NONE);
    case SEARCH_FOUND: break;
    }
    if (direct->asked.uncounted) {
        direct->pending = 1;
        direct->stage = DIRECT_SEND;
        return false;
    }
    filters_t filters = {.patterns = &direct->asked.next_by, .count = direct->asked.next_by.size != 0 ? 1 : 0};
    direct->tally = store_tally_open(direct->stream->store, filters, message.seq);
    if (direct->tally == NULL) {
        return direct_is_over(direct, DIRECT_BUSY);
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

bool direct_end_batch(const direct_t *direct) {
    direct_answer_end(direct, direct->pending, direct->last_seq, direct->upto);
    return true;
}

static bool step_send(direct_t *direct) {
    uint64_t bound = direct_bytes_bound(direct), stop = direct->bytes + DIRECT_SEND_BYTES;
    for (uint32_t i = 0; i < SEND_MESSAGES && direct->bytes < stop; i++) {
        stored_message_t message;
        if ((int64_t)direct->sent >= direct->asked.batch || direct->bytes >= bound) {
            return direct_end_batch(direct);
        }
        switch (search_step(direct->stream, &direct->search, &message)) {
        case SEARCH_MORE: return false;
        case SEARCH_UNKNOWN: return direct_end_batch(direct);
        case SEARCH_NONE:
        case SEARCH_DAMAGED:
            direct->pending = direct->asked.uncounted ? 0 : direct->pending;
            return direct_end_batch(direct);
        case SEARCH_FOUND: break;
        }
        bool told = direct->asked.no_header || direct->asked.uncounted; /* at the end, of all then (as the reference) */
        direct->pending -= direct->pending != 0 && !told;
        direct->bytes += stored_size(&message);
        batch_place_t place = {direct->pending, direct->last_seq};
        if (!direct_answer_message(direct, &message, &place)) {
            return direct_end_batch(direct);
        }
        direct->last_seq = message.seq;
        direct->sent++;
        direct->search.from = message.seq + 1;
    }
    return false;
}

/* The first message at or behind that time, as far as needed: what is below is older, and all of it. */
status_t direct_first_at(const direct_t *direct, int64_t ts, uint64_t *seq) {
    switch (store_seq_at_time(direct->stream->store, ts, SEARCH_MESSAGES, seq)) {
    case SEEK_UNKNOWN: return STATUS_IO;
    case SEEK_NONE: *seq = UINT64_MAX; break;
    case SEEK_MORE:
    case SEEK_FOUND: break;
    }
    return STATUS_OK;
}

/* ---- gets of many messages, step by step ------------------------------------------------------------------------- */

typedef struct direct_job {
    job_t job;
    direct_t direct;
} direct_job_t;

static void direct_end(direct_t *direct) {
    search_end(&direct->search);
    store_tally_close(direct->tally);
    direct_last_end(direct->multi);
}

/* Runs stages until one wants another step; true: the request is answered. */
static bool direct_step(direct_t *direct) {
    static bool (*const stages[])(direct_t *direct) = {
        step_single, step_first, step_count, step_send, direct_step_walk, direct_step_before, direct_step_send_multi};
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
        direct_answer_status(&own->direct, DIRECT_BUSY);
    }
    direct_end(&own->direct);
    bytes_release(&own->direct.reply);
    free(own);
}

/* Makes the first step where the request lies. A request that takes longer moves into a job of its own. cheap: one look
 * answers it. */
static void direct_run(direct_t *direct, bool cheap) {
    js_t *js = direct->js;
    bool turn = cheap || job_turn(js);
    if (turn && direct_step(direct)) {
        uint32_t work = direct->bytes > DIRECT_SEND_BYTES / 4 ? JOB_STEP : JOB_LOOK;
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
        direct_answer_status(direct, DIRECT_BUSY);
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
    status_t status = job_refused(direct->js, direct->stream->account) ? STATUS_FULL : direct_last_begin(direct);
    if (status != STATUS_OK) {
        direct_answer_status(direct, DIRECT_BUSY);
        direct_end(direct);
        return;
    }
    direct->stage = DIRECT_WALK;
    direct_run(direct, false);
}

static void get_messages(direct_t *direct) {
    const direct_request_t *asked = &direct->asked;
    uint64_t from = asked->seq;
    if (asked->has_time && direct_first_at(direct, asked->start_ts, &from) != STATUS_OK) {
        direct_answer_status(direct, DIRECT_BUSY);
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
        direct_answer_status(direct, "408 Empty Request");
    } else if (!direct_request_read(&direct->asked, body)) {
        direct_answer_status(direct, "408 Malformed Request");
    } else if (asked->seq == 0 && asked->last_by.size == 0 && asked->next_by.size == 0 && asked->multi.size == 0
               && !asked->has_time) {
        direct_answer_status(direct, "408 Empty Request");
    } else if (direct_request_conflicts(asked)) {
        direct_answer_status(direct, "408 Bad Request");
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
        direct_answer_status(&direct, "412 Required Api Level");
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
        direct_answer_status(&direct, "408 Malformed Request");
        return;
    }
    const direct_request_t *asked = &direct.asked;
    if (asked->seq != 0 || asked->last_by.size != 0 || asked->next_by.size != 0 || asked->multi.size != 0
        || asked->has_time || asked->batch != 0 || asked->up_to_seq != 0 || asked->has_up_to_time) {
        direct_answer_status(&direct, "408 Bad Request");
        return;
    }
    direct.asked.last_by = bytes_of(tail.at + stream->name.size + 1, tail.size - stream->name.size - 1);
    get_messages(&direct);
}
