/* atomic_commit.c: the commit of an atomic batch: all its messages into the stream in one turn, so that they are in one
 * batch of the journal, whole after a crash or not there at all.
 *
 *     each message: headers > rules > store_group_look         any refusal: nothing is stored; what takes long to look
 *                                                      up: it is tried again in the next turn
 *     store_group_reserve                              no room: nothing is stored, or it is tried again at a later tick
 *     append each > rollups and limits > PubAck                nothing of this can fail
 *
 * The rules of batches are the reference's: an id may be there once; what is expected of a subject is looked up before
 * the batch, so none may be expected of one that the batch has written to; the same goes for rollups, and for the
 * stream's last sequence, which only the first message may expect.
 *
 * Of a stream that several servers keep the store is not asked here: what is left of the batch is an entry of its log
 * (atomic_pack), and each server asks its own store when that is applied (group/replica_batch.c). A batch that the
 * rules refuse is held against the store, too, so that of several refusals its publisher gets the first one.
 *
 * Not here: how a batch is collected (atomic.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/abi_types.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/share.h"
#include "jetstream/atomic.h"
#include "jetstream/counter.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/ledger.h"
#include "text/headers.h"
#include "text/text.h"

/* A message of the batch, on its way into the store. */
typedef struct ready {
    append_t append;
    bytes_t increment;     /* of a counter */
    bytes_t ends;          /* the subject of a schedule that ends with it */
    uint64_t header_place; /* in commit_t.made, + 1; 0: it has its own */
    uint64_t subject_place;
    uint64_t payload_place;
    uint32_t newest;     /* of the first on its subject: the index of the last one */
    uint32_t on_subject; /* of the first on its subject: how many there are */
    uint64_t seq;
    bool rolling;
    bool ending; /* `ends` has not ended yet */
} ready_t;

typedef struct commit {
    js_t *js;
    stream_t *stream;
    const atomic_batch_t *batch;
    ready_t *list;
    uint32_t count;
    uint32_t *subjects; /* hash sets of indexes into list, + 1 */
    uint32_t *ids;
    uint32_t mask;
    buffer_t made; /* headers and subjects that are not as they came */
    append_group_t group;
    buffer_t *packed; /* NULL: the store is asked */
} commit_t;

