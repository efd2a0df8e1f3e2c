/* replicated_schedules.c: schedules of a stream that several servers keep (replicated.h).
 *
 *     the log's time (TIME), at each member --> replicated_ripe, at the leader --> js_schedule_fire: what it does today
 *     --> replicated_fire: one entry with its message and its next time --> applied by each member
 *
 * What is ripe is remembered here alone: a leader that dies with it, or has no room in the log, leaves it to the time
 * that each member has given it already, a second later.
 */
#include "group/replica.h"
#include "jetstream/intake.h"
#include "jetstream/js.h"
#include "jetstream/publish.h"
#include "jetstream/replicated_private.h"

#define RIPE_MOST 1024u /* the rest a second later */

typedef struct ripe {
    uint64_t seq;
    int64_t due_ts;
} ripe_t;

void replicated_ripe(stream_t *stream, uint64_t seq, int64_t due_ts) {
    replicated_t *replicated = stream->replicated;
    buffer_t *ripe = &replicated->ripe;
    const ripe_t one = {.seq = seq, .due_ts = due_ts};
    ripe_t other;
    if (!replicated->leads || ripe->size >= RIPE_MOST * sizeof one) {
        return;
    }
    /* To note all RIPE_MOST so takes 0.2 ms: a table by sequence is not worth its memory for each stream. */
    for (uint64_t at = 0; at < ripe->size; at += sizeof other) {
        memcpy(&other, ripe->at + at, sizeof other);
        if (other.seq == seq) {
            return; /* it waits for the answer */
        }
    }
    if (buffer_append(ripe, &one, sizeof one) == STATUS_OK) { /* else a second later */
        replicated_wake(replicated, ROW_TURNS);
    }
}

void replicated_fire_ripe(js_t *js, replicated_t *replicated) {
    buffer_t *ripe = &replicated->ripe;
    uint64_t kept = 0;
    ripe_t one;
    for (uint64_t at = 0; at < ripe->size && replicated->leads; at += sizeof one) {
        memcpy(&one, ripe->at + at, sizeof one);
        if (js_schedule_fire(js, replicated->stream, one.seq, one.due_ts) == STORE_DUE_ASKED) {
            memcpy(ripe->at + kept, &one, sizeof one);
            kept += sizeof one;
        }
    }
    ripe->size = kept;
    buffer_trim(ripe, 0);
}

/* false: it makes none. */
static bool fired_append(js_t *js, stream_t *stream, const message_t *message, intake_t *intake, text_t *name) {
    const refusal_t *refusal = js_refused_outright(stream, message);
    if (intake_begin(js, stream, message, PUBLISHER_SERVER, refusal, intake) != NULL) {
        return false;
    }
    append_t *append = &intake->append;
    append->subject = js_stored_subject(js, stream, append->subject, name);
    append->due_ts = 0;
    append->skip = append->subject.size > 0 && js_nobody_wants(js, stream, append);
    return append->subject.size > 0;
}

status_t replicated_fire(js_t *js, stream_t *stream, const replica_fired_t *fired, const message_t *message) {
    replicated_t *replicated = stream->replicated;
    intake_t intake;
    text_t name;
    if (!replicated_proposes(replicated)) {
        return STATUS_CLOSED;
    }
    bool makes = message != NULL && fired_append(js, stream, message, &intake, &name);
    if (makes && !replicated_has_room(stream)) {
        return STATUS_NO_SPACE;
    }
    status_t status = replica_fire(replicated->replica, fired, makes ? &intake.append : NULL, *js->now);
    if (status == STATUS_INVALID && makes) {
        status = replica_fire(replicated->replica, fired, NULL, *js->now); /* the log never takes such a message */
    }
    if (status == STATUS_OK) {
        groups_stir(js->groups, replicated->group);
    }
    return status;
}

bool replicated_ends(void *context, const append_t *append) {
    const replicated_t *replicated = context;
    return js_schedule_ends(replicated->stream, append->header);
}

bool replicated_end(void *context, const append_t *append) {
    const replicated_t *replicated = context;
    return js_schedule_ended(replicated->stream, append->header);
}
