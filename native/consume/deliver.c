/* deliver.c: the delivery loop of one consumer: what comes next (redeliveries before new messages), to whom, and what
 * has to be recorded of it; and what happens when acknowledgements do not come. Nothing is allocated for a message,
 * except when pending grows. */
#include <stdlib.h>

#include "consume/deliver.h"
#include "consume/bound.h"
#include "consume/private.h"
#include "consume/retention.h"
#include "consume/state.h"
#include "store/retention.h"
#include "text/decimal.h"

#define UNREADABLE_NS (30 * NS_PER_SECOND) /* between two tries at a pending message that cannot be read */
#define PASSED_OVER_MAX 1024               /* rows to be delivered again that turn out not to be, in one search */
#define EXHAUSTED_KEPT 65536 /* where retention does not need them, only so many are kept, for num_redelivered */

typedef struct outgoing {
    stored_message_t message;
    uint32_t row;        /* PENDING_NONE: a new one of a consumer without acks */
    uint64_t deliveries; /* this one included */
    bool again;          /* a redelivery */
    bool from_selection;
    bytes_t reply, header, payload;
    uint64_t left; /* behind it */
    uint64_t size; /* as the client counts it */
} outgoing_t;

typedef enum search_end { FOUND, FOUND_END, FOUND_STALLED, FOUND_LATER, FOUND_AGAIN, FOUND_UNREADABLE } search_end_t;
typedef enum sent { SENT, SENT_WAIT, SENT_NOBODY, SENT_BLOCKED, SENT_UNWANTED } sent_t;

bool consumer_has_demand(const consumer_t *consumer) {
    if (consumer_paused(consumer) || consumer->not_before_ns > consumer->consume->now.mono_ns) return false;
    if (!consumer_is_push(consumer)) return consumer->pull->requests.count > 0;
    return consumer->push.active && push_window_open(consumer);
}

static bool consumer_acks(const consumer_t *consumer) {
    return consumer->setup.config.ack_policy != ACK_NONE;
}

/* ---- the next message to deliver --------------------------------------------------------------------------------- */

static bool deliveries_used_up(const consumer_t *consumer, uint32_t deliveries) {
    int32_t most = consumer->setup.config.max_deliver;
    return most > 0 && deliveries >= (uint32_t)most;
}

void consumer_exhaust(consumer_t *consumer, uint32_t row) {
    pending_row_t *here = pending_row(&consumer->pending, row);
    uint64_t seq = here->seq;
    consumer_advise(consumer, ADVISORY_MAX_DELIVERIES, seq, here->consumer_seq, here->deliveries, 0, BYTES_NONE);
    if (!retention_traits(store_stream_config(consumer->stream))->acks_remove
        && consumer->pending.exhausted >= EXHAUSTED_KEPT) {
        state_row_gone(consumer, row);
        pending_remove(&consumer->pending, row);
    } else {
        pending_exhaust(&consumer->pending, row);
        here->flags |= PENDING_STORED; /* the row left the order, where a flush would have found it */
        state_row_changed(consumer, row);
    }
    if (seq > consumer->acked_upto) consumer->acked_upto = seq;
    state_dirty(consumer);
}

/* A pending message that the store does not have (any more). */
static void drop_row(consumer_t *consumer, uint32_t row) {
    pending_row_t gone = *pending_row(&consumer->pending, row);
    state_row_gone(consumer, row);
    pending_remove(&consumer->pending, row);
    consumer_advise(consumer, ADVISORY_TERMINATED, gone.seq, gone.consumer_seq, gone.deliveries, 0,
                    BYTES_LITERAL("Unacknowledged message was deleted"));
    consumer->last_acked_wall_ns = consumer->consume->now.wall_ns;
    if (gone.seq > consumer->acked_upto) consumer->acked_upto = gone.seq;
    consumer_move_floor(consumer, gone.seq, gone.consumer_seq);
    state_dirty(consumer);
}

/* A pending message that cannot be read now: it stays pending and is tried again, as if it had just been delivered. A
 * damaged one stays pending until it is acknowledged, terminated or removed, or its deliveries are used up, because no
 * client has said that it is done with it. */
