/* leave.c: see leave.h. */
#include "consume/leave.h"

#include "base/number.h"
#include "consume/bound.h"
#include "text/subject.h"
#include "consume/state.h"

void consumer_removed(consumer_t *consumer, uint64_t seq, bytes_t subject, uint64_t size) {
    if (LEAF_UNLIKELY(consumer->survey != NULL)) survey_removed(consumer, seq);
    if (seq >= consumer->cursor) {
        if (subject.size == 0) consumer->weight_rough = true; /* it is damaged, and may have counted */
        if (consumer->left_known && consumer->left > 0 && consumer_matches(consumer, subject)) {
            consumer->left--;
            bound_went(consumer, seq, size);
        }
        return;
    }
    if (consumer_selects(consumer, seq)) {
        consumer->selection.lost++;
        if (consumer->left_known && consumer->left > 0) consumer->left--;
        return;
    }
    uint32_t row = pending_find(&consumer->pending, seq);
    if (row == PENDING_NONE) return;
    pending_row_t gone = *pending_row(&consumer->pending, row);
    /* Acknowledged with many others, which is why it goes: its row only waits for its turn. The floor is beyond it. */
    bool cleared = row_cleared(consumer, &gone);
    if (gone.flags & PENDING_STORED) (void)state_orphan(consumer, seq);
    pending_remove(&consumer->pending, row);
    if (!(gone.flags & PENDING_EXHAUSTED) && !cleared) {
        consumer_advise(consumer, ADVISORY_TERMINATED, seq, gone.consumer_seq, gone.deliveries, 0,
                        BYTES_LITERAL("Unacknowledged message was deleted"));
        consumer_move_floor(consumer, seq, gone.consumer_seq);
    }
    consumer->last_acked_wall_ns = consumer->consume->now.wall_ns;
    if (seq > consumer->acked_upto) consumer->acked_upto = seq;
    state_dirty(consumer);
    consumer_ready(consumer);
}

/* Rows to look at. Those that used up their deliveries are in no order: with one of them it is all. */
uint64_t consumer_holds(const consumer_t *consumer) {
    const pending_t *pending = &consumer->pending;
    return pending->exhausted > 0 ? pending->rows_used : pending->count;
}

/* The stream's messages left at once. */
void consumer_emptied(consumer_t *consumer) {
    pending_t *pending = &consumer->pending;
    selection_t *selection = &consumer->selection;
    for (uint32_t row = pending->head, next; row != PENDING_NONE; row = next) {
        next = pending_row(pending, row)->after;
        consumer_removed(consumer, pending_row(pending, row)->seq, BYTES_NONE, 0);
    }
    for (uint32_t row = 0; pending->exhausted > 0 && row < pending->rows_used; row++) {
        const pending_row_t *held = pending_row(pending, row);
        if (held->flags & PENDING_EXHAUSTED) consumer_removed(consumer, held->seq, BYTES_NONE, 0);
    }
    if (consumer->survey) {
        survey_emptied(consumer);
    } else {
        selection->lost = selection->count - selection->next;
    }
    if (consumer->left_known) {
        consumer->left = 0;
        bound_nothing(consumer);
    }
}

/* The sequence below which all that the consumer wants is purged, or at least what lies before the stream's first
 * message. 0: neither. */
static uint64_t purged_below(consumer_t *consumer, bytes_t filter, uint64_t left) {
    filters_t own = consumer->setup.filters;
    bool inside = filter.size == 0 || own.count > 0, touched = own.count == 0;
    for (uint32_t i = 0; filter.size > 0 && i < own.count && (inside || !touched); i++) {
        bool within = subject_is_subset(own.patterns[i], filter);
        inside = inside && within;
        touched = touched || within || subject_is_subset(filter, own.patterns[i]);
    }
    if (inside) return left;
    stream_state_t stream;
    store_stream_state(consumer->stream, &stream);
    return touched ? stream.first_seq : 0;
}

/* As the reference: a purge moves on the consumers that it took something from, other removals do not. Called from
 * inside the store. */
void consumer_purged(consumer_t *consumer, bytes_t filter, uint64_t left) {
    uint64_t below = purged_below(consumer, filter, left);
    if (below <= 1 || survey_is_new(consumer)) return;
    consumer->delivered_stream = number_most(consumer->delivered_stream, below - 1);
    consumer->floor_stream = number_most(consumer->floor_stream, below - 1);
    consumer->acked_upto = number_most(consumer->acked_upto, below - 1);
    if (consumer->pending.count == 0) {
        consumer->floor_consumer = consumer->next_sequence - 1;
        consumer->floor_stream = consumer->delivered_stream;
    }
    state_dirty(consumer);
}
