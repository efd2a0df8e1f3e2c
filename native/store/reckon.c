/* reckon.c: see reckon.h. The commit is read as it is between two checkpoints, when its numbers, heads and messages are
 * of one moment.
 */
#include "store/reckon.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/number.h"
#include "disk/waiting.h"
#include "store/core.h"
#include "store/message.h"
#include "store/overlay.h"

#define STEP_NS (2 * NS_PER_MS)
#define REST_NS (6 * NS_PER_MS)      /* between two steps, for everybody else */
#define SETTLE_NS (20 * NS_PER_MS)   /* from one look whether a checkpoint is there to the next */
#define AGAIN_NS (5 * NS_PER_SECOND) /* after something could not be read, or while a hole is being filled */
#define ROWS_AT_ONCE 64u             /* between two looks at the time */
#define CELLS (UINT32_C(1) << 17)    /* 3 MB of memory while it lasts */
#define CELLS_USED (CELLS / 2)
#define HEADS_MIN 16

typedef enum reckon_phase { RECKON_MESSAGES, RECKON_HEADS, RECKON_APPLY, RECKON_NUMBERS, RECKON_OVER } reckon_phase_t;

/* A subject of this round, by its hash. */
typedef struct cell {
    uint64_t hash; /* 0: free */
    uint64_t last;
    uint64_t count;
} cell_t;

/* A head that says more than there is. */
typedef struct reckoned_head {
    head_t said;
    uint64_t last;
    uint64_t count;
    bytes_t subject; /* own memory */
} reckoned_head_t;

typedef struct reckon {
    store_stream_t *stream;
    env_view_t *view;
    log_t said;
    reckon_phase_t phase;
    uint32_t rounds;
    uint32_t round;
    bool stands; /* the view's cursor is at a row of this phase */
    uint64_t messages;
    uint64_t bytes;
    cell_t *cells;
    uint32_t used;
    reckoned_head_t *wrong;
    uint64_t wrong_count;
    uint64_t wrong_capacity;
    uint64_t applied;
} reckon_t;

/* ---- which stream ------------------------------------------------------------------------------------------------ */

static void want(store_stream_t *stream, bool wanted) {
    reckoning_t *reckoning = &stream->store->reckoning;
    reckoning->wanted += wanted && !stream->doubt.wanted;
    reckoning->wanted -= !wanted && stream->doubt.wanted;
    stream->doubt.wanted = wanted;
}

void reckon_want(store_stream_t *stream) {
    want(stream, true);
}

void reckon_hole(store_stream_t *stream, bool begins) {
    stream->doubt.holes += begins;
    stream->doubt.holes -= !begins && stream->doubt.holes > 0;
}

static void reckon_free(store_t *store) {
    reckon_t *job = store->reckoning.job;
    if (job != NULL) {
        for (uint64_t i = 0; i < job->wrong_count; i++) {
            free((void *)(uintptr_t)job->wrong[i].subject.at);
        }
        env_view_close(job->view);
        free(job->wrong);
        free(job->cells);
    }
    free(job);
    store->reckoning.job = NULL;
}

void reckon_leave(store_stream_t *stream) {
    reckon_t *job = stream->store->reckoning.job;
    want(stream, false);
    if (job != NULL && job->stream == stream) {
        reckon_free(stream->store);
    }
}

void reckon_end(store_t *store) {
    reckon_free(store);
}

/* Whatever was taken off the numbers has to be in LMDB, or it would be taken off again. */
static void unsettle(store_t *store) {
    store->reckoning.batch = store->batches.number;
    store->reckoning.unsettled = true;
}

void reckon_disturb(store_stream_t *stream) {
    store_t *store = stream->store;
    if (LEAF_UNLIKELY(store->reckoning.wanted > 0)) {
        if (store->reckoning.job != NULL && store->reckoning.job->stream == stream) {
            reckon_free(store);
        }
        unsettle(store);
    }
}