static const refusal_t refused_expected_id = {
    400, 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id", {NULL, 0}, false};
static const refusal_t refused_duplicate = {
    400, 10201, "atomic publish batch contains duplicate message id", {NULL, 0}, false};
static const refusal_t refused_constant = {400, 10164, "wrong last sequence", {NULL, 0}, false};
static const refusal_t refused_roll_subject = {500, 10111, "batch rollup sub invalid", {NULL, 0}, false};
static const refusal_t refused_roll_all = {500, 10111, "batch rollup all invalid", {NULL, 0}, false};

/* ---- what the batch has already ---------------------------------------------------------------------------------- */

static bytes_t ready_subject(const commit_t *commit, uint32_t index) {
    const ready_t *ready = &commit->list[index];
    return ready->subject_place == 0 ? ready->append.subject
                                     : bytes_of(commit->made.at + ready->subject_place - 1, ready->append.subject.size);
}

static bytes_t ready_id(const commit_t *commit, uint32_t index) {
    return commit->list[index].append.msg_id;
}

/* The place of the key's index, or the free place for it. */
static uint32_t *set_slot(const commit_t *commit, uint32_t *set, bytes_t (*key_of)(const commit_t *, uint32_t),
                          bytes_t key) {
    uint64_t at = hash_bytes(key.at, key.size);
    while (set[at & commit->mask] != 0 && !bytes_equal(key_of(commit, set[at & commit->mask] - 1), key)) {
        at++;
    }
    return &set[at & commit->mask];
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

static bool keep(commit_t *commit, bytes_t text, uint64_t *place) {
    *place = commit->made.size + 1;
    return buffer_append(&commit->made, text.at, text.size) == STATUS_OK;
}

/* The header and the subject that are stored, where they are not the message's own. */
static bool keep_made(commit_t *commit, ready_t *ready, bytes_t own_header, bytes_t own_subject, bool mark) {
    append_t *append = &ready->append;
    if (append->subject.at != own_subject.at && !keep(commit, append->subject, &ready->subject_place)) {
        return false;
    }
    if (append->header.at == own_header.at && !mark) {
        return true;
    }
    if (!keep(commit, append->header, &ready->header_place)) {
        return false;
    }
    uint64_t begin = ready->header_place - 1;
    if (mark
        && headers_append(&commit->made, begin, BYTES_LITERAL("Nats-Batch-Commit"), BYTES_LITERAL("1")) != STATUS_OK) {
        return false;
    }
    append->header = bytes_of(commit->made.at + begin, (uint32_t)(commit->made.size - begin));
    return true;
}

static const refusal_t *look_at_headers(commit_t *commit, const message_t *message, ready_t *ready,
                                        atomic_refusal_t *room) {
    intake_t intake;
    memset(&intake, 0, sizeof(intake));
    intake.append.subject = message->subject;
    intake.append.payload = message->payload;
    if (message->header.size > HEADER_BYTES_MAX) {
        return &refused_header;
    }
    const refusal_t *refusal = intake_read(commit->js, commit->stream, message, &intake);
    if (intake.append.has_expected_msg_id) {
        return &refused_expected_id;
    }
    if (refusal != NULL) {
        /* In a batch the form of a TTL is looked at after whether there may be one. */
        bool may = (commit->stream->config.flags & STREAM_ALLOW_TTL) != 0;
        bool off = refusal->err_code == refused_bad_ttl.err_code && !may;
        room->refusal = off ? refused_ttl_off : *refusal;
        return &room->refusal;
    }
    intake.append.header = intake_header(commit->js, &intake, message->header);
    ready->append = intake.append;
    ready->ends = intake.order.ends;
    ready->increment = intake.increment;
    return NULL;
}

/* Checks the rules that only a batch has to keep to. first: nothing of the batch has its subject. */
static const refusal_t *look_at_batch(const append_t *append, uint32_t index, bool first) {
    if (index > 0 && append->has_expected_last_seq) {
        return &refused_constant;
    }
    if (append->rollup == 1 && !first) {
        return &refused_roll_subject;
    }
    return append->rollup == 2 && index > 0 ? &refused_roll_all : NULL;
}

static const refusal_t *look_at_store(commit_t *commit, ready_t *ready, uint64_t on_subject, atomic_refusal_t *room) {
    publish_result_t *result = &room->result;
    result->appended =
        store_group_look(commit->stream->store, &commit->group, &ready->append, on_subject, *commit->js->now);
    if (result->appended.verdict == APPEND_STORED) {
        return NULL;
    }
    if (result->appended.verdict == APPEND_DUPLICATE) {
        return &refused_duplicate;
    }
    js_name_verdict(result);
    room->waits = result->outcome == OUTCOME_LATER;
    return &result->refusal;
}

/* A counter's sum follows from the subject's last message, which may be one of the batch. first: its index + 1; 0: it
 * is none. */
static const refusal_t *count_on(commit_t *commit, ready_t *ready, uint32_t first) {
    append_t *append = &ready->append;
    const refusal_t *refusal;
    if (first == 0) {
        refusal = counter_apply(commit->js, commit->stream, append->subject, ready->increment, append);
    } else {
        const ready_t *before = &commit->list[commit->list[first - 1].newest];
        stored_message_t last = {
            .header = before->append.header,
            .payload = bytes_of(commit->made.at + before->payload_place - 1, before->append.payload.size)};
        if (before->header_place != 0) {
            last.header.at = commit->made.at + before->header_place - 1;
        }
        refusal = counter_add(commit->js, commit->stream, &last, ready->increment, append);
    }
    return refusal != NULL ? refusal : keep(commit, append->payload, &ready->payload_place) ? NULL : &refused_space;
}

/* As it goes into the log. before: the index + 1 of the one before it on its subject; 0: there is none. */
static const refusal_t *pack_one(commit_t *commit, ready_t *ready, uint32_t before, atomic_refusal_t *room) {
    stream_t *stream = commit->stream;
    const append_t *append = &ready->append;
    ready->append.skip = js_nobody_wants(commit->js, stream, append);
    if (!append->skip) {
        commit->group.bytes += store_stream_size(stream->store, append->subject, append->header, append->payload);
        if (store_stream_lacks_bytes(stream->store, commit->group.bytes)) {
            return &refused_account;
        }
    }
    if (!replicated_has_room(stream)) {
        return &refused_space;
    }
    status_t status = replicated_pack(stream, &ready->append, before, commit->packed);
    if (status == STATUS_INVALID) {
        return atomic_too_large(room, store_ledger_most(commit->js->stores[STORE_FILE]), true);
    }
    return status == STATUS_OK ? NULL : &refused_space;
}

static const refusal_t *look_at_one(commit_t *commit, uint32_t index, const message_t *message, bool mark,
                                    atomic_refusal_t *room) {
    ready_t *ready = &commit->list[index];
    append_t *append = &ready->append;
    const refusal_t *refusal = look_at_headers(commit, message, ready, room);
    if (refusal != NULL) {
        return refusal;
    }
    text_t name;
    append->subject = js_stored_subject(commit->js, commit->stream, message->subject, &name);
    if (append->subject.size == 0) {
        return &refused_size;
    }
    if (append->msg_id.size != 0) {
        uint32_t *slot = set_slot(commit, commit->ids, ready_id, append->msg_id);
        if (*slot != 0) {
            return &refused_duplicate;
        }
        *slot = index + 1;
    }
    bytes_t asked = append->expected_subject.size != 0 ? append->expected_subject : append->subject;
    if (append->has_expected_subject_seq && *set_slot(commit, commit->subjects, ready_subject, asked) != 0) {
        return &refused_constant;
    }
    uint32_t *slot = set_slot(commit, commit->subjects, ready_subject, append->subject);
    bool counts = ready->increment.size != 0 && commit->packed == NULL; /* the log has increments */
    refusal = counts ? count_on(commit, ready, *slot) : NULL;
    if (refusal != NULL) {
        return refusal;
    }
    if (!keep_made(commit, ready, message->header, message->subject, mark)) {
        return &refused_space;
    }
    if (commit->packed == NULL) {
        refusal = look_at_store(commit, ready, *slot != 0 ? commit->list[*slot - 1].on_subject : 0, room);
    }
    if (refusal == NULL) {
        refusal = look_at_batch(append, index, *slot == 0);
    }
    if (refusal == NULL && commit->packed != NULL) {
        refusal = pack_one(commit, ready, *slot != 0 ? commit->list[*slot - 1].newest + 1 : 0, room);
    }
    *slot = *slot != 0 ? *slot : index + 1;
    commit->list[*slot - 1].on_subject++;
    commit->list[*slot - 1].newest = index;
    return refusal;
}

/* mark: the last message is to say that the batch ends with it. */
static const refusal_t *look_at_all(commit_t *commit, bool mark, atomic_refusal_t *room) {
    const refusal_t *refusal = NULL;
    const uint8_t *at = commit->batch->staged.at;
    for (uint32_t i = 0; i < commit->count && refusal == NULL; i++) {
        staged_t sizes;
        memcpy(&sizes, at, sizeof(sizes));
        at += sizeof(sizes);
        message_t message = {.subject = bytes_of(at, sizes.subject),
                             .header = bytes_of(at + sizes.subject, sizes.header),
                             .payload = bytes_of(at + sizes.subject + sizes.header, sizes.payload)};
        at = message.payload.at + sizes.payload;
        refusal = look_at_one(commit, i, &message, mark && i + 1 == commit->count, room);
    }
    return refusal;
}

/* ---- committing a batch ------------------------------------------------------------------------------------------ */

static void committed_text(const stream_t *stream, bytes_t id, uint32_t count, uint64_t seq, text_t *text) {
    text->size = 0;
    text_add(text, stream->ack_prefix);
    text_add_number(text, seq);
    text_add_literal(text, ",\"batch\":\"");
    text_add_escaped(text, id);
    text_add_literal(text, "\",\"count\":");
    text_add_number(text, count);
    text_add_literal(text, "}");
}

static void answer_committed(const commit_t *commit, rolls_t *rolls, bytes_t reply) {
    const stream_t *stream = commit->stream;
    if (reply.size == 0 || (stream->config.flags & STREAM_NO_ACK) != 0) {
        reply = BYTES_NONE;
    }
    text_t text;
    committed_text(stream, open_batch_id(&commit->batch->open), commit->count, commit->list[commit->count - 1].seq,
                   &text);
    if (rolls != NULL) {
        js_rolls_start(commit->js, commit->stream, rolls, reply, text_bytes(&text));
    } else if (reply.size != 0) {
        js_hold(commit->js, stream, reply, BYTES_NONE, text_bytes(&text));
    }
}

/* The rest of the rollups, and schedules that have yet to end. A subject that has no memory here ends up as an error in
 * place of the PubAck. */
static rolls_t *rolls_left(const commit_t *commit, uint32_t count) {
    rolls_t *rolls = rolls_new(count);
    bool good = rolls != NULL;
    for (uint32_t i = 0; i < commit->count && good; i++) {
        const ready_t *ready = &commit->list[i];
        if (ready->rolling) {
            good = rolls_add(rolls, ready->append.rollup == 1 ? ready->append.subject : BYTES_NONE, ready->seq);
        }
        if (ready->ending) {
            good = good && rolls_add_ending(rolls, ready->ends, ready->seq);
        }
    }
    return rolls;
}

static void commit_store(commit_t *commit, bytes_t reply) {
    stream_t *stream = commit->stream;
    uint32_t rolling = 0;
    for (uint32_t i = 0; i < commit->count; i++) {
        ready_t *ready = &commit->list[i];
        append_t *append = &ready->append;
        append->subject = ready_subject(commit, i);
        if (ready->header_place != 0) {
            append->header.at = commit->made.at + ready->header_place - 1;
        }
        if (ready->payload_place != 0) {
            append->payload.at = commit->made.at + ready->payload_place - 1;
        }
        ready->seq = js_append_grouped(commit->js, stream, append).seq;
    }
    for (uint32_t i = 0; i < commit->count; i++) {
        ready_t *ready = &commit->list[i];
        ready->rolling = !store_group_finish(stream->store, &ready->append, ready->seq);
        ready->ending = ready->ends.size != 0 && !js_schedule_end(stream, ready->ends, ready->seq);
        rolling += ready->rolling + (uint32_t)ready->ending;
    }
    store_group_end(stream->store);
    rolls_t *rolls = rolling != 0 ? rolls_left(commit, rolling) : NULL;
    if (rolling != 0 && rolls == NULL) {
        js_answer_refused(commit->js, stream, reply, &refused_space);
        return;
    }
    answer_committed(commit, rolls, reply);
}

/* One piece of memory for the lists. NULL: there is none. */
static void *commit_open(commit_t *commit) {
    uint64_t slots = 4;
    while (slots < 2 * (uint64_t)commit->count) {
        slots *= 2;
    }
    uint64_t bytes = commit->count * sizeof(ready_t) + 2 * slots * sizeof(uint32_t);
    buffer_init(&commit->made, UINT32_MAX);
    buffer_count(&commit->made, &commit->js->staged);
    void *memory = share_has(&commit->js->staged, bytes) ? calloc(1, bytes) : NULL;
    if (memory != NULL) {
        commit->mask = (uint32_t)slots - 1;
        commit->list = memory;
        commit->subjects = (uint32_t *)(void *)(commit->list + commit->count);
        commit->ids = commit->subjects + slots;
    }
    return memory;
}

static commit_t commit_begin(js_t *js, const atomic_batch_t *batch, buffer_t *packed) {
    return (commit_t){.js = js, .stream = batch->open.stream, .batch = batch, .count = batch->count, .packed = packed};
}

const refusal_t *atomic_commit(js_t *js, const atomic_batch_t *batch, bool before, bytes_t reply,
                               atomic_refusal_t *room) {
    commit_t commit = commit_begin(js, batch, NULL);
    void *memory = commit_open(&commit);
    room->waits = false;
    const refusal_t *refusal = memory != NULL ? look_at_all(&commit, before, room) : &refused_space;
    if (refusal == NULL) {
        status_t status = store_group_reserve(commit.stream->store, &commit.group);
        refusal = status == STATUS_OK ? NULL : &refused_space;
        room->waits = status == STATUS_AGAIN;
    }
    if (refusal == NULL) {
        commit_store(&commit, reply);
    }
    buffer_free(&commit.made);
    free(memory);
    return refusal;
}

/* ---- of a stream that several servers keep ----------------------------------------------------------------------- */

/* packed NULL: as the store here has it now. */
static const refusal_t *commit_look(js_t *js, const atomic_batch_t *batch, bool before, buffer_t *packed,
                                    atomic_refusal_t *room) {
    commit_t commit = commit_begin(js, batch, packed);
    void *memory = commit_open(&commit);
    room->waits = false;
    const refusal_t *refusal = memory != NULL ? look_at_all(&commit, before, room) : &refused_space;
    buffer_free(&commit.made);
    free(memory);
    return refusal;
}

const refusal_t *atomic_pack(js_t *js, const atomic_batch_t *batch, bool before, buffer_t *packed,
                             atomic_refusal_t *room) {
    const refusal_t *refusal = commit_look(js, batch, before, packed, room);
    if (refusal == NULL || refusal->err_code == refused_space.err_code) {
        return refusal;
    }
    const refusal_t *earlier = commit_look(js, batch, before, NULL, room);
    if (earlier != NULL && !room->waits) {
        return earlier;
    }
    packed->size = 0;
    return commit_look(js, batch, before, packed, room);
}

void atomic_answer_applied(js_t *js, const stream_t *stream, bytes_t reply, bytes_t id, uint32_t count,
                           const appended_t *appended) {
    publish_result_t result = {.appended = *appended};
    text_t text;
    if (appended->verdict == APPEND_STORED || appended->verdict == APPEND_SKIPPED) {
        if (reply.size != 0) {
            committed_text(stream, id, count, appended->seq, &text);
            js_say(js, stream->account, reply, BYTES_NONE, text_bytes(&text));
        }
    } else if (appended->verdict == APPEND_DUPLICATE) {
        js_answer_refused(js, stream, reply, &refused_duplicate);
    } else {
        js_name_verdict(&result);
        js_answer_refused(js, stream, reply, &result.refusal);
    }
}