static void put_off(consumer_t *consumer, uint32_t row) {
    pending_pop_queued(&consumer->pending);
    pending_row_t *here = pending_row(&consumer->pending, row);
    here->due_ns = time_after(consumer->consume->now.mono_ns, UNREADABLE_NS);
    consumer_expires_by(consumer, here->due_ns);
    consumer_arm(consumer, consumer->expiry_due_ns);
}

static search_end_t find_again(consumer_t *consumer, outgoing_t *out) {
    for (uint32_t passed = 0; passed < PASSED_OVER_MAX; passed++) {
        uint32_t row = pending_first_queued(&consumer->pending);
        if (row == PENDING_NONE) return FOUND_END;
        pending_row_t *here = pending_row(&consumer->pending, row);
        visits_add(1);
        if (row_cleared(consumer, here)) {
            pending_pop_queued(&consumer->pending);
            continue;
        }
        if (deliveries_used_up(consumer, here->deliveries)) {
            consumer_exhaust(consumer, row);
            continue;
        }
        switch (store_read(consumer->stream, here->seq, &out->message)) {
        case ENTRY_NONE: drop_row(consumer, row); continue;
        case ENTRY_DAMAGED:
        case ENTRY_UNKNOWN: put_off(consumer, row); continue;
        case ENTRY_FOUND: break;
        }
        out->row = row;
        out->deliveries = here->deliveries + UINT64_C(1);
        out->again = true;
        return FOUND;
    }
    return FOUND_AGAIN;
}

/* Nothing more up to the visible end. If the store has nothing beyond it either, the count is zero whatever it says: a
 * corrupt message was counted and stepped over. */
static search_end_t at_end(consumer_t *consumer, uint64_t visible) {
    if (consumer->cursor <= visible) consumer->cursor = visible + 1;
    if (consumer->left_known && consumer->left > 0) {
        stream_state_t state;
        store_stream_state(consumer->stream, &state);
        if (state.last_seq <= visible) {
            consumer->left = 0;
            bound_nothing(consumer);
        }
    }
    uint64_t left = consumer_left(consumer);
    if (!consumer->left_known) return FOUND_UNREADABLE;
    return left > 0 ? FOUND_LATER : FOUND_END;
}

/* All delivered: the list of sequences, a million for a million keys, can be released. */
static void selection_end(selection_t *selection) {
    if (!selection->seqs) return;
    free(selection->seqs);
    selection->seqs = NULL;
    selection->capacity = 0;
    selection->count = selection->next = selection->lost = 0;
}

static search_end_t find_new(consumer_t *consumer, outgoing_t *out) {
    pending_t *pending = &consumer->pending;
    int32_t most = consumer->setup.config.max_ack_pending;
    out->again = out->from_selection = false;
    out->row = PENDING_NONE;
    out->deliveries = 1;
    if (consumer_acks(consumer)) {
        if (most > 0 && pending->count >= (uint32_t)most) return FOUND_STALLED;
        if (pending_is_full(pending)) return FOUND_STALLED;
    }
    uint64_t visible = store_stream_visible(consumer->stream);
    selection_t *selection = &consumer->selection;
    for (; selection->next < selection->count; selection->next++) {
        if (selection->seqs[selection->next] > visible) return FOUND_LATER;
        switch (store_read(consumer->stream, selection->seqs[selection->next], &out->message)) {
        case ENTRY_UNKNOWN: return FOUND_UNREADABLE;
        case ENTRY_NONE: selection->lost -= selection->lost > 0; continue;
        case ENTRY_DAMAGED: continue; /* which was alarmed */
        case ENTRY_FOUND: break;
        }
        out->from_selection = true;
        return FOUND;
    }
    selection_end(selection);
    if (consumer->cursor > visible) return at_end(consumer, visible);
    uint64_t from = consumer->cursor;
    switch (store_next_ahead(consumer->stream, &consumer->ahead, consumer->setup.filters, &from, visible, SCAN_BUDGET,
                             &out->message)) {
    case SEEK_FOUND: return FOUND;
    case SEEK_MORE: consumer->cursor = from; return FOUND_AGAIN;
    case SEEK_NONE: return at_end(consumer, visible);
    case SEEK_UNKNOWN: break; /* what is stored up to the visible end is not known, so nothing is skipped */
    }
    return FOUND_UNREADABLE;
}

