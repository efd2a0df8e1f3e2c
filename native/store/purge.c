/* purge.c: messages out by request: one by sequence, or many by subject, sequence and keep, in steps, of which each
 * goes on where the one before stopped.
 *
 * Where all go and none stays, nobody looks at them: the batch has a range for the messages, one for the heads and one
 * for times and schedules each, and the stream's numbers, so a crash finds all of them or none. Message ids stay, as
 * for any message that goes.
 */
#include "base/check.h"
#include "base/number.h"
#include "text/subject.h"
#include "store/follow.h"
#include "store/message.h"
#include "store/overlay.h"

/* Messages that one step takes out or looks at, fewer if each has another subject: half a millisecond, since a login
 * waits for four or five turns. */
#define PURGE_STEP 256
/* All go at once from so many messages on, while consumers hold no more than so many of them: before, the oldest go one
 * by one. */
#define EMPTY_MIN 32
#define EMPTY_HELD PURGE_STEP
#define CHAIN_STEPS 1024 /* of a chain, which is gone through at once */
#define CHAIN_MAX 256    /* messages of one subject that are gone through back its chain */
#define CHAIN_COST 8     /* when a step back is shorter than so many forward */

status_t store_delete(store_stream_t *stream, uint64_t seq) {
    message_row_t found;
    switch (message_find(stream, seq, false, &found)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return STATUS_NOT_FOUND;
    case READ_FOUND: break;
    }
    if ((found.message.flags & MESSAGE_GONE) != 0) {
        return STATUS_NOT_FOUND;
    }
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STATUS_FULL;
    }
    uint32_t steps = 0;
    return message_remove(stream, &found, false, &steps);
}

