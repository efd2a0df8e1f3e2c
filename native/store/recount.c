/* recount.c: see recount.h. The slices belong to the looks at every stream (store.c). The result goes through the
 * cache of heads into the open batch, and takes the place of the damaged record with the next checkpoint.
 */
#include "store/recount.h"

#include <stdlib.h>

#include "base/number.h"
#include "store/message.h"
#include "store/overlay.h"

#define WAIT_NS (20 * NS_PER_MS) /* from one look whether a checkpoint is there to the next */
#define SEEK_STEPS 2             /* more than a message's own, to look for its head */

typedef enum recount_phase {
    RECOUNT_COUNT,
    RECOUNT_SEEK,
    RECOUNT_WRITTEN, /* into the open batch: a walk does not find there what has no record in LMDB .. */
    RECOUNT_KEPT,    /* .. until a checkpoint has brought it there */
    RECOUNT_OVER,
} recount_phase_t;

struct recount {
    recount_phase_t phase;
    store_key_t asked;  /* of the record that cannot be read, in LMDB .. */
    store_key_t plain;  /* .. and the store's own; size 0: not known, or it is no subject of the stream's */
    store_key_t stored; /* in LMDB, of the head that is counted */
    uint64_t at;        /* the next sequence to look at */
    uint64_t upto;      /* what came since is of other subjects */
    uint64_t seek_at;   /* where seeking goes on */
    uint64_t batch;     /* that was open then .. */
    uint64_t end;       /* .. and where it ends */
    head_t head;
    bool none; /* no message has the subject that was asked for */
};

static void key_take(store_key_t *key, bytes_t from) {
    check(from.size <= sizeof key->at);
    key->size = from.size;
    if (from.size > 0) {
        memcpy(key->at, from.at, from.size);
    }
}

void recount_begin(store_stream_t *stream, bytes_t stored, bytes_t plain) {
    store_note_unknown(stream->store);
    if (recount_runs(stream)) {
        return;
    }
    stream->recount = stream->recount != NULL ? stream->recount : malloc(sizeof *stream->recount);
    recount_t *recount = stream->recount;
    if (recount == NULL) {
        return;
    }
    *recount = (recount_t){.at = stream->log.first_seq, .upto = stream->log.last_seq};
    key_take(&recount->asked, stored);
    key_take(&recount->plain, plain);
    key_take(&recount->stored, stored);
    store_look_soon(stream->store);
}

bool recount_runs(const store_stream_t *stream) {
    return stream->recount != NULL && stream->recount->phase != RECOUNT_OVER;
}

bool recount_is_of(const store_stream_t *stream, bytes_t stored) {
    const recount_t *recount = stream->recount;
    return recount_runs(stream)
           && (bytes_equal(key_bytes(&recount->stored), stored) || bytes_equal(key_bytes(&recount->asked), stored));
}

bool recount_key(const store_stream_t *stream, bytes_t stored, bytes_t *plain) {
    const recount_t *recount = stream->recount;
    if (recount == NULL || recount_runs(stream) || !bytes_equal(key_bytes(&recount->asked), stored)) {
        return false;
    }
    *plain = key_bytes(&recount->plain);
    return true;
}