/* ---- headers of a delivery --------------------------------------------------------------------------------------- */

/* The header block with one more line, in that buffer. */
static status_t header_add(buffer_t *buffer, bytes_t stored, bytes_t name, bytes_t value, bytes_t *out) {
    uint8_t *place;
    buffer->size = 0;
    status_t status = buffer_reserve(buffer, (uint64_t)stored.size + name.size + value.size + 32, &place);
    if (status != STATUS_OK) return status;
    bytes_t before = BYTES_LITERAL("NATS/1.0\r\n");
    if (stored.size > 2) before = bytes_of(stored.at, stored.size - 2); /* without the empty line */
    uint8_t *at = bytes_write(place, before);
    at = bytes_write(at, name);
    at = bytes_write(at, BYTES_LITERAL(": "));
    at = bytes_write(at, value);
    at = bytes_write(at, BYTES_LITERAL("\r\n\r\n"));
    *out = bytes_of(place, (uint32_t)(at - place));
    return STATUS_OK;
}

static status_t header_with_size(consumer_t *consumer, outgoing_t *out) {
    uint8_t digits[DECIMAL_MAX];
    bytes_t size = bytes_of(digits, (uint32_t)(decimal_write(digits, out->message.payload.size) - digits));
    out->payload = BYTES_NONE;
    return header_add(&consumer->consume->header, out->header, BYTES_LITERAL("Nats-Msg-Size"), size, &out->header);
}

