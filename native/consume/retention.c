/* retention.c: which messages of interest and work queue streams no consumer needs any more.
 *
 * A single ack looks at one message at once. What concerns many (an ack-all, a consumer that goes or changes its
 * filters) is a sweep: a range of sequences per stream, looked at a bounded number a tick. A sweep that a flush finds
 * unfinished is written down (state.h), so that a crash does not leave messages behind that nobody will look at again.
 *
 * A removal that the store has no room for becomes a sweep too: the range then holds that message, and is tried again
 * every RETRY_NS. What a flush writes of the group's acks waits until the range is written (retention_recorded): a
 * crash finds either the range, or a message that was never acknowledged. A work queue keeps what no consumer's filter
 * matches, since none took it; one that was taken before its consumer's filter was narrowed goes all the same. So a
 * range has such messages by their sequences, OWED_MAX at most, and is written down with them. Where there is no room
 * for one more, an acknowledgement is not taken (retention_ready), and comes again.
 *
 * Of a stream that several servers keep a removal is asked of its log, before what the same flush writes of the
 * consumers. The message is there until the log has it. What is on its way while a consumer goes was asked for before
 * that, and comes after it: a sweep waits for it. A server that begins to lead removes nothing by interest before it
 * has all consumers.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/bytes.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"
#include "store/retention.h"

#define OWED_MIN 16

static const retention_traits_t *retention_of(const group_t *group) {
    return retention_traits(store_stream_config(group->stream));
}

bool retention_by_interest(const group_t *group) {
    return retention_of(group)->only_wanted;
}

static bool is_shared(const group_t *group) {
    return LEAF_UNLIKELY((store_stream_config(group->stream)->flags & STREAM_REPLICATED) != 0);
}

/* Are consumers missing that may need what the others do not? */
static bool lacks_consumers(const group_t *group) {
    const consume_out_t *out = &group->consume->out;
    bool lacks = (store_stream_config(group->stream)->flags & STREAM_LACKS_CONSUMERS) != 0;
    return LEAF_UNLIKELY(lacks || is_shared(group)) && retention_by_interest(group)
           && (lacks || !out->complete(out->context, group->stream_id));
}

static uint64_t messages_coming(const group_t *group) {
    const consume_out_t *out = &group->consume->out;
    return is_shared(group) ? out->coming(out->context, group->stream_id) : 0;
}

/* Judges by the sequence alone; the caller asks whether the filter matches. */
static bool consumer_needs(const consumer_t *consumer, uint64_t seq) {
    if (consumer->setup.config.ack_policy != ACK_EXPLICIT) {
        bool passed = seq >= consumer->push.told.passed_from && seq <= consumer->push.told.passed_upto;
        return passed || (seq > consumer->floor_stream && seq > consumer->push.told.acked_before);
    }
    return seq >= consumer->cursor || consumer_selects(consumer, seq)
           || pending_find(&consumer->pending, seq) != PENDING_NONE;
}

#define FEW 16u /* consumers are asked one by one */

typedef struct others {
    const consumer_t *consumer;
    uint64_t seq;
} others_t;

static bool needs_none(void *context, consumer_t *other) {
    const others_t *others = context;
    return other == others->consumer || !consumer_counts(other) || !consumer_needs(other, others->seq);
}

/* Does anybody else want a message? */
typedef enum wanted { WANTED, WANTED_NOT, WANTED_UNKNOWN } wanted_t;

/* Of a damaged message the subject is not known, so the filters of any consumer may match it. */
static wanted_t damaged_is_wanted(const consumer_t *consumer, uint64_t seq) {
    const group_t *group = consumer->group;
    others_t others = {.consumer = consumer, .seq = seq};
    for (uint32_t i = 0; i < group->count; i++) {
        if (!needs_none(&others, group->consumers[i])) return WANTED;
    }
    return WANTED_NOT;
}

