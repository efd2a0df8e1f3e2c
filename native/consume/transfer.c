/* transfer.c: a consumer's position out of one stream and into another that has the same messages: backups.
 *
 * What travels are the four positions and what is in flight, with wall times, since the other side has another
 * monotonic clock: an ack wait goes on where it was, cut to [0, its length]. What used up its deliveries does not
 * travel; it is not pending. Not here: the bytes of a backup (plane/, Python).
 */
#include "base/visits.h"
#include "consume/deliver.h"
#include "consume/private.h"
#include "consume/push.h"
#include "consume/state.h"

/* The first row in the order above that sequence. */
static uint32_t row_above(consumer_t *consumer, uint64_t after) {
    pending_t *pending = &consumer->pending;
    uint32_t row = after == 0 ? PENDING_NONE : pending_find(pending, after);
    if (row != PENDING_NONE && !(pending_row(pending, row)->flags & PENDING_EXHAUSTED))
        return pending_row(pending, row)->after;
    row = pending->head; /* acknowledged meanwhile: look for its place */
    while (row != PENDING_NONE && pending_row(pending, row)->seq <= after) row = pending_row(pending, row)->after;
    return row;
}

uint32_t consumer_export(consumer_t *consumer, uint64_t after, moment_t now, pending_entry_t *rows, uint32_t max) {
    uint32_t count = 0;
    for (uint32_t row = row_above(consumer, after); row != PENDING_NONE && count < max; count++) {
        const pending_row_t *here = pending_row(&consumer->pending, row);
        int64_t sent_ns = here->due_ns - consumer_wait(consumer, here->deliveries);
        rows[count] = (pending_entry_t){.stream_seq = here->seq,
                                        .consumer_seq = here->consumer_seq,
                                        .delivered_ts = now.wall_ns - (now.mono_ns - sent_ns),
                                        .deliveries = here->deliveries};
        row = here->after;
    }
    return count;
}

static status_t import_row(consumer_t *consumer, const pending_entry_t *from, moment_t now) {
    uint32_t deliveries = from->deliveries == 0           ? 1
                          : from->deliveries > UINT32_MAX ? UINT32_MAX
                                                          : (uint32_t)from->deliveries;
    int64_t wait_ns = consumer_wait(consumer, deliveries);
    int64_t since_ns;
    if (__builtin_sub_overflow(now.wall_ns, from->delivered_ts, &since_ns) || since_ns < 0) since_ns = 0;
    int64_t left_ns = since_ns < wait_ns ? wait_ns - since_ns : 0;
    uint32_t row;
    return pending_add(&consumer->pending, from->stream_seq, from->consumer_seq, time_after(now.mono_ns, left_ns),
                       deliveries, &row);
}

/* As after a start from stored state: everything up to there is settled once the rows are written, and "last per
 * subject" selects what lies behind. */
static void import_cursor(consumer_t *consumer, uint64_t delivered) {
    selection_t *selection = &consumer->selection;
    survey_end(consumer);
    selection->count = selection->next = selection->lost = 0;
    consumer->settled = consumer->acked_upto = delivered;
    consumer->cursor = delivered + 1;
    if (selection->resume > delivered) {
        survey_resume(consumer);
    } else {
        selection->resume = 0;
    }
}

status_t consumer_import(consumer_t *consumer, const consumer_state_t *state, moment_t now) {
    consumer->consume->now = now;
    if (state->delivered_consumer == UINT64_MAX || state->delivered_stream == UINT64_MAX) return STATUS_INVALID;
    if (state->floor_stream > state->delivered_stream || state->floor_consumer > state->delivered_consumer)
        return STATUS_INVALID;
    consumer->next_sequence = state->delivered_consumer + 1;
    consumer->delivered_stream = state->delivered_stream;
    consumer->floor_consumer = state->floor_consumer;
    consumer->floor_stream = state->floor_stream;
    import_cursor(consumer, state->delivered_stream);
    consumer_hold(consumer);
    return STATUS_OK;
}

status_t consumer_import_rows(consumer_t *consumer, const pending_entry_t *rows, uint32_t from, uint32_t upto,
                              moment_t now) {
    consumer->consume->now = now;
    consumer_hold(consumer); /* it delivers nothing before it stands where the other one stood */
    for (uint32_t i = from; i < upto; i++) {
        visits_add(1);
        stored_message_t message;
        uint64_t last = i > 0 ? rows[i - 1].stream_seq : 0;
        if (rows[i].stream_seq <= last || rows[i].stream_seq > consumer->delivered_stream) return STATUS_INVALID;
        switch (store_read(consumer->stream, rows[i].stream_seq, &message)) {
        case ENTRY_UNKNOWN: return STATUS_IO;
        case ENTRY_NONE: continue;
        case ENTRY_DAMAGED: /* nobody has said to be done with it, and it may be there again */
        case ENTRY_FOUND: break;
        }
        status_t status = import_row(consumer, &rows[i], now);
        if (status != STATUS_OK) return status;
    }
    state_dirty(consumer);
    return STATUS_OK;
}

bool consumer_import_stored(const consumer_t *consumer) {
    return !consumer->dirty && (!state_kept(consumer) || consumer->pending.unsettled == PENDING_NONE);
}

void consumer_import_end(consumer_t *consumer, moment_t now) {
    consumer->consume->now = now;
    if (consumer->pending.count == 0) { /* no pending message holds the floor */
        consumer->floor_consumer = consumer->next_sequence - 1;
        consumer->floor_stream = consumer->delivered_stream;
    }
    consumer_recount(consumer);
    consumer_expires_anew(consumer, now.mono_ns);
    state_dirty(consumer);
    consumer_begin(consumer, now);
    consumer_arm(consumer, now.mono_ns);
    consumer_ready(consumer);
}