static status_t outgoing_shape(consumer_t *consumer, outgoing_t *out) {
    uint8_t *reply = consumer->consume->reply; /* consumer_run wrote its prefix */
    uint64_t left = consumer_left(consumer);
    if (!out->again && left > 0) left--;
    uint8_t *at = decimal_write(reply + consumer->ack_prefix.size, out->deliveries);
    *at++ = '.';
    at = decimal_write(at, out->message.seq);
    *at++ = '.';
    at = decimal_write(at, consumer->next_sequence);
    *at++ = '.';
    at = decimal_write(at, out->message.ts > 0 ? (uint64_t)out->message.ts : 0);
    *at++ = '.';
    at = decimal_write(at, left);
    out->reply = bytes_of(reply, (uint32_t)(at - reply));
    out->left = left;
    out->header = out->message.header;
    out->payload = out->message.payload;
    status_t status = STATUS_OK;
    if (consumer->setup.config.flags & CONSUMER_HEADERS_ONLY) status = header_with_size(consumer, out);
    out->size = (uint64_t)out->message.subject.size + out->reply.size + out->header.size + out->payload.size;
    return status;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static delivered_t hand_over(consumer_t *consumer, const outgoing_t *out, bytes_t to, bytes_t group) {
    delivery_t delivery = {.consumer = consumer,
                           .flow = consumer_flow(consumer, out->left),
                           .to = to,
                           .group = group,
                           .subject = out->message.subject,
                           .reply = out->reply,
                           .header = out->header,
                           .payload = out->payload};
    delivery.flow.size = (uint64_t)out->header.size + out->payload.size;
    if (LEAF_UNLIKELY(priority_pins(consumer))
        && header_add(&consumer->consume->pinned, out->header, BYTES_LITERAL("Nats-Pin-Id"), consumer_pin_id(consumer),
                      &delivery.header)
               != STATUS_OK) {
        return DELIVERED_FULL; /* no memory: tried again in the next turn */
    }
    return consumer->consume->out.deliver(consumer->consume->out.context, &delivery);
}

/* A status was published since the message was read, and a stream may have stored it, which invalidates the message:
 * read it again. */
static bool outgoing_refresh(consumer_t *consumer, outgoing_t *out) {
    switch (store_read(consumer->stream, out->message.seq, &out->message)) {
    case ENTRY_UNKNOWN:
    case ENTRY_NONE:
    case ENTRY_DAMAGED: return false; /* what it has become is found out with its next delivery */
    case ENTRY_FOUND: break;
    }
    return outgoing_shape(consumer, out) == STATUS_OK;
}

static sent_t nobody_served(const consumer_t *consumer) {
    const requests_t *requests = &consumer->pull->requests;
    if (requests->count == 0) return SENT_NOBODY;
    return requests->full > 0 ? SENT_BLOCKED : SENT_UNWANTED;
}

static offer_t offer_of(const consumer_t *consumer, const outgoing_t *out) {
    /* A new message has its row already, and is counted as left until it is sent. */
    bool tracked = consumer_acks(consumer) && !out->again;
    return (offer_t){.size = out->size,
                     .pending = consumer->left + (out->again ? 1u : 0u),
                     .unacked = consumer->pending.count - (tracked ? 1u : 0u)};
}

static sent_t send_to_request(consumer_t *consumer, outgoing_t *out) {
    for (;;) {
        uint32_t before = consumer->pull->requests.count;
        offer_t offer = offer_of(consumer, out);
        request_t *request = pull_next(consumer, &offer);
        if (!request) {
            sent_t sent = nobody_served(consumer);
            pull_awaken(consumer);
            return sent;
        }
        if (consumer->pull->requests.count != before && !outgoing_refresh(consumer, out)) return SENT_NOBODY;
        switch (hand_over(consumer, out, bytes_of(request->reply, request->reply_size), BYTES_NONE)) {
        case DELIVERED: pull_served(consumer, request, out->size); return SENT;
        case DELIVERED_NO_INTEREST: pull_lost(consumer, request); break;
        case DELIVERED_FULL: pull_full(consumer, request); break;
        }
    }
}

static sent_t send_to_subject(consumer_t *consumer, const outgoing_t *out) {
    switch (hand_over(consumer, out, consumer->setup.deliver_subject, consumer->setup.deliver_group)) {
    case DELIVERED: push_sent(consumer, out->size + consumer->setup.deliver_subject.size); return SENT;
    case DELIVERED_FULL: return SENT_BLOCKED;
    default: push_review(consumer); return SENT_NOBODY;
    }
}

/* Replay original and the rate limit: 0, or how long to wait. */
static int64_t outgoing_wait(consumer_t *consumer, const outgoing_t *out) {
    if (consumer->replay_upto > 0 && !out->again) {
        if (out->message.seq > consumer->replay_upto) {
            consumer->replay_upto = 0;
        } else if (consumer->replay_last_ts > 0 && out->message.ts > consumer->replay_last_ts) {
            int64_t due = time_after(consumer->replay_sent_ns, out->message.ts - consumer->replay_last_ts);
            if (due > consumer->consume->now.mono_ns) return due - consumer->consume->now.mono_ns;
        }
    }
    return consumer_is_push(consumer) ? push_rate_wait(consumer, out->size) : 0;
}

static void remember_again(consumer_t *consumer, const outgoing_t *out) {
    pending_row_t *row = pending_row(&consumer->pending, out->row);
    pending_pop_queued(&consumer->pending);
    pending_count_delivery(&consumer->pending, out->row);
    row->due_ns = time_after(consumer->consume->now.mono_ns, consumer_wait(consumer, row->deliveries));
    consumer_expires_by(consumer, row->due_ns);
    consumer_arm(consumer, consumer->expiry_due_ns);
    state_row_changed(consumer, out->row);
}

static void remember_new(consumer_t *consumer, const outgoing_t *out) {
    uint64_t seq = out->message.seq;
    if (out->from_selection) {
        consumer->selection.next++;
    } else {
        consumer->cursor = seq + 1;
    }
    if (seq > consumer->delivered_stream) consumer->delivered_stream = seq;
    if (consumer->left > 0) {
        consumer->left--;
        bound_went(consumer, seq, bound_size(&out->message));
    }
    consumer->replay_last_ts = out->message.ts;
    consumer->replay_sent_ns = consumer->consume->now.mono_ns;
    if (consumer_acks(consumer)) {
        int64_t due_ns = pending_row(&consumer->pending, out->row)->due_ns;
        consumer_expires_by(consumer, due_ns);
        consumer_arm(consumer, due_ns);
    } else {
        consumer->floor_consumer = consumer->next_sequence;
        consumer->floor_stream = seq;
    }
}

/* After this the message's bytes are not valid any more: retention may have removed it. */
static void outgoing_remember(consumer_t *consumer, const outgoing_t *out) {
    uint64_t seq = out->message.seq;
    if (out->again) {
        remember_again(consumer, out);
    } else {
        remember_new(consumer, out);
    }
    consumer->next_sequence++;
    consumer->last_delivered_wall_ns = consumer->consume->now.wall_ns;
    consumer->active_ns = consumer->consume->now.mono_ns;
    if (consumer_is_push(consumer)) push_counted(consumer);
    state_lazy(consumer);
    if (!consumer_acks(consumer)) retention_release(consumer, seq);
}

static sent_t wait_until(consumer_t *consumer, int64_t wait_ns) {
    consumer->not_before_ns = time_after(consumer->consume->now.mono_ns, wait_ns);
    consumer_arm(consumer, consumer->not_before_ns);
    return SENT_WAIT;
}

static sent_t send_one(consumer_t *consumer, outgoing_t *out) {
    if (outgoing_shape(consumer, out) != STATUS_OK) return wait_until(consumer, RETRY_NS);
    int64_t hold_ns = outgoing_wait(consumer, out);
    if (hold_ns > 0) return wait_until(consumer, hold_ns);
    bool tracked = consumer_acks(consumer) && !out->again;
    if (tracked) { /* before it is sent, because this may fail */
        int64_t due_ns = time_after(consumer->consume->now.mono_ns, consumer_wait(consumer, 1));
        status_t status =
            pending_add(&consumer->pending, out->message.seq, consumer->next_sequence, due_ns, 1, &out->row);
        if (status != STATUS_OK) return wait_until(consumer, RETRY_NS);
    }
    sent_t sent = consumer_is_push(consumer) ? send_to_subject(consumer, out) : send_to_request(consumer, out);
    if (sent == SENT) {
        outgoing_remember(consumer, out);
    } else if (tracked) {
        pending_remove(&consumer->pending, out->row);
    }
    return sent;
}

/* ---- one turn ---------------------------------------------------------------------------------------------------- */

static search_end_t outgoing_find(consumer_t *consumer, outgoing_t *out) {
    if (consumer->pending.queued > 0) {
        search_end_t found = find_again(consumer, out);
        if (found != FOUND_END) return found;
    }
    return find_new(consumer, out);
}

static turn_t nothing_found(consumer_t *consumer, search_end_t found, uint32_t *budget) {
    switch (found) {
    case FOUND_AGAIN: *budget -= *budget < SCAN_BUDGET / 4 ? *budget : SCAN_BUDGET / 4; return TURN_MORE;
    case FOUND_END: pull_end_of_stream(consumer); break;
    case FOUND_LATER: return TURN_LATER;
    case FOUND_UNREADABLE:
        store_note_waiting(store_stream_store(consumer->stream));
        (void)wait_until(consumer, RETRY_NS);
        break;
    case FOUND_STALLED:
        if (consumer->setup.config.ack_policy == ACK_FLOW_CONTROL && !consumer->push.flow_open)
            push_flow_request(consumer);
        break;
    default: break;
    }
    return TURN_IDLE;
}

turn_t consumer_run(consumer_t *consumer, uint32_t *budget) {
    uint32_t messages = *budget < QUANTUM_MESSAGES ? *budget : QUANTUM_MESSAGES;
    uint64_t bytes = 0;
    if (LEAF_UNLIKELY(!consumer->left_known)) {
        if (!consumer_has_demand(consumer)) return TURN_IDLE;
        /* Also when that was the last step: a caller that waits for the count gets it before anything is delivered. */
        const store_t *store = store_stream_store(consumer->stream);
        uint64_t unknown = store_unknown(store);
        bool counted = consumer_counted(consumer);
        if (LEAF_UNLIKELY(!counted && store_unknown(store) != unknown)) {
            (void)wait_until(consumer, RETRY_NS);
            return TURN_IDLE;
        }
        *budget -= *budget < COUNT_BUDGET / 4 ? *budget : COUNT_BUDGET / 4;
        return TURN_MORE;
    }
    (void)bytes_write(consumer->consume->reply, consumer->ack_prefix);
    if (LEAF_UNLIKELY(priority_begins_anew(consumer))) pull_awaken(consumer);
    for (; messages > 0 && bytes < QUANTUM_BYTES; messages--, --*budget) {
        if (!consumer_has_demand(consumer)) return TURN_IDLE;
        outgoing_t out;
        search_end_t found = outgoing_find(consumer, &out);
        if (found != FOUND) return nothing_found(consumer, found, budget);
        switch (send_one(consumer, &out)) {
        case SENT: bytes += out.size; break;
        case SENT_BLOCKED: return TURN_BLOCKED;
        case SENT_UNWANTED: pull_end_of_stream(consumer); return TURN_IDLE;
        case SENT_NOBODY: return TURN_LATER;
        case SENT_WAIT: return TURN_IDLE;
        }
    }
    return TURN_MORE;
}

/* ---- acknowledgements that do not come --------------------------------------------------------------------------- */

/* One whose ack wait passed. Returns when it is to be looked at again. */
static int64_t expire_row(consumer_t *consumer, uint32_t row, int64_t now_ns) {
    const pending_row_t *here = pending_row(&consumer->pending, row);
    if ((here->flags & PENDING_QUEUED) || row_cleared(consumer, here)) return NEVER;
    if (here->due_ns > now_ns && !(consumer->again_all && !deliveries_used_up(consumer, here->deliveries)))
        return here->due_ns;
    if (deliveries_used_up(consumer, here->deliveries)) {
        consumer_exhaust(consumer, row);
        return NEVER;
    }
    return pending_queue(&consumer->pending, row) == STATUS_OK ? NEVER : now_ns + RETRY_NS;
}

/* Looks at every pending message, as many in a turn as its budget has; the next look comes when the earliest of them is
 * due, but with very many of them not before a time that keeps this search at a thousandth of the processor's time.
 * They are queued in stream order. */
void consumer_expire(consumer_t *consumer) {
    int64_t now_ns = consumer->consume->now.mono_ns;
    pending_t *pending = &consumer->pending;
    if (!consumer->expiring) {
        int64_t soonest_ns = time_after(consumer->expiry_last_ns, (int64_t)pending->count * 1000);
        if (consumer->expiry_last_ns > 0 && soonest_ns > now_ns) {
            consumer->expiry_due_ns = soonest_ns;
            return;
        }
        consumer->expiring = true;
        consumer->expiry_last_ns = now_ns;
        consumer->expiry_later_ns = NEVER;
        pending->looked = pending->head;
    }
    while (pending->looked != PENDING_NONE && leftover_pay(&consumer->consume->ends_left, 1)) {
        uint32_t row = pending->looked;
        pending->looked = pending_row(pending, row)->after;
        visits_add(1);
        consumer->expiry_later_ns = earlier(consumer->expiry_later_ns, expire_row(consumer, row, now_ns));
    }
    consumer->expiring = pending->looked != PENDING_NONE;
    consumer->again_all = consumer->again_all && consumer->expiring;
    /* In the next turn, not again in this one. */
    consumer->expiry_due_ns = consumer->expiring ? time_after(now_ns, 1) : consumer->expiry_later_ns;
}

/* Messages that wait for an acknowledgement went to a subject that may have no listener any more: they are delivered
 * again. As the reference: what has used up its deliveries keeps its time. */
void consumer_deliver_again(consumer_t *consumer) {
    consumer->again_all = consumer->expiring = true;
    consumer->expiry_last_ns = consumer->consume->now.mono_ns;
    consumer->expiry_later_ns = NEVER;
    consumer->pending.looked = consumer->pending.head;
    consumer_expire(consumer);
    consumer_arm(consumer, consumer->expiry_due_ns);
}
