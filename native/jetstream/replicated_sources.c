/* replicated_sources.c: what a mirror or sources bring to a stream that several servers keep (replicated.h).
 *
 *     ingest.c --> an append, as bytes --> proposed --> committed --> ingest_applied, what was to be said to its origin
 *                      `--> no room: it waits, and so does all that comes behind it, until the log, or the account,
 *                           has room
 *
 * An origin sends no more than it has been told room for, and it is told when all is committed. So what waits is
 * bounded by that; beyond ASKED_MAX nothing is taken, and the origin is asked again later. Where this server leads
 * no more all of it is let go: nobody was told that it was taken.
 *
 * A source that ends is as far as the log brings it, with what is under way there (ASKED_STOP): by that control judges
 * what of its origin is new. Not so what waits for room, perhaps for hours: it is stored behind the end.
 */
#include "base/check.h"
#include "jetstream/commands.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/publish.h"
#include "jetstream/replicated_private.h"
#include "store/append.h"

#define RUN_SIZE 8u

/* Both as one, with the scratch of js. */
static status_t ride_joined(js_t *js, asked_queue_t *queue, asked_what_t what, bytes_t head, bytes_t rest) {
    buffer_t *scratch = &js->scratch;
    scratch->size = 0;
    status_t status = buffer_append(scratch, head.at, head.size);
    status = status == STATUS_OK ? buffer_append(scratch, rest.at, rest.size) : status;
    return status == STATUS_OK ? asked_ride(queue, what, bytes_of(scratch->at, (uint32_t)scratch->size)) : status;
}

/* STATUS_AGAIN: the log has no room. STATUS_FULL: the account may not have it, or a majority's disks are full. */
static status_t propose_packed(js_t *js, replicated_t *replicated, asked_what_t what, bytes_t asker, bytes_t packed) {
    store_stream_t *store = replicated->stream->store;
    bool stores = what == ASKED_TAKEN;
    replicated->lacks = stores
                        && (store_stream_lacks_bytes(store, packed.size) /* a little more than it is */
                            || !replicated_has_room(replicated->stream));
    if (replicated->lacks) {
        return STATUS_FULL;
    }
    uint64_t before = asked_size(&replicated->asked);
    uint64_t token = asked_put(&replicated->asked, what, asker);
    if (token == 0) {
        return STATUS_AGAIN;
    }
    status_t status = replica_publish_packed(replicated->replica, packed, token, *js->now);
    replicated_went(replicated, before, status);
    if (status == STATUS_OK && stores) {
        store_stream_promise(store, packed.size);
    }
    return status;
}

/* false: it waits. */
static bool propose_one(js_t *js, replicated_t *replicated, const asked_t *head, bytes_t bytes) {
    asked_what_t what = (asked_what_t)head->what;
    if (what == ASKED_CREDIT) {
        return asked_ride(&replicated->asked, what, bytes) == STATUS_OK;
    }
    uint32_t size = what == ASKED_FORGET ? (uint32_t)sizeof(plane_command_t) : RUN_SIZE;
    return propose_packed(js, replicated, what, bytes_of(bytes.at, size), bytes_after(bytes, size)) == STATUS_OK;
}

static void propose_taken(js_t *js, replicated_t *replicated) {
    asked_queue_t *taken = &replicated->taken;
    asked_t head;
    bytes_t bytes;
    if (!replicated_proposes(replicated)) {
        replicated_forget(js, taken);
    }
    for (uint32_t done = 0; done < QUEUED_STEP && asked_first(taken, &head, &bytes); done++) {
        if (head.what == ASKED_CREDIT && asked_empty(&replicated->asked)) {
            replicated_credit_now(replicated, bytes); /* all before it is committed */
        } else if (!propose_one(js, replicated, &head, bytes)) {
            return;
        }
        check(asked_take(taken, &head, &bytes));
    }
    asked_trim(taken);
}

/* The log has room soon, the account or the disks perhaps in hours. */
static void replicated_await_room(const js_t *js, replicated_t *replicated) {
    if (replicated->lacks) {
        replicated_due(replicated, js->now->mono_ns + LACKS_AGAIN_NS);
    } else {
        replicated_wake(replicated, ROW_TURNS);
    }
}

void replicated_propose_taken(js_t *js, replicated_t *replicated) {
    propose_taken(js, replicated);
    if (!asked_empty(&replicated->taken)) {
        replicated_await_room(js, replicated);
    }
}

bool replicated_may_refuse(const stream_t *stream) {
    return stream->config.discard != 0 || stream->replicated->defining != 0;
}