void recount_end(store_stream_t *stream) {
    free(stream->recount);
    stream->recount = NULL;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

/* Does the subject's head have that key in LMDB? */
static bool is_its_subject(const store_stream_t *stream, const recount_t *recount, bytes_t subject) {
    store_key_t plain;
    store_key_t room;
    key_text(&plain, stream->id, subject);
    bytes_t key = key_bytes(&plain);
    return bytes_equal(key_bytes(&recount->stored), env_stored_key(stream->store->env, DB_HEADS, key, &room));
}

/* The next message whose checksum holds. */
static seek_outcome_t recount_next(store_stream_t *stream, recount_t *recount, uint32_t *steps, message_row_t *found) {
    while (*steps > 0) {
        seek_outcome_t outcome = message_next_some(stream, &recount->at, recount->upto, true, steps, found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        recount->at = found->seq + 1;
        if (found->sound) {
            return SEEK_FOUND;
        }
        store_corrupt(stream->store, stream, stream->id, found->seq, "a message");
    }
    return SEEK_MORE;
}

static step_outcome_t recount_count(store_stream_t *stream, recount_t *recount, uint32_t *steps) {
    message_row_t found;
    for (;;) {
        switch (recount_next(stream, recount, steps, &found)) {
        case SEEK_UNKNOWN: return STEP_UNKNOWN;
        case SEEK_NONE: return STEP_OVER;
        case SEEK_MORE: return STEP_MORE;
        case SEEK_FOUND: break;
        }
        if (is_its_subject(stream, recount, found.message.subject)) {
            recount->head.first = recount->head.count == 0 ? found.seq : recount->head.first;
            recount->head.last = found.seq;
            recount->head.count++;
        }
    }
}

/* The head of that message's subject is counted, from the message on. */
static void recount_turn(store_stream_t *stream, recount_t *recount, const message_row_t *found) {
    store_key_t plain;
    store_key_t room;
    key_text(&plain, stream->id, found->message.subject);
    key_take(&recount->stored, env_stored_key(stream->store->env, DB_HEADS, key_bytes(&plain), &room));
    recount->head = (head_t){0};
    recount->at = found->seq;
    recount->seek_at = found->seq + 1;
    recount->phase = RECOUNT_COUNT;
}

/* Looks for a message whose subject has no head that can be read: then that is the one to count, in the next step. */
static step_outcome_t recount_seek(store_stream_t *stream, recount_t *recount, uint32_t *steps) {
    message_row_t found;
    for (;;) {
        head_t head;
        switch (recount_next(stream, recount, steps, &found)) {
        case SEEK_UNKNOWN: return STEP_UNKNOWN;
        case SEEK_NONE: return STEP_OVER;
        case SEEK_MORE: return STEP_MORE;
        case SEEK_FOUND: break;
        }
        *steps = (uint32_t)number_less(*steps, SEEK_STEPS);
        switch (head_peek(stream, found.message.subject, &head)) {
        case READ_FOUND: continue;
        case READ_UNKNOWN: /* counted, too: what its messages say is true */
        case READ_NONE: break;
        }
        recount_turn(stream, recount, &found);
        return STEP_MORE;
    }
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static void recount_over(store_stream_t *stream, recount_t *recount) {
    recount->phase = RECOUNT_OVER;
    store_alarm(stream->store, ALARM_CORRUPT, stream->id, 0,
                "an index entry of stream %u that was damaged was counted again from the messages: %llu of its subject "
                "are there",
                stream->id, (unsigned long long)recount->head.count);
}

/* No message has the subject that was asked for: damage made its key, of another one. */
static void recount_forget(store_stream_t *stream, recount_t *recount) {
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return;
    }
    if (recount->plain.size > 0) {
        overlay_delete(stream->store, DB_HEADS, key_bytes(&recount->plain), true);
        stream_touch(stream);
    }
    recount->plain.size = 0;
    recount_over(stream, recount);
}

/* false: there is no room for it now. */
static bool recount_write(store_stream_t *stream, recount_t *recount) {
    message_row_t newest;
    if (!message_usable(message_find(stream, recount->head.last, true, &newest), &newest)) {
        recount_end(stream); /* who asks again begins anew */
        return false;
    }
    bytes_t subject = newest.message.subject;
    if (!overlay_fits(stream->store, REMOVAL_NEED + subject.size)
        || head_counted(stream, subject, recount->head) != STATUS_OK) {
        return false;
    }
    if (!recount->none) {
        key_text(&recount->plain, stream->id, subject);
        recount_over(stream, recount);
    }
    return true;
}

/* Is all in LMDB that was found? The record that was asked for stands in the way of walks until then. */
static bool recount_kept(store_t *store, recount_t *recount) {
    if (recount->phase == RECOUNT_WRITTEN && (store_batch_empty(store) || store->batches.number != recount->batch)) {
        recount->end = store->batches.begin;
        recount->phase = RECOUNT_KEPT;
    }
    bool kept = recount->phase == RECOUNT_KEPT && store->batches.freed >= recount->end;
    if (!kept) {
        store_checkpoint_want(store);
    }
    return kept;
}

/* All messages were gone through. false: in a later turn. */
static bool recount_done(store_stream_t *stream, recount_t *recount) {
    if (recount->phase == RECOUNT_SEEK) {
        recount->batch = stream->store->batches.number;
        recount->phase = RECOUNT_WRITTEN;
        return true;
    }
    if (recount->head.count > 0 && !recount_write(stream, recount)) {
        return false;
    }
    if (recount->head.count == 0 || recount->none) {
        recount->at = recount->none ? recount->seek_at : stream->log.first_seq;
        recount->none = true;
        recount->phase = RECOUNT_SEEK;
    }
    return true;
}

static bool recount_waits(const recount_t *recount) {
    return recount->phase == RECOUNT_WRITTEN || recount->phase == RECOUNT_KEPT;
}

int64_t recount_deadline(const store_stream_t *stream, int64_t age_now) {
    return !recount_runs(stream) ? INT64_MAX : age_now + (recount_waits(stream->recount) ? WAIT_NS : 0);
}

void recount_step(store_stream_t *stream, uint32_t *steps) {
    recount_t *recount = stream->recount;
    bool goes_on = true;
    while (goes_on && *steps > 0 && !recount_waits(recount)) {
        step_outcome_t step = recount->phase == RECOUNT_SEEK ? recount_seek(stream, recount, steps)
                                                             : recount_count(stream, recount, steps);
        switch (step) {
        case STEP_UNKNOWN: recount_end(stream); return; /* the unknown is not counted; the next look begins anew */
        case STEP_MORE: break;
        case STEP_OVER: goes_on = recount_done(stream, recount) && recount->phase != RECOUNT_OVER; break;
        }
    }
    if (goes_on && recount_waits(recount) && recount_kept(stream->store, recount)) {
        recount_forget(stream, recount);
    }
}
