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
    status_t status = message_find(stream, seq, false, &found);
    if (status != STATUS_OK && status != STATUS_CORRUPT) {
        return status;
    }
    if (status == STATUS_OK && (found.message.flags & MESSAGE_GONE) != 0) {
        return STATUS_NOT_FOUND;
    }
    if (!overlay_fits(stream->store, REMOVAL_NEED)) {
        return STATUS_FULL;
    }
    uint32_t steps = 0;
    return message_remove(stream, &found, false, &steps);
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
 * so. STATUS_NOT_FOUND: none may. */
static status_t goes_on(store_stream_t *stream, const store_purge_t *purge, bool literal) {
    head_t head;
    if (purge->keep > 0 && store_tally_now(purge->tally) <= purge->keep) {
        return STATUS_NOT_FOUND;
    }
    if (!literal) {
        return STATUS_OK;
    }
    switch (head_look(stream, purge->filter, &head)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return STATUS_NOT_FOUND;
    case READ_FOUND: break;
    }
    return head.first > purge->upto ? STATUS_NOT_FOUND : STATUS_OK;
}

static status_t next_taken(store_stream_t *stream, store_purge_t *purge, uint32_t *budget, message_row_t *found) {
    bool all = subject_is_everything(purge->filter);
    while (*budget > 0) {
        status_t status = message_next_some(stream, &purge->at, purge->upto, false, budget, found);
        if (status != STATUS_OK) {
            return status;
        }
        purge->at = found->seq + 1;
        if (all || (found->sound && subject_matches(found->message.subject, purge->filter))) {
            return STATUS_OK;
        }
    }
    return STATUS_AGAIN;
}

/* One subject with few messages, wide apart: its chain knows them all. STATUS_NOT_FOUND: not such a subject, or its
 * chain is broken; any other but STATUS_OK: not all of them went, in a later turn the rest. */
static status_t take_chain(store_stream_t *stream, store_purge_t *purge, uint64_t *purged) {
    uint64_t seqs[CHAIN_MAX];
    uint32_t count = 0;
    head_t head;
    message_row_t found;
    switch (head_look(stream, purge->filter, &head)) {
    case READ_UNKNOWN: return STATUS_IO;
    case READ_NONE: return STATUS_NOT_FOUND;
    case READ_FOUND: break;
    }
    if (head.count > CHAIN_MAX || head.last - head.first < head.count * CHAIN_COST) {
        return STATUS_NOT_FOUND;
    }
    uint32_t steps = CHAIN_STEPS;
    status_t status = message_find(stream, head.last, false, &found);
    for (uint64_t left = head.count; left > 0; left--) {
        if (status != STATUS_OK) {
            return STATUS_NOT_FOUND;
        }
        seqs[count] = found.seq;
        count += found.seq <= purge->upto;
        status = message_chain(stream, &found.message, head.first, &steps, &found);
    }
    while (count > 0 && (status = goes_on(stream, purge, true)) == STATUS_OK) {
        if (!overlay_fits(stream->store, REMOVAL_NEED)) {
            return STATUS_AGAIN;
        }
        status = message_find(stream, seqs[--count], false, &found);
        status = status == STATUS_OK ? message_remove(stream, &found, true, &steps) : status;
        *purged += status == STATUS_OK;
        if (status_unknown(status)) {
            return status;
        }
    }
    return count > 0 && status_unknown(status) ? status : STATUS_OK;
}

/* false: the budget or the room in the batch did not suffice, or it is not known which goes next. */
static bool purge_message(store_stream_t *stream, store_purge_t *purge, uint64_t *purged) {
    bool literal = !subject_is_everything(purge->filter) && !subject_has_wildcard(purge->filter);
    uint32_t budget = PURGE_STEP;
    status_t chained = literal ? take_chain(stream, purge, purged) : STATUS_NOT_FOUND;
    if (chained != STATUS_NOT_FOUND) {
        return chained == STATUS_OK;
    }
    status_t status;
    while ((status = goes_on(stream, purge, literal)) == STATUS_OK) {
        message_row_t found;
        if (!overlay_fits(stream->store, REMOVAL_NEED)) {
            return false;
        }
        status = next_taken(stream, purge, &budget, &found);
        if (status != STATUS_OK) {
            return status == STATUS_NOT_FOUND;
        }
        if (message_remove(stream, &found, true, &budget) != STATUS_OK) {
            purge->at = found.seq;
            return false;
        }
        ++*purged;
    }
    return status == STATUS_NOT_FOUND;
}

/* All go and none stays? What came since the purge began stays. */
static bool takes_all(store_stream_t *stream, const store_purge_t *purge) {
    const store_hooks_t *hooks = &stream->store->hooks;
    return subject_is_everything(purge->filter) && purge->keep == 0 && purge->upto == stream->log.last_seq
           && stream->log.messages >= EMPTY_MIN
           && (hooks->holds == NULL || hooks->holds(hooks->context, stream) <= EMPTY_HELD)
           && overlay_fits(stream->store, REMOVAL_NEED);
}

static void take_all(store_stream_t *stream, uint64_t *purged) {
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

/* Looks for the first message that matches and stays. false: that takes further steps. */
static bool look_for_left(store_stream_t *stream, store_purge_t *purge) {
    if (subject_is_everything(purge->filter)) {
        purge->left = stream->log.first_seq;
    } else if (purge->left == 0 && purge->keep == 0 && purge->below_seq == 0) {
        purge->left = purge->last + 1;
    }
    if (purge->left != 0) {
        return true;
    }
    message_row_t found;
    uint32_t budget = PURGE_STEP;
    purge->upto = purge->last;
    status_t status = next_taken(stream, purge, &budget, &found);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND) {
        purge->left = status == STATUS_OK ? found.seq : purge->last + 1;
    }
    return purge->left != 0;
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

status_t store_purge(store_stream_t *stream, store_purge_t *purge, uint64_t *purged, bool *more) {
    *purged = 0;
    *more = false;
    if (stream->log.stopped) {
        return STATUS_IO;
    }
    status_t status = purge->begun ? STATUS_OK : purge_begin(stream, purge);
    if (status != STATUS_OK) {
        return status;
    }
    if (!purge->looking && takes_all(stream, purge)) {
        take_all(stream, purged);
    }
    step_outcome_t counted = purge->tally != NULL ? store_tally_step(purge->tally, STORE_STEP) : STEP_OVER;
    switch (counted) {
    case STEP_UNKNOWN: /* it waits */
    case STEP_MORE: *more = true; break;
    case STEP_OVER: break;
    }
    purge->looking = purge->looking || (!*more && purge_message(stream, purge, purged));
    *more = !purge->looking || (stream->store->hooks.purged != NULL && !look_for_left(stream, purge));
    if (*more) {
        return STATUS_OK;
    }
    store_purge_end(purge);
    purge_over(stream, purge);
    return STATUS_OK;
}
