/* atomic.c: atomic batches. A client publishes some messages, and with the last one all of them are stored, or none.
 *
 *     Nats-Batch-Id: <id>   Nats-Batch-Sequence: 1, 2, ..   Nats-Batch-Commit: 1 (this one, too), eob (not this one)
 *
 *      1st message, further ones      staged: a copy in memory          answered with nothing (an empty message)
 *      commit                         atomic_commit.c                   PubAck with the batch's id and count
 *      a gap, too many, silence       dropped                           error, advisory
 *
 * What is staged is counted in a share of memory and is lost when the server ends, as is every batch that nobody
 * committed. Order of checks and texts: the reference's (tests/wire/jetstream.md, "Atomic batches").
 */
#include "jetstream/atomic.h"

#include <stdlib.h>

#include "base/abi_types.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/copies.h"
#include "exchange/exchange.h"
#include "jetstream/job.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/ledger.h"
#include "text/decimal.h"
#include "text/headers.h"
#include "text/text.h"

/* The default where the configuration is silent (0). */
#define PER_STREAM_DEFAULT 50u
#define TOTAL_DEFAULT 1000u
#define MESSAGES_DEFAULT 1000u
#define TIMEOUT_DEFAULT_NS (10 * NS_PER_SECOND)

typedef enum commit_word { COMMIT_NOT = 0, COMMIT_THIS, COMMIT_BEFORE, COMMIT_WRONG } commit_word_t;

/* The words of a message about its batch. */
typedef struct atomic_word {
    bytes_t id;
    uint64_t seq;
    bool has_seq;
    commit_word_t commit;
    bool has_level; /* it says which level of the API it requires */
} atomic_word_t;

static const refusal_t refused_off = {400, 10174, "atomic publish is disabled", {NULL, 0}, false};
static const refusal_t refused_no_seq = {400, 10175, "atomic publish sequence is missing", {NULL, 0}, false};
static const refusal_t refused_incomplete = {400, 10176, "atomic publish batch is incomplete", {NULL, 0}, false};
static const refusal_t refused_id = {400, 10179, "atomic publish batch ID is invalid", {NULL, 0}, false};
static const refusal_t refused_level = {412, 10185, "JetStream minimum api level required", {NULL, 0}, false};
static const refusal_t refused_large = {400, 10199, "atomic publish batch is too large: ", {NULL, 0}, false};
static const refusal_t refused_commit = {400, 10200, "atomic publish batch commit is invalid", {NULL, 0}, false};
static const refusal_t refused_many = {429, 10210, "atomic publish too many inflight", {NULL, 0}, false};

/* ---- what a message says ----------------------------------------------------------------------------------------- */

static void word_field(atomic_word_t *word, bytes_t what, bytes_t value) {
    if (bytes_equal(what, BYTES_LITERAL("Batch-Id")) && word->id.size == 0) {
        word->id = value;
    } else if (bytes_equal(what, BYTES_LITERAL("Batch-Sequence")) && !word->has_seq) {
        word->has_seq = decimal_parse(value, &word->seq);
    } else if (bytes_equal(what, BYTES_LITERAL("Batch-Commit")) && word->commit == COMMIT_NOT) {
        word->commit = bytes_equal(value, BYTES_LITERAL("1"))     ? COMMIT_THIS
                       : bytes_equal(value, BYTES_LITERAL("eob")) ? COMMIT_BEFORE
                                                                  : COMMIT_WRONG;
    } else if (bytes_equal(what, BYTES_LITERAL("Required-Api-Level"))) {
        word->has_level = true;
    }
}

static void word_read(bytes_t header, atomic_word_t *word) {
    uint32_t cursor = 0;
    bytes_t name, value;
    memset(word, 0, sizeof(*word));
    while (headers_next(header, &cursor, &name, &value)) {
        if (bytes_starts(name, BYTES_LITERAL("Nats-"))) {
            word_field(word, bytes_of(name.at + 5, name.size - 5), value);
        }
    }
}

static bool drop_level(bytes_t name) {
    return bytes_equal(name, BYTES_LITERAL("Nats-Required-Api-Level"));
}

/* ---- the batches that are open ----------------------------------------------------------------------------------- */