status_t store_delete_any(store_stream_t *stream, uint64_t seq) {
    status_t status = store_delete(stream, seq);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static status_t purge_begin(store_stream_t *stream, store_purge_t *purge) {
    bool all = subject_is_everything(purge->filter);
    head_t head;
    purge->at = stream->log.first_seq;
    purge->upto = purge->last = stream->log.last_seq;
    if (purge->below_seq != 0 && purge->below_seq - 1 < purge->upto) {
        purge->upto = purge->below_seq - 1;
    }
    read_outcome_t outcome =
        all || subject_has_wildcard(purge->filter) ? READ_NONE : head_look(stream, purge->filter, &head);
    switch (outcome) {
    case READ_UNKNOWN:
    case READ_NONE: break; /* from the first on: each step asks for the head again */
    case READ_FOUND: purge->at = number_most(head.first, purge->at); break;
    }
    if (purge->keep > 0) {
        purge->tally = store_tally_open(stream, (filters_t){.patterns = &purge->filter, .count = all ? 0 : 1}, 0);
        if (purge->tally == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    purge->begun = true;
    return STATUS_OK;
}

/* May another one go? Only a `keep` needs the number of those that match; one subject is through when its head says
 * so. */
static step_outcome_t goes_on(store_stream_t *stream, const store_purge_t *purge, bool literal) {
    head_t head;
    if (purge->keep > 0 && store_tally_now(purge->tally) <= purge->keep) {
        return STEP_OVER;
    }
    if (!literal) {
        return STEP_MORE;
    }
    switch (head_look(stream, purge->filter, &head)) {
    case READ_UNKNOWN: return STEP_UNKNOWN;
    case READ_NONE: return STEP_OVER;
    case READ_FOUND: break;
    }
    return head.first > purge->upto ? STEP_OVER : STEP_MORE;
}

static seek_outcome_t next_taken(store_stream_t *stream, store_purge_t *purge, uint32_t *budget, message_row_t *found) {
    bool all = subject_is_everything(purge->filter);
    while (*budget > 0) {
        seek_outcome_t outcome = message_next_some(stream, &purge->at, purge->upto, false, budget, found);
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return outcome;
        case SEEK_FOUND: break;
        }
        purge->at = found->seq + 1;
        if (all || (found->sound && subject_matches(found->message.subject, purge->filter))) {
            return SEEK_FOUND;
        }
    }
    return SEEK_MORE;
}

/* That one goes. STEP_MORE: there may be more; it is there still where there was no room or no step for it. */
static step_outcome_t purge_one(store_stream_t *stream, const message_row_t *found, uint32_t *steps, bool *taken) {
    *taken = false;
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STEP_MORE;
    }
    status_t status = message_remove(stream, found, true, steps);
    *taken = status == STATUS_OK;
    return *taken || status == STATUS_AGAIN ? STEP_MORE : STEP_UNKNOWN;
}

/* One subject with few messages, wide apart: its chain knows them all, the newest first. false: not such a subject, or
 * its chain is broken or cannot be read: the stream is gone through. */
static bool chain_known(store_stream_t *stream, const store_purge_t *purge, uint32_t *steps, uint64_t seqs[CHAIN_MAX],
                        uint32_t *count) {
    head_t head;
    message_row_t found;
    *count = 0;
    switch (head_look(stream, purge->filter, &head)) {
    case READ_UNKNOWN:
    case READ_NONE: return false; /* goes_on() says which */
    case READ_FOUND: break;
    }
    if (head.count > CHAIN_MAX || head.last - head.first < head.count * CHAIN_COST
        || !message_usable(message_find(stream, head.last, false, &found), &found)) {
        return false;
    }
    for (uint64_t left = head.count; left > 0; left--) {
        seqs[*count] = found.seq;
        *count += found.seq <= purge->upto;
        seek_outcome_t outcome =
            left > 1 ? message_chain(stream, &found.message, head.first, steps, &found) : SEEK_FOUND;
        switch (outcome) {
        case SEEK_UNKNOWN:
        case SEEK_NONE:
        case SEEK_MORE: return false;
        case SEEK_FOUND: break;
        }
    }
    return true;
}

/* The oldest first. STEP_MORE: not all of them went, in a later turn the rest. */
static step_outcome_t purge_chain(store_stream_t *stream, const store_purge_t *purge, const uint64_t *seqs,
                                  uint32_t count, uint32_t *steps, uint64_t *purged) {
    while (count > 0) {
        message_row_t found;
        bool taken;
        step_outcome_t step = goes_on(stream, purge, true);
        switch (step) {
        case STEP_UNKNOWN:
        case STEP_OVER: return step;
        case STEP_MORE: break;
        }
        switch (message_find(stream, seqs[--count], false, &found)) {
        case READ_UNKNOWN: return STEP_UNKNOWN;
        case READ_NONE: continue;
        case READ_FOUND: break;
        }
        if (!found.sound) {
            continue;
        }
        step = purge_one(stream, &found, steps, &taken);
        *purged += taken;
        if (!taken) {
            return step;
        }
    }
    return STEP_OVER;
}

static step_outcome_t purge_next(store_stream_t *stream, store_purge_t *purge, uint32_t *budget, uint64_t *purged) {
    message_row_t found;
    bool taken;
    switch (next_taken(stream, purge, budget, &found)) {
    case SEEK_UNKNOWN: return STEP_UNKNOWN;
    case SEEK_NONE: return STEP_OVER;
    case SEEK_MORE: return STEP_MORE;
    case SEEK_FOUND: break;
    }
    step_outcome_t step = purge_one(stream, &found, budget, &taken);
    if (!taken) {
        purge->at = found.seq;
        *budget = 0;
    }
    *purged += taken;
    return step;
}

static step_outcome_t purge_some(store_stream_t *stream, store_purge_t *purge, uint64_t *purged) {
    bool literal = !subject_is_everything(purge->filter) && !subject_has_wildcard(purge->filter);
    uint64_t seqs[CHAIN_MAX];
    uint32_t budget = PURGE_STEP;
    uint32_t steps = CHAIN_STEPS;
    uint32_t count;
    if (literal && chain_known(stream, purge, &steps, seqs, &count)) {
        return purge_chain(stream, purge, seqs, count, &steps, purged);
    }
    while (budget > 0) {
        step_outcome_t step = goes_on(stream, purge, literal);
        switch (step) {
        case STEP_UNKNOWN:
        case STEP_OVER: return step;
        case STEP_MORE: break;
        }
        step = purge_next(stream, purge, &budget, purged);
        switch (step) {
        case STEP_UNKNOWN:
        case STEP_OVER: return step;
        case STEP_MORE: break;
        }
    }
    return STEP_MORE;
}

/* All go and none stays? What came since the purge began stays. */
static bool takes_all(store_stream_t *stream, const store_purge_t *purge) {
    const store_hooks_t *hooks = &stream->store->hooks;
    return subject_is_everything(purge->filter) && purge->keep == 0 && purge->upto == stream->log.last_seq
           && stream->log.messages >= EMPTY_MIN
           && (hooks->holds == NULL || hooks->holds(hooks->context, stream) <= EMPTY_HELD)
           && overlay_fits(stream->store, REMOVAL_NEED);
}

static void purge_all(store_stream_t *stream, uint64_t *purged) {
    const store_hooks_t *hooks = &stream->store->hooks;
    *purged += stream->log.messages;
    heads_leave(stream);
    schedules_forget(stream);
    expire_forget(stream);
    log_remove_all(stream); /* with the range of messages, when the batch closes */
    tallies_emptied(stream);
    follows_emptied(stream);
    if (hooks->emptied != NULL) {
        hooks->emptied(hooks->context, stream);
    }
}

/* Looks for the first message that matches and stays. */
static step_outcome_t look_for_left(store_stream_t *stream, store_purge_t *purge) {
    if (subject_is_everything(purge->filter)) {
        purge->left = stream->log.first_seq;
    } else if (purge->left == 0 && purge->keep == 0 && purge->below_seq == 0) {
        purge->left = purge->last + 1;
    }
    if (purge->left != 0) {
        return STEP_OVER;
    }
    message_row_t found;
    uint32_t budget = PURGE_STEP;
    purge->upto = purge->last;
    switch (next_taken(stream, purge, &budget, &found)) {
    case SEEK_UNKNOWN: return STEP_UNKNOWN;
    case SEEK_MORE: return STEP_MORE;
    case SEEK_NONE: purge->left = purge->last + 1; break;
    case SEEK_FOUND: purge->left = found.seq; break;
    }
    return STEP_OVER;
}

void store_purge_end(store_purge_t *purge) {
    store_tally_close(purge->tally);
    purge->tally = NULL;
}

/* All that was to go has gone. */
static void purge_over(store_stream_t *stream, const store_purge_t *purge) {
    bool all = subject_is_everything(purge->filter);
    if (all) {
        /* Beyond the end: the stream goes on at that sequence, as the reference does. */
        bool beyond = purge->keep == 0 && purge->below_seq > stream->log.last_seq + 1
                      && overlay_fits(stream->store, REMOVAL_NEED);
        log_purged(stream, beyond ? purge->below_seq : 0);
    }
    const store_hooks_t *hooks = &stream->store->hooks;
    if (hooks->purged != NULL) {
        hooks->purged(hooks->context, stream, all ? BYTES_NONE : purge->filter,
                      all ? stream->log.first_seq : purge->left);
    }
}

/* What goes, and then what stays. */
static step_outcome_t purge_turn(store_stream_t *stream, store_purge_t *purge, uint64_t *purged) {
    if (!purge->looking && takes_all(stream, purge)) {
        purge_all(stream, purged);
    }
    step_outcome_t step = purge->tally != NULL ? store_tally_step(purge->tally, STORE_STEP) : STEP_OVER;
    switch (step) {
    case STEP_UNKNOWN: /* it waits */
    case STEP_MORE: return step;
    case STEP_OVER: break;
    }
    step = purge->looking ? STEP_OVER : purge_some(stream, purge, purged);
    switch (step) {
    case STEP_UNKNOWN:
    case STEP_MORE: return step;
    case STEP_OVER: purge->looking = true; break;
    }
    return stream->store->hooks.purged != NULL ? look_for_left(stream, purge) : STEP_OVER;
}

status_t store_purge(store_stream_t *stream, store_purge_t *purge, uint64_t *purged, step_outcome_t *step) {
    *purged = 0;
    *step = STEP_UNKNOWN;
    if (stream->log.stopped) {
        return STATUS_IO;
    }
    status_t status = purge->begun ? STATUS_OK : purge_begin(stream, purge);
    if (status != STATUS_OK) {
        return status;
    }
    *step = purge_turn(stream, purge, purged);
    switch (*step) {
    case STEP_UNKNOWN:
    case STEP_MORE: return STATUS_OK;
    case STEP_OVER: break;
    }
    store_purge_end(purge);
    purge_over(stream, purge);
    return STATUS_OK;
}