status_t replicated_take(js_t *js, const stream_t *stream, const append_t *append, uint64_t run, bool *proposed) {
    replicated_t *replicated = stream->replicated;
    uint8_t whose[RUN_SIZE];
    text_t name;
    *proposed = false;
    append_t renamed = *append;
    renamed.waits = false;
    renamed.subject =
        append->subject.size != 0 ? js_stored_subject(js, stream, append->subject, &name) : append->subject;
    if (!replicated_proposes(replicated)) {
        return STATUS_CLOSED;
    }
    status_t status = STATUS_INVALID;
    if (renamed.subject.size != 0) {
        renamed.skip = append->skip || (append->subject.size != 0 && js_nobody_wants(js, stream, &renamed));
        status = replica_pack(replicated->replica, &renamed, &replicated->packed);
    }
    if (status == STATUS_INVALID) { /* no stream here takes it */
        const append_t position = {.source_key = append->source_key,
                                   .source_seq = append->source_seq,
                                   .source_ts = append->source_ts,
                                   .has_source_before = append->has_source_before,
                                   .source_before = append->source_before};
        if (position.source_key.size == 0) {
            return STATUS_OK;
        }
        status = replica_pack(replicated->replica, &position, &replicated->packed);
    }
    if (status != STATUS_OK) {
        return status == STATUS_INVALID ? STATUS_INVALID : STATUS_FULL;
    }
    bytes_t packed = bytes_of(replicated->packed.at, (uint32_t)replicated->packed.size);
    store_be64(whose, run);
    *proposed = asked_empty(&replicated->taken)
                && propose_packed(js, replicated, ASKED_TAKEN, bytes_of(whose, RUN_SIZE), packed) == STATUS_OK;
    if (!*proposed) {
        replicated_await_room(js, replicated);
        *proposed = ride_joined(js, &replicated->taken, ASKED_TAKEN, bytes_of(whose, RUN_SIZE), packed) == STATUS_OK;
    }
    return *proposed ? STATUS_OK : STATUS_FULL;
}

void replicated_say_taken(js_t *js, const stream_t *stream, bytes_t subject, bytes_t header, uint64_t run) {
    replicated_t *replicated = stream->replicated;
    uint8_t whose[RUN_SIZE + 4];
    store_be64(whose, run);
    store_be32(whose + RUN_SIZE, subject.size);
    text_t said; /* ingest.c makes both, and they are short */
    said.size = 0;
    text_add(&said, subject);
    text_add(&said, header);
    if (!text_is_over(&said)) {
        status_t status =
            ride_joined(js, &replicated->taken, ASKED_CREDIT, bytes_of(whose, sizeof whose), text_bytes(&said));
        (void)status; /* its origin asks again */
    }
    replicated_propose_taken(js, replicated);
}

void replicated_credit_now(const replicated_t *replicated, bytes_t bytes) {
    if (ingest_stands(replicated->js, load_be64(bytes.at))) {
        replicated_say_now(replicated, bytes_after(bytes, RUN_SIZE));
    }
}

void replicated_forget_source(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t key) {
    replicated_t *replicated = stream->replicated;
    const plane_command_t kept = command_kept(command);
    const append_t position = {.source_key = key, .source_seq = command->arg}; /* 0: it is forgotten */
    status_t status = replicated_proposes(replicated) ? STATUS_OK : STATUS_CLOSED;
    if (status == STATUS_OK) {
        status = replica_pack(replicated->replica, &position, &replicated->packed);
    }
    if (status == STATUS_OK) {
        status = ride_joined(js, &replicated->taken, ASKED_FORGET, bytes_of((const uint8_t *)&kept, sizeof kept),
                             bytes_of(replicated->packed.at, (uint32_t)replicated->packed.size));
    }
    if (status != STATUS_OK) {
        js_done(js, command, status);
        return;
    }
    replicated_propose_taken(js, replicated);
}

/* ---- the end of a source ----------------------------------------------------------------------------------------- */

typedef struct stopped {
    plane_command_t command;
    ingest_state_t state;
} stopped_t; /* and the key behind it */

bool replicated_stop_source(js_t *js, const plane_command_t *command, const stream_t *stream, bytes_t key,
                            const ingest_state_t *state) {
    const stopped_t stopped = {.command = command_kept(command), .state = *state};
    asked_queue_t *asked = &stream->replicated->asked;
    bytes_t head = bytes_of((const uint8_t *)&stopped, sizeof stopped);
    return !asked_empty(asked) && ride_joined(js, asked, ASKED_STOP, head, key) == STATUS_OK;
}

void replicated_answer_stop(js_t *js, const replicated_t *replicated, bytes_t bytes) {
    stopped_t stopped;
    progress_t come = {0};
    memcpy(&stopped, bytes.at, sizeof stopped);
    bytes_t key = bytes_after(bytes, sizeof stopped);
    entry_outcome_t outcome = ENTRY_UNKNOWN;
    if (replicated != NULL) {
        outcome = progress_read(js, replicated->stream, key, &come);
    }
    switch (outcome) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED:
    case ENTRY_NONE: break; /* as far as it was then */
    case ENTRY_FOUND:
        stopped.state.last_sequence = come.seq;
        stopped.state.newest_ts = come.newest_ts;
        break;
    }
    js_answer(js, &stopped.command, STATUS_OK, 0, 0, bytes_of(&stopped.state, sizeof stopped.state));
}