/* The subject finds the consumers whose filters match. */
static wanted_t wanted_by_many(consumer_t *consumer, uint64_t seq) {
    group_t *group = consumer->group;
    stored_message_t message;
    switch (store_read(group->stream, seq, &message)) {
    case ENTRY_UNKNOWN: return WANTED_UNKNOWN;
    case ENTRY_NONE: return WANTED_NOT;
    case ENTRY_DAMAGED: return damaged_is_wanted(consumer, seq);
    case ENTRY_FOUND: break;
    }
    others_t others = {.consumer = consumer, .seq = seq};
    bool none = concern_each(&group->concern, group->consumers, group->count, message.subject, needs_none, &others);
    return none ? WANTED_NOT : WANTED;
}

/* The message is read only when a filter has to be asked. */
static wanted_t wanted_by_others(consumer_t *consumer, uint64_t seq) {
    group_t *group = consumer->group;
    if (group->count > FEW) return wanted_by_many(consumer, seq);
    stored_message_t message = {0};
    for (uint32_t i = 0; i < group->count; i++) {
        consumer_t *other = group->consumers[i];
        if (other == consumer || !consumer_counts(other) || !consumer_needs(other, seq)) continue;
        if (other->filter_all) return WANTED;
        entry_outcome_t outcome = message.seq == 0 ? store_read(group->stream, seq, &message) : ENTRY_FOUND;
        switch (outcome) {
        case ENTRY_UNKNOWN: return WANTED_UNKNOWN;
        case ENTRY_NONE: return WANTED_NOT;
        case ENTRY_DAMAGED: return WANTED;
        case ENTRY_FOUND: break;
        }
        if (consumer_matches(other, message.subject)) return WANTED;
    }
    return WANTED_NOT;
}

/* false: the store has no room for it, cannot read what it needs, or it takes further turns. A message that is not
 * there was taken by a limit. */
static bool message_let_go(group_t *group, uint64_t seq) {
    const consume_out_t *out = &group->consume->out;
    if (is_shared(group)) return out->remove(out->context, group->stream_id, seq) == STATUS_OK;
    return store_delete_any(group->stream, seq) == STATUS_OK;
}

static bool anybody_matches(const group_t *group, bytes_t subject) {
    for (uint32_t i = 0; i < group->count; i++) {
        if (consumer_counts(group->consumers[i]) && consumer_matches(group->consumers[i], subject)) return true;
    }
    return false;
}

/* Where it stands among those that are owed, or would. */
static uint32_t owed_place(const group_t *group, uint64_t seq) {
    uint32_t place = 0;
    for (uint32_t end = group->owed_count; place < end;) {
        uint32_t middle = place + (end - place) / 2;
        if (group->owed[middle] < seq) {
            place = middle + 1;
        } else {
            end = middle;
        }
    }
    return place;
}

static bool owed_has_room(group_t *group) {
    return group->owed_count < OWED_MAX
           && array_reserve(&group->owed, &group->owed_capacity, group->owed_count + 1u, OWED_MIN, sizeof *group->owed)
                  == STATUS_OK;
}

bool retention_ready(const consumer_t *consumer) {
    const retention_traits_t *retention = retention_of(consumer->group);
    return !retention->acks_remove || retention->only_wanted || consumer->filter_all || owed_has_room(consumer->group);
}

/* A work queue's message that was acknowledged is to go later. */
static void message_owe(group_t *group, uint64_t seq) {
    stored_message_t message;
    switch (store_read(group->stream, seq, &message)) {
    case ENTRY_NONE: return;
    case ENTRY_FOUND:
        if (anybody_matches(group, message.subject)) return;
        break;
    case ENTRY_DAMAGED:
    case ENTRY_UNKNOWN: break;
    }
    uint32_t place = owed_place(group, seq);
    if (place < group->owed_count && group->owed[place] == seq) return;
    if (!owed_has_room(group)) return; /* a filter matched it a moment ago, so it is gone over with the range */
    memmove(group->owed + place + 1, group->owed + place, (group->owed_count - place) * sizeof seq);
    group->owed[place] = seq;
    group->owed_count++;
    group->sweep_changed = true;
}