static void atomic_free(atomic_batch_t *batch) {
    batch->open.stream->atomic_count--;
    buffer_free(&batch->staged);
    free(batch);
}

static void atomic_drop(js_t *js, atomic_batch_t *batch) {
    open_batch_remove(js->atomic, &batch->open);
    atomic_free(batch);
}

/* Dropped before its time, which clients may want to hear of. */
static void atomic_abandon(js_t *js, atomic_batch_t *batch, uint32_t reason) {
    if (js->host->advisory_room(js->plane)) {
        advisory_t numbers = {0};
        event_entry_t *entry = event_new(EVENT_ADVISORY, open_batch_id(&batch->open), BYTES_NONE, BYTES_NONE,
                                         bytes_of(&numbers, sizeof(numbers)));
        if (entry != NULL) {
            entry->event.code = ADVISORY_BATCH_ABANDONED;
            entry->event.target = batch->open.stream->id;
            entry->event.arg = reason;
            js->host->advise(js->plane, entry);
        }
    }
    atomic_drop(js, batch);
}

static uint32_t given(uint32_t limit, uint32_t otherwise) {
    return limit != 0 ? limit : otherwise;
}

static uint32_t messages_max(const js_t *js) {
    return given(js->limits->batch_messages, MESSAGES_DEFAULT);
}

static int64_t atomic_deadline(const js_t *js) {
    int64_t timeout = js->limits->batch_timeout_ns;
    return js->now->mono_ns + (timeout > 0 ? timeout : TIMEOUT_DEFAULT_NS);
}

static const refusal_t *atomic_begin(js_t *js, stream_t *stream, bytes_t id, atomic_batch_t **out) {
    if (js->atomic == NULL) {
        js->atomic = open_batches_make();
    }
    if (js->atomic == NULL || stream->atomic_count >= given(js->limits->batches_per_stream, PER_STREAM_DEFAULT)
        || open_batches_count(js->atomic) >= given(js->limits->batches_total, TOTAL_DEFAULT)) {
        return &refused_many;
    }
    atomic_batch_t *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        return &refused_many;
    }
    buffer_init(&batch->staged, UINT32_MAX);
    buffer_count(&batch->staged, &js->staged);
    open_batch_add(js->atomic, &batch->open, stream, id, atomic_deadline(js));
    stream->atomic_count++;
    *out = batch;
    return NULL;
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

static bool stage_message(atomic_batch_t *batch, const atomic_word_t *word, const message_t *message) {
    buffer_t *out = &batch->staged;
    uint64_t begin = out->size;
    staged_t sizes = {message->subject.size, message->header.size, message->payload.size};
    bool good = buffer_append(out, &sizes, sizeof(sizes)) == STATUS_OK
                && buffer_append(out, message->subject.at, message->subject.size) == STATUS_OK;
    uint64_t header = out->size;
    bool empty = false;
    if (good && word->has_level) {
        good = headers_copy_without(out, message->header, drop_level, false, &empty) == STATUS_OK;
        sizes.header = (uint32_t)(out->size - header);
    } else {
        good = good && buffer_append(out, message->header.at, message->header.size) == STATUS_OK;
    }
    good = good && buffer_append(out, message->payload.at, message->payload.size) == STATUS_OK;
    if (!good) {
        out->size = begin;
        return false;
    }
    memcpy(out->at + begin, &sizes, sizeof(sizes));
    batch->count++;
    return true;
}

const refusal_t *atomic_too_large(atomic_refusal_t *room, uint64_t most, bool bytes) {
    room->refusal = refused_large;
    uint8_t *end = decimal_write(room->text, most);
    if (bytes) {
        memcpy(end, " bytes", 6);
        end += 6;
    }
    room->refusal.detail = bytes_of(room->text, (uint32_t)(end - room->text));
    return &room->refusal;
}

/* How many messages it has, with this one. */
static uint64_t atomic_size(const atomic_word_t *word) {
    return word->commit == COMMIT_BEFORE ? word->seq - 1 : word->seq;
}

