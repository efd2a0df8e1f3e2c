/* ack.c: the verbs that clients send back for a delivered message, with exactly the spellings that the reference
 * accepts. */
#include "base/visits.h"
#include "text/blank.h"
#include "text/duration.h"
#include "text/json.h"
#include "consume/deliver.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"

/* The message is done with: row, stored row, floor, retention. false: not now, so it stays pending. */
static bool settle_row(consumer_t *consumer, uint32_t row) {
    if (LEAF_UNLIKELY(!retention_ready(consumer))) return false;
    pending_row_t done = *pending_row(&consumer->pending, row);
    state_row_gone(consumer, row);
    pending_remove(&consumer->pending, row);
    if (!(done.flags & PENDING_EXHAUSTED)) consumer_move_floor(consumer, done.seq, done.consumer_seq);
    if (done.seq > consumer->acked_upto) consumer->acked_upto = done.seq;
    state_dirty(consumer);
    retention_release(consumer, done.seq);
    consumer_ready(consumer); /* max_ack_pending may have stopped its deliveries */
    return true;
}

static void raise_floor(consumer_t *consumer, uint64_t consumer_seq) {
    if (consumer_seq >= consumer->next_sequence) consumer_seq = consumer->next_sequence - 1;
    if (consumer_seq > consumer->floor_consumer) consumer->floor_consumer = consumer_seq;
}

static void clear_row(consumer_t *consumer, uint32_t row) {
    uint64_t seq = pending_row(&consumer->pending, row)->seq;
    visits_add(1);
    state_row_gone(consumer, row);
    pending_remove(&consumer->pending, row);
    retention_cleared(consumer, seq);
}

/* Messages that used up their deliveries are in no order: all rows are looked at. */
static bool clear_exhausted(consumer_t *consumer) {
    pending_t *pending = &consumer->pending;
    if (consumer->clear_exhausted && consumer->clear_at == 0) {
        consumer->clear_at = pending->rows_used;
        consumer->clear_exhausted = false;
    }
    while (consumer->clear_at > 0 && retention_ready(consumer) && leftover_pay(&consumer->consume->ends_left, 1)) {
        uint32_t row = --consumer->clear_at;
        pending_row_t *here = pending_row(pending, row);
        visits_add(1);
        if ((here->flags & PENDING_EXHAUSTED) && here->seq <= consumer->cleared_upto) clear_row(consumer, row);
    }
    return consumer->clear_at == 0 && !consumer->clear_exhausted;
}

void clear_acked(consumer_t *consumer) {
    pending_t *pending = &consumer->pending;
    while (consumer->clear_order) {
        uint32_t row = pending->head;
        if (row == PENDING_NONE || pending_row(pending, row)->seq > consumer->cleared_upto) {
            consumer->clear_order = false;
            break;
        }
        if (!retention_ready(consumer) || !leftover_pay(&consumer->consume->ends_left, 1)) break;
        raise_floor(consumer, pending_row(pending, row)->consumer_seq);
        clear_row(consumer, row);
    }
    if (consumer->clear_order || !clear_exhausted(consumer)) {
        int64_t wait_ns = retention_ready(consumer) ? 1 : RETRY_NS; /* 1: in the next turn */
        consumer_arm(consumer, time_after(consumer->consume->now.mono_ns, wait_ns));
        return;
    }
    state_dirty(consumer);
    consumer_ready(consumer); /* max_ack_pending may have stopped its deliveries */
}

void acknowledge_upto(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq) {
    if (seq <= consumer->floor_stream) return;
    uint64_t first = consumer->floor_stream + 1;
    raise_floor(consumer, consumer_seq);
    consumer->floor_stream = consumer->cleared_upto = seq;
    consumer->clear_order = true;
    if (consumer->pending.exhausted > 0) consumer->clear_exhausted = true;
    clear_acked(consumer);
    consumer->last_acked_wall_ns = consumer->consume->now.wall_ns;
    if (seq > consumer->acked_upto) consumer->acked_upto = seq;
    state_dirty(consumer);
    retention_acked_range(consumer, first, seq);
    consumer_ready(consumer);
}

static void ack_sample(consumer_t *consumer, uint32_t row) {
    uint32_t percent = consumer->setup.config.sample_percent;
    if (percent == 0 || (percent < 100 && (consume_random(consumer->consume) >> 16) % 100 >= percent)) return;
    const pending_row_t *here = pending_row(&consumer->pending, row);
    int64_t sent_ns = here->due_ns - consumer_wait(consumer, here->deliveries);
    consumer_advise(consumer, ADVISORY_ACK_SAMPLE, here->seq, here->consumer_seq, here->deliveries,
                    consumer->consume->now.mono_ns - sent_ns, BYTES_NONE);
}

/* false: not now, so its client hears nothing and says it again. */
static bool ack_one(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq) {
    consumer->last_acked_wall_ns = consumer->consume->now.wall_ns;
    uint32_t row = pending_find(&consumer->pending, seq);
    if (consumer->setup.config.ack_policy == ACK_ALL) {
        if (seq <= consumer->floor_stream || consumer_seq <= consumer->floor_consumer) return true;
        if (row != PENDING_NONE) ack_sample(consumer, row);
        acknowledge_upto(consumer, seq, consumer_seq);
    } else if (row != PENDING_NONE) {
        ack_sample(consumer, row);
        return settle_row(consumer, row);
    }
    return true;
}