static bool message_is_owed(const group_t *group, uint64_t seq) {
    uint32_t place = owed_place(group, seq);
    return place < group->owed_count && group->owed[place] == seq;
}

void retention_release(consumer_t *consumer, uint64_t seq) {
    const retention_traits_t *retention = retention_of(consumer->group);
    if (!retention->acks_remove || !consumer_counts(consumer)) return;
    wanted_t wanted = lacks_consumers(consumer->group) ? WANTED_UNKNOWN
                      : retention->only_wanted         ? wanted_by_others(consumer, seq)
                                                       : WANTED_NOT;
    bool later = true;
    switch (wanted) {
    case WANTED: return;
    case WANTED_NOT: later = !message_let_go(consumer->group, seq); break;
    case WANTED_UNKNOWN: break;
    }
    state_dirty(consumer);
    if (LEAF_UNLIKELY(later)) {
        if (!retention->only_wanted) message_owe(consumer->group, seq);
        retention_sweep(consumer->group, seq, seq, time_after(consumer->consume->now.mono_ns, RETRY_NS));
    }
}

void retention_cleared(consumer_t *consumer, uint64_t seq) {
    const retention_traits_t *retention = retention_of(consumer->group);
    if (!retention->acks_remove || retention->only_wanted || consumer->filter_all) return;
    stored_message_t message;
    switch (store_read(consumer->group->stream, seq, &message)) {
    case ENTRY_NONE: return;
    case ENTRY_FOUND:
        if (consumer_matches(consumer, message.subject)) return;
        break;
    case ENTRY_DAMAGED: /* it goes as its acknowledgement says */
    case ENTRY_UNKNOWN: break;
    }
    retention_release(consumer, seq);
}

void retention_acked_range(consumer_t *consumer, uint64_t from, uint64_t upto) {
    if (!retention_of(consumer->group)->acks_remove || !consumer_counts(consumer)) return;
    retention_sweep(consumer->group, from, upto, consumer->consume->now.mono_ns);
}

/* ---- sweeps ------------------------------------------------------------------------------------------------------ */

void retention_sweep(group_t *group, uint64_t from, uint64_t upto, int64_t after_ns) {
    if (upto == 0) { /* everything that is there; a work queue keeps what no consumer took */
        if (!retention_by_interest(group)) return;
        stream_state_t state;
        store_stream_state(group->stream, &state);
        from = state.first_seq;
        upto = state.last_seq + messages_coming(group);
    }
    if (upto == 0) return;
    if (group->sweeping) {
        if (from < group->sweep_from) group->sweep_from = from;
        if (upto > group->sweep_upto) group->sweep_upto = upto;
        group->sweep_changed = true;
        return;
    }
    group->sweeping = true;
    group->sweep_from = from;
    group->sweep_upto = upto;
    group->sweep_after_ns = after_ns;
    group->next_sweeping = group->consume->sweeping;
    group->consume->sweeping = group;
}

void retention_judge(group_t *group, uint64_t from) {
    stream_state_t state;
    store_stream_state(group->stream, &state);
    uint64_t upto = state.last_seq + messages_coming(group);
    if (retention_by_interest(group) && from <= upto) retention_sweep(group, from, upto, group->consume->now.mono_ns);
}

static bool message_is_wanted(group_t *group, uint64_t seq, bytes_t subject) {
    bool anybody = false;
    if (group->count > FEW && retention_by_interest(group)) {
        others_t others = {.seq = seq};
        return !concern_each(&group->concern, group->consumers, group->count, subject, needs_none, &others);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        consumer_t *consumer = group->consumers[i];
        if (!consumer_counts(consumer) || !consumer_matches(consumer, subject)) continue;
        if (consumer_needs(consumer, seq)) return true;
        anybody = true;
    }
    return !anybody && !retention_by_interest(group);
}

/* Has all of its range come, as far as it ever will? */
static bool sweep_has_all(const group_t *group) {
    stream_state_t state;
    store_stream_state(group->stream, &state);
    return state.last_seq >= group->sweep_upto || messages_coming(group) == 0;
}