/* Is the last commit of one moment, and has it all that was taken off before? */
static bool is_settled(store_t *store) {
    reckoning_t *reckoning = &store->reckoning;
    if (reckoning->unsettled && (store_batch_empty(store) || store->batches.number != reckoning->batch)) {
        reckoning->upto = store->batches.begin;
        reckoning->unsettled = false;
    }
    bool kept = !reckoning->unsettled && store->batches.freed >= reckoning->upto;
    if (!kept) {
        store_checkpoint_want(store);
    }
    return kept && store->pipeline.boundary == 0 && !mending_runs(&store->patching);
}

static store_stream_t *next_stream(const store_t *store) {
    for (uint32_t i = 0; i < store->streams.count; i++) {
        store_stream_t *stream = store->streams.at[i];
        if (stream->doubt.wanted && stream->doubt.holes == 0 && !stream->log.stopped) {
            return stream;
        }
    }
    return NULL;
}

/* Its numbers in the commit. */
static status_t read_said(reckon_t *job) {
    store_key_t key;
    bytes_t value = BYTES_NONE;
    log_key(&key, job->stream->id);
    switch (env_view_get(job->view, DB_RECORDS, key_bytes(&key), &value)) {
    case READ_UNKNOWN:
    case READ_NONE: return STATUS_IO;
    case READ_FOUND: break;
    }
    return log_read_entry(&job->said, key_bytes(&key), value);
}

static status_t reckon_begin(store_t *store, store_stream_t *stream) {
    reckon_t *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return STATUS_NO_MEMORY;
    }
    store->reckoning.job = job;
    job->stream = stream;
    job->cells = calloc(CELLS, sizeof *job->cells);
    status_t status = job->cells != NULL ? env_view_open(store->env, &job->view) : STATUS_NO_MEMORY;
    status = status == STATUS_OK ? read_said(job) : status;
    job->rounds = 1 + (uint32_t)number_least(job->said.subjects / CELLS_USED, UINT32_MAX / 2);
    if (status != STATUS_OK) {
        reckon_free(store);
    }
    return status;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* In the order of keys: of the stream's messages, or of its heads. */
static read_outcome_t next_row(reckon_t *job, store_db_t db, bytes_t from, bytes_t *key, bytes_t *value) {
    read_outcome_t outcome =
        job->stands ? env_view_next(job->view, db, key, value) : env_view_seek(job->view, db, from, key, value);
    job->stands = false;
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: return outcome;
    case READ_FOUND: break;
    }
    job->stands = true;
    return key->size > 4 && load_be32(key->at) == job->stream->id ? READ_FOUND : READ_NONE;
}

static status_t next_phase(reckon_t *job, reckon_phase_t phase) {
    job->stands = false;
    job->phase = phase;
    return STATUS_OK;
}

static uint64_t subject_hash(bytes_t subject) {
    uint64_t hash = hash_bytes(subject.at, subject.size);
    return hash != 0 ? hash : 1;
}

static bool of_this_round(const reckon_t *job, uint64_t hash) {
    return (hash >> 32) % job->rounds == job->round;
}

/* The subject's, or the free one that it would have. */
static cell_t *cell_of(const reckon_t *job, uint64_t hash) {
    uint32_t at = (uint32_t)hash & (CELLS - 1);
    while (job->cells[at].hash != 0 && job->cells[at].hash != hash) {
        at = (at + 1) & (CELLS - 1);
    }
    return &job->cells[at];
}

/* From the first round on, in more of them. */
static void begin_smaller(reckon_t *job) {
    job->rounds *= 2;
    job->round = job->used = 0;
    job->messages = job->bytes = 0;
    job->stands = false;
    memset(job->cells, 0, CELLS * sizeof *job->cells);
}