/* "1.5s" or {"delay":ns}. false: none was given, or one that cannot be read: a plain NAK. */
static bool nak_delay(bytes_t argument, int64_t *delay_ns) {
    argument = trim_white(argument);
    if (argument.size == 0) return false;
    if (argument.at[0] != '{') return duration_parse(argument, delay_ns) == STATUS_OK;
    json_error_t error;
    if (!json_valid(argument, &error)) return false;
    *delay_ns = 0;
    json_field_t field;
    uint32_t at = 0;
    while (json_next(argument, &at, &field)) {
        if (!json_named(&field, "delay") || field.kind == JSON_NULL) continue;
        if (field.kind != JSON_NUMBER || !json_integer(field.value, delay_ns)) return false;
    }
    return true;
}

static void refuse_message(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq, bytes_t argument) {
    uint32_t row = pending_find(&consumer->pending, seq);
    if (row == PENDING_NONE || consumer_seq <= consumer->floor_consumer || consumer_seq >= consumer->next_sequence)
        return;
    pending_row_t *here = pending_row(&consumer->pending, row);
    if (here->flags & PENDING_EXHAUSTED) return;
    consumer_advise(consumer, ADVISORY_NAKED, seq, consumer_seq, here->deliveries, 0, BYTES_NONE);
    int64_t now_ns = consumer->consume->now.mono_ns, delay_ns;
    if (nak_delay(argument, &delay_ns)) {
        pending_unqueue(&consumer->pending, row);
        here->due_ns = delay_ns > 0 ? time_after(now_ns, delay_ns) : now_ns;
    } else if (pending_queue(&consumer->pending, row) == STATUS_OK) {
        consumer_ready(consumer);
        return;
    } else {
        here->due_ns = now_ns + RETRY_NS;
    }
    consumer_expires_by(consumer, here->due_ns);
    consumer_arm(consumer, consumer->expiry_due_ns);
    state_row_changed(consumer, row);
}

static void in_progress(consumer_t *consumer, uint64_t seq) {
    uint32_t row = pending_find(&consumer->pending, seq);
    if (row == PENDING_NONE) return;
    pending_row_t *here = pending_row(&consumer->pending, row);
    if (here->flags & PENDING_EXHAUSTED) return;
    here->due_ns = time_after(consumer->consume->now.mono_ns, consumer_wait(consumer, here->deliveries));
    consumer_expires_by(consumer, here->due_ns); /* sooner only after a longer delay of a refusal */
    consumer_arm(consumer, here->due_ns);
    state_row_changed(consumer, row);
}

/* As ack_one. */
static bool ack_terminate(consumer_t *consumer, uint64_t seq, uint64_t consumer_seq, bytes_t reason) {
    uint32_t row = pending_find(&consumer->pending, seq);
    if (row == PENDING_NONE) return true;
    uint64_t deliveries = pending_row(&consumer->pending, row)->deliveries;
    consumer->last_acked_wall_ns = consumer->consume->now.wall_ns;
    if (consumer->setup.config.ack_policy == ACK_ALL) {
        acknowledge_upto(consumer, seq, consumer_seq);
    } else if (!settle_row(consumer, row)) {
        return false;
    }
    consumer_advise(consumer, ADVISORY_TERMINATED, seq, consumer_seq, deliveries, 0, trim_white(reason));
    return true;
}

static bytes_t text_behind(bytes_t body, uint32_t size) {
    return bytes_of(body.at + size, body.size - size);
}

void consumer_ack(consumer_t *consumer, uint64_t stream_seq, uint64_t consumer_seq, uint64_t delivered, bytes_t body,
                  bytes_t reply, moment_t now, bool *answer) {
    (void)delivered; /* our own count decides */
    consumer->consume->now = now;
    consumer->active_ns = now.mono_ns;
    *answer = false;
    uint8_t policy = consumer->setup.config.ack_policy;
    if (policy == ACK_NONE || policy == ACK_FLOW_CONTROL) return;
    bool known = stream_seq > 0 && stream_seq <= consumer->delivered_stream;
    bool ack = body.size == 0 || bytes_equal(body, BYTES_LITERAL("+ACK")) || bytes_equal(body, BYTES_LITERAL("+OK"));
    if (bytes_starts(body, BYTES_LITERAL("+NXT"))) {
        if (known) (void)ack_one(consumer, stream_seq, consumer_seq); /* it is delivered again */
        consumer_pull(consumer, reply, text_behind(body, 4), now);
        return;
    }
    bool taken = true;
    if (known && ack) {
        taken = ack_one(consumer, stream_seq, consumer_seq);
    } else if (known && bytes_starts(body, BYTES_LITERAL("-NAK"))) {
        refuse_message(consumer, stream_seq, consumer_seq, text_behind(body, 4));
    } else if (known && bytes_equal(body, BYTES_LITERAL("+WPI"))) {
        in_progress(consumer, stream_seq);
    } else if (known && bytes_starts(body, BYTES_LITERAL("+TERM"))) {
        taken = ack_terminate(consumer, stream_seq, consumer_seq, text_behind(body, 5));
    }
    *answer = reply.size > 0 && known && taken;
}