/* How many bytes it may have: they are one entry of a log, where the stream has one. */
static uint64_t atomic_most_bytes(const js_t *js, const stream_t *stream) {
    const store_t *store = js->stores[stream->which_store];
    uint64_t most = store_group_most(store);
    uint64_t of_log = stream->replicated != NULL ? store_ledger_most(js->stores[STORE_FILE]) : most;
    return of_log < most ? of_log : most;
}

/* The batch takes the message, or is dropped. */
static const refusal_t *atomic_take(js_t *js, atomic_batch_t *batch, const atomic_word_t *word,
                                    const message_t *message, atomic_refusal_t *room) {
    uint64_t most = messages_max(js);
    uint64_t most_bytes = atomic_most_bytes(js, batch->open.stream);
    if (word->commit == COMMIT_WRONG) {
        atomic_drop(js, batch);
        return &refused_commit;
    }
    if (word->has_level && js_level_too_high(message->header)) {
        atomic_abandon(js, batch, ABANDONED_UNSUPPORTED);
        return &refused_level;
    }
    open_batch_heard(js->atomic, &batch->open, atomic_deadline(js));
    if (word->seq != ++batch->last_seq || (word->seq == 1 && word->commit == COMMIT_BEFORE)) {
        atomic_abandon(js, batch, ABANDONED_INCOMPLETE);
        return &refused_incomplete;
    }
    if (atomic_size(word) > most) {
        atomic_abandon(js, batch, ABANDONED_LARGE);
        return atomic_too_large(room, most, false);
    }
    if (word->commit == COMMIT_BEFORE) {
        return NULL;
    }
    batch->need += store_group_need(message->subject.size, (uint64_t)message->header.size + message->payload.size);
    if (batch->need > most_bytes) {
        atomic_abandon(js, batch, ABANDONED_LARGE);
        return atomic_too_large(room, most_bytes, true);
    }
    if (!stage_message(batch, word, message)) {
        atomic_abandon(js, batch, ABANDONED_INCOMPLETE);
        return &refused_many;
    }
    return NULL;
}

/* ---- a commit that waits for room, or for a look ----------------------------------------------------------------- */

typedef struct commit_job {
    job_t job;
    atomic_batch_t *batch; /* in no list any more */
    bytes_t reply;         /* own copy */
    bool before;
    buffer_t packed; /* of a stream that several servers keep: the batch, as its log is to have it */
} commit_job_t;

/* What there is to say, or room->waits. */
static const refusal_t *commit_try(js_t *js, const commit_job_t *commit, atomic_refusal_t *room) {
    const atomic_batch_t *batch = commit->batch;
    if (batch->open.stream->replicated == NULL) {
        return atomic_commit(js, batch, commit->before, commit->reply, room);
    }
    bytes_t packed = bytes_of(commit->packed.at, (uint32_t)commit->packed.size);
    status_t status =
        replicated_batch(js, batch->open.stream, packed, open_batch_id(&batch->open), batch->count, commit->reply);
    room->waits = status == STATUS_AGAIN;
    /* A former leader answers nobody. */
    return status == STATUS_AGAIN ? &refused_space : status == STATUS_INVALID ? &refused_size : NULL;
}

static bool commit_step(js_t *js, job_t *job) {
    commit_job_t *commit = (commit_job_t *)job;
    atomic_refusal_t room;
    const refusal_t *refusal = commit_try(js, commit, &room);
    if (refusal != NULL && room.waits && js->now->mono_ns < commit->batch->open.deadline_ns) {
        return false;
    }
    if (refusal != NULL) {
        js_answer_refused(js, job->stream, commit->reply, refusal);
    }
    return true;
}

static void commit_free(commit_job_t *commit) {
    atomic_free(commit->batch);
    buffer_free(&commit->packed);
    bytes_release(&commit->reply);
    free(commit);
}

static void commit_end(js_t *js, job_t *job, status_t status) {
    commit_job_t *commit = (commit_job_t *)job;
    if (status == STATUS_FULL) {
        js_answer_refused(js, job->stream, commit->reply, &refused_space);
    }
    if (job->stream->replicated == NULL) {
        store_group_give_up(js->stores[job->stream->which_store]);
    }
    commit_free(commit);
}