static status_t reckon_message(reckon_t *job, bytes_t key, bytes_t value) {
    message_record_t message;
    uint64_t seq = key.size == MESSAGE_KEY_SIZE ? load_be64(key.at + 4) : 0;
    if (seq < job->said.first_seq) {
        return STATUS_OK;
    }
    if (!value_sound(key, value) || !message_read(key, value, &message)) {
        job->messages += job->round == 0;
        return STATUS_OK;
    }
    if ((message.flags & MESSAGE_GONE) != 0) {
        return STATUS_OK;
    }
    if (job->round == 0) {
        job->messages++;
        job->bytes += stream_message_bytes(job->stream, &message);
    }
    uint64_t hash = subject_hash(message.subject);
    if (of_this_round(job, hash)) {
        cell_t *cell = cell_of(job, hash);
        if (cell->hash == 0 && job->used == CELLS_USED) {
            return STATUS_FULL;
        }
        job->used += cell->hash == 0;
        cell->hash = hash;
        cell->count++;
        cell->last = seq;
    }
    return STATUS_OK;
}

static status_t step_messages(reckon_t *job) {
    store_key_t from;
    bytes_t key = BYTES_NONE, value = BYTES_NONE;
    key_message(&from, job->stream->id, job->said.first_seq);
    switch (next_row(job, DB_MESSAGES, key_bytes(&from), &key, &value)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return next_phase(job, RECKON_HEADS);
    case READ_FOUND: break;
    }
    if (load_be64(key.at + 4) > job->said.last_seq) {
        return next_phase(job, RECKON_HEADS);
    }
    status_t status = reckon_message(job, key, value);
    if (status == STATUS_FULL) {
        begin_smaller(job);
        status = STATUS_OK;
    }
    return status;
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

static status_t note_wrong(reckon_t *job, bytes_t subject, head_t head, const cell_t *cell) {
    status_t status =
        array_reserve(&job->wrong, &job->wrong_capacity, job->wrong_count + 1, HEADS_MIN, sizeof *job->wrong);
    uint8_t *copy = status == STATUS_OK ? malloc((size_t)subject.size + 1) : NULL;
    if (copy == NULL) {
        return STATUS_NO_MEMORY;
    }
    (void)bytes_write(copy, subject);
    job->wrong[job->wrong_count++] = (reckoned_head_t){
        .said = head, .last = cell->last, .count = cell->count, .subject = bytes_of(copy, subject.size)};
    return STATUS_OK;
}

static status_t reckon_head(reckon_t *job, bytes_t key, bytes_t value) {
    bytes_t subject = BYTES_NONE;
    head_t head;
    if (!value_sound(key, value) || !head_read(key, value, &subject, &head)) {
        return STATUS_OK; /* who asks for it has it counted */
    }
    uint64_t hash = subject_hash(subject);
    if (!of_this_round(job, hash)) {
        return STATUS_OK;
    }
    const cell_t *cell = cell_of(job, hash);
    bool more = head.count > cell->count || (cell->count > 0 && head.last > cell->last);
    return more ? note_wrong(job, subject, head, cell) : STATUS_OK;
}

static status_t step_heads(reckon_t *job) {
    uint8_t id[4];
    bytes_t key = BYTES_NONE, value = BYTES_NONE;
    store_be32(id, job->stream->id);
    switch (next_row(job, DB_HEADS, bytes_of(id, sizeof id), &key, &value)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return next_phase(job, RECKON_APPLY);
    case READ_FOUND: break;
    }
    return reckon_head(job, key, value);
}

/* ---- what is too much -------------------------------------------------------------------------------------------- */

/* STATUS_AGAIN: what was counted as the newest one has gone since, so all of it is counted once more. */
static status_t apply_head(store_stream_t *stream, const reckoned_head_t *wrong) {
    head_entry_t *entry;
    message_row_t newest;
    uint64_t less = number_less(wrong->said.count, wrong->count);
    status_t status = head_fetch(stream, wrong->subject, &entry);
    if (status != STATUS_OK || entry->head.count == 0) {
        return status; /* all of it was purged meanwhile */
    }
    head_t head = entry->head;
    head.count = number_less(head.count, less);
    bool stays = head.count > 0 && head.last == wrong->said.last && head.last > wrong->last;
    if (stays) { /* that one is damaged, or lost */
        if (!message_usable(message_find(stream, wrong->last, false, &newest), &newest)
            || (newest.message.flags & MESSAGE_GONE) != 0) {
            return STATUS_AGAIN;
        }
        head.last = wrong->last;
        status = head_fetch(stream, wrong->subject, &entry); /* looking may have put it out of the cache */
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (head.count == 0) {
        log_lose_subject(&stream->log);
    }
    entry->head = head;
    stream_touch(stream);
    head_change(stream, entry);
    unsettle(stream->store);
    return STATUS_OK;
}

static status_t step_apply(reckon_t *job) {
    store_stream_t *stream = job->stream;
    if (job->applied < job->wrong_count) {
        const reckoned_head_t *wrong = &job->wrong[job->applied];
        if (!overlay_fits(stream->store, REMOVAL_NEED + wrong->subject.size)) {
            return STATUS_FULL;
        }
        status_t status = apply_head(stream, wrong);
        job->applied += status == STATUS_OK;
        return status;
    }
    job->round++;
    bool more = job->round < job->rounds;
    job->phase = more ? RECKON_MESSAGES : RECKON_NUMBERS;
    job->used = more ? 0 : job->used;
    if (more) {
        memset(job->cells, 0, CELLS * sizeof *job->cells);
    }
    return STATUS_OK;
}

static status_t step_numbers(reckon_t *job) {
    store_stream_t *stream = job->stream;
    int64_t messages = (int64_t)(job->said.messages - job->messages);
    int64_t bytes = (int64_t)(job->said.bytes - job->bytes);
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STATUS_FULL;
    }
    if (messages != 0 || bytes != 0 || job->wrong_count != 0) {
        log_reckoned(stream, messages, bytes);
        unsettle(stream->store);
        store_alarm(stream->store, ALARM_CORRUPT, stream->id, 0,
                    "stream %u was counted again, since damage took messages of it: %lld messages and %lld bytes are "
                    "taken off its numbers, and %llu of its subjects had fewer messages than was known",
                    stream->id, (long long)messages, (long long)bytes, (unsigned long long)job->wrong_count);
    }
    want(stream, false);
    job->phase = RECKON_OVER;
    return STATUS_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* STATUS_FULL: when there is room. Any other but STATUS_OK: begin anew, later. */
static status_t reckon_step(reckon_t *job) {
    switch (job->phase) {
    case RECKON_MESSAGES: return step_messages(job);
    case RECKON_HEADS: return step_heads(job);
    case RECKON_APPLY: return step_apply(job);
    case RECKON_NUMBERS: return step_numbers(job);
    case RECKON_OVER: break;
    }
    return STATUS_OK;
}

static status_t reckon_steps(reckon_t *job, int64_t until_ns) {
    status_t status = STATUS_OK;
    bool on = true;
    for (uint32_t i = 1; on; i++) {
        status = reckon_step(job);
        on = status == STATUS_OK && job->phase != RECKON_OVER
             && ((i + 1) % ROWS_AT_ONCE != 0 || thread_elapsed_ns() < until_ns);
    }
    return status;
}

void reckon_tick(store_t *store) {
    reckoning_t *reckoning = &store->reckoning;
    int64_t now = store->turn.now_mono;
    if (LEAF_LIKELY(reckoning->wanted == 0) || now < reckoning->at) {
        return;
    }
    reckoning->at = now + AGAIN_NS;
    if (reckoning->job == NULL) {
        store_stream_t *stream = next_stream(store);
        bool settled = stream == NULL || is_settled(store);
        if (stream == NULL || !settled || reckon_begin(store, stream) != STATUS_OK) {
            reckoning->at = settled ? reckoning->at : now + SETTLE_NS;
            return;
        }
    }
    status_t status = reckon_steps(reckoning->job, thread_elapsed_ns() + STEP_NS);
    bool over = reckoning->job->phase == RECKON_OVER;
    bool goes_on = !over && (status == STATUS_OK || status == STATUS_FULL);
    reckoning->at = goes_on ? now + REST_NS : over ? now : reckoning->at;
    if (!goes_on) {
        reckon_free(store);
    }
}

int64_t reckon_deadline(const store_t *store) {
    return LEAF_LIKELY(store->reckoning.wanted == 0) ? INT64_MAX : store->reckoning.at;
}
