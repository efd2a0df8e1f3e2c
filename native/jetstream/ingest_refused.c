/* ingest_refused.c: what a stream refuses of what its mirror or sources bring, and when it has room again.
 *
 *     the stream is full --> EVENT_INGEST, INGEST_REFUSED: nothing is taken any more, and control asks again later
 *                `--> less full, or defined anew --> EVENT_INGEST, INGEST_ROOM: control asks again now
 *
 * Of several servers the log says what is refused, when more is on its way already. So each message says which one its
 * stream has to have before it: a mirror's by the last sequence, a source's by its position (group/replica.h). What is
 * behind one that was refused is refused, too, and none of it is said to be taken. The position is what was applied.
 * Streams that discard what is old refuse nothing of a copy, and their entries say no such thing: a leafd of before it
 * would stop at them. Only where a definition is on its way it is not known which stream they will meet.
 *
 * Not here: taking in (ingest.c), waits (control, links/refusals.py).
 */
#include "base/abi_types.h"
#include "jetstream/ingest_private.h"
#include "jetstream/js.h"
#include "jetstream/progress.h"
#include "jetstream/replicated.h"
#include "jetstream/stream.h"
#include "store/append.h"
#include "store/store.h"

progress_t ingest_kept(js_t *js, const ingest_t *ingest) {
    progress_t kept = {ingest->last_seq, ingest->newest_ts};
    if (!ingest->chained) {
        return kept;
    }
    if (ingest->mirror) {
        stream_state_t state;
        store_stream_state(ingest->stream->store, &state);
        kept.seq = state.last_seq;
        return kept;
    }
    switch (progress_read(js, ingest->stream, ingest->key, &kept)) {
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: break;
    case ENTRY_NONE:
    case ENTRY_FOUND: return kept;
    }
    return ingest->begun;
}

/* ---- what a log is asked for ------------------------------------------------------------------------------------- */

/* A mirror passes over what never fits, and the log would not go on behind it. */
static bool mirror_passes_over(const ingest_t *ingest, const append_t *append) {
    if (!ingest->mirror) {
        return false; /* its position goes on with an entry */
    }
    append_verdict_t form =
        append->subject.size == 0 ? APPEND_TOO_LARGE : store_append_form(ingest->stream->store, append);
    return form == APPEND_TOO_LARGE || form == APPEND_HEADER_TOO_LARGE || form == APPEND_BAD_SUBJECT;
}

status_t ingest_propose(js_t *js, ingest_t *ingest, append_t *append, uint64_t seq) {
    bool chained = replicated_may_refuse(ingest->stream), proposed = false;
    if (chained && mirror_passes_over(ingest, append)) {
        return STATUS_OK;
    }
    if (chained && ingest->mirror) {
        append->has_expected_last_seq = true;
        append->expected_last_seq = ingest->before_seq;
    } else if (chained) {
        append->has_source_before = true;
        append->source_before = ingest->before_seq;
    }
    ingest->chained = ingest->chained || chained;
    status_t status = replicated_take(js, ingest->stream, append, chained ? ingest->run : 0, &proposed);
    if (proposed) {
        ingest->before_seq = seq;
        ingest->on_its_way += chained;
    }
    return status;
}

/* ---- what became of it ------------------------------------------------------------------------------------------- */

static ingest_t *find_run(const js_t *js, uint64_t run) {
    ingest_t *one = js->ingests;
    while (one != NULL && one->run != run) {
        one = one->next;
    }
    return one;
}

bool ingest_stands(const js_t *js, uint64_t run) {
    const ingest_t *ingest = find_run(js, run);
    return run == 0 || (ingest != NULL && !ingest->refused);
}

void ingest_applied(js_t *js, uint64_t run, const appended_t *appended) {
    ingest_t *ingest = run != 0 ? find_run(js, run) : NULL;
    if (ingest == NULL || ingest->refused) {
        return;
    }
    switch (appended->verdict) {
    case APPEND_STORED:
    case APPEND_SKIPPED: ingest->on_its_way--; return;
    case APPEND_DUPLICATE:
    case APPEND_BAD_SUBJECT:
    case APPEND_TOO_LARGE:
    case APPEND_HEADER_TOO_LARGE:
    case APPEND_NO_SPACE: /* it never fits */
        if (!ingest->mirror) {
            ingest->on_its_way--;
            return; /* its position went on */
        }
        break;
    default: break;
    }
    ingest->refused = true;
    ingest->behind.messages += ingest->on_its_way; /* none of them was taken */
    if (ingest->running) {
        ingest_was_refused(js, ingest, appended->verdict);
    }
}

/* ---- a stream that is full --------------------------------------------------------------------------------------- */

static void full_note(js_t *js, stream_t *stream) {
    stream_state_t state;
    store_stream_state(stream->store, &state);
    if (!stream->full) {
        stream->next_full = js->full;
        js->full = stream;
    }
    stream->full = true;
    stream->full_messages = state.messages;
    stream->full_bytes = state.bytes;
}

void ingest_was_refused(js_t *js, ingest_t *ingest, append_verdict_t verdict) {
    switch (verdict) {
    case APPEND_MAX_MSGS:
    case APPEND_MAX_BYTES:
    case APPEND_MAX_PER_SUBJECT: full_note(js, ingest->stream); break;
    case APPEND_OUT_OF_ORDER:
    case APPEND_WRONG_LAST_SEQ: /* something of an earlier start was still on its way */
    case APPEND_NO_ROLLUP:      /* the definition has changed meanwhile: as it is now, the message is stored without */
        ingest_fail(js, ingest, INGEST_GAP, STATUS_OK);
        return;
    default: break;
    }
    ingest_fail(js, ingest, INGEST_REFUSED, verdict == APPEND_NO_SPACE ? STATUS_NO_SPACE : STATUS_FULL);
}

/* false: no memory, later. */
static bool tell_room(js_t *js, const stream_t *stream) {
    event_entry_t *entry = event_new(EVENT_INGEST, BYTES_NONE, BYTES_NONE, BYTES_NONE, BYTES_NONE);
    if (entry == NULL) {
        return false;
    }
    entry->event.target = stream->id;
    entry->event.code = INGEST_ROOM;
    event_post(js->exchange, entry);
    return true;
}

void ingest_tell_rooms(js_t *js) {
    for (stream_t **place = &js->full; *place != NULL;) {
        stream_t *stream = *place;
        stream_state_t state;
        store_stream_state(stream->store, &state);
        bool room = state.messages < stream->full_messages || state.bytes < stream->full_bytes;
        if (room && tell_room(js, stream)) {
            *place = stream->next_full;
            stream->full = false;
        } else {
            place = &stream->next_full;
        }
    }
}

void ingest_stream_redefined(stream_t *stream) {
    stream->full_messages = UINT64_MAX; /* of what it takes now nothing was refused */
}

void ingest_forget_full(js_t *js, const stream_t *stream) {
    stream_t **place = &js->full;
    while (*place != NULL && *place != stream) {
        place = &(*place)->next_full;
    }
    if (*place != NULL) {
        *place = stream->next_full;
    }
}