/* Its commit, with a reply that is the message's. */
static commit_job_t commit_of(js_t *js, atomic_batch_t *batch, bool before, bytes_t reply) {
    commit_job_t commit = {
        .job = {.stream = batch->open.stream, .refusable = true, .step = commit_step, .end = commit_end},
        .batch = batch,
        .reply = reply,
        .before = before,
    };
    buffer_init(&commit.packed, UINT32_MAX);
    buffer_count(&commit.packed, &js->staged);
    return commit;
}

/* Commits and ends the batch. */
static const refusal_t *atomic_end(js_t *js, atomic_batch_t *batch, bool before, bytes_t reply,
                                   atomic_refusal_t *room) {
    commit_job_t commit = commit_of(js, batch, before, reply);
    const refusal_t *refusal = NULL;
    room->waits = false;
    if (batch->open.stream->replicated != NULL) {
        refusal = atomic_pack(js, batch, before, &commit.packed, room);
    }
    refusal = refusal == NULL ? commit_try(js, &commit, room) : refusal;
    open_batch_remove(js->atomic, &batch->open);
    commit_job_t *waiting = refusal != NULL && room->waits ? malloc(sizeof *waiting) : NULL;
    if (waiting == NULL) {
        buffer_free(&commit.packed);
        atomic_free(batch);
        return refusal;
    }
    *waiting = commit;
    waiting->reply = bytes_copy(reply);
    job_wait(js, &waiting->job);
    return NULL;
}

/* ---- a message and its batch ------------------------------------------------------------------------------------- */

static const refusal_t *atomic_message(js_t *js, stream_t *stream, const message_t *message, atomic_refusal_t *room) {
    atomic_word_t word;
    word_read(message->header, &word);
    if ((stream->config.flags & STREAM_ALLOW_ATOMIC) == 0) {
        return &refused_off;
    }
    if (word.id.size > OPEN_BATCH_ID_MAX) {
        return &refused_id;
    }
    if (!word.has_seq) {
        return &refused_no_seq;
    }
    const refusal_t *refusal = NULL;
    atomic_batch_t *batch = (atomic_batch_t *)open_batch_find(js->atomic, stream, word.id);
    if (store_stream_lacks(stream->store, message->subject, message->header, message->payload)) {
        if (batch != NULL) {
            atomic_abandon(js, batch, ABANDONED_INCOMPLETE);
        }
        return &refused_account;
    }
    if (batch == NULL && word.seq != 1) {
        uint64_t most = messages_max(js);
        return word.seq != 0 && atomic_size(&word) > most ? atomic_too_large(room, most, false) : &refused_incomplete;
    }
    if (batch == NULL) {
        refusal = atomic_begin(js, stream, word.id, &batch);
    }
    if (refusal == NULL) {
        refusal = atomic_take(js, batch, &word, message, room);
    }
    if (refusal != NULL) {
        return refusal;
    }
    if (word.commit == COMMIT_NOT) {
        if (message->reply.size != 0 && (stream->config.flags & STREAM_NO_ACK) == 0) {
            js_say(js, stream->account, message->reply, BYTES_NONE, BYTES_NONE);
        }
        return NULL;
    }
    return atomic_end(js, batch, word.commit == COMMIT_BEFORE, message->reply, room);
}

void js_atomic(js_t *js, stream_t *stream, const message_t *message) {
    atomic_refusal_t room;
    const refusal_t *refusal = atomic_message(js, stream, message, &room);
    if (refusal != NULL) {
        js_answer_refused(js, stream, message->reply, refusal);
    }
}

/* ---- time and the end -------------------------------------------------------------------------------------------- */

void js_atomic_chores(js_t *js) {
    while (js->atomic != NULL && js->atomic->oldest != NULL && js->atomic->oldest->deadline_ns <= js->now->mono_ns) {
        atomic_abandon(js, (atomic_batch_t *)js->atomic->oldest, ABANDONED_TIMEOUT);
    }
}

void js_atomic_forget(js_t *js, const stream_t *stream) {
    open_batch_t *next = stream->atomic_count != 0 ? js->atomic->oldest : NULL;
    for (open_batch_t *batch; (batch = next) != NULL;) {
        next = batch->newer;
        if (batch->stream == stream) {
            atomic_drop(js, (atomic_batch_t *)batch);
        }
    }
}