/* true: finished. */
static bool sweep_step(group_t *group) {
    for (uint32_t looked = 0; looked < SWEEP_BUDGET; looked++) {
        stored_message_t message;
        bool goes_on = false;
        switch (
            store_next(group->stream, (filters_t){0}, &group->sweep_from, group->sweep_upto, SWEEP_BUDGET, &message)) {
        case SEEK_MORE: return false;
        case SEEK_NONE:
            if (sweep_has_all(group)) return true;
            break;
        case SEEK_UNKNOWN: break;
        case SEEK_FOUND:
            goes_on = (!message_is_owed(group, message.seq) && message_is_wanted(group, message.seq, message.subject))
                      || message_let_go(group, message.seq);
        }
        if (!goes_on) {
            group->sweep_after_ns = time_after(group->consume->now.mono_ns, RETRY_NS);
            return false;
        }
        group->sweep_from = message.seq + 1;
    }
    return group->sweep_from > group->sweep_upto;
}

static void group_unlist(group_t *group) {
    for (group_t **link = &group->consume->sweeping; *link; link = &(*link)->next_sweeping) {
        if (*link != group) continue;
        *link = group->next_sweeping;
        break;
    }
    group->sweeping = false;
    free(group->owed);
    group->owed = NULL;
    group->owed_count = 0;
    group->owed_capacity = 0;
}

void retention_tick(consume_t *consume, bool *again) {
    for (group_t *group = consume->sweeping, *next; group; group = next) {
        next = group->next_sweeping;
        if (group->sweep_after_ns > consume->now.mono_ns) continue;
        if (lacks_consumers(group)) {
            group->sweep_after_ns = time_after(consume->now.mono_ns, RETRY_NS);
            continue;
        }
        if (!retention_of(group)->acks_remove || sweep_step(group)) {
            group_unlist(group);
            if (group->sweep_stored) sweep_delete(group);
        } else if (group->sweep_after_ns <= consume->now.mono_ns) {
            *again = true;
        }
    }
}

int64_t retention_deadline(const consume_t *consume) {
    int64_t due = NEVER;
    for (const group_t *group = consume->sweeping; group; group = group->next_sweeping)
        due = earlier(due, group->sweep_after_ns);
    return due;
}

static status_t owed_load(group_t *group, bytes_t owed) {
    uint32_t count = owed.size / 8;
    if (array_reserve(&group->owed, &group->owed_capacity, count, OWED_MIN, sizeof *group->owed) != STATUS_OK) {
        return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) group->owed[i] = load_be64(owed.at + (size_t)i * 8);
    group->owed_count = count;
    return STATUS_OK;
}

status_t retention_load(group_t *group) {
    uint64_t from, upto;
    bytes_t owed = BYTES_NONE;
    stream_state_t state;
    switch (sweep_read(group, &from, &upto, &owed)) {
    case ENTRY_NONE: return STATUS_OK;
    case ENTRY_FOUND:
        if (owed_load(group, owed) != STATUS_OK) return STATUS_NO_MEMORY;
        break;
    case ENTRY_UNKNOWN:
    case ENTRY_DAMAGED: /* where one stood is not known: over all that is there, which takes only what may go */
        store_stream_state(group->stream, &state);
        from = state.first_seq;
        upto = state.last_seq;
        if (upto == 0) return STATUS_OK;
        break;
    }
    /* Consumers that are still to be loaded may need what it would remove. */
    retention_sweep(group, from, upto, time_after(group->consume->now.mono_ns, SWEEP_HOLD_NS));
    return STATUS_OK;
}

void retention_flush(group_t *group) {
    if (!retention_recorded(group)) sweep_write(group);
}

bool retention_recorded(const group_t *group) {
    if (!group->sweeping || !state_lasts(group->stream)) return true;
    return group->sweep_stored && !group->sweep_changed;
}

void retention_forget(group_t *group) {
    if (group->sweeping) group_unlist(group);
    free(group->owed);
    group->owed = NULL;
}
